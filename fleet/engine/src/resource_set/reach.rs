//! Whether hosts can reach a target from the versions that they run (FLEET §9).

use std::collections::BTreeMap;

use protocol::Version;

use super::ResourceSet;
use crate::fleet::Fleet;
use crate::host::{HostId, uuid};
use crate::names::Name;
use crate::refusal::Refusal;
use crate::resource::Release;
use crate::selection::{ReleaseWay, WayBar, bar};

/// Hosts that a refusal names for each version.
const NAMED: usize = 3;

/// Hosts of one version.
#[derive(Default)]
struct Running {
    count: usize,
    first: Vec<HostId>,
}

impl ResourceSet {
    /// Refuses a `target` that hosts could not reach: they are on a dead end, it must be reached from other versions, or a
    /// barrier lies before it. Hosts that are pinned, disabled or held do not count, and those at the target or beyond it.
    pub(super) fn can_reach(&self, target: &Version, fleet: &Fleet) -> Result<(), Refusal> {
        let ways = self.ways();
        if ways.is_empty() {
            return Ok(());
        }
        let kept: Vec<String> = running(fleet)
            .into_iter()
            .filter_map(|(version, hosts)| {
                let why = keeps(&ways, &fleet.names.text(version).parse().ok()?, target)?;
                Some(hosts.say(fleet.names.text(version), &why))
            })
            .collect();
        if kept.is_empty() {
            return Ok(());
        }
        Err(Refusal::conflict(format!("{target} cannot be reached by every host: {}", kept.join("; "))))
    }

    /// How releases may be reached and left that are not reached from everywhere.
    pub(super) fn ways(&self) -> Vec<ReleaseWay> {
        let way = |release: &Release| ReleaseWay {
            version: release.version.clone(),
            barrier: release.barrier,
            deadend: release.deadend,
            requires_from: release.requires_from.clone(),
        };
        let is_usual = |way: &ReleaseWay| !way.barrier && !way.deadend && way.requires_from.is_empty();
        self.releases().map(way).filter(|way| !is_usual(way)).collect()
    }
}

/// What keeps a host that runs `version` from `target`.
fn keeps(ways: &[ReleaseWay], version: &Version, target: &Version) -> Option<String> {
    Some(match bar(ways, version, target)? {
        WayBar::DeadEnd => "which is a dead end: install them anew, or hold them with `host UUID hold`".to_owned(),
        WayBar::Barrier(barrier) => format!("and must run {barrier} before, a barrier: roll that out first"),
        WayBar::From(required) => {
            let versions: Vec<String> = required.iter().map(Version::to_string).collect();
            format!("and it is reached from {} alone: roll that out first", versions.join(" or "))
        }
    })
}

/// Hosts by the version that they report, without those that are kept from updates.
fn running(fleet: &Fleet) -> BTreeMap<Name, Running> {
    let mut versions: BTreeMap<Name, Running> = BTreeMap::new();
    let may_go = fleet.hosts().iter().filter(|host| !host.flags.excludes());
    for host in may_go.filter(|host| !host.version.is_none()) {
        let running = versions.entry(host.version).or_default();
        running.count += 1;
        if running.first.len() < NAMED {
            running.first.push(host.id);
        }
    }
    versions
}

impl Running {
    fn say(&self, version: &str, why: &str) -> String {
        let mut names: Vec<String> = self.first.iter().map(|id| uuid(*id)).collect();
        if self.count > self.first.len() {
            names.push(format!("{} more", self.count - self.first.len()));
        }
        let (hosts, run) = if self.count == 1 { ("host", "runs") } else { ("hosts", "run") };
        format!("{} {hosts} ({}) {run} {version}, {why}", self.count, names.join(", "))
    }
}
