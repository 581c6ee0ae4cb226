//! A directory to unpack into, with a guarded neighbourhood around it.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The root lies this deep below the sandbox, so that `../../..` still ends where it is looked for.
const DEPTH: &str = "a/b/c/d";
/// Names that hostile archives like; they are there already, so that a write through them is seen.
const DECOYS: [&str; 6] = ["etc/passwd", "evil", "x", "tmp/evil", "bin/sh", "a/b/secret"];

/// The neighbourhood: everything in it but the root must stay as it was.
pub(crate) struct Sandbox {
    dir: TempDir,
    before: BTreeMap<PathBuf, Fact>,
}

/// What a change of a file shows in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fact {
    inode: u64,
    mode: u32,
    links: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    content: Vec<u8>,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let dir = dir();
        let top = dir.path();
        fs::create_dir_all(top.join(DEPTH)).unwrap();
        for decoy in DECOYS {
            let file = top.join(decoy);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "must stay").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        // Beside the root, and leading away from it.
        symlink(top.join("etc"), top.join(DEPTH).join("out")).unwrap();
        symlink("../../../../evil", top.join(DEPTH).join("teleport")).unwrap();
        let before = look(top);
        Self { dir, before }
    }

    /// Where to unpack to: does not exist.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join(DEPTH).join("root")
    }

    /// An absolute path that must not be touched.
    pub(crate) fn outside(&self) -> PathBuf {
        self.dir.path().join("etc")
    }

    /// Removes the root, and panics if anything beside it is not as it was.
    pub(crate) fn check(&self) {
        let root = self.root();
        if root.exists() {
            // A folder that the archive closed must not keep it from being removed; nobody is root here perhaps.
            fs::remove_dir_all(&root).unwrap();
        }
        let mut after = look(self.dir.path());
        // The root's own coming and going is seen in its parent's times.
        let parent = PathBuf::from(DEPTH);
        if let Some((here, there)) = after.get_mut(&parent).zip(self.before.get(&parent)) {
            (here.modified, here.changed, here.size, here.links) =
                (there.modified, there.changed, there.size, there.links);
        }
        assert_eq!(after, self.before, "something outside the root changed");
    }
}

/// A new directory in memory where there is one.
pub(crate) fn dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("oracle-").tempdir_in(base).unwrap()
}

fn look(top: &Path) -> BTreeMap<PathBuf, Fact> {
    let mut found = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_dir() {
                open.push(path.clone());
                Vec::new()
            } else if meta.is_file() {
                fs::read(&path).unwrap()
            } else {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            };
            found.insert(path.strip_prefix(top).unwrap().to_owned(), fact(&meta, content));
        }
    }
    found
}

fn fact(meta: &Metadata, content: Vec<u8>) -> Fact {
    Fact {
        inode: meta.ino(),
        mode: meta.mode(),
        links: meta.nlink(),
        size: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        changed: (meta.ctime(), meta.ctime_nsec()),
        content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(sandbox: &Sandbox) -> bool {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sandbox.check())).is_err()
    }

    #[test]
    fn what_happens_in_the_root_is_free_and_all_else_is_seen() {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.root()).unwrap();
        fs::write(sandbox.root().join("x"), "x").unwrap();
        sandbox.check();
        let changes: [fn(&Path); 5] = [
            |top| fs::write(top.join("evil"), "must stay").unwrap(),
            |top| fs::write(top.join(DEPTH).join("new"), "").unwrap(),
            |top| fs::remove_file(top.join("a/b/secret")).unwrap(),
            |top| fs::hard_link(top.join("x"), top.join("bin/y")).unwrap(),
            |top| fs::set_permissions(top.join("etc/passwd"), fs::Permissions::from_mode(0o644)).unwrap(),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let sandbox = Sandbox::new();
            change(sandbox.dir.path());
            assert!(panics(&sandbox), "change {number}");
        }
    }
}
