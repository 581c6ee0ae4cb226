//! Where a path leads below a root, link by link.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::ownership;

/// Links followed before a path counts as a loop (the kernel's own limit).
const MAX_LINKS: usize = 40;
/// A place that is nowhere, for what lies behind too many links: nothing can be there, and nothing can be made there.
pub(super) const NOWHERE: &str = "/dev/null/behind-too-many-links";

/// The name `inside` below `root`: its directory with all links followed, and its last part as it is.
pub(crate) fn name(root: &Path, inside: &Path) -> PathBuf {
    match (inside.parent(), inside.file_name()) {
        (Some(parent), Some(name)) => followed(root, parent).join(name),
        _ => followed(root, inside),
    }
}

/// What `inside` leads to, with every link followed as if `root` were `/`, so that no link of an image leads out of it.
/// What does not exist is taken as it is.
pub(crate) fn followed(root: &Path, inside: &Path) -> PathBuf {
    walk(root, inside, &mut |_| {})
}

/// As [`followed`]; `meet` is called with everything on the way: directories, links, and what is there at the end.
pub(crate) fn walk(root: &Path, inside: &Path, meet: &mut dyn FnMut(&Path)) -> PathBuf {
    follow_while(root, inside, &mut |path| {
        meet(path);
        true
    })
}

/// As [`walk`]; a link for which `meet` says no is taken as it is.
pub(crate) fn follow_while(root: &Path, inside: &Path, meet: &mut dyn FnMut(&Path) -> bool) -> PathBuf {
    let parts = |path: &Path| -> Vec<OsString> {
        path.components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(name.to_owned()),
                Component::ParentDir => Some("..".into()),
                _ => None,
            })
            .collect()
    };
    let mut todo = VecDeque::from(parts(inside));
    let mut found: Vec<OsString> = Vec::new();
    let below = |found: &[OsString]| {
        let mut real = root.to_owned();
        real.extend(found);
        real
    };
    let mut links = 0;
    meet(root);
    while let Some(part) = todo.pop_front() {
        if part == ".." {
            found.pop();
            continue;
        }
        let here = below(&found).join(&part);
        let follows = meet(&here);
        match std::fs::read_link(&here) {
            _ if !follows => found.push(part),
            // The kernel would begin to count anew, and follow the next one out of the image.
            Ok(_) if links == MAX_LINKS => return PathBuf::from(NOWHERE),
            Ok(target) => {
                links += 1;
                if target.is_absolute() {
                    found.clear();
                }
                for part in parts(&target).into_iter().rev() {
                    todo.push_front(part);
                }
            }
            Err(_) => found.push(part),
        }
    }
    below(&found)
}

/// What a name in a directory leads to, unless others decide that: then the name.
pub(crate) fn own_path(root: &Path, inside: &Path) -> PathBuf {
    let is_image = root != Path::new("/");
    let mut ours = true;
    follow_while(root, inside, &mut |path| {
        ours &= ownership::is_ours_alone(path);
        // Of an image every link leads to the image, whoever made it.
        ours || is_image
    })
}
