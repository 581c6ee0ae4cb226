//! What is shown of the rollout and of hosts.

use std::collections::{BTreeMap, HashSet};

use fleet_engine::answer::Question;
use fleet_engine::book::Holds;
use fleet_engine::curve::{RolloutCurve, Sketch};
use fleet_engine::host::{GroupPlace, Host, HostId};
use fleet_engine::reason::Why;
use fleet_engine::resource::{Kind, Resource};
use fleet_engine::tally::{HostState, TallyContext};
use fleet_wire::answers::{find, ids};
use fleet_wire::api::{
    ApiError, Code, Explained, HOST_STATES, HostList, HostView as Shown, HostsQuery, KeptResource, MAX_PAGE, PAGE,
    ToldHost,
};
use fleet_wire::reason::Reason;
use fleet_wire::rollout::{AgentRollout, Stops, StopsAlone};
use fleet_wire::text;
use jiff::Timestamp;
use serde_json::json;

use super::CoreState;

/// A group, as its page shows it.
pub(crate) struct GroupLook {
    /// How many hosts failed by which error code, by which a halt counts them, or took too long (`None`); the commonest first.
    pub(crate) failures: Vec<(Option<String>, u64)>,
    /// Its hosts over time; `None`: it has not begun.
    pub(crate) curve: Option<RolloutCurve>,
}

impl CoreState {
    /// The rollout, as the resource `autoupdate_agent_rollout`.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn rollout(&self) -> Result<AgentRollout, ApiError> {
        let mut rollout = AgentRollout::present(&self.book, &self.shelf, &self.fleet, self.now())
            .ok_or_else(|| ApiError::new(Code::NoRollout, "there is no rollout: write an autoupdate_version first"))?;
        rollout.metadata.revision = Some(self.revision().to_string());
        let StopsAlone { store_unavailable, stop_waits, .. } = self.stops();
        rollout.status.stops = Stops { store_unavailable, stop_waits, ..rollout.status.stops };
        Ok(rollout)
    }

    /// What is held, with a rollout and without one.
    pub(crate) fn holds(&self) -> Holds {
        self.book.holds.clone()
    }

    /// The same, and that the store does not answer.
    pub(crate) fn stops(&self) -> StopsAlone {
        StopsAlone {
            holds: self.holds(),
            store_unavailable: self.unconfirmed(),
            stop_waits: self.snapshot.stop_waits(),
        }
    }

    /// That the store has not confirmed what is answered, as a reason; `None`: it has.
    fn unconfirmed(&self) -> Option<Reason> {
        (!self.snapshot.is_good()).then(|| Reason::stale(self.snapshot.confirmed(), self.snapshot.ahead()))
    }

    /// The present rollout with its number, as those that are past.
    pub(crate) fn present(&self) -> Option<AgentRollout> {
        let mut shown = AgentRollout::present(&self.book, &self.shelf, &self.fleet, self.now())?;
        shown.metadata.number = Some(self.book.number);
        shown.metadata.present = true;
        Some(shown)
    }

    /// The resources of these kinds.
    pub(crate) fn resources(&self, kinds: &[Kind]) -> Vec<Resource> {
        self.shelf.all().filter(|resource| kinds.contains(&resource.kind())).cloned().collect()
    }

    /// All hosts, if there are at most so many.
    pub(crate) fn inventory(&self, most: usize) -> Option<Vec<Shown>> {
        let now = self.now();
        let hosts = self.fleet.hosts();
        (hosts.len() <= most).then(|| hosts.iter().map(|host| self.shown(host, now)).collect())
    }

    /// The number of the present rollout, or of the last one.
    pub(crate) fn number(&self) -> u64 {
        self.book.number
    }

    /// How many hosts are known.
    pub(crate) fn known(&self) -> u64 {
        u64::try_from(self.fleet.hosts().len()).unwrap_or(u64::MAX)
    }

    /// The groups of the rollout, and of the policy for the next one.
    pub(crate) fn group_names(&self) -> impl Iterator<Item = &str> {
        let rollout = self.book.rollout.iter().flat_map(|rollout| &rollout.groups).map(|group| &group.policy);
        let policy = self.book.policy.iter().flat_map(|policy| policy.regular.iter().chain(&policy.critical));
        let mut known = HashSet::new();
        rollout.chain(policy).map(|group| group.name.as_str()).filter(move |name| known.insert(*name))
    }

    /// What is shown of a group of the rollout besides its counts; `None`: the rollout has none of that name.
    pub(crate) fn group_look(&self, name: &str) -> Option<GroupLook> {
        let now = self.now();
        let rollout = self.book.rollout.as_ref()?;
        let index = rollout.find(name)?;
        let (group, place) = (rollout.groups.get(index)?, GroupPlace::Group(u16::try_from(index).ok()?));
        let look = TallyContext::new(rollout, group, &self.fleet, now);
        let mut sketch = Sketch::of(group);
        let mut counted: BTreeMap<Option<&str>, u64> = BTreeMap::new();
        for host in self.fleet.hosts().iter().filter(|host| host.place == place) {
            if let Some(sketch) = &mut sketch {
                sketch.add(&look, host);
            }
            let code = match look.state(host) {
                HostState::Failed => Some(self.fleet.names.text(look.failure_code(host))),
                HostState::TimedOut => None,
                _ => continue,
            };
            *counted.entry(code).or_default() += 1;
        }
        let mut failures: Vec<_> = counted.into_iter().map(|(code, count)| (code.map(str::to_owned), count)).collect();
        failures.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Some(GroupLook { failures, curve: sketch.map(|sketch| sketch.finish(now)) })
    }

    pub(super) fn rollout_as_kept(&self) -> Option<KeptResource> {
        let json = json!(self.rollout().ok()?);
        let revision = self.revision().to_string();
        let kind = Kind::Rollout;
        let yaml = yaml::Node::from_json(&json, 1).map(|node| node.emit()).unwrap_or_default();
        let name = kind.only_name().unwrap_or_default().to_owned();
        Some(KeptResource { kind: kind.to_string(), name, revision, yaml, json })
    }

    /// What a host would be told now, and why.
    ///
    /// # Errors
    /// No rollout ever named a version.
    pub(crate) fn explain(&self, id: HostId) -> Result<Explained, ApiError> {
        let now = self.now();
        let question = Question { host: Some(id), ..Question::default() };
        let none = "there is no rollout, and none was done before: hosts are told nothing";
        let answer = self.book.answer(&self.fleet, &question, now);
        let answer = answer.ok_or_else(|| ApiError::new(Code::NoRollout, none))?;
        let known = self.fleet.host(id);
        // As `find` says it.
        let is_good = self.snapshot.is_good();
        let answer = if is_good { answer } else { find::stale(answer, self.snapshot.confirmed()) };
        let state = known.map_or("unknown", |host| self.state(host, now));
        let advice = self.book.host_advice(&self.shelf, &self.fleet, known, &answer, now);
        let since = if is_good { answer.since(known) } else { Some(answer.reason.since) };
        let mut answer = ToldHost::of(&ids::text(id), state, &answer, since, advice.as_ref());
        answer.why.clock_behind = self.snapshot.ahead().filter(|_| !is_good).map(text::second);
        Ok(Explained { known: known.map(|host| self.shown(host, now)), history: None, answer })
    }

    /// The same while no host is told anything.
    pub(super) fn untold(&self, id: HostId) -> Explained {
        let now = self.now();
        let known = self.fleet.host(id);
        let state = known.map_or("unknown", |host| self.state(host, now));
        let why = Reason { until: None, ..Reason::now(Why::NoRollout) };
        let answer = ToldHost { host: ids::text(id), state: state.to_owned(), why, ..ToldHost::default() };
        Explained { known: known.map(|host| self.shown(host, now)), history: None, answer }
    }

    /// Hosts, by UUID.
    ///
    /// # Errors
    /// The question names no state, no group or no UUID.
    pub(crate) fn hosts(&self, query: &HostsQuery) -> Result<HostList, ApiError> {
        let bad = |message: String| ApiError::new(Code::BadRequest, message);
        if let Some(state) = query.state.as_deref().filter(|state| !HOST_STATES.contains(state)) {
            return Err(bad(format!("there is no state {state:?}: states are {}", HOST_STATES.join(", "))));
        }
        if let Some(group) = query.group.as_deref().filter(|group| !group.is_empty() && !self.is_declared(group)) {
            self.is_group(group)?;
        }
        let after = match &query.after {
            Some(text) => Some(ids::uuid(text).ok_or_else(|| bad(format!("after={text:?} is no UUID")))?),
            None => None,
        };
        let limit = usize::try_from(query.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE)).unwrap_or(usize::MAX);
        let now = self.now();
        let mut found: Vec<&Host> = self
            .fleet
            .hosts()
            .iter()
            .filter(|host| after.is_none_or(|after| host.id > after) && self.is_asked_for(host, query, now))
            .collect();
        found.sort_unstable_by_key(|host| host.id);
        let more = found.len() > limit;
        found.truncate(limit);
        Ok(HostList { hosts: found.into_iter().map(|host| self.shown(host, now)).collect(), more })
    }

    /// Whether a host names this group, or an operator gave it to one: also one that there is not.
    fn is_declared(&self, group: &str) -> bool {
        let text = |name| self.fleet.names.text(name);
        self.fleet.hosts().iter().any(|host| text(host.declared) == group || text(host.assigned) == group)
    }

    fn is_asked_for(&self, host: &Host, query: &HostsQuery, now: Timestamp) -> bool {
        query.version.as_deref().is_none_or(|version| self.fleet.names.text(host.version) == version)
            && query.group.as_deref().is_none_or(|group| self.group(host) == group)
            && query.state.as_deref().is_none_or(|state| self.state(host, now) == state)
            && (!query.waiting || self.members.waits(host.id).is_some())
            && (!query.failed || self.state(host, now) == "failed")
            && query.code.as_deref().is_none_or(|code| self.failed_with(host, now) == Some(code))
    }

    /// The error code with which the present target failed; `None`: it did not fail.
    fn failed_with(&self, host: &Host, now: Timestamp) -> Option<&str> {
        let look = self.look(host, now).filter(|look| look.state(host) == HostState::Failed)?;
        Some(self.fleet.names.text(look.failure_code(host)))
    }

    fn group(&self, host: &Host) -> &str {
        let group = self.book.rollout.as_ref().and_then(|rollout| rollout.group(host.place));
        group.map_or("", |group| &group.policy.name)
    }

    pub(super) fn state(&self, host: &Host, now: Timestamp) -> &'static str {
        self.look(host, now).map_or("unassigned", |look| look.state(host).name())
    }

    /// The view of its group; `None`: it belongs to none.
    fn look(&self, host: &Host, now: Timestamp) -> Option<TallyContext<'_>> {
        let rollout = self.book.rollout.as_ref()?;
        let group = rollout.group(host.place)?;
        Some(TallyContext::new(rollout, group, &self.fleet, now))
    }

    fn shown(&self, host: &Host, now: Timestamp) -> Shown {
        let text = |name| self.fleet.names.text(name).to_owned();
        Shown {
            host: ids::text(host.id),
            update_id: if host.update_id == 0 { String::new() } else { ids::text(host.update_id) },
            group: self.group(host).to_owned(),
            declared_group: text(host.declared),
            assigned_group: text(host.assigned),
            labels: host.labels.iter().map(|(key, value)| (text(*key), text(*value))).collect(),
            version: text(host.version),
            state: self.state(host, now).to_owned(),
            held: host.flags.held,
            pinned: host.flags.pinned,
            disabled: host.flags.disabled,
            last_seen: (!host.is_expected()).then(|| host.heard.time()),
            last_outcome: host.last.map_or("", |last| last.outcome.name()).to_owned(),
            last_target: host.last.map_or_else(String::new, |last| text(last.to)),
            error_code: host.last.map_or_else(String::new, |last| text(last.code)),
            failed_with: self.failed_with(host, now).unwrap_or_default().to_owned(),
            enrolled: self.members.has(host.id),
            not_counted: self.omission(host, now).unwrap_or_default().to_owned(),
            waiting_key: self.members.waits(host.id).map_or_else(String::new, |key| key.to_string()),
        }
    }
}
