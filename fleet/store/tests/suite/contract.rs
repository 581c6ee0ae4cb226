//! What is written is read, all or nothing, once.

use std::os::unix::fs::PermissionsExt;

use fleet_engine::fleet::Fleet;
use fleet_engine::resource::Kind;
use fleet_store::{Change, EnrolledHost, EnrolmentChanges, Error, StoredReport, StoredResource, StoredToken};
use fleet_wire::api::Role;
use protocol::report::Key;

use crate::support::*;

#[test]
fn a_new_store_is_empty_private_and_has_an_epoch_of_its_own() {
    let (bed, other) = (Bed::new(), Bed::new());
    let state = bed.open().load().unwrap();
    assert_eq!((state.book, state.revision, state.arrivals, state.is_restored_held), (None, 0, 0, false));
    assert!(state.resources.is_empty() && state.hosts.is_empty());
    assert_ne!(state.epoch, other.open().load().unwrap().epoch);
    assert_eq!(bed.open().load().unwrap().epoch, state.epoch, "an epoch lasts");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&bed.data()), 0o700);
    let _open = bed.open();
    for name in names(&bed.data()) {
        assert_eq!(mode(&bed.data().join(&name)), 0o600, "{name}");
    }
}

#[test]
fn all_that_is_written_comes_back_after_a_restart() {
    let bed = Bed::new();
    let mut store = bed.open();
    let book = book(7);
    let hosts = vec![host(u128::MAX, "1.2.3"), host(1, "1.2.4")];
    let yaml = "kind: fleet_channel # why\n";
    let change = Change {
        expected: 0,
        book: Some(&book),
        resources: vec![(Kind::Channel, "stable".to_owned(), Some(("r1".to_owned(), yaml.to_owned())))],
        hosts: hosts.clone(),
        arrivals: 12,
        records: vec![record("group a"), record("group b")],
        request: Some(("id-1".to_owned(), "{\"ok\":true}".to_owned())),
        ..Change::default()
    };
    let committed = store.commit(&change).unwrap();
    assert_eq!(committed.revision, 1);
    assert_eq!(committed.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2]);
    drop(store);
    let mut store = bed.open();
    let state = store.load().unwrap();
    assert_eq!((state.book, state.revision, state.arrivals), (Some(book), 1, 12));
    assert_eq!(state.hosts, hosts);
    let kept = StoredResource {
        kind: Kind::Channel,
        name: "stable".to_owned(),
        revision: "r1".to_owned(),
        yaml: yaml.to_owned(),
    };
    assert_eq!(state.resources, [kept]);
    assert_eq!(store.outcome("id-1").unwrap().as_deref(), Some("{\"ok\":true}"));
    assert_eq!(store.outcome("id-2").unwrap(), None);
    assert_eq!(store.audit(0, 10).unwrap(), committed.entries);
    assert_eq!(store.audit(1, 10).unwrap(), committed.entries[1..]);
    assert_eq!(store.audit(0, 1).unwrap(), committed.entries[..1]);
}

#[test]
fn numbers_of_128_bits_survive_in_hosts_and_book() {
    let bed = Bed::new();
    let mut store = bed.open();
    let book = book(1);
    store.commit(&Change { book: Some(&book), hosts: vec![host(u128::MAX, "1.0.0")], ..Change::default() }).unwrap();
    let state = store.load().unwrap();
    assert_eq!((state.hosts[0].id, state.hosts[0].update_id), (u128::MAX, u128::MAX));
    let rollout = state.book.unwrap().rollout.unwrap();
    assert_eq!(rollout.id, u128::MAX);
    assert_eq!(rollout.groups[0].canaries[0].updater_id, u128::MAX);
    assert_eq!(rollout.groups[0].cursor.unwrap().id, u128::MAX);
}

#[test]
fn who_is_forgotten_and_comes_again_in_one_change_is_there_and_has_nothing_of_before() {
    let bed = Bed::new();
    let mut store = bed.open();
    let enrolled = |key: u8| EnrolledHost {
        host: 1,
        key: Key([key; 32]),
        sequence: 5,
        how: "open".to_owned(),
        since: second(1_700_000_000),
        fixed: None,
        change: 0,
    };
    let report = |json: &str, change: Option<&str>| StoredReport {
        host: 1,
        at: second(1_700_000_000),
        json: json.to_owned(),
        change: change.map(str::to_owned),
    };
    let comes = |key: u8, report: StoredReport| EnrolmentChanges {
        enrolled: vec![enrolled(key)],
        reports: vec![report],
        ..EnrolmentChanges::default()
    };
    let (old, new) = (comes(1, report("1", Some("old"))), comes(2, report("2", None)));
    store.commit(&Change { hosts: vec![host(1, "1.0.0")], enrolments: old, ..Change::default() }).unwrap();
    let again = host(1, "2.0.0");
    let change = Change { forgotten: vec![1], hosts: vec![again.clone()], enrolments: new, ..Change::default() };
    store.commit(&change).unwrap();
    let state = store.load().unwrap();
    assert_eq!((state.hosts, state.enrolments.enrolled), (vec![again], vec![enrolled(2)]));
    let history = store.reader().unwrap().history(1).unwrap();
    assert_eq!(history.report.map(|(_, json)| json).as_deref(), Some("2"));
    assert!(history.changes.is_empty());
}

/// The fifty of FLEET §5; of another host nothing goes with what is too old.
#[test]
fn of_a_hosts_changes_the_last_fifty_stay_the_newest_first() {
    let bed = Bed::new();
    let mut store = bed.open();
    let begin = 1_700_000_000;
    let report = |host: u128, number: i64| StoredReport {
        host,
        at: second(begin + number),
        json: format!("report {number}"),
        change: Some(format!("change {number}")),
    };
    // Alone and many at once.
    let mut expected = 0;
    let mut commit = |reports: Vec<StoredReport>| {
        let enrolments = EnrolmentChanges { reports, ..EnrolmentChanges::default() };
        expected = store.commit(&Change { expected, enrolments, ..Change::default() }).unwrap().revision;
    };
    (1..=30).for_each(|number| commit(vec![report(1, number)]));
    commit(vec![report(2, 1)]);
    commit((31..=60).map(|number| report(1, number)).collect());
    let reader = store.reader().unwrap();
    let history = reader.history(1).unwrap();
    let fifty: Vec<_> = (11..=60).rev().map(|number| (second(begin + number), format!("change {number}"))).collect();
    assert_eq!(history.changes, fifty);
    assert_eq!(history.report, Some((second(begin + 60), "report 60".to_owned())));
    assert_eq!(reader.history(2).unwrap().changes, [(second(begin + 1), "change 1".to_owned())]);
}

#[test]
fn hosts_go_to_the_engine_without_a_list_of_all_of_them() {
    let bed = Bed::new();
    let mut store = bed.open();
    let hosts: Vec<_> = (1..=3).map(|id| host(id, "1.0.0")).collect();
    store.commit(&Change { hosts: hosts.clone(), arrivals: 9, ..Change::default() }).unwrap();
    let (state, fleet) = store.load_with(|hosts, arrivals| Fleet::restore(hosts, arrivals)).unwrap();
    assert!(state.hosts.is_empty());
    assert_eq!(fleet.arrivals(), 9);
    assert_eq!(fleet.record(2).as_ref(), Some(&hosts[1]));
}

#[test]
fn a_change_computed_from_another_revision_writes_nothing() {
    let bed = Bed::new();
    let mut store = bed.open();
    let (old, new) = (book(1), book(2));
    assert_eq!(write_book(&mut store, &old), 1);
    let change = Change {
        expected: 0,
        book: Some(&new),
        resources: vec![(Kind::Channel, "c".to_owned(), Some(("r".to_owned(), "y".to_owned())))],
        hosts: vec![host(1, "1.0.0")],
        arrivals: 5,
        records: vec![record("x")],
        request: Some(("id".to_owned(), "{}".to_owned())),
        ..Change::default()
    };
    assert!(matches!(store.commit(&change), Err(Error::Mismatch(_))));
    let state = store.load().unwrap();
    assert_eq!((state.revision, state.book, state.arrivals), (1, Some(old), 0));
    assert!(state.hosts.is_empty() && state.resources.is_empty());
    assert!(store.audit(0, 10).unwrap().is_empty());
    assert_eq!(store.outcome("id").unwrap(), None);
    assert_eq!(store.commit(&Change { expected: 1, ..change }).unwrap().revision, 2, "the store goes on");
}

#[test]
fn a_request_that_was_answered_acts_only_once() {
    let bed = Bed::new();
    let mut store = bed.open();
    let request = Some(("id".to_owned(), "first".to_owned()));
    store.commit(&Change { request, records: vec![record("x")], ..Change::default() }).unwrap();
    let again = Change {
        request: Some(("id".to_owned(), "second".to_owned())),
        records: vec![record("x")],
        ..Change::default()
    };
    assert!(matches!(store.commit(&again), Err(Error::Mismatch(_))));
    assert_eq!(store.outcome("id").unwrap().as_deref(), Some("first"));
    assert_eq!(store.audit(0, 10).unwrap().len(), 1);
}

#[test]
fn outcomes_are_forgotten_after_a_week_and_not_before() {
    let bed = Bed::new();
    let mut store = bed.open();
    let answer = |store: &mut fleet_store::Store, id: &str| {
        store.commit(&Change { request: Some((id.to_owned(), "{}".to_owned())), ..Change::default() }).unwrap();
    };
    answer(&mut store, "old");
    answer(&mut store, "young");
    drop(store);
    let (day, week) = (86_400, 604_800);
    let age = |id: &str, seconds: i64| {
        bed.raw().execute("UPDATE request SET at = at - ?1 WHERE id = ?2", (seconds, id)).unwrap();
    };
    age("old", week + day);
    age("young", week - day);
    let mut store = bed.open();
    answer(&mut store, "new");
    assert_eq!(store.outcome("old").unwrap(), None);
    assert!(store.outcome("young").unwrap().is_some());
}

#[test]
fn only_decisions_make_a_new_revision() {
    let bed = Bed::new();
    let mut store = bed.open();
    let hosts = Change { hosts: vec![host(1, "1.0.0")], records: vec![record("x")], ..Change::default() };
    assert_eq!(store.commit(&hosts).unwrap().revision, 0);
    let resource = (Kind::Channel, "c".to_owned(), Some(("r".to_owned(), "y".to_owned())));
    assert_eq!(store.commit(&Change { resources: vec![resource], ..Change::default() }).unwrap().revision, 1);
    assert_eq!(store.revision().unwrap(), 1);
}

#[test]
fn resources_and_hosts_are_replaced_and_removed() {
    let bed = Bed::new();
    let mut store = bed.open();
    let put = |name: &str, revision: &str| {
        (Kind::Channel, name.to_owned(), Some((revision.to_owned(), format!("yaml of {revision}"))))
    };
    let change = Change {
        resources: vec![put("a", "1"), put("b", "2")],
        hosts: vec![host(1, "1.0.0"), host(2, "1.0.0")],
        arrivals: 8,
        ..Change::default()
    };
    store.commit(&change).unwrap();
    let change = Change {
        expected: 1,
        resources: vec![put("a", "3"), (Kind::Channel, "b".to_owned(), None)],
        hosts: vec![host(1, "2.0.0")],
        forgotten: vec![2],
        arrivals: 3,
        ..Change::default()
    };
    store.commit(&change).unwrap();
    let state = store.load().unwrap();
    assert_eq!(state.hosts, [host(1, "2.0.0")]);
    let resources: Vec<_> = state.resources.iter().map(|kept| (kept.name.as_str(), kept.yaml.as_str())).collect();
    assert_eq!(resources, [("a", "yaml of 3")]);
    assert_eq!(state.arrivals, 8, "arrivals never go back");
}

#[test]
fn a_rollout_that_the_book_has_no_more_is_kept_as_it_was_last() {
    let bed = Bed::new();
    let mut store = bed.open();
    let mut first = book(1);
    write_book(&mut store, &first);
    first.rollout.as_mut().unwrap().groups[0].let_go_count = 42;
    write_book(&mut store, &first);
    assert!(store.rollouts(None, 10).unwrap().is_empty(), "it is not past");
    let second = book(2);
    write_book(&mut store, &second);
    let removed = fleet_engine::rollout_state::RolloutState { rollout: None, ..second.clone() };
    write_book(&mut store, &removed);
    let past = [second.rollout.unwrap(), first.rollout.unwrap()];
    assert_eq!(store.rollouts(None, 10).unwrap(), past);
    assert_eq!(store.rollouts(Some(2), 10).unwrap(), past[1..]);
    assert_eq!(store.reader().unwrap().rollouts(None, 1).unwrap(), past[..1]);
}

#[test]
fn tokens_are_kept_replaced_and_removed_with_their_records() {
    let bed = Bed::new();
    let mut store = bed.open();
    let token = |digest: &str| StoredToken {
        name: "ci".to_owned(),
        digest: digest.to_owned(),
        role: Role::Operator,
        created: second(1_700_000_000),
        expires: Some(second(1_800_000_000)),
    };
    let mut write = |token: Option<StoredToken>| {
        let change = Change { tokens: vec![("ci".to_owned(), token)], records: vec![record("x")], ..Change::default() };
        store.commit(&change).unwrap();
        store.reopen().unwrap();
        store.load().unwrap().tokens
    };
    assert_eq!(write(Some(token("1"))), [token("1")]);
    let forever = StoredToken { expires: None, ..token("2") };
    assert_eq!(write(Some(forever.clone())), [forever]);
    assert_eq!(write(None), []);
    assert_eq!(store.audit(0, 9).unwrap().len(), 3);
}
