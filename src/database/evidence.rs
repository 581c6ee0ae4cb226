//! What failed versions wrote: kept in their directories, and longer than the versions themselves (SPEC §6, rows).

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::{Backup, directory};
use crate::report::Result;

/// Retention leaves it so long, hours: a month for somebody to look at it.
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Where the version in `version_dir` has what its failed runs wrote.
///
/// Errors: `permission`, `io`.
pub(crate) fn of(version_dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for place in directory::asides(version_dir)?.into_iter().chain([directory::of(version_dir)]) {
        if Backup::is_failed(&place)? {
            found.push(place);
        }
    }
    Ok(found)
}

/// Whether retention leaves `place`, one of [`of`], at the time `now`.
pub(crate) fn is_kept(place: &Path, now: Timestamp) -> bool {
    // What cannot be read now is not known to be old.
    Backup::read(place)
        .map_or(true, |backup| backup.is_some_and(|backup| now.duration_since(backup.creation_time) < KEPT))
}
