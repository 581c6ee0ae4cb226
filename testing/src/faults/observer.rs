//! Who sees all that hosts were told and did, and all that operators were answered, and says what must not be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Until no node tells a host of a stopped group to go (FLEET §11).
const STOPPED_WITHIN: Duration = Duration::from_secs(2);
/// The same where a node is cut off, and of whoever lost the store.
const CUT_OFF_WITHIN: Duration = Duration::from_secs(30);
/// For a loaded machine: a question is sent some time before its node takes it.
const SLACK: Duration = Duration::from_millis(500);
/// After a fault a node connects again: it gives up an answer after 8 s, tries again each 2 s, and reads all.
const RECOVERS: Duration = Duration::from_secs(12);
/// What stops every group.
const ALL: &str = "*";

/// A command of an operator that was answered.
#[derive(Debug, Clone)]
pub(super) struct Decided {
    pub(super) id: String,
    /// Action and subject, as the audit log has them.
    pub(super) record: (String, String),
    /// When it was answered.
    pub(super) at: Instant,
    /// It may be lost: the primary that had it is gone, and its standby did not have it.
    pub(super) may_be_lost: bool,
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    /// Hosts that were told and have not ended: group and version.
    on_the_way: BTreeMap<usize, (String, String)>,
    /// When stops were answered, by group.
    stops: BTreeMap<String, Instant>,
    /// Groups that `run` named since everything was stopped.
    released: BTreeSet<String>,
    /// Until when nodes may be behind.
    impaired: BTreeMap<usize, Instant>,
    /// Since when nodes are cut off.
    cut: BTreeMap<usize, Instant>,
    decided: Vec<Decided>,
    violations: Vec<String>,
    most: usize,
    told: usize,
    latest: Duration,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Observer {
    cap: usize,
    /// Hosts that go and hosts that go back share the cap.
    turns: bool,
    seen: Mutex<Seen>,
}

impl Observer {
    /// Of groups of which so many hosts may be on their way.
    pub(super) fn new(cap: usize, turns: bool) -> Self {
        Self { cap, turns, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// A host was told to go to `version` by `node`, which it asked at `asked`.
    pub(super) fn told(&self, host: usize, group: &str, version: &str, node: usize, asked: Instant) {
        let mut seen = self.seen();
        seen.told += 1;
        let goes = (group.to_owned(), version.to_owned());
        seen.on_the_way.insert(host, goes.clone());
        let is_so = |other: &&(String, String)| other.0 == goes.0 && (self.turns || other.1 == goes.1);
        let count = seen.on_the_way.values().filter(is_so).count();
        seen.most = seen.most.max(count);
        if count > self.cap {
            seen.violations
                .push(format!("{count} hosts of {group} are on their way to {version}, {} may be", self.cap));
        }
        let all = Some(ALL).filter(|_| !seen.released.contains(group));
        let stopped = [Some(group), all].into_iter().flatten().filter_map(|key| seen.stops.get(key)).min().copied();
        if let Some(late) = stopped.and_then(|stopped| asked.checked_duration_since(stopped)) {
            let is_impaired = seen.impaired.get(&node).is_some_and(|until| asked.checked_sub(late) < Some(*until));
            let most = if is_impaired { CUT_OFF_WITHIN } else { STOPPED_WITHIN } + SLACK;
            seen.latest = seen.latest.max(if is_impaired { Duration::ZERO } else { late });
            if late > most {
                seen.violations.push(format!("node {node} tells {group} to go {late:?} after a stop"));
            }
        }
        if let Some(late) = seen.cut.get(&node).and_then(|cut| asked.checked_duration_since(*cut))
            && late > CUT_OFF_WITHIN + SLACK
        {
            seen.violations.push(format!("node {node} tells {group} to go {late:?} after it was cut off"));
        }
    }

    /// A host is about to report an outcome.
    pub(super) fn ended(&self, host: usize) {
        self.seen().on_the_way.remove(&host);
    }

    /// How many hosts are on their way.
    pub(super) fn on_the_way(&self) -> usize {
        self.seen().on_the_way.len()
    }

    /// Groups, or all, are stopped: it was answered now.
    pub(super) fn stopped(&self, group: Option<&str>) {
        let mut seen = self.seen();
        let key = group.unwrap_or(ALL).to_owned();
        if group.is_none() {
            seen.released.clear();
        }
        seen.stops.entry(key).or_insert_with(Instant::now);
    }

    /// A command that ends stops is about to be sent. Gives what to take back where it is refused.
    pub(super) fn goes_on(&self, group: Option<&str>) -> Option<Instant> {
        let mut seen = self.seen();
        if let Some(group) = group {
            seen.released.insert(group.to_owned());
        }
        seen.stops.remove(group.unwrap_or(ALL))
    }

    /// Stops that were answered and are in force: whether of all, and groups.
    pub(super) fn stops(&self) -> (bool, Vec<String>) {
        let seen = self.seen();
        let groups = seen.stops.keys().filter(|key| *key != ALL).cloned().collect();
        (seen.stops.contains_key(ALL), groups)
    }

    /// A node may be behind, from now on and for `lasts`.
    pub(super) fn impaired(&self, node: usize, lasts: Duration) {
        self.seen().impaired.insert(node, Instant::now() + lasts + RECOVERS);
    }

    /// A node is cut off from now on, or is not.
    pub(super) fn cut(&self, node: usize, is_cut: bool) {
        let mut seen = self.seen();
        seen.cut.remove(&node);
        if is_cut {
            seen.cut.insert(node, Instant::now());
        }
    }

    /// A command was answered.
    pub(super) fn decided(&self, decided: Decided) {
        self.seen().decided.push(decided);
    }

    /// What was answered from `since` on may be lost.
    pub(super) fn may_lose(&self, since: Instant) {
        self.seen().decided.iter_mut().for_each(|decided| decided.may_be_lost |= decided.at >= since);
    }

    /// What was answered so far.
    pub(super) fn all_decided(&self) -> Vec<Decided> {
        self.seen().decided.clone()
    }

    /// Something else is not as it must be.
    pub(super) fn violation(&self, what: String) {
        eprintln!("{} {what}", jiff::Timestamp::now());
        self.seen().violations.push(what);
    }

    /// What must not have been, since it was asked for last.
    pub(super) fn violations(&self) -> Vec<String> {
        std::mem::take(&mut self.seen().violations)
    }

    /// How often hosts were told to go, most at once in a group, and how long after a stop by a node that nothing kept.
    pub(super) fn figures(&self) -> (usize, usize, Duration) {
        let seen = self.seen();
        (seen.told, seen.most, seen.latest)
    }
}
