//! `autoupdate agents status` (FLEET §6), and below its table ours: why each group that does not move waits.

use std::io::Write;

use serde_json::{Value, json};

use super::holds;
use super::reason::ReasonSubject;
use super::rollout::{self, AgentRollout, RolloutGroup, Stops};
use super::table::{Paint, TableCell, TextTable};
use super::text::{clean, time_of};
use crate::console::Palette;
use crate::failure::Failure;

/// What there is where no rollout is.
const NONE: &str = "No active agent rollout (autoupdate_agent_rollout).";

/// As text; `rollout` is `None` where there is none. `stops` is what keeps hosts besides it.
///
/// # Errors
/// Those of `out`.
pub(crate) fn text(
    out: &mut dyn Write,
    rollout: Option<&AgentRollout>,
    stops: &Stops,
    look: &Palette,
) -> Result<(), Failure> {
    let Some(rollout) = rollout else {
        writeln!(out, "{NONE}")?;
        store(out, stops, look)?;
        return holds::text(out, &stops.holds, |_| false);
    };
    let spec = &rollout.spec;
    writeln!(out, "Agent autoupdate mode: {}", clean(&spec.autoupdate_mode))?;
    if let Some(time) = &rollout.status.start_time {
        writeln!(out, "Rollout creation date: {}", time_of(time))?;
    }
    writeln!(out, "Start version: {}", clean(&spec.start_version))?;
    writeln!(out, "Target version: {}", clean(&spec.target_version))?;
    if let Some(state) = &rollout.status.state {
        writeln!(out, "Rollout state: {}", clean(&rollout::state_word(state)))?;
    }
    if rollout.is_immediate() {
        writeln!(out, "Schedule is immediate. Every group immediately updates to the target version.")?;
        store(out, stops, look)?;
        let reason = rollout.status.why.as_ref().filter(|reason| reason.is_stopped());
        if let Some(reason) = reason {
            writeln!(out, "\n{}", reason.line(ReasonSubject::Group(""), &look.zone))?;
        }
        return holds::text(out, &stops.holds, |_| false);
    }
    writeln!(out, "Strategy: {}\n", clean(&spec.strategy))?;
    groups(rollout).write(out, look.is_colourful)?;
    store(out, stops, look)?;
    waiting(out, rollout, look)?;
    holds::text(out, &stops.holds, |name| rollout.status.groups.iter().any(|group| group.name == name))
}

/// A line where the store does not answer: whatever the groups say, no host is told to update.
///
/// # Errors
/// Those of `out`.
pub(crate) fn store(out: &mut dyn Write, stops: &Stops, look: &Palette) -> Result<(), Failure> {
    if stops.stop_waits {
        writeln!(out, "\n{}", fleet_wire::words::holds::STOP_WAITS)?;
    }
    if let Some(reason) = &stops.store_unavailable {
        writeln!(out, "\n{}", reason.line(ReasonSubject::Group(""), &look.zone))?;
    }
    Ok(())
}

fn groups(rollout: &AgentRollout) -> TextTable {
    let groups = &rollout.status.groups;
    let has_counts = groups.iter().any(|group| group.present_count != 0);
    let mut titles = vec!["Group Name", "State", "Start Time", "State Reason"];
    if has_counts {
        titles.extend(["Agent Count", "Up-to-date"]);
    }
    let mut table = TextTable::new(titles);
    for (index, group) in groups.iter().enumerate() {
        let suffix = if has_counts && rollout.is_catch_all(index) { " (catch-all)" } else { "" };
        let start = group.start_time.as_deref().map(time_of).unwrap_or_default();
        let mut row = vec![
            TableCell::new(&format!("{}{suffix}", group.name)),
            TableCell::painted(&group.state_words(), paint(&group.state)),
            TableCell::new(&start),
            TableCell::new(&group.last_update_reason),
        ];
        if has_counts {
            row.extend([TableCell::from(group.present_count), TableCell::from(group.up_to_date_count)]);
        }
        table.row(row);
    }
    table
}

fn paint(state: &str) -> Paint {
    match state {
        "done" => Paint::Green,
        "canary" | "active" => Paint::Yellow,
        "halted" | "rolledback" => Paint::Red,
        _ => Paint::None,
    }
}

fn waiting(out: &mut dyn Write, rollout: &AgentRollout, look: &Palette) -> Result<(), Failure> {
    let lines = rollout.status.groups.iter().filter_map(|group| {
        let reason = group.reason();
        let name = &group.name;
        (!reason.is_moving())
            .then(|| format!("{}: {}", clean(name), reason.line(ReasonSubject::Group(name), &look.zone)))
    });
    for (index, line) in lines.enumerate() {
        if index == 0 {
            writeln!(out)?;
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// For programs. Besides the keys of `tctl`, each group has its reason and its hosts by state; `stops` is what keeps
/// hosts besides it.
pub(crate) fn value(rollout: Option<&AgentRollout>, stops: &Stops) -> Value {
    let mut value = rollout.map_or_else(|| json!({ "active": false }), active);
    if let (Value::Object(keys), Value::Object(stops)) = (&mut value, json!(stops)) {
        keys.extend(stops);
    }
    value
}

fn active(rollout: &AgentRollout) -> Value {
    let groups = rollout.status.groups.iter().enumerate();
    let groups: Vec<Value> = groups.map(|(index, group)| group_value(group, rollout.is_catch_all(index))).collect();
    let spec = &rollout.spec;
    let mut value = json!({
        "active": true,
        "autoupdate_mode": spec.autoupdate_mode,
        "rollout_creation_date": rollout.status.start_time,
        "start_version": spec.start_version,
        "target_version": spec.target_version,
        "state": rollout.status.state,
        "schedule": spec.schedule,
        "strategy": spec.strategy,
        "groups": groups,
    });
    if let Some(why) = &rollout.status.why {
        value["why"] = json!(why);
    }
    if let Value::Object(keys) = &mut value {
        keys.retain(|_, value| !value.is_null());
    }
    value
}

fn group_value(group: &RolloutGroup, is_catch_all: bool) -> Value {
    let mut value = json!({
        "name": group.name,
        "state": group.state,
        "start_time": group.start_time,
        "last_update_reason": group.last_update_reason,
        "present_count": group.present_count,
        "up_to_date_count": group.up_to_date_count,
        "catch_all": is_catch_all,
        "canary_success_count": group.canary_success_count(),
        "canary_count": group.canary_count.unwrap_or_default(),
        "pending_count": group.pending_count,
        "in_flight_count": group.in_flight_count,
        "updated_count": group.updated_count,
        "failed_count": group.failed_count,
        "timed_out_count": group.timed_out_count,
        "silent_count": group.silent_count,
        "excluded_count": group.excluded_count,
    });
    if let Some(why) = &group.why {
        value["why"] = json!(why);
    }
    value
}
