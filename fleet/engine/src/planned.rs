//! What a directive would do to each host, before it is applied (DIRECTIVES §3). Pure: the fleet is looked at once, and stays as it is.

use std::collections::HashMap;
use std::rc::Rc;

use jiff::Timestamp;
use protocol::Version;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::{Fleet, decided};
use crate::host::{GroupPlace, Host, NamedHost};
use crate::names::Name;
use crate::reason::{Misfit, Why};
use crate::rollout::{Halt, Rollout};
use crate::rollout_state::RolloutState;
use crate::selection::Choice;

/// Ways from version to version that are listed of an entry; those of most hosts.
const LISTED: usize = 50;
/// Reasons that are listed of an entry: each may name twenty targets.
const REASONS: usize = 10;

/// What a directive would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// Of each sub-directive.
    pub entries: Vec<PlannedEntry>,
    /// Hosts of none.
    pub elsewhere: u64,
    /// Hosts that get a lower version than they run.
    pub goes_down: u64,
    /// Targets that halted here before.
    pub halted: Vec<String>,
}

/// What a sub-directive would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PlannedEntry {
    /// Its name.
    pub name: String,
    /// The state that it has, or begins with: one that is halted or done and means the same stays so.
    pub state: String,
    /// Its hosts.
    pub hosts: u64,
    /// Those that are pinned, disabled or held: they stay.
    pub stay: u64,
    /// Those that run their target.
    pub there: u64,
    /// Who goes where, most hosts first.
    pub moves: Vec<PlannedMove>,
    /// Who has no target, or nothing that installs it; most hosts first.
    pub none: Vec<PlannedNone>,
    /// Hosts of moves and reasons that are not listed.
    pub more: u64,
    /// Installers that would fail for lack of an attribute.
    pub lacks: Vec<Misfit>,
}

/// Hosts that would go from a version to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedMove {
    /// What they run; empty: they do not say.
    pub from: String,
    /// What they get.
    pub to: String,
    /// What installs it.
    pub installer: String,
    /// How many.
    pub hosts: u64,
    /// It is lower than what they run.
    pub down: bool,
}

/// Hosts that would get nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedNone {
    /// Why.
    pub why: Why,
    /// How many.
    pub hosts: u64,
    /// Some of them.
    pub sample: Vec<NamedHost>,
}

/// Where hosts that say the same belong, what they get, and why nothing.
pub(crate) type HostCase = (GroupPlace, Choice, Option<Rc<Why>>);

/// What is counted of an entry.
#[derive(Default)]
struct EntryCount {
    stay: u64,
    moves: HashMap<(Name, Choice), u64>,
    none: HashMap<Rc<Why>, (u64, Vec<NamedHost>)>,
}

impl RolloutState {
    /// The same with the rollout that is wanted now.
    pub(crate) fn adopted(&self, now: Timestamp) -> Self {
        let mut state = self.clone();
        state.adopt(now);
        state
    }

    /// What the rollout of this policy and target would tell each host of `fleet`, if it began at `now`. Each host is looked at once.
    pub fn planned(&self, fleet: &Fleet, now: Timestamp) -> Planned {
        let state = self.adopted(now);
        let Some(rollout) = &state.rollout else { return Planned::default() };
        let (counts, elsewhere) = count(rollout, fleet);
        let mut planned = Planned { elsewhere, ..Planned::default() };
        for (group, count) in rollout.groups.iter().zip(counts) {
            let mut entry = PlannedEntry {
                name: group.policy.name.clone(),
                state: group.state.name().to_owned(),
                stay: count.stay,
                hosts: count.stay,
                lacks: group.policy.lacks(&rollout.rules),
                ..PlannedEntry::default()
            };
            for ((from, choice), hosts) in count.moves {
                let (from, Some(to)) = (fleet.names.text(from), rollout.target_of(group, choice)) else { continue };
                entry.hosts += hosts;
                if from == to.to_string() {
                    entry.there += hosts;
                    continue;
                }
                let down = from.parse::<Version>().is_ok_and(|from| to.precedes(&from));
                planned.goes_down += if down { hosts } else { 0 };
                let installer = group.policy.installer_of(choice).map(|installer| installer.to_string());
                let (from, to, installer) = (from.to_owned(), to.to_string(), installer.unwrap_or_default());
                entry.moves.push(PlannedMove { from, to, installer, hosts, down });
            }
            for (why, (hosts, sample)) in count.none {
                entry.hosts += hosts;
                entry.none.push(PlannedNone { why: Why::clone(&why), hosts, sample });
            }
            entry
                .moves
                .sort_by(|one, other| (other.hosts, &one.from, &one.to).cmp(&(one.hosts, &other.from, &other.to)));
            entry.none.sort_by_cached_key(|none| (std::cmp::Reverse(none.hosts), format!("{:?}", none.why)));
            let surplus = entry.moves.iter().skip(LISTED).map(|way| way.hosts);
            entry.more = surplus.chain(entry.none.iter().skip(REASONS).map(|none| none.hosts)).sum();
            entry.moves.truncate(LISTED);
            entry.none.truncate(REASONS);
            planned.entries.push(entry);
        }
        let mut targets: Vec<&Version> = rollout.versions_of_groups().filter(|to| self.halted.contains(to)).collect();
        targets.sort();
        targets.dedup();
        planned.halted = targets.into_iter().map(Version::to_string).collect();
        planned
    }
}

/// Counts the hosts of each group of `rollout`, and those of none.
fn count(rollout: &Rollout, fleet: &Fleet) -> (Vec<EntryCount>, u64) {
    let mut counts: Vec<EntryCount> = rollout.groups.iter().map(|_| EntryCount::default()).collect();
    let mut cases = HostCases::new(rollout, fleet);
    let mut elsewhere = 0;
    for host in fleet.hosts().iter().filter(|host| !host.is_nobody()) {
        let (place, choice, why) = cases.of(host);
        let Some(count) = rollout.index_of(place).and_then(|index| counts.get_mut(index)) else {
            elsewhere += 1;
            continue;
        };
        if host.flags.pinned || host.flags.disabled || host.flags.is_held() {
            count.stay += 1;
        } else if let Some(why) = why {
            let (hosts, sample) = count.none.entry(why).or_default();
            *hosts += 1;
            if sample.len() < Halt::SAMPLE {
                sample.push(fleet.named(host));
            }
        } else {
            *count.moves.entry((host.version, choice)).or_default() += 1;
        }
    }
    (counts, elsewhere)
}

/// What hosts get, decided once for all that say the same.
pub(crate) struct HostCases<'a> {
    rollout: &'a Rollout,
    fleet: &'a Fleet,
    known: HashMap<(Name, Name, &'a [u8], Name, Name), HostCase>,
}

impl<'a> HostCases<'a> {
    pub(crate) fn new(rollout: &'a Rollout, fleet: &'a Fleet) -> Self {
        Self { rollout, fleet, known: HashMap::new() }
    }

    /// Where a host belongs, what it gets there, and why nothing.
    pub(crate) fn of(&mut self, host: &Host) -> HostCase {
        let Self { rollout, fleet, known } = self;
        if rollout.asks_for_hostnames() {
            return decide(rollout, host, fleet);
        }
        let goes_to = host.last().filter(|last| last.outcome.is_under_way()).map_or(Name::NONE, |last| last.to);
        let labels = fleet.names.said.labels(host.said);
        let key = (host.assigned, host.declared, labels, host.version, goes_to);
        decided(known, key, || decide(rollout, host, fleet))
    }
}

fn decide(rollout: &Rollout, host: &Host, fleet: &Fleet) -> HostCase {
    let place = rollout.place_of(host, &fleet.names);
    let (choice, _) = rollout.choose(host, place, &fleet.names);
    let group = rollout.group(place).filter(|_| !choice.is_some());
    let why = group.map(|group| rollout.why_nothing(&Host { choice, ..host.clone() }, group, &fleet.names));
    (place, choice, why.map(Rc::new))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::HostReport;
    use crate::resource_set::ResourceSet;

    /// A fleet with hosts of these groups and versions; a blank is one that does not say.
    fn fleet(hosts: &[(&str, &str)], now: Timestamp) -> Fleet {
        let mut fleet = Fleet::default();
        for (number, (group, version)) in (1..).zip(hosts) {
            let version = Some((*version).to_owned()).filter(|version| !version.is_empty());
            let (group, pinned) = (Some((*group).to_owned()), Some(number == 1));
            fleet.report(&HostReport { host: number, group, version, pinned, ..HostReport::default() }, None, now);
        }
        fleet
    }

    /// What this directive is on the engine, where `1.3.0` halted before.
    fn directive(entries: &serde_json::Value) -> RolloutState {
        let (mut shelf, mut book) = (ResourceSet::default(), RolloutState::default());
        book.halted = vec!["1.3.0".parse().unwrap()];
        let document = json!({ "kind": "version-directive", "version": "v1", "spec": { "directives": entries } });
        shelf.put_json(&document, 1, &mut book).unwrap();
        book
    }

    #[test]
    fn a_plan_counts_who_goes_up_or_down_who_stays_who_is_there_who_gets_nothing_and_why() {
        let now: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        let hosts = [
            ("a", "1.0.0"), // pinned
            ("a", "1.0.0"),
            ("a", "1.0.0"),
            ("a", "1.4.0"),
            ("a", "1.3.0"),
            ("a", "3.0.0"),
            ("a", "3.0.0"),
            ("a", "3.0.0"),
            ("a", "3.0.0"),
            ("a", ""),
            ("b", "1.0.0"),
            ("c", "1.0.0"),
        ];
        let mut fleet = fleet(&hosts, now);
        let mut book = directive(&json!([
            { "name": "one", "selectors": [{ "group": "a" }], "targets": [{ "version": "1.3.0" }] },
            { "name": "two", "selectors": [{ "group": "b" }], "targets": [{ "version": "1.2.0" }], "installers": [{ "kind": "tuf" }] },
        ]));
        let before = book.clone();
        let planned = book.planned(&fleet, now);
        assert_eq!(book, before);
        assert_eq!((planned.elsewhere, planned.goes_down, planned.halted.clone()), (1, 1, vec!["1.3.0".to_owned()]));
        let [one, two] = &planned.entries[..] else { panic!("{planned:?}") };
        assert_eq!((one.hosts, one.stay, one.there, one.more), (10, 1, 1, 0));
        let moves: Vec<_> =
            one.moves.iter().map(|way| (way.from.as_str(), way.to.as_str(), way.hosts, way.down)).collect();
        assert_eq!(moves, [("1.0.0", "1.3.0", 2, false), ("", "1.3.0", 1, false), ("1.4.0", "1.3.0", 1, true)]);
        let [none] = &one.none[..] else { panic!("{one:?}") };
        assert_eq!((none.hosts, none.sample.len(), none.why.code()), (4, Halt::SAMPLE, "no_target"));
        assert_eq!(two.none.first().map(|none| (none.hosts, none.why.code())), Some((1, "no_installer")));
        assert_eq!(two.lacks.first().map(|lacks| lacks.of.as_str()), Some("1.2.0"));
        // It is what comes of it: each host that it counts gets that when the rollout begins.
        book.step(&mut fleet, now);
        let rollout = book.rollout.as_ref().unwrap();
        for entry in &planned.entries {
            let at = rollout.find(&entry.name).unwrap();
            let told = |to: &str| {
                let gets = |host: &&Host| {
                    let target = rollout.target_of(&rollout.groups[at], host.choice);
                    !host.flags.pinned && target.is_some_and(|target| target.to_string() == to)
                };
                fleet.members(at).filter(gets).count() as u64
            };
            for to in ["1.2.0", "1.3.0"] {
                let planned: u64 = entry.moves.iter().filter(|way| way.to == to).map(|way| way.hosts).sum();
                assert_eq!(planned + if to == "1.3.0" { entry.there } else { 0 }, told(to), "{to} {entry:?}");
            }
        }
    }

    #[test]
    fn an_entry_that_means_the_same_is_shown_with_the_state_that_it_keeps() {
        let now: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        let entries = json!([{ "name": "one", "selectors": [{ "group": "a" }], "targets": [{ "version": "1.3.0" }] }]);
        let (mut fleet, mut book) = (fleet(&[("a", "1.0.0")], now), directive(&entries));
        book.step(&mut fleet, now);
        book.command(&crate::command::Command::Halt { groups: vec!["one".to_owned()], all: false }, &fleet, now)
            .unwrap();
        let state = |book: &RolloutState| book.planned(&fleet, now).entries.first().map(|entry| entry.state.clone());
        assert_eq!(state(&book).as_deref(), Some("halted"));
        assert_eq!(state(&directive(&entries)).as_deref(), Some("unstarted"));
    }
}
