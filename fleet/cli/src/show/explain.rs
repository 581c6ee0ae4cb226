//! What a host is told now, and why; and all that is known of it.

use std::io::Write;

use fleet_wire::api::{Explained, History};
use fleet_wire::reason::advice::accept;
use fleet_wire::words::host;

use super::reason::ReasonSubject;
use super::reported;
use super::text::{clean, time_to_come};
use crate::console::Palette;
use crate::failure::Failure;

/// The answer to the host, and its reason.
///
/// # Errors
/// Those of `out`.
pub(crate) fn text(out: &mut dyn Write, explained: &Explained, look: &Palette) -> Result<(), Failure> {
    let answer = &explained.answer;
    writeln!(out, "Host: {}", clean(&host::full(&answer.hostname, &answer.host)))?;
    writeln!(out, "Group: {}", or_none(&answer.group))?;
    writeln!(out, "State: {}", or_none(&answer.state))?;
    writeln!(out, "Answer: {}", clean(&host::answer(answer)))?;
    writeln!(out, "Why: {}", answer.why.line(ReasonSubject::Host(&answer.host), &look.zone))?;
    let until = answer.until.as_ref().map(|until| format!("{} at the earliest", time_to_come(until, &look.zone)));
    writeln!(out, "Until: {}", until.unwrap_or_else(|| "no time is known".to_owned()))?;
    if explained.known.is_none() {
        writeln!(out, "Known: no, this host was never seen")?;
    }
    Ok(())
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "(none)".to_owned() } else { clean(text).into_owned() }
}

/// All that is known of the host, with the answer to it.
///
/// # Errors
/// Those of `out`.
pub(crate) fn detail(out: &mut dyn Write, explained: &Explained, look: &Palette) -> Result<(), Failure> {
    text(out, explained, look)?;
    let Some(host) = &explained.known else { return Ok(()) };
    writeln!(out)?;
    writeln!(out, "Runs: {}", if host.version.is_empty() { "(it does not say)".into() } else { clean(&host.version) })?;
    writeln!(out, "Update id: {}", or_none(&host.update_id))?;
    writeln!(out, "Declares group: {}", or_none(&host.declared_group))?;
    if !host.assigned_group.is_empty() {
        writeln!(out, "Assigned to group: {}", clean(&host.assigned_group))?;
    }
    let labels: Vec<String> =
        host.labels.iter().map(|(name, value)| format!("{}={}", clean(name), clean(value))).collect();
    writeln!(out, "Labels: {}", or_none(&labels.join(", ")))?;
    let flags = host::flags(host);
    if !flags.is_empty() {
        writeln!(out, "Set: {flags}")?;
    }
    writeln!(out, "Last seen: {}", host::seen(host))?;
    let change = host::last_change(host);
    writeln!(out, "Last change: {}", if change.is_empty() { "(none is known)".into() } else { clean(&change) })?;
    if !host.not_counted.is_empty() {
        writeln!(out, "Not counted: {}", clean(&host.not_counted))?;
    }
    if !host.waiting_key.is_empty() {
        let what = if host.enrolled { "a second key waits" } else { "its key waits" };
        writeln!(out, "Key: {what} for an admin: {}", clean(&host.waiting_key))?;
        writeln!(out, "     if it is right: {}", accept(&host.host, &host.waiting_key))?;
    }
    match &explained.history {
        Some(history) => reported(out, history),
        None => Ok(()),
    }
}

/// What it reported.
fn reported(out: &mut dyn Write, history: &History) -> Result<(), Failure> {
    for (name, value) in reported::facts(history) {
        writeln!(out, "{name}: {}", clean(&value))?;
    }
    if !history.changes.is_empty() {
        writeln!(out, "Changes:")?;
    }
    for change in &history.changes {
        writeln!(out, "  {}", clean(&reported::change(change)))?;
    }
    Ok(())
}
