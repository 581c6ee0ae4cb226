//! The pid file: written by rename, removed only by its owner.

use std::fs;
use std::path::Path;

/// Names this process in `path`, at once or not at all: systemd may read it at any time.
///
/// # Errors
/// What the file system says.
pub(crate) fn write(path: &Path) -> std::io::Result<()> {
    let pid = std::process::id();
    let temporary = path.with_extension(format!("{pid}.tmp"));
    fs::write(&temporary, format!("{pid}\n"))?;
    fs::rename(&temporary, path)
}

/// Removes `path` if it names this process.
pub(crate) fn remove_own(path: &Path) {
    let own = fs::read_to_string(path).is_ok_and(|text| text.trim() == std::process::id().to_string());
    if own {
        let _ = fs::remove_file(path);
    }
}
