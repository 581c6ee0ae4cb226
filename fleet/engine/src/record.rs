//! A host as a store keeps it: texts in place of names, and nothing that follows from the rollout.

use protocol::dry_run::DryRunResult;
use protocol::report::code;
use serde::{Deserialize, Serialize};

use crate::fleet::{Fleet, is_below};
use crate::host::{
    ArrivalNumber, EnrolmentMark, Flags, Host, HostFailure, HostId, Last, Mark, UpdateHistory, uuid, uuid_of,
};
pub use crate::label_texts::LabelTexts;
use crate::moment::Moment;
use crate::order;
use crate::rollout::Rollout;
use crate::said::Said;

/// A host, as [`Fleet::record`] gives it and [`Fleet::put_record`] takes it back. What is absent is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Its UUID; a store has it as the key of the row.
    #[serde(skip)]
    pub id: HostId,
    /// Its updater's id; 0: none.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub update_id: u128,
    /// Its labels.
    #[serde(default, skip_serializing_if = "LabelTexts::is_empty")]
    pub labels: LabelTexts,
    /// What it calls itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The group that it declares.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub declared: String,
    /// The group that an operator gave it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub assigned: String,
    /// What it runs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Pinned, disabled, held.
    #[serde(default)]
    pub flags: Flags,
    /// When it was last seen.
    pub heard: Moment,
    /// [`Host::arrival`].
    pub arrival: u64,
    /// [`Host::joined`].
    pub joined: u64,
    /// [`Host::enrolled`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolled: Option<u64>,
    /// [`Host::reports`].
    #[serde(default)]
    pub reports: bool,
    /// Its last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Last<String>>,
    /// What failed on it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<HostFailure<String>>,
    /// What a rollout did to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
    /// [`Host::told_back`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub told_back: bool,
    /// The number of a rollout, and the group that it stays in for that, though it declares another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<(u64, String)>,
    /// The dry run of a plan that it was asked for last; without a code it did not answer yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<DryRunResult>,
}

impl Fleet {
    /// The host as a store keeps it.
    pub fn record(&self, id: HostId) -> Option<HostRecord> {
        let host = self.host(id)?;
        let text = |name| self.names.text(name).to_owned();
        Some(HostRecord {
            id,
            update_id: host.update_id,
            labels: self.said(host).collect(),
            hostname: self.names.said.name(host.said).to_owned(),
            declared: text(host.declared),
            assigned: text(host.assigned),
            version: text(host.version),
            flags: host.flags,
            heard: host.heard,
            arrival: host.arrival.get(),
            joined: host.joined.get(),
            enrolled: host.enrolled.map(|enrolled| enrolled.at.get()),
            reports: host.reports,
            last: host.last().map(|Last { outcome, to, code, at, .. }| {
                let (to, code) = (text(to), text(code));
                Last { outcome, to, code, at, is_of_the_way: false }
            }),
            failure: host.failure().map(|HostFailure { to, code, at }| HostFailure {
                to: text(to),
                code: text(code),
                at,
            }),
            mark: host.mark(),
            told_back: host.told_back,
            stays: self.stays(id).map(|(number, group)| (number, group.to_owned())),
            dry_run: self.dry_run(id).map(|(plan, code)| DryRunResult { plan: uuid(plan), code: code.to_owned() }),
        })
    }

    /// Takes a host as a store has it, also in the place of what is known of it, and places it for `rollout`; without one that is
    /// left to the next step. `arrivals` is what [`Fleet::arrivals`] was. Nothing of it is a change that a store has not. [`Fleet::free_names`] follows the last one.
    pub fn put_record(&mut self, record: HostRecord, arrivals: u64, rollout: Option<&Rollout>) {
        self.stays.remove(&record.id);
        self.dry_runs.remove(&record.id);
        if let Some(DryRunResult { plan, code }) = &record.dry_run
            && let Some(plan) = uuid_of(plan)
        {
            let code = self.names.keep(code);
            self.dry_runs.insert(record.id, (plan, code));
        }
        if let Some((number, group)) = &record.stays {
            let group = self.names.keep(group);
            self.stays.insert(record.id, (*number, group));
        }
        let mut host = self.host_of(record);
        if let Some(rollout) = rollout {
            let stays = self.stays(host.id).filter(|(number, _)| *number == rollout.number);
            let stays = stays.and_then(|(_, group)| rollout.place_named(group));
            host.place = stays.unwrap_or_else(|| rollout.place_of(&host, &self.names));
            host.key = order::key(host.id, rollout.id);
            (host.choice, host.flags.told_nothing) = rollout.choose(&host, host.place, &self.names);
            host.is_below_start = is_below(Some(self.names.text(host.version)), rollout, host.place);
            host.flags.held_by_group = self.held_by(&host).is_some();
        }
        match self.at(host.id) {
            None => self.put_back(host, arrivals),
            Some(at) => self.put_over(at, host, arrivals),
        }
    }

    /// Room for so many hosts.
    pub fn reserve(&mut self, hosts: usize) {
        self.make_room(hosts);
        self.by_id.reserve(hosts, |_| None);
        self.by_update_id.reserve(hosts, |_| None);
    }

    fn host_of(&mut self, record: HostRecord) -> Host {
        let names = &mut self.names;
        let labels: Vec<_> = record.labels.iter().map(|(key, value)| (names.keep(key), names.keep(value))).collect();
        let last = record.last.map(|Last { outcome, to, code, at, .. }| {
            let is_of_the_way = code::is_of_the_way(&code);
            Last { outcome, to: names.keep(&to), code: names.keep(&code), at, is_of_the_way }
        });
        let failure = record.failure.map(|HostFailure { to, code, at }| {
            let (to, code) = (names.keep(&to), names.keep(&code));
            Box::new(HostFailure { to, code, at })
        });
        let history = UpdateHistory { last, failure, mark: record.mark };
        Host {
            update_id: record.update_id,
            said: names.said.keep(Said::default(), &record.hostname, labels.into_iter()),
            declared: names.keep(&record.declared),
            assigned: names.keep(&record.assigned),
            version: names.keep(&record.version),
            flags: record.flags,
            joined: ArrivalNumber::of(record.joined),
            enrolled: record.enrolled.map(EnrolmentMark::at),
            reports: record.reports,
            history: (history != UpdateHistory::default()).then(|| Box::new(history)),
            told_back: record.told_back,
            ..Host::new(record.id, record.heard, ArrivalNumber::of(record.arrival))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::*;
    use crate::fleet::{HostChange, HostReport};
    use crate::host::Outcome;

    fn full() -> Fleet {
        let mut fleet = Fleet::default();
        let report = HostReport {
            host: 7,
            update_id: 9,
            group: Some("prod".to_owned()),
            version: Some("1.2.3".to_owned()),
            labels: Some(BTreeMap::from([("env".to_owned(), "prod".to_owned())])),
            hostname: Some("web07".to_owned()),
            pinned: Some(true),
            disabled: Some(false),
            last: Some(HostChange {
                outcome: Outcome::RolledBack,
                to: "1.3.0".to_owned(),
                code: "unhealthy".to_owned(),
            }),
            is_by_hand: false,
            is_of_before: false,
        };
        fleet.report(&report, None, Timestamp::from_second(1_000_000).unwrap());
        fleet.assign(7, Some("special"), None, Timestamp::from_second(1_000_001).unwrap());
        fleet
    }

    #[test]
    fn what_is_kept_comes_back_whole_also_by_way_of_json() {
        let fleet = full();
        let kept = fleet.record(7).unwrap();
        let mut read: HostRecord = serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
        read.id = 7;
        assert_eq!(read, kept);
        let mut back = Fleet::default();
        back.put_record(read, fleet.arrivals(), None);
        assert_eq!(back.record(7), Some(kept));
        assert_eq!(back.arrivals(), fleet.arrivals());
        assert_eq!(back.by_update_id(9).map(|host| host.id), Some(7));
        assert!(back.host(7).unwrap().failure().is_some());
    }

    #[test]
    fn who_is_forgotten_is_gone_and_the_others_are_found_as_before() {
        let mut fleet = full();
        let now = Timestamp::from_second(2_000_000).unwrap();
        for id in 8..20 {
            fleet.question(id, Some("a"), id + 100, None, now);
        }
        let before: Vec<_> = fleet.hosts().iter().filter(|host| host.id % 3 != 0).cloned().collect();
        let _ = fleet.take_changed();
        fleet.enrol(8);
        let arrivals = fleet.arrivals();
        let gone = fleet.forget(|host| host.id % 3 == 0);
        assert_eq!(gone, [9, 12, 15, 18]);
        assert_eq!(fleet.hosts().len(), before.len());
        for host in &before {
            assert_eq!(fleet.host(host.id).map(|found| found.id), Some(host.id));
            assert_eq!(fleet.by_update_id(host.update_id).map(|found| found.id), Some(host.id));
        }
        assert!(fleet.host(9).is_none() && fleet.by_update_id(109).is_none());
        assert_eq!((fleet.arrivals(), fleet.take_changed()), (arrivals, vec![8]));
    }

    #[test]
    fn only_what_changed_since_is_given_and_once() {
        let mut fleet = full();
        assert_eq!(fleet.take_changed(), [7]);
        assert_eq!(fleet.take_changed(), [0; 0]);
        fleet.question(8, Some("a"), 0, None, Timestamp::from_second(2_000_000).unwrap());
        assert_eq!(fleet.take_changed(), [8]);
        fleet.enrol(7);
        assert_eq!(fleet.take_changed(), [0; 0], "it was enrolled before");
        fleet.enrol(8);
        assert_eq!(fleet.take_changed(), [8]);
    }
}
