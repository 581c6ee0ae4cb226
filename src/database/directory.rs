//! The snapshot's directory in a version's directory: made beside, put in place as a whole (SPEC §6).

use std::path::{Path, PathBuf};

use super::backup::DATABASE_FILE;
use crate::host::durable;
use crate::host::process::FileId;
use crate::report::{IoContext, Result};

/// The snapshot of a version, below the version's directory.
const NAME: &str = "backup";
/// A snapshot that is not yet complete.
const NEW_NAME: &str = ".backup.new";
/// The replaced snapshot, for a moment.
const OLD_NAME: &str = ".backup.old";
/// What is kept and never restored from; further ones have a number behind the name, the newest the highest.
const ASIDE_NAME: &str = "backup-failed";
/// Most of these that a version keeps, count: each can be as large as the database.
const MAX_ASIDE: usize = 3;
/// Only root enters: the copy has the agent's keys, and its own mode may count on a closed data directory.
const MODE: u32 = 0o700;

/// The snapshot of the version in `version_dir`.
pub(crate) fn of(version_dir: &Path) -> PathBuf {
    version_dir.join(NAME)
}

/// Where a new snapshot is made before [`install`].
pub(crate) fn new_in(version_dir: &Path) -> PathBuf {
    version_dir.join(NEW_NAME)
}

/// What a version in `version_dir` has put aside, the oldest first.
pub(crate) fn asides(version_dir: &Path) -> Result<Vec<PathBuf>> {
    Ok(numbered(version_dir)?.into_iter().map(|(_, path)| path).collect())
}

fn numbered(version_dir: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let number = |name: &str| match name.strip_prefix(ASIDE_NAME)? {
        "" => Some(1),
        rest => rest.strip_prefix('-')?.parse().ok(),
    };
    let entries = match std::fs::read_dir(version_dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.at("cannot read", version_dir)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.at("cannot read", version_dir)?;
        found.extend(entry.file_name().to_str().and_then(number).map(|number| (number, entry.path())));
    }
    found.sort();
    Ok(found)
}

/// Moves the snapshot `dir` (on the same file system) to where it is never restored from, beside what is there from
/// earlier runs; of more than three the oldest goes. An earlier one that is the very file goes too: it says no more.
pub(crate) fn set_aside(version_dir: &Path, dir: &Path) -> Result<PathBuf> {
    let earlier = numbered(version_dir)?;
    // Of a run that was cut short while it described the snapshot: nobody looks into it again.
    let _ = durable::sweep_temps(dir);
    let next = |(number, _): &(u32, PathBuf)| format!("{ASIDE_NAME}-{}", number.saturating_add(1));
    let place = version_dir.join(earlier.last().map_or(ASIDE_NAME.to_owned(), next));
    durable::rename(dir, &place)?;
    let file = |dir: &Path| FileId::of(dir.join(DATABASE_FILE));
    let same = file(&place);
    let (again, others): (Vec<_>, Vec<_>) =
        earlier.into_iter().map(|(_, path)| path).partition(|path| same.is_some() && file(path) == same);
    let too_many = (others.len() + 1).saturating_sub(MAX_ASIDE);
    again.iter().chain(others.iter().take(too_many)).try_for_each(|path| durable::remove_tree(path))?;
    Ok(place)
}

/// Makes `dir` empty, mode 0700, whatever a run before left there.
pub(crate) fn make_fresh(dir: &Path) -> Result<()> {
    durable::remove_tree(dir)?;
    durable::create_dir_all(dir)?;
    durable::set_mode(dir, MODE)
}

/// Puts the complete snapshot `new_dir` (on the same file system) in the place of the version's present one, which is
/// removed. Repeated after a failure it goes on; after a crash either the old or the new one is there, [`sweep`] takes away
/// the rest.
pub(crate) fn install(version_dir: &Path, new_dir: &Path) -> Result<()> {
    let (place, old) = (of(version_dir), version_dir.join(OLD_NAME));
    // An exchange of the two names would be one step, and a second one would take it back.
    if !durable::exists(new_dir)? && durable::exists(&place)? {
        // It is there, but a sync that failed is not asked again: the name is made again.
        durable::rename(&place, new_dir)?;
    } else if durable::exists(&place)? {
        durable::remove_tree(&old)?;
        if !durable::rename_dir(&place, &old)? {
            // In an overlay's lower layer. It is of the last time that the version was left, which nobody goes back to.
            durable::remove_tree(&place)?;
        }
    }
    durable::rename(new_dir, &place)?;
    durable::remove_tree(&old)
}

/// Removes what an interrupted run left, and puts a snapshot back that was just being replaced. Not while a run is
/// making a snapshot.
pub(crate) fn sweep(version_dir: &Path) -> Result<()> {
    let old = version_dir.join(OLD_NAME);
    if durable::exists(&old)? && !durable::exists(&of(version_dir))? {
        durable::rename(&old, &of(version_dir))?;
    }
    durable::remove_tree(&old)?;
    durable::remove_tree(&new_in(version_dir))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn filled(dir: &Path, content: &str) {
        make_fresh(dir).unwrap();
        durable::write(&dir.join("x"), content.as_bytes(), 0o600).unwrap();
    }

    fn content(version: &Path) -> String {
        std::fs::read_to_string(of(version).join("x")).unwrap()
    }

    #[test]
    fn a_snapshot_is_replaced_as_a_whole_and_closed_to_others() {
        let version = tempfile::tempdir().unwrap();
        let version = version.path();
        for text in ["one", "two"] {
            filled(&new_in(version), text);
            install(version, &new_in(version)).unwrap();
            assert_eq!(content(version), text);
        }
        filled(&version.join("elsewhere"), "three");
        install(version, &version.join("elsewhere")).unwrap();
        assert_eq!(content(version), "three");
        // After a failure anywhere: what was replaced is still there, or the last sync failed.
        filled(&version.join(OLD_NAME), "two");
        install(version, &new_in(version)).unwrap();
        assert_eq!(content(version), "three");
        filled(&new_in(version), "four");
        durable::rename(&of(version), &version.join(OLD_NAME)).unwrap();
        install(version, &new_in(version)).unwrap();
        assert_eq!(content(version), "four");
        assert_eq!(std::fs::metadata(of(version)).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(std::fs::read_dir(version).unwrap().count(), 1);
    }

    #[test]
    fn what_is_put_aside_stands_beside_what_was_before_and_the_oldest_of_more_than_three_goes() {
        let version = tempfile::tempdir().unwrap();
        let version = version.path();
        let names =
            || asides(version).unwrap().iter().map(|path| path.file_name().unwrap().to_owned()).collect::<Vec<_>>();
        for text in ["1", "2", "3", "4"] {
            filled(&new_in(version), text);
            durable::write(&durable::temp_beside(&new_in(version).join("y")), b"", 0o600).unwrap();
            let place = set_aside(version, &new_in(version)).unwrap();
            assert_eq!(std::fs::read_to_string(place.join("x")).unwrap(), text);
            assert_eq!(std::fs::read_dir(place).unwrap().count(), 1, "no temporary file of a run that was cut short");
        }
        assert_eq!(names(), ["backup-failed-2", "backup-failed-3", "backup-failed-4"]);
        // The same file once more is the same evidence, later.
        for _ in 0..2 {
            filled(&new_in(version), "5");
            durable::write(&version.join("live"), b"rows", 0o600).unwrap();
            std::fs::hard_link(version.join("live"), new_in(version).join(DATABASE_FILE)).unwrap();
            set_aside(version, &new_in(version)).unwrap();
            durable::create_dir_all(&new_in(version)).unwrap();
            std::fs::hard_link(asides(version).unwrap()[2].join(DATABASE_FILE), new_in(version).join(DATABASE_FILE))
                .unwrap();
            set_aside(version, &new_in(version)).unwrap();
        }
        assert_eq!(names().len(), 3);
        assert_eq!(asides(version).unwrap().iter().filter(|path| path.join(DATABASE_FILE).exists()).count(), 2);
    }

    #[test]
    fn sweeping_leaves_the_snapshot_and_puts_back_one_that_was_being_replaced() {
        let version = tempfile::tempdir().unwrap();
        let version = version.path();
        filled(&version.join(OLD_NAME), "old");
        filled(&new_in(version), "new");
        sweep(version).unwrap();
        assert_eq!(content(version), "old");
        filled(&new_in(version), "new");
        filled(&version.join(OLD_NAME), "older");
        sweep(version).unwrap();
        assert_eq!(content(version), "old");
        assert_eq!(std::fs::read_dir(version).unwrap().count(), 1);
    }
}
