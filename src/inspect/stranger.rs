//! Agents that are not the active version: a package's, the Go updater's, an operator's. What they are they tell themselves. Of one
//! that is gone its link tells.

use std::path::Path;
use std::time::Duration;

use crate::context::Context;
use crate::host::command::Command;
use crate::host::process::{FileId, Process};
use crate::host::{durable, elf};
use crate::inspect::versions::edition_of;
use crate::plan::facts::Name;
use crate::plan::{Node, Stranger};
use crate::release::check;
use crate::report::Result;
use crate::store::VersionDir;
use protocol::{Edition, Revision};

/// The agents beside `active`: the one that stands where the agent's link goes, and the running one (`main_pid`), or the last one.
///
/// Each that is none of our versions is run once, as nobody, for at most `wait`.
pub(crate) fn strangers(
    context: &Context,
    names: &[Name],
    active: Option<&Revision>,
    main_pid: Option<u32>,
    wait: Duration,
) -> Result<Vec<Stranger>> {
    let agent = names.iter().find(|name| name.name == "teleport");
    let in_place = agent.and_then(|name| in_place(context, name, wait));
    let main = main_pid.map_or(Ok(None), Process::by_pid)?.map(Process::behind_emulator).transpose()?;
    let running = match main {
        Some(process) => running(context, &process, wait)?,
        None => agent.map(|name| gone(context, name, active)).transpose()?.flatten(),
    };
    let is_known = |stranger: &Stranger| stranger.revision.is_some() && stranger.revision.as_ref() == active;
    Ok(in_place.into_iter().chain(running.filter(|running| !is_known(running))).collect())
}

/// What stands at `name` and can have been started from there.
fn in_place(context: &Context, name: &Name, wait: Duration) -> Option<Stranger> {
    let path = context.layout.link_dir.join(&name.name);
    let program = match &name.node {
        Node::Kept(_) => path.clone(),
        Node::Link(target) if !name.ours => {
            let inside = context.layout.path_inside(&context.layout.link_dir).join(target);
            context.layout.real_path(&inside)
        }
        _ => return None,
    };
    // A link to nothing starts nothing.
    program.try_exists().unwrap_or(true).then(|| Stranger {
        revision: ask(context, &program, wait),
        path: context.layout.path_inside(&path),
        in_place: true,
    })
}

/// The version of ours that our link leads to although it is not there: the versions are of a backup from before it, and the
/// database is as it left it.
///
/// Errors: `permission`, `io` where the versions cannot be looked at.
fn gone(context: &Context, name: &Name, active: Option<&Revision>) -> Result<Option<Stranger>> {
    let Node::Link(target) = &name.node else { return Ok(None) };
    let layout = &context.layout;
    let Some(dir) = VersionDir::of_path(target, &layout.path_inside(&layout.versions)) else { return Ok(None) };
    let Some((version, edition)) = dir.parse() else { return Ok(None) };
    // Its name may not tell its edition: the active version by its number alone.
    let is_active = active.is_some_and(|active| active.version == version);
    if is_active || durable::is_dir(&layout.versions.join(&dir))? {
        return Ok(None);
    }
    let path = layout.path_inside(&layout.link_dir).join(&name.name);
    let revision = Some(Revision { version, edition: edition.unwrap_or(Edition::Oss) });
    Ok(Some(Stranger {
        path: format!("the last agent ({} leads to it)", path.display()).into(),
        revision,
        in_place: false,
    }))
}

/// The running agent, by the program that it runs: that can be removed or replaced by now, or be a container's.
///
/// Errors: `io` where it cannot be looked at.
fn running(context: &Context, process: &Process, wait: Duration) -> Result<Option<Stranger>> {
    let Some(exe) = &process.exe else { return Ok(None) };
    let versions = &context.layout.versions;
    let real = durable::real(versions)?;
    let revision = match exe.strip_prefix(&real) {
        Ok(_) => {
            let Some(dir) = VersionDir::of_path(exe, &real) else { return Ok(None) };
            let Some((version, edition)) = dir.parse() else { return Ok(None) };
            let edition = edition_of(&versions.join(dir))?.or(edition).unwrap_or(Edition::Oss);
            Some(Revision { version, edition })
        }
        // Asked already where it stands.
        Err(_) if process.exe_id()? == FileId::find(context.layout.link_dir.join("teleport"))? => return Ok(None),
        Err(_) => ask(context, Path::new(&format!("/proc/{}/exe", process.pid)), wait),
    };
    Ok(Some(Stranger { path: format!("the running agent ({})", exe.display()).into(), revision, in_place: false }))
}

/// What `program version` prints; `None` where it cannot be run here, or prints something else.
pub(super) fn ask(context: &Context, program: &Path, wait: Duration) -> Option<Revision> {
    if context.layout.is_image() && !elf::runs_here(program).unwrap_or(false) {
        return None;
    }
    let output = Command::new(program).arg("version").timeout(wait).unprivileged().run();
    match output {
        Ok(output) => check::told(&output.stdout_text()),
        Err(error) => {
            context.report.debug(&error.to_string());
            None
        }
    }
}
