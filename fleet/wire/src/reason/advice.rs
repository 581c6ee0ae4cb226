//! What would change a reason, as a command to copy. What it is, the server says (`fleet_engine::advice`).

use fleet_engine::advice::{Advice, OnAgent, OnHost};
use fleet_engine::command::Command;
use fleet_engine::reason::Why;
use fleet_engine::resource::Kind;
use fleet_engine::tally::BY_HAND;

use crate::text::shell;

/// Hex digits of a key that name it: nobody makes another that begins so.
const NAMED: usize = 16;

/// Of what a reason speaks.
#[derive(Debug, Clone, Copy)]
pub enum ReasonSubject<'a> {
    /// The group of this name; empty: everybody, in a rollout without groups.
    Group(&'a str),
    /// The host of this UUID.
    Host(&'a str),
}

/// What it is good for, and the command.
pub fn text(advice: &Advice, why: &Why, subject: ReasonSubject<'_>) -> String {
    match advice {
        Advice::Command(command) => format!("{}: {}", purpose(command, why, subject), words(command)),
        Advice::Edit(resources) => edit(resources, why),
        Advice::Write(kind) => format!("to begin one, write an {kind}: teleport-fleet create -f FILE"),
        Advice::Look { group, timed_out } => {
            let is_by_hand = matches!(why, Why::Halted { error: Some(error), .. } if error == BY_HAND);
            let (what, state) = match timed_out {
                true => ("timed out", "--state timed_out"),
                false if is_by_hand => ("were sent back", "--failed"),
                false => ("failed", "--failed"),
            };
            format!("to see the hosts that {what}: teleport-fleet hosts{}{state}", of_group(group))
        }
        Advice::Steps(steps) => steps.iter().map(|step| text(step, why, subject)).collect::<Vec<_>>().join("; "),
        Advice::Host(decision) => on_host(*decision, subject),
        Advice::Agent(OnAgent::Unpin) => "to let it update, on the host: teleport-update unpin".to_owned(),
        Advice::Agent(OnAgent::Enable) => "to let it update, on the host: teleport-update enable".to_owned(),
        Advice::Agent(OnAgent::UpdateNow) => "to try again, on the host: teleport-update update --now".to_owned(),
    }
}

fn of_group(group: &str) -> String {
    if group.is_empty() { " ".to_owned() } else { format!(" --group {} ", shell(group)) }
}

/// What accepts a key that waits. It names that key: another one may wait by the time somebody types this.
pub fn accept(host: &str, key: &str) -> String {
    let named: String = key.chars().take(NAMED).collect();
    format!("teleport-fleet host {} accept --key {}", shell(host), shell(&named))
}

/// A command as it is typed.
pub fn words(command: &Command) -> String {
    let agents = |verb: &str, groups: &[String], options: &str| {
        let groups: String = groups.iter().map(|group| format!(" {}", shell(group))).collect();
        format!("teleport-fleet autoupdate agents {verb}{groups}{options}")
    };
    match command {
        Command::Start { groups, force, ignore_blackout } => {
            let option = |is_given: bool, option| if is_given { option } else { "" };
            let options = [option(*force, " --force"), option(*ignore_blackout, " --ignore-blackout")].concat();
            agents("start-update", groups, &options)
        }
        Command::MarkDone { groups } => agents("mark-done", groups, ""),
        Command::Rollback { groups, at_once, .. } => {
            agents("rollback", groups, if *at_once { " --at-once" } else { "" })
        }
        Command::Halt { groups, all } => agents("halt", groups, if *all { " --all" } else { "" }),
        Command::Run { groups, all } => agents("run", groups, if *all { " --all" } else { "" }),
        Command::Approve { groups, .. } => {
            format!("teleport-fleet approve {}", groups.first().map(|group| shell(group)).unwrap_or_default())
        }
        // No person gives it.
        Command::Gate { .. } => String::new(),
    }
}

fn purpose(command: &Command, why: &Why, subject: ReasonSubject<'_>) -> String {
    // A group waits for another one, or a host for its group.
    let other = command
        .groups()
        .first()
        .filter(|group| !matches!(subject, ReasonSubject::Group(name) if name == group.as_str()));
    let of = |what: &str| match other {
        Some(group) => format!("{what} for group {}", shell(group)),
        None => what.to_owned(),
    };
    match command {
        Command::Start { force: true, .. } if matches!(why, Why::WaitingForCanaries { .. } | Why::NoReports { .. }) => {
            of("to go on without canaries")
        }
        Command::Start { .. } if *why == Why::RolledBack => of("to try again"),
        Command::Start { ignore_blackout: true, .. } => of("to start now in spite of the freeze"),
        Command::Start { .. } => of("to start now"),
        Command::MarkDone { .. } => of("to mark it as done"),
        Command::Run { all: true, .. } => "to end the hold of everything".to_owned(),
        Command::Run { .. } if matches!(why, Why::NobodyOnTheWay { .. }) => of("to try again"),
        Command::Run { .. } if matches!(why, Why::Halted { .. }) && !why.is_stopped_by_decision() => {
            of("if the cause was not the release, to try it again")
        }
        Command::Run { .. } => of("to end the stop"),
        Command::Approve { .. } => of("to approve it"),
        Command::Rollback { .. } => of("to go back"),
        Command::Halt { .. } | Command::Gate { .. } => of("to change it"),
    }
}

fn edit(resources: &[String], why: &Why) -> String {
    let is_release = resources.iter().any(|resource| resource.starts_with(Kind::Release.as_str()));
    let purpose = match why {
        _ if is_release => "to take `blocked` out of it",
        Why::Disabled | Why::Suspended if resources == [Kind::Maintenance.as_str()] => {
            return "to go on: teleport-fleet autoupdate update --set-agent-auto-update=on".to_owned();
        }
        Why::Disabled | Why::Suspended => "to go on, write mode enabled",
        Why::Blackout { .. } => "to change the freeze",
        Why::OutsideWindow => "to change its window_duration",
        Why::VersionBlocked { .. } => "to name another start_version",
        // Also of a group that waits for one that was halted.
        _ if resources == [Kind::Version.as_str()] => "to give another target",
        _ => "to change the pace",
    };
    let commands: Vec<String> =
        resources.iter().map(|resource| format!("teleport-fleet edit {}", shell(resource))).collect();
    format!("{purpose}: {}", commands.join(" && "))
}

fn on_host(decision: OnHost, subject: ReasonSubject<'_>) -> String {
    let host = match subject {
        ReasonSubject::Host(id) => shell(id),
        ReasonSubject::Group(_) => "UUID".to_owned(),
    };
    match decision {
        OnHost::Release => format!("to let it update: teleport-fleet host {host} release"),
        OnHost::Assign => format!("to put it in a group: teleport-fleet host {host} assign GROUP"),
    }
}
