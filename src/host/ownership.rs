//! Who can change what is at a path: owner, mode, access control lists.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::io::Errno;

use super::machine;
use crate::report::{IfPresent, IoContext, Result};

/// The root that this process works in; `/` until it is set.
static ROOT: OnceLock<PathBuf> = OnceLock::new();

/// In a directory with this bit only the owner of an entry renames or removes it (inode(7)).
pub(super) const STICKY: u32 = 0o1000;
/// Write permission of the group.
pub(super) const GROUP_WRITES: u32 = 0o020;
/// Write permission of all others.
pub(super) const OTHERS_WRITE: u32 = 0o002;
/// Where the permissions of further users and groups are, of which the mode shows the sum as the group's (acl(5)).
const ACL: &str = "system.posix_acl_access";

/// The directories from `dir` upwards, to the root that this process works in, that others than root (or whoever runs this)
/// own or may write to.
///
/// Errors: `permission`, `io`.
pub(crate) fn strangers(dir: &Path) -> Result<Vec<(PathBuf, Metadata)>> {
    let top = root();
    let mut found = Vec::new();
    for part in dir.ancestors().take_while(|part| part.starts_with(top) || !dir.starts_with(top)) {
        let meta = std::fs::symlink_metadata(part).if_present().at("cannot look at", part)?;
        found.extend(meta.filter(|meta| !is_ours(part, meta)).map(|meta| (part.to_owned(), meta)));
    }
    Ok(found)
}

/// The root that this process works in.
pub(super) fn root() -> &'static Path {
    ROOT.get().map_or(Path::new("/"), PathBuf::as_path)
}

/// Says where the root is that this process works in: who owns what is above an image is its builder's business.
pub(crate) fn set_root(root: &Path) {
    // The first one counts; there is one command line.
    let _ = ROOT.set(root.to_owned());
}

/// Whether nobody but root (or whoever runs this) decides what `path` is; also where nothing is there.
pub(crate) fn is_ours_alone(path: &Path) -> bool {
    // What cannot be looked at may be another's.
    std::fs::symlink_metadata(path).if_present().is_ok_and(|meta| meta.is_none_or(|meta| is_ours(path, &meta)))
}

/// Whether only root and whoever runs this can write to the file or directory `path`, or add to it. A link is not.
pub(crate) fn is_closed(path: &Path, meta: &Metadata) -> bool {
    is_owned(meta) && !is_writable(path, meta)
}

/// Whether only root and whoever runs this can write to `path`, or, for a directory, rename what is theirs in it.
pub(super) fn is_ours(path: &Path, meta: &Metadata) -> bool {
    let is_kept = meta.is_symlink() || (meta.is_dir() && meta.mode() & STICKY != 0);
    is_owned(meta) && (is_kept || !is_writable(path, meta))
}

fn is_owned(meta: &Metadata) -> bool {
    meta.uid() == 0 || meta.uid() == rustix::process::geteuid().as_raw()
}

fn is_writable(path: &Path, meta: &Metadata) -> bool {
    meta.mode() & OTHERS_WRITE != 0 || is_a_groups(path, meta)
}

/// Whether a group may write to `path` that is not root's, nor of whoever runs this, or further users may.
fn is_a_groups(path: &Path, meta: &Metadata) -> bool {
    let own_group = meta.gid() == 0 || (!machine::is_root() && meta.gid() == rustix::process::getegid().as_raw());
    meta.mode() & GROUP_WRITES != 0 && (!own_group || has_acl(path))
}

fn has_acl(path: &Path) -> bool {
    match rustix::fs::lgetxattr(path, ACL, &mut [0_u8; 0]) {
        Ok(size) => size > 0,
        // What cannot be looked at may have one.
        Err(error) => !matches!(error, Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS),
    }
}
