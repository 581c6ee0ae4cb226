//! What lasts: the times are set back in the store while the server is down.

use std::collections::BTreeSet;
use std::path::Path;

use fleet_engine::rollout_state::RolloutState;
use fleet_store::{Change, HostSink, PlaceInLog, StorePlace};
use jiff::{SignedDuration, Timestamp};

use super::receiver::{How, Receiver};
use super::{GROUPS, server, until_kinds};
use crate::support::dir;

/// Hosts do not matter.
struct NoHosts;

impl HostSink for NoHosts {}

/// Changes what was decided, as if it had been so.
fn rewrite(dir: &Path, change: impl FnOnce(&mut RolloutState)) {
    let mut store = StorePlace::from(dir.join("data").as_path()).open().unwrap();
    let state = store.load_with(&mut NoHosts).unwrap();
    let mut book = state.book.unwrap();
    change(&mut book);
    let change = Change { expected: state.revision, book: Some(&book), arrivals: state.arrivals, ..Change::default() };
    store.commit(&change).unwrap();
}

fn hours_ago(hours: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_hours(hours)
}

#[test]
fn a_group_that_is_stuck_and_one_that_is_held_for_a_day_are_told_once() {
    let (receiver, dir) = (Receiver::start(How::Take), dir());
    let first = server(dir.path(), &receiver);
    first.rolls(GROUPS);
    // Hosts that ask and do not report: the group waits for an operator.
    let host = "00000000-0000-4000-8000-000000000001";
    first.json(&format!("/v1/webapi/find?host={host}&group=dev"));
    first.until("the host is known", || first.cli(&["host", host]).status.success());
    first.agents(&["start-update", "dev"]);
    first.agents(&["halt", "prod"]);
    let soon = ["new_version", "group_started", "group_halted"];
    until_kinds(&first, &receiver, &soon);
    assert_eq!(first.stop(), Some(0));
    rewrite(dir.path(), |book| {
        let groups = &mut book.rollout.as_mut().unwrap().groups;
        groups[0].start_time = Some(hours_ago(25));
        groups[1].halt.as_mut().unwrap().at = hours_ago(25);
    });
    let second = server(dir.path(), &receiver);
    second.until("both", || receiver.kinds().len() >= soon.len() + 2);
    let told: Vec<_> = receiver.taken().split_off(soon.len());
    let of = |kind: &str| told.iter().find(|told| told.kind() == kind).unwrap_or_else(|| panic!("{told:?}")).json();
    let (stuck, held) = (of("group_stuck"), of("held_for_a_day"));
    assert_eq!((&stuck["data"]["group"], &stuck["data"]["reason"]), (&"dev".into(), &"no_reports".into()));
    assert_eq!((&held["data"]["group"], &held["data"]["rule"]), (&"prod".into(), &"manual_halt".into()));
    second.kill();
    // Not again, but for what the kill came upon before it was noted: that is told with the same id.
    let third = server(dir.path(), &receiver);
    third.agents(&["mark-done", "dev"]);
    third.until("the next", || receiver.kinds().last().is_some_and(|kind| kind == "group_done"));
    let ids: BTreeSet<String> = receiver.taken().iter().map(|told| told.header("webhook-id")).collect();
    assert_eq!(ids.len(), soon.len() + 3, "{:?}", receiver.kinds());
}

/// A server whose clock is behind the last decision confirms nothing: that is a store which does not answer, without a broken disk.
#[test]
fn a_store_that_does_not_confirm_for_a_minute_is_told_once() {
    let (receiver, dir) = (Receiver::start(How::Take), dir());
    let data = dir.path().join("data");
    let first = server(dir.path(), &receiver);
    first.rolls(GROUPS);
    until_kinds(&first, &receiver, &["new_version"]);
    assert_eq!(first.stop(), Some(0));
    rewrite(dir.path(), |book| book.last_step = Some(hours_ago(-1)));
    let second = server(dir.path(), &receiver);
    let noted = || PlaceInLog::read(&data, "webhook").unwrap().unwrap().lasting.get("store_unavailable").cloned();
    second.until("it is noted", || noted().is_some_and(|noted| !noted.is_told));
    // Killed, for its last decision shall stay where it is.
    second.kill();
    let mut place = PlaceInLog::read(&data, "webhook").unwrap().unwrap();
    place.lasting.get_mut("store_unavailable").unwrap().since = hours_ago(1);
    place.write(&data, "webhook").unwrap();
    let third = server(dir.path(), &receiver);
    until_kinds(&third, &receiver, &["new_version", "store_unavailable"]);
    let told = receiver.taken()[1].json();
    let text = told["text"].as_str().unwrap();
    assert!(
        text.starts_with("The store does not confirm what is answered: nobody new is allowed to update, since "),
        "{text}"
    );
    let since: Timestamp = told["data"]["since"].as_str().unwrap().parse().unwrap();
    assert_eq!(since, place.lasting["store_unavailable"].since);
    third.until("that it was told is noted", || noted().is_some_and(|noted| noted.is_told));
    third.kill();
    rewrite(dir.path(), |book| book.last_step = Some(Timestamp::now()));
    let fourth = server(dir.path(), &receiver);
    fourth.agents(&["start-update", "dev"]);
    until_kinds(&fourth, &receiver, &["new_version", "store_unavailable", "group_started"]);
    fourth.until("it is over", || noted().is_none());
}
