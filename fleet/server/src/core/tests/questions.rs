//! What was answered and is heard of after something else was decided still counts.

use fleet_engine::answer::Question;
use fleet_engine::command::Command;
use fleet_engine::host::HostId;
use fleet_engine::moment::Moment;
use fleet_engine::reason::Why;
use fleet_engine::record::HostRecord;
use fleet_engine::tally::silent_after;
use fleet_wire::api::{Act, Decided, Decision, How, Write};
use jiff::SignedDuration;
use protocol::report::{Key, Report};
use serde_json::json;

use super::{INTERVAL, TestCore, actor};
use crate::core::snapshot::HostContact;
use crate::core::tx::SILENCE_MARGIN;
use crate::core::{NotTaken, Verdict, commands, hosts, reports, resources};
use crate::report::ReportBody;
use crate::reporting::Enrolment;

/// A core whose group `dev`, without a cap, is started.
struct Bed {
    core: TestCore,
}

impl Bed {
    fn new() -> Self {
        let mut bed = Self::enrolling(Enrolment::Open, &json!({ "name": "dev", "days": ["*"], "start_hour": 12 }));
        bed.act(Command::Start { groups: vec!["dev".to_owned()], force: true, ignore_blackout: false });
        bed
    }

    /// With this group, which is not started.
    fn enrolling(enrolment: Enrolment, group: &serde_json::Value) -> Self {
        let mut bed = Self { core: TestCore::new(enrolment) };
        bed.write(&json!({ "kind": "autoupdate_config", "spec": { "agents": {
            "mode": "enabled", "strategy": "halt-on-error", "schedules": { "regular": [group] } } } }));
        bed.write(&json!({ "kind": "autoupdate_version", "spec": { "agents": {
            "start_version": "1.0.0", "target_version": "1.1.0", "schedule": "regular", "mode": "enabled" } } }));
        bed
    }

    fn write(&mut self, resource: &serde_json::Value) {
        let write = Write {
            id: uuid::Uuid::new_v4().to_string(),
            text: resource.to_string(),
            how: How::Replace,
            dry_run: false,
            prune: Vec::new(),
        };
        resources::write(&mut self.core.tx(), &actor(), &write).unwrap();
    }

    fn act(&mut self, command: Command) {
        let act = Act { id: uuid::Uuid::new_v4().to_string(), command, dry_run: false };
        commands::act(&mut self.core.tx(), &actor(), &act).unwrap();
    }

    fn decide(&mut self, host: HostId, decision: Decision) {
        let decided = Decided { id: uuid::Uuid::new_v4().to_string(), decision };
        hosts::decide(&mut self.core.tx(), &actor(), host, &decided).unwrap();
    }

    /// The version that `host` is told, and whether to update. The core does not hear of it yet.
    fn asks(&self, host: HostId) -> (String, bool) {
        let question = Question { host: Some(host), group: "dev".to_owned(), update_id: 0 };
        let told = self.core.snapshot.ask(&question, None, Some(crate::clock::now())).unwrap();
        let answer = told.answer(self.core.snapshot.confirmed()).unwrap();
        (answer.version.to_string(), answer.update)
    }

    /// Why `host` is told what it is told, and what an operator is told of that.
    fn why(&mut self, host: HostId) -> (Why, String) {
        let question = Question { host: Some(host), group: "dev".to_owned(), update_id: 0 };
        let told = self.core.snapshot.ask(&question, None, Some(crate::clock::now())).unwrap();
        let answer = told.answer(self.core.snapshot.confirmed()).unwrap();
        let explained =
            json!(hosts::explain(&self.core.tx(), host).unwrap())["why"]["code"].as_str().unwrap().to_owned();
        (answer.reason.why.clone(), explained)
    }

    /// A report of `host` by a key of its own; gives what it signs with.
    fn reports(&mut self, host: HostId, sequence: u64) -> (Key, u64) {
        let key = Key([7; 32]);
        let group = "dev".to_owned();
        let mut signed = ReportBody { host, key, report: Report { sequence, group, ..Report::default() }, token: None };
        if let Err(NotTaken(_, Some(go_on))) = reports::report(&mut self.core.tx(), &signed).unwrap() {
            signed.report.epoch = go_on.epoch;
            assert!(matches!(reports::report(&mut self.core.tx(), &signed).unwrap(), Ok((Verdict::Taken, _))));
        }
        (key, signed.report.epoch)
    }

    /// The core hears a question in the name of `host` a minute later.
    fn hears_of(&mut self, host: HostId, signed: Option<(Key, u64, u64)>) {
        let question = Question { host: Some(host), group: "dev".to_owned(), update_id: 0 };
        let at = crate::clock::now() + SignedDuration::from_mins(1);
        self.core.worker.record_questions([Box::new(HostContact { question, at, told: None, signed })].into_iter());
    }

    fn state(&self, host: HostId) -> &'static str {
        let state = &self.core.worker.ledger.state;
        crate::core::search::state_of(state, state.fleet.host(host).unwrap(), state.now())
    }
}

/// Who only asks, and comes after a capped group began, is told the same the first time as afterwards, and as an operator is.
#[test]
fn who_comes_late_is_told_so_at_once() {
    let mut bed = Bed::enrolling(
        Enrolment::Open,
        &json!({ "name": "dev", "days": ["*"], "start_hour": 12, "max_in_flight": "10%" }),
    );
    (1..=3).for_each(|host| drop(bed.asks(host)));
    bed.core.record_questions();
    bed.act(Command::Start { groups: vec!["dev".to_owned()], force: true, ignore_blackout: false });
    let (first, _) = bed.why(4);
    bed.core.record_questions();
    assert_eq!((first, bed.why(4)), (Why::NextPass, (Why::NextPass, "next_pass".to_owned())));
    let (why, explained) = bed.why(1);
    assert_eq!(why.code(), explained);
}

/// Anybody may ask in the name of a host that is off, and of hosts that there are not.
#[test]
fn an_enrolled_host_is_heard_of_by_what_its_key_signed() {
    let mut bed = Bed::new();
    let (key, epoch) = bed.reports(9, 1);
    let heard = |bed: &Bed| bed.core.worker.ledger.state.fleet.host(9).unwrap().heard;
    let before = heard(&bed);
    bed.hears_of(9, None);
    bed.hears_of(9, Some((Key([8; 32]), epoch, 2)));
    bed.hears_of(9, Some((key, epoch, 1)));
    assert_eq!(heard(&bed), before, "by nobody, by another key, and once more");
    bed.hears_of(9, Some((key, epoch, 2)));
    assert!(heard(&bed) > before);
    assert!(bed.core.worker.ledger.state.fleet.host(9).unwrap().enrolled.unwrap().is_unproven, "it enrolled by itself");
}

/// Before the store has its key, and afterwards.
#[test]
fn the_record_of_who_is_forgotten_has_its_key() {
    let mut bed = Bed::new();
    let (key, _) = bed.reports(9, 1);
    bed.decide(9, Decision::Forget);
    bed.reports(10, 1);
    bed.core.tx().commit().unwrap();
    bed.decide(10, Decision::Forget);
    let reader = fleet_store::StoreReader::open(&bed.core.data.as_path().into()).unwrap();
    let records = reader.latest(None, None, 100).unwrap();
    let keys: Vec<_> =
        records.iter().filter(|record| record.action == "forget").map(|record| &record.detail["key"]).collect();
    assert_eq!(keys, [&json!(key.to_string()); 2]);
}

#[test]
fn where_hosts_enrol_by_token_who_only_asks_is_answered_and_kept_nowhere() {
    let group = json!({ "name": "dev", "days": ["*"], "start_hour": 12 });
    for enrolment in [Enrolment::Token, Enrolment::Approve] {
        let mut bed = Bed::enrolling(enrolment, &group);
        bed.act(Command::Start { groups: vec!["dev".to_owned()], force: true, ignore_blackout: false });
        for host in 1..=3 {
            assert_eq!(bed.asks(host), answer("1.1.0", true));
        }
        bed.core.record_questions();
        assert!(bed.core.worker.ledger.state.fleet.hosts().is_empty());
    }
}

#[test]
fn what_strangers_leave_is_forgotten_after_a_day() {
    let mut bed = Bed::new();
    (1..=3).for_each(|host| drop(bed.asks(host)));
    bed.core.record_questions();
    bed.reports(9, 1);
    bed.decide(2, Decision::Hold);
    let now = crate::clock::now();
    bed.core.worker.ledger.forget_strangers(now + SignedDuration::from_hours(23));
    assert_eq!(bed.core.worker.ledger.state.fleet.hosts().len(), 4);
    bed.core.worker.ledger.forget_strangers(now + SignedDuration::from_hours(25));
    let left: Vec<HostId> = bed.core.worker.ledger.state.fleet.hosts().iter().map(|host| host.id).collect();
    assert_eq!(left, [2, 9], "of whom an operator decided something stays, and who is enrolled");
}

/// Where other servers hear hosts as well, one of them may give its slot away at this very time.
#[test]
fn who_is_silent_soon_waits_until_it_is_heard_of_where_there_are_other_servers() {
    for (margin, is_told_at_once) in [(0, true), (SILENCE_MARGIN, false)] {
        let group = json!({ "name": "dev", "days": ["*"], "start_hour": 12, "max_in_flight": "10%" });
        let mut bed = Bed::enrolling(Enrolment::Open, &group);
        bed.core.worker.ledger.state.fleet.terms.silence_margin = margin;
        (1..=3).for_each(|host| drop(bed.asks(host)));
        bed.core.record_questions();
        bed.act(Command::Start { groups: vec!["dev".to_owned()], force: true, ignore_blackout: false });
        let is_told = |host: HostId, bed: &Bed| {
            let question = Question { host: Some(host), group: "dev".to_owned(), update_id: 0 };
            let found = bed.core.snapshot.ask(&question, None, None).unwrap();
            found.answer(bed.core.snapshot.confirmed()).unwrap().update
        };
        let first = (1..=3).find(|host| is_told(*host, &bed)).unwrap();
        let silent_after = SignedDuration::from_secs(silent_after(INTERVAL).into());
        for (seconds, is_told_then) in
            [(i64::from(SILENCE_MARGIN) + 5, true), (i64::from(SILENCE_MARGIN) - 5, is_told_at_once)]
        {
            // What another server heard of it is what this one learned.
            let (ledger, now) = (&mut bed.core.worker.ledger, crate::clock::now());
            let heard = Moment::of(now - silent_after + SignedDuration::from_secs(seconds));
            let known = HostRecord { heard, ..ledger.state.fleet.record(first).unwrap() };
            let arrivals = ledger.state.fleet.arrivals();
            ledger.state.fleet.put_record(known, arrivals, ledger.state.rollouts.rollout.as_ref());
            ledger.publish(now);
            assert_eq!(is_told(first, &bed), is_told_then, "{margin}, {seconds} s before its silence");
        }
        bed.hears_of(first, None);
        assert!(is_told(first, &bed), "{margin}");
    }
}

fn halt() -> Command {
    Command::Halt { groups: Vec::new(), all: true }
}

fn answer(version: &str, update: bool) -> (String, bool) {
    (version.to_owned(), update)
}

#[test]
fn who_was_told_before_a_halt_that_was_decided_before_it_was_heard_of_is_told_the_target() {
    let mut bed = Bed::new();
    assert_eq!(bed.asks(1), answer("1.1.0", true));
    bed.act(halt());
    bed.core.record_questions();
    assert_eq!((bed.asks(1), bed.state(1)), (answer("1.1.0", false), "told"));
    // Who asks after it was not told.
    bed.core.record_questions();
    assert_eq!(bed.asks(2), answer("1.0.0", false));
    bed.core.record_questions();
    assert_eq!(bed.state(2), "pending");
    bed.act(Command::Run { groups: Vec::new(), all: true });
    assert_eq!(bed.state(1), "told", "it is told once");
}

#[test]
fn who_was_told_before_an_operator_held_him_is_told_the_target() {
    let mut bed = Bed::new();
    // It is known, and its turn has come.
    bed.act(halt());
    bed.asks(1);
    bed.core.record_questions();
    bed.act(Command::Run { groups: Vec::new(), all: true });
    assert_eq!(bed.asks(1), answer("1.1.0", true));
    bed.decide(1, Decision::Hold);
    bed.core.record_questions();
    assert_eq!(bed.asks(1), answer("1.1.0", false));
    // Who was not told is told the start version.
    bed.decide(2, Decision::Hold);
    assert_eq!(bed.asks(2), answer("1.0.0", false));
}

#[test]
fn who_was_told_before_a_rollback_is_sent_back() {
    let mut bed = Bed::new();
    assert_eq!(bed.asks(1), answer("1.1.0", true));
    bed.act(Command::Rollback { groups: vec!["dev".to_owned()], all_started: false, at_once: true });
    bed.core.record_questions();
    let host = bed.core.worker.ledger.state.fleet.host(1).unwrap();
    assert!(host.mark().is_some() && !host.told_back, "it was told the target");
    assert_eq!(bed.asks(1), answer("1.0.0", true));
    bed.core.record_questions();
    assert!(bed.core.worker.ledger.state.fleet.host(1).unwrap().told_back);
}

#[test]
fn an_answer_of_a_rollout_that_is_over_is_no_mark_in_the_next_one() {
    let mut bed = Bed::new();
    bed.asks(1);
    bed.write(&json!({ "kind": "autoupdate_version", "spec": { "agents": {
        "start_version": "1.0.0", "target_version": "1.2.0", "schedule": "regular", "mode": "enabled" } } }));
    bed.core.record_questions();
    assert_eq!(bed.state(1), "pending");
}

#[test]
fn of_what_is_only_asked_for_or_refused_nothing_is_made() {
    let mut bed = Bed::new();
    (1..=3).for_each(|host| drop(bed.asks(host)));
    bed.core.record_questions();
    let known = |bed: &Bed| {
        let state = &bed.core.worker.ledger.state;
        format!("{:?} {:?}", state.fleet.hosts(), state.rollouts)
    };
    let before = known(&bed);
    let version = json!({ "kind": "autoupdate_version", "spec": { "agents": {
        "start_version": "1.0.0", "target_version": "1.2.0", "schedule": "immediate", "mode": "enabled" } } });
    let id = || uuid::Uuid::new_v4().to_string();
    let write = Write { id: id(), text: version.to_string(), how: How::Replace, dry_run: true, prune: Vec::new() };
    assert_eq!(resources::write(&mut bed.core.tx(), &actor(), &write).unwrap().effects.lets_go, 3);
    assert_eq!(known(&bed), before, "asked for");
    let command = Command::Start { groups: vec!["other".to_owned()], force: true, ignore_blackout: false };
    commands::act(&mut bed.core.tx(), &actor(), &Act { id: id(), command, dry_run: false }).unwrap_err();
    assert_eq!(known(&bed), before, "refused");
}
