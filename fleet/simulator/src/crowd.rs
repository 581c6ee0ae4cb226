//! Made-up hosts: they ask, obey what they are told, and report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fleet_engine::answer::Question;
use fleet_engine::book::Book;
use fleet_engine::fleet::{Change, Fleet, Report};
use fleet_engine::host::{HostId, Outcome};
use jiff::{SignedDuration, Timestamp};

use fleet_answers::ids;

/// The code that an updater reports whose new agent was not healthy.
const BROKEN: &str = "health_check_failed";

/// Hosts of one kind.
pub(crate) struct Kind {
    /// Hosts.
    pub count: u32,
    /// The group that they declare.
    pub group: String,
    /// What they run at first.
    pub version: String,
    /// Their labels.
    pub labels: BTreeMap<String, String>,
    /// Hundredths of a percent of them on which the target breaks.
    pub breaks: u32,
    /// From being told to the outcome.
    pub update_in: SignedDuration,
    /// Between two questions.
    pub every: SignedDuration,
}

/// All made-up hosts, and what each does next.
pub(crate) struct Crowd {
    seed: u64,
    kinds: u64,
    hosts: Vec<Member>,
    /// When, in which order among equals, who, what.
    next: BinaryHeap<Reverse<(Timestamp, u64, usize, Does)>>,
    events: u64,
}

struct Member {
    id: HostId,
    update_id: u128,
    group: String,
    labels: BTreeMap<String, String>,
    version: String,
    is_broken: bool,
    update_in: SignedDuration,
    every: SignedDuration,
    /// The version that failed here, and the attempt at which it did.
    refuses: Option<(String, u32)>,
    /// What it is about to install.
    changes_to: Option<(String, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Does {
    Ask,
    Start,
    Switch,
    End,
}

impl Crowd {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, kinds: 0, hosts: Vec::new(), next: BinaryHeap::new(), events: 0 }
    }

    /// Adds hosts; each asks for the first time within its interval from `now` on.
    pub(crate) fn add(&mut self, kind: &Kind, now: Timestamp) {
        self.kinds += 1;
        let (seed, kinds) = (self.seed.to_be_bytes(), self.kinds.to_be_bytes());
        let made = |what: &str, number: u32| ids::made(&[what.as_bytes(), &seed, &kinds, &number.to_be_bytes()]);
        let mut lots: Vec<(u128, u32)> = (0..kind.count).map(|number| (made("lot", number), number)).collect();
        lots.sort_unstable();
        let broken = (u64::from(kind.count) * u64::from(kind.breaks)).div_ceil(10_000);
        let broken: std::collections::BTreeSet<u32> =
            lots.iter().take(usize::try_from(broken).unwrap_or(usize::MAX)).map(|(_, number)| *number).collect();
        for number in 0..kind.count {
            let (id, update_id, lot) = (made("host", number), made("updater", number), made("first", number));
            let every = kind.every.as_secs().max(1).unsigned_abs();
            let offset = i64::try_from(lot % u128::from(every)).unwrap_or_default();
            let member = Member {
                id,
                update_id,
                group: kind.group.clone(),
                labels: kind.labels.clone(),
                version: kind.version.clone(),
                is_broken: broken.contains(&number),
                update_in: kind.update_in,
                every: kind.every,
                refuses: None,
                changes_to: None,
            };
            self.hosts.push(member);
            self.plan(self.hosts.len() - 1, Does::Ask, now, SignedDuration::from_secs(offset));
        }
    }

    /// When somebody does something next.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next.peek().map(|Reverse((at, ..))| *at)
    }

    /// Does what is due first.
    pub(crate) fn act(&mut self, book: &Book, fleet: &mut Fleet) {
        let Some(Reverse((now, _, who, does))) = self.next.pop() else { return };
        match does {
            Does::Ask => self.ask(who, book, fleet, now),
            Does::Start => self.report(who, Some(Outcome::Started), book, fleet, now),
            Does::Switch => self.report(who, Some(Outcome::Switched), book, fleet, now),
            Does::End => self.end(who, book, fleet, now),
        }
    }

    fn ask(&mut self, who: usize, book: &Book, fleet: &mut Fleet, now: Timestamp) {
        self.report(who, None, book, fleet, now);
        let Some(host) = self.hosts.get(who) else { return };
        let question = Question { host: Some(host.id), group: host.group.clone(), update_id: host.update_id };
        let answer = book.ask(fleet, &question, now).filter(|answer| answer.update && host.changes_to.is_none());
        if let Some(answer) = answer {
            let wanted = (answer.version.to_string(), answer.attempt);
            if host.version != wanted.0 && host.refuses.as_ref() != Some(&wanted) {
                let lot = ids::made(&[b"jitter", &host.id.to_be_bytes(), &answer.rollout.to_be_bytes()]);
                let jitter = i64::try_from(lot % u128::from(answer.jitter.max(1))).unwrap_or_default();
                let (jitter, length) = (SignedDuration::from_secs(jitter), host.update_in);
                if let Some(host) = self.hosts.get_mut(who) {
                    host.changes_to = Some(wanted);
                }
                self.plan(who, Does::Start, now, jitter);
                self.plan(who, Does::Switch, now, jitter + length / 2);
                self.plan(who, Does::End, now, jitter + length);
            }
        }
        let every = self.hosts.get(who).map_or(SignedDuration::ZERO, |host| host.every);
        self.plan(who, Does::Ask, now, every);
    }

    fn end(&mut self, who: usize, book: &Book, fleet: &mut Fleet, now: Timestamp) {
        let Some(host) = self.hosts.get_mut(who) else { return };
        let Some((version, attempt)) = host.changes_to.clone() else { return };
        let is_back = host.refuses.as_ref().is_some_and(|(refused, _)| *refused == host.version);
        let outcome = if host.is_broken && !is_back { Outcome::RolledBack } else { Outcome::Updated };
        if outcome == Outcome::Updated {
            host.version.clone_from(&version);
        } else {
            host.refuses = Some((version, attempt));
        }
        self.report(who, Some(outcome), book, fleet, now);
        if let Some(host) = self.hosts.get_mut(who) {
            host.changes_to = None;
        }
    }

    fn report(&mut self, who: usize, outcome: Option<Outcome>, book: &Book, fleet: &mut Fleet, now: Timestamp) {
        let Some(host) = self.hosts.get(who) else { return };
        let to = host.changes_to.as_ref().map(|(version, _)| version.clone());
        let code = |outcome: Outcome| if outcome.is_failure() { BROKEN } else { "" };
        let change = |(outcome, to): (Outcome, String)| Change { outcome, to, code: code(outcome).to_owned() };
        let report = Report {
            host: host.id,
            update_id: host.update_id,
            group: Some(host.group.clone()),
            version: Some(host.version.clone()),
            labels: Some(host.labels.clone()),
            last: outcome.zip(to).map(change),
            ..Report::default()
        };
        fleet.report(&report, book.rollout.as_ref(), now);
    }

    fn plan(&mut self, who: usize, does: Does, now: Timestamp, later: SignedDuration) {
        self.events += 1;
        let at = now.saturating_add(later).unwrap_or(Timestamp::MAX);
        self.next.push(Reverse((at, self.events, who, does)));
    }
}
