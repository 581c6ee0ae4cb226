//! Out of the session that the agent carries, before the agent is stopped (SPEC §5).

use crate::context::Context;
use crate::host::command::Command;
use crate::host::{machine, process, session};
use crate::report::{Error, Result};
use crate::run::environment::SCOPE;

/// A command that will stop the agent must not die with it: it moves on into a unit of its own (SPEC §5).
pub(crate) fn leave(context: &Context) -> Result<Option<u8>> {
    if context.layout.is_image() {
        return Ok(None);
    }
    if context.host.var(SCOPE).is_some() {
        // The terminal goes with the agent that carried it.
        return context.signals.ignore_hangup().map(|()| None);
    }
    let groups = |pid| Ok::<_, Error>(process::cgroup(pid)?.unwrap_or_default());
    let inside = session::inside_unit(&context.layout.unit, &groups(process::FIRST)?, &groups(std::process::id())?);
    if !inside && !context.stop_proof()?.carries_us()? {
        return Ok(None);
    }
    let mut argv: Vec<std::ffi::OsString> = vec!["/usr/bin/env".into(), format!("{SCOPE}=1").into()];
    argv.push(context.host.exe.clone().into());
    argv.extend(context.host.args.iter().skip(1).map(Into::into));
    const RESULT: &str = "`teleport-update status`";
    let said = "this session runs under the agent, which will be stopped: continuing in a";
    let ended = if machine::is_systemd_booted() {
        context.report.notice(&format!("{said} transient systemd scope (see the result with {RESULT})"));
        session::leave(&context.layout.unit, &argv, &context.signals)?
    } else {
        context.report.notice(&format!("{said} separate session (see the result with {RESULT})"));
        Command::new(&argv[0]).args(&argv[1..]).run_attached(None, &context.signals)?
    };
    context.talk.is_elsewhere.set(true);
    Ok(Some(match ended {
        Some(status) => status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
        // The agent was stopped and this session ends with it; how the run ends, `status` tells.
        None => 0,
    }))
}
