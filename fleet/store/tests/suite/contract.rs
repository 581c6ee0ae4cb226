//! What is written is read, all or nothing, once.

use std::os::unix::fs::PermissionsExt;

use fleet_engine::fleet::Fleet;
use fleet_engine::record::HostRecord;
use fleet_engine::resource::Kind;
use fleet_engine::rollout_state::HaltCause;
use fleet_store::{
    Change, EnrolledHost, EnrolledKey, EnrolmentChanges, Error, StoredReport, StoredResource, StoredToken,
};
use fleet_wire::api::ReportedChange;
use protocol::report::Key;
use serde_json::json;
use testing::postgres::Postgres;

use crate::support::*;

pub type Holds = fn(&Bed);

/// What holds of a store, whichever database it is in.
pub const CONTRACT: &[(&str, Holds)] = &[
    ("all_that_is_written_comes_back_after_a_restart", all_that_is_written_comes_back_after_a_restart),
    (
        "who_is_forgotten_and_comes_again_in_one_change_is_there_and_has_nothing_of_before",
        who_is_forgotten_and_comes_again_in_one_change_is_there_and_has_nothing_of_before,
    ),
    (
        "of_a_hosts_changes_the_last_fifty_stay_the_newest_first",
        of_a_hosts_changes_the_last_fifty_stay_the_newest_first,
    ),
    ("hosts_go_to_the_engine_without_a_list_of_all_of_them", hosts_go_to_the_engine_without_a_list_of_all_of_them),
    (
        "a_rollout_that_the_book_has_no_more_is_kept_as_it_was_last",
        a_rollout_that_the_book_has_no_more_is_kept_as_it_was_last,
    ),
];

#[test]
fn a_file_keeps_the_contract() {
    for (name, holds) in CONTRACT {
        eprintln!("{name}");
        holds(&Bed::new());
    }
}

#[test]
fn postgresql_keeps_the_contract() {
    let Some(server) = Postgres::start(&["fsync=off"]) else { return };
    for (number, (name, holds)) in CONTRACT.iter().enumerate() {
        eprintln!("{name}");
        holds(&Bed::at(server.database(&format!("fleet{number}"))));
    }
}

/// To PostgreSQL and back: all of it, held, with one chain of records.
#[test]
fn a_fleet_moves_from_one_to_the_other_whole_and_held() {
    let Some(server) = Postgres::start(&["fsync=off"]) else { return };
    let (file, database, back) = (Bed::new(), Bed::at(server.database("fleet")), Bed::new());
    all_that_is_written_comes_back_after_a_restart(&file);
    of_a_hosts_changes_the_last_fifty_stay_the_newest_first(&Bed::at(server.database("other")));
    let mut store = file.open();
    let token = StoredToken {
        name: "ops".to_owned(),
        digest: "d".to_owned(),
        role: fleet_wire::api::Role::Admin,
        created: second(1_700_000_000),
        expires: None,
    };
    let tokens = vec![("ops".to_owned(), Some(token.clone()))];
    store.commit(&Change { expected: 1, tokens, ..Change::default() }).unwrap();
    let Loaded { state: before, hosts, .. } = load(&mut *store).unwrap();
    assert!(matches!(fleet_store::migrate(&file.place(), &database.place()), Err(Error::Locked(_))), "a server runs");
    drop(store);
    fleet_store::migrate(&file.place(), &database.place()).unwrap();
    assert!(matches!(fleet_store::migrate(&file.place(), &database.place()), Err(Error::Refused(_))), "not twice");
    fleet_store::migrate(&database.place(), &back.place()).unwrap();
    for bed in [database, back] {
        let mut store = bed.open();
        let Loaded { state: after, hosts: moved, .. } = load(&mut *store).unwrap();
        let book = after.book.as_ref().unwrap();
        assert!(book.holds.all && book.holds.cause == HaltCause::Restore && after.is_restored_held);
        assert_eq!(book.rollout, before.book.as_ref().unwrap().rollout);
        let ids = |hosts: &[HostRecord]| hosts.iter().map(|host| host.id).collect::<std::collections::BTreeSet<_>>();
        assert_eq!((ids(&moved), after.arrivals, &after.tokens), (ids(&hosts), before.arrivals, &before.tokens));
        assert_eq!((&after.resources, after.revision > before.revision), (&before.resources, true));
        assert_ne!(after.epoch, before.epoch, "hosts' numbers begin anew");
        assert_eq!(store.verify(None).unwrap().fault, None);
        assert!(store.outcome("id-1").unwrap().is_some());
    }
}

/// As a server that was stopped in its turn: others go on after a while, and what it writes is refused.
#[test]
fn who_lost_its_turn_writes_nothing() {
    let Some(server) = Postgres::start(&["fsync=off"]) else { return };
    let url = server.database("fleet");
    let (one, other) = (Bed::at(url.clone()), Bed::at(url));
    let (mut first, mut second) = (one.open(), other.open());
    assert_eq!(first.take_turn().unwrap(), None);
    assert_eq!(second.take_turn().unwrap(), None, "it waits for the first, and not for ever");
    write_records(&mut second, &["group a"]);
    let late = Change { records: vec![record("group b")], ..Change::default() };
    assert!(matches!(first.commit(&late), Err(Error::Mismatch(_))));
    let news = first.take_turn().unwrap().unwrap();
    assert_eq!(news.entries.iter().map(|entry| entry.subject.as_str()).collect::<Vec<_>>(), ["group a"]);
    first.commit(&late).unwrap();
    assert_eq!(second.verify(None).unwrap().records, 2);
}

#[test]
fn what_another_wrote_is_told_once_and_whole() {
    let Some(server) = Postgres::start(&["fsync=off"]) else { return };
    let url = server.database("fleet");
    let (one, other) = (Bed::at(url.clone()), Bed::at(url));
    let (mut first, mut second) = (one.open(), other.open());
    let book = book(7);
    let known = EnrolledKey { host: 1, key: Key([1; 32]), sequence: 5, change: 9, fixed: None, is_unproven: true };
    let enrolled =
        vec![EnrolledHost { known: known.clone(), how: "open".to_owned(), since: jiff::Timestamp::UNIX_EPOCH }];
    let change = Change {
        book: Some(&book),
        resources: vec![(Kind::Channel, "stable".to_owned(), Some(("r1".to_owned(), "kind: x".to_owned())))],
        hosts: vec![host(1, "1.0.0"), host(2, "1.0.0")],
        enrolments: EnrolmentChanges { enrolled, ..EnrolmentChanges::default() },
        arrivals: 12,
        records: vec![record("group a")],
        ..Change::default()
    };
    first.commit(&change).unwrap();
    let news = second.take_turn().unwrap().unwrap();
    assert_eq!((news.revision, news.arrivals, news.book.as_ref()), (1, 12, Some(&book)));
    assert_eq!((news.hosts, news.enrolled), (vec![host(1, "1.0.0"), host(2, "1.0.0")], vec![known]));
    assert_eq!((news.resources.unwrap().len(), news.tokens, news.entries.len()), (1, None, 1));
    second.end_turn();
    assert_eq!(second.take_turn().unwrap(), None, "it is told once");
    second.end_turn();
    // One goes, one is another; the rest is as it was.
    let again = host(2, "2.0.0");
    let change = Change { expected: 1, forgotten: vec![1], hosts: vec![again.clone()], ..Change::default() };
    first.commit(&change).unwrap();
    let news = second.take_turn().unwrap().unwrap();
    assert_eq!((news.forgotten, news.hosts, news.book, news.resources), (vec![1], vec![again], None, None));
}

#[test]
fn a_new_store_is_empty_private_and_has_an_epoch_of_its_own() {
    let (bed, other) = (Bed::new(), Bed::new());
    let Loaded { state, hosts, .. } = load(&mut *bed.open()).unwrap();
    assert_eq!((state.book, state.revision, state.arrivals, state.is_restored_held), (None, 0, 0, false));
    assert!(state.resources.is_empty() && hosts.is_empty());
    assert_ne!(state.epoch, other.open().load().unwrap().epoch);
    assert_eq!(bed.open().load().unwrap().epoch, state.epoch, "an epoch lasts");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&bed.data()), 0o700);
    let _open = bed.open();
    for name in names(&bed.data()) {
        assert_eq!(mode(&bed.data().join(&name)), 0o600, "{name}");
    }
}

fn all_that_is_written_comes_back_after_a_restart(bed: &Bed) {
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
    let Loaded { state, hosts: found, .. } = load(&mut *store).unwrap();
    assert_eq!((state.book, state.revision, state.arrivals), (Some(book), 1, 12));
    let sorted = |mut hosts: Vec<HostRecord>| {
        hosts.sort_by_key(|host| host.id);
        hosts
    };
    assert_eq!(sorted(found), sorted(hosts));
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

fn who_is_forgotten_and_comes_again_in_one_change_is_there_and_has_nothing_of_before(bed: &Bed) {
    let mut store = bed.open();
    let known =
        |key| EnrolledKey { host: 1, key: Key([key; 32]), sequence: 5, change: 0, fixed: None, is_unproven: true };
    let enrolled = |key| EnrolledHost { known: known(key), how: "open".to_owned(), since: second(1_700_000_000) };
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
    let (old, new) = (comes(1, report("1", Some("{}"))), comes(2, report("2", None)));
    store.commit(&Change { hosts: vec![host(1, "1.0.0")], enrolments: old, ..Change::default() }).unwrap();
    let again = host(1, "2.0.0");
    let change = Change { forgotten: vec![1], hosts: vec![again.clone()], enrolments: new, ..Change::default() };
    store.commit(&change).unwrap();
    let all = load(&mut *store).unwrap();
    assert_eq!((all.hosts, all.keys), (vec![again], vec![known(2)]));
    let history = store.reader().unwrap().history(1).unwrap();
    assert_eq!(history.report, Some(json!(2)));
    assert!(history.changes.is_empty());
}

/// The fifty of FLEET §5; of another host nothing goes with what is too old.
fn of_a_hosts_changes_the_last_fifty_stay_the_newest_first(bed: &Bed) {
    let mut store = bed.open();
    let begin = 1_700_000_000;
    let report = |host: u128, number: i64| StoredReport {
        host,
        at: second(begin + number),
        json: format!("\"report {number}\""),
        change: Some(format!("\"change {number}\"")),
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
    let change =
        |number: i64| ReportedChange { reported: second(begin + number), change: json!(format!("change {number}")) };
    assert_eq!(history.changes, (11..=60).rev().map(change).collect::<Vec<_>>());
    assert_eq!((history.reported, history.report), (Some(second(begin + 60)), Some(json!("report 60"))));
    assert_eq!(reader.history(2).unwrap().changes, [change(1)]);
}

fn hosts_go_to_the_engine_without_a_list_of_all_of_them(bed: &Bed) {
    let mut store = bed.open();
    let hosts: Vec<_> = (1..=3).map(|id| host(id, "1.0.0")).collect();
    let member = |host: u8| EnrolledKey {
        host: u128::from(host),
        key: Key([host; 32]),
        sequence: 5,
        change: 9,
        fixed: None,
        is_unproven: true,
    };
    let enrolled = |host| EnrolledHost { known: member(host), how: "open".to_owned(), since: second(1_700_000_000) };
    let enrolments = EnrolmentChanges { enrolled: vec![enrolled(1), enrolled(2)], ..EnrolmentChanges::default() };
    store.commit(&Change { hosts: hosts.clone(), enrolments, arrivals: 9, ..Change::default() }).unwrap();
    let Loaded { mut keys, hosts: found, expected, arrivals, .. } = load(&mut *store).unwrap();
    let mut fleet = Fleet::default();
    found.into_iter().for_each(|host| fleet.put_record(host, arrivals, None));
    assert_eq!((expected, fleet.arrivals()), ((2, 3), 9));
    assert_eq!(fleet.record(2).as_ref(), Some(&hosts[1]));
    keys.sort_by_key(|member| member.host);
    assert_eq!(keys, [member(1), member(2)]);
    assert_eq!([1, 3].map(|host| store.key(host).unwrap()), [Some(Key([1; 32])), None]);
}

#[test]
fn outcomes_are_forgotten_after_a_week_and_not_before() {
    let bed = Bed::new();
    let mut store = bed.open();
    let answer = |store: &mut OpenStore, id: &str| {
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

fn a_rollout_that_the_book_has_no_more_is_kept_as_it_was_last(bed: &Bed) {
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
