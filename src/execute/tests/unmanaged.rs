//! What is kept of an agent that was none of ours, and what of it outlives the way back.

use super::*;
use crate::database::backup::{Backup, DATABASE_FILE, DESCRIPTION_FILE};
use crate::database::directory;
use crate::execute::steps::packages::PACKAGE_COPIES;
use crate::execute::unmanaged::{forget, keep_rows, noted, remember};
use crate::store::UNMANAGED;

/// A versions directory with what a run to 2.0.0 has replaced: its copy of the database, a unit.
struct Kept {
    dir: tempfile::TempDir,
}

impl Kept {
    fn after(database: Database) -> Self {
        let kept = Self { dir: tempfile::tempdir().unwrap() };
        let plan = Plan { database, to_dir: Some("2.0.0".into()), ..Plan::none(Direction::First) };
        durable::create_dir_all(&kept.at("2.0.0")).unwrap();
        remember(kept.dir.path(), &plan).unwrap();
        assert_eq!(noted(kept.dir.path()).unwrap(), Some(plan));
        directory::make_fresh(&directory::of(&kept.at(UNMANAGED))).unwrap();
        durable::write(&kept.copy(), b"rows", 0o600).unwrap();
        durable::write(&kept.at(UNMANAGED).join("teleport.service"), b"", 0o644).unwrap();
        kept
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn copy(&self) -> PathBuf {
        directory::of(&self.at(UNMANAGED)).join(DATABASE_FILE)
    }

    /// Whether the copy stays with the version; everything else goes.
    fn is_rescued(&self) -> bool {
        forget(self.dir.path()).unwrap();
        assert!(!durable::exists(&self.at(UNMANAGED)).unwrap());
        assert_eq!(noted(self.dir.path()).unwrap(), None);
        forget(self.dir.path()).unwrap();
        let rescued = self.at("2.0.0").join(EVIDENCE_BESIDE_SNAPSHOT).join(DATABASE_FILE);
        assert!(!rescued.exists() || std::fs::read(&rescued).unwrap() == b"rows");
        rescued.exists()
    }
}

/// Says of the copy in `dir` whether a failed version wrote it.
fn describe(dir: &Path, failed: bool) {
    let description = format!(
        "version: v1\nkind: db_backup\nspec:\n  version: 1.0.0\n  creation_time: 2026-01-02T03:04:05Z\n  failed: {failed}\n"
    );
    durable::write(&dir.join(DESCRIPTION_FILE), description.as_bytes(), 0o644).unwrap();
}

#[test]
fn rows_that_a_restore_replaced_stay_with_the_version_that_was_gone_to() {
    assert!(Kept::after(Database::Restore).is_rescued());
    assert!(!Kept::after(Database::Keep).is_rescued(), "they are in the database that is in use");
}

#[test]
fn a_damaged_database_stays_with_the_version_that_was_gone_to() {
    for failed in [true, false] {
        let kept = Kept::after(Database::Keep);
        describe(&directory::of(&kept.at(UNMANAGED)), failed);
        let is_failed = Backup::is_failed(&directory::of(&kept.at(UNMANAGED)));
        assert_eq!(is_failed.map_err(|error| error.to_string()), Ok(failed));
        assert_eq!(kept.is_rescued(), failed);
    }
}

#[test]
fn nothing_is_kept_where_there_are_no_rows_or_no_version_to_keep_them_with() {
    let kept = Kept::after(Database::Restore);
    durable::remove_file(&kept.copy()).unwrap();
    assert!(!kept.is_rescued());
    let kept = Kept::after(Database::Restore);
    durable::remove_tree(&kept.at("2.0.0")).unwrap();
    assert!(!kept.is_rescued());
    assert!(!durable::exists(&kept.at("2.0.0")).unwrap());
}

#[test]
fn copies_that_a_packages_removal_needs_outlive_everything_else() {
    let kept = Kept::after(Database::Restore);
    let copies = kept.at(UNMANAGED).join(PACKAGE_COPIES);
    durable::create_dir_all(&copies).unwrap();
    durable::write(&copies.join("teleport"), b"", 0o755).unwrap();
    forget(kept.dir.path()).unwrap();
    let names: Vec<_> = durable::entries(&kept.at(UNMANAGED)).unwrap().iter().map(|entry| entry.file_name()).collect();
    assert_eq!(names, [PACKAGE_COPIES]);
    assert!(copies.join("teleport").exists());
}

#[test]
fn a_run_keeps_what_it_replaced_of_others_only_while_it_is_watched_and_no_run_keeps_an_earlier_ones() {
    for (unmanaged, watched) in [(true, true), (true, false), (false, true), (false, false)] {
        let bed = Bed::new();
        let mut moved = plan(vec![bed.switch()]);
        moved.unmanaged = unmanaged;
        if watched {
            moved.switch.push(Step::Health { binary: bed.target("2.0.0"), served: true, failing: false });
        }
        let versions = &bed.layout.versions;
        remember(versions, &Plan::none(Direction::First)).unwrap();
        let mut journal = bed.begin(&moved);
        journal.append(Record::Commit).unwrap();
        recovery::run(&bed.site(), journal, &mut |_| panic!("undone")).unwrap();
        assert_eq!(noted(versions).unwrap(), (unmanaged && watched).then_some(moved), "{unmanaged} {watched}");
    }
}

#[test]
fn what_a_version_without_a_directory_left_stays_with_the_next_one_unless_it_is_in_use() {
    for (database, failed, stays) in
        [(Database::Keep, false, false), (Database::Keep, true, true), (Database::Restore, false, true)]
    {
        let bed = Bed::new();
        let taken = directory::of(&bed.layout.versions.join(UNMANAGED));
        durable::create_dir_all(&taken).unwrap();
        durable::write(&taken.join(DATABASE_FILE), b"rows", 0o600).unwrap();
        describe(&taken, failed);
        keep_rows(&bed.layout.versions, &Plan { database, ..plan(Vec::new()) }).unwrap();
        let kept = bed.version("2.0.0").join(EVIDENCE_BESIDE_SNAPSHOT).join(DATABASE_FILE);
        assert_eq!((kept.exists(), taken.exists()), (stays, !stays), "{database:?} {failed}");
    }
}
