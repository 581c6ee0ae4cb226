//! The verdict on a new version, sample by sample.

use proptest::prelude::*;

use super::*;

const OLD: ProcessId = ProcessId { pid: 100, start_time: 1 };

fn new(pid: u32) -> ProcessId {
    ProcessId { pid, start_time: 2 }
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// The old main process, nothing else.
fn old() -> Sample {
    Sample {
        at: Duration::ZERO,
        main: Some(Main { id: OLD, is_new: false }),
        new_alive: BTreeSet::new(),
        reaped: false,
        unit: Some(UnitSample { active: true, restarts: Some(0), ..UnitSample::default() }),
        readiness: None,
    }
}

/// The same, and a child of its has ended.
fn reaped() -> Sample {
    Sample { reaped: true, ..old() }
}

/// The old main process beside one of the new version.
fn beside(pid: u32) -> Sample {
    Sample { new_alive: [new(pid)].into(), ..old() }
}

/// The new version's main process.
fn main(pid: u32, readiness: Readiness) -> Sample {
    let main = Some(Main { id: new(pid), is_new: true });
    Sample { main, readiness: Some(readiness), ..beside(pid) }
}

fn ready(pid: u32) -> Sample {
    main(pid, Readiness::Ready { pid: Some(pid) })
}

fn not_ready(pid: u32) -> Sample {
    main(pid, Readiness::NotReady { pid: Some(pid), text: "not joined".to_owned() })
}

fn down(unit: UnitSample) -> Sample {
    Sample { main: None, unit: Some(unit), ..old() }
}

/// No process, and a unit that waits for its next start.
fn restarting(after: Option<f64>) -> Sample {
    let restart_after = after.map(secs);
    down(UnitSample { auto_restart: true, restart_after, restarts: Some(0), ..UnitSample::default() })
}

/// No process, and whether somebody else has ended it.
fn ended(stopped: Option<bool>) -> Sample {
    down(UnitSample { stopped, unstarted: stopped != Some(false), ..UnitSample::default() })
}

/// What is seen from these times on, as looks each 100 ms for two minutes.
fn looks(script: &[(f64, Sample)]) -> Vec<Sample> {
    let at = (0..1200).map(|tenth| f64::from(tenth) / 10.0);
    let seen = |at| script.iter().rfind(|(from, _)| *from <= at).unwrap().1.clone();
    at.map(|at| Sample { at: secs(at), ..seen(at) }).collect()
}

/// The script leads to this verdict at this time: `healthy`, `unproven`, `unstarted`, or a failure with these words.
#[track_caller]
fn leads_to(judge: &Judge, script: &[(f64, Sample)], at: f64, verdict: &str) {
    let samples = looks(script);
    let (found_at, found) = densely(judge.clone(), &samples).expect("no verdict in two minutes");
    assert_eq!(sparsely(judge.clone(), &samples), Some((found_at, found.clone())));
    assert_eq!(found_at, Duration::from_millis((at * 1000.0) as u64), "{found:?}");
    match found {
        Verdict::Healthy { after } => assert_eq!((verdict, found_at), ("healthy", after)),
        Verdict::Unproven { .. } => assert_eq!(verdict, "unproven"),
        Verdict::Unstarted { .. } => assert_eq!(verdict, "unstarted"),
        Verdict::Failed { reason } => assert!(reason.contains(verdict), "{reason}"),
    }
}

/// Feeds all of them until a verdict.
fn densely(mut judge: Judge, samples: &[Sample]) -> Option<(Duration, Verdict)> {
    samples.iter().find_map(|sample| Some((sample.at, judge.feed(sample)?)))
}

/// Feeds those in which something happened, and those that are due.
fn sparsely(mut judge: Judge, samples: &[Sample]) -> Option<(Duration, Verdict)> {
    let mut due = Duration::ZERO;
    let mut last: Option<Sample> = None;
    samples.iter().find_map(|sample| {
        let quiet = last.as_ref().is_some_and(|last| *sample == Sample { at: sample.at, ..last.clone() });
        if quiet && sample.at < due {
            return None;
        }
        last = Some(sample.clone());
        let verdict = judge.feed(sample);
        due = judge.due(sample.at);
        Some((sample.at, verdict?))
    })
}

fn fresh() -> Judge {
    Judge::new(HealthSettings::default(), false, false, false)
}

/// Of an agent whose socket answered before.
fn served(reloaded: bool) -> Judge {
    Judge::new(HealthSettings::default(), true, false, reloaded)
}

/// Of an agent that failed before.
fn failing(served: bool) -> Judge {
    Judge::new(HealthSettings::default(), served, true, false)
}

#[test]
fn a_new_process_is_healthy_once_it_was_ready_for_five_seconds_or_stood_thirty() {
    let healthy = |script: &[(f64, Sample)], at| leads_to(&fresh(), script, at, "healthy");
    healthy(&[(0.0, old()), (1.0, ready(7))], 6.0);
    healthy(&[(0.0, main(7, Readiness::Ready { pid: None }))], 5.0);
    healthy(&[(0.0, main(7, Readiness::NoSocket))], 30.0);
    healthy(&[(0.0, main(7, Readiness::Broken))], 30.0);
    // It came late, or again.
    healthy(&[(0.0, old()), (59.0, main(7, Readiness::NoSocket))], 89.0);
    healthy(&[(0.0, ready(7)), (3.0, down(UnitSample::default())), (4.0, ready(8))], 9.0);
    let preparing = down(UnitSample { active: true, ..UnitSample::default() });
    healthy(&[(0.0, preparing), (20.0, ready(7))], 25.0);
    // It was restarting when we came, and our start is just being taken up.
    healthy(&[(0.0, restarting(Some(5.0))), (0.4, ready(7))], 5.4);
    healthy(&[(0.0, not_ready(7)), (59.0, ready(7))], 61.0);
}

#[test]
fn a_successor_that_takes_its_time_to_take_over_is_waited_for_and_must_then_be_ready_for_a_moment() {
    let beside_for_long = [(0.0, beside(7)), (20.0, ready(7))];
    let went_on = |more: &[(f64, Sample)]| [&beside_for_long, more].concat();
    leads_to(&fresh(), &beside_for_long, 22.0, "healthy");
    leads_to(&fresh(), &went_on(&[(21.0, main(7, Readiness::Broken)), (21.5, ready(7))]), 23.5, "healthy");
    leads_to(&fresh(), &went_on(&[(21.9, old())]), 23.9, "the old version keeps running");
    // A child of another kind ends meanwhile.
    leads_to(&fresh(), &[(0.0, Sample { reaped: true, ..beside(7) }), (6.0, ready(7))], 8.0, "healthy");
    leads_to(&fresh(), &[(0.0, reaped()), (3.0, ready(7))], 8.0, "healthy");
}

#[test]
fn what_is_not_ready_or_not_the_new_version_at_the_deadline_has_failed() {
    let others_answer = main(7, Readiness::Ready { pid: Some(OLD.pid) });
    leads_to(&served(false), &[(0.0, main(7, Readiness::NoSocket))], 60.0, "does not answer");
    leads_to(&served(false), &[(0.0, others_answer)], 60.0, "another process answers");
    let why = "the agent is not ready after 60 s: /readyz says: not joined";
    leads_to(&fresh(), &[(0.0, not_ready(7))], 60.0, why);
    leads_to(&fresh(), &[(0.0, not_ready(7)), (59.0, ready(7)), (60.5, not_ready(7))], 60.5, "not ready");
    leads_to(&fresh(), &[(0.0, old())], 60.0, "the old version was still running after 60 s");
}

#[test]
fn what_ended_and_is_not_started_again_soon_has_failed_long_before_the_deadline() {
    let died = |unit: Sample| [(0.0, main(7, Readiness::NoSocket)), (0.3, unit)];
    for (after, at) in [(Some(5.0), 0.8), (Some(2.0), 0.8), (Some(1.9), 2.3), (Some(0.1), 2.3), (None, 2.3)] {
        leads_to(&fresh(), &died(restarting(after)), at, "exited shortly");
    }
    leads_to(&fresh(), &[(0.0, restarting(None))], 2.0, "exited shortly");
    leads_to(&fresh(), &[(0.0, down(UnitSample::default()))], 4.0, "did not start");
    leads_to(&fresh(), &[(0.0, Sample { unit: None, ..down(UnitSample::default()) })], 4.0, "did not start");
    let failed = down(UnitSample { failed: Some("start-limit-hit".to_owned()), ..UnitSample::default() });
    leads_to(&fresh(), &[(0.0, failed)], 0.0, "the service failed (start-limit-hit)");
    // A successor that was seen, and one that only left its trace in the old process.
    leads_to(&fresh(), &[(0.0, old()), (0.5, beside(7)), (1.5, old())], 3.5, "the old version keeps running");
    leads_to(&fresh(), &[(0.0, reaped())], 4.0, "exited immediately");
}

#[test]
fn three_restarts_are_a_loop_from_whatever_count_they_began() {
    let counted = |at: u32| Sample {
        unit: Some(UnitSample { active: true, restarts: Some(5 + at), ..UnitSample::default() }),
        ..old()
    };
    for look in [&counted as &dyn Fn(u32) -> Sample, &|at| ready(10 + at)] {
        let script: Vec<_> = (0..10).map(|at| (f64::from(at), look(at))).collect();
        leads_to(&fresh(), &script, 3.0, "exited several times");
    }
}

#[test]
fn an_agent_that_failed_before_cannot_make_the_new_version_bad() {
    let failed = down(UnitSample { failed: Some("exit-code".to_owned()), ..UnitSample::default() });
    leads_to(&failing(true), &[(0.0, failed)], 0.0, "unproven");
    leads_to(&failing(true), &[(0.0, main(7, Readiness::NoSocket))], 60.0, "unproven");
    leads_to(&failing(false), &[(0.0, reaped())], 4.0, "unproven");
}

#[test]
fn a_stop_by_somebody_else_ends_the_check_without_blame_and_an_end_by_itself_does_not() {
    let stopped = || ended(Some(true));
    let then = |unit: Sample| [(0.0, ready(7)), (2.0, unit)];
    leads_to(&served(false), &then(stopped()), 2.0, "unproven");
    leads_to(&served(true), &then(ended(Some(false))), 4.0, "exited");
    leads_to(&served(true), &then(ended(None)), 4.0, "exited");
    // Before the successor has taken over, and not where the service action itself has stopped the agent.
    leads_to(&served(true), &[(0.0, old()), (1.0, stopped())], 1.0, "unproven");
    leads_to(&served(false), &[(0.0, old()), (1.0, stopped())], 5.0, "unstarted");
    // A slow restart is judged by what it starts.
    let slow = down(UnitSample { active: true, stopped: Some(true), unstarted: true, ..UnitSample::default() });
    leads_to(&served(false), &[(0.0, ready(7)), (2.0, slow), (12.0, ready(8))], 17.0, "healthy");
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let readiness = prop_oneof![
        Just(None),
        Just(Some(Readiness::NoSocket)),
        Just(Some(Readiness::Broken)),
        (0..4_u32).prop_map(|pid| Some(Readiness::Ready { pid: (pid > 0).then_some(pid) })),
        (1..4_u32).prop_map(|pid| Some(Readiness::NotReady { pid: Some(pid), text: String::new() })),
    ];
    let pids = || prop::collection::btree_set(1..4_u32, 0..2);
    let main = prop_oneof![
        pids().prop_map(|alive| (None, alive)),
        (1..4_u32).prop_map(|pid| (Some(Main { id: new(pid), is_new: true }), [pid].into())),
        pids().prop_map(|alive| (Some(Main { id: OLD, is_new: false }), alive)),
    ];
    let after = prop_oneof![Just(None), (1..6_u32).prop_map(|half| Some(secs(f64::from(half) / 2.0)))];
    let unit = (any::<bool>(), any::<bool>(), after, prop::option::of(0..2_u32));
    let one = (main, readiness, unit, any::<bool>(), 1..80_u32);
    prop::collection::vec(one, 1..60).prop_map(|steps| {
        let mut samples = Vec::new();
        let mut at = 0;
        for ((main, alive), readiness, (active, auto_restart, restart_after, restarts), reaped, repeat) in steps {
            let unit = UnitSample { active, auto_restart, restart_after, restarts, ..UnitSample::default() };
            let readiness = readiness.filter(|_| main.is_some_and(|main| main.is_new));
            for _ in 0..repeat {
                let new_alive = alive.iter().copied().map(new).collect();
                let (unit, readiness) = (Some(unit.clone()), readiness.clone());
                samples.push(Sample { at: Duration::from_millis(at), main, new_alive, reaped, unit, readiness });
                at += 100;
            }
        }
        samples
    })
}

proptest! {
    #[test]
    fn healthy_is_only_a_new_process_that_stood_long_enough(samples in samples(), served: bool, failing: bool) {
        let settings = HealthSettings::default();
        let mut judge = Judge::new(settings, served, failing, false);
        for (index, sample) in samples.iter().enumerate() {
            let verdict = judge.feed(sample);
            let has_failed = matches!(verdict, Some(Verdict::Failed { .. }));
            prop_assert!(!failing || !has_failed);
            let longest = settings.deadline + settings.without_readiness + SETTLE;
            prop_assert!(verdict.is_some() || sample.at <= longest);
            let Some(verdict) = verdict else { continue };
            if let Verdict::Healthy { .. } = verdict {
                let main = sample.main.unwrap();
                prop_assert!(main.is_new);
                let is_ready = |sample: &Sample| matches!(
                    sample.readiness, Some(Readiness::Ready { pid }) if pid.is_none_or(|pid| pid == main.id.pid)
                );
                let so_far = &samples[..=index];
                let has_stood = |is: &dyn Fn(&Sample) -> bool| {
                    so_far.iter().rev().take_while(|sample| is(sample)).count() - 1
                };
                let first = so_far.iter().position(|sample| sample.new_alive.contains(&main.id)).unwrap();
                let stood = has_stood(&|sample| sample.main == Some(main));
                if is_ready(sample) {
                    prop_assert!(index - first >= 50);
                    prop_assert!(has_stood(&|sample| sample.main == Some(main) && is_ready(sample)) >= 20);
                } else {
                    prop_assert!(stood >= 300 && !served);
                }
            }
            break;
        }
    }

    #[test]
    fn who_looks_when_something_happened_or_is_due_finds_what_a_steady_look_finds(
        samples in samples(), served: bool, failing: bool,
    ) {
        let judge = Judge::new(HealthSettings::default(), served, failing, false);
        prop_assert_eq!(sparsely(judge.clone(), &samples), densely(judge, &samples));
    }
}
