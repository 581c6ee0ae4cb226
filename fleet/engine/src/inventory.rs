//! What Teleport's inventory says of agents (`tctl get instances`), and who of them is counted: as Managed Updates v2's own
//! reports count (FLEET §5).

use jiff::Timestamp;

use crate::fleet::{Fleet, is_below};
use crate::host::{HostId, Unfit};
use crate::moment::Moment;
use crate::rollout::Rollout;
use crate::tally::silent_after;

/// Services of the control plane: who runs one is no agent.
const CONTROL_PLANE: [&str; 2] = ["auth", "proxy"];
/// What the inventory calls the updater of Managed Updates v1.
const FIRST_UPDATER: &str = "unit";

/// An agent, as the inventory lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its UUID.
    pub host: HostId,
    /// What it runs, without `v`.
    pub version: String,
    /// Its services, in any case.
    pub services: Vec<String>,
    /// When Teleport last heard of it.
    pub seen: Timestamp,
    /// What updates it: empty, `unit`, `kube`, `binary`.
    pub upgrader: String,
    /// What its updater says of itself.
    pub updater: Option<Updater>,
}

/// What an updater says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Updater {
    /// The group that it asks for.
    pub group: String,
    /// Its id; 0: none.
    pub id: u128,
    /// How it is.
    pub status: Status,
}

/// How an updater is, by its own word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It updates.
    Ok,
    /// It is disabled.
    Disabled,
    /// It is pinned to a version.
    Pinned,
    /// The agent cannot read its status.
    Unreadable,
    /// Something else.
    Unknown,
}

/// What an import does with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is counted.
    Counted,
    /// It is known, and not counted: pinned.
    Pinned,
    /// It is known, and not counted: disabled.
    Disabled,
    /// It is known, and not counted.
    Unfit(Unfit),
}

/// Why an import leaves an agent alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// It is part of the control plane.
    ControlPlane,
    /// It is not connected.
    Away,
    /// A later import listed it already.
    Older,
}

impl Standing {
    /// Why it is not counted, in the words of Managed Updates v2.
    pub const fn omission(self) -> Option<&'static str> {
        match self {
            Self::Counted => None,
            Self::Pinned => Some(PINNED),
            Self::Disabled => Some(DISABLED),
            Self::Unfit(unfit) => Some(unfit.reason()),
        }
    }
}

/// Why a host with a pinned updater is not counted, in the words of Managed Updates v2.
pub const PINNED: &str = "updater is pinning a specific version";
/// The same of a disabled one.
pub const DISABLED: &str = "updater is disabled";

impl Passed {
    /// As people read it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ControlPlane => "runs auth or proxy: it is no agent",
            Self::Away => "Teleport has not heard of it for three report intervals",
            Self::Older => "a later import listed it already",
        }
    }
}

impl Agent {
    /// What an import at `now` does with it.
    ///
    /// # Errors
    /// Nothing, and why.
    pub fn standing(&self, fleet: &Fleet, now: Timestamp) -> Result<Standing, Passed> {
        let is_of_control_plane =
            |service: &String| CONTROL_PLANE.iter().any(|name| service.eq_ignore_ascii_case(name));
        if self.services.iter().any(is_of_control_plane) {
            return Err(Passed::ControlPlane);
        }
        let seen = Moment::of(self.seen);
        if Moment::of(now).since(seen) > silent_after(fleet.interval) {
            return Err(Passed::Away);
        }
        if fleet.listed(self.host).is_some_and(|listed| listed > seen) {
            return Err(Passed::Older);
        }
        Ok(match &self.updater {
            _ if self.upgrader.is_empty() => Standing::Unfit(Unfit::NoUpdater),
            _ if self.upgrader == FIRST_UPDATER => Standing::Unfit(Unfit::FirstUpdater),
            None => Standing::Unfit(Unfit::SilentUpdater),
            Some(updater) if updater.group.is_empty() => Standing::Unfit(Unfit::SilentUpdater),
            Some(updater) => match updater.status {
                Status::Ok => Standing::Counted,
                Status::Disabled => Standing::Disabled,
                Status::Pinned => Standing::Pinned,
                Status::Unreadable => Standing::Unfit(Unfit::Unreadable),
                Status::Unknown => Standing::Unfit(Unfit::Unknown),
            },
        })
    }
}

impl Fleet {
    /// Takes what an import says of an agent that does not report by itself. One that is counted counts as enrolled: an operator
    /// vouches for it.
    pub fn list(&mut self, agent: &Agent, standing: Standing, rollout: Option<&Rollout>, now: Timestamp) {
        // The inventory's clock may be ahead.
        let seen = agent.seen.min(now);
        let known = self.at(agent.host);
        let at = known.unwrap_or_else(|| self.arrive(agent.host, rollout, seen));
        self.take_update_id(at, agent.updater.as_ref().map_or(0, |updater| updater.id));
        if standing == Standing::Counted {
            self.enrol_at(at);
        }
        let version = self.names.keep(&agent.version);
        let group = agent.updater.as_ref().map(|updater| self.names.keep(&updater.group));
        let is_below_start = rollout.is_some_and(|rollout| is_below(Some(&agent.version), rollout));
        self.set_listed(agent.host, Moment::of(seen));
        self.change(at, rollout, now, |host| {
            // Whoever asks has an updater that takes answers, though it says nothing of itself.
            let is_silent = standing == Standing::Unfit(Unfit::SilentUpdater);
            let asks = known.is_some() && !host.is_expected() && !host.reports && host.flags.unfit.is_none();
            host.heard = host.heard.max(Moment::of(seen));
            (host.version, host.is_below_start) = (version, is_below_start);
            host.flags.pinned = standing == Standing::Pinned;
            host.flags.disabled = standing == Standing::Disabled;
            host.flags.unfit = match standing {
                Standing::Unfit(unfit) if !(is_silent && asks) => Some(unfit),
                _ => None,
            };
            host.reports = !is_silent;
            if let (Some(group), true) = (group, host.reports) {
                host.declared = group;
            }
        });
        if let Some(rollout) = rollout {
            self.follow(at, rollout, now);
        }
        self.free_names_if_many();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn agent(host: HostId) -> Agent {
        let updater = Updater { group: "dev".to_owned(), id: host + 100, status: Status::Ok };
        Agent {
            host,
            version: "1.0.0".to_owned(),
            services: vec!["Node".to_owned()],
            seen: at(0),
            upgrader: "binary".to_owned(),
            updater: Some(updater),
        }
    }

    fn with(change: impl FnOnce(&mut Agent)) -> Agent {
        let mut agent = agent(1);
        change(&mut agent);
        agent
    }

    fn with_status(status: Status) -> Agent {
        with(|agent| agent.updater = Some(Updater { group: "dev".to_owned(), id: 7, status }))
    }

    #[test]
    fn who_is_counted_is_decided_as_managed_updates_counts() {
        let fleet = Fleet::default();
        let omitted = |agent: &Agent| agent.standing(&fleet, at(60)).unwrap().omission();
        assert_eq!(omitted(&agent(1)), None);
        assert_eq!(omitted(&with(|agent| agent.upgrader = "kube".to_owned())), None, "it says how its updater is");
        let silent = "updater version does not support agent reports";
        for (agent, reason) in [
            (with(|agent| agent.upgrader = String::new()), "agent has no updater"),
            (
                with(|agent| agent.upgrader = "unit".to_owned()),
                "managed updates v1 updater does not support agent reports",
            ),
            (with(|agent| agent.updater = None), silent),
            (with(|agent| agent.updater.iter_mut().for_each(|updater| updater.group.clear())), silent),
            (with_status(Status::Disabled), "updater is disabled"),
            (with_status(Status::Pinned), "updater is pinning a specific version"),
            (with_status(Status::Unreadable), "agent cannot read updater status"),
            (with_status(Status::Unknown), "updater status is unknown"),
        ] {
            assert_eq!(omitted(&agent), Some(reason));
        }
    }

    #[test]
    fn who_is_no_agent_or_is_away_or_is_listed_later_already_is_passed_over() {
        let mut fleet = Fleet::default();
        for service in ["Auth", "proxy", "PROXY"] {
            let agent = with(|agent| agent.services.push(service.to_owned()));
            assert_eq!(agent.standing(&fleet, at(0)), Err(Passed::ControlPlane));
        }
        assert_eq!(
            agent(1).standing(&fleet, at(2700)),
            Ok(Standing::Counted),
            "three intervals of a quarter of an hour"
        );
        assert_eq!(agent(1).standing(&fleet, at(2701)), Err(Passed::Away));
        fleet.list(&with(|agent| agent.seen = at(5)), Standing::Counted, None, at(10));
        assert_eq!(agent(1).standing(&fleet, at(20)), Err(Passed::Older));
        assert_eq!(with(|agent| agent.seen = at(5)).standing(&fleet, at(20)), Ok(Standing::Counted));
    }

    #[test]
    fn a_listed_host_is_known_by_what_the_inventory_says_and_counts_from_then_on() {
        let mut fleet = Fleet::default();
        fleet.list(&with(|agent| agent.seen = at(500)), Standing::Counted, None, at(10));
        let host = fleet.host(1).unwrap();
        assert_eq!((fleet.names.text(host.version), fleet.names.text(host.declared)), ("1.0.0", "dev"));
        assert_eq!((host.update_id, host.heard.time()), (101, at(10)), "no word comes from the future");
        assert!(host.reports && host.enrolled.is_some());
        // It lost its updater.
        fleet.list(&agent(1), Standing::Unfit(Unfit::NoUpdater), None, at(10));
        assert!(fleet.host(1).unwrap().flags.excludes());
        fleet.list(&agent(1), Standing::Counted, None, at(10));
        assert!(!fleet.host(1).unwrap().flags.excludes());
    }

    #[test]
    fn an_updater_that_says_nothing_of_itself_is_there_once_it_asks() {
        let mut fleet = Fleet::default();
        let silent = Standing::Unfit(Unfit::SilentUpdater);
        let is_out = |fleet: &Fleet| fleet.host(1).unwrap().flags.excludes();
        fleet.list(&agent(1), silent, None, at(0));
        assert!(is_out(&fleet));
        fleet.question(1, Some("prod"), 0, None, at(1));
        assert!(!is_out(&fleet));
        fleet.list(&with(|agent| agent.seen = at(2)), silent, None, at(2));
        let host = fleet.host(1).unwrap();
        assert!(!is_out(&fleet) && host.enrolled.is_none() && !host.reports);
        assert_eq!((fleet.names.text(host.version), fleet.names.text(host.declared)), ("1.0.0", "prod"));
    }
}
