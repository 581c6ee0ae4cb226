//! A directory tree as a list of lines: two equal lists are equal trees.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Most lines of a difference that are shown.
const SHOWN: usize = 4;

/// Every path below `dir` with mode (and owner, where that is another than who looks), size, link target and digest;
/// directories end in `/`.
///
/// # Errors
/// Something cannot be read.
pub fn tree(dir: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    walk(dir, "", &mut found)?;
    Ok(found)
}

fn walk(dir: &Path, shown: &str, found: &mut Vec<String>) -> io::Result<()> {
    let mut entries = std::fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let meta = std::fs::symlink_metadata(&path)?;
        let shown = format!("{shown}{}", entry.file_name().to_string_lossy());
        let mode = mode(&meta);
        if meta.is_dir() {
            found.push(format!("{shown}/ {mode}"));
            walk(&path, &format!("{shown}/"), found)?;
        } else if meta.is_symlink() {
            found.push(format!("{shown} -> {}", std::fs::read_link(&path)?.display()));
        } else {
            let bytes = std::fs::read(&path)?;
            found.push(format!("{shown} {mode} {} {}", bytes.len(), hex(&Sha256::digest(&bytes))));
        }
    }
    Ok(())
}

fn mode(meta: &std::fs::Metadata) -> String {
    let mode = format!("{:o}", meta.mode() & 0o7777);
    if meta.uid() == rustix::process::geteuid().as_raw() {
        mode
    } else {
        format!("{mode}:{}:{}", meta.uid(), meta.gid())
    }
}

/// Lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lines of `now` that `before` lacks (`+`) and the other way round (`-`): what to show of two trees.
pub fn difference(before: &[String], now: &[String]) -> String {
    let gone = before.iter().filter(|line| !now.contains(line)).map(|line| format!("-{line}"));
    let come = now.iter().filter(|line| !before.contains(line)).map(|line| format!("+{line}"));
    let all: Vec<String> = gone.chain(come).collect();
    match all.len().saturating_sub(SHOWN) {
        0 => all.join(", "),
        more => format!("{} and {more} more", all[..SHOWN].join(", ")),
    }
}
