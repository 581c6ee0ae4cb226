//! `autoupdate_version`: which version hosts shall run, in either dialect.

use protocol::Version;

use super::dialect::PolicyDialect;
use super::fields::ResourceFields;
use super::key::KeyKind;
use crate::policy::{Mode, RolloutTarget, Schedule};

/// What an `autoupdate_version` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionSpec {
    /// For agents; `None`: there is no rollout.
    pub agents: Option<AgentVersions>,
    /// For `tsh` and `tctl` (`spec.tools.target_version`).
    pub tools: Option<Version>,
}

/// The version that agents shall run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentVersions {
    /// Whose words it was written in; that configuration goes with it.
    pub dialect: PolicyDialect,
    /// `start_version`, or `agent_start_version` of a flat one. `None` in a flat one without: the last target whose rollout was
    /// done, else the version that this one replaces.
    pub start: Option<Version>,
    /// `target_version` or `agent_version`.
    pub target: Version,
    /// How soon.
    pub schedule: Schedule,
    /// Disabled where a nested one has none; enabled in a flat one, whose configuration alone has a mode.
    pub mode: Mode,
}

impl AgentVersions {
    /// The target for the engine; `start` counts where none is written.
    pub fn target(&self, start: &Version) -> RolloutTarget {
        RolloutTarget {
            start: self.start.as_ref().unwrap_or(start).clone(),
            target: self.target.clone(),
            schedule: self.schedule,
            mode: self.mode,
        }
    }
}

/// Reads `spec`.
pub(super) fn read(fields: &ResourceFields<'_>) -> VersionSpec {
    let tools = fields.fields("tools").and_then(|tools| tools.get("target_version"));
    let agents = fields.place("agents");
    // The keys of RFD 0169, and `agent_start_version`, which is ours.
    let flat_keys = ["agent_version", "agent_version_schedule", "agent_start_version"];
    let is_flat = flat_keys.iter().any(|key| fields.place(key).is_there());
    let agents = match (agents.is_there(), is_flat) {
        (true, true) => {
            agents.refuse("stands beside agent_version: write one of them, in one dialect");
            None
        }
        (true, false) => fields.fields("agents").and_then(|agents| nested(&agents)),
        (false, true) => flat(fields),
        (false, false) => None,
    };
    VersionSpec { agents, tools }
}

fn nested(fields: &ResourceFields<'_>) -> Option<AgentVersions> {
    let (start, target) = (fields.get("start_version"), fields.get("target_version"));
    // What a version does not enable, nobody has enabled (FLEET §3, D1).
    let (schedule, mode) = (fields.value("schedule"), fields.value("mode"));
    Some(AgentVersions { dialect: PolicyDialect::V2, start: Some(start?), target: target?, schedule, mode })
}

fn flat(fields: &ResourceFields<'_>) -> Option<AgentVersions> {
    let target = fields.place("agent_version").needed("the version that hosts shall run").read(&KeyKind::Version);
    let (schedule, start) = (fields.value("agent_version_schedule"), fields.get("agent_start_version"));
    Some(AgentVersions { dialect: PolicyDialect::Rfd0169, start, target: target?, schedule, mode: Mode::Enabled })
}
