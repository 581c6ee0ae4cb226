//! `autoupdate_version`: which version hosts shall run, in either dialect.

use protocol::Version;

use super::config::MODES;
use super::dialect::PolicyDialect;
use super::reader::ResourceReader;
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
pub(super) fn read(spec: &ResourceReader<'_>) -> Option<VersionSpec> {
    let mut fields = spec.fields()?;
    let tools = tools(&fields.get("tools"));
    let agents = fields.get("agents");
    // The keys of RFD 0169, and `agent_start_version`, which is ours.
    let keys = ["agent_version", "agent_version_schedule", "agent_start_version"].map(|key| fields.get(key));
    fields.end();
    let is_flat = keys.iter().any(ResourceReader::is_there);
    let agents = match (agents.is_there(), is_flat) {
        (true, true) => {
            agents.refuse("stands beside agent_version: write one of them, in one dialect");
            None
        }
        (true, false) => nested(&agents),
        (false, true) => flat(keys),
        (false, false) => None,
    };
    Some(VersionSpec { agents, tools })
}

fn tools(reader: &ResourceReader<'_>) -> Option<Version> {
    let mut fields = reader.fields()?;
    let version = fields.get("target_version").version();
    fields.end();
    version
}

fn nested(agents: &ResourceReader<'_>) -> Option<AgentVersions> {
    let mut fields = agents.fields()?;
    let start = fields.get("start_version").needed("the version that hosts run before their turn").version();
    let target = fields.get("target_version").needed("the version that hosts shall run").version();
    let schedules = [("regular", Schedule::Regular), ("immediate", Schedule::Immediate)];
    let schedule = fields.get("schedule").one_of(&schedules).unwrap_or(Schedule::Regular);
    // What a version does not enable, nobody has enabled (FLEET §3, D1).
    let mode = fields.get("mode").one_of(&MODES).unwrap_or(Mode::Disabled);
    fields.end();
    Some(AgentVersions { dialect: PolicyDialect::V2, start: Some(start?), target: target?, schedule, mode })
}

fn flat([target, schedule, start]: [ResourceReader<'_>; 3]) -> Option<AgentVersions> {
    let target = target.needed("the version that hosts shall run").version();
    let schedules =
        [("regular", Schedule::Regular), ("critical", Schedule::Critical), ("immediate", Schedule::Immediate)];
    let schedule = schedule.one_of(&schedules).unwrap_or(Schedule::Regular);
    let start = start.version();
    Some(AgentVersions { dialect: PolicyDialect::Rfd0169, start, target: target?, schedule, mode: Mode::Enabled })
}
