//! Versions, releases and modes.

use super::place::DocumentPlace;
use super::{Found, Known};
use crate::policy::{Mode, Schedule};
use crate::resource::{AgentVersions, Release};

/// A mode in which no host is allowed to update.
pub(super) fn mode(at: &DocumentPlace<'_>, mode: Mode, found: &mut Found) {
    match mode {
        Mode::Enabled => {}
        Mode::Suspended => {
            let what = "is suspended: until it is enabled, no group starts and no host is allowed to update";
            found.add(at, "mode_suspended", what, "write enabled, or halt single groups instead");
        }
        Mode::Disabled if at.is_written() => {
            let what = "is disabled: hosts get the target and may not update";
            found.add(at, "mode_disabled", what, "write enabled when hosts shall update");
        }
        Mode::Disabled => {
            let what = "is not written, which means disabled: hosts get the target and may not update";
            found.add(at, "mode_disabled", what, "write mode: enabled");
        }
    }
}

/// The version that hosts shall run.
pub(super) fn version(spec: &DocumentPlace<'_>, wanted: &AgentVersions, found: &mut Found) {
    let agents = spec.key("agents");
    let is_nested = agents.is_written();
    let key = |nested: &str, flat: &str| if is_nested { agents.key(nested) } else { spec.key(flat) };
    if is_nested {
        mode(&agents.key("mode"), wanted.mode, found);
    }
    if wanted.schedule == Schedule::Immediate {
        let what = "is immediate: every host updates at once, without groups: no window, canary, freeze, approval or \
                    external check holds";
        let at = key("schedule", "agent_version_schedule");
        found.add(&at, "immediate_schedule", what, "write regular, unless the fleet is in danger as it is");
    }
    let target = key("target_version", "agent_version");
    match &wanted.start {
        Some(start) if *start == wanted.target => {
            let what = format!("is {start} as the start version is: there is nothing to roll out");
            found.add(&target, "same_version", what, "write the version that hosts shall run");
        }
        Some(start) if wanted.target.precedes(start) => {
            let what = format!("{} is below the start version {start}: hosts downgrade", wanted.target);
            let advice = "roll back with `autoupdate agents rollback`, which names what it does";
            found.add(&target, "downgrade", what, advice);
        }
        _ => {}
    }
}

/// A release of the graph.
pub(super) fn release(spec: &DocumentPlace<'_>, release: &Release, known: &Known, found: &mut Found) {
    if release.blocked.as_ref().is_some_and(|reason| reason.trim().is_empty()) {
        let what = "has no reason: an operator whose command is refused does not learn why";
        found.add(&spec.key("blocked").key("reason"), "no_reason", what, "say why, in a line");
    }
    if release.blocked.is_some() && known.start.as_ref() == Some(&release.version) {
        let what = format!(
            "blocks {}, the start version of the present rollout: nobody is sent back to it, and new hosts do not get it",
            release.version
        );
        found.add(&spec.key("blocked"), "start_blocked", what, "name another start_version in autoupdate_version");
    }
}
