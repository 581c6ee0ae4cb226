//! What a command or a write does to the fleet.

use fleet_api::{Acted, Effects};
use fleet_engine::command::Command;

use crate::text::{clean, hosts};

/// `12 hosts may update now, 0 go down`.
pub fn effects(effects: &Effects) -> String {
    let goes = if effects.goes_down == 1 { "goes" } else { "go" };
    let before = if effects.halted_before { "; this version was halted here before" } else { "" };
    format!("{} may update now, {} {goes} down{before}", hosts(effects.lets_go), effects.goes_down)
}

/// What a command did, in the words of `tctl autoupdate agents` (FLEET §6).
pub fn done(command: &Command, acted: &Acted) -> String {
    if let (Command::Run { .. }, false) = (command, acted.started.is_empty()) {
        return started(acted);
    }
    let groups = names(&acted.groups);
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

/// `run` of groups of which some had not begun.
fn started(acted: &Acted) -> String {
    let resumed: Vec<String> = acted.groups.iter().filter(|name| !acted.started.contains(name)).cloned().collect();
    let started = format!("Successfully started updating agents groups: {}.", names(&acted.started));
    if resumed.is_empty() {
        return started;
    }
    format!("{started}\nSuccessfully resumed agent groups: {}.", names(&resumed))
}

/// As Go prints a list: `[a b]`.
pub fn names(groups: &[String]) -> String {
    format!("[{}]", clean(&groups.join(" ")))
}
