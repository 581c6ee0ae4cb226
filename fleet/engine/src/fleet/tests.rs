//! Whatever hosts say, each is shown what it said, and what nobody says any more is not kept.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fleet::{HostChange, HostReport};
use crate::host::{HostId, Outcome};
use crate::labels::Expression;
use crate::policy::Members;
use crate::record::HostRecord;
use crate::resource_set::ResourceSet;
use crate::rollout::Rollout;
use crate::rollout_state::RolloutState;

const HOSTS: HostId = 5;
/// Labels of a report, at most.
const LABELS: u32 = 64;

#[derive(Debug, Clone)]
enum Op {
    /// Group, version, first and number of labels, last change.
    Report(HostId, Option<u8>, Option<u8>, Option<(u32, u32)>, Option<(Outcome, u8, u8)>),
    /// Group.
    Ask(HostId, u32),
    Assign(HostId, Option<u8>),
    Stay(HostId, u8),
    Renew(HostId),
    Forget(HostId),
    /// The target.
    Arrange(u8),
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let host = || 1..=HOSTS;
    let few = || prop::option::of(0..4_u8);
    let outcomes = [Outcome::Started, Outcome::Updated, Outcome::Failed, Outcome::RolledBack];
    let last = (prop::sample::select(outcomes.to_vec()), 0..4_u8, 0..4_u8);
    // Mostly labels that no host had before.
    let labels = (any::<u32>(), 0..=LABELS);
    prop_oneof![
        12 => (host(), few(), few(), prop::option::weighted(0.9, labels), prop::option::of(last))
            .prop_map(|(host, group, version, labels, last)| Op::Report(host, group, version, labels, last)),
        6 => (host(), any::<u32>()).prop_map(|(host, group)| Op::Ask(host, group)),
        2 => (host(), few()).prop_map(|(host, group)| Op::Assign(host, group)),
        2 => (host(), 0..4_u8).prop_map(|(host, group)| Op::Stay(host, group)),
        1 => host().prop_map(Op::Renew),
        1 => host().prop_map(Op::Forget),
        1 => any::<u8>().prop_map(Op::Arrange),
        1 => Just(Op::Restart),
    ]
}

/// What a host said and what was decided of it, as texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Said {
    labels: BTreeMap<String, String>,
    declared: String,
    assigned: String,
    version: String,
    last: Option<(String, String)>,
    failure: Option<(String, String)>,
    stays: Option<String>,
    reports: bool,
    is_enrolled: bool,
}

impl Said {
    fn of(record: HostRecord) -> Self {
        Self {
            labels: record.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            declared: record.declared,
            assigned: record.assigned,
            version: record.version,
            last: record.last.map(|last| (last.to, last.code)),
            failure: record.failure.map(|failure| (failure.to, failure.code)),
            stays: record.stays.map(|(_, group)| group),
            reports: record.reports,
            is_enrolled: record.enrolled.is_some(),
        }
    }

    fn take(&mut self, report: &HostReport) {
        (self.reports, self.is_enrolled) = (true, true);
        self.version = report.version.clone().unwrap_or(std::mem::take(&mut self.version));
        self.declared = report.group.clone().unwrap_or(std::mem::take(&mut self.declared));
        self.labels = report.labels.clone().unwrap_or(std::mem::take(&mut self.labels));
        let Some(change) = &report.last else { return };
        let last = (change.to.clone(), change.code.clone());
        if change.outcome.is_failure() && self.failure.as_ref().is_none_or(|(to, _)| *to != change.to) {
            self.failure = Some(last.clone());
        }
        self.last = Some(last);
    }

    /// All its texts but the group that it declares.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let pairs = self.labels.iter().chain(self.last.iter().chain(&self.failure).map(|(to, code)| (to, code)));
        let single = [&self.assigned, &self.version].into_iter().chain(&self.stays);
        pairs.flat_map(|(one, other)| [one, other]).chain(single).map(String::as_str)
    }
}

struct Life {
    fleet: Fleet,
    said: BTreeMap<HostId, Said>,
    rollout: Rollout,
    is_arranged: bool,
    /// Most texts that were in use at once.
    most: usize,
}

fn rollout() -> Rollout {
    let (mut resources, mut state) = (ResourceSet::default(), RolloutState::default());
    let spec = json!({ "agent_version": "2.0.0", "agent_start_version": "1.0.0" });
    resources.put_json(&json!({ "kind": "autoupdate_version", "version": "v1", "spec": spec }), 1, &mut state).unwrap();
    state.step(&mut Fleet::default(), Timestamp::UNIX_EPOCH);
    state.rollout.unwrap()
}

fn version(number: u8) -> String {
    format!("3.{number}.0")
}

fn report(op: &Op) -> Option<HostReport> {
    let Op::Report(host, group, version, labels, last) = op else { return None };
    let labels = labels.map(|(first, count)| {
        let label = |at| (format!("key {first} {at}"), format!("value {first} {at}"));
        (0..count).map(label).collect()
    });
    Some(HostReport {
        host: *host,
        group: group.map(|group| format!("group {group}")),
        version: version.map(self::version),
        labels,
        last: last.map(|(outcome, to, code)| HostChange {
            outcome,
            to: self::version(to),
            code: format!("code {code}"),
        }),
        ..HostReport::default()
    })
}

impl Life {
    fn new() -> Self {
        let (fleet, said) = (Fleet::default(), BTreeMap::new());
        Self { fleet, said, rollout: rollout(), is_arranged: false, most: 0 }
    }

    fn happen(&mut self, op: &Op) {
        let now = Timestamp::from_second(1_000_000).unwrap();
        match op {
            Op::Report(host, ..) => {
                let report = report(op).unwrap();
                self.fleet.report(&report, None, now);
                self.said.entry(*host).or_default().take(&report);
            }
            Op::Ask(host, group) => {
                let group = format!("asked {group}");
                self.fleet.question(*host, Some(&group), 0, None, now);
                let said = self.said.entry(*host).or_default();
                said.declared = if said.reports { said.declared.clone() } else { group };
            }
            Op::Assign(host, group) => {
                let group = group.map(|group| format!("group {group}"));
                self.fleet.assign(*host, group.as_deref(), None, now);
                self.said.entry(*host).and_modify(|said| said.assigned = group.unwrap_or_default());
            }
            Op::Stay(host, group) if self.said.contains_key(host) => {
                let group = format!("stays {group}");
                let name = self.fleet.names.keep(&group);
                self.fleet.stays.insert(*host, (1, name));
                self.said.entry(*host).and_modify(|said| said.stays = Some(group));
            }
            Op::Renew(host) => {
                self.fleet.renew(*host, None, Timestamp::UNIX_EPOCH);
                let renew = |said: &mut Said| {
                    (said.last, said.failure, said.stays) = (None, None, None);
                    (said.version, said.reports, said.is_enrolled) = (String::new(), false, true);
                };
                self.said.entry(*host).and_modify(renew);
            }
            Op::Forget(host) => {
                self.fleet.forget(|known| known.id == *host);
                self.said.remove(host);
            }
            Op::Arrange(target) => {
                self.rollout.id += 1;
                self.rollout.target = version(*target).parse().unwrap();
                self.fleet.arrange(&self.rollout);
                self.is_arranged = true;
            }
            Op::Restart => {
                let records: Vec<_> = self.said.keys().map(|id| self.fleet.record(*id).unwrap()).collect();
                let arrivals = self.fleet.arrivals();
                self.fleet = Fleet::default();
                records.into_iter().for_each(|record| self.fleet.put_record(record, arrivals, None));
                self.fleet.free_names();
                self.is_arranged = false;
            }
            Op::Stay(..) => {}
        }
        self.most = self.most.max(self.texts().len());
    }

    /// Texts in use, without the groups that only hosts declare that only ask.
    fn proper(&self) -> BTreeSet<String> {
        let mut texts: BTreeSet<String> = self.said.values().flat_map(Said::texts).map(str::to_owned).collect();
        let vouched = self.said.values().filter(|said| said.is_enrolled || said.reports);
        texts.extend(vouched.map(|said| said.declared.clone()));
        if self.is_arranged {
            texts.extend([self.rollout.start.to_string(), self.rollout.target.to_string()]);
        }
        texts.insert(String::new());
        texts
    }

    fn texts(&self) -> BTreeSet<String> {
        let mut texts = self.proper();
        texts.extend(self.said.values().map(|said| said.declared.clone()));
        texts
    }

    fn check(&self) {
        for (id, said) in &self.said {
            assert_eq!(&Said::of(self.fleet.record(*id).unwrap()), said);
        }
        assert_eq!(self.fleet.hosts().len(), self.said.len());
        if self.is_arranged {
            let versions = self.fleet.versions(&self.rollout, &self.rollout.groups[0]);
            let shown: Vec<_> = versions.names().map(|name| self.fleet.names.text(name).to_owned()).collect();
            assert_eq!(shown, [self.rollout.start.to_string(), self.rollout.target.to_string()]);
        }
        let (kept, most) = (self.fleet.names.len(), 2 * self.most + FEW);
        assert!(kept <= most, "{kept} names are kept, {} in use at most", self.most);
        assert!(self.fleet.names_of_questions() >= self.texts().len() - self.proper().len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn each_host_is_shown_as_it_said_and_names_of_nobody_are_freed(ops in prop::collection::vec(op(), 1..400)) {
        let mut life = Life::new();
        for op in &ops {
            life.happen(op);
            life.check();
        }
        life.fleet.free_names();
        life.check();
        let (texts, proper) = (life.texts().len(), life.proper().len());
        prop_assert_eq!(life.fleet.names.len(), texts);
        prop_assert_eq!(life.fleet.names_of_questions(), texts - proper);
    }
}

#[test]
fn hosts_with_new_labels_in_each_report_and_askers_with_new_groups_leave_what_they_say_now() {
    let mut life = Life::new();
    for first in 0..1000 {
        life.happen(&Op::Report(HostId::from(first % 3), None, None, Some((first, LABELS)), None));
        life.happen(&Op::Ask(7, first));
    }
    life.check();
    // A question in the name of a host that reports makes no name.
    let before = (life.fleet.names.len(), life.fleet.names_of_questions());
    life.fleet.question(1, Some("another"), 0, None, Timestamp::UNIX_EPOCH);
    assert_eq!((life.fleet.names.len(), life.fleet.names_of_questions()), before);
}

#[test]
fn a_host_that_changes_its_update_id_with_each_question_fills_no_memory() {
    let (now, mut fleet) = (Timestamp::UNIX_EPOCH, Fleet::default());
    fleet.question(1, Some("dev"), 7, None, now);
    for update_id in 1_000..301_000 {
        fleet.question(2, Some("dev"), update_id, None, now);
    }
    assert!(fleet.former.len() <= MOST_FORMER, "{}", fleet.former.len());
    let found = |id| fleet.by_update_id(id).map(|host| host.id);
    assert_eq!((found(7), found(300_999), found(300_998)), (Some(1), Some(2), Some(2)));
}

#[test]
fn a_group_whose_labels_a_host_does_not_have_is_no_unknown_group() {
    let (mut fleet, mut rollout) = (Fleet::default(), rollout());
    let node = Some(Expression::parse("labels[\"env\"] == \"prod\"").unwrap());
    rollout.groups[0].policy.name = "prod".into();
    rollout.groups[0].policy.members = Some(Members { node, ..Members::default() });
    for (host, group) in [(1, "prod"), (2, "pord")] {
        let report = HostReport { host, group: Some(group.to_owned()), ..HostReport::default() };
        fleet.report(&report, None, Timestamp::UNIX_EPOCH);
    }
    assert_eq!(fleet.unknown_groups(&rollout, |_| true), [("pord", 1)].into());
    assert_eq!(fleet.unknown_groups(&rollout, |_| false), [].into());
}
