//! What stands under a name, and whose it is.

use std::path::{Path, PathBuf};

use crate::host::{Layout, durable};
use crate::plan::{Node, OWN_MARK};
use crate::report::{Code, Error, IoContext, Result};
use crate::store::UNMANAGED;

/// What the Go updater's files begin with, which decides whose they are.
pub(super) const FOREIGN_MARK: &str = "# teleport-update";

/// Largest unit file that is read, bytes.
const MAX_UNIT: u64 = 64 * 1024;

/// What stands at `path`; `file` says what a regular file counts as.
pub(super) fn look(path: &Path, file: impl FnOnce() -> Result<Node>) -> Result<Node> {
    match std::fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(Node::Absent)
        }
        Err(error) => Err(error).at("cannot read", path),
        Ok(meta) if meta.is_symlink() => std::fs::read_link(path).at("cannot read", path).map(Node::Link),
        Ok(meta) if meta.is_file() => file(),
        Ok(_) => Err(Error::new(Code::PathTaken, format!("{} is neither a file nor a link", path.display()))
            .advise("move it away: teleport-update must create a symlink there")),
    }
}

/// A unit file of ours as text; anybody else's is kept before it is replaced. The Go updater's is remembered otherwise.
pub(super) fn own_text(layout: &Layout, path: &Path) -> Result<Node> {
    Ok(match unit_text(path)? {
        Some(text) if text.starts_with(OWN_MARK) || text.starts_with(FOREIGN_MARK) => Node::Text(text),
        _ => Node::Kept(kept_unit(layout, path)),
    })
}

/// The text of a unit file; `None` if it is not there, larger than any of ours, or no text. Errors: `permission`, `io`.
pub(super) fn unit_text(path: &Path) -> Result<Option<String>> {
    match durable::read_limited(path, MAX_UNIT) {
        Err(_) if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() || meta.len() > MAX_UNIT) => Ok(None),
        bytes => Ok(bytes?.and_then(|bytes| String::from_utf8(bytes).ok())),
    }
}

/// Where a unit of others is kept while ours stands in its place.
pub(super) fn kept_unit(layout: &Layout, path: &Path) -> PathBuf {
    layout.versions.join(UNMANAGED).join(path.file_name().unwrap_or_default())
}
