//! What hosts say: reports and questions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use protocol::report::code;

use super::Fleet;
use super::places::is_below;
use crate::host::{Host, HostFailure, HostId, Last, Outcome};
use crate::moment::Moment;
use crate::names::Name;
use crate::rollout::Rollout;
use crate::tally::HostState;

/// What a host reports; what is absent stays as it is known.
#[derive(Debug, Clone, Default)]
pub struct HostReport {
    /// Its UUID.
    pub host: HostId,
    /// Its updater's id; 0: none.
    pub update_id: u128,
    /// The group that it declares.
    pub group: Option<String>,
    /// What it runs.
    pub version: Option<String>,
    /// Its labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether its updater is pinned.
    pub pinned: Option<bool>,
    /// Whether its updater is disabled.
    pub disabled: Option<bool>,
    /// Its last change.
    pub last: Option<HostChange>,
}

/// A host's last change, as a report has it.
#[derive(Debug, Clone)]
pub struct HostChange {
    /// What became of it.
    pub outcome: Outcome,
    /// The version that it was to.
    pub to: String,
    /// The code of its error; empty: none.
    pub code: String,
}

impl Fleet {
    /// Takes a report of an enrolled host.
    pub fn report(&mut self, report: &HostReport, rollout: Option<&Rollout>, now: Timestamp) {
        let at = self.arrive(report.host, rollout, now);
        self.enrol(report.host);
        let group = report.group.as_ref().map(|group| self.names.keep(group));
        let labels = report.labels.as_ref().map(|labels| self.keep_labels(labels));
        let version = report.version.as_ref().map(|version| self.names.keep(version));
        let is_below_start = rollout.is_some_and(|rollout| is_below(report.version.as_deref(), rollout));
        let last = report.last.as_ref().map(|change| Last {
            outcome: change.outcome,
            to: self.names.keep(&change.to),
            code: self.names.keep(&change.code),
            at: Moment::of(now),
            is_of_the_way: code::is_of_the_way(&change.code),
        });
        self.take_update_id(at, report.update_id);
        let wanted = self.look(at, rollout, now).map(|look| look.wanted);
        let has_part = self.state(at, rollout, now) != Some(HostState::Excluded);
        self.change(at, rollout, now, |host| {
            host.reports = true;
            host.version = version.unwrap_or(host.version);
            host.is_below_start = version.map_or(host.is_below_start, |_| is_below_start);
            host.flags.pinned = report.pinned.unwrap_or(host.flags.pinned);
            host.flags.disabled = report.disabled.unwrap_or(host.flags.disabled);
            host.declared = group.unwrap_or(host.declared);
            host.labels = labels.unwrap_or_else(|| std::mem::take(&mut host.labels));
            if let Some(last) = last {
                host.take(last, wanted, has_part || !host.flags.is_held());
            }
        });
        if let Some(rollout) = rollout {
            self.follow(at, rollout, now);
        }
        self.free_names_if_many();
    }

    /// Takes a question: the host is known from now on, and its version is not.
    pub fn question(
        &mut self,
        id: HostId,
        group: Option<&str>,
        update_id: u128,
        rollout: Option<&Rollout>,
        now: Timestamp,
    ) {
        let at = self.arrive(id, rollout, now);
        self.take_update_id(at, update_id);
        // The group of a host that reports is what it reports.
        let group = group.filter(|_| self.hosts.get(at).is_some_and(|host| !host.reports));
        let group = group.map(|group| self.keep_of_question(group));
        self.change(at, rollout, now, |host| {
            if !host.reports {
                host.declared = group.unwrap_or(host.declared);
            }
        });
        self.free_names_if_many();
    }
}

impl Host {
    /// Keeps its last change, and a failure that is new: not in place of that of the version that is `wanted` of it now, and none of
    /// a host that an operator holds and that was not told to update (`counts`).
    fn take(&mut self, last: Last, wanted: Option<Name>, counts: bool) {
        self.last = Some(last);
        let has_failed = |wanted: Name| self.failure.is_some_and(|before| before.to == wanted && last.to != wanted);
        if !counts || !last.outcome.is_failure() || last.is_of_the_way || wanted.is_some_and(has_failed) {
            return;
        }
        let is_told_since = |before: &HostFailure| self.mark.is_some_and(|mark| mark.told > before.at);
        let is_known = self.failure.is_some_and(|before| before.to == last.to && !is_told_since(&before));
        if !is_known {
            self.failure = Some(HostFailure { to: last.to, code: last.code, at: last.at });
        }
    }
}
