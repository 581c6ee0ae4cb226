//! What hosts are told from the moment on in which the store cannot be written (FLEET §4): whatever operators and hosts do
//! meanwhile, nobody goes who would not have gone before, and no version changes.

use std::collections::BTreeMap;
use std::path::Path;

use fleet_engine::answer::Question;
use fleet_engine::command::Command;
use fleet_engine::host::HostId;
use fleet_engine::reason::Why;
use fleet_wire::api::{Act, Decided, Decision, How, Write};
use protocol::report::{Key, Report};
use serde_json::json;

use super::{TestCore, actor};
use crate::core::{commands, hosts, reports, resources};
use crate::report::ReportBody;
use crate::reporting::Enrolment;

/// Fleets that are tried, by their seeds.
const FLEETS: u64 = 80;
/// Seeds that found something once: what a host reported was answered from before it was durable.
const FOUND: [u64; 1] = [223];
/// Hosts that there are; some never come before the trouble.
const HOSTS: u128 = 12;
/// Groups that hosts declare; the policy may have fewer.
const GROUPS: [&str; 4] = ["a", "b", "c", "d"];
/// Versions that are wanted one after another.
const VERSIONS: [&str; 3] = ["1.1.0", "1.2.0", "1.3.0"];

/// Numbers that a seed gives.
struct Random(u64);

impl Random {
    /// Below `end`.
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }

    fn id(&mut self) -> String {
        fleet_wire::answers::ids::text(u128::from(self.below(u64::MAX)) << 64 | u128::from(self.below(u64::MAX)))
    }
}

/// How the store fails.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// Its directory is away: it can be neither written nor read.
    Gone,
    /// It can be read, and each write fails, as on a full disk.
    Full,
}

/// A core, and what happens to it.
struct Bed {
    random: Random,
    core: TestCore,
    reports: u64,
}

impl Bed {
    fn new(seed: u64) -> Self {
        let mut bed = Self { random: Random(seed), core: TestCore::new(Enrolment::Open), reports: 0 };
        bed.core.worker.ledger.state.rollouts.seed = seed + 1;
        bed.write_policy();
        bed.write_version();
        bed
    }

    /// What `host` asks, always the same.
    fn question(host: HostId) -> Question {
        let group = GROUPS[usize::try_from(host).unwrap() % GROUPS.len()].to_owned();
        let update_id = if host.is_multiple_of(3) { 0 } else { host << 32 };
        Question { host: Some(host), group, update_id }
    }

    /// The version that `host` would be told, whether to update, and why.
    fn would_be_told(&self, host: HostId) -> Option<(String, bool, Why)> {
        let told = self.core.snapshot.ask(&Self::question(host), None, None)?;
        let answer = told.answer(self.core.snapshot.confirmed())?;
        Some((answer.version.to_string(), answer.update, answer.reason.why.clone()))
    }

    /// The same of a host that declares the same group and was never heard of.
    fn stranger_would_be_told(&self, host: HostId) -> Option<(String, bool)> {
        let question = Question { host: Some(HostId::MAX), update_id: 0, ..Self::question(host) };
        let told = self.core.snapshot.ask(&question, None, None)?;
        let answer = told.answer(self.core.snapshot.confirmed())?;
        Some((answer.version.to_string(), answer.update))
    }

    /// The version that `host` is told, and whether to update.
    fn ask(&mut self, host: HostId) -> Option<(String, bool)> {
        let told = self.core.snapshot.ask(&Self::question(host), None, Some(crate::clock::now()))?;
        let answer = told.answer(self.core.snapshot.confirmed())?.into_owned();
        self.core.record_questions();
        Some((answer.version.to_string(), answer.update))
    }

    fn any_host(&mut self) -> HostId {
        1 + u128::from(self.random.below(u64::try_from(HOSTS).unwrap()))
    }

    /// Something that an operator, a host or the clock does. What is refused is no matter.
    fn does_something(&mut self) {
        match self.random.below(10) {
            0..=2 => self.report(),
            3..=5 => self.command(),
            6 | 7 => self.decide(),
            8 if self.random.is(50) => self.write_policy(),
            8 => self.write_version(),
            _ if self.random.is(50) => drop(self.core.worker.step()),
            _ => self.core.worker.do_what_is_due(),
        }
    }

    fn command(&mut self) {
        let groups = vec![self.random.of(&GROUPS[..2]).to_owned()];
        let all = self.random.is(30);
        let some = if all { Vec::new() } else { groups.clone() };
        let command = match self.random.below(8) {
            0..=2 => Command::Start { groups, force: self.random.is(50), ignore_blackout: false },
            3 => Command::MarkDone { groups },
            4 => Command::Rollback { groups: some, all_started: all, at_once: self.random.is(50) },
            5 => Command::Halt { groups: some, all },
            6 => Command::Run { groups: some, all },
            _ => Command::Approve { groups, digest: None },
        };
        let act = Act { id: self.random.id(), command, dry_run: false };
        drop(commands::act(&mut self.core.tx(), &actor(), &act));
    }

    fn decide(&mut self) {
        let host = self.any_host();
        let decision = match self.random.below(4) {
            0 => Decision::Hold,
            1 => Decision::Release,
            2 => Decision::Assign(None),
            _ => Decision::Assign(Some(self.random.of(&GROUPS[..2]).to_owned())),
        };
        let decided = Decided { id: self.random.id(), decision };
        drop(hosts::decide(&mut self.core.tx(), &actor(), host, &decided));
    }

    fn write(&mut self, resource: &serde_json::Value) {
        let write = Write {
            id: self.random.id(),
            text: resource.to_string(),
            how: How::Replace,
            dry_run: false,
            prune: Vec::new(),
        };
        drop(resources::write(&mut self.core.tx(), &actor(), &write));
    }

    fn write_policy(&mut self) {
        let count = 1 + self.random.below(3);
        let groups: Vec<_> = (0..count).map(|index| self.group(index)).collect();
        let mode = if self.random.is(85) { "enabled" } else { "suspended" };
        let unassigned = self.random.of(&["last", "hold", "a"]);
        self.write(&json!({ "kind": "autoupdate_config", "spec": { "agents": {
            "mode": mode, "strategy": "halt-on-error", "unassigned": unassigned, "schedules": { "regular": groups } } } }));
    }

    fn group(&mut self, index: u64) -> serde_json::Value {
        let name = GROUPS[usize::try_from(index).unwrap()];
        let hour = self.random.below(24);
        let mut group = json!({ "name": name, "days": ["*"], "start_hour": hour, "max_silent": "100%" });
        if self.random.is(40) {
            group["canary_count"] = (1 + self.random.below(2)).into();
        }
        if self.random.is(50) {
            group["max_in_flight"] = format!("{}%", self.random.of(&[1, 20, 50])).into();
        }
        if self.random.is(10) {
            group["approval"] = "operator".into();
        }
        group
    }

    fn write_version(&mut self) {
        let target = self.random.of(&VERSIONS);
        let schedule = if self.random.is(85) { "regular" } else { "immediate" };
        self.write(&json!({ "kind": "autoupdate_version", "spec": { "agents": {
            "start_version": "1.0.0", "target_version": target, "schedule": schedule, "mode": "enabled" } } }));
    }

    fn report(&mut self) {
        let host = self.any_host();
        let Some(wanted) = self.core.snapshot.public().cluster.reports else { return };
        self.reports += 1;
        let question = Self::question(host);
        let is_updated = self.random.is(40);
        let target = self.random.of(&VERSIONS);
        let mut report = json!({
            "host": fleet_wire::answers::ids::text(host), "update_id": "", "epoch": wanted.epoch, "sequence": self.reports,
            "time": "2026-01-05T12:00:00Z", "group": question.group, "enabled": true, "pinned": self.random.is(10),
            "versions": { "running": if is_updated { target } else { "1.0.0" } },
        });
        if question.update_id != 0 {
            report["update_id"] = fleet_wire::answers::ids::text(question.update_id).into();
        }
        if is_updated || self.random.is(20) {
            let outcome = if is_updated { "updated" } else { "rolled_back" };
            report["last"] = json!({ "from": "1.0.0", "to": target, "at": "2026-01-05T12:00:00Z", "outcome": outcome });
        }
        let report: Report = serde_json::from_value(report).unwrap();
        let key = Key([u8::try_from(host).unwrap(); 32]);
        drop(reports::report(&mut self.core.tx(), &ReportBody { host, key, report, token: None }));
    }

    #[allow(clippy::disallowed_methods, reason = "a failure needs no sync")]
    fn break_store(&self, trouble: Trouble) {
        match trouble {
            Trouble::Gone => std::fs::rename(&self.core.data, self.core.data.with_file_name("gone")).unwrap(),
            Trouble::Full => refuse_writes(&self.core.data.join("fleet.db")),
        }
    }
}

/// Each write of a table of `database` fails from now on.
fn refuse_writes(database: &Path) {
    each_write(database, |other, name, when| {
        let sql = format!("CREATE TRIGGER {name} BEFORE {when} BEGIN SELECT RAISE(ABORT, 'no space'); END");
        other.execute_batch(&sql).unwrap();
    });
}

/// There is room again.
fn allow_writes(database: &Path) {
    each_write(database, |other, name, _| other.execute_batch(&format!("DROP TRIGGER {name}")).unwrap());
}

/// `each` with the name of a trigger, and when it acts: for each kind of write of each table.
fn each_write(database: &Path, each: impl Fn(&rusqlite::Connection, &str, &str)) {
    let other = rusqlite::Connection::open(database).unwrap();
    let mut tables = other.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(tables.len() > 4, "{tables:?}");
    for (table, what) in tables.iter().flat_map(|table| ["INSERT", "UPDATE", "DELETE"].map(|what| (table, what))) {
        each(&other, &format!("full_{table}_{what}"), &format!("{what} ON {table}"));
    }
}

/// What became of a fleet.
#[derive(Default)]
struct Became {
    /// Hosts that might have gone when the trouble began, and those that might not.
    may_go: usize,
    may_not: usize,
}

fn live_through(seed: u64) -> Became {
    let mut bed = Bed::new(seed);
    for _ in 0..bed.random.below(40) {
        if bed.random.is(50) {
            let host = bed.any_host();
            bed.ask(host);
        } else {
            bed.does_something();
        }
    }
    // Questions of the last second are in memory alone.
    let is_durable = bed.random.is(50) && bed.core.worker.step().is_ok();
    let trouble = bed.random.of(&[Trouble::Gone, Trouble::Full]);
    bed.break_store(trouble);
    let before: BTreeMap<HostId, _> = (1..=HOSTS).filter_map(|host| Some((host, bed.would_be_told(host)?))).collect();
    // A host of which only a question is known that is not durable is a stranger again.
    let strangers: BTreeMap<HostId, _> = (1..=HOSTS).map(|host| (host, bed.stranger_would_be_told(host))).collect();
    let assert_nobody_new = |host: HostId, told: Option<(String, bool)>| {
        let known = before.get(&host).map(|(version, update, _)| (version.clone(), *update));
        let was = [known.as_ref(), strangers[&host].as_ref().filter(|_| !is_durable)];
        let is_as_before = told.is_none()
            || was
                .iter()
                .flatten()
                .any(|(version, update)| told.as_ref().is_some_and(|(now, goes)| now == version && (*update || !goes)));
        assert!(is_as_before, "seed {seed}, {trouble:?}, host {host}: {was:?}, then {told:?}");
    };
    for _ in 0..30 {
        bed.does_something();
        for _ in 0..3 {
            let host = bed.any_host();
            let told = bed.ask(host);
            assert_nobody_new(host, told);
        }
    }
    let last: Vec<_> = (1..=HOSTS).map(|host| bed.would_be_told(host).map(|(version, ..)| version)).collect();
    bed.core.snapshot.doubt();
    for _ in 0..10 {
        bed.does_something();
        for (host, version) in (1..=HOSTS).zip(&last) {
            let told = bed.would_be_told(host);
            assert_eq!(told, version.clone().map(|version| (version, false, Why::StoreUnavailable)), "seed {seed}");
        }
    }
    let may_go = before.values().filter(|(_, update, _)| *update).count();
    Became { may_go, may_not: before.len() - may_go }
}

#[test]
fn while_the_store_is_down_nobody_new_goes_whatever_is_done() {
    let mut all = Became::default();
    for seed in (0..FLEETS).chain(FOUND) {
        let Became { may_go, may_not } = live_through(seed);
        all = Became { may_go: all.may_go + may_go, may_not: all.may_not + may_not };
    }
    // Else it would say nothing.
    assert!(all.may_go > 100 && all.may_not > 100, "{} might go, {} might not", all.may_go, all.may_not);
}

#[test]
fn a_stop_that_the_store_does_not_take_is_decided_as_soon_as_it_does_and_nobody_goes_before() {
    let mut bed = Bed::new(3);
    let start = Command::Start { groups: vec!["a".to_owned()], force: true, ignore_blackout: false };
    let act = |bed: &mut Bed, command: &Command| {
        let act = Act { id: bed.random.id(), command: command.clone(), dry_run: false };
        (commands::act(&mut bed.core.tx(), &actor(), &act), act)
    };
    act(&mut bed, &start).0.unwrap();
    for host in 1..=HOSTS {
        bed.ask(host);
    }
    let goes =
        |bed: &Bed| (1..=HOSTS).filter(|host| bed.would_be_told(*host).is_some_and(|(_, update, _)| update)).count();
    assert!(goes(&bed) > 0 && bed.core.snapshot.is_good());
    let database = bed.core.data.join("fleet.db");
    refuse_writes(&database);
    let (refused, halt) = act(&mut bed, &Command::Halt { groups: vec!["a".to_owned()], all: false });
    let refused = refused.unwrap_err();
    assert!(
        refused.code == fleet_wire::api::Code::StoreUnavailable && refused.message.contains("not decided yet"),
        "{refused:?}"
    );
    assert_eq!(goes(&bed), 0, "from now on, and not in 30 seconds");
    let hold = Decided { id: bed.random.id(), decision: Decision::Hold };
    assert!(hosts::decide(&mut bed.core.tx(), &actor(), 1, &hold).is_err());
    // Whatever else is done meanwhile.
    for _ in 0..20 {
        bed.does_something();
        bed.core.worker.do_what_is_due();
        assert_eq!(goes(&bed), 0);
    }
    allow_writes(&database);
    bed.core.worker.do_what_is_due();
    assert!(
        bed.core.worker.ledger.state.rollouts.holds.groups.contains("a")
            && bed.core.worker.ledger.state.fleet.host(1).unwrap().flags.held
    );
    assert!(bed.core.worker.ledger.undecided.is_empty() && bed.core.snapshot.is_good());
    // The same request that is sent again was decided once.
    commands::act(&mut bed.core.tx(), &actor(), &halt).unwrap();
    let halts = fleet_store::StoreReader::open(&bed.core.data.as_path().into()).unwrap().audit(0, 1000).unwrap();
    let halts = halts.iter().filter(|entry| entry.action == "halt" && entry.subject == "group a" && entry.done);
    assert!(halts.count() >= 1);
}

#[test]
fn a_store_that_lost_decisions_holds_everything() {
    let mut bed = Bed::new(1);
    // SQLite lets nobody but this process.
    let other = rusqlite::Connection::open(bed.core.data.join("fleet.db")).unwrap();
    other.execute_batch("CREATE TABLE before AS SELECT * FROM book").unwrap();
    bed.core.worker.step().unwrap();
    // As a disk that lost its last writes, under a server that goes on.
    other.execute_batch("UPDATE book SET (revision, json) = (SELECT revision, json FROM before)").unwrap();
    assert!(bed.core.worker.step().is_err());
    let holds = &bed.core.worker.ledger.state.rollouts.holds;
    assert!(holds.all && holds.cause == fleet_engine::rollout_state::HaltCause::StoreLost, "{holds:?}");
}

/// As a second node that decides by the same store.
#[test]
fn what_was_decided_from_another_revision_than_the_store_has_is_not_made_and_is_decided_anew() {
    let mut bed = Bed::new(2);
    let other = rusqlite::Connection::open(bed.core.data.join("fleet.db")).unwrap();
    other.execute_batch("UPDATE book SET revision = revision + 1").unwrap();
    let command = Command::Start { groups: vec!["a".to_owned()], force: true, ignore_blackout: false };
    let start = Act { id: bed.random.id(), command, dry_run: false };
    let groups = |bed: &Bed| bed.core.worker.ledger.state.rollouts.rollout.clone().unwrap().groups;
    let before = groups(&bed);
    let refused = commands::act(&mut bed.core.tx(), &actor(), &start).unwrap_err();
    assert_eq!((refused.code, groups(&bed)), (fleet_wire::api::Code::StoreUnavailable, before));
    assert_eq!(commands::act(&mut bed.core.tx(), &actor(), &start).unwrap().groups, ["a"]);
}
