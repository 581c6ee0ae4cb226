//! Names in archives: what is accepted stays below, and a link's target in the archive.

use std::path::{Component, Path, PathBuf};

use teleport_update::testing::Code;
use teleport_update::testing::release::{archive_path as parse, link_target, place_of};

/// Any bytes as an entry's name, and what follows the first NUL as a link's target.
pub fn archive_path(bytes: &[u8]) {
    let mut halves = bytes.splitn(2, |byte| *byte == 0);
    let (name, target) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
    let path = match parse(name) {
        Ok(path) => path,
        Err(error) => return assert_eq!(error.code, Code::ArchiveHostile),
    };
    assert!(is_inside(&path), "{path:?}");
    assert_eq!(parse(path.as_bytes()).as_ref(), Ok(&path));
    // What the name says to the kernel, where nothing is a link.
    assert_eq!(walk(Path::new(""), name), Some(PathBuf::from(&path)));
    for is_hard in [false, true] {
        let Some(leads) = link_target(name, target, is_hard, "teleport").unwrap() else { continue };
        assert!(is_inside(&leads) && (leads == "teleport" || leads.starts_with("teleport/")), "{leads:?}");
        let from = if is_hard { Path::new("") } else { Path::new(&path).parent().unwrap_or(Path::new("")) };
        assert_eq!(walk(from, target), Some(PathBuf::from(&leads)));
    }
    // The top itself is a folder or refused: it never asks for a place.
    if path.is_empty() {
        return;
    }
    for mode in [0o644, 0o755] {
        let Some(to) = place_of(&path, mode, None) else { continue };
        assert!(is_inside(&to), "{to:?}");
        let has_place =
            ["bin/", "share/"].iter().any(|top| to.starts_with(top)) || to == "etc/systemd/teleport.service";
        assert!(has_place && (mode == 0o755 || !to.starts_with("bin/")), "{path:?} goes to {to:?}");
    }
}

fn is_inside(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
        && !path.contains(char::is_control)
        && !path.contains("//")
        && !path.ends_with('/')
}

/// Where `name` leads from the folder `from`; `None` above the top.
fn walk(from: &Path, name: &[u8]) -> Option<PathBuf> {
    let mut here = from.to_owned();
    for part in Path::new(std::str::from_utf8(name).ok()?).components() {
        match part {
            Component::Normal(part) => here.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                if !here.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(here)
}
