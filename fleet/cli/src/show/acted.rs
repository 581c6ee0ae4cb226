//! What a command did, in the words of `tctl autoupdate agents` (ROLLOUTS.md §4).

use std::io::Write;

use fleet_api::{Acted, Effects};
use fleet_engine::command::Command;

use super::reason::Subject;
use super::rollout::Rollout;
use super::text::clean;
use super::{status, written};
use crate::console::Look;
use crate::failure::Failure;

/// The sentence, the rollout afterwards, and what it does to hosts.
///
/// # Errors
/// Those of `out`.
pub(crate) fn text(
    out: &mut dyn Write,
    command: &Command,
    acted: &Acted,
    is_dry: bool,
    look: &Look,
) -> Result<(), Failure> {
    if is_dry {
        writeln!(out, "Nothing was changed (--dry-run). Groups that would change: {}.", names(&acted.groups))?;
        return effects(out, &acted.effects);
    }
    writeln!(out, "{}", sentence(command, &names(&acted.groups)))?;
    writeln!(out, "New agent rollout status:\n")?;
    let rollout = acted.rollout.is_object().then(|| Rollout::read(&acted.rollout));
    status::text(out, rollout.as_ref(), &acted.holds, look)?;
    effects(out, &acted.effects)
}

/// As Go prints a list: `[a b]`.
fn names(groups: &[String]) -> String {
    format!("[{}]", clean(&groups.join(" ")))
}

fn sentence(command: &Command, groups: &str) -> String {
    match command {
        Command::Start { .. } => format!("Successfully started updating agents groups: {groups}."),
        Command::MarkDone { .. } => format!("Successfully marked agent groups as completed: {groups}."),
        Command::Rollback { all_started: true, .. } => "Successfully rolled back already started groups.".to_owned(),
        Command::Rollback { .. } => format!("Successfully rolled back the following agent groups: {groups}."),
        Command::Halt { all: true, .. } => "Successfully halted all agent groups.".to_owned(),
        Command::Halt { .. } => format!("Successfully halted agent groups: {groups}."),
        Command::Run { all: true, .. } => "Successfully resumed all agent groups.".to_owned(),
        Command::Run { .. } => format!("Successfully resumed agent groups: {groups}."),
        Command::Approve { .. } => format!("Successfully approved agent groups: {groups}."),
        Command::Gate { .. } => format!("Successfully answered for agent groups: {groups}."),
    }
}

/// Ours, below everything: how many hosts it touches.
fn effects(out: &mut dyn Write, effects: &Effects) -> Result<(), Failure> {
    writeln!(out, "\nOf the fleet: {}.", written::effects(effects))?;
    Ok(())
}

/// What RFD 0169's `autoupdate run` did: its sentence where the group goes; else what keeps it. And how many hosts it touches.
///
/// # Errors
/// Those of `out`.
pub(crate) fn run(out: &mut dyn Write, group: &str, acted: &Acted, look: &Look) -> Result<(), Failure> {
    let rollout = Rollout::read(&acted.rollout);
    let waits = rollout.status.groups.iter().find(|found| found.name == group && found.state == "unstarted");
    match waits {
        Some(waits) => {
            let reason = waits.reason().line(Subject::Group(group), &look.zone);
            writeln!(out, "The stop of group '{}' is ended. It has not begun: {reason}", clean(group))?;
        }
        None => writeln!(out, "{}", executing(group))?,
    }
    effects(out, &acted.effects)
}

/// The sentence of RFD 0169's `autoupdate run`.
fn executing(group: &str) -> String {
    format!("Executing auto-update for group '{}' immediately.", clean(group))
}
