//! Commands of operators on groups, and the answers of external checks (FLEET §2).

use fleet_engine::command::Command;
use fleet_engine::policy::External;
use fleet_engine::reason::Why;
use fleet_engine::rollout::{GateAnswer, GroupStatus, State};
use fleet_wire::api::{Act, Acted, ApiError, Code, HoldsView, Role};
use fleet_wire::rollout::AgentRollout;

use super::actor::PendingStop;
use super::tx::{RequestedAction, Tx};
use super::{Actor, CoreState, changes};

/// Longest name of a group, characters: what the document of the API says, which counts no bytes.
const LONGEST_NAME: usize = 255;

/// Carries a command out.
///
/// # Errors
/// Why not; that is on record as well.
pub(crate) fn act(tx: &mut Tx<'_>, actor: &Actor, act: &Act) -> Result<Acted, ApiError> {
    let Act { id, command, dry_run: is_dry } = act;
    let (action, subject) = named(command);
    let asked = RequestedAction { actor, action, subject: &subject, is_dry: *is_dry };
    let acted = tx.once(&asked, id, &(command, is_dry), |tx| {
        are_names(command)?;
        may_act(tx.state(), actor, command)?;
        let now = tx.state().now();
        let before = changes::told(&tx.state().rollouts, &tx.state().fleet, now);
        tx.step(now);
        let states = states(tx);
        let (rollouts, fleet) = tx.change();
        rollouts.command(command, fleet, now)?;
        tx.step(now);
        let (state, rollouts) = (tx.state(), tx.rollouts());
        let mut effects = changes::effects(&before, rollouts, &state.fleet, now);
        // A stop repeats nothing that was halted.
        effects.halted_before &= !matches!(command, Command::Halt { .. } | Command::Rollback { .. });
        Ok(Acted {
            groups: touched(&states, tx, command),
            started: started(&states, tx, command),
            rollout: AgentRollout::present(rollouts, &state.resources, &state.fleet, now),
            holds: HoldsView::of(&rollouts.holds),
            effects,
        })
    });
    let is_halt = matches!(command, Command::Halt { .. }) && !is_dry;
    acted.map_err(|wrong| if is_halt { tx.stop_later(wrong, actor, PendingStop::Halt(act.clone())) } else { wrong })
}

/// An approval is of the role that the group names, and not of whoever wrote the version. Of a group that there is not, or that
/// needs none, the engine says so.
fn may_act(state: &CoreState, actor: &Actor, command: &Command) -> Result<(), ApiError> {
    let Command::Approve { groups, .. } = command else { return Ok(()) };
    let rollout = state.rollouts.rollout.as_ref();
    let approval = |name: &String| {
        let (index, groups) = (rollout?.find(name)?, &rollout?.groups);
        Some((index, groups.get(index)?.policy.gate.approval.as_deref()?))
    };
    let Some(mut approvals) = groups.iter().map(approval).collect::<Option<Vec<_>>>() else { return Ok(()) };
    let forbidden = |message: String| Err(ApiError::new(Code::Forbidden, message));
    if state.rollouts.author.as_deref() == Some(actor.who.as_str()) {
        return forbidden(format!("{} wrote the version of this rollout: somebody else has to approve it", actor.who));
    }
    approvals.sort_unstable();
    for (index, needed) in approvals {
        if Role::named(needed).is_none_or(|needed| actor.role < needed) {
            let name = rollout.and_then(|rollout| rollout.groups.get(index)).map_or("", |group| &group.policy.name);
            return forbidden(format!("group {name} is approved by the role {needed}; this is {}", actor.role));
        }
    }
    Ok(())
}

/// A name that no group can have is refused before it is said again and again.
fn are_names(command: &Command) -> Result<(), ApiError> {
    match command.groups().iter().map(|name| name.chars().count()).find(|length| *length > LONGEST_NAME) {
        None => Ok(()),
        Some(length) => {
            let message = format!("a text of {length} characters is no group's name: the longest has {LONGEST_NAME}");
            Err(ApiError::new(Code::BadRequest, message))
        }
    }
}

/// What a command is called, and what it is about.
fn named(command: &Command) -> (&'static str, String) {
    let subject = match command.groups() {
        [] => "all groups".to_owned(),
        names => format!("group {}", names.join(", ")),
    };
    (command.name(), subject)
}

/// Each group with its state.
fn states(tx: &Tx<'_>) -> Vec<(String, State)> {
    let groups = tx.rollouts().rollout.iter().flat_map(|rollout| &rollout.groups);
    groups.map(|group| (group.policy.name.clone(), group.state)).collect()
}

/// The groups that a command names; where it names none, those whose state it changed.
fn touched(before: &[(String, State)], tx: &Tx<'_>, command: &Command) -> Vec<String> {
    let named = command.groups();
    if !named.is_empty() {
        return named.to_vec();
    }
    let after = states(tx);
    after.into_iter().filter(|group| !before.contains(group)).map(|(name, _)| name).collect()
}

/// Groups that had not begun, and that `run` started.
fn started(before: &[(String, State)], tx: &Tx<'_>, command: &Command) -> Vec<String> {
    let Command::Run { groups, .. } = command else { return Vec::new() };
    let had_not_begun = |name: &String| before.iter().any(|(known, state)| known == name && *state == State::Unstarted);
    let begun = states(tx).into_iter().filter(|(_, state)| state.has_started()).map(|(name, _)| name);
    begun.filter(had_not_begun).filter(|name| groups.contains(name)).collect()
}

/// A group that waits for its external check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingGate {
    /// Its name.
    pub(crate) group: String,
    /// Who is asked.
    pub(crate) external: External,
    /// The number of the rollout.
    pub(crate) rollout: u64,
    /// Its target.
    pub(crate) target: String,
}

/// Groups that wait for their external check.
pub(crate) fn gates(tx: &Tx<'_>) -> Vec<WaitingGate> {
    let Some(rollout) = &tx.state().rollouts.rollout else { return Vec::new() };
    let waits = |group: &&GroupStatus| matches!(group.reason.why, Why::Gate { .. });
    let waiting = |group: &GroupStatus| {
        let external = group.policy.gate.external.clone()?;
        let (rollout, target) = (rollout.number, rollout.target.to_string());
        Some(WaitingGate { group: group.policy.name.clone(), external, rollout, target })
    };
    rollout.groups.iter().filter(waits).filter_map(waiting).collect()
}

/// Takes the answer of an external check; one that is the same as before, or of another rollout, says nothing new.
///
/// # Errors
/// The store does not answer.
pub(crate) fn take_gate(tx: &mut Tx<'_>, asked: &WaitingGate, answer: GateAnswer) -> Result<(), ApiError> {
    let rollout = tx.state().rollouts.rollout.as_ref().filter(|rollout| rollout.number == asked.rollout);
    let group = rollout.and_then(|rollout| rollout.groups.get(rollout.find(&asked.group)?));
    if group.is_none_or(|group| group.gate == Some(answer)) {
        return Ok(());
    }
    let actor = Actor { who: "gate".to_owned(), from: asked.external.url.clone(), role: Role::Operator };
    let id = uuid::Uuid::new_v4().to_string();
    let command = Command::Gate { group: asked.group.clone(), answer };
    act(tx, &actor, &Act { id, command, dry_run: false }).map(drop)
}
