//! What failed versions wrote: which it is, and how long it is kept.

use super::*;
use crate::database::evidence;
use jiff::{SignedDuration, Timestamp};

/// A description of a snapshot, in `dir`.
fn describe(dir: &Path, failed: bool) -> Backup {
    let backup = Backup { failed, ..Bed::with_snapshot("WAL", 1).1 };
    durable::create_dir_all(dir).unwrap();
    backup.write(dir).unwrap();
    backup
}

#[test]
fn evidence_is_what_failed_runs_left_and_no_other_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (name, failed) in [("backup", false), ("backup-failed", true), ("backup-failed-2", false), ("backup-x", true)] {
        describe(&at(name), failed);
    }
    durable::create_dir_all(&at("backup-failed-3")).unwrap();
    durable::create_dir_all(&at("backup-failed-4")).unwrap();
    durable::write(&at("backup-failed-4").join(DESCRIPTION_FILE), b"{", 0o644).unwrap();
    assert_eq!(evidence::of(dir.path()).unwrap(), [at("backup-failed")]);
    describe(&at("backup"), true);
    describe(&at("backup-failed-10"), true);
    assert_eq!(evidence::of(dir.path()).unwrap(), ["backup-failed", "backup-failed-10", "backup"].map(at));
    assert_eq!(evidence::of(&at("nowhere")).unwrap(), [] as [PathBuf; 0]);
    // What cannot be looked at is not known to be nothing.
    assert!(evidence::of(&at("backup").join(DESCRIPTION_FILE)).is_err());
}

#[test]
fn evidence_is_kept_for_a_month_and_longer_where_its_age_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let backup = describe(dir.path(), true);
    let after = |seconds: i64| -> Timestamp {
        backup.creation_time.checked_add(SignedDuration::from_hours(30 * 24)).unwrap()
            + SignedDuration::from_secs(seconds)
    };
    for (now, is_kept) in [(after(-1), true), (after(0), false), (after(1), false)] {
        assert_eq!(evidence::is_kept(dir.path(), now), is_kept, "{now}");
    }
    durable::write(&dir.path().join(DESCRIPTION_FILE), b"{", 0o644).unwrap();
    assert!(evidence::is_kept(dir.path(), after(1)));
    durable::remove_file(&dir.path().join(DESCRIPTION_FILE)).unwrap();
    assert!(!evidence::is_kept(dir.path(), after(-1)), "nothing is there to be kept");
}
