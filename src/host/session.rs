//! Run from a session over the agent itself, we would be killed with it: move on into a transient unit (SPEC §5).

use std::ffi::{OsStr, OsString};
use std::process::ExitStatus;

use super::command::Command;
use super::signal::Signals;
use crate::report::{Code, Error, Result};

/// True when `cgroup_text` (`/proc/self/cgroup`, of cgroup v1, v2 or both) says that a process is in `unit`, and so
/// ends when `unit` is stopped.
pub fn inside_unit(unit: &str, cgroup_text: &str) -> bool {
    // hierarchy:controllers:path, and the path may itself contain colons.
    cgroup_text
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .any(|path| path.split('/').any(|component| component == unit))
}

/// The innermost unit in `cgroup_text`, for messages.
pub fn unit_of(cgroup_text: &str) -> Option<&str> {
    const KINDS: [&str; 3] = [".service", ".scope", ".slice"];
    KINDS.iter().find_map(|kind| {
        let paths = cgroup_text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.flat_map(|path| path.rsplit('/')).find(|component| component.ends_with(kind))
    })
}

/// Runs `argv` (program and arguments, our own) again in a transient scope beside `unit`, in a session without
/// terminal hang-ups, and waits for it. SIGINT is passed on; the status is the one to exit with. `None` after a SIGTERM:
/// it is `unit` being stopped by the new process, which goes on without us.
///
/// The new process must call [`Signals::ignore_hangup`] before it stops the agent.
///
/// Errors ([`Code::ServiceFailed`]): no transient scope can be made here.
pub fn leave(unit: &str, argv: &[OsString], signals: &Signals) -> Result<Option<ExitStatus>> {
    let stay = |error: Error| {
        Error::new(
            Code::ServiceFailed,
            format!("cannot move out of {unit}, which this command will stop: {}", error.what),
        )
        .advise("run it from a session that does not go through the agent, or leave it to the timer")
    };
    let name = format!("teleport-update-{}", std::process::id());
    // Tried with a program that does nothing: systemd-run's own failure has the status of a failing command.
    let tried = scope_command(&format!("{name}-try"), &["true".into()]).run();
    tried.and_then(|output| output.or_fail(Code::ServiceFailed)).map_err(stay)?;
    scope_command(&name, argv).run_apart(signals).map_err(stay)
}

fn scope_command(name: &str, argv: &[OsString]) -> Command {
    // All of these are in systemd 219; --collect and --same-dir are not.
    Command::new("systemd-run").args(["--scope", "--unit", name, "--"].map(OsStr::new)).args(argv)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "0::/system.slice/teleport.service\n";
    const V1: &str = "12:pids:/system.slice/teleport.service\n1:name=systemd:/system.slice/teleport.service\n";
    const HYBRID: &str = "4:memory:/user.slice\n1:name=systemd:/user.slice/user-0.slice/session-3.scope\n\
                          0::/user.slice/user-0.slice/session-3.scope\n";

    #[test]
    fn a_process_in_the_unit_or_below_it_is_inside() {
        assert!(inside_unit("teleport.service", V2));
        assert!(inside_unit("teleport.service", V1));
        assert!(inside_unit("teleport.service", "0::/system.slice/teleport.service/sub:group\n"));
    }

    #[test]
    fn another_unit_whose_name_contains_ours_is_not_it() {
        assert!(!inside_unit("teleport.service", HYBRID));
        assert!(!inside_unit("teleport.service", "0::/system.slice/my-teleport.service\n"));
        assert!(!inside_unit("teleport.service", "0::/system.slice/teleport.service.d\n"));
        assert!(!inside_unit("teleport.service", "0::/system.slice/teleport_dev.service\n"));
        assert!(!inside_unit("teleport.service", ""));
    }

    #[test]
    fn the_innermost_unit_is_named() {
        assert_eq!(unit_of(V1), Some("teleport.service"));
        assert_eq!(unit_of(HYBRID), Some("session-3.scope"));
        assert_eq!(unit_of("0::/\n"), None);
    }

    #[test]
    fn without_a_manager_the_error_says_what_to_do() {
        if crate::host::machine::is_systemd_booted() {
            return;
        }
        let error = leave("teleport.service", &["true".into()], &Signals::never()).unwrap_err();
        assert_eq!(error.code, Code::ServiceFailed);
        assert!(error.to_string().contains("leave it to the timer"), "{error}");
    }

    #[test]
    fn the_command_for_the_scope_is_what_an_old_systemd_understands() {
        let line = scope_command("teleport-update-7", &["/u".into(), "update".into(), "--now".into()]).line();
        assert_eq!(line, "systemd-run --scope --unit teleport-update-7 -- /u update --now");
    }
}
