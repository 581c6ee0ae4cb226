//! What a command or a write does to the fleet.

use crate::api::{Acted, Effects};
use fleet_engine::command::Command;

use crate::text::{clean, hosts};

/// `12 hosts may update now, 0 downgrade`. Of a stop: `12 hosts are stopped: those that have begun may finish`.
pub fn effects(effects: &Effects) -> String {
    let before = if effects.halted_before { "; this version was halted here before" } else { "" };
    let s = if effects.goes_down == 1 { "s" } else { "" };
    let above = match effects.above_target {
        0 => String::new(),
        1 => "; 1 host that waits runs a later version than the target: it downgrades when its turn comes".to_owned(),
        count => format!(
            "; {} that wait run a later version than the target: they downgrade when their turn comes",
            hosts(count)
        ),
    };
    let many = format!("{} may update now, {} downgrade{s}{above}", hosts(effects.lets_go), effects.goes_down);
    match (effects.stops, effects.lets_go) {
        (0, _) => format!("{many}{before}"),
        // That nobody may update now would say the same twice.
        (stops, 0) => format!("{}{before}", stopped(stops)),
        (stops, _) => format!("{many}; {}{before}", stopped(stops)),
    }
}

fn stopped(count: u64) -> String {
    match count {
        1 => "1 host is stopped: if it has begun, it may finish".to_owned(),
        count => format!("{} are stopped: those that have begun may finish", hosts(count)),
    }
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
        Command::Run { all: true, .. } => "Successfully ended the hold of all agent groups.".to_owned(),
        Command::Run { .. } => format!("Successfully resumed agent groups: {groups}."),
        Command::Approve { .. } => format!("Successfully approved agent groups: {groups}{}.", approved(acted)),
        Command::Gate { .. } => format!("Successfully answered for agent groups: {groups}."),
    }
}

/// Of which version, and by which digests: what is there to see again.
fn approved(acted: &Acted) -> String {
    let Some(rollout) = &acted.rollout else { return String::new() };
    let groups = rollout.status.groups.iter().filter(|group| acted.groups.contains(&group.name));
    let digests: Vec<&str> = groups.filter_map(|group| group.approval_digest.as_deref()).collect();
    clean(&format!(", version {}, digest {}", rollout.spec.target_version, digests.join(" "))).to_string()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_says_how_many_hosts_it_stops() {
        let of = |lets_go, goes_down, stops, halted_before| {
            effects(&Effects { lets_go, goes_down, stops, halted_before, ..Effects::default() })
        };
        assert_eq!(of(0, 0, 0, false), "0 hosts may update now, 0 downgrade");
        assert_eq!(of(0, 0, 5, false), "5 hosts are stopped: those that have begun may finish");
        assert_eq!(of(0, 0, 1, false), "1 host is stopped: if it has begun, it may finish");
        assert_eq!(
            of(3, 1, 2, true),
            "3 hosts may update now, 1 downgrades; 2 hosts are stopped: those that have begun may finish; this version was \
             halted here before"
        );
    }

    #[test]
    fn who_downgrades_later_is_counted_now() {
        let of =
            |goes_down, above_target| effects(&Effects { lets_go: 2, goes_down, above_target, ..Effects::default() });
        assert_eq!(of(2, 0), "2 hosts may update now, 2 downgrade");
        assert_eq!(
            of(2, 18),
            "2 hosts may update now, 2 downgrade; 18 hosts that wait run a later version than the target: they downgrade when their \
             turn comes"
        );
    }
}
