//! Dry runs of plans (DIRECTIVES §3): which hosts are asked, and what came of it. No rollout has a part in them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use jiff::Timestamp;
use protocol::dry_run::{DryRunOrder, PREPARED};
use protocol::installer::Installer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Fleet;
use crate::host::{Host, HostId, NamedHost, uuid};
use crate::moment::Moment;
use crate::names::Name;
use crate::planned::HostCases;
use crate::rollout::{GroupStatus, Halt, Rollout};
use crate::rollout_state::RolloutState;
use crate::selection::Choice;
use crate::tally::silent_after;

/// Seconds of an hour.
const HOUR: u64 = 3600;

/// A plan of which there is a dry run: its UUID as a number, and when it was begun.
pub type DryRunPlan = (u128, Timestamp);

/// What came of a dry run so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DryRunResults {
    /// When it was begun.
    pub begun: Timestamp,
    /// Hosts that were asked.
    pub asked: u64,
    /// Those that found nothing wrong.
    pub prepared: u64,
    /// Those that did not answer yet.
    pub silent: u64,
    /// Those that would fail, by code; most hosts first.
    pub failed: Vec<DryRunFailure>,
}

/// Hosts that would fail with the same code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DryRunFailure {
    /// The updater's code.
    pub code: String,
    /// How many.
    pub hosts: u64,
    /// Some of them.
    pub sample: Vec<NamedHost>,
}

impl DryRunResults {
    /// Somebody answered, and whoever did is prepared.
    pub fn is_clean(&self) -> bool {
        self.prepared > 0 && self.failed.is_empty()
    }
}

impl fmt::Display for DryRunResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, prepared, silent, failed, begun: _ } = self;
        write!(f, "{asked} asked, {prepared} prepared, {silent} silent")?;
        failed.iter().try_for_each(|DryRunFailure { code, hosts, .. }| write!(f, ", {hosts} {code}"))
    }
}

/// What hosts are asked to try, each order once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DryRunOrders {
    orders: Vec<DryRunOrder>,
    hosts: HashMap<HostId, usize>,
}

impl DryRunOrders {
    /// What this host is asked to try; `None`: nothing.
    pub fn of(&self, host: HostId) -> Option<&DryRunOrder> {
        self.orders.get(*self.hosts.get(&host)?)
    }
}

/// What is counted of an entry.
#[derive(Clone, Default)]
struct EntryAsked {
    hosts: u64,
    asked: u64,
    waiting: Vec<HostId>,
}

impl RolloutState {
    /// Asks those hosts for a dry run of `plan` whose turn it is, where this is what the plan would make: of each entry in each hour
    /// since it was begun as many as its pace lets go in the first one. Hosts that are silent are not asked.
    pub fn ask_for_dry_run(&self, fleet: &mut Fleet, (plan, begun): DryRunPlan, now: Timestamp) {
        let state = self.adopted(now);
        let Some(rollout) = &state.rollout else { return };
        let mut entries = vec![EntryAsked::default(); rollout.groups.len()];
        let mut cases = HostCases::new(rollout, fleet);
        let is_heard = |host: &Host| host.heard.after(silent_after(fleet.terms.interval)) >= Moment::of(now);
        for host in fleet.hosts() {
            let Some((index, ..)) = target(&mut cases, rollout, fleet, host) else { continue };
            let Some(entry) = entries.get_mut(index) else { continue };
            entry.hosts += 1;
            match fleet.dry_runs.get(&host.id).filter(|(of, _)| *of == plan) {
                Some(_) => entry.asked += 1,
                None if is_heard(host) => entry.waiting.push(host.id),
                None => {}
            }
        }
        let hours = u64::try_from(now.duration_since(begun).as_secs()).unwrap_or(0) / HOUR + 1;
        for (group, entry) in rollout.groups.iter().zip(entries) {
            let most = hourly(group, entry.hosts).saturating_mul(hours).saturating_sub(entry.asked);
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            entry.waiting.into_iter().take(most).for_each(|host| fleet.note_dry_run(host, plan, ""));
        }
    }

    /// What those hosts are to try that were asked and have not answered.
    pub fn dry_run_orders(&self, fleet: &Fleet, plan: u128, now: Timestamp) -> DryRunOrders {
        let (state, mut orders) = (self.adopted(now), DryRunOrders::default());
        let Some(rollout) = &state.rollout else { return orders };
        let mut cases = HostCases::new(rollout, fleet);
        let mut known: HashMap<(usize, Choice), usize> = HashMap::new();
        for (id, _) in fleet.dry_runs.iter().filter(|(_, (of, code))| *of == plan && code.is_none()) {
            let found = fleet.host(*id).and_then(|host| target(&mut cases, rollout, fleet, host));
            let Some((index, group, choice)) = found else { continue };
            let place = *known.entry((index, choice)).or_insert_with(|| {
                orders.orders.extend(order(rollout, group, choice, plan));
                orders.orders.len().saturating_sub(1)
            });
            orders.hosts.insert(*id, place);
        }
        orders
    }
}

/// The entry and what a host gets there that it does not run: what it would install. `None`: nothing.
fn target<'a>(
    cases: &mut HostCases<'a>,
    rollout: &'a Rollout,
    fleet: &Fleet,
    host: &Host,
) -> Option<(usize, &'a GroupStatus, Choice)> {
    let flags = host.flags;
    if host.enrolled.is_none() || !host.reports || flags.pinned || flags.disabled || flags.is_held() {
        return None;
    }
    let (place, choice, why) = cases.of(host);
    let index = rollout.index_of(place)?;
    let group = rollout.groups.get(index)?;
    let target = rollout.target_of(group, choice).filter(|_| why.is_none())?;
    let is_told = group.policy.installer_of(choice) != Some(Installer::Notify);
    (is_told && fleet.names.text(host.version) != target.to_string()).then_some((index, group, choice))
}

fn order(rollout: &Rollout, group: &GroupStatus, choice: Choice, plan: u128) -> Option<DryRunOrder> {
    let target = group.policy.target_of(choice)?;
    Some(DryRunOrder {
        plan: uuid(plan),
        version: target.version.clone(),
        installer: group.policy.order_of(choice, &rollout.rules),
        attributes: target.attributes.clone(),
    })
}

/// How many of the `hosts` of a group are asked in an hour.
fn hourly(group: &GroupStatus, hosts: u64) -> u64 {
    let pace = &group.policy.pace;
    match pace.rate {
        Some(rate) => rate.share.map_or_else(|| rate.base.min(rate.maximum).into(), |share| share.cap(hosts)),
        None => pace.max_in_flight.cap(hosts),
    }
}

impl Fleet {
    /// The plan that the host was asked to try last, and the code of what came of it; empty: it did not answer yet.
    pub fn dry_run(&self, host: HostId) -> Option<(u128, &str)> {
        self.dry_runs.get(&host).map(|(plan, code)| (*plan, self.names.text(*code)))
    }

    /// Takes what came of the dry run of `plan` on a host; of another plan, or again, it is no news.
    pub fn answer_dry_run(&mut self, host: HostId, plan: u128, code: &str) {
        if self.dry_run(host) == Some((plan, "")) {
            self.note_dry_run(host, plan, code);
        }
    }

    /// Forgets what came of dry runs of other plans.
    pub fn keep_dry_runs_of(&mut self, plan: u128) {
        let gone: Vec<HostId> =
            self.dry_runs.iter().filter(|(_, (of, _))| *of != plan).map(|(host, _)| *host).collect();
        for host in gone {
            self.dry_runs.remove(&host);
            self.note_change_of(host);
        }
    }

    /// What came of the dry run of `plan`.
    pub fn dry_run_results(&self, (plan, begun): DryRunPlan) -> DryRunResults {
        let mut results = DryRunResults { begun, asked: 0, prepared: 0, silent: 0, failed: Vec::new() };
        let mut failed: BTreeMap<Name, (u64, Vec<HostId>)> = BTreeMap::new();
        for (host, (_, code)) in self.dry_runs.iter().filter(|(_, (of, _))| *of == plan) {
            results.asked += 1;
            match self.names.text(*code) {
                "" => results.silent += 1,
                PREPARED => results.prepared += 1,
                _ => {
                    let (count, sample) = failed.entry(*code).or_default();
                    *count += 1;
                    sample.push(*host);
                    sample.sort_unstable();
                    sample.truncate(Halt::SAMPLE);
                }
            }
        }
        results.failed.extend(failed.into_iter().map(|(code, (hosts, sample))| DryRunFailure {
            code: self.names.text(code).to_owned(),
            hosts,
            sample: sample.iter().filter_map(|host| self.host(*host)).map(|host| self.named(host)).collect(),
        }));
        results.failed.sort_by(|one, other| (other.hosts, &one.code).cmp(&(one.hosts, &other.code)));
        results
    }

    fn note_dry_run(&mut self, host: HostId, plan: u128, code: &str) {
        let code = self.names.keep(code);
        self.dry_runs.insert(host, (plan, code));
        self.note_change_of(host);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::HostReport;
    use crate::record::HostRecord;
    use crate::resource_set::ResourceSet;

    const PLAN: u128 = 7;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap()
    }

    /// Ten hosts of `a` on 1.0.0, of which the first is pinned and the second is there already, and one of no group.
    fn fleet(now: Timestamp) -> Fleet {
        let mut fleet = Fleet::default();
        for host in 1..=11 {
            let (version, group) = (if host == 2 { "1.3.0" } else { "1.0.0" }, if host == 11 { "x" } else { "a" });
            let (version, group, pinned) = (Some(version.to_owned()), Some(group.to_owned()), Some(host == 1));
            fleet.report(&HostReport { host, group, version, pinned, ..HostReport::default() }, None, now);
        }
        fleet
    }

    /// What a plan would make.
    fn imagined(rate: &str) -> RolloutState {
        let (mut shelf, mut book) = (ResourceSet::default(), RolloutState::default());
        let targets = json!([{ "version": "1.3.0", "length": "7" }]);
        let entry = json!({ "name": "one", "selectors": [{ "group": "a" }], "targets": targets });
        let rolling = json!({ "rolling_install": { "rate": rate } });
        shelf.put_json(&json!({ "kind": "version-control-config", "spec": rolling }), 1, &mut book).unwrap();
        let spec = json!({ "directives": [entry] });
        shelf.put_json(&json!({ "kind": "version-directive", "spec": spec }), 2, &mut book).unwrap();
        book
    }

    #[test]
    fn hosts_are_asked_at_the_pace_of_their_entry_and_each_once() {
        let (mut fleet, imagined) = (fleet(at(0)), imagined("3/h"));
        let asked = |fleet: &Fleet| fleet.dry_run_results((PLAN, at(0))).asked;
        for (now, expected) in [(0, 3), (0, 3), (1, 6), (2, 8), (9, 8)] {
            for host in 1..=11 {
                fleet.question(host, None, 0, None, at(now));
            }
            imagined.ask_for_dry_run(&mut fleet, (PLAN, at(0)), at(now));
            assert_eq!(asked(&fleet), expected, "{now}");
        }
        let orders = imagined.dry_run_orders(&fleet, PLAN, at(9));
        assert_eq!((orders.orders.len(), orders.hosts.len()), (1, 8), "neither the pinned one nor who is there");
        let order = orders.of(3).unwrap();
        assert_eq!((order.plan.as_str(), order.version.to_string().as_str()), (&*uuid(PLAN), "1.3.0"));
        assert!(order.installer.is_none() && orders.of(1).is_none() && orders.of(11).is_none());
        assert_eq!(order.attributes.get("length").map(String::as_str), Some("7"));
        // Who does not ask any more is not waited for by the others.
        let mut silent = self::fleet(at(-9));
        imagined.ask_for_dry_run(&mut silent, (PLAN, at(0)), at(0));
        assert_eq!(asked(&silent), 0);
    }

    #[test]
    fn what_came_of_it_is_counted_once_and_outlives_a_restart() {
        let (mut fleet, imagined) = (fleet(at(0)), imagined("100%/h"));
        imagined.ask_for_dry_run(&mut fleet, (PLAN, at(0)), at(0));
        for (host, code) in
            [(3, PREPARED), (3, "no_space"), (4, "no_space"), (5, "no_space"), (6, "tuf_expired"), (1, "x")]
        {
            fleet.answer_dry_run(host, PLAN, code);
        }
        fleet.answer_dry_run(7, PLAN + 1, PREPARED);
        let results = fleet.dry_run_results((PLAN, at(0)));
        assert_eq!(results.to_string(), "8 asked, 1 prepared, 4 silent, 2 no_space, 1 tuf_expired");
        assert_eq!(
            results.failed[0].sample.iter().map(|host| host.host.clone()).collect::<Vec<_>>(),
            [uuid(4), uuid(5)]
        );
        assert!(!results.is_clean());
        assert_eq!(imagined.dry_run_orders(&fleet, PLAN, at(0)).hosts.len(), 4);
        let kept = |id| {
            let json = serde_json::to_string(&fleet.record(id).unwrap()).unwrap();
            HostRecord { id, ..serde_json::from_str(&json).unwrap() }
        };
        let mut back = Fleet::default();
        (1..=11).for_each(|id| back.put_record(kept(id), fleet.arrivals(), None));
        assert_eq!(back.dry_run_results((PLAN, at(0))), results);
        // Another plan's takes its place, in what a store keeps too.
        let _ = back.take_changed();
        back.keep_dry_runs_of(PLAN + 1);
        assert_eq!((back.dry_run_results((PLAN, at(0))).asked, back.take_changed().len()), (0, 8));
        assert!(!serde_json::to_string(&back.record(3).unwrap()).unwrap().contains("dry_run"));
    }

    #[test]
    fn it_is_clean_when_somebody_answered_and_nobody_would_fail() {
        let of = |prepared, failed: &[&str]| DryRunResults {
            begun: at(0),
            asked: 3,
            prepared,
            silent: 0,
            failed: failed
                .iter()
                .map(|code| DryRunFailure { code: (*code).to_owned(), hosts: 1, sample: Vec::new() })
                .collect(),
        };
        assert!(of(1, &[]).is_clean() && !of(0, &[]).is_clean() && !of(2, &["no_space"]).is_clean());
    }
}
