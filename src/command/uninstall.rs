//! `uninstall`: removes links, units and versions; keeps `/etc/teleport.yaml`, the agent's data, and the lock file.

use std::path::{Path, PathBuf};

use super::survey::{self, Depth, TAKEN_OVER};
use super::{Context, recover};
use crate::cli::Uninstall;
use crate::execute;
use crate::host::durable;
use crate::plan::{self, Node, Part, Placement};
use crate::report::{Code, Error, Result};
use crate::store::publish;

/// Runs the command.
pub fn run(context: &mut Context, args: &Uninstall) -> Result<u8> {
    let _lock = context.lock("uninstall")?;
    recover::pending(context, false)?;
    let updates = context.open()?;
    publish::sweep(&context.layout.versions)?;
    let facts = survey::facts(context, &updates, Depth::Move, None)?;
    if facts.agent.running && !args.force {
        return Err(Error::new(Code::AgentNotStopped, "the agent is running")
            .advise("stop it first (`systemctl disable --now teleport`), or add --force"));
    }
    let taken = context.layout.versions.join(TAKEN_OVER);
    let plan = plan::uninstall(&facts, set_back(context, &taken));
    let site = context.site(&updates, false)?;
    execute::run(&site, &plan, "uninstall", &mut |_| Ok(None), &mut |_| {})
        .map_err(|undone| match undone.recovery {
            Some(recovery) => undone.error.advise(format!("and putting everything back failed: {recovery}")),
            None => undone.error,
        })?
        .after
        .map_or(Ok(()), Err)?;
    durable::remove_tree(&taken)?;
    durable::remove_file(&crate::config::Credentials::file(&context.layout.versions))?;
    let config = context.layout.agent_config.display();
    context.report.notice(&format!("uninstalled; {config} and the agent's data are still there"));
    Ok(0)
}

/// What was set aside when this host was taken over goes back to its place.
fn set_back(context: &Context, taken: &Path) -> Vec<Placement> {
    fn files(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                files(&entry.path(), found);
            } else {
                found.push(entry.path());
            }
        }
    }
    let mut kept = Vec::new();
    files(taken, &mut kept);
    kept.into_iter()
        .filter_map(|kept| {
            let inside = Path::new("/").join(kept.strip_prefix(taken).ok()?);
            let path = context.layout.real(&inside);
            let was = Node::Absent;
            std::fs::symlink_metadata(&path).is_err().then_some(Placement {
                path,
                was,
                now: Node::Kept(kept),
                part: Part::Unit,
            })
        })
        .collect()
}
