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
fn old_main(at: f64) -> Sample {
    Sample {
        at: secs(at),
        main: Some(Main { id: OLD, is_new: false }),
        new_alive: BTreeSet::new(),
        reaped: false,
        unit: Some(UnitSample { active: true, restarts: Some(0), ..UnitSample::default() }),
        readiness: None,
    }
}

fn new_main(at: f64, pid: u32, readiness: Readiness) -> Sample {
    let id = new(pid);
    let main = Some(Main { id, is_new: true });
    Sample { main, new_alive: [id].into(), readiness: Some(readiness), ..old_main(at) }
}

fn down(at: f64) -> Sample {
    let unit = Some(UnitSample { restarts: Some(0), ..UnitSample::default() });
    Sample { main: None, unit, ..old_main(at) }
}

fn ready(pid: u32) -> Readiness {
    Readiness::Ready { pid: Some(pid) }
}

/// Feeds samples each 100 ms until a verdict; at most two minutes.
fn judge(judge: Judge, sample: impl Fn(f64) -> Sample) -> (f64, Verdict) {
    let samples: Vec<Sample> = (0..1200).map(|tenth| sample(f64::from(tenth) / 10.0)).collect();
    let (at, verdict) = densely(judge.clone(), &samples).expect("no verdict in two minutes");
    assert_eq!(sparsely(judge, &samples), Some((at, verdict.clone())));
    (at.as_millis() as f64 / 1000.0, verdict)
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

fn reason(verdict: Verdict) -> String {
    match verdict {
        Verdict::Failed { reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ready_process_is_healthy_after_it_stood_five_seconds() {
    let (at, verdict) = judge(fresh(), |at| if at < 1.0 { old_main(at) } else { new_main(at, 7, ready(7)) });
    assert_eq!((at, verdict), (6.0, Verdict::Healthy { after: secs(6.0) }));
}

#[test]
fn an_answer_without_a_pid_counts_for_the_new_process() {
    let (at, verdict) = judge(fresh(), |at| new_main(at, 7, Readiness::Ready { pid: None }));
    assert_eq!((at, verdict), (5.0, Verdict::Healthy { after: secs(5.0) }));
}

#[test]
fn without_readiness_it_must_stand_thirty_seconds() {
    for readiness in [Readiness::NoSocket, Readiness::Broken] {
        let (at, verdict) = judge(fresh(), |at| new_main(at, 7, readiness.clone()));
        assert_eq!((at, verdict), (30.0, Verdict::Healthy { after: secs(30.0) }));
    }
}

#[test]
fn a_socket_that_answered_before_must_answer_again() {
    let served = Judge::new(HealthSettings::default(), true, false, false);
    let (at, verdict) = judge(served, |at| new_main(at, 7, Readiness::NoSocket));
    assert_eq!(at, 60.0);
    assert!(reason(verdict).contains("does not answer"));
}

#[test]
fn the_old_process_answer_is_not_the_new_ones() {
    let served = Judge::new(HealthSettings::default(), true, false, false);
    let (at, verdict) = judge(served, |at| new_main(at, 7, ready(OLD.pid)));
    assert_eq!(at, 60.0);
    assert!(reason(verdict).contains("another process answers"));
}

#[test]
fn not_ready_at_the_deadline_has_failed_with_the_agents_reason() {
    let not_ready = Readiness::NotReady { pid: Some(7), text: "not joined".to_owned() };
    let (at, verdict) = judge(fresh(), |at| new_main(at, 7, not_ready.clone()));
    let why = "the agent is not ready after 60 s: /readyz says: not joined";
    assert_eq!((at, reason(verdict).as_str()), (60.0, why));
}

#[test]
fn still_the_old_one_at_the_deadline_has_failed() {
    let (at, verdict) = judge(fresh(), old_main);
    assert_eq!((at, reason(verdict).as_str()), (60.0, "the old version was still running after 60 s"));
}

#[test]
fn a_successor_that_appeared_and_vanished_after_a_reload_fails_early() {
    let (at, verdict) = judge(fresh(), |at| match at {
        at if (0.5..1.5).contains(&at) => Sample { new_alive: [new(7)].into(), ..old_main(at) },
        at => old_main(at),
    });
    assert_eq!(at, 3.5);
    assert!(reason(verdict).contains("the old version keeps running"));
}

#[test]
fn a_successor_that_nobody_saw_is_known_by_its_trace_in_the_old_process() {
    let (at, verdict) = judge(fresh(), |at| Sample { reaped: true, ..old_main(at) });
    assert_eq!(at, 4.0);
    assert!(reason(verdict).contains("exited immediately"));
    let failing = Judge::new(HealthSettings::default(), false, true, false);
    let (_, verdict) = judge(failing, |at| Sample { reaped: true, ..old_main(at) });
    assert!(matches!(verdict, Verdict::Unproven { .. }));
}

#[test]
fn a_child_of_another_kind_that_ends_while_the_successor_lives_is_no_failure() {
    let (at, verdict) = judge(fresh(), |at| match at {
        at if at < 6.0 => Sample { reaped: true, new_alive: [new(7)].into(), ..old_main(at) },
        at => new_main(at, 7, ready(7)),
    });
    assert_eq!((at, verdict), (8.0, Verdict::Healthy { after: secs(8.0) }));
    let (at, _) = judge(fresh(), |at| match at {
        at if at < 3.0 => Sample { reaped: true, ..old_main(at) },
        at => new_main(at, 7, ready(7)),
    });
    assert_eq!(at, 8.0);
}

#[test]
fn a_successor_that_takes_its_time_to_take_over_is_waited_for() {
    let (at, verdict) = judge(fresh(), |at| match at {
        at if at < 20.0 => Sample { new_alive: [new(7)].into(), ..old_main(at) },
        at => new_main(at, 7, ready(7)),
    });
    assert_eq!((at, verdict), (22.0, Verdict::Healthy { after: secs(22.0) }));
}

#[test]
fn one_that_took_over_late_must_go_on_for_a_moment_and_be_ready_all_that_time() {
    let (at, verdict) = judge(fresh(), |at| match at {
        at if at < 20.0 => Sample { new_alive: [new(7)].into(), ..old_main(at) },
        at if at < 21.0 => new_main(at, 7, ready(7)),
        at if at < 21.5 => new_main(at, 7, Readiness::Broken),
        at => new_main(at, 7, ready(7)),
    });
    assert_eq!((at, verdict), (23.5, Verdict::Healthy { after: secs(23.5) }));
    let (at, verdict) = judge(fresh(), |at| match at {
        at if at < 20.0 => Sample { new_alive: [new(7)].into(), ..old_main(at) },
        at if at < 21.9 => new_main(at, 7, ready(7)),
        at => old_main(at),
    });
    assert_eq!(at, 23.9);
    assert!(reason(verdict).contains("the old version keeps running"));
}

#[test]
fn one_that_gets_ready_just_before_the_deadline_is_waited_for() {
    let not_ready = Readiness::NotReady { pid: Some(7), text: "not joined".to_owned() };
    let readiness = |at: f64| if at < 59.0 { not_ready.clone() } else { ready(7) };
    let (at, verdict) = judge(fresh(), |at| new_main(at, 7, readiness(at)));
    assert_eq!((at, verdict), (61.0, Verdict::Healthy { after: secs(61.0) }));
    let (at, _) = judge(fresh(), |at| new_main(at, 7, if at < 60.5 { readiness(at) } else { not_ready.clone() }));
    assert_eq!(at, 60.5);
}

#[test]
fn an_ended_agent_that_is_not_started_again_soon_is_not_waited_for() {
    let waits = |seconds: f64| UnitSample {
        auto_restart: true,
        restart_after: Some(secs(seconds)),
        restarts: Some(0),
        ..UnitSample::default()
    };
    let died = |after: f64| {
        move |at: f64| match at {
            at if at < 0.3 => new_main(at, 7, Readiness::NoSocket),
            at => Sample { unit: Some(waits(after)), ..down(at) },
        }
    };
    for (after, expected) in [(5.0, 0.8), (2.0, 0.8), (1.9, 2.3), (0.1, 2.3)] {
        let (at, verdict) = judge(fresh(), died(after));
        assert_eq!((at, reason(verdict).contains("exited shortly")), (expected, true), "{after}");
    }
    // It was restarting when we came, and our start is just being taken up.
    let (at, verdict) = judge(fresh(), |at| match at {
        at if at < 0.4 => Sample { unit: Some(waits(5.0)), ..down(at) },
        at => new_main(at, 7, ready(7)),
    });
    assert_eq!((at, verdict), (5.4, Verdict::Healthy { after: secs(5.4) }));
}

#[test]
fn a_process_that_exits_at_once_fails_within_five_seconds() {
    let restarting = UnitSample { auto_restart: true, restarts: Some(0), ..UnitSample::default() };
    let (seen, verdict) = judge(fresh(), |at| match at {
        at if at < 0.3 => new_main(at, 7, Readiness::NoSocket),
        at => Sample { unit: Some(restarting.clone()), ..down(at) },
    });
    assert!(seen <= 5.0 && reason(verdict).contains("exited shortly"));
    let (unseen, verdict) = judge(fresh(), |at| Sample { unit: Some(restarting.clone()), ..down(at) });
    assert!(unseen <= 5.0 && reason(verdict).contains("exited shortly"));
    let (gone, verdict) = judge(fresh(), down);
    assert!(gone <= 5.0 && reason(verdict).contains("did not start"));
    let (unmanaged, _) = judge(fresh(), |at| Sample { unit: None, ..down(at) });
    assert!(unmanaged <= 5.0);
}

#[test]
fn a_unit_that_prepares_its_start_is_waited_for() {
    let preparing = UnitSample { active: true, ..UnitSample::default() };
    let (at, _) = judge(fresh(), |at| match at {
        at if at < 20.0 => Sample { unit: Some(preparing.clone()), ..down(at) },
        at => new_main(at, 7, ready(7)),
    });
    assert_eq!(at, 25.0);
}

#[test]
fn a_failed_unit_has_failed_at_once() {
    let failed = UnitSample { failed: Some("start-limit-hit".to_owned()), ..UnitSample::default() };
    let (at, verdict) = judge(fresh(), |at| Sample { unit: Some(failed.clone()), ..down(at) });
    assert_eq!((at, reason(verdict).as_str()), (0.0, "the service failed (start-limit-hit)"));
}

#[test]
fn three_dead_processes_are_a_restart_loop() {
    let (at, verdict) = judge(fresh(), |at| new_main(at, 10 + at as u32, ready(10 + at as u32)));
    assert_eq!(at, 3.0);
    assert!(reason(verdict).contains("exited several times"));
}

#[test]
fn more_than_two_automatic_restarts_are_a_restart_loop_from_whatever_count_they_began() {
    let sample = |at: f64| {
        let unit = UnitSample { active: true, restarts: Some(5 + at as u32), ..UnitSample::default() };
        Sample { unit: Some(unit), ..old_main(at) }
    };
    let (at, verdict) = judge(fresh(), sample);
    assert_eq!(at, 3.0);
    assert!(reason(verdict).contains("exited several times"));
}

#[test]
fn one_restart_begins_the_five_seconds_again() {
    let (at, verdict) = judge(fresh(), |at| match at {
        at if at < 3.0 => new_main(at, 7, ready(7)),
        at if at < 4.0 => Sample { unit: Some(UnitSample::default()), ..down(at) },
        at => new_main(at, 8, ready(8)),
    });
    assert_eq!((at, verdict), (9.0, Verdict::Healthy { after: secs(9.0) }));
}

#[test]
fn a_process_that_came_late_is_given_its_time() {
    let (at, verdict) = judge(fresh(), |at| match at {
        at if at < 59.0 => old_main(at),
        at => new_main(at, 7, Readiness::NoSocket),
    });
    assert_eq!((at, verdict), (89.0, Verdict::Healthy { after: secs(89.0) }));
}

#[test]
fn an_agent_that_failed_before_cannot_make_the_new_version_bad() {
    let failing = Judge::new(HealthSettings::default(), true, true, false);
    let failed = UnitSample { failed: Some("exit-code".to_owned()), ..UnitSample::default() };
    let (_, verdict) = judge(failing.clone(), |at| Sample { unit: Some(failed.clone()), ..down(at) });
    assert!(matches!(verdict, Verdict::Unproven { .. }));
    let (at, verdict) = judge(failing, |at| new_main(at, 7, Readiness::NoSocket));
    assert!(at == 60.0 && matches!(verdict, Verdict::Unproven { .. }));
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

#[test]
fn a_stop_by_somebody_else_ends_the_check_without_blame_and_an_end_by_itself_does_not() {
    let fresh = |reloaded| Judge::new(HealthSettings::default(), true, false, reloaded);
    let ended = |at: f64, stopped, active| {
        let unit = UnitSample { stopped, active, unstarted: stopped != Some(false), ..UnitSample::default() };
        Sample { unit: Some(unit), ..down(at) }
    };
    let after_two =
        |stopped, active| move |at: f64| if at < 2.0 { new_main(at, 7, ready(7)) } else { ended(at, stopped, active) };
    let (at, verdict) = judge(fresh(false), after_two(Some(true), false));
    assert!(at == 2.0 && matches!(verdict, Verdict::Unproven { .. }), "{at} {verdict:?}");
    for stopped in [Some(false), None] {
        let (_, verdict) = judge(fresh(true), after_two(stopped, false));
        assert!(matches!(verdict, Verdict::Failed { .. }), "{verdict:?}");
    }
    // Before the successor has taken over, and not where the service action itself has stopped the agent.
    let before = |at: f64| if at < 1.0 { old_main(at) } else { ended(at, Some(true), false) };
    assert!(matches!(judge(fresh(true), before).1, Verdict::Unproven { .. }));
    assert!(matches!(judge(fresh(false), before).1, Verdict::Unstarted { .. }));
    // A slow restart is judged by what it starts.
    let restarted = |at: f64| match at {
        at if (2.0..12.0).contains(&at) => ended(at, Some(true), true),
        at if at < 2.0 => new_main(at, 7, ready(7)),
        at => new_main(at, 8, ready(8)),
    };
    assert!(matches!(judge(fresh(false), restarted), (17.0, Verdict::Healthy { .. })));
}
