//! Whose is what lies on the way to a file: root works only where nobody else decides what a name leads to (SPEC §8).

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::layout::{self, Layout};
use super::machine;
use crate::report::{Code, Error, IoContext, Result};

/// The root that this process works in; `/` until it is set.
static ROOT: OnceLock<PathBuf> = OnceLock::new();

/// In a directory with this bit only the owner of an entry renames or removes it (inode(7)).
const STICKY: u32 = 0o1000;
/// Write permission of the group.
const GROUP_WRITES: u32 = 0o020;
/// Write permission of all others.
const OTHERS_WRITE: u32 = 0o002;
/// Where the permissions of further users and groups are, of which the mode shows the sum as the group's (acl(5)).
const ACL: &str = "system.posix_acl_access";

/// Makes sure that nobody but root (or whoever runs this) decides what the versions directory is and what lies in it. In an
/// image also that no name in it is a link, which would lead out of the image.
///
/// Errors: `permission` with the directory and its owner; `path_taken` for a link; `io`.
pub fn check_versions(layout: &Layout) -> Result<()> {
    check_way(layout, layout.versions_inside())?;
    check_entry(&layout.config_file())?;
    if !layout.is_image() {
        return Ok(());
    }
    let entries = match std::fs::read_dir(&layout.versions) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.at("cannot read", &layout.versions)?,
    };
    for entry in entries {
        let path = entry.at("cannot read", &layout.versions)?.path();
        check_entry(&path).and_then(|()| refuse_links(&path))?;
    }
    Ok(())
}

/// Makes sure that nobody but root (or whoever runs this) decides what `inside` leads to; in an image from its root on. A
/// link on the way counts as much as what it leads to. What does not exist yet is nobody's.
///
/// Errors: `permission` with the directory and its owner; `io`.
pub fn check_way(layout: &Layout, inside: &Path) -> Result<()> {
    let mut met: Vec<PathBuf> = Vec::new();
    layout::walk(&layout.root, inside, &mut |path| met.push(path.to_owned()));
    met.iter().try_for_each(|path| check_entry(path))
}

/// The directories from `dir` upwards, to the root that this process works in, that others than root (or whoever runs this)
/// own or may write to.
///
/// Errors: `permission`, `io`.
pub fn strangers(dir: &Path) -> Result<Vec<(PathBuf, Metadata)>> {
    let top = ROOT.get().map_or(Path::new("/"), PathBuf::as_path);
    let mut found = Vec::new();
    for part in dir.ancestors().take_while(|part| part.starts_with(top) || !dir.starts_with(top)) {
        match std::fs::symlink_metadata(part) {
            Ok(meta) if is_ours(part, &meta) => {}
            Ok(meta) => found.push((part.to_owned(), meta)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error).at("cannot look at", part),
        }
    }
    Ok(found)
}

/// Says where the root is that this process works in: who owns what is above an image is its builder's business.
pub fn set_root(root: &Path) {
    // The first one counts; there is one command line.
    let _ = ROOT.set(root.to_owned());
}

/// Whether nobody but root (or whoever runs this) decides what `path` is; also where nothing is there.
pub fn is_ours_alone(path: &Path) -> bool {
    std::fs::symlink_metadata(path).map_or(true, |meta| is_ours(path, &meta))
}

fn check_entry(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if is_ours(path, &meta) => Ok(()),
        Ok(meta) => Err(refused(path, &meta)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
        // Whoever may not look cannot be led astray by it either: he cannot go there.
        Err(_) if !machine::is_root() => Ok(()),
        Err(error) => Err(error).at("cannot look at", path),
    }
}

/// Whether only root and whoever runs this can write to `path`, or, for a directory, rename what is theirs in it.
fn is_ours(path: &Path, meta: &Metadata) -> bool {
    let user = rustix::process::geteuid().as_raw();
    if meta.uid() != 0 && meta.uid() != user {
        return false;
    }
    if meta.is_symlink() || (meta.is_dir() && meta.mode() & STICKY != 0) {
        return true;
    }
    let own_group = meta.gid() == 0 || (user != 0 && meta.gid() == rustix::process::getegid().as_raw());
    let is_groups = meta.mode() & GROUP_WRITES != 0 && meta.is_dir() && (!own_group || has_acl(path));
    meta.mode() & OTHERS_WRITE == 0 && !is_groups
}

fn has_acl(path: &Path) -> bool {
    rustix::fs::lgetxattr(path, ACL, &mut [0_u8; 0]).is_ok_and(|size| size > 0)
}

fn refused(path: &Path, meta: &Metadata) -> Error {
    let (shown, mode) = (path.display(), meta.mode() & 0o7777);
    let what = format!("{shown} is not root's alone (owner {}, group {}, mode {mode:o})", meta.uid(), meta.gid());
    Error::new(Code::Permission, format!("{what}: others could exchange what root runs from there")).advise(format!(
        "`chown root:root {shown}; chmod go-w {shown}`, and give the agent's user a data_dir of its own"
    ))
}

/// Neither `path` nor what is directly in it may be a link, but for what is kept of others.
fn refuse_links(path: &Path) -> Result<()> {
    let is_link = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
    let is_version = !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let below = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    match std::iter::once(path.to_owned())
        .chain(below.filter(|_| is_version && !is_link(path)))
        .find(|path| is_link(path))
    {
        None => Ok(()),
        Some(link) => Err(Error::new(Code::PathTaken, format!("{} is a link", link.display()))
            .advise("remove it: what it leads to is not part of the image")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn image() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("var/lib/teleport/versions/1.0.0/bin")).unwrap();
        let layout = Layout::new(dir.path(), None, None).unwrap();
        (dir, layout)
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn modes_of_todays_hosts_pass_and_what_others_may_write_does_not() {
        let (dir, layout) = image();
        let state = dir.path().join("var/lib/teleport");
        for mode in [0o700, 0o711, 0o750, 0o751, 0o755, 0o1755, 0o1777] {
            set_mode(&state, mode);
            check_versions(&layout).unwrap();
        }
        set_mode(&state, 0o775);
        rustix::fs::chown(&state, None, Some(rustix::fs::Gid::from_raw(0))).ok();
        check_versions(&layout).unwrap();
        for path in [&state, &layout.versions, &layout.versions.join("1.0.0")] {
            set_mode(path, 0o777);
            let error = check_versions(&layout).unwrap_err();
            assert_eq!(error.code, Code::Permission);
            assert!(error.what.starts_with(&format!("{} is not root's alone", path.display())), "{error}");
            set_mode(path, 0o755);
        }
    }

    #[test]
    fn a_directory_of_another_user_or_group_is_refused() {
        if !machine::is_root() {
            return;
        }
        let (dir, layout) = image();
        let state = dir.path().join("var/lib/teleport");
        let give = |uid, gid, mode| {
            std::os::unix::fs::chown(&state, Some(uid), Some(gid)).unwrap();
            set_mode(&state, mode);
        };
        for (uid, gid, mode, good) in
            [(0, 0, 0o775, true), (0, 900, 0o750, true), (0, 900, 0o770, false), (900, 900, 0o700, false)]
        {
            give(uid, gid, mode);
            assert_eq!(check_versions(&layout).is_ok(), good, "{uid}:{gid} {mode:o}");
            assert_eq!(strangers(&state).unwrap().is_empty(), good);
        }
        give(0, 0, 0o755);
        std::os::unix::fs::lchown(layout.versions.join("1.0.0"), Some(900), None).unwrap();
        assert!(check_versions(&layout).is_err() && check_way(&layout, layout.versions_inside()).is_ok());
        assert!(check_way(&layout, &layout.versions_inside().join("1.0.0/bin/teleport-update")).is_err());
    }

    #[test]
    fn a_link_of_another_user_on_the_way_is_refused() {
        if !machine::is_root() {
            return;
        }
        let (dir, _) = image();
        let root = dir.path();
        super::super::durable::rename(&root.join("var/lib/teleport"), &root.join("data")).unwrap();
        symlink("/data", root.join("var/lib/teleport")).unwrap();
        let layout = Layout::new(root, None, None).unwrap();
        check_versions(&layout).unwrap();
        std::os::unix::fs::lchown(root.join("var/lib/teleport"), Some(900), Some(900)).unwrap();
        assert_eq!(check_versions(&layout).unwrap_err().code, Code::Permission);
    }

    #[test]
    fn an_image_has_no_links_among_our_names() {
        let (_dir, layout) = image();
        for name in ["updates.yaml", ".credentials", ".unmanaged", "1.0.0/backup"] {
            let link = layout.versions.join(name);
            symlink("/etc/passwd", &link).unwrap();
            assert_eq!(check_versions(&layout).unwrap_err().code, Code::PathTaken, "{name}");
            std::fs::remove_file(&link).unwrap();
        }
        std::fs::create_dir(layout.versions.join(".unmanaged")).unwrap();
        symlink("/opt/teleport", layout.versions.join(".unmanaged/teleport")).unwrap();
        check_versions(&layout).unwrap();
    }
}
