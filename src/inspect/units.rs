//! The agent's unit, what enables it, and what of others has a say in it.

use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::host::layout::{UNIT_DIRS, USUAL_LINK_DIR};
use crate::host::{Layout, durable, machine};
use crate::inspect::node::{kept_unit, look, own_text, unit_text};
use crate::inspect::versions::seen;
use crate::plan::facts::UnitFact;
use crate::plan::{Node, OWN_MARK};
use crate::report::Result;

pub(super) fn unit(context: &Context) -> Result<UnitFact> {
    let layout = &context.layout;
    let path = layout.unit_file.clone();
    let link_dir = layout.path_inside(&layout.link_dir);
    // A plain link serves only an installation with the paths that the archive's unit is written for.
    let linked = layout.suffix.is_none() && link_dir == Path::new(USUAL_LINK_DIR);
    let node = match look(&path, || own_text(layout, &path))? {
        // Where the unit is a link, a file is somebody's, but for ours with the paths of before.
        Node::Text(text) if linked && !text.starts_with(OWN_MARK) => Node::Kept(kept_unit(layout, &path)),
        node => node,
    };
    let mut edits = vec![(format!("{USUAL_LINK_DIR}/"), format!("{}/", link_dir.display()))];
    if let Some(suffix) = &layout.suffix {
        edits.push(("/etc/teleport.yaml".into(), format!("/etc/teleport_{suffix}.yaml")));
        edits.push(("/run/teleport.pid".into(), format!("/run/teleport_{suffix}.pid")));
        edits.push(("/etc/default/teleport".into(), format!("/etc/default/teleport_{suffix}")));
    }
    let inside = layout.path_inside(&path);
    Ok(UnitFact { path, inside, node, linked, edits, managed: !layout.is_image() && machine::is_systemd_booted() })
}

/// Links below `/etc/systemd/system` that lead to our unit or to a version's unit file, made by `systemctl enable`.
pub(super) fn enablement(context: &Context) -> Result<Vec<(PathBuf, Node)>> {
    let layout = &context.layout;
    let versions = layout.path_inside(&layout.versions);
    let unit_file = layout.path_inside(&layout.unit_file);
    let mut dirs = vec![layout.followed(Path::new("/etc/systemd/system"))];
    let paths = durable::entries(&dirs[0])?.into_iter().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".wants") || name.ends_with(".requires")
    });
    dirs.extend(paths.map(|path| layout.behind(&path)));
    let mut found = Vec::new();
    for path in dirs.into_iter().map(|dir| dir.join(&layout.unit)) {
        if let Some(target) = durable::link_at(&path)?
            && (target.starts_with(&versions) || target == unit_file)
            && path != layout.unit_file
        {
            found.push((path, Node::Link(target)));
        }
    }
    Ok(found)
}

/// Unit files and drop-ins of others that start the agent from another directory than the one with our links: where they
/// are, and the program that they start. A unit that starts something else, a wrapper say, is the operator's business.
///
/// Errors: `permission`, `io`.
pub(crate) fn starts_elsewhere(context: &Context) -> Result<Vec<(PathBuf, PathBuf)>> {
    let layout = &context.layout;
    let versions = layout.path_inside(&layout.versions);
    let dirs = UNIT_DIRS.map(|dir| layout.followed(Path::new(dir)));
    let mut files = Vec::new();
    // The first one counts; links into our versions and the unit's own place are the plan's.
    for path in dirs.iter().map(|dir| dir.join(&layout.unit)) {
        match durable::link_at(&path)? {
            Some(target) if target.starts_with(&versions) => continue,
            _ if path == layout.unit_file => break,
            _ if !durable::exists(&path)? => continue,
            _ => {}
        }
        files.push(path);
        break;
    }
    for dir in dirs.iter().map(|dir| layout.behind(&dir.join(format!("{}.d", layout.unit)))) {
        let entries = durable::entries(&dir)?.into_iter().map(|entry| entry.path());
        files.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "conf")));
    }
    files.sort();
    files.dedup();
    let is_elsewhere = |program: &PathBuf| {
        program.file_name().is_some_and(|name| name == "teleport")
            && program.parent().is_some_and(|dir| layout.followed(dir) != layout.link_dir)
    };
    let mut found = Vec::new();
    for path in files {
        let program = seen(unit_text(&layout.behind(&path)))?.flatten().as_deref().and_then(started);
        found.extend(program.filter(is_elsewhere).map(|program| (path, program)));
    }
    Ok(found)
}

/// The link directory, real path, from which the unit that we have written, or linked, starts the agent.
///
/// Errors: `permission`, `io`.
pub(super) fn started_from(layout: &Layout, versions: &Path) -> Result<Option<PathBuf>> {
    let path = &layout.unit_file;
    if let Some(target) = durable::link_at(path)? {
        // A version's own unit has the path of the archive.
        return Ok(target.starts_with(versions).then(|| layout.followed(Path::new(USUAL_LINK_DIR))));
    }
    let text = seen(unit_text(path))?.flatten().filter(|text| text.starts_with(OWN_MARK));
    let program = text.as_deref().and_then(started);
    Ok(program.map(|program| layout.followed(durable::parent(&program))))
}

/// The program of the last `ExecStart=` in a unit's text.
fn started(text: &str) -> Option<PathBuf> {
    let value = text.lines().rev().find_map(|line| line.trim().strip_prefix("ExecStart="))?;
    let word = value.trim().trim_start_matches(['@', '-', ':', '+', '!']).split_whitespace().next()?;
    Some(PathBuf::from(word.trim_matches(['"', '\''])))
}
