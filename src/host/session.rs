//! Run from a session over the agent itself, we would be killed with it: move on into a transient unit (SPEC §5).

use std::ffi::{OsStr, OsString};
use std::process::ExitStatus;

use super::command::Command;
use super::signal::Signals;
use crate::report::{Code, Error, Result};

/// True when `cgroup_text` (`/proc/PID/cgroup`, of cgroup v1, v2 or both) says that a process is in `unit`, and so ends
/// when `unit` is stopped. `manager` is the same text of PID 1: a container's unit of that name is below another one's
/// group, and nobody's but the container's.
pub(crate) fn inside_unit(unit: &str, manager: &str, cgroup_text: &str) -> bool {
    let top_of = |hierarchy: &str| groups(manager).find(|(known, _)| *known == hierarchy).map_or("", |(_, path)| path);
    groups(cgroup_text).any(|(hierarchy, path)| {
        let top = top_of(hierarchy).trim_end_matches("init.scope").trim_end_matches('/');
        let below = path.strip_prefix(top).unwrap_or(path);
        below.split('/').filter(|part| !part.is_empty()).find(|part| !part.ends_with(".slice")) == Some(unit)
    })
}

/// The number of each hierarchy, and the path in it.
fn groups(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        // hierarchy:controllers:path, and the path may itself contain colons.
        let mut fields = line.splitn(3, ':');
        Some((fields.next()?, fields.nth(1)?))
    })
}

/// The innermost unit in `cgroup_text`, for messages.
pub(crate) fn unit_of(cgroup_text: &str) -> Option<&str> {
    const KINDS: [&str; 3] = [".service", ".scope", ".slice"];
    KINDS.iter().find_map(|kind| {
        groups(cgroup_text).flat_map(|(_, path)| path.rsplit('/')).find(|component| component.ends_with(kind))
    })
}

/// Runs `argv` (program and arguments, our own) again in a transient scope beside `unit`, in a session without
/// terminal hang-ups, and waits for it. SIGINT is passed on; the status is the one to exit with. `None` after a SIGTERM or
/// SIGHUP: it is `unit` being stopped by the new process, which goes on without us.
///
/// The new process must call [`Signals::ignore_hangup`] before it stops the agent.
///
/// Errors ([`Code::ServiceFailed`]): no transient scope can be made here.
pub(crate) fn leave(unit: &str, argv: &[OsString], signals: &Signals) -> Result<Option<ExitStatus>> {
    let stay = |error: Error| {
        let why = error.what;
        let what =
            format!("this command runs inside of {unit}, which it must stop, and cannot move to its own scope: {why}");
        Error::new(Code::ServiceFailed, what).advise(
            "run the command from a session that does not go through the agent (console, another SSH server), \
             or let the timer do it",
        )
    };
    let name = format!("teleport-update-{}", std::process::id());
    // Tried with a program that does nothing: systemd-run's own failure has the status of a failing command.
    let tried = scope_command(&format!("{name}-try"), &["true".into()]).run();
    tried.and_then(|output| output.or_fail(Code::ServiceFailed)).map_err(stay)?;
    scope_command(&name, argv).run_attached(None, signals).map_err(stay)
}

/// The logind session (`session-….scope`) in `cgroup_text`, if a process is in one: pam_systemd puts it there.
pub(crate) fn login_of(cgroup_text: &str) -> Option<&str> {
    let is_login = |part: &&str| part.starts_with("session-") && part.ends_with(".scope");
    groups(cgroup_text).flat_map(|(_, path)| path.split('/')).find(is_login)
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
    fn a_process_is_inside_its_managers_unit_of_that_name_and_no_other() {
        let top = "0::/init.scope\n";
        let in_container = "0::/machine.slice/machine-web.scope/payload/system.slice/teleport.service\n";
        for (manager, process, inside) in [
            ("", V2, true),
            ("12:pids:/init.scope\n1:name=systemd:/init.scope\n", V2, true),
            (top, V2, true),
            (top, V1, true),
            (top, "0::/system.slice/teleport.service/sub:group\n", true),
            (top, "0::/a.slice/a-b.slice/teleport.service\n", true),
            (top, HYBRID, false),
            (top, "0::/system.slice/my-teleport.service\n", false),
            (top, "0::/system.slice/teleport.service.d\n", false),
            (top, "0::/system.slice/teleport_dev.service\n", false),
            (top, "", false),
            (top, "0::/docker/12ab/teleport.service\n", false),
            (top, in_container, false),
            // In that container, whose first process sees the whole path.
            ("0::/machine.slice/machine-web.scope/payload/init.scope\n", in_container, true),
        ] {
            assert_eq!(inside_unit("teleport.service", manager, process), inside, "{manager:?} {process:?}");
        }
    }

    #[test]
    fn the_innermost_unit_and_the_login_session_are_found() {
        for (process, unit) in [(V1, Some("teleport.service")), (HYBRID, Some("session-3.scope")), ("0::/\n", None)] {
            assert_eq!(unit_of(process), unit, "{process:?}");
        }
        assert_eq!(login_of(HYBRID), Some("session-3.scope"));
        for text in [V2, "0::/user.slice/user-0.slice/user@0.service/tmux-spawn-1.scope\n", "0::/init.scope\n", ""] {
            assert_eq!(login_of(text), None, "{text}");
        }
    }

    #[test]
    fn without_a_manager_the_error_says_what_to_do() {
        if crate::host::machine::is_systemd_booted() {
            return;
        }
        let error = leave("teleport.service", &["true".into()], &Signals::never()).unwrap_err();
        assert_eq!(error.code, Code::ServiceFailed);
        assert!(error.to_string().contains("let the timer do it"), "{error}");
    }

    #[test]
    fn the_command_for_the_scope_is_what_an_old_systemd_understands() {
        let line = scope_command("teleport-update-7", &["/u".into(), "update".into(), "--now".into()]).line();
        assert_eq!(line, "systemd-run --scope --unit teleport-update-7 -- /u update --now");
    }
}
