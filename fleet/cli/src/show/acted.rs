//! What a command did, in the words of `tctl autoupdate agents` (ROLLOUTS.md §4).

use std::io::Write;

use fleet_api::{Acted, Effects};
use fleet_engine::command::Command;

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
        return effects(out, &acted.effects, true);
    }
    writeln!(out, "{}", sentence(command, &names(&acted.groups)))?;
    writeln!(out, "New agent rollout status:\n")?;
    let rollout = acted.rollout.is_object().then(|| Rollout::read(&acted.rollout));
    status::text(out, rollout.as_ref(), look)?;
    effects(out, &acted.effects, false)
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
fn effects(out: &mut dyn Write, effects: &Effects, is_dry: bool) -> Result<(), Failure> {
    if effects.lets_go > 0 || effects.goes_down > 0 || is_dry {
        writeln!(out, "\nOf the fleet: {}.", written::effects(effects))?;
    }
    Ok(())
}

/// The sentence of RFD 0169's `autoupdate run`.
pub(crate) fn executing(group: &str) -> String {
    format!("Executing auto-update for group '{}' immediately.", clean(group))
}
