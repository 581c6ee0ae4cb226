//! `autoupdate_config`: how and when hosts update, by Managed Updates v2.

use jiff::SignedDuration;

use super::check::{self, Placed};
use super::dialect::PolicyDialect;
use super::fields::ResourceFields;
use super::group::{self, LONGEST_WINDOW, SHORTEST_WINDOW};
use super::reader::ResourceReader;
use super::shown::alternatives;
use crate::policy::{GroupPolicy, Mode, Policy, Strategy, Unassigned};

/// What an `autoupdate_config` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `spec.agents`; `None`: nothing about agents, as if there were no configuration.
    pub policy: Option<Policy>,
    /// Whether `tsh` and `tctl` are to update themselves (`spec.tools.mode`).
    pub tools: bool,
}

/// The words for modes.
pub(super) const MODES: [(&str, Mode); 3] =
    [("enabled", Mode::Enabled), ("disabled", Mode::Disabled), ("suspended", Mode::Suspended)];

/// Reads `spec`.
pub(super) fn read(spec: &ResourceReader<'_>) -> Option<Config> {
    let mut fields = spec.fields()?;
    let agents = fields.get("agents");
    let policy = if agents.is_there() { policy(&agents) } else { None };
    let tools = tools(&fields.get("tools"));
    fields.end();
    Some(Config { policy, tools })
}

fn tools(reader: &ResourceReader<'_>) -> bool {
    let Some(mut fields) = reader.fields() else { return false };
    let is_on = fields.get("mode").one_of(&[("enabled", true), ("disabled", false)]);
    fields.end();
    is_on.unwrap_or(false)
}

fn policy(agents: &ResourceReader<'_>) -> Option<Policy> {
    let mut fields = agents.fields()?;
    // Only a configuration that says nothing of agents leaves the mode to the version (FLEET §3, D1).
    let mode = fields.get("mode").needed(&alternatives(&MODES.map(|(word, _)| word))).one_of(&MODES);
    let mode = mode.unwrap_or(Mode::Disabled);
    let strategies = [("halt-on-error", Strategy::HaltOnError), ("time-based", Strategy::TimeBased)];
    let strategy = fields.get("strategy").one_of(&strategies).unwrap_or(Strategy::HaltOnError);
    let window = window(&fields.get("maintenance_window_duration"), strategy);
    let schedules = schedules(&fields.get("schedules"), strategy, PolicyDialect::V2);
    let unassigned = unassigned(&mut fields, Unassigned::Last, &schedules);
    fields.end();
    let Schedules { regular, critical } = schedules;
    Some(Policy { mode, strategy, window, regular, critical, unassigned, ungrouped: None })
}

/// Only time-based has windows that have a length, and must have it.
fn window(reader: &ResourceReader<'_>, strategy: Strategy) -> SignedDuration {
    if strategy == Strategy::TimeBased {
        let length = reader
            .clone()
            .needed("the length of time-based's windows, 10m or more")
            .duration(SHORTEST_WINDOW..=LONGEST_WINDOW);
        return length.unwrap_or(SHORTEST_WINDOW);
    }
    let length = reader.duration(SignedDuration::ZERO..=LONGEST_WINDOW).unwrap_or_default();
    if !length.is_zero() {
        reader.refuse("is only supported for time-based; a group of halt-on-error may have a window_duration");
    }
    SignedDuration::ZERO
}

/// The groups of both schedules.
#[derive(Debug, Default)]
pub(super) struct Schedules {
    pub(super) regular: Vec<GroupPolicy>,
    pub(super) critical: Vec<GroupPolicy>,
}

/// Reads `regular` and `critical`, and checks each.
pub(super) fn schedules(reader: &ResourceReader<'_>, strategy: Strategy, dialect: PolicyDialect) -> Schedules {
    let Some(mut fields) = reader.fields() else { return Schedules::default() };
    let mut list = |name| {
        let list = fields.get(name);
        let items = list.items().into_iter();
        let placed: Vec<Placed<'_>> =
            items.filter_map(|item| group::read(&item, dialect).map(|group| (item, group))).collect();
        check::groups(&list, strategy, &placed);
        placed.into_iter().map(|(_, group)| group).collect()
    };
    let schedules = Schedules { regular: list("regular"), critical: list("critical") };
    fields.end();
    schedules
}

/// Where hosts go that belong to no group; a group must be one of each schedule that has groups.
pub(super) fn unassigned(fields: &mut ResourceFields<'_>, default: Unassigned, schedules: &Schedules) -> Unassigned {
    let place = fields.get("unassigned");
    let unassigned = match place.name() {
        None => return default,
        Some("hold") => Unassigned::Hold,
        Some("last") => Unassigned::Last,
        Some(name) => Unassigned::Group(name.to_owned()),
    };
    check::unassigned(&place, &unassigned, "regular", &schedules.regular);
    if !schedules.critical.is_empty() {
        check::unassigned(&place, &unassigned, "critical", &schedules.critical);
    }
    unassigned
}
