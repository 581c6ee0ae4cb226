//! `autoupdate agents status` (FLEET §6), and below its table ours: why each group that does not move waits.

use std::io::Write;

use fleet_wire::api::HoldsView;
use serde_json::{Map, Value, json};

use super::reason::ReasonSubject;
use super::rollout::{self, AgentRollout, Stops};
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
        holds(out, stops, |_| false)?;
        return needs(out, stops);
    };
    let spec = &rollout.spec;
    if let Some(summary) = &rollout.status.summary {
        writeln!(out, "{}", clean(summary))?;
    }
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
        holds(out, stops, |_| false)?;
        return needs(out, stops);
    }
    writeln!(out, "Strategy: {}\n", clean(&spec.strategy))?;
    groups(rollout).write(out, look.is_colourful)?;
    store(out, stops, look)?;
    waiting(out, rollout, look)?;
    holds(out, stops, |name| rollout.status.groups.iter().any(|group| group.name == name))?;
    needs(out, stops)
}

/// What waits for a person besides groups.
fn needs(out: &mut dyn Write, stops: &Stops) -> Result<(), Failure> {
    for line in fleet_wire::words::holds::needs(&stops.needs) {
        writeln!(out, "\n{line}")?;
    }
    Ok(())
}

/// A line where the store does not answer: whatever the groups say, no host is allowed to update.
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
    below(out, lines)
}

/// A line for each hold that no line of a group tells of; `is_shown` says which groups have one.
fn holds(out: &mut dyn Write, stops: &Stops, is_shown: impl Fn(&str) -> bool) -> Result<(), Failure> {
    below(out, fleet_wire::words::holds::lines(&stops.holds, is_shown))
}

/// Lines below what is there already.
fn below(out: &mut dyn Write, lines: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    for (index, line) in lines.into_iter().enumerate() {
        writeln!(out, "{}{line}", if index == 0 { "\n" } else { "" })?;
    }
    Ok(())
}

/// For programs: the keys of `tctl`, and all others of the server's `said`.
pub(crate) fn value(rollout: &AgentRollout, said: &Value) -> Value {
    let mut value = json!({ "active": true, "rollout_creation_date": said["status"]["start_time"] });
    for part in ["spec", "status"] {
        let keys = said[part].as_object().cloned().unwrap_or_default();
        keys.into_iter().filter(|(key, _)| key != "start_time").for_each(|(key, said)| value[key] = said);
    }
    if let Value::Object(keys) = &mut value {
        keys.retain(|_, value| !value.is_null());
    }
    for (index, group) in rollout.status.groups.iter().enumerate() {
        let value = &mut value["groups"][index];
        value["catch_all"] = rollout.is_catch_all(index).into();
        value["canary_success_count"] = group.canary_success_count().into();
        value["canary_count"] = group.canary_count.unwrap_or_default().into();
    }
    value
}

/// Adds what `GET /v1/fleet/holds` said, which has the keys of what is held beside the others.
pub(crate) fn add_stops(value: &mut Value, said: &Value) {
    let keys = said.as_object().cloned().unwrap_or_default();
    const OTHERS: [&str; 4] = ["store_unavailable", "stop_waits", "waiting_hosts", "unknown_groups"];
    let (others, holds) = keys.into_iter().partition(|(key, _)| OTHERS.contains(&key.as_str()));
    let others: Map<String, Value> = others;
    others.into_iter().for_each(|(key, said)| value[key] = said);
    add_holds(value, Value::Object(holds));
}

/// Adds what is held, where something is.
pub(crate) fn add_holds(value: &mut Value, holds: Value) {
    if !holds.is_null() && holds != json!(HoldsView::default()) {
        value["holds"] = holds;
    }
}
