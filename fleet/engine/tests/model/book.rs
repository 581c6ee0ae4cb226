//! What the store has at one time, and what a node computes from it: with the engine that ships, by its public functions alone.

use std::hash::{DefaultHasher, Hash, Hasher};

use fleet_engine::answer::Question;
use fleet_engine::command::Command;
use fleet_engine::fleet::{Fleet, HostChange, HostReport};
use fleet_engine::host::{HostId, Outcome};
use fleet_engine::listening::ListeningClock;
use fleet_engine::moment::Moment;
use fleet_engine::record::HostRecord;
use fleet_engine::resource_set::ResourceSet;
use fleet_engine::rollout_state::RolloutState;
use fleet_engine::tally::{HostState, TallyContext};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The groups, in order; hosts come to them in turn.
pub(crate) const GROUPS: [&str; 2] = ["a", "b"];
/// Most hosts in flight of each, percent: one of three.
pub(crate) const CAPS: [u64; 2] = [33, 33];
/// The version before, and after, by their first numbers.
pub(crate) const START: u8 = 1;
pub(crate) const TARGET: u8 = 2;

/// One version of what the store has. Its position is not in it: the model compares that in another way.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Book {
    pub(crate) state: RolloutState,
    pub(crate) hosts: Vec<HostRecord>,
    pub(crate) arrivals: u64,
    /// The number of the last change that was taken of each host.
    pub(crate) changes: Vec<u8>,
    /// Requests whose outcome is known, a bit for each.
    pub(crate) outcomes: u8,
    /// How often each request's command acted on `state`.
    pub(crate) acted: Vec<u8>,
}

/// Seconds in which all answers end that were good before.
pub(crate) const LATE: u8 = 100;

/// What a host is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Answer {
    pub(crate) update: bool,
    pub(crate) to: u8,
    pub(crate) rollout: u8,
    pub(crate) attempt: u8,
    pub(crate) back: bool,
}

/// How a clock goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Clock {
    Goes,
    Stands,
    /// All answers have ended that were good when somebody waited.
    IsLate,
}

impl Clock {
    /// What it says where the store says `second`.
    pub(crate) fn second(self, second: u8) -> u8 {
        if self == Self::IsLate && second <= LATE { LATE + 1 + second } else { second }
    }
}

/// What a node heard, and has not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Input {
    /// A host asked in this second, and was told to update.
    Told { host: u8, second: u8, rollout: u8, back: bool },
    /// A host asked in this second, and was told nothing.
    Asked { host: u8, second: u8 },
    /// A host reported.
    Report { host: u8, runs: u8, change: Change },
}

/// What became of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Change {
    /// Counted by the host.
    pub(crate) number: u8,
    pub(crate) to: u8,
    pub(crate) is_good: bool,
    pub(crate) rollout: u8,
    pub(crate) attempt: u8,
}

/// The group of a host.
pub(crate) fn group_of(host: u8) -> usize {
    usize::from(host) % GROUPS.len()
}

fn id(host: u8) -> HostId {
    HostId::from(host) + 1
}

fn version(major: u8) -> String {
    format!("{major}.0.0")
}

/// Noon: the window of both groups opens.
fn noon() -> Timestamp {
    "2026-03-03T12:00:00Z".parse().unwrap()
}

fn time(second: u8) -> Timestamp {
    noon() + SignedDuration::from_secs(i64::from(second))
}

impl Book {
    /// Hosts that report the start version; policy and target are written, and the window opens.
    pub(crate) fn first(hosts: u8, requests: usize) -> Self {
        let group = |(name, cap): (&str, u64)| json!({ "name": name, "days": ["*"], "start_hour": 12, "canary_count": 0, "max_in_flight": format!("{cap}%") });
        let groups: Vec<Value> = GROUPS.into_iter().zip(CAPS).map(group).collect();
        let config =
            json!({ "agents": { "mode": "enabled", "strategy": "halt-on-error", "schedules": { "regular": groups } } });
        let target = json!({ "agents": {
            "start_version": version(START), "target_version": version(TARGET), "schedule": "regular", "mode": "enabled" } });
        let (mut resources, mut state, mut fleet) =
            (ResourceSet::default(), RolloutState { seed: 7, ..RolloutState::default() }, Fleet::default());
        for (kind, spec) in [("autoupdate_config", config), ("autoupdate_version", target)] {
            resources.put_json(&json!({ "kind": kind, "version": "v1", "spec": spec }), 1, &mut state).unwrap();
        }
        let before = noon() - SignedDuration::from_mins(1);
        state.step(&mut fleet, before);
        for host in 0..hosts {
            fleet.report(&report(host, START, None), state.rollout.as_ref(), before);
        }
        state.step(&mut fleet, noon());
        let (changes, acted) = (vec![0; usize::from(hosts)], vec![0; requests]);
        Self::of(state, &fleet, hosts, Self { changes, acted, ..Self::empty() })
    }

    fn empty() -> Self {
        let (hosts, changes, acted) = (Vec::new(), Vec::new(), Vec::new());
        Self { state: RolloutState::default(), hosts, arrivals: 0, changes, outcomes: 0, acted }
    }

    fn of(state: RolloutState, fleet: &Fleet, hosts: u8, rest: Self) -> Self {
        let records = (0..hosts).map(|host| fleet.record(id(host)).unwrap()).collect();
        Self { state, hosts: records, arrivals: fleet.arrivals(), ..rest }
    }

    /// The hosts, as a node has them that loads this.
    fn fleet(&self) -> Fleet {
        let mut fleet = Fleet::default();
        self.hosts.iter().for_each(|host| fleet.put_record(host.clone(), self.arrivals, None));
        self.state.arrange(&mut fleet, self.state.last_step.unwrap());
        fleet
    }

    /// Hosts of groups that have turned round whose slots may wait for it that they are heard of late: those that were not.
    pub(crate) fn awaited(&self) -> Vec<u8> {
        let (fleet, rollout) = (self.fleet(), self.state.rollout.as_ref().unwrap());
        let is_awaited = |number: &u8| {
            let group = &rollout.groups[group_of(*number)];
            let host = fleet.host(id(*number)).unwrap();
            let state = TallyContext::new(rollout, group, &fleet, self.state.last_step.unwrap()).state(host);
            let has_slot = matches!(state, HostState::LetGo | HostState::Told);
            group.attempt > 1 && has_slot && host.heard <= Moment::of(time(LATE))
        };
        (0..u8::try_from(self.hosts.len()).unwrap()).filter(is_awaited).collect()
    }

    /// The second of its last step.
    pub(crate) fn second(&self) -> u8 {
        let since = self.state.last_step.unwrap().duration_since(noon());
        u8::try_from(since.as_secs()).unwrap()
    }

    /// What each host is answered in the second of the last step.
    pub(crate) fn answers(&self) -> Vec<Answer> {
        let fleet = self.fleet();
        let answer = |host: u8| {
            let group = GROUPS[group_of(host)].to_owned();
            let question = Question { host: Some(id(host)), group, update_id: id(host) };
            let answer = self.state.answer(&fleet, &question, time(self.second())).unwrap();
            let to = answer.version.to_string().split('.').next().unwrap().parse().unwrap();
            let (rollout, attempt) = (u8::try_from(answer.rollout).unwrap(), u8::try_from(answer.attempt).unwrap());
            let update = answer.update;
            // Of who is to wait nothing else makes a difference.
            let told = Answer { update, to, rollout, attempt, back: answer.goes_back() };
            if update { told } else { Answer { update, to: 0, rollout: 0, attempt: 0, back: false } }
        };
        (0..u8::try_from(self.hosts.len()).unwrap()).map(answer).collect()
    }

    /// Whether something was decided in the second of the last step: then the next step of a clock that goes is in another one.
    fn has_just_decided(&self) -> bool {
        let last = self.state.last_step.unwrap();
        self.state.rollout.iter().flat_map(|rollout| &rollout.groups).any(|group| group.last_update_time >= last)
    }

    /// A node's turn: it takes what it heard, steps, and carries a command out. `clock`: it stands, or it is late. `None`: the command
    /// is refused.
    pub(crate) fn turn(&self, heard: &[Input], request: Option<(usize, &Command)>, clock: Clock) -> Option<Self> {
        let (mut next, mut fleet) = (self.clone(), self.fleet());
        let second = self.second() + u8::from(clock != Clock::Stands && self.has_just_decided());
        let now = time(clock.second(second));
        for input in heard {
            next.take(input, &mut fleet, now);
        }
        next.state.step(&mut fleet, now);
        if let Some((number, command)) = request {
            next.state.command(command, &fleet, now).ok()?;
            next.state.step(&mut fleet, now);
            next.outcomes |= 1 << number;
            next.acted[number] += 1;
        }
        let hosts = u8::try_from(self.hosts.len()).unwrap();
        let state = next.state.clone();
        Some(Self::of(state, &fleet, hosts, next))
    }

    fn take(&mut self, input: &Input, fleet: &mut Fleet, now: Timestamp) {
        let rollout = self.state.rollout.as_ref();
        match *input {
            Input::Told { host, second, rollout: number, back } => {
                fleet.question(id(host), Some(GROUPS[group_of(host)]), id(host), rollout, time(second));
                if let Some(rollout) = rollout.filter(|rollout| rollout.number == u64::from(number)) {
                    fleet.tell(id(host), rollout, back, time(second));
                }
            }
            Input::Asked { host, second } => {
                fleet.question(id(host), Some(GROUPS[group_of(host)]), id(host), rollout, time(second));
            }
            Input::Report { host, runs, change } => {
                // As the server's `core/reports.rs`: a change that it knows says nothing new, and a failure counts in its attempt.
                let group = rollout.and_then(|rollout| rollout.group(fleet.host(id(host))?.place));
                let is_of_attempt = group.is_none_or(|group| u32::from(change.attempt) >= group.attempt)
                    && rollout.is_none_or(|rollout| rollout.number == u64::from(change.rollout));
                let is_new = change.number > self.changes[usize::from(host)];
                let report = report(host, runs, is_new.then_some(change));
                fleet.report(&HostReport { is_of_before: !change.is_good && !is_of_attempt, ..report }, rollout, now);
                self.changes[usize::from(host)] = change.number;
            }
        }
    }

    /// What a store that compares nothing has after `self` was written over `current`, which came after `base`.
    pub(crate) fn over(&self, base: &Self, current: &Self) -> Self {
        let mut merged = Self { outcomes: current.outcomes | self.outcomes, ..self.clone() };
        let is_same = |one: &HostRecord, other: &HostRecord| HostRecord { heard: other.heard, ..one.clone() } == *other;
        for (at, host) in merged.hosts.iter_mut().enumerate() {
            if is_same(host, &base.hosts[at]) && self.changes[at] == base.changes[at] {
                *host = HostRecord { heard: host.heard, ..current.hosts[at].clone() };
                merged.changes[at] = current.changes[at];
            }
        }
        merged
    }

    /// Whether nothing but time lies between them.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.bytes(false) == other.bytes(false)
    }

    /// Tells it from others.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.bytes(true).hash(&mut hasher);
        hasher.finish()
    }

    fn bytes(&self, with_time: bool) -> Vec<u8> {
        let Self { mut state, mut hosts, .. } = self.clone();
        state.clock = ListeningClock::default();
        if let Some(rollout) = &mut state.rollout {
            (rollout.clock, rollout.last_step) = (ListeningClock::default(), noon());
        }
        // When a host was heard of makes no other difference.
        for host in &mut hosts {
            host.heard = if host.heard > Moment::of(time(LATE)) { Moment::of(time(LATE)) } else { Moment::default() };
        }
        if !with_time {
            state.last_step = None;
        }
        serde_json::to_vec(&(state, hosts, self.arrivals, &self.changes, self.outcomes, &self.acted)).unwrap()
    }
}

fn report(host: u8, runs: u8, change: Option<Change>) -> HostReport {
    let last = change.map(|change| HostChange {
        outcome: if change.is_good { Outcome::Updated } else { Outcome::RolledBack },
        to: version(change.to),
        code: if change.is_good { String::new() } else { "unhealthy".to_owned() },
    });
    HostReport {
        host: id(host),
        update_id: id(host),
        group: Some(GROUPS[group_of(host)].to_owned()),
        version: Some(version(runs)),
        last,
        ..HostReport::default()
    }
}
