//! The hosts: who they are, what goes wrong on which, and when each asks.

use std::collections::HashSet;

use fleet_engine::fleet::HostReport;
use fleet_engine::host::HostId;

use super::plan::{ForecastPlan, HostSource, KnownHost};
use crate::crowd::{self, Crowd, Draw, drawn, lot};

/// Labels of hosts that are made up: an operating system for each quarter, and one of five is of the other architecture.
const SYSTEMS: [&str; 4] = ["debian", "ubuntu", "rhel", "amazon-linux"];
const ARCHES: [&str; 5] = ["amd64", "amd64", "amd64", "amd64", "arm64"];
/// Most hosts of a simulation: memory.
const MOST: u64 = 5_000_000;

/// A host.
#[derive(Debug, Clone, Default)]
pub(super) struct ForecastHost {
    pub(super) id: HostId,
    /// The index of its group; past the last one: it belongs to none.
    pub(super) group: usize,
    pub(super) is_bad: bool,
    pub(super) vanishes: bool,
    /// A bit for each cut that it is part of.
    pub(super) cuts: u64,
    /// It runs the target.
    pub(super) on_target: bool,
    /// It does not come back.
    pub(super) is_dead: bool,
    /// A change goes on.
    pub(super) is_busy: bool,
    /// That change leads back.
    pub(super) goes_back: bool,
    /// It was allowed to update once.
    pub(super) was_told: bool,
    /// It was hit once.
    pub(super) was_hit: bool,
    /// It said that it does not try again.
    pub(super) has_refused: bool,
    /// The attempt at which the target failed here; 0: none.
    pub(super) refuses: u32,
}

/// All hosts, of whom each asks at the same second of each interval.
pub(super) struct ForecastHosts {
    pub(super) crowd: Crowd<ForecastHost>,
    /// For each minute of the interval of questions, who asks in it and in which second, in that order.
    polls: Vec<Vec<(u8, u32)>>,
}

impl ForecastHosts {
    /// The hosts of the plan, for groups of these names.
    ///
    /// # Errors
    /// Nobody, too many, or a group or a label that does not exist.
    pub(super) fn new(plan: &ForecastPlan, groups: &[String]) -> Result<(Self, Vec<KnownHost>), String> {
        let arrives = match &plan.hosts {
            // The first of two hosts with one id counts.
            HostSource::Known(known) => {
                let mut ids: HashSet<HostId> = HashSet::new();
                known.iter().filter(|host| ids.insert(host.report.host)).cloned().collect()
            }
            HostSource::Made(count) => made_hosts(plan.seed, &in_equal_parts(*count, groups))?,
            HostSource::MadeFor(made) => {
                if let Some(one) = made.iter().find(|one| !groups.contains(&one.group)) {
                    return Err(format!("there is no group {:?}: there are {}", one.group, groups.join(", ")));
                }
                let counts: Vec<(Option<&str>, u32)> =
                    made.iter().map(|one| (Some(one.group.as_str()), one.count)).collect();
                made_hosts(plan.seed, &counts)?
            }
        };
        if arrives.is_empty() {
            return Err("there is no host to simulate: give --hosts N, or an inventory with hosts".to_owned());
        }
        let members =
            arrives.iter().map(|host| ForecastHost { id: host.report.host, ..ForecastHost::default() }).collect();
        let mut hosts = Self { crowd: Crowd::new(plan.seed, members), polls: Vec::new() };
        hosts.draw(plan, &arrives)?;
        hosts.take_turns(plan);
        Ok((hosts, arrives))
    }

    /// Draws who is bad, vanishes, and is cut off.
    fn draw(&mut self, plan: &ForecastPlan, arrives: &[KnownHost]) -> Result<(), String> {
        let all: Vec<usize> = (0..self.crowd.members.len()).collect();
        let labelled: Vec<usize> = match &plan.bad_label {
            None => all.clone(),
            Some((key, value)) => {
                let has = |host: &KnownHost| host.report.labels.iter().any(|labels| labels.get(key) == Some(value));
                let found: Vec<usize> =
                    (0..).zip(arrives).filter(|(_, host)| has(host)).map(|(number, _)| number).collect();
                if found.is_empty() {
                    return Err(no_label(key, value, arrives));
                }
                found
            }
        };
        for number in drawn(plan.seed, Draw::BAD, &labelled, plan.bad.of(labelled.len())) {
            self.crowd.change(number, |member| member.is_bad = true);
        }
        for number in drawn(plan.seed, Draw::VANISHES, &all, plan.vanish.of(all.len())) {
            self.crowd.change(number, |member| member.vanishes = true);
        }
        for (nth, cut) in (0_u32..64).zip(&plan.cuts) {
            for number in drawn(plan.seed, Draw::cut(nth), &all, cut.share.of(all.len())) {
                self.crowd.change(number, |member| member.cuts |= 1 << nth);
            }
        }
        Ok(())
    }

    /// Gives each host its second of the interval in which it asks.
    fn take_turns(&mut self, plan: &ForecastPlan) {
        let seconds = u64::try_from(plan.every.as_secs()).unwrap_or(0).max(60);
        let minutes = usize::try_from(seconds / 60).unwrap_or(1);
        self.polls = vec![Vec::new(); minutes];
        for number in 0..self.crowd.members.len() {
            let second = u64::try_from(self.crowd.turn(number, seconds / 60 * 60).as_secs()).unwrap_or(0);
            let (minute, second) = (usize::try_from(second / 60).unwrap_or(0), u8::try_from(second % 60).unwrap_or(0));
            if let Some(turns) = self.polls.get_mut(minute) {
                turns.push((second, u32::try_from(number).unwrap_or(u32::MAX)));
            }
        }
        self.polls.iter_mut().for_each(|turns| turns.sort_unstable());
    }

    /// Who asks in a minute after the beginning, and in which second: in order.
    pub(super) fn turns(&self, minute: u64) -> &[(u8, u32)] {
        let cycle = u64::try_from(self.polls.len()).unwrap_or(1).max(1);
        self.polls.get(usize::try_from(minute % cycle).unwrap_or(0)).map_or(&[], Vec::as_slice)
    }

    /// How many minutes there are until a host's turn comes again.
    pub(super) fn cycle(&self) -> u64 {
        u64::try_from(self.polls.len()).unwrap_or(1)
    }
}

fn no_label(key: &str, value: &str, arrives: &[KnownHost]) -> String {
    let mut known: Vec<String> = arrives
        .iter()
        .flat_map(|host| &host.report.labels)
        .flatten()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    known.sort_unstable();
    known.dedup();
    known.truncate(12);
    let known =
        if known.is_empty() { "no host has labels".to_owned() } else { format!("there are {}", known.join(", ")) };
    format!("no host has the label {key}={value}: {known}")
}

/// As many for each group; the first ones have one more where it does not come out even.
fn in_equal_parts(count: u32, groups: &[String]) -> Vec<(Option<&str>, u32)> {
    let parts = u32::try_from(groups.len()).unwrap_or(u32::MAX);
    if parts == 0 {
        return vec![(None, count)];
    }
    let part = |nth: u32| count / parts + u32::from(nth < count % parts);
    (0..).zip(groups).map(|(nth, group)| (Some(group.as_str()), part(nth))).collect()
}

/// Hosts for these groups: each declares its group, and is put there whatever the group's labels are.
fn made_hosts(seed: u64, counts: &[(Option<&str>, u32)]) -> Result<Vec<KnownHost>, String> {
    let total: u64 = counts.iter().map(|(_, count)| u64::from(*count)).sum();
    if total > MOST {
        return Err(format!("{total} hosts are too many: at most {MOST}"));
    }
    let mut hosts = Vec::with_capacity(usize::try_from(total).unwrap_or(0));
    for (group, count) in counts {
        for _ in 0..*count {
            let number = hosts.len();
            let draw = lot(seed, Draw::LABELS, number);
            let label = |list: &[&str], lot: u64| {
                let nth = lot % u64::try_from(list.len()).unwrap_or(1).max(1);
                list.get(usize::try_from(nth).unwrap_or(0)).copied().unwrap_or_default().to_owned()
            };
            let labels = [("os", label(&SYSTEMS, draw)), ("arch", label(&ARCHES, draw >> 32))];
            let report = HostReport {
                host: crowd::id(seed, number),
                group: Some(group.unwrap_or_default().to_owned()),
                labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
                ..HostReport::default()
            };
            hosts.push(KnownHost { report, assigned: group.map(str::to_owned), held: false });
        }
    }
    Ok(hosts)
}
