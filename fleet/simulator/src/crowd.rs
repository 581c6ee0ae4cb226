//! Made-up hosts: they ask, obey what they are told, and report.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fleet_engine::answer::Question;
use fleet_engine::book::RolloutState;
use fleet_engine::fleet::{Fleet, HostChange, HostReport};
use fleet_engine::host::{HostId, Outcome};
use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use protocol::report::code::UNHEALTHY;

use crate::forecast::HostShare;
use fleet_wire::answers::ids;

/// Hosts of one kind.
#[derive(Clone)]
pub(crate) struct ScriptHosts {
    /// Hosts.
    pub count: u32,
    /// The group that they declare.
    pub group: String,
    /// What they run at first.
    pub version: String,
    /// Their labels.
    pub labels: BTreeMap<String, String>,
    /// How many of them the target breaks.
    pub breaks: HostShare,
    /// From being told to the outcome.
    pub update_in: SignedDuration,
    /// Between two questions.
    pub every: SignedDuration,
}

/// All made-up hosts, and what each does next.
#[derive(Clone)]
pub(crate) struct Crowd {
    seed: u64,
    kinds: Vec<ScriptHosts>,
    hosts: Vec<Member>,
    /// When, and then in the order in which it was planned: who, what.
    next: BTreeMap<Timestamp, VecDeque<(u32, Does)>>,
    /// The version that was named last, and its text.
    named: Option<(Version, Arc<str>)>,
}

#[derive(Clone)]
struct Member {
    id: HostId,
    update_id: u128,
    /// The place of its kind.
    kind: usize,
    version: Arc<str>,
    is_broken: bool,
    /// It has reported its group and labels.
    is_known: bool,
    /// The version that failed here, and the attempt at which it did.
    refuses: Option<(Arc<str>, u32)>,
    /// What it is about to install.
    changes_to: Option<(Arc<str>, u32)>,
}

#[derive(Debug, Clone, Copy)]
enum Does {
    Ask,
    Start,
    Switch,
    End,
}

impl Crowd {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, kinds: Vec::new(), hosts: Vec::new(), next: BTreeMap::new(), named: None }
    }

    /// Adds hosts: they report at `now`, and each asks for the first time within its interval from then on.
    pub(crate) fn add(&mut self, kind: ScriptHosts, book: &RolloutState, fleet: &mut Fleet, now: Timestamp) {
        let place = self.kinds.len();
        let number = u64::try_from(place).unwrap_or(u64::MAX) + 1;
        let (seed, kinds) = (self.seed.to_be_bytes(), number.to_be_bytes());
        let made = |what: &str, number: u32| ids::made(&[what.as_bytes(), &seed, &kinds, &number.to_be_bytes()]);
        let mut lots: Vec<(u128, u32)> = (0..kind.count).map(|number| (made("lot", number), number)).collect();
        lots.sort_unstable();
        let broken = kind.breaks.of(lots.len());
        let broken: BTreeSet<u32> = lots.into_iter().take(broken).map(|(_, number)| number).collect();
        let version: Arc<str> = Arc::from(kind.version.as_str());
        let (count, every) = (kind.count, kind.every.as_secs().max(1).unsigned_abs());
        self.kinds.push(kind);
        for number in 0..count {
            let (id, update_id, lot) = (made("host", number), made("updater", number), made("first", number));
            let offset = i64::try_from(lot % u128::from(every)).unwrap_or_default();
            let member = Member {
                id,
                update_id,
                kind: place,
                version: Arc::clone(&version),
                is_broken: broken.contains(&number),
                is_known: false,
                refuses: None,
                changes_to: None,
            };
            let who = self.hosts.len();
            self.hosts.push(member);
            self.report(who, None, book, fleet, now);
            self.plan(who, Does::Ask, now, SignedDuration::from_secs(offset));
        }
    }

    /// When somebody does something next.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next.first_key_value().map(|(at, _)| *at)
    }

    /// Does what is due first.
    pub(crate) fn act(&mut self, book: &RolloutState, fleet: &mut Fleet) {
        let Some(mut first) = self.next.first_entry() else { return };
        let now = *first.key();
        let due = first.get_mut().pop_front();
        if first.get().is_empty() {
            first.remove();
        }
        let Some((who, does)) = due else { return };
        let who = who as usize;
        match does {
            Does::Ask => self.ask(who, book, fleet, now),
            Does::Start => self.report(who, Some(Outcome::Started), book, fleet, now),
            Does::Switch => self.report(who, Some(Outcome::Switched), book, fleet, now),
            Does::End => self.end(who, book, fleet, now),
        }
    }

    fn ask(&mut self, who: usize, book: &RolloutState, fleet: &mut Fleet, now: Timestamp) {
        self.report(who, None, book, fleet, now);
        let Some(host) = self.hosts.get(who) else { return };
        let Some(kind) = self.kinds.get(host.kind) else { return };
        let (every, length) = (kind.every, kind.update_in);
        let question = Question { host: Some(host.id), update_id: host.update_id, ..Question::default() };
        let (id, is_free) = (host.id, host.changes_to.is_none());
        let answer = book.ask(fleet, &question, now).filter(|answer| answer.update && is_free);
        if let Some(answer) = answer {
            let wanted = (self.text(&answer.version), answer.attempt);
            let Some(host) = self.hosts.get_mut(who) else { return };
            if host.version != wanted.0 && host.refuses.as_ref() != Some(&wanted) {
                let lot = ids::made(&[b"jitter", &id.to_be_bytes(), &answer.rollout.to_be_bytes()]);
                let jitter = i64::try_from(lot % u128::from(answer.jitter.max(1))).unwrap_or_default();
                let jitter = SignedDuration::from_secs(jitter);
                host.changes_to = Some(wanted);
                self.plan(who, Does::Start, now, jitter);
                self.plan(who, Does::Switch, now, jitter + length / 2);
                self.plan(who, Does::End, now, jitter + length);
            }
        }
        self.plan(who, Does::Ask, now, every);
    }

    /// The text of a version: mostly the one that was asked for before.
    fn text(&mut self, version: &Version) -> Arc<str> {
        match &self.named {
            Some((known, text)) if known == version => Arc::clone(text),
            _ => {
                let text: Arc<str> = Arc::from(version.to_string());
                self.named = Some((version.clone(), Arc::clone(&text)));
                text
            }
        }
    }

    fn end(&mut self, who: usize, book: &RolloutState, fleet: &mut Fleet, now: Timestamp) {
        let Some(host) = self.hosts.get_mut(who) else { return };
        let Some((version, attempt)) = host.changes_to.clone() else { return };
        let is_back = host.refuses.as_ref().is_some_and(|(refused, _)| *refused == host.version);
        let outcome = if host.is_broken && !is_back { Outcome::RolledBack } else { Outcome::Updated };
        if outcome == Outcome::Updated {
            host.version = version;
        } else {
            host.refuses = Some((version, attempt));
        }
        self.report(who, Some(outcome), book, fleet, now);
        if let Some(host) = self.hosts.get_mut(who) {
            host.changes_to = None;
        }
    }

    /// A report; what has not changed since the last one is not said again, and stays as it is known.
    fn report(&mut self, who: usize, outcome: Option<Outcome>, book: &RolloutState, fleet: &mut Fleet, now: Timestamp) {
        let Some(host) = self.hosts.get_mut(who) else { return };
        let kind = self.kinds.get(host.kind).filter(|_| !host.is_known);
        host.is_known = true;
        let to = host.changes_to.as_ref().map(|(version, _)| version.to_string());
        let code = |outcome: Outcome| if outcome.is_failure() { UNHEALTHY } else { "" };
        let change = |(outcome, to): (Outcome, String)| HostChange { outcome, to, code: code(outcome).to_owned() };
        let report = HostReport {
            host: host.id,
            update_id: host.update_id,
            group: kind.map(|kind| kind.group.clone()),
            version: (kind.is_some() || outcome.is_some()).then(|| host.version.to_string()),
            labels: kind.map(|kind| kind.labels.clone()),
            last: outcome.zip(to).map(change),
            ..HostReport::default()
        };
        fleet.report(&report, book.rollout.as_ref(), now);
    }

    fn plan(&mut self, who: usize, does: Does, now: Timestamp, later: SignedDuration) {
        let at = now.saturating_add(later).unwrap_or(Timestamp::MAX);
        self.next.entry(at).or_default().push_back((u32::try_from(who).unwrap_or(u32::MAX), does));
    }
}
