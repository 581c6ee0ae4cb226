//! `cluster_maintenance_config`: RFD 0169's groups, its schedule without groups, and RFD 0109's maintenance window.

use super::config::{Schedules, schedules, unassigned};
use super::fields::ResourceFields;
use super::group;
use crate::calendar::{Days, WindowOpening, Zone};
use crate::policy::{GroupPolicy, Mode, Policy, Strategy, Unassigned, Ungrouped, UngroupedWindow};

/// What a `cluster_maintenance_config` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maintenance {
    /// `agent_auto_update` and `agent_auto_update_groups`; `None` where neither is written.
    pub policy: Option<Policy>,
    /// `agent_upgrades`.
    pub window: Option<MaintenanceWindow>,
}

/// The cluster's maintenance window (RFD 0109): an hour long, in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceWindow {
    /// `utc_start_hour` and `weekdays`; no weekdays are all of them.
    pub opening: WindowOpening,
}

/// The group that stands for all hosts where a v2 configuration has none: `default-cmc` in the cluster's maintenance window,
/// else `default`, Monday to Thursday at 12:00 UTC (FLEET §2).
pub(crate) fn default_group(window: Option<&MaintenanceWindow>) -> GroupPolicy {
    match window {
        Some(window) => GroupPolicy::v2("default-cmc", window.opening.clone()),
        None => GroupPolicy::v2("default", WindowOpening { days: Days::WORK_START, hour: 12, zone: Zone::UTC }),
    }
}

/// Reads `spec`.
pub(super) fn read(fields: &ResourceFields<'_>) -> Maintenance {
    let (mode, ungrouped) = update_of(fields);
    let schedules = schedules(fields.fields("agent_auto_update_groups"), Strategy::Requires);
    let unassigned = unassigned_of(fields, &schedules, ungrouped.is_some());
    let window = fields.fields("agent_upgrades").map(|window| self::window(&window));
    let is_written =
        ["agent_auto_update", "agent_auto_update_groups", "agents"].iter().any(|key| fields.place(key).is_there());
    let (strategy, Schedules { regular, critical }) = (Strategy::Requires, schedules);
    let policy = Policy { mode, strategy, regular, critical, unassigned, ungrouped, ..Policy::default() };
    Maintenance { policy: is_written.then_some(policy), window }
}

/// RFD 0169 has `agent_auto_update` twice: as a boolean, and as the schedule without groups.
fn update_of(spec: &ResourceFields<'_>) -> (Mode, Option<Ungrouped>) {
    if spec.place("agent_auto_update").is_mapping() {
        return (Mode::Enabled, spec.fields("agent_auto_update").map(|fields| ungrouped(&fields)));
    }
    match spec.get("agent_auto_update") {
        Some(false) => (Mode::Disabled, None),
        _ => (Mode::Enabled, None),
    }
}

fn ungrouped(fields: &ResourceFields<'_>) -> Ungrouped {
    let window = |name| {
        let fields = fields.fields(name)?;
        Some(UngroupedWindow { opening: group::opening(&fields), jitter: fields.value("jitter_seconds") })
    };
    Ungrouped {
        regular: window("regular"),
        critical: window("critical"),
        immediate_jitter: fields.section("immediate").value("jitter_seconds"),
    }
}

/// `spec.agents` holds nothing else here than `unassigned`, which the schedule without groups would contradict.
fn unassigned_of(spec: &ResourceFields<'_>, schedules: &Schedules, has_ungrouped: bool) -> Unassigned {
    let Some(agents) = spec.fields("agents") else { return Unassigned::Hold };
    let unassigned = unassigned(&agents, schedules);
    if has_ungrouped && unassigned != Unassigned::Hold {
        agents
            .place("unassigned")
            .refuse("is written beside agent_auto_update, which says when hosts without a group update");
    }
    unassigned
}

fn window(fields: &ResourceFields<'_>) -> MaintenanceWindow {
    let hour = fields.value("utc_start_hour");
    let has_days = !fields.place("weekdays").items().is_empty();
    let days = if has_days { fields.value("weekdays") } else { Days::EVERY };
    MaintenanceWindow { opening: WindowOpening { days, hour, zone: Zone::UTC } }
}
