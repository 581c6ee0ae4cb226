//! Steps on links and files: put and taken back, set aside and put back.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::host::durable;
use crate::plan::{Node, Placement};
use crate::report::{IoContext, Result};

/// Brings `place` to `node`, whatever stands there.
pub(in crate::execute) fn put(place: &Placement, node: &Node) -> Result<()> {
    // What is not ours is kept before it is replaced.
    if let Node::Kept(kept) = &place.was
        && *node != place.was
        && !durable::exists(kept)?
        && look(&place.path)? != *node
    {
        durable::create_dir_all(durable::parent(kept))?;
        durable::keep(&place.path, kept)?;
    }
    if *node == Node::Absent && is_below_a_file(&place.path) {
        return Ok(());
    }
    // What was never changed need not be put back: it may be what cannot be changed.
    if matches!(node, Node::Absent | Node::Link(_)) && look(&place.path)? == *node {
        return durable::sync_dir(durable::parent(&place.path)).or_else(|error| match node {
            Node::Absent if !durable::parent(&place.path).exists() => Ok(()),
            _ => Err(error),
        });
    }
    match node {
        Node::Absent => durable::remove_file(&place.path),
        Node::Link(target) => {
            durable::create_dir_all(durable::parent(&place.path))?;
            durable::symlink(target, &place.path)
        }
        Node::Text(text) => {
            durable::create_dir_all(durable::parent(&place.path))?;
            durable::write(&place.path, text.as_bytes(), durable::FILE_MODE)
        }
        Node::Kept(kept) => durable::put_back(kept, &place.path),
    }
}

/// Whether a file, or a loop of links, stands in the place of the directory of `path`: then nothing is at `path`.
pub(in crate::execute) fn is_below_a_file(path: &Path) -> bool {
    let is_cut = |error| matches!(Errno::from_io_error(&error), Some(Errno::NOTDIR | Errno::LOOP));
    std::fs::symlink_metadata(path).is_err_and(is_cut)
}

/// Whether [`put`] could make a link for `node` now; nothing is changed.
pub(in crate::execute) fn can_put(place: &Placement, node: &Node) -> Result<()> {
    match node {
        Node::Link(target) if look(&place.path)? != *node => durable::try_symlink(target, &place.path),
        _ => Ok(()),
    }
}

/// Undoes a placement. A kept file that it had put back under its old name is kept again; not what stands there once it is
/// undone.
pub(in crate::execute) fn take_back(place: &Placement) -> Result<()> {
    if let Node::Kept(kept) = &place.now
        && !durable::exists(kept)?
        && durable::exists(&place.path)?
        && look(&place.path)? != place.was
    {
        durable::create_dir_all(durable::parent(kept))?;
        durable::keep(&place.path, kept)?;
    }
    put(place, &place.was)
}

pub(in crate::execute) fn set_aside(path: &Path, kept: &Path) -> Result<()> {
    if !durable::exists(path)? {
        return Ok(());
    }
    keep_link(path, kept)?;
    durable::remove_file(path)
}

pub(in crate::execute) fn keep_link(path: &Path, kept: &Path) -> Result<()> {
    durable::create_dir_all(durable::parent(kept))?;
    // One of an earlier take-over is not the one that stands here now.
    durable::remove_file(kept)?;
    durable::keep(path, kept)
}

/// What stands at `path`; a regular file counts as text. Unlike in the look before the plan, a file in the place of
/// its directory is an error: what was there a moment ago is not merely absent.
pub(in crate::execute) fn look(path: &PathBuf) -> Result<Node> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Node::Absent),
        Err(error) => Err(error).at("cannot read", path),
        Ok(meta) if meta.is_symlink() => Ok(Node::Link(std::fs::read_link(path).at("cannot read", path)?)),
        Ok(_) => Ok(Node::Text(std::fs::read_to_string(path).unwrap_or_default())),
    }
}

pub(in crate::execute) fn grant_traverse(path: &Path) -> Result<()> {
    let mode = std::fs::metadata(path).at("cannot read", path)?.permissions().mode() & 0o7777;
    durable::set_mode(path, mode | 0o001)
}
