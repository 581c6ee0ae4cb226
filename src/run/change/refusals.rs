//! What on the host speaks against a change, and is told before anything is touched.

use crate::config::Updates;
use crate::context::Context;
use crate::host::{durable, machine};
use crate::inspect::{self, FactsFor, places};
use crate::plan;
use crate::plan::facts::Facts;
use crate::report::{Code, Error, Result};
use std::path::Path;

/// The places that the settings name: those that nothing of ours may be in, and, for `enable` and `pin`, data that are another
/// installation's too.
pub(super) fn refuse_places(context: &Context, facts_for: FactsFor) -> Result<()> {
    places::unusable(context)?.map_or(Ok(()), Err)?;
    if facts_for == FactsFor::Adopt { refuse_shared(context) } else { Ok(()) }
}

/// A database that another installation has as well is not put back over its rows; what would need that later is not begun.
pub(super) fn refuse_shared(context: &Context) -> Result<()> {
    places::shared_data(context)?.map_or(Ok(()), Err)
}

/// A running agent was started from the link directory used before, and starts each new binary of its own from there: its
/// links cannot be taken away, nor the unit that it runs under. What starts the next one must know the new directory.
pub(super) fn refuse_moved(context: &Context, updates: &Updates, facts: &Facts) -> Result<()> {
    let layout = &context.layout;
    let moved = facts.moved_links.first().map(|(path, _)| durable::parent(path));
    let to = layout.path_inside(&layout.link_dir);
    let unit = layout.unit.trim_end_matches(".service");
    if facts.agent.running && (moved.is_some() || plan::masking_links(facts).next().is_some()) {
        let from =
            moved.map_or_else(|| "another directory".to_owned(), |dir| layout.path_inside(dir).display().to_string());
        let what = format!("the running agent was started from {from}, but its links are to be in {}", to.display());
        let is_units = updates.spec().service.is_none();
        let how = if is_units { format!(" (`systemctl stop {unit}`)") } else { String::new() };
        return Err(Error::new(Code::AgentNotStopped, what).advise(format!(
            "stop the agent{how}, run this command again, then start the agent; \
             if your session goes through the agent, run all of this with one `systemd-run sh -c '…'`"
        )));
    }
    match inspect::starts_elsewhere(context)?.first() {
        Some((file, program)) if moved.is_some() => {
            let (file, program, dir) = (file.display(), program.display(), to.display());
            let what = format!("{file} starts {program}, but this run would move that link to {dir}");
            let how = format!("first change the program that it starts to {}", to.join("teleport").display());
            Err(Error::new(Code::PathTaken, what).advise(how))
        }
        _ => Ok(()),
    }
}

/// Conditions that would stop the run half-way, found before its first step.
pub(super) fn preflight(context: &Context) -> Result<()> {
    let layout = &context.layout;
    for dir in [&layout.versions, &layout.link_dir, durable::parent(&layout.unit_file)] {
        let mount = machine::mount(dir)?;
        let versions = dir == layout.versions;
        if mount.read_only {
            return Err(Error::new(Code::ReadOnly, format!("{} is on a file system mounted read-only", dir.display()))
                .advise(if machine::is_confined() {
                    "run `teleport-update enable` by hand, which allows teleport-update.service to write there; if that is \
                     not enough, add the directory to ReadWritePaths= (`systemctl edit teleport-update.service`)"
                } else if versions || (dir != layout.link_dir && layout.path_inside(dir).starts_with("/etc")) {
                    // `--path` moves the links, and the unit unless it is in /etc.
                    "remount it writable"
                } else {
                    "remount it writable, or choose another directory with --path"
                }));
        }
        if versions && mount.no_exec && !layout.is_image() {
            return Err(Error::new(Code::ReadOnly, format!("{} is on a file system mounted noexec", dir.display()))
                .advise("the agent could not run from there: remount it without noexec"));
        }
    }
    if !layout.is_image() && !machine::is_root() {
        return Err(Error::new(Code::Permission, format!("cannot change {}: not root", layout.versions.display()))
            .advise("run as root, for example with sudo"));
    }
    Ok(())
}

/// Says what is left to do where others could write the program that the agent was started from.
pub(crate) fn warn_of_running(context: &Context, version_dir: &Path) {
    if !context.layout.is_image() {
        let unit = &context.layout.unit;
        context.report.warn(&format!(
            "users other than root could change {}, so the running agent may be a program that they changed: run \
             `systemctl daemon-reload; systemctl restart {unit}`",
            version_dir.display()
        ));
    }
}
