//! A name inside an archive that was found harmless: relative, UTF-8, no dots, no control characters.

use crate::report::{Code, Error, Result};

/// Longest whole name, bytes, and most parts of it: each costs memory and a look, ten thousand times. Releases of 2018 to
/// 2026 have 90 and seven.
const MAX_LEN: usize = 512;
const MAX_PARTS: usize = 8;
/// Longest part, bytes (NAME_MAX).
const MAX_PART_LEN: usize = 255;

/// A normalised relative path: no empty, `.` or `..` part, no slash at either end. Empty means the top itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArchivePath(String);

impl ArchivePath {
    /// Checks an entry's name. Errors: [`Code::ArchiveHostile`].
    pub(super) fn parse(name: &[u8]) -> Result<Self> {
        let hostile = |why: &str| {
            let start = String::from_utf8_lossy(name.get(..100).unwrap_or(name)).into_owned();
            Error::new(Code::ArchiveHostile, format!("the archive has an entry {start:?}: {why}"))
        };
        let text = std::str::from_utf8(name).map_err(|_| hostile("not UTF-8"))?;
        if text.len() > MAX_LEN {
            return Err(hostile("name too long"));
        }
        if text.chars().any(char::is_control) {
            return Err(hostile("control characters in its name"));
        }
        if text.starts_with('/') {
            return Err(hostile("absolute name"));
        }
        let mut parts = Vec::new();
        for part in text.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if part == ".." {
                return Err(hostile("its name contains \"..\""));
            }
            if part.len() > MAX_PART_LEN {
                return Err(hostile("name too long"));
            }
            parts.push(part);
        }
        if parts.len() > MAX_PARTS {
            return Err(hostile(&format!("more than {MAX_PARTS} directory levels")));
        }
        Ok(Self(parts.join("/")))
    }

    /// Where a link at this path leads, `None` when it leaves the archive's `top` folder. `target` counts from the
    /// link's own folder, or from the archive's root for a hard link.
    pub(super) fn link_target(&self, target: &[u8], is_hard: bool, top: &str) -> Option<String> {
        let target = std::str::from_utf8(target).ok()?;
        if target.starts_with('/') || target.is_empty() || target.chars().any(char::is_control) {
            return None;
        }
        let mut parts: Vec<&str> = if is_hard { Vec::new() } else { self.0.split('/').collect() };
        if !is_hard {
            parts.pop();
        }
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop()?;
                }
                part => parts.push(part),
            }
        }
        (parts.first() == Some(&top)).then(|| parts.join("/"))
    }

    /// The path.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders above, the outermost first.
    pub(super) fn ancestors(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(at, _)| &self.0[..at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalised() {
        for (name, expected) in [("./teleport//tsh", "teleport/tsh"), ("teleport/", "teleport"), ("./", "")] {
            assert_eq!(ArchivePath::parse(name.as_bytes()).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn names_that_could_do_harm_are_refused() {
        let long = "a".repeat(256);
        let long_in_all = format!("{0}/{0}/{0}", "a".repeat(200));
        let deep = "a/".repeat(9);
        for name in ["/etc/passwd", "teleport/../x", "..", "a\nb", "a\x1b[1m", "a\0b", &long, &long_in_all, &deep] {
            assert_eq!(ArchivePath::parse(name.as_bytes()).unwrap_err().code, Code::ArchiveHostile, "{name:?}");
        }
        assert!(ArchivePath::parse(b"a\xff").is_err());
    }

    #[test]
    fn a_name_of_eight_parts_is_the_deepest() {
        let name = ["a"; 8].join("/");
        assert_eq!(ArchivePath::parse(name.as_bytes()).unwrap().as_str(), name);
    }

    #[test]
    fn a_link_may_lead_only_to_its_own_archive() {
        let link = ArchivePath::parse(b"teleport/sub/link").unwrap();
        for (target, is_hard, inside) in [
            ("../tsh", false, true),
            ("x", false, true),
            ("../../teleport/tsh", false, true),
            ("../../etc", false, false),
            ("../../../etc", false, false),
            ("/etc/passwd", false, false),
            ("", false, false),
            ("teleport/tsh", true, true),
            ("../tsh", true, false),
            ("etc/passwd", true, false),
        ] {
            assert_eq!(link.link_target(target.as_bytes(), is_hard, "teleport").is_some(), inside, "{target}");
        }
    }
}
