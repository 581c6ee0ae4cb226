//! Canaries: the first hosts of a group, which update before the others (Managed Updates v2).

use jiff::Timestamp;

use crate::fleet::Fleet;
use crate::host::Host;
use crate::reason::CanaryObstacle;
use crate::rollout::{Canary, Cursor, Rollout, State};
use crate::tally::{HostState, TallyContext};

/// Puts others in the place of canaries that are lost, and tops them up.
pub(super) fn choose(rollout: &mut Rollout, index: usize, fleet: &Fleet, now: Timestamp) {
    let Some(group) = rollout.groups.get(index) else { return };
    let look = TallyContext::new(rollout, group, fleet, now);
    // One that was not told and went silent, departed or is excluded gives its place to another.
    let stays = |canary: &&Canary| {
        let Some(host) = fleet.host(canary.host_id) else { return false };
        let is_lost = || look.is_unheard(host) || look.state(host) == HostState::Excluded;
        canary.success || look.mark(host).is_some() || !is_lost()
    };
    let mut canaries: Vec<Canary> = group.canaries.iter().filter(stays).cloned().collect();
    let wanted = usize::try_from(group.policy.pace.canaries).unwrap_or(usize::MAX);
    let missing = wanted.saturating_sub(canaries.len());
    if missing > 0 {
        // The first of the order that have an updater's id, count, and were seen within an interval.
        let is_one = |host: &Host| canaries.iter().any(|canary| canary.host_id == host.id);
        let can_be = |host: &&Host| obstacle(&look, host).is_none() && !is_one(host);
        let mut found: Vec<&Host> = fleet.members(index).filter(can_be).collect();
        found.sort_by_key(|host| Cursor::of(host));
        let canary =
            |host: &Host| Canary { updater_id: host.update_id, host_id: host.id, success: false, let_go: false };
        canaries.extend(found.into_iter().take(missing).map(canary));
    }
    if let Some(group) = rollout.groups.get_mut(index) {
        group.canaries = canaries;
    }
}

/// The same, and lets the others go when all canaries are on the target.
pub(super) fn check(rollout: &mut Rollout, index: usize, fleet: &Fleet, now: Timestamp) {
    choose(rollout, index, fleet, now);
    let Some(group) = rollout.groups.get(index) else { return };
    let look = TallyContext::new(rollout, group, fleet, now);
    let arrived: Vec<u128> = group
        .canaries
        .iter()
        .filter(|canary| fleet.host(canary.host_id).is_some_and(|host| look.state(host) == HostState::Updated))
        .map(|canary| canary.host_id)
        .collect();
    let wanted = usize::try_from(group.policy.pace.canaries).unwrap_or(usize::MAX);
    let are_all = !group.canaries.is_empty()
        && (group.canaries.len() >= wanted || group.canaries.len() >= members(&look, index, fleet));
    let Some(group) = rollout.groups.get_mut(index) else { return };
    for canary in &mut group.canaries {
        canary.success |= arrived.contains(&canary.host_id);
    }
    if are_all && group.canaries.iter().all(|canary| canary.success) {
        if group.initial_count == 0 {
            group.initial_count = group.present_count;
        }
        group.enter(State::Active, "canaries_are_alive", now);
    } else {
        group.note(State::Canary, "waiting_for_canaries", now);
    }
}

/// Of how many hosts canaries are: those that were there when the group began, or that are back since, if these are more.
fn members(look: &TallyContext<'_>, index: usize, fleet: &Fleet) -> usize {
    let is_one = |host: &&Host| look.is_counted(host) && look.is_present(host) && !host.flags.excludes();
    let present = fleet.members(index).filter(is_one).count();
    usize::try_from(look.group.initial_count).unwrap_or(usize::MAX).max(present)
}

/// What keeps a host from being chosen; `None`: nothing.
pub(crate) fn obstacle(look: &TallyContext<'_>, host: &Host) -> Option<CanaryObstacle> {
    let state = look.state(host);
    if state == HostState::Excluded {
        Some(CanaryObstacle::Excluded)
    } else if !look.is_counted(host) {
        Some(CanaryObstacle::NotCounted)
    } else if look.now.since(host.heard) > look.listening.heard_every {
        Some(CanaryObstacle::NotSeen)
    } else if host.update_id == 0 {
        Some(CanaryObstacle::NoUpdateId)
    } else {
        (!matches!(state, HostState::Pending | HostState::Updated)).then_some(CanaryObstacle::Tried)
    }
}
