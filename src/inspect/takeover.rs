//! What `enable` takes over: packages, and what the Go updater has left.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::GoUpdater;
use crate::context::Context;
use crate::host::{Layout, durable, package};
use crate::inspect::node::{FOREIGN_MARK, unit_text};
use crate::inspect::timers;
use crate::plan::TAKEN_OVER;
use crate::report::{IoContext, Result};

/// The packages whose agent `enable` takes over; an additional installation has none.
pub(super) fn packages(layout: &Layout) -> Result<Vec<String>> {
    if layout.suffix.is_some() {
        return Ok(Vec::new());
    }
    let root = layout.is_image().then_some(layout.root.as_path());
    Ok(package::installed(root)?.into_iter().map(|package| package.name).collect())
}

/// The Go updater's links to its own versions.
pub(super) fn foreign_links(context: &Context) -> Result<Vec<(PathBuf, PathBuf)>> {
    let layout = &context.layout;
    let file = GoUpdater::file(layout);
    if GoUpdater::of(layout)?.is_none() {
        return Ok(Vec::new());
    }
    let its_versions = layout.path_inside(durable::parent(&file)).join("versions");
    let inside = layout.path_inside(&layout.link_dir);
    let mut found: Vec<(PathBuf, PathBuf)> = durable::links_in(&layout.link_dir)?
        .into_iter()
        .filter(|(_, target)| target.starts_with(&its_versions))
        .map(|(path, _)| {
            let name = path.file_name().unwrap_or_default().to_owned();
            (path, taken_over(layout, &inside.join(name)))
        })
        .collect();
    // A suffixed agent's unit has the same name as ours and makes way only when ours takes its place.
    if layout.suffix.is_some() && is_foreign(layout, &layout.unit_file)? {
        let inside = layout.path_inside(&layout.unit_file);
        found.push((layout.unit_file.clone(), taken_over(layout, &inside)));
    }
    found.sort();
    Ok(found)
}

/// The Go updater's units, which would mask ours of the same name, or stand in their place (SPEC §5).
pub(super) fn set_aside(context: &Context) -> Result<Vec<(PathBuf, PathBuf)>> {
    let layout = &context.layout;
    if GoUpdater::of(layout)?.is_none() {
        return Ok(Vec::new());
    }
    let (timer, agent) = (timers::foreign(context), &layout.unit);
    let name = timer.trim_end_matches(".timer");
    let files = [
        timer.clone(),
        format!("{name}.service"),
        format!("{agent}.wants/{timer}"),
        format!("timers.target.wants/{timer}"),
        format!("{agent}.d/{name}.conf"),
    ];
    let mut found = Vec::new();
    for inside in files.into_iter().map(|file| Path::new("/etc/systemd/system").join(file)) {
        let path = layout.real_path(&inside);
        if is_foreign(layout, &path)? {
            found.push((path, taken_over(layout, &inside)));
        }
    }
    Ok(found)
}

/// True for what carries the Go updater's own mark, and for a link that was made to enable such a file. In an image its
/// target is a path inside. Errors: `permission`, `io`.
pub(crate) fn is_foreign(layout: &Layout, path: &Path) -> Result<bool> {
    Ok(unit_text(&layout.behind(path))?.is_some_and(|text| text.starts_with(FOREIGN_MARK)))
}

/// Where the foreign file `inside` (without the root's slash) is kept.
pub(super) fn taken_over(layout: &Layout, inside: &Path) -> PathBuf {
    let inside = inside.strip_prefix("/").unwrap_or(inside);
    layout.real_path(&layout.path_inside(&layout.versions.join(TAKEN_OVER).join(inside)))
}

/// The agent's directory, if it is closed to others; true if nothing else in it would be opened by o+x (SPEC §1).
///
/// Errors: `permission`, `io`: what cannot be looked at could be what o+x lays open.
pub(super) fn closed_path(context: &Context) -> Result<Option<(PathBuf, bool)>> {
    let state = durable::parent(&context.layout.versions).to_owned();
    if !durable::exists(&state)? {
        return Ok(None);
    }
    let look = |path: &Path| std::fs::symlink_metadata(path).at("cannot look at", path);
    if look(&state)?.permissions().mode() & 0o001 != 0 {
        return Ok(None);
    }
    for entry in durable::entries(&state)? {
        let found = look(&entry.path())?;
        if entry.path() != context.layout.versions && !found.is_symlink() && found.permissions().mode() & 0o007 != 0 {
            return Ok(Some((state, false)));
        }
    }
    Ok(Some((state, true)))
}
