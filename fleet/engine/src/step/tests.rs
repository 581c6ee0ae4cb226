//! What was made quick gives what the plain way gives.

use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::*;
use crate::answer::Question;
use crate::command::Command;
use crate::curve::{self, Point, RolloutCurve, Sketch};
use crate::fleet::{HostChange, HostReport};
use crate::host::{Host, HostId, Outcome};
use crate::percent::Percent;
use crate::resource_set::ResourceSet;
use crate::rollout::Cursor;
use crate::rollout_state::MOST_LOST;
use crate::tally::HostState;

const HOSTS: u128 = 14;
const GROUPS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Op {
    Report { host: HostId, group: usize, version: &'static str, outcome: Option<Outcome> },
    Ask { host: HostId },
    Exclude { host: HostId, is_out: bool },
    Command(Command),
    Cap { group: usize, percent: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let host = 1..=HOSTS;
    let names = || prop::collection::vec(select(GROUPS.to_vec()).prop_map(str::to_owned), 1..3);
    let outcomes = vec![
        None,
        None,
        Some(Outcome::Started),
        Some(Outcome::Switched),
        Some(Outcome::Updated),
        Some(Outcome::Failed),
    ];
    prop_oneof![
        6 => (host.clone(), 0..3_usize, select(vec!["1.0.0", "2.0.0", "0.9.0"]), select(outcomes))
            .prop_map(|(host, group, version, outcome)| Op::Report { host, group, version, outcome }),
        6 => host.clone().prop_map(|host| Op::Ask { host }),
        1 => (host, any::<bool>()).prop_map(|(host, is_out)| Op::Exclude { host, is_out }),
        1 => (names(), any::<bool>(), any::<bool>()).prop_map(|(groups, force, ignore_blackout)| Op::Command(Command::Start { groups, force, ignore_blackout })),
        1 => names().prop_map(|groups| Op::Command(Command::Run { groups, all: false })),
        1 => names().prop_map(|groups| Op::Command(Command::Halt { groups, all: false })),
        1 => names().prop_map(|groups| Op::Command(Command::MarkDone { groups })),
        1 => names().prop_map(|groups| Op::Command(Command::Rollback { groups, all_started: false, at_once: false })),
        2 => (0..3_usize, 0_u8..100).prop_map(|(group, percent)| Op::Cap { group, percent }),
    ]
}

fn state(rate: Option<u32>, canaries: u32) -> RolloutState {
    let group = |name: &str| {
        let mut group = json!({ "name": name, "max_in_flight": "20%", "start_hour": 12, "canary_count": canaries,
            "max_failed_before_halt": "60%", "failure_seconds": 300,
            "agents": { "node_labels_expression": format!("group == \"{name}\"") } });
        if let Some(rate) = rate {
            group["rate"] = json!({ "base": rate });
        }
        group
    };
    let (mut resources, mut state) = (ResourceSet::default(), RolloutState::default());
    let groups = json!({ "agent_auto_update_groups": { "regular": GROUPS.map(group) } });
    let version = json!({ "agent_version": "2.0.0", "agent_start_version": "1.0.0" });
    for (kind, spec) in [("cluster_maintenance_config", groups), ("autoupdate_version", version)] {
        resources.put_json(&json!({ "kind": kind, "version": "v1", "spec": spec }), 1, &mut state).unwrap();
    }
    state
}

fn act(op: &Op, state: &mut RolloutState, fleet: &mut Fleet, now: Timestamp) {
    match op {
        Op::Report { host, group, version, outcome } => {
            let last = outcome.map(|outcome| HostChange { outcome, to: "2.0.0".to_owned(), code: "broken".to_owned() });
            let report = HostReport {
                host: *host,
                update_id: host + 100,
                group: Some(GROUPS[*group].to_owned()),
                version: Some((*version).to_owned()),
                last,
                ..HostReport::default()
            };
            fleet.report(&report, state.rollout.as_ref(), now);
        }
        Op::Ask { host } => drop(state.ask(fleet, &Question { host: Some(*host), ..Question::default() }, now)),
        Op::Exclude { host, is_out } => {
            fleet.decide(*host, state.rollout.as_ref(), now, |flags| flags.held = *is_out);
        }
        Op::Command(command) => drop(state.command(command, fleet, now)),
        Op::Cap { group, percent } => {
            state.policy.as_mut().unwrap().regular[*group].pace.max_in_flight = Percent::new(*percent).unwrap();
        }
    }
}

/// Every host that waits in a group, in order, the plain way.
fn plain_cursors(rollout: &mut Rollout, index: usize, free: usize, fleet: &Fleet, now: Timestamp) {
    let group = &rollout.groups[index];
    let look = TallyContext::new(rollout, group, fleet, now);
    let place = GroupPlace::Group(u8::try_from(index).unwrap());
    let waits = |host: &&Host| {
        let goes = group.state != State::RolledBack || look.goes_back(host);
        let is_over = matches!(look.state(host), HostState::Failed | HostState::TimedOut);
        let is_waiting = look.state(host) == HostState::Pending || is_over && look.is_retried(host);
        host.place == place && !look.has_departed(host) && is_waiting && goes
    };
    let mut hosts: Vec<&Host> = fleet.hosts().iter().filter(waits).collect();
    hosts.sort_by_key(|host| Cursor::of(host));
    let (again, first): (Vec<&Host>, Vec<&Host>) = hosts.into_iter().partition(|host| look.is_retried(host));
    let mut free = free;
    let group = &mut rollout.groups[index];
    for host in again.iter().take(free) {
        group.retry_cursor = Some(Cursor::of(host));
        free -= 1;
    }
    loop {
        let is_member = |host: &&&Host| {
            let arrival = host.arrival.get();
            arrival > group.complete_to
                && arrival <= group.pass_to
                && group.cursor.is_none_or(|passed| Cursor::of(host) > passed)
        };
        let members: Vec<&&Host> = first.iter().filter(is_member).collect();
        let taken = members.len().min(free);
        free -= taken;
        if taken > 0 {
            group.cursor = Some(Cursor::of(members[taken - 1]));
        }
        if taken < members.len() || group.pass_to >= fleet.arrivals() {
            return;
        }
        (group.complete_to, group.pass_to, group.cursor) = (group.pass_to, fleet.arrivals(), None);
    }
}

/// A group's curve rises from its beginning to the numbers of its hosts.
fn assert_curve_ends_at_the_counts(
    rollout: &Rollout,
    group: &GroupStatus,
    place: GroupPlace,
    fleet: &Fleet,
    now: Timestamp,
) {
    let Some(mut sketch) = Sketch::of(group) else { return };
    let look = TallyContext::new(rollout, group, fleet, now);
    let of_group = || fleet.hosts().iter().filter(|host| host.place == place);
    of_group().for_each(|host| sketch.add(&look, host));
    let RolloutCurve { points, .. } = sketch.finish(now);
    let told = of_group().filter(|host| look.mark(host).is_some()).count();
    let (tally, last) = (&group.tally, points.last().unwrap());
    let counts = (u64::try_from(told).unwrap(), tally.updated, tally.failed + tally.timed_out);
    assert_eq!((last.told, last.updated, last.failed), counts);
    assert!(points.len() <= curve::POINTS && last.at <= now, "{now} {points:?}");
    let before = |one: &Point, other: &Point| {
        one.at <= other.at && one.told <= other.told && one.updated <= other.updated && one.failed <= other.failed
    };
    assert!(points.is_sorted_by(before), "{points:?}");
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn counts_cursors_and_verdicts_are_those_of_the_plain_way(
        rate in select(vec![None, None, Some(2), Some(50)]),
        canaries in select(vec![0, 0, 2]),
        ops in prop::collection::vec((select(vec![0_i64, 5, 60, 400, 4000, 90_000]), op()), 1..60),
        caps in prop::collection::vec(1_u8..100, 3),
        is_listening in select(vec![true, true, false]),
    ) {
        let (mut state, mut fleet) = (state(rate, canaries), Fleet::default());
        let mut now: Timestamp = "2026-01-05T11:58:00Z".parse().unwrap();
        for (later, op) in &ops {
            // Hosts are listened to all the time, but where that is what is tried.
            let end = now + SignedDuration::from_secs(*later);
            while is_listening && now + SignedDuration::from_mins(15) < end {
                now += SignedDuration::from_mins(15);
                state.step(&mut fleet, now);
            }
            now = end;
            act(op, &mut state, &mut fleet, now);
            state.step(&mut fleet, now);
            let rollout = state.rollout.clone().unwrap();
            // What was not counted again was what it is.
            let mut counted = rollout.clone();
            counted.count(&fleet, now);
            prop_assert_eq!(&counted.groups, &rollout.groups);
            for (group, place) in rollout.groups.iter().zip((0..).map(GroupPlace::Group)) {
                assert_curve_ends_at_the_counts(&rollout, group, place, &fleet, now);
            }
            // Other caps let the same hosts go.
            let (mut quick, mut plain) = (rollout.clone(), rollout);
            for (group, cap) in quick.groups.iter_mut().zip(&caps) {
                group.policy.pace.max_in_flight = Percent::new(*cap).unwrap();
            }
            plain.groups.clone_from(&quick.groups);
            pace::let_go(&mut quick, &fleet, now);
            for index in 0..GROUPS.len() {
                let is_capped = plain.groups[index].state != State::Canary && plain.groups[index].is_capped();
                if pace::is_moving(&plain, index, now) && is_capped {
                    let free = usize::try_from(pace::free_slots(&plain.groups[index])).unwrap();
                    if free > 0 {
                        plain_cursors(&mut plain, index, free, &fleet, now);
                    }
                    let cursors = |rollout: &Rollout| {
                        let group = &rollout.groups[index];
                        (group.cursor, group.retry_cursor, group.complete_to, group.pass_to)
                    };
                    prop_assert_eq!(cursors(&quick), cursors(&plain));
                }
            }
            // The verdict on each host is what it would be answered.
            let mut hosts = fleet.hosts().iter();
            state.verdicts(&fleet, now, |host, answer| {
                let question = Question { host: Some(host.id), ..Question::default() };
                assert_eq!(hosts.next().map(|host| host.id), Some(host.id));
                assert_eq!(state.answer(&fleet, &question, now).as_ref(), Some(answer));
            });
            prop_assert!(hosts.next().is_none());
        }
    }
}

/// Twenty hosts of `a` that report each quarter of an hour for two hours, with a step each minute.
fn twenty(state: &mut RolloutState, fleet: &mut Fleet) -> Timestamp {
    let begin: Timestamp = "2026-01-05T08:00:00Z".parse().unwrap();
    let mut now = begin;
    for minute in 0..120 {
        now = begin + SignedDuration::from_mins(minute);
        for host in (1..=20).filter(|host| minute % 15 == i64::try_from(*host).unwrap() % 15) {
            report(host, "1.0.0", None, state, fleet, now);
        }
        state.step(fleet, now);
    }
    now
}

fn report(
    host: HostId,
    version: &'static str,
    outcome: Option<Outcome>,
    state: &mut RolloutState,
    fleet: &mut Fleet,
    now: Timestamp,
) {
    act(&Op::Report { host, group: 0, version, outcome }, state, fleet, now);
}

fn group_a(state: &RolloutState) -> &GroupStatus {
    &state.rollout.as_ref().unwrap().groups[0]
}

fn ask(host: HostId, state: &RolloutState, fleet: &mut Fleet, now: Timestamp) -> bool {
    let question = Question { host: Some(host), group: "a".to_owned(), update_id: host + 100 };
    state.ask(fleet, &question, now).unwrap().update
}

/// FLEET §3: silence is counted only while somebody listens. The server was down for longer than a day, or an old store was put
/// back, or the clock jumped.
#[test]
fn nobody_has_departed_because_the_server_did_not_listen() {
    for away in [SignedDuration::from_mins(46), SignedDuration::from_hours(25), SignedDuration::from_hours(9_000)] {
        let (mut state, mut fleet) = (state(None, 2), Fleet::default());
        let mut now = twenty(&mut state, &mut fleet) + away;
        let start = Command::Start { groups: vec!["a".to_owned()], force: false, ignore_blackout: false };
        state.step(&mut fleet, now);
        state.command(&start, &fleet, now).unwrap();
        state.step(&mut fleet, now);
        let group = group_a(&state);
        assert_eq!((group.state, group.initial_count, group.tally.counted), (State::Canary, 20, 20), "{away}");
        // None was heard of lately, so each may be a canary when it comes, and only two are.
        now += SignedDuration::from_mins(10);
        for host in 1..=20 {
            report(host, "1.0.0", None, &mut state, &mut fleet, now);
        }
        state.step(&mut fleet, now);
        let told = (1..=20).filter(|host| ask(*host, &state, &mut fleet, now)).count();
        assert_eq!(told, 2, "{away}");
    }
}

/// A gap ends no wait for hosts, and what was over before it stays over.
#[test]
fn a_time_in_which_nobody_listened_is_no_time_out() {
    let (mut state, mut fleet) = (state(None, 0), Fleet::default());
    let proof = &mut state.policy.as_mut().unwrap().regular[0].proof;
    (proof.max_timeout, proof.timeout_seconds) = (Percent::new(100).unwrap(), None);
    let mut now = twenty(&mut state, &mut fleet);
    state
        .command(&Command::Start { groups: vec!["a".to_owned()], force: false, ignore_blackout: false }, &fleet, now)
        .unwrap();
    state.step(&mut fleet, now);
    // A fifth of twenty.
    let told: Vec<HostId> = (1..=20).filter(|host| ask(*host, &state, &mut fleet, now)).collect();
    assert_eq!(told.len(), 4);
    // One begins, and says nothing more: it fails by silence (`failure_seconds`).
    report(told[0], "1.0.0", Some(Outcome::Started), &mut state, &mut fleet, now);
    state.step(&mut fleet, now);
    let counts =
        |state: &RolloutState| (group_a(state).tally.told, group_a(state).tally.failed, group_a(state).tally.timed_out);
    // The sixteen others are heard of each quarter of an hour.
    let live = |minutes: i64, state: &mut RolloutState, fleet: &mut Fleet, now: &mut Timestamp| {
        for minute in 0..minutes {
            *now += SignedDuration::from_mins(1);
            for host in
                (1..=20).filter(|host| !told.contains(host) && i64::try_from(*host).unwrap() % 15 == minute % 15)
            {
                report(host, "1.0.0", None, state, fleet, *now);
            }
            state.step(fleet, *now);
        }
    };
    live(19, &mut state, &mut fleet, &mut now);
    assert_eq!(counts(&state), (4, 0, 0));
    now += SignedDuration::from_hours(30);
    // Also where somebody is heard of before the next step.
    report(told[1], "1.0.0", None, &mut state, &mut fleet, now);
    state.step(&mut fleet, now);
    assert_eq!(counts(&state), (4, 0, 0));
    live(15, &mut state, &mut fleet, &mut now);
    assert_eq!(counts(&state), (4, 0, 0), "each has its occasion first");
    live(30, &mut state, &mut fleet, &mut now);
    assert_eq!(counts(&state), (3, 1, 0), "an interval and five minutes in which somebody listened");
    live(60, &mut state, &mut fleet, &mut now);
    assert_eq!(counts(&state), (0, 1, 3), "an hour and its jitter");
    now += SignedDuration::from_hours(30);
    state.step(&mut fleet, now);
    assert_eq!(counts(&state), (0, 1, 3));
}

#[test]
fn a_groups_curve_has_each_host_at_its_time() {
    let (mut state, mut fleet) = (state(None, 0), Fleet::default());
    let begin = twenty(&mut state, &mut fleet);
    state
        .command(&Command::Start { groups: vec!["a".to_owned()], force: false, ignore_blackout: false }, &fleet, begin)
        .unwrap();
    state.step(&mut fleet, begin);
    let told: Vec<HostId> = (1..=20).filter(|host| ask(*host, &state, &mut fleet, begin)).collect();
    // In whole seconds: a step of the curve is a minute's third here, or less.
    let minute = |minute| begin + SignedDuration::from_mins(minute);
    report(told[0], "2.0.0", Some(Outcome::Updated), &mut state, &mut fleet, minute(3));
    report(told[1], "2.0.0", Some(Outcome::Updated), &mut state, &mut fleet, minute(5));
    report(told[2], "1.0.0", Some(Outcome::Failed), &mut state, &mut fleet, minute(9));
    for at in 1..=60 {
        state.step(&mut fleet, minute(at));
    }
    let rollout = state.rollout.as_ref().unwrap();
    let mut sketch = Sketch::of(&rollout.groups[0]).unwrap();
    let look = TallyContext::new(rollout, &rollout.groups[0], &fleet, minute(60));
    fleet.hosts().iter().filter(|host| host.place == GroupPlace::Group(0)).for_each(|host| sketch.add(&look, host));
    let points = sketch.finish(minute(60)).points;
    let counts: Vec<_> = points.iter().map(|point| (point.told, point.updated, point.failed)).collect();
    assert_eq!(counts, [(4, 0, 0), (4, 1, 0), (4, 2, 0), (4, 2, 1), (4, 2, 1)]);
    let times = [0, 3, 5, 9, 60].map(minute);
    for (point, time) in points.iter().zip(times) {
        assert!((0..20).contains(&point.at.duration_since(time).as_secs()), "{point:?} {time}");
    }
}

/// A hold as earlier versions kept it, whose group the rollout had no more: it lasts, through later policies too.
#[test]
fn what_an_earlier_version_kept_of_a_hold_lasts_until_run() {
    let put = |groups: &[&str], patch: u32, resources: &mut ResourceSet, state: &mut RolloutState| {
        let group = |name: &&str| json!({ "name": name, "days": ["*"], "start_hour": 12 });
        let groups: Vec<_> = groups.iter().map(group).collect();
        let config = json!({ "agents": { "mode": "enabled", "strategy": "time-based",
            "maintenance_window_duration": "2h", "schedules": { "regular": groups } } });
        let version = json!({ "agents": { "start_version": "1.0.0", "target_version": format!("2.0.{patch}"),
            "schedule": "regular", "mode": "enabled" } });
        for (kind, spec) in [("autoupdate_config", config), ("autoupdate_version", version)] {
            resources.put_json(&json!({ "kind": kind, "version": "v1", "spec": spec }), 1, state).unwrap();
        }
    };
    let by_rest = json!({ "takes_rest": true });
    let by_label = json!({ "members": { "node": null, "instance": "group == \"other\"" } });
    for (reach, held) in [(by_rest, [false, true, true]), (by_label, [false, true, false])] {
        let (mut resources, mut state, mut fleet) = (ResourceSet::default(), RolloutState::default(), Fleet::default());
        put(&["dev", "fast"], 0, &mut resources, &mut state);
        let kept = json!({ "all": false, "groups": ["production"], "reach": { "production": reach }, "released": [] });
        state.holds = serde_json::from_value(kept).unwrap();
        let mut now: Timestamp = "2026-01-05T08:00:00Z".parse().unwrap();
        let mut told = |state: &mut RolloutState, time: &str| -> Vec<bool> {
            now = format!("2026-01-{time}:00Z").parse().unwrap();
            let hosts = [(1, "dev"), (2, "other"), (3, "")];
            for (host, group) in hosts {
                let (group, version) = (Some(group.to_owned()), Some("1.0.0".to_owned()));
                fleet.report(
                    &HostReport { host, group, version, ..HostReport::default() },
                    state.rollout.as_ref(),
                    now,
                );
            }
            state.step(&mut fleet, now);
            let asks =
                |(host, group): (HostId, &str)| Question { host: Some(host), group: group.to_owned(), update_id: 0 };
            hosts.map(|host| state.ask(&mut fleet, &asks(host), now).unwrap().update).to_vec()
        };
        told(&mut state, "05T08:00");
        // As it comes from the store, and goes there.
        state = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        let free = held.map(|is_held| !is_held);
        assert_eq!(told(&mut state, "05T12:01"), free, "{reach}");
        put(&["dev", "other", "last"], 1, &mut resources, &mut state);
        told(&mut state, "06T08:00");
        assert_eq!(told(&mut state, "06T12:01"), free, "{reach}: another policy");
        let run = Command::Run { groups: vec!["production".to_owned()], all: false };
        state.command(&run, &Fleet::default(), "2026-01-06T12:02:00Z".parse().unwrap()).unwrap();
        assert_eq!(told(&mut state, "06T12:03"), [true; 3], "{reach}: run");
    }
}

/// A group is sent back and run again, and a host comes to the target two seconds later. Where other servers answer, one of them may
/// still send it back.
#[test]
fn who_came_to_the_target_after_its_group_turned_is_counted_at_once_where_one_server_answers() {
    for (is_alone, updated) in [(true, 1), (false, 0)] {
        let (mut state, mut fleet) = (state(None, 0), Fleet::default());
        fleet.terms.is_alone = is_alone;
        let began = twenty(&mut state, &mut fleet);
        let after = |seconds| began + SignedDuration::from_secs(seconds);
        let does = |command: Command, state: &mut RolloutState, fleet: &mut Fleet, now: Timestamp| {
            state.command(&command, fleet, now).unwrap();
            state.step(fleet, now);
        };
        let a = || vec!["a".to_owned()];
        does(Command::Start { groups: a(), force: false, ignore_blackout: false }, &mut state, &mut fleet, began);
        let is_told = |host: &HostId| {
            let question = Question { host: Some(*host), ..Question::default() };
            state.answer(&fleet, &question, after(1)).unwrap().update
        };
        let host = (1..=20).find(is_told).unwrap();
        report(host, "2.0.0", Some(Outcome::Updated), &mut state, &mut fleet, after(9));
        does(Command::Rollback { groups: a(), all_started: false, at_once: false }, &mut state, &mut fleet, after(10));
        fleet.tell(host, state.rollout.as_ref().unwrap(), true, after(60));
        report(host, "1.0.0", Some(Outcome::Updated), &mut state, &mut fleet, after(61));
        state.step(&mut fleet, after(61));
        does(Command::Run { groups: a(), all: false }, &mut state, &mut fleet, after(62));
        fleet.tell(host, state.rollout.as_ref().unwrap(), false, after(63));
        report(host, "2.0.0", Some(Outcome::Updated), &mut state, &mut fleet, after(64));
        state.step(&mut fleet, after(64));
        assert_eq!(group_a(&state).tally.updated, updated, "alone: {is_alone}");
        (1..=20).for_each(|host| fleet.question(host, None, 0, state.rollout.as_ref(), after(108)));
        state.step(&mut fleet, after(108));
        assert_eq!(
            group_a(&state).tally.updated,
            1,
            "alone: {is_alone}; an answer is good for half a minute, and is written"
        );
    }
}

/// A group of twenty, of which four may be on their way, is rolled back by a server that does not know what another one told.
#[test]
fn who_was_let_go_before_its_group_turned_round_keeps_its_slot_as_long_as_it_may_be_on_its_way() {
    let (mut state, mut fleet) = (state(None, 0), Fleet::default());
    let began = twenty(&mut state, &mut fleet);
    let after = |seconds| began + SignedDuration::from_secs(seconds);
    let does = |command: Command, state: &mut RolloutState, fleet: &mut Fleet, now: Timestamp| {
        state.command(&command, fleet, now).unwrap();
        state.step(fleet, now);
    };
    let a = || vec!["a".to_owned()];
    does(Command::Start { groups: a(), force: false, ignore_blackout: false }, &mut state, &mut fleet, began);
    let is_told = |host: HostId, state: &RolloutState, fleet: &Fleet, now: Timestamp| {
        let question = Question { host: Some(host), ..Question::default() };
        state.answer(fleet, &question, now).unwrap().update
    };
    let let_go =
        |state: &RolloutState, fleet: &Fleet| (1..=20).filter(|host| is_told(*host, state, fleet, after(9))).collect();
    let first: Vec<HostId> = let_go(&state, &fleet);
    assert_eq!(first.len(), 4);
    let arrived = [first[0], first[1]];
    for host in arrived {
        report(host, "2.0.0", Some(Outcome::Updated), &mut state, &mut fleet, after(9));
    }
    state.step(&mut fleet, after(9));
    let second: Vec<HostId> = let_go(&state, &fleet);
    let way: Vec<HostId> = second.into_iter().filter(|host| !arrived.contains(host)).collect();
    assert_eq!(way.len(), 4);
    does(Command::Rollback { groups: a(), all_started: false, at_once: false }, &mut state, &mut fleet, after(10));
    // As it comes from the store.
    state = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    let go_back =
        |state: &RolloutState, fleet: &Fleet, now: Timestamp| arrived.map(|host| is_told(host, state, fleet, now));
    assert_eq!((group_a(&state).tally.let_go, go_back(&state, &fleet, after(10))), (4, [false; 2]));
    assert!(!is_told(way[0], &state, &fleet, after(10)), "it may run the target when it asks again");
    // It was told before, and that is written now. Another says itself that it is on its way.
    fleet.tell(way[0], state.rollout.as_ref().unwrap(), false, after(9));
    report(way[1], "1.0.0", Some(Outcome::Started), &mut state, &mut fleet, after(20));
    state.step(&mut fleet, after(55));
    assert_eq!(go_back(&state, &fleet, after(55)), [false; 2], "an answer was good for half a minute, and is written");
    assert_eq!([55, 56].map(|seconds| state.frees_places(after(seconds))), [false, true]);
    state.step(&mut fleet, after(56));
    assert!(!state.frees_places(after(57)));
    assert_eq!(go_back(&state, &fleet, after(56)), [true; 2]);
    assert_eq!((group_a(&state).tally.told, group_a(&state).tally.let_go), (1, 3));
    // Both ask again, and run the start version: nothing of what they were told goes on.
    fleet.question(way[0], None, 0, state.rollout.as_ref(), after(70));
    report(way[1], "1.0.0", Some(Outcome::Failed), &mut state, &mut fleet, after(70));
    state.step(&mut fleet, after(70));
    assert_eq!((group_a(&state).tally.told, group_a(&state).tally.let_go), (0, 2));
    let courses = |state: &RolloutState| group_a(state).courses.len();
    assert_eq!(courses(&state), 1);
    for minute in 2..90 {
        (1..=20).for_each(|host| fleet.question(host, None, 0, state.rollout.as_ref(), after(minute * 60)));
        state.step(&mut fleet, after(minute * 60));
    }
    assert_eq!(courses(&state), 0, "who was told last has timed out");
}

/// A node that did not know that the group had been rolled back told it to go on.
#[test]
fn what_a_host_was_told_by_a_server_that_did_not_know_of_a_rollback_counts() {
    let (mut state, mut fleet) = (state(None, 0), Fleet::default());
    let now = twenty(&mut state, &mut fleet);
    let start = Command::Start { groups: vec!["a".to_owned()], force: false, ignore_blackout: false };
    state.command(&start, &fleet, now).unwrap();
    state.step(&mut fleet, now);
    let later = now + SignedDuration::from_secs(60);
    state
        .command(&Command::Rollback { groups: vec!["a".to_owned()], all_started: false, at_once: true }, &fleet, now)
        .unwrap();
    state.step(&mut fleet, later);
    assert_eq!(group_a(&state).tally.told, 0);
    fleet.tell(1, state.rollout.as_ref().unwrap(), false, later);
    // One that was told to go back since knows that better.
    for (host, second) in [(2, 0), (3, 2)] {
        fleet.tell(host, state.rollout.as_ref().unwrap(), false, later + SignedDuration::from_secs(1));
        fleet.tell(host, state.rollout.as_ref().unwrap(), true, later + SignedDuration::from_secs(second));
    }
    state.step(&mut fleet, later);
    assert_eq!(group_a(&state).tally.told, 2);
    let is_back = |host| fleet.host(host).unwrap().told_back;
    assert_eq!([1, 2, 3].map(is_back), [false, false, true]);
}

/// What a store that went back had given since, hosts may know.
#[test]
fn after_a_loss_no_number_of_a_rollout_or_an_attempt_is_given_again() {
    let (mut state, mut fleet) = (state(None, 0), Fleet::default());
    let now = twenty(&mut state, &mut fleet);
    let numbers = |state: &RolloutState| (state.number, group_a(state).attempt);
    let run = Command::Run { groups: vec!["a".to_owned()], all: false };
    let halt = Command::Halt { groups: vec!["a".to_owned()], all: false };
    let start = Command::Start { groups: vec!["a".to_owned()], force: false, ignore_blackout: false };
    let mut does = |command: &Command, state: &mut RolloutState| {
        state.command(command, &fleet, now).unwrap();
        state.step(&mut fleet, now);
    };
    does(&start, &mut state);
    does(&halt, &mut state);
    let (number, attempt) = numbers(&state);
    let mut lost = state.clone();
    does(&run, &mut lost);
    assert_eq!(numbers(&lost), (number, attempt + 1));
    state.lose_numbers(None);
    state = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    does(&run, &mut state);
    assert_eq!(numbers(&state), (number, attempt + 1 + MOST_LOST));
    does(&halt, &mut state);
    does(&run, &mut state);
    assert_eq!(numbers(&state), (number, attempt + 2 + MOST_LOST), "once for each loss");
    let adopts = |state: &mut RolloutState| {
        let target = state.target.as_mut().unwrap();
        std::mem::swap(&mut target.start, &mut target.target);
        state.adopt(now);
        state.number
    };
    let lost = number + u64::from(MOST_LOST);
    assert_eq!([1, 2], [(); 2].map(|()| adopts(&mut state) - lost));
    // A backup of before both is put in place, twice: what was given is known.
    let mut backup = RolloutState { number: 1, numbers_lost: 0, ..state.clone() };
    backup.lose_numbers(Some(state.given()));
    let given = backup.given();
    assert_eq!(adopts(&mut backup), given + 1);
    let mut again = RolloutState { number: 1, numbers_lost: 0, ..state.clone() };
    again.lose_numbers(Some(backup.given()));
    assert_eq!(adopts(&mut again), given + 2);
}
