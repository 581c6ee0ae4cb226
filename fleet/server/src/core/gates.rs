//! Groups that wait for an external check, and its answer (FLEET §2).

use fleet_engine::command::Command;
use fleet_engine::policy::External;
use fleet_engine::reason::Why;
use fleet_engine::rollout::{GateAnswer, GroupStatus};
use fleet_wire::api::{Act, ApiError, Role};

use super::{Actor, CoreState};

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

impl CoreState {
    /// Groups that wait for their external check.
    pub(crate) fn gates(&self) -> Vec<WaitingGate> {
        let Some(rollout) = &self.book.rollout else { return Vec::new() };
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
    pub(crate) fn take_gate(&mut self, asked: &WaitingGate, answer: GateAnswer) -> Result<(), ApiError> {
        let rollout = self.book.rollout.as_ref().filter(|rollout| rollout.number == asked.rollout);
        let group = rollout.and_then(|rollout| rollout.groups.get(rollout.find(&asked.group)?));
        if group.is_none_or(|group| group.gate == Some(answer)) {
            return Ok(());
        }
        let actor = Actor { who: "gate".to_owned(), from: asked.external.url.clone(), role: Role::Operator };
        let id = uuid::Uuid::new_v4().to_string();
        let command = Command::Gate { group: asked.group.clone(), answer };
        self.act(&actor, &Act { id, command, dry_run: false }).map(drop)
    }
}
