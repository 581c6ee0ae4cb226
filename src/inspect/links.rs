//! The links to versions: what they lead to, and what stands where they go.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::config::{GoUpdater, Updates};
use crate::context::Context;
use crate::host::{Layout, durable, machine};
use crate::inspect::node::look;
use crate::inspect::units::started_from;
use crate::inspect::versions::edition_of;
use crate::plan::Node;
use crate::plan::facts::{Installed, Name, is_updater_name};
use crate::report::{Code, IoContext, Result};
use crate::store::{UNMANAGED, VersionDir};
use protocol::{Edition, Version};

/// The version that our links lead to, if they all lead to the same one: `teleport`, the helpers, the unit. An updater's
/// own link may be with a newer version. Where the edition cannot be told from the version itself it is left open.
///
/// Errors: `permission`, `io` where a link or the version cannot be looked at: another version could be taken for active.
pub(crate) fn linked(context: &Context) -> Result<Option<(Version, Option<Edition>)>> {
    let layout = &context.layout;
    let versions = layout.path_inside(&layout.versions);
    let dir_of = |path: &Path| -> Result<Option<VersionDir>> {
        Ok(durable::link_at(path)?.and_then(|target| VersionDir::of_path(&target, &versions)))
    };
    let Some(agent) = dir_of(&layout.link_dir.join("teleport"))? else { return Ok(None) };
    let is_other = |name: &OsStr| name != "teleport" && !is_updater_name(&name.to_string_lossy());
    let mut others = vec![layout.unit_file.clone()];
    for entry in durable::entries(&layout.link_dir)? {
        // The directory itself says which of its entries are links.
        let is_link = entry.file_type().at("cannot look at", entry.path())?.is_symlink();
        others.extend((is_link && is_other(&entry.file_name())).then(|| entry.path()));
    }
    for other in others {
        if dir_of(&other)?.is_some_and(|dir| dir != agent) {
            return Ok(None);
        }
    }
    let path = layout.versions.join(&agent);
    let Some((version, edition)) = agent.parse() else { return Ok(None) };
    match durable::is_dir(&path) {
        // Who may not look tells only what the links say elsewhere.
        Err(error) if error.code == Code::Permission && !machine::is_root() => Ok(None),
        there => Ok(if there? { Some((version, edition_of(&path)?.or(edition))) } else { None }),
    }
}

/// What stands where the agent's link goes and is none of ours, as a clause; none where it cannot be seen. For a message.
pub(crate) fn replaced(context: &Context) -> Option<String> {
    let path = context.layout.link_dir.join("teleport");
    let shown = context.layout.path_inside(&path).display().to_string();
    let versions = context.layout.path_inside(&context.layout.versions);
    match std::fs::read_link(&path) {
        Ok(target) if target.starts_with(&versions) => None,
        Ok(target) => Some(format!("{shown} points to {}, which teleport-update did not install", target.display())),
        Err(_) if std::fs::symlink_metadata(&path).is_ok() => {
            Some(format!("{shown} is a file that teleport-update did not install"))
        }
        Err(_) => None,
    }
}

/// Every name in the link directory that is a link of ours, or that an installed version would need.
pub(super) fn names(context: &Context, installed: &[Installed], versions: &Path) -> Result<Vec<Name>> {
    let link_dir = &context.layout.link_dir;
    let mut wanted = BTreeSet::new();
    wanted.extend(["teleport", "tsh", "tctl", "tbot", "teleport-update"].map(str::to_owned));
    wanted.extend(installed.iter().flat_map(|installed| installed.binaries.iter().cloned()));
    let its_versions = context.layout.path_inside(durable::parent(&GoUpdater::file(&context.layout))).join("versions");
    for (path, target) in durable::links_in(link_dir)? {
        if target.starts_with(versions) || target.starts_with(&its_versions) {
            wanted.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    let unmanaged = context.layout.versions.join(UNMANAGED);
    wanted
        .into_iter()
        .map(|name| {
            let node = look(&link_dir.join(&name), || Ok(Node::Kept(unmanaged.join(&name))))?;
            let ours = matches!(&node, Node::Link(target) if target.starts_with(versions));
            Ok(Name { name, node, ours })
        })
        .collect()
}

/// Links of ours in a link directory that is not the present one: the one that `updates.yaml` still names, and, for a hand may
/// have changed that, the one from which our unit starts the agent.
pub(super) fn moved_links(context: &Context, versions: &Path) -> Result<Vec<(PathBuf, Node)>> {
    let layout = &context.layout;
    // The file, not the settings of this run, which may be about to change it.
    let known = Updates::read(&layout.config_file())?.spec().path.clone();
    let named = Layout::new(&layout.root, layout.suffix.as_deref(), known.as_deref())?.link_dir;
    let mut before: Vec<PathBuf> = started_from(layout, versions)?.into_iter().chain([named]).collect();
    before.dedup();
    before.retain(|dir| *dir != layout.link_dir);
    Ok(before.iter().map(|dir| links_into(dir, versions)).collect::<Result<Vec<_>>>()?.concat())
}

/// Links of ours in the usual link directory, where the settings name another one: nothing but `uninstall` looks there.
pub(crate) fn links_in_usual_dir(context: &Context) -> Result<Vec<(PathBuf, Node)>> {
    let layout = &context.layout;
    let usual = Layout::new(&layout.root, layout.suffix.as_deref(), None)?.link_dir;
    let versions = layout.path_inside(&layout.versions);
    if usual == layout.link_dir { Ok(Vec::new()) } else { links_into(&usual, &versions) }
}

fn links_into(dir: &Path, versions: &Path) -> Result<Vec<(PathBuf, Node)>> {
    let links = durable::links_in(dir)?.into_iter().filter(|(_, target)| target.starts_with(versions));
    Ok(links.map(|(path, target)| (path, Node::Link(target))).collect())
}
