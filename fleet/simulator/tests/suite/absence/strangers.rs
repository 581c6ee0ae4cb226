//! Who only asks: nobody waits for him, and he stands behind all who are enrolled. What sends a group back is what proven hosts
//! report.

use fleet_engine::rollout::State;
use serde_json::json;

use super::world::{DAY, DIALECTS, Dialect, NOON, Trouble, World};
use super::{GROUPS, none};

/// Made-up UUIDs by the hundred, for the group of production.
#[test]
fn strangers_take_no_place_of_an_enrolled_host() {
    for (dialect, is_proven) in DIALECTS.into_iter().flat_map(|dialect| [(dialect, true), (dialect, false)]) {
        let mut world = World::new(dialect, &GROUPS, &none(), Trouble { strangers: 5, ..Trouble::default() });
        world.fleet.terms.is_proven = is_proven;
        world.until(2 * DAY);
        assert_eq!((world.state("first"), world.state("rest")), (State::Done, State::Done), "{dialect:?} {is_proven}");
        assert_eq!(world.told.len(), 15, "{dialect:?} {is_proven}");
        // By labels they belong nowhere.
        let may_come = !is_proven && dialect == Dialect::V2;
        assert_eq!(world.told_strangers > 0, may_come, "{dialect:?}: behind all others, where they may come");
    }
}

/// With one unsigned question each 40 minutes, of another host each time, a group was active for ever.
#[test]
fn a_stranger_keeps_no_group_active() {
    for dialect in DIALECTS {
        let mut alone = World::new(dialect, &GROUPS, &none(), Trouble::default());
        let mut asked = World::new(dialect, &GROUPS, &none(), Trouble { strangers: 1, ..Trouble::default() });
        for world in [&mut alone, &mut asked] {
            world.fleet.terms.is_proven = false;
            world.until(NOON + 3 * DAY);
        }
        assert_eq!(asked.started, alone.started, "{dialect:?}");
        assert_eq!(asked.told, alone.told, "{dialect:?}");
    }
}

fn rolls_back(breaks: u128, allowed: u8, is_proven: bool) -> World {
    let more = json!({ "on_halt": "rollback", "max_failed_before_halt": allowed });
    let mut world = World::with_cap(Dialect::Rfd0169, &GROUPS, 100, &more, Trouble::default());
    world.breaks(&(1..=breaks).collect::<Vec<_>>());
    (1..=15).for_each(|host| world.fleet.set_unproven(host, !is_proven));
    world.until(NOON + 60);
    world
}

#[test]
fn one_host_sends_no_group_back_and_none_for_which_nobody_vouches() {
    assert_eq!(rolls_back(1, 0, true).state("first"), State::Halted, "one may lie");
    assert_eq!(rolls_back(2, 20, true).state("first"), State::RolledBack);
    assert_eq!(rolls_back(6, 20, false).state("first"), State::Halted, "anybody may have made them up");
}

/// Machines that are set back to a snapshot of before run the old version again, and report no failure.
#[test]
fn a_version_that_merely_differs_sends_nobody_back() {
    let mut world = rolls_back(0, 0, true);
    assert_eq!(world.state("first"), State::Done);
    world.set_back(&[1, 2, 3]);
    world.until(NOON + 90);
    assert_eq!((world.state("first"), world.code("first")), (State::Halted, "halted"));
}
