//! `autoupdate_config`: how and when hosts update, by Managed Updates v2.

use jiff::SignedDuration;

use super::check;
use super::fields::ResourceFields;
use super::group;
use super::key::KeyKind;
use super::keys::LONGEST_WINDOW;
use super::reader::ResourceReader;
use crate::policy::{GroupPolicy, Mode, Policy, Strategy, Unassigned};

/// What an `autoupdate_config` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `spec.agents`; `None`: nothing about agents, as if there were no configuration.
    pub policy: Option<Policy>,
    /// Whether `tsh` and `tctl` are to update themselves (`spec.tools.mode`).
    pub tools: bool,
}

/// Reads `spec`.
pub(super) fn read(fields: &ResourceFields<'_>) -> Config {
    let policy = fields.fields("agents").map(|agents| policy(&agents));
    let tools = fields.fields("tools").and_then(|tools| tools.get("mode")) == Some(Mode::Enabled);
    Config { policy, tools }
}

fn policy(fields: &ResourceFields<'_>) -> Policy {
    // Only a configuration that says nothing of agents leaves the mode to the version (FLEET §3, D1).
    let mode = fields.value("mode");
    let strategy = fields.value("strategy");
    let window = window(fields, strategy);
    let schedules = schedules(fields.fields("schedules"), strategy);
    let unassigned = unassigned(fields, &schedules);
    let Schedules { regular, critical } = schedules;
    Policy { mode, strategy, window, regular, critical, unassigned, ungrouped: None, directive: None }
}

/// Only time-based has windows that have a length, and must have it.
fn window(fields: &ResourceFields<'_>, strategy: Strategy) -> SignedDuration {
    let place = fields.place("maintenance_window_duration");
    if strategy == Strategy::TimeBased {
        place.needed("the length of time-based's windows, 10m or more");
        return fields.value("maintenance_window_duration");
    }
    let length: Option<SignedDuration> = place.read(&KeyKind::Minutes(0, LONGEST_WINDOW));
    if length.is_some_and(|length| !length.is_zero()) {
        place.refuse("is only supported for time-based; a group of halt-on-error may have a window_duration");
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
pub(super) fn schedules(fields: Option<ResourceFields<'_>>, strategy: Strategy) -> Schedules {
    let Some(fields) = fields else { return Schedules::default() };
    let list = |name| {
        let group = |item: &ResourceReader<'_>| {
            fields.fields_at(name, &item.clone().needed("a group")).map(|group| group::read(&group))
        };
        let items = fields.items(name);
        let placed: Vec<_> = items.into_iter().filter_map(|item| Some((item.clone(), group(&item)?))).collect();
        check::groups(&fields.place(name), strategy, &placed);
        placed.into_iter().map(|(_, group)| group).collect()
    };
    Schedules { regular: list("regular"), critical: list("critical") }
}

/// Where hosts go that belong to no group; a group must be one of each schedule that has groups.
pub(super) fn unassigned(fields: &ResourceFields<'_>, schedules: &Schedules) -> Unassigned {
    let unassigned = match fields.get::<String>("unassigned").as_deref() {
        None | Some("hold") => Unassigned::Hold,
        Some("last") => Unassigned::Last,
        Some(name) => Unassigned::Group(name.to_owned()),
    };
    let place = fields.place("unassigned");
    check::unassigned(&place, &unassigned, "regular", &schedules.regular);
    if !schedules.critical.is_empty() {
        check::unassigned(&place, &unassigned, "critical", &schedules.critical);
    }
    unassigned
}
