//! How many hosts of each group run which version, as Managed Updates v2 counts (FLEET §5).

use fleet_engine::plain::is_unsafe;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use fleet_engine::host::Host;
use fleet_engine::names::Name;
use fleet_engine::resource::{AgentReport, Kind, MOST_GROUPS, MOST_VERSIONS, counts_are_good};
use fleet_engine::tally::{DEPARTED_AFTER, silent_after};
use fleet_wire::api::{CountOf, KeptResource, Omission, StateCounts};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::CoreState;
use super::tx::Tx;

/// What our own report is called.
pub(super) const OWN_REPORT: &str = "teleport-fleet";
/// The group of a host that declares none (Managed Updates v2).
const DEFAULT_GROUP: &str = "default";
/// After that a report is of the past (Managed Updates v2).
const EXPIRES_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// Most versions of hosts that metrics show.
const MOST_SHOWN: usize = 20;
/// Longest name of a group in a report, bytes.
const MAX_GROUP: usize = 255;

/// Hosts by group and version, and those that are not counted.
#[derive(Debug, Default)]
pub(super) struct Census {
    counted: BTreeMap<(String, String), u64>,
    omitted: BTreeMap<String, u64>,
}

impl Census {
    fn omit(&mut self, reason: &str, count: u64) {
        *self.omitted.entry(reason.to_owned()).or_default() += count;
    }

    /// Within the limits of a report: the largest groups and versions stay, and the others are omitted.
    fn bounded(mut self) -> Self {
        let is_name = |group: &str| group.len() <= MAX_GROUP && !group.trim().is_empty() && !group.contains(is_unsafe);
        self.drop("a report cannot name its group", |(group, _), _| is_name(group));
        let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
        for ((group, _), count) in &self.counted {
            *groups.entry(group).or_default() += count;
        }
        let stay = owned(largest(&groups, MOST_GROUPS));
        self.drop(&format!("a report has at most {MOST_GROUPS} groups"), |(group, _), _| stay.contains(group));
        for name in stay {
            let of_group = self.counted.iter().filter(|((group, _), _)| *group == name);
            let versions = of_group.map(|((_, version), count)| (version.as_str(), *count)).collect();
            let stay = owned(largest(&versions, MOST_VERSIONS));
            let reason = format!("a group of a report has at most {MOST_VERSIONS} versions");
            self.drop(&reason, |(group, version), _| *group != name || stay.contains(version));
        }
        self
    }

    fn drop(&mut self, reason: &str, stays: impl Fn(&(String, String), u64) -> bool) {
        let mut dropped = 0;
        self.counted.retain(|key, count| {
            let stays = stays(key, *count);
            dropped += if stays { 0 } else { *count };
            stays
        });
        if dropped > 0 {
            self.omit(reason, dropped);
        }
    }

    /// As the `spec` of an `autoupdate_agent_report`.
    fn spec(self, at: Timestamp) -> Value {
        let mut groups = serde_json::Map::new();
        for ((group, version), count) in self.counted {
            let group = groups.entry(group).or_insert_with(|| json!({ "versions": {} }));
            group["versions"][version] = json!({ "count": count });
        }
        let omitted: Vec<Value> =
            self.omitted.iter().map(|(reason, count)| json!({ "count": count, "reason": reason })).collect();
        json!({ "timestamp": at, "groups": groups, "omitted": omitted })
    }
}

/// The names with the highest counts, at most so many; of equal ones the first by name.
fn largest<'a>(counts: &BTreeMap<&'a str, u64>, most: usize) -> BTreeSet<&'a str> {
    let mut all: Vec<(&str, u64)> = counts.iter().map(|(name, count)| (*name, *count)).collect();
    all.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    all.into_iter().take(most).map(|(name, _)| name).collect()
}

fn owned(names: BTreeSet<&str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// The hosts of the inventory. Whoever left it long ago is in no count.
fn census(state: &CoreState, now: Timestamp) -> Census {
    let mut census = Census::default();
    for host in state.fleet.hosts().iter().filter(|host| !is_gone(state, host, now)) {
        match omission(state, host, now) {
            Some(reason) => census.omit(reason, 1),
            None => {
                let text = |name| state.fleet.names.text(name);
                let group = Some(text(host.declared)).filter(|group| !group.is_empty()).unwrap_or(DEFAULT_GROUP);
                let key = (group.to_owned(), text(host.version).to_owned());
                *census.counted.entry(key).or_default() += 1;
            }
        }
    }
    census
}

/// Whether the host never came, or left long ago.
pub(super) fn is_gone(state: &CoreState, host: &Host, now: Timestamp) -> bool {
    host.is_expected() || is_unheard_for(state, host, DEPARTED_AFTER, now)
}

/// Whether the host said nothing for more than so many seconds in which the server listened.
fn is_unheard_for(state: &CoreState, host: &Host, seconds: u32, now: Timestamp) -> bool {
    state.rollouts.listening(now).is_over(host.heard, seconds)
}

/// Why a host is not counted, in the words of Managed Updates v2 where it has some; nothing: it is.
pub(super) fn omission(state: &CoreState, host: &Host, now: Timestamp) -> Option<&'static str> {
    if !host.reports && state.enrolments.waits(host.id).is_some() {
        Some("its key waits for an admin")
    } else if !host.reports && state.enrolments.key(host.id).is_some() {
        Some("has not reported since it was accepted")
    } else if !host.reports {
        Some("updater version does not support agent reports")
    } else if host.flags.disabled {
        Some("updater is disabled")
    } else if host.flags.pinned {
        Some("updater is pinning a specific version")
    } else if is_unheard_for(state, host, silent_after(state.fleet.terms.interval), now) {
        Some("was not seen for three report intervals")
    } else if host.version.is_none() {
        Some("does not say which version it runs")
    } else {
        None
    }
}

/// Hosts by group and version; what other servers wrote as `autoupdate_agent_report` is among them.
pub(crate) fn counts(tx: &Tx<'_>) -> StateCounts {
    let state = tx.state();
    let now = state.now();
    let mut census = census(state, now);
    let mut reports = u64::from(!state.fleet.hosts().is_empty());
    let mut expired = 0;
    for report in state.resources.models::<AgentReport>() {
        reports += 1;
        if !counts_are_good(report.timestamp, now) {
            expired += 1;
            continue;
        }
        for count in &report.counts {
            let key = (count.group.clone(), count.version.to_string());
            *census.counted.entry(key).or_default() += u64::from(count.count);
        }
        for other in &report.omitted {
            census.omit(&other.reason, u64::from(other.count));
        }
    }
    let Census { counted, omitted } = census;
    let counts = counted.into_iter().map(|((group, version), count)| CountOf { group, version, count }).collect();
    let omitted = omitted.into_iter().map(|(reason, count)| Omission { count, reason }).collect();
    StateCounts { at: Some(now), reports, expired, counts, omitted }
}

/// How many hosts run which version, the most frequent first; all beyond [`MOST_SHOWN`] as one, `other`. A host that says none is in
/// none. What a host says is a label of a metric: there may not be many.
pub(crate) fn versions(tx: &Tx<'_>) -> Vec<(String, u64)> {
    let (state, mut counted) = (tx.state(), HashMap::<Name, u64>::new());
    for host in state.fleet.hosts().iter().filter(|host| !host.version.is_none()) {
        *counted.entry(host.version).or_default() += 1;
    }
    let mut all: Vec<(String, u64)> =
        counted.into_iter().map(|(name, hosts)| (state.fleet.names.text(name).to_owned(), hosts)).collect();
    all.sort_by(|(version, hosts), (other, more)| more.cmp(hosts).then_with(|| version.cmp(other)));
    let others: u64 = all.iter().skip(MOST_SHOWN).map(|(_, hosts)| hosts).sum();
    all.truncate(MOST_SHOWN);
    all.extend((others > 0).then(|| ("other".to_owned(), others)));
    all
}

/// Our own `autoupdate_agent_report`, made from the inventory; `None`: no host is known.
pub(super) fn own_report(state: &CoreState) -> Option<KeptResource> {
    if state.fleet.hosts().is_empty() {
        return None;
    }
    let (now, kind) = (state.now(), Kind::Report);
    let expires = now.checked_add(EXPIRES_AFTER).unwrap_or(now);
    let json = json!({
        "kind": kind.to_string(),
        "version": "v1",
        "metadata": { "name": OWN_REPORT, "expires": expires },
        "spec": census(state, now).bounded().spec(now),
    });
    Some(made(kind, OWN_REPORT, String::new(), json))
}

/// A resource that is made when it is asked for.
pub(super) fn made(kind: Kind, name: &str, revision: String, json: Value) -> KeptResource {
    let yaml = yaml::Node::from_json(&json, 1).map(|node| node.emit()).unwrap_or_default();
    KeptResource { kind: kind.to_string(), name: name.to_owned(), revision, yaml, json }
}

#[cfg(test)]
mod tests {
    use fleet_engine::resource::{self, Resource};

    use super::*;

    fn at() -> Timestamp {
        "2026-01-05T12:00:00Z".parse().unwrap()
    }

    fn census(counts: impl IntoIterator<Item = (String, String, u64)>) -> Census {
        let counted = counts.into_iter().map(|(group, version, count)| ((group, version), count)).collect();
        Census { counted, omitted: BTreeMap::new() }
    }

    fn read(census: Census) -> resource::AgentReport {
        let json = json!({ "kind": "autoupdate_agent_report", "metadata": { "name": "x" }, "spec": census.spec(at()) });
        let resources = resource::read(&json.to_string()).unwrap();
        let [Resource::Report(object)] = &resources[..] else { panic!("{resources:?}") };
        object.model.clone()
    }

    #[test]
    fn what_is_over_the_limits_of_a_report_is_omitted_with_its_reason_and_the_largest_stay() {
        // Group 59 has 60 hosts, group 0 one.
        let groups = census((0..60).map(|number| (format!("g{number:02}"), "1.0.0".to_owned(), number + 1)));
        let report = read(groups.bounded());
        assert_eq!(report.counts.len(), 50);
        assert!(report.counts.iter().all(|count| count.group.as_str() >= "g10"));
        let small: u32 = (1..=10).sum();
        assert_eq!(report.omitted[0].reason, "a report has at most 50 groups");
        assert_eq!(report.omitted[0].count, small);
        let versions = (0..25).map(|number| ("dev".to_owned(), format!("1.{number}.0"), 25 - number));
        let others = [("prod".to_owned(), "9.0.0".to_owned(), 1)];
        let report = read(census(versions.chain(others)).bounded());
        assert_eq!(report.counts.iter().filter(|count| count.group == "dev").count(), 20);
        assert_eq!(report.counts.iter().filter(|count| count.group == "prod").count(), 1);
        let small: u32 = (1..=5).sum();
        assert_eq!(report.omitted[0].reason, "a group of a report has at most 20 versions");
        assert_eq!(report.omitted[0].count, small);
    }

    #[test]
    fn a_group_that_a_report_cannot_name_is_omitted() {
        let one = |group: &str| (group.to_owned(), "1.0.0".to_owned(), 1);
        let long = "g".repeat(256);
        let report = read(census([one(" "), one("a\u{7}b"), one(&long), one(&long[1..])]).bounded());
        assert_eq!(report.counts.len(), 1);
        assert_eq!((report.omitted[0].count, report.omitted[0].reason.as_str()), (3, "a report cannot name its group"));
    }
}
