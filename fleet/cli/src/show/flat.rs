//! `autoupdate status` in RFD 0169's words (FLEET §6).

use std::io::Write;

use super::rollout::{AgentRollout, RolloutGroup};
use super::text::{clean, time_of};
use crate::failure::Failure;

/// The whole rollout.
///
/// # Errors
/// Those of `out`.
pub(crate) fn rollout(out: &mut dyn Write, rollout: &AgentRollout) -> Result<(), Failure> {
    let spec = &rollout.spec;
    writeln!(out, "Status: {}", clean(&spec.autoupdate_mode))?;
    writeln!(out, "Version: v{}", clean(spec.target_version.trim_start_matches('v')))?;
    writeln!(out, "Schedule: {}", clean(&spec.schedule))?;
    if rollout.is_immediate() {
        return Ok(());
    }
    writeln!(out, "\nGroups:")?;
    for group in &rollout.status.groups {
        writeln!(out, "{}: {}{}", clean(&group.name), clean(&when(group)), depends(group))?;
    }
    Ok(())
}

/// One of its groups.
///
/// # Errors
/// Those of `out`.
pub(crate) fn group(out: &mut dyn Write, group: &RolloutGroup) -> Result<(), Failure> {
    let (word, date) = word(group);
    writeln!(out, "Status: {word}")?;
    writeln!(out, "Date: {}", date.map_or_else(|| "(none)".to_owned(), |date| format!("{} UTC", time_of(&date))))?;
    let requires = requires(group);
    writeln!(out, "Requires: {}\n", if requires.is_empty() { "(none)" } else { &requires })?;
    let unchanged = group.pending_count + group.in_flight_count + group.silent_count + group.excluded_count;
    let counts = [
        ("Upgraded", group.updated_count),
        ("Unchanged", unchanged),
        ("Failed", group.failed_count),
        ("Timed-out", group.timed_out_count),
    ];
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    for (name, count) in counts {
        writeln!(out, "{name}: {count}{}", share(count, total))?;
    }
    Ok(())
}

/// Of the group's hosts, rounded; nothing for none.
fn share(count: u64, total: u64) -> String {
    if count == 0 || total == 0 {
        return String::new();
    }
    let (count, total) = (u128::from(count), u128::from(total));
    format!(" ({}%)", (count * 200 + total) / (total * 2))
}

/// What it is, and the time of that; of a group to come, when it may start at the earliest.
fn word(group: &RolloutGroup) -> (&'static str, Option<String>) {
    match group.state.as_str() {
        "done" => ("succeeded", group.last_update_time.clone()),
        "halted" => ("failed", group.last_update_time.clone()),
        "rolledback" => ("rolled back", group.last_update_time.clone()),
        "canary" | "active" => ("in progress", group.start_time.clone()),
        _ => ("scheduled", group.reason().until.flatten()),
    }
}

fn when(group: &RolloutGroup) -> String {
    let (word, date) = word(group);
    let preposition = match word {
        "scheduled" => "for",
        "in progress" => "since",
        _ => "at",
    };
    date.map_or_else(|| word.to_owned(), |date| format!("{word} {preposition} {} UTC", time_of(&date)))
}

fn requires(group: &RolloutGroup) -> String {
    let named = group.config_requires.clone();
    let names = named.unwrap_or_else(|| group.reason().waits_for().map(str::to_owned).into_iter().collect());
    names.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", ")
}

fn depends(group: &RolloutGroup) -> String {
    let requires = requires(group);
    let is_to_come = word(group).0 == "scheduled";
    if is_to_come && !requires.is_empty() { format!(" (depends on {requires})") } else { String::new() }
}
