//! What is shown of the rollout.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fleet_engine::curve::{RolloutCurve, Sketch};
use fleet_engine::host::GroupPlace;
use fleet_engine::tally::{HostState, TallyContext};
use fleet_wire::api::{ApiError, Code, HoldsView};
use fleet_wire::reason::Reason;
use fleet_wire::rollout::{AgentRollout, Needs, StopsAlone, UnknownGroup, UnknownGroups, WithoutToken};
use fleet_wire::words::fleet::{self, FleetSummary};

use super::tx::Tx;
use super::{CoreState, counts};

/// Unknown groups that are named: anybody may declare any.
const UNKNOWN_GROUPS: usize = 5;

/// A group, as its page shows it.
pub(crate) struct GroupLook {
    /// How many hosts failed by which error code, by which a halt counts them, or took too long (`None`); the commonest first.
    pub(crate) failures: Vec<(Option<String>, u64)>,
    /// Its hosts over time; `None`: it has not begun.
    pub(crate) curve: Option<RolloutCurve>,
}

/// The rollout, as the resource `autoupdate_agent_rollout`.
///
/// # Errors
/// There is none.
pub(crate) fn rollout(tx: &Tx<'_>) -> Result<AgentRollout, ApiError> {
    let mut rollout = as_resource(tx)
        .ok_or_else(|| ApiError::new(Code::NoRollout, "there is no rollout: write an autoupdate_version first"))?;
    rollout.metadata.revision = Some(tx.state().revision.to_string());
    rollout.status.stops = stops(tx).into();
    rollout.status.summary = Some(summary(tx, Some(&rollout)).text);
    Ok(rollout)
}

/// How the fleet is, in one sentence, where this is its rollout.
pub(crate) fn summary(tx: &Tx<'_>, rollout: Option<&AgentRollout>) -> FleetSummary {
    fleet::summary(rollout, &stops(tx).into(), tx.state().now())
}

fn as_resource(tx: &Tx<'_>) -> Option<AgentRollout> {
    let state = tx.state();
    AgentRollout::present(&state.rollouts, &state.resources, &state.fleet, state.now())
}

/// What is held, with a rollout and without one; and that the store does not answer.
pub(crate) fn stops(tx: &Tx<'_>) -> StopsAlone {
    let snapshot = &tx.ledger.snapshot;
    // That the store has not confirmed what is answered, as a reason.
    let stale = || Reason::stale(snapshot.confirmed(), snapshot.ahead());
    StopsAlone {
        holds: HoldsView::of(&tx.state().rollouts.holds),
        store_unavailable: (!snapshot.is_good()).then(stale),
        stop_waits: snapshot.stop_waits(),
        needs: needs(tx.state()),
    }
}

fn needs(state: &CoreState) -> Needs {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let waiting = count(state.enrolments.waiting());
    let unknown_groups = state.rollouts.rollout.as_ref().and_then(|rollout| {
        let now = state.now();
        let unknown = state.fleet.unknown_groups(rollout, |host| !counts::is_gone(state, host, now));
        let mut largest: Vec<_> = unknown.iter().map(|(name, hosts)| (Reverse(*hosts), *name)).collect();
        largest.sort_unstable();
        let named = |(Reverse(hosts), name): (Reverse<u64>, &str)| UnknownGroup { name: name.to_owned(), hosts };
        (!unknown.is_empty()).then(|| UnknownGroups {
            hosts: unknown.values().sum(),
            groups: count(unknown.len()),
            largest: largest.into_iter().take(UNKNOWN_GROUPS).map(named).collect(),
            place: rollout.rest().cloned(),
        })
    });
    let (refused, one) = state.enrolments.without_token(crate::clock::up());
    let without_token = (refused > 0).then(|| WithoutToken { hosts: count(refused), one: one.map(str::to_owned) });
    Needs { waiting_hosts: Some(waiting).filter(|waiting| *waiting > 0), without_token, unknown_groups }
}

/// The present rollout with its number, as those that are past.
pub(crate) fn present(tx: &Tx<'_>) -> Option<AgentRollout> {
    let mut shown = as_resource(tx)?;
    shown.metadata.number = Some(number(tx));
    shown.metadata.present = true;
    Some(shown)
}

/// The number of the present rollout, or of the last one.
pub(crate) fn number(tx: &Tx<'_>) -> u64 {
    tx.state().rollouts.number
}

/// The groups of the rollout, and of the policy for the next one.
pub(crate) fn group_names(tx: &Tx<'_>) -> Vec<String> {
    tx.state().group_names().map(str::to_owned).collect()
}

/// What is shown of a group of the rollout besides its counts; `None`: the rollout has none of that name.
pub(crate) fn group_look(tx: &Tx<'_>, name: &str) -> Option<GroupLook> {
    let state = tx.state();
    let now = state.now();
    let rollout = state.rollouts.rollout.as_ref()?;
    let index = rollout.find(name)?;
    let (group, place) = (rollout.groups.get(index)?, GroupPlace::Group(u8::try_from(index).ok()?));
    let look = TallyContext::new(rollout, group, &state.fleet, now);
    let mut sketch = Sketch::of(group);
    let mut counted: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for host in state.fleet.hosts().iter().filter(|host| host.place == place) {
        if let Some(sketch) = &mut sketch {
            sketch.add(&look, host);
        }
        let code = match look.state(host) {
            HostState::Failed => Some(state.fleet.names.text(look.failure_code(host))),
            HostState::TimedOut => None,
            _ => continue,
        };
        *counted.entry(code).or_default() += 1;
    }
    let mut failures: Vec<_> = counted.into_iter().map(|(code, count)| (code.map(str::to_owned), count)).collect();
    failures.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Some(GroupLook { failures, curve: sketch.map(|sketch| sketch.finish(now)) })
}
