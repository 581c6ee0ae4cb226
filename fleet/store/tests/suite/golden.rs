//! Data of an earlier version is read: `golden/schema-1.sql` is a database as schema 1 wrote it, and stays as it is. A change
//! of the types of book, rollout or host that cannot read it breaks the data of every server.

use fleet_engine::calendar::Blackout;
use fleet_engine::host::{Mark, Outcome};
use fleet_engine::moment::Moment;
use fleet_engine::policy::{External, Members, Mode, Rate, Strategy};
use fleet_engine::reason::HaltRule;
use fleet_engine::resource::Kind;
use fleet_engine::rollout::{GateAnswer, Halt, RateAccount, State};
use fleet_engine::rollout_state::RolloutState;
use fleet_store::{Change, doctor};
use fleet_wire::api::AuditEntry;
use serde_json::json;

use crate::support::*;

/// The head of the sample's log, by `golden/chain.py`: the chain as `chain.rs` describes it, without our code.
const HEAD: &str = include_str!("../golden/schema-1.head");

/// A book in which as much is set as can be.
fn full_book() -> RolloutState {
    let mut book = book(7);
    book.last_done = Some("1.2.3".parse().unwrap());
    book.done_before = Some("1.2.2".parse().unwrap());
    book.holds.all = true;
    book.holds.hold("held");
    book.holds.release("released");
    let at = second(1_700_000_000);
    let group = &mut book.rollout.as_mut().unwrap().groups[0];
    let expression = |text: &str| text.to_owned().try_into().ok();
    group.policy.members = Some(Members { node: expression(r#"labels["env"] == "prod""#), ..Members::default() });
    let gate = &mut group.policy.gate;
    gate.requires = vec!["canary".to_owned()];
    gate.approval = Some("operator".to_owned());
    gate.external = Some(External { url: "https://gate.example/".to_owned(), timeout_seconds: 5 });
    gate.blackout = vec![Blackout { from: at, to: second(1_700_086_400), reason: "the year's end".to_owned() }];
    group.policy.pace.rate = Some(Rate { base: 10, share: None, factor_hundredths: 200, maximum: 1000 });
    group.rate = Some(RateAccount { hour: at, granted: 3, allowed: 10, updated: 2, failed: 1 });
    group.gate = Some(GateAnswer::Stop);
    group.halt = Some(Halt {
        rule: HaltRule::FailedThreshold,
        count: 3,
        of: 20,
        error: Some("unhealthy".to_owned()),
        sample: Vec::new(),
        hosts: Vec::new(),
        no_way_back: false,
        at,
        from: State::Active,
    });
    group.state = State::Halted;
    book
}

fn full_record(action: &str, subject: &str, done: bool, detail: serde_json::Value) -> AuditEntry {
    AuditEntry { action: action.to_owned(), done, detail, ..record(subject) }
}

#[test]
#[ignore = "makes a database for a new sample: see golden/README.md"]
fn sample() {
    let Some(dir) = helper_dir() else { return };
    let mut store = OpenStore::at(&dir).unwrap();
    write_book(&mut store, &book(6));
    let mut hosts = vec![host(u128::MAX, "1.2.3"), host(2, "1.2.4")];
    let moment = |seconds: i64| Moment::of(second(1_700_000_000 + seconds));
    hosts[0].mark = Some(Mark {
        rollout: 7,
        told: moment(1),
        started: Some(moment(2)),
        switched: Some(moment(3)),
        arrived: Some(moment(4)),
        lost: None,
    });
    hosts[0].assigned = "special".to_owned();
    hosts[0].enrolled = Some(3);
    let yaml = "kind: fleet_channel # a comment\nversion: v1\n";
    let change = Change {
        expected: 1,
        book: Some(&full_book()),
        resources: vec![(Kind::Channel, "stable/cloud".to_owned(), Some(("r-1".to_owned(), yaml.to_owned())))],
        hosts,
        arrivals: 12,
        records: vec![
            full_record("halt", "group prod", true, json!({ "count": 3, "error": "unhealthy" })),
            full_record("run", "group ümlaut", false, json!({ "error": { "code": "conflict" } })),
        ],
        request: Some(("0b54cf0e-0000-4000-8000-000000000001".to_owned(), "{\"groups\":[]}".to_owned())),
        ..Change::default()
    };
    store.commit(&change).unwrap();
}

/// The sample as a store's data.
fn sample_bed() -> Bed {
    let bed = Bed::new();
    std::fs::create_dir(bed.data()).unwrap();
    let raw = bed.raw();
    raw.execute_batch(include_str!("../golden/schema-1.sql")).unwrap();
    raw.close().unwrap();
    bed
}

#[test]
fn the_book_of_schema_1_is_read() {
    let state = sample_bed().open().load().unwrap();
    let book = state.book.unwrap();
    assert_eq!((state.revision, state.arrivals, state.is_restored_held), (2, 12, false));
    assert_eq!(state.epoch, "6f1c2a52-3c8e-4d0a-9b1f-000000000001");
    assert_eq!((book.number, book.seed), (7, u64::MAX));
    assert!(book.holds.has("held") && book.holds.has("any") && !book.holds.has("released"));
    assert_eq!(book.last_done.unwrap().to_string(), "1.2.3");
    let rollout = book.rollout.unwrap();
    assert_eq!((rollout.id, rollout.number, rollout.mode), (u128::MAX, 7, Mode::Enabled));
    assert_eq!((rollout.start.to_string(), rollout.target.to_string()), ("1.2.3".to_owned(), "1.2.4".to_owned()));
    assert_eq!(rollout.strategy, Strategy::HaltOnError);
    let group = &rollout.groups[0];
    assert_eq!((group.policy.name.as_str(), group.state), ("default", State::Halted));
    assert!(group.policy.members.as_ref().unwrap().node.is_some());
    assert_eq!(group.policy.gate.external.as_ref().unwrap().url, "https://gate.example/");
    assert_eq!(group.policy.gate.blackout[0].reason, "the year's end");
    assert_eq!(group.policy.pace.rate.unwrap().maximum, 1000);
    let halt = group.halt.as_ref().unwrap();
    assert_eq!((halt.rule, halt.count, halt.error.as_deref()), (HaltRule::FailedThreshold, 3, Some("unhealthy")));
    assert_eq!((group.gate, group.rate.unwrap().granted), (Some(GateAnswer::Stop), 3));
    assert_eq!(group.canaries[0].host_id, u128::MAX - 1);
    assert_eq!(group.cursor.unwrap().id, u128::MAX);
}

#[test]
fn the_hosts_and_resources_of_schema_1_are_read() {
    let bed = sample_bed();
    let mut store = bed.open();
    let Loaded { state, hosts, .. } = load(&mut *store).unwrap();
    let host = &hosts[0];
    assert_eq!((host.id, host.update_id), (u128::MAX, u128::MAX));
    assert_eq!((host.declared.as_str(), host.assigned.as_str(), host.version.as_str()), ("prod", "special", "1.2.3"));
    assert!(host.labels.iter().any(|label| label == ("label-7", "value-7")));
    assert!(host.flags.pinned && host.reports);
    assert_eq!(host.enrolled, Some(3));
    assert_eq!(host.last.as_ref().unwrap().outcome, Outcome::RolledBack);
    assert_eq!(host.failure.as_ref().unwrap().code, "unhealthy");
    assert_eq!(host.mark.unwrap().arrived, Some(Moment::of(second(1_700_000_004))));
    let resource = &state.resources[0];
    assert_eq!((resource.kind, resource.name.as_str()), (Kind::Channel, "stable/cloud"));
    assert!(resource.yaml.contains("# a comment"));
    let outcome = store.outcome("0b54cf0e-0000-4000-8000-000000000001").unwrap();
    assert_eq!(outcome.as_deref(), Some("{\"groups\":[]}"));
    assert_eq!(store.rollouts(None, 9).unwrap()[0].number, 6);
}

#[test]
fn the_log_of_schema_1_verifies_by_a_head_that_other_code_computed() {
    let bed = sample_bed();
    let mut store = bed.open();
    let verified = store.verify(Some(HEAD)).unwrap();
    assert_eq!((verified.records, verified.head.hash.as_str(), verified.fault), (2, HEAD.trim(), None));
    let entries = store.audit(0, 9).unwrap();
    assert_eq!((entries[1].subject.as_str(), entries[1].done), ("group ümlaut", false));
    assert_eq!(entries[1].detail["error"]["code"], "conflict");
    let expected = store.revision().unwrap();
    store.commit(&Change { expected, records: vec![record("on")], ..Change::default() }).unwrap();
    assert_eq!(store.verify(Some(HEAD)).unwrap().fault, None, "the chain goes on");
    drop(store);
    let findings = doctor(&bed.place(), || None);
    assert!(findings.iter().any(|finding| finding.what.contains("3 records")), "{findings:#?}");
}
