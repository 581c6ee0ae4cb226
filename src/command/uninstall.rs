//! `uninstall`: removes links, units and versions; keeps `/etc/teleport.yaml`, the agent's data, and the lock file.

use std::path::{Path, PathBuf};

use crate::cli::Uninstall;
use crate::context::Context;
use crate::execute;
use crate::host::durable;
use crate::inspect::{self, FactsFor};
use crate::plan::facts::Facts;
use crate::plan::{self, Node, TAKEN_OVER};
use crate::report::{Code, Error, IoContext, Result};
use crate::run::recovery;

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: &Uninstall) -> Result<u8> {
    // Links may be left where the versions were removed by hand.
    let layout = &context.layout;
    let is_left = |path: &Path| {
        durable::link_at(path)
            .is_ok_and(|target| target.is_some_and(|target| target.starts_with(layout.versions_inside())))
    };
    let is_left = is_left(&layout.unit_file) || is_left(&layout.link_dir.join("teleport"));
    if !durable::is_dir(&layout.versions)? && !is_left {
        context.report.notice("nothing is installed");
        return Ok(0);
    }
    let (_lock, updates) = recovery::settled(context, "uninstall")?;
    recovery::sweep(context);
    let mut facts = inspect::facts(context, &updates, FactsFor::Move, None)?;
    facts.moved_links = inspect::links_in_usual_dir(context)?;
    spare_foreign_units(context, &mut facts)?;
    let taken = context.layout.versions.join(TAKEN_OVER);
    if !is_anything_there(context, &facts, &taken)? {
        context.report.notice("nothing is installed");
        return Ok(0);
    }
    // An agent that others installed is theirs.
    facts.agent.running &= facts.linked_dir().is_some() || !facts.in_use.is_empty();
    if facts.agent.running && !args.force {
        let unit = context.layout.unit.trim_end_matches(".service");
        return Err(Error::new(Code::AgentNotStopped, "the agent is running")
            .advise(format!("stop it first (`systemctl disable --now {unit}`), or add --force")));
    }
    if !context.layout.is_image() {
        context.stop_proof()?.check_sight()?;
    }
    let plan = plan::uninstall(&facts, &set_back(context, &facts, &taken)?);
    let site = context.site(&updates, false)?;
    execute::run(&site, &plan, "uninstall", &mut |_| Ok(execute::Next::default()), &mut |_| {})
        .map_err(execute::Undone::told)?
        .map_or(Ok(()), Err)?;
    let config = context.layout.path_inside(&context.layout.agent_config);
    context.report.notice(&format!("uninstalled; {} and the agent's data are still there", config.display()));
    Ok(0)
}

/// What the Go updater has under the names of a suffixed installation's units is not ours to remove, be it that it was never
/// taken over or that it has been given back.
fn spare_foreign_units(context: &Context, facts: &mut Facts) -> Result<()> {
    let foreign = |path: &Path| inspect::is_foreign(&context.layout, path);
    for (path, _, was) in &mut facts.own_units {
        if foreign(path)? {
            *was = Node::Absent;
        }
    }
    if foreign(&facts.unit.path)? {
        facts.unit.node = Node::Absent;
        let into_ours = |node: &Node| matches!(node, Node::Link(target) if target.starts_with(&facts.versions));
        facts.enablement.retain(|(_, node)| into_ours(node));
    }
    Ok(())
}

/// Anything that [`plan::uninstall`] would remove or put back.
fn is_anything_there(context: &Context, facts: &Facts, taken: &Path) -> Result<bool> {
    Ok(!facts.installed.is_empty()
        || facts.links().any(|node| facts.dir_of(node).is_some())
        || facts.own_units.iter().any(|(_, _, was)| matches!(was, Node::Text(_)))
        || durable::exists(taken)?
        || durable::exists(&context.layout.config_file())?
        || durable::exists(&crate::config::Credentials::file(&context.layout.versions))?)
}

/// What was set aside when this host was taken over goes back to its place. What cannot be looked at is an error: the
/// commit removes the place where it is kept.
fn set_back(context: &Context, facts: &Facts, taken: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    fn files(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
        let entries = match std::fs::read_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.at("cannot read", dir)?,
        };
        for entry in entries {
            let entry = entry.at("cannot read", dir)?;
            if entry.file_type().at("cannot look at", entry.path())?.is_dir() {
                files(&entry.path(), found)?;
            } else {
                found.push(entry.path());
            }
        }
        Ok(())
    }
    let mut kept = Vec::new();
    files(taken, &mut kept)?;
    let mut places = Vec::new();
    for kept in kept {
        let Ok(inside) = kept.strip_prefix(taken) else { continue };
        let path = context.layout.real_path(&Path::new("/").join(inside));
        let ours = facts.names.iter().any(|name| name.ours && context.layout.link_dir.join(&name.name) == path);
        // A suffixed installation's units stand where those that were set aside stood; the plan removes them first.
        let ours = ours || facts.own_units.iter().any(|(unit, _, _)| *unit == path) || facts.unit.path == path;
        if ours || !durable::exists(&path)? {
            places.push((path, kept));
        }
    }
    Ok(places)
}
