//! `cluster_maintenance_config`: RFD 0169's groups, its schedule without groups, and RFD 0109's maintenance window.

use jiff::SignedDuration;

use super::config::{Schedules, schedules, unassigned};
use super::dialect::PolicyDialect;
use super::group;
use super::reader::ResourceReader;
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
pub(super) fn read(spec: &ResourceReader<'_>) -> Option<Maintenance> {
    let mut fields = spec.fields()?;
    let update = fields.get("agent_auto_update");
    let groups = fields.get("agent_auto_update_groups");
    let (mode, ungrouped) = update_of(&update);
    let schedules = schedules(&groups, Strategy::Requires, PolicyDialect::Rfd0169);
    let agents = fields.get("agents");
    let unassigned = unassigned_of(&agents, &schedules, ungrouped.is_some());
    let window = window(&fields.get("agent_upgrades"));
    fields.end();
    let is_written = update.is_there() || groups.is_there() || agents.is_there();
    let Schedules { regular, critical } = schedules;
    let policy = Policy {
        mode,
        strategy: Strategy::Requires,
        window: SignedDuration::ZERO,
        regular,
        critical,
        unassigned,
        ungrouped,
    };
    Some(Maintenance { policy: is_written.then_some(policy), window })
}

/// RFD 0169 has `agent_auto_update` twice: as a boolean, and as the schedule without groups.
fn update_of(reader: &ResourceReader<'_>) -> (Mode, Option<Ungrouped>) {
    if !reader.is_there() {
        return (Mode::Enabled, None);
    }
    if reader.is_mapping() {
        return (Mode::Enabled, ungrouped(reader));
    }
    match reader.boolean_or("a mapping of schedules") {
        Some(false) => (Mode::Disabled, None),
        _ => (Mode::Enabled, None),
    }
}

fn ungrouped(reader: &ResourceReader<'_>) -> Option<Ungrouped> {
    let mut fields = reader.fields()?;
    let regular = ungrouped_window(&fields.get("regular"));
    let critical = ungrouped_window(&fields.get("critical"));
    let immediate_jitter = fields.get("immediate").fields().map_or(0, |mut immediate| {
        let jitter = immediate.get("jitter_seconds").integer(0..=60);
        immediate.end();
        jitter.unwrap_or(0)
    });
    fields.end();
    Some(Ungrouped { regular, critical, immediate_jitter })
}

fn ungrouped_window(reader: &ResourceReader<'_>) -> Option<UngroupedWindow> {
    let mut fields = reader.there()?.fields()?;
    let opening = group::opening(&mut fields, Days::EVERY);
    let jitter = fields.get("jitter_seconds").integer(0..=60).unwrap_or(0);
    fields.end();
    Some(UngroupedWindow { opening, jitter })
}

/// `spec.agents` holds nothing else here than `unassigned`, which the schedule without groups would contradict.
fn unassigned_of(agents: &ResourceReader<'_>, schedules: &Schedules, has_ungrouped: bool) -> Unassigned {
    let Some(mut fields) = agents.fields() else { return Unassigned::Hold };
    let unassigned = unassigned(&mut fields, Unassigned::Hold, schedules);
    fields.end();
    if has_ungrouped && unassigned != Unassigned::Hold {
        agents
            .at("unassigned")
            .refuse("is written beside agent_auto_update, which says when hosts without a group update");
    }
    unassigned
}

fn window(reader: &ResourceReader<'_>) -> Option<MaintenanceWindow> {
    let mut fields = reader.there()?.fields()?;
    let hour = fields.get("utc_start_hour").integer(0..=23).and_then(|hour| u8::try_from(hour).ok()).unwrap_or(0);
    let days = group::each_day(&fields.get("weekdays").items());
    fields.end();
    let days = if days.is_empty() { Days::EVERY } else { days };
    Some(MaintenanceWindow { opening: WindowOpening { days, hour, zone: Zone::UTC } })
}
