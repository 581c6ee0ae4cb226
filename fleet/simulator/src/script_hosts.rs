//! The hosts that a script makes up: they ask, obey what they are told, and report.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_engine::answer::Question;
use fleet_engine::fleet::{Fleet, HostChange, HostReport};
use fleet_engine::host::{HostId, Outcome};
use fleet_engine::rollout_state::RolloutState;
use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use protocol::report::code::UNHEALTHY;

use crate::crowd::{self, Crowd, Draw, HostAct, drawn};
use crate::forecast::HostShare;

/// Hosts of one kind.
#[derive(Clone)]
pub(crate) struct HostKind {
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

/// All hosts that the script makes up.
#[derive(Clone)]
pub(crate) struct ScriptHosts {
    seed: u64,
    kinds: Vec<HostKind>,
    crowd: Crowd<ScriptHost>,
    /// The version that was named last, and its text.
    named: Option<(Version, Arc<str>)>,
}

#[derive(Clone, Default)]
struct ScriptHost {
    id: HostId,
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

impl ScriptHosts {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, kinds: Vec::new(), crowd: Crowd::new(seed, Vec::new()), named: None }
    }

    /// Adds hosts: they report at `now`, and each asks for the first time within its interval from then on.
    pub(crate) fn add(&mut self, kind: HostKind, book: &RolloutState, fleet: &mut Fleet, now: Timestamp) {
        let place = self.kinds.len();
        let (first, every) = (self.crowd.members.len(), kind.every.as_secs().max(1).unsigned_abs());
        let all: Vec<usize> = (first..first + usize::try_from(kind.count).unwrap_or(usize::MAX)).collect();
        let version: Arc<str> = Arc::from(kind.version.as_str());
        self.crowd.members.extend(all.iter().map(|who| ScriptHost {
            id: crowd::id(self.seed, *who),
            kind: place,
            version: Arc::clone(&version),
            ..ScriptHost::default()
        }));
        for who in drawn(self.seed, Draw::BAD, &all, kind.breaks.of(all.len())) {
            self.crowd.change(who, |host| host.is_broken = true);
        }
        self.kinds.push(kind);
        for who in all {
            self.report(who, None, book, fleet, now);
            self.plan(who, HostAct::Ask, now, self.crowd.turn(who, every));
        }
    }

    /// When somebody does something next.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.crowd.next()
    }

    /// Does what is due first.
    pub(crate) fn act(&mut self, book: &RolloutState, fleet: &mut Fleet) {
        let Some((now, who, does)) = self.crowd.take() else { return };
        match does {
            HostAct::Ask => self.ask(who, book, fleet, now),
            HostAct::Start => self.report(who, Some(Outcome::Started), book, fleet, now),
            HostAct::Switch => self.report(who, Some(Outcome::Switched), book, fleet, now),
            HostAct::End => self.end(who, book, fleet, now),
            // Nothing keeps these from the server, and none breaks later.
            HostAct::ReportStart | HostAct::Break => {}
        }
    }

    fn ask(&mut self, who: usize, book: &RolloutState, fleet: &mut Fleet, now: Timestamp) {
        self.report(who, None, book, fleet, now);
        let Some(host) = self.crowd.members.get(who) else { return };
        let Some(kind) = self.kinds.get(host.kind) else { return };
        let (every, length) = (kind.every, kind.update_in);
        let question = Question { host: Some(host.id), update_id: !host.id, ..Question::default() };
        let is_free = host.changes_to.is_none();
        let answer = book.ask(fleet, &question, now).filter(|answer| answer.update && is_free);
        if let Some(answer) = answer {
            let wanted = (self.text(&answer.version), answer.attempt);
            let Some(host) = self.crowd.members.get_mut(who) else { return };
            if host.version != wanted.0 && host.refuses.as_ref() != Some(&wanted) {
                host.changes_to = Some(wanted);
                let jitter = self.crowd.jitter(who, answer.rollout, answer.jitter);
                self.plan(who, HostAct::Start, now, jitter);
                self.plan(who, HostAct::Switch, now, jitter + length / 2);
                self.plan(who, HostAct::End, now, jitter + length);
            }
        }
        self.plan(who, HostAct::Ask, now, every);
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
        let Some(host) = self.crowd.members.get_mut(who) else { return };
        let Some((version, attempt)) = host.changes_to.clone() else { return };
        let is_back = host.refuses.as_ref().is_some_and(|(refused, _)| *refused == host.version);
        let outcome = if host.is_broken && !is_back { Outcome::RolledBack } else { Outcome::Updated };
        if outcome == Outcome::Updated {
            host.version = version;
        } else {
            host.refuses = Some((version, attempt));
        }
        self.report(who, Some(outcome), book, fleet, now);
        if let Some(host) = self.crowd.members.get_mut(who) {
            host.changes_to = None;
        }
    }

    /// A report; what has not changed since the last one is not said again, and stays as it is known.
    fn report(&mut self, who: usize, outcome: Option<Outcome>, book: &RolloutState, fleet: &mut Fleet, now: Timestamp) {
        let Some(host) = self.crowd.members.get_mut(who) else { return };
        let kind = self.kinds.get(host.kind).filter(|_| !host.is_known);
        host.is_known = true;
        let to = host.changes_to.as_ref().map(|(version, _)| version.to_string());
        let code = |outcome: Outcome| if outcome.is_failure() { UNHEALTHY } else { "" };
        let change = |(outcome, to): (Outcome, String)| HostChange { outcome, to, code: code(outcome).to_owned() };
        let report = HostReport {
            host: host.id,
            update_id: !host.id,
            group: kind.map(|kind| kind.group.clone()),
            version: (kind.is_some() || outcome.is_some()).then(|| host.version.to_string()),
            labels: kind.map(|kind| kind.labels.clone()),
            last: outcome.zip(to).map(change),
            ..HostReport::default()
        };
        fleet.report(&report, book.rollout.as_ref(), now);
    }

    fn plan(&mut self, who: usize, does: HostAct, now: Timestamp, later: SignedDuration) {
        self.crowd.plan(who, does, now.saturating_add(later).unwrap_or(Timestamp::MAX));
    }
}
