//! FLEET §3: absence is no success, silence of all is the server's, and who only asks moves nothing.

mod strangers;
mod world;

use fleet_engine::rollout::State;
use proptest::prelude::*;
use serde_json::{Value, json};

use world::{DAY, DIALECTS, Dialect, NEW, NOON, Span, Trouble, World};

const GROUPS: [(&str, u32); 2] = [("first", 6), ("rest", 9)];

fn none() -> Value {
    json!({})
}

/// The server runs, and nobody reaches it for two days.
#[test]
fn nobody_is_heard_for_two_days_and_no_group_is_passed() {
    for dialect in DIALECTS {
        let trouble = Trouble { cut: vec![(NOON - 30, NOON + 2 * DAY)], ..Trouble::default() };
        let mut world = World::new(dialect, &GROUPS, &none(), trouble);
        world.until(NOON + 2 * DAY);
        assert!(world.told.is_empty() && world.state("rest") == State::Unstarted, "{dialect:?}");
        assert_eq!((world.state("first"), world.code("first")), (State::Active, "fleet_silent"), "{dialect:?}");
        assert_eq!(world.group("first").tally.counted, 6, "{dialect:?}: nobody has left");
        assert!(world.book.silent_since().is_some(), "{dialect:?}");
        world.until(NOON + 6 * DAY);
        assert!(world.book.silent_since().is_none());
        assert_eq!((world.state("first"), world.state("rest")), (State::Done, State::Done), "{dialect:?}");
        assert_eq!(world.told.len(), 15, "{dialect:?}");
        assert!(world.started["rest"] > world.run["first"], "{dialect:?}");
    }
}

/// The first group's machines are off over the weekend, production is on.
#[test]
fn a_group_whose_hosts_are_all_off_is_waited_for() {
    for dialect in DIALECTS {
        let off = (1..=6).map(|host| (host, (NOON - 3 * 60, 4 * DAY))).collect();
        let mut world = World::new(dialect, &GROUPS, &none(), Trouble { off, ..Trouble::default() });
        world.until(4 * DAY);
        assert!(world.told.is_empty() && world.state("rest") == State::Unstarted, "{dialect:?}");
        assert_eq!((world.state("first"), world.code("first")), (State::Active, "shrunk"), "{dialect:?}");
        assert_eq!(world.group("first").tally.counted, 0, "{dialect:?}: who is gone is in no denominator");
        world.until(7 * DAY);
        assert_eq!((world.state("first"), world.state("rest")), (State::Done, State::Done), "{dialect:?}");
        assert!(world.started["rest"] > world.run["first"], "{dialect:?}");
    }
}

#[test]
fn who_waits_for_a_group_without_anybody_left_is_told_what_goes_on() {
    for dialect in DIALECTS {
        let off = (1..=6).map(|host| (host, (60, 90 * DAY))).collect();
        let mut world = World::new(dialect, &GROUPS, &none(), Trouble { off, ..Trouble::default() });
        world.until(3 * DAY);
        assert_eq!(world.code("first"), "shrunk", "{dialect:?}");
        world.obey_advice("first");
        world.until(5 * DAY);
        assert_eq!(world.state("rest"), State::Done, "{dialect:?}");
    }
}

#[test]
fn members_that_are_all_excluded_are_nobodys_success() {
    for dialect in DIALECTS {
        let mut world = World::new(dialect, &GROUPS, &none(), Trouble::default());
        world.pin("first");
        world.until(3 * DAY);
        assert_eq!((world.state("first"), world.code("first")), (State::Active, "shrunk"), "{dialect:?}");
        assert_eq!(world.state("rest"), State::Unstarted, "{dialect:?}");
    }
}

/// One of the first group leaves for good while the others update.
#[test]
fn who_is_gone_leaves_the_denominators() {
    for dialect in DIALECTS {
        let off = vec![(1, (NOON - 15, 90 * DAY)), (2, (NOON - 15, 90 * DAY))];
        let mut world = World::new(dialect, &GROUPS, &none(), Trouble { off, ..Trouble::default() });
        world.until(4 * DAY);
        let first = world.group("first");
        assert_eq!((first.state, first.tally.counted), (State::Done, 4), "{dialect:?} {:?}", first.reason);
    }
}

/// Three minutes in which the server's machine boots, while hosts of a group update whose `timeout_seconds` is RFD 0169's 60.
#[test]
fn a_reboot_of_the_servers_machine_times_nobody_out() {
    for (at, length) in (0..12).map(|at| (at, 3)).chain([(1, 1), (2, 90), (3, 2 * DAY)]) {
        let down = vec![(NOON + at, NOON + at + length)];
        let trouble = Trouble { down, ..Trouble::default() };
        let mut world = World::with_cap(Dialect::Rfd0169, &GROUPS, 100, &none(), trouble);
        world.until(NOON + 4 * DAY);
        assert_eq!((world.state("first"), world.state("rest")), (State::Done, State::Done), "at {at} for {length}");
    }
}

/// The same where no word comes through.
#[test]
fn a_cut_network_times_nobody_out() {
    for length in [60, 300, 2 * DAY] {
        for at in [1, 5, 9] {
            let trouble = Trouble { cut: vec![(NOON + at, NOON + at + length)], ..Trouble::default() };
            let mut world = World::with_cap(Dialect::Rfd0169, &GROUPS, 100, &none(), trouble);
            world.until(NOON + 5 * DAY);
            assert_eq!((world.state("first"), world.state("rest")), (State::Done, State::Done), "at {at} for {length}");
        }
    }
}

/// A soak in which nobody was heard is none.
#[test]
fn hours_without_a_word_are_no_soak() {
    for dialect in DIALECTS {
        let soaks = |trouble: Trouble| {
            let mut world = World::new(dialect, &GROUPS, &none(), trouble);
            let mut policy = world::policy(dialect, &GROUPS, 1, &none());
            let list = match dialect {
                Dialect::V2 => &mut policy["spec"]["agents"]["schedules"]["regular"],
                Dialect::Rfd0169 => &mut policy["spec"]["agent_auto_update_groups"]["regular"],
            };
            list[1]["soak_hours"] = 12.into();
            world.shelf.put_json(&policy, 1, &mut world.book).unwrap();
            world.until(NOON + 9 * DAY);
            world.started.get("rest").copied().unwrap()
        };
        let whole = soaks(Trouble::default());
        assert_eq!(whole, NOON + DAY, "{dialect:?}");
        // Of its twelve hours before the next noon two are left.
        let cut = soaks(Trouble { cut: vec![(NOON + 8 * 60, NOON + 22 * 60)], ..Trouble::default() });
        assert_eq!(cut, NOON + 2 * DAY, "{dialect:?}");
    }
}

/// Spans of a week in which something may be.
fn span() -> impl Strategy<Value = Span> {
    (0..7 * DAY, prop_oneof![1_i64..30, 30_i64..600, 600_i64..4 * DAY]).prop_map(|(from, length)| (from, from + length))
}

fn absences() -> impl Strategy<Value = Trouble> {
    let spans = || prop::collection::vec(span(), 0..3);
    let off = prop::collection::vec((1_u128..16, span()), 0..12);
    let group_off = prop_oneof![2 => Just(None), 1 => (1_i64..2 * DAY, 2 * DAY..6 * DAY).prop_map(Some)];
    (spans(), spans(), off, group_off, prop_oneof![3 => Just(0), 1 => Just(3_u128)]).prop_map(
        |(down, cut, mut off, group_off, strangers)| {
            off.extend(group_off.into_iter().flat_map(|span| (1..=6).map(move |host| (host, span))));
            Trouble { down, cut, off, strangers }
        },
    )
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_group_starts_whose_predecessor_was_not_run_by_anybody_who_was_known(
        trouble in absences(), is_v2 in any::<bool>(), cap in prop::sample::select(vec![1_u8, 30, 100]),
    ) {
        let dialect = if is_v2 { Dialect::V2 } else { Dialect::Rfd0169 };
        let mut world = World::with_cap(dialect, &GROUPS, cap, &none(), trouble.clone());
        world.fleet.terms.is_proven = false;
        world.until(8 * DAY);
        if let Some(started) = world.started.get("rest") {
            let run = world.run.get("first");
            prop_assert!(run.is_some_and(|run| run <= started), "{dialect:?} {trouble:?}: {run:?} {started}");
        }
    }

    #[test]
    fn strangers_and_an_hour_in_which_nobody_listens_change_nothing_of_who_is_told(
        hour in 0..2 * DAY, is_down in any::<bool>(), is_v2 in any::<bool>(), is_proven in any::<bool>(),
        is_lonely in any::<bool>(), breaks in prop::collection::vec(1_u128..16, 0..2),
    ) {
        let dialect = if is_v2 { Dialect::V2 } else { Dialect::Rfd0169 };
        let told = |trouble: Trouble| {
            let more = json!({ "max_failed_before_halt": 50 });
            let mut world = World::new(dialect, &GROUPS, &more, trouble);
            world.fleet.terms.is_proven = is_proven;
            world.breaks(&breaks);
            world.until(6 * DAY);
            (world.told.clone(), world.version(1) == NEW, ["first", "rest"].map(|group| world.state(group)))
        };
        let spans = vec![(hour, hour + 60)];
        let (down, cut) = if is_down { (spans, Vec::new()) } else { (Vec::new(), spans) };
        let trouble = Trouble { down, cut, strangers: if is_lonely { 0 } else { 5 }, ..Trouble::default() };
        prop_assert_eq!(told(trouble.clone()), told(Trouble::default()), "{:?} {:?}", dialect, trouble);
    }
}
