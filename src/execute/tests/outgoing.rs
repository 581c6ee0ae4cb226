//! What happens to the database that was left when somebody else opens it, writes to it, or it is not a good one.

use std::io::Write;

use super::super::steps;
use super::database::{restoring, with_snapshot_of_the_target};
use super::*;
use crate::database::backup::DATABASE_FILE;
use crate::database::{Backup, directory, restore};
use crate::store::UNMANAGED;

impl Bed {
    /// What was the live database, beside its place as a snapshot.
    fn taken(&self) -> PathBuf {
        directory::new_in(&self.version("1.0.0")).join(DATABASE_FILE)
    }

    /// Does the first `count` steps of `plan` and announces the next.
    fn stop_before(&self, plan: &Plan, count: usize) -> (Journal, Site<'_>) {
        let site = self.site();
        let mut journal = self.begin(plan);
        for (index, step) in plan.switch.iter().take(count).enumerate() {
            journal.append(Record::Intent { step: index }).unwrap();
            let note = steps::perform(&site, plan, step).unwrap();
            journal.append(Record::Done { step: index, note }).unwrap();
        }
        journal.append(Record::Intent { step: count }).unwrap();
        (journal, site)
    }

    /// Does the plan so far that the database is restored.
    fn stop_behind_restore(&self, plan: &Plan) -> (Journal, Site<'_>) {
        let (journal, site) = self.stop_before(plan, RESTORE);
        steps::perform(&site, plan, &plan.switch[RESTORE]).unwrap();
        (journal, site)
    }

    /// Makes copies of what was taken, as on another file system, and notes that.
    fn copy_taken(&self, journal: &mut Journal, site: &Site<'_>, beside: &[&str]) {
        let beside = beside.iter().map(|name| self.taken().with_file_name(name));
        for file in beside.chain([self.taken()]) {
            let bytes = std::fs::read(&file).unwrap();
            durable::write(&file, &bytes, 0o600).unwrap();
        }
        let snapshot = Some(SnapshotId::Sha256(Digest::of_file(&self.taken()).unwrap().0));
        let note = Note { snapshot, file: site.downtime.borrow().left, ..Note::default() };
        journal.append(Record::Done { step: 4, note }).unwrap();
    }

    /// The rows that were put aside in a version's directory.
    fn aside(&self, version: &str) -> Option<Vec<String>> {
        let file = self.version(version).join(EVIDENCE_BESIDE_SNAPSHOT).join(DATABASE_FILE);
        file.exists().then(|| rows(&file))
    }
}

/// A host with rows "one" of 1.0.0 and a snapshot "two" of 2.0.0, and the plan to go there.
fn host() -> (Bed, Plan) {
    let bed = Bed::new();
    with_snapshot_of_the_target(&bed);
    let plan = restoring(&bed);
    (bed, plan)
}

/// Writes to the very file, as a program that has it open.
fn overwrite(file: &Path, bytes: &[u8]) {
    File::options().write(true).truncate(true).open(file).unwrap().write_all(bytes).unwrap();
}

/// Starts a program of somebody else that has the file open.
fn stranger(held: File) -> Child {
    Child::start(Path::new("/bin/sleep"), Some(held))
}

/// The place of a step in that plan.
const RESTORE: usize = 5;
const SWITCH: usize = 6;

#[test]
fn a_database_that_somebody_opens_after_it_was_taken_is_not_replaced() {
    type Meanwhile = fn(&Bed) -> Option<Child>;
    let open = |bed: &Bed| Some(stranger(File::open(bed.db()).unwrap()));
    let write = |bed: &Bed| {
        write_rows(&bed.db(), &["late"]);
        None
    };
    let log = |bed: &Bed| {
        durable::write(&bed.db().with_file_name("sqlite.db-wal"), b"rows", 0o600).unwrap();
        None
    };
    let journal = |bed: &Bed| {
        durable::write(&bed.db().with_file_name("sqlite.db-journal"), b"\xd9\xd5\x05\xf9", 0o600).unwrap();
        None
    };
    let all: [(&str, Meanwhile); 4] =
        [("opened", open), ("written to", write), ("logged", log), ("to be rolled back", journal)];
    for (what, meanwhile) in all {
        let (bed, plan) = host();
        let file = inode(&bed.db());
        let (journal, site) = bed.stop_before(&plan, RESTORE);
        let other = meanwhile(&bed);
        let names = bed.tree().len();
        let error = steps::perform(&site, &plan, &plan.switch[RESTORE]).unwrap_err();
        assert_eq!(error.code, Code::DatabaseBusy, "{what}: {error}");
        assert_eq!((inode(&bed.db()), bed.tree().len()), (file, names), "{what}");
        drop((journal, other));
        bed.recover();
        assert_eq!((inode(&bed.db()), std::fs::metadata(bed.db()).unwrap().nlink()), (file, 1), "{what}");
        if what == "written to" {
            assert_eq!(rows(&bed.db()), ["one", "late"]);
        }
        assert!(bed.aside("1.0.0").is_none() && bed.aside("2.0.0").is_none());
    }
}

#[test]
fn a_database_that_came_after_none_was_taken_is_not_replaced() {
    let (bed, plan) = host();
    durable::remove_file(&bed.db()).unwrap();
    let (journal, site) = bed.stop_before(&plan, RESTORE);
    write_rows(&bed.db(), &["new"]);
    let error = steps::perform(&site, &plan, &plan.switch[RESTORE]).unwrap_err();
    assert_eq!(error.code, Code::DatabaseBusy);
    drop(journal);
    bed.recover();
    assert_eq!(rows(&bed.db()), ["new"]);
}

#[test]
fn what_was_written_to_the_file_that_was_left_comes_back_only_if_it_is_whole_and_is_never_removed() {
    let (bed, plan) = host();
    let (journal, _) = bed.stop_behind_restore(&plan);
    drop(journal);
    let whole = std::fs::read(bed.taken()).unwrap();
    let mut broken = whole.clone();
    broken[4096..].fill(0xa5);
    // By whoever had it open when it was renamed over.
    overwrite(&bed.taken(), &broken);
    for _ in 0..2 {
        let error = recovery::run(&bed.site(), bed.reopen().unwrap(), &mut |_| panic!("undone")).unwrap_err();
        assert!(error.what.contains(&bed.taken().display().to_string()), "{error}");
        assert_eq!((std::fs::read(bed.taken()).unwrap(), rows(&bed.db())), (broken.clone(), vec!["two".to_owned()]));
    }
    overwrite(&bed.taken(), &whole);
    write_rows(&bed.taken(), &["repaired"]);
    bed.recover();
    assert_eq!(rows(&bed.db()), ["one", "repaired"]);
    assert!(!bed.taken().exists());
}

#[test]
fn what_an_agent_writes_to_the_file_that_was_left_until_it_is_stopped_comes_back() {
    let (bed, plan) = host();
    let (journal, site) = bed.stop_behind_restore(&plan);
    drop((journal, site));
    let checkpointed = bed.dir.path().join("checkpointed");
    write_rows(&checkpointed, &["one", "in its log"]);
    let stop = format!("cat {} >{}", checkpointed.display(), bed.taken().display());
    bed.recover_at(&Site { service: bed.commands("true", &stop, None), ..bed.site() });
    assert_eq!(rows(&bed.db()), ["one", "in its log"]);
}

#[test]
fn what_was_damaged_when_it_was_left_comes_back_as_it_was() {
    let (bed, plan) = host();
    durable::write(&bed.db(), b"no database", 0o600).unwrap();
    let file = inode(&bed.db());
    bed.kill(&Plan { switch: plan.switch[..=SWITCH].to_vec(), ..plan }, || ());
    bed.recover();
    assert_eq!(std::fs::read(bed.db()).unwrap(), b"no database");
    assert_eq!((inode(&bed.db()), std::fs::metadata(bed.db()).unwrap().nlink()), (file, 1));
    assert!(!bed.taken().exists());
}

#[test]
fn rows_that_the_old_version_wrote_to_the_restored_database_are_kept_when_it_goes() {
    let (bed, plan) = host();
    let (journal, site) = bed.stop_before(&plan, SWITCH);
    drop((journal, site));
    // Killed before the link moved; the operator has started what it leads to.
    write_rows(&bed.db(), &["of the old version"]);
    bed.recover();
    assert_eq!(rows(&bed.db()), ["one"]);
    assert_eq!(bed.aside("2.0.0").unwrap(), ["two", "of the old version"]);
}

#[test]
fn a_live_file_that_was_never_replaced_stays_although_the_snapshot_is_a_copy() {
    for none in [false, true] {
        let (bed, plan) = host();
        if none {
            let of_two = bed.version("2.0.0").join("backup");
            durable::remove_file(&of_two.join(DATABASE_FILE)).unwrap();
            let described = Backup::read(&of_two).unwrap().unwrap();
            Backup { content: crate::database::Content::Absent, ..described }.write(&of_two).unwrap();
        }
        let file = inode(&bed.db());
        let (journal, site) = bed.stop_before(&plan, 4);
        drop((journal, site));
        // As on another file system.
        let mut journal = bed.reopen().unwrap();
        let site = bed.site();
        let linked = steps::perform(&site, &plan, &plan.switch[4]).unwrap();
        let bytes = std::fs::read(bed.taken()).unwrap();
        durable::remove_file(&bed.taken()).unwrap();
        durable::write(&bed.taken(), &bytes, 0o600).unwrap();
        let note = Note { snapshot: Some(SnapshotId::Sha256(Digest::of_file(&bed.taken()).unwrap().0)), ..linked };
        journal.append(Record::Done { step: 4, note }).unwrap();
        journal.append_all(vec![Record::Intent { step: RESTORE }, Record::Intent { step: SWITCH }]).unwrap();
        drop((journal, site));
        write_rows(&bed.db(), &["since"]);
        bed.recover();
        assert_eq!((inode(&bed.db()), rows(&bed.db())), (file, vec!["one".to_owned(), "since".to_owned()]));
        assert!(bed.aside("2.0.0").is_none() && !restore::is_prepared(&bed.db()).unwrap());
    }
}

#[test]
fn a_database_that_was_left_with_its_log_comes_back_with_it() {
    let bytes = b"a newer format";
    for cut in ["before the log goes", "after the log has gone", "after the swap", "at the end"] {
        for copied in [false, true] {
            let (bed, plan) = host();
            let log = bed.db().with_file_name("sqlite.db-wal");
            durable::write(&bed.db(), bytes, 0o600).unwrap();
            durable::write(&log, b"its rows", 0o600).unwrap();
            let (mut journal, site) = bed.stop_before(&plan, RESTORE);
            if copied {
                bed.copy_taken(&mut journal, &site, &["sqlite.db-wal"]);
            }
            match cut {
                "before the log goes" => {}
                "after the log has gone" => durable::remove_file(&log).unwrap(),
                _ => {
                    let done = steps::perform(&site, &plan, &plan.switch[RESTORE]).unwrap();
                    assert_eq!((rows(&bed.db()), log.exists()), (vec!["two".to_owned()], false));
                    if cut == "at the end" {
                        journal.append(Record::Done { step: RESTORE, note: done }).unwrap();
                        journal.append(Record::Intent { step: SWITCH }).unwrap();
                        steps::perform(&site, &plan, &plan.switch[SWITCH]).unwrap();
                    }
                }
            }
            drop((journal, site));
            bed.recover();
            let found = (std::fs::read(bed.db()).unwrap(), std::fs::read(&log).unwrap_or_default());
            assert_eq!(found, (bytes.to_vec(), b"its rows".to_vec()), "{cut}, copied: {copied}");
            let kept = bed.version("1.0.0").join(EVIDENCE_BESIDE_SNAPSHOT).join("sqlite.db-wal");
            // What was taken as the files themselves is in its place again.
            assert_eq!(kept.exists(), copied, "{cut}, copied: {copied}");
            assert_eq!(std::fs::metadata(&log).unwrap().nlink(), 1);
        }
    }
}

#[test]
fn a_log_that_no_longer_fits_the_live_file_is_kept_and_not_put_beside_it() {
    let (bed, plan) = host();
    let log = bed.db().with_file_name("sqlite.db-wal");
    durable::write(&bed.db(), b"a newer format", 0o600).unwrap();
    durable::write(&log, b"its rows", 0o600).unwrap();
    let (journal, site) = bed.stop_before(&plan, RESTORE);
    drop((journal, site));
    durable::remove_file(&log).unwrap();
    overwrite(&bed.db(), b"written since");
    bed.recover();
    assert_eq!((std::fs::read(bed.db()).unwrap(), log.exists()), (b"written since".to_vec(), false));
    let kept = bed.version("1.0.0").join(EVIDENCE_BESIDE_SNAPSHOT);
    assert_eq!(std::fs::read(kept.join("sqlite.db-wal")).unwrap(), b"its rows");
    assert!(!kept.join(DATABASE_FILE).exists(), "it is the live file");
}

#[test]
fn a_restore_without_a_move_of_the_link_is_undone_like_any_other() {
    let (bed, mut plan) = host();
    plan.switch.remove(SWITCH);
    bed.fail(&plan, || write_rows(&bed.db(), &["later"]));
    assert_eq!(rows(&bed.db()), ["one"]);
    assert_eq!(bed.aside("2.0.0").unwrap(), ["two", "later"]);
}

#[test]
fn what_cannot_be_described_is_put_back_and_the_earlier_snapshot_with_it() {
    let (bed, mut plan) = host();
    bed.commit(&super::plan(vec![snapshot(false, "1.0.0")]));
    let earlier = bed.version("1.0.0").join("backup");
    let before = Backup::read(&earlier).unwrap().unwrap();
    write_rows(&bed.db(), &["since"]);
    // Nothing was taken there.
    let describe = plan.switch.iter().position(|step| matches!(step, Step::Describe { .. })).unwrap();
    plan.switch[describe] = Step::Describe { dir: "2.0.0".into(), failed: false };
    let undone = run(&bed.site(), &plan, "update", &mut |_| panic!("settled"), &mut |_| {}).unwrap_err();
    assert!(undone.recovery.is_none() && !undone.blame, "{undone:?}");
    assert_eq!(rows(&bed.db()), ["one", "since"]);
    assert_eq!(
        (Backup::read(&earlier).unwrap().unwrap(), rows(&earlier.join(DATABASE_FILE))),
        (before, vec!["one".into()])
    );
    assert!(bed.aside("1.0.0").is_none() && !bed.taken().exists());
}

#[test]
fn a_stranger_that_still_has_the_old_file_is_waited_for_and_the_file_itself_comes_back_in_an_undo() {
    let (bed, plan) = host();
    let file = inode(&bed.db());
    let held = File::open(bed.db()).unwrap();
    let (journal, site) = bed.stop_behind_restore(&plan);
    let stranger = stranger(held);
    let describe = &plan.switch[SWITCH + 1];
    let error = steps::perform(&site, &plan, describe).unwrap_err();
    assert_eq!(error.code, Code::DatabaseBusy);
    assert!(error.what.contains(&format!("pid {}", stranger.0.id())), "{error}");
    assert!(site.downtime.borrow().lock.is_some(), "it is kept out");
    drop((stranger, journal, site));
    bed.recover();
    assert_eq!((inode(&bed.db()), rows(&bed.db())), (file, vec!["one".to_owned()]));
    let (_, site) = bed.stop_before(&plan, SWITCH);
    steps::perform(&site, &plan, describe).unwrap();
    assert!(site.downtime.borrow().lock.is_none());
}

#[test]
fn a_journal_that_has_done_its_work_is_no_log() {
    let (bed, plan) = host();
    let agent = rusqlite::Connection::open(bed.db()).unwrap();
    agent.query_row("PRAGMA journal_mode = persist", [], |_| Ok(())).unwrap();
    agent.execute("INSERT INTO t VALUES ('persistent')", []).unwrap();
    drop(agent);
    assert!(std::fs::metadata(bed.db().with_file_name("sqlite.db-journal")).unwrap().len() > 0);
    bed.commit(&plan);
    assert_eq!(rows(&bed.db()), ["two"]);
    assert_eq!(rows(&bed.version("1.0.0").join("backup").join(DATABASE_FILE)), ["one", "persistent"]);
}

#[test]
fn the_database_of_a_version_without_a_directory_is_kept_beside_the_new_one() {
    let (bed, plan) = host();
    let text = serde_json::to_string(&plan.switch).unwrap();
    let switch = text.replace(r#""dir":"1.0.0""#, &format!(r#""dir":"{UNMANAGED}""#));
    bed.commit(&Plan { switch: serde_json::from_str(&switch).unwrap(), ..plan });
    assert_eq!((rows(&bed.db()), bed.aside("2.0.0").unwrap()), (vec!["two".to_owned()], vec!["one".to_owned()]));
    assert!(!bed.version(UNMANAGED).exists());
}

#[test]
fn a_restored_database_that_was_not_written_to_is_no_evidence_in_a_second_recovery_either() {
    let (bed, plan) = host();
    let (mut journal, site) = bed.stop_before(&plan, SWITCH);
    // After the swap it is told from nothing else.
    bed.copy_taken(&mut journal, &site, &[]);
    super::super::steps::database::bring_back_snapshot(&site, &"2.0.0".into(), None, &mut journal).unwrap();
    assert!(journal.has(&Record::Evidence) && bed.aside("2.0.0").is_none());
    assert_eq!(rows(&bed.db()), ["one"]);
}

#[test]
fn a_signal_after_the_new_version_was_found_healthy_does_not_undo_it() {
    let (bed, plan) = host();
    let last = &plan.switch[SWITCH + 1..];
    assert!(last.iter().all(|step| matches!(step, Step::Describe { .. } | Step::Install { .. })));
    let tail = Plan { switch: last.to_vec(), ..plan.clone() };
    let (mut journal, site) = bed.stop_before(&plan, SWITCH);
    steps::perform(&site, &plan, &plan.switch[SWITCH]).unwrap();
    bed.signals.raise(15);
    assert!(switch(&site, &tail, &mut journal).is_ok());
    assert_eq!(rows(&bed.version("1.0.0").join("backup").join(DATABASE_FILE)), ["one"]);
    assert!(switch(&bed.site(), &plan, &mut journal).is_err());
}

#[test]
fn a_mount_point_is_refused_before_the_first_step() {
    let bed = Bed::new();
    let proc = bed.db().parent().unwrap().to_owned();
    durable::remove_tree(&proc).unwrap();
    durable::create_dir_all(&proc).unwrap();
    // The one mount point that is everywhere.
    durable::symlink(Path::new("/proc"), &bed.db()).unwrap();
    // An image's link would not lead there.
    let mut layout = bed.layout.clone();
    layout.root = "/".into();
    let site = Site { layout: &layout, ..bed.site() };
    let undone = run(&site, &restoring(&bed), "update", &mut |_| panic!("settled"), &mut |_| {}).unwrap_err();
    assert_eq!(undone.error.code, Code::DatabaseInvalid);
    assert!(undone.error.what.contains("mount point"), "{}", undone.error);
    assert!(bed.reopen().is_none());
}

#[test]
fn an_old_agent_that_was_started_in_the_downtime_is_not_the_new_versions_fault() {
    let bed = Bed::new();
    write_rows(&bed.db(), &["one"]);
    let switch = vec![Step::Stop, bed.switch(), Step::Start];
    let plan = Plan { service: ServiceAction::Restart, database: Database::Restore, ..plan(switch) };
    let site = Site { service: bed.commands("true", "true", None), ..bed.site() };
    for (version, is_old) in [("1.0.0", true), ("2.0.0", false)] {
        let agent = bed.start_agent(version);
        while site.service.agents(&site.stop_proof()).unwrap().is_empty() {
            std::thread::yield_now();
        }
        let started = steps::perform(&site, &plan, &Step::Start);
        if is_old {
            assert_eq!(started.unwrap_err().code, Code::AgentNotStopped)
        } else {
            assert!(started.is_ok(), "it may have been started a little too early")
        }
        drop(agent);
    }
}

/// An update of 1.0.0 with the row "one" to 2.0.0, which wrote "migrated".
fn failed_upgrade() -> (Bed, Plan) {
    let bed = Bed::new();
    write_rows(&bed.db(), &["one"]);
    let plan = super::database::upgrade(&bed);
    bed.kill(&plan, || write_rows(&bed.db(), &["migrated"]));
    (bed, plan)
}

impl Bed {
    /// The rows of every database that is kept in 2.0.0.
    fn evidence(&self) -> Vec<Vec<String>> {
        let version = self.version("2.0.0");
        let places = directory::asides(&version).unwrap().into_iter().chain([directory::of(&version)]);
        places.map(|place| place.join(DATABASE_FILE)).filter(|file| file.exists()).map(|file| rows(&file)).collect()
    }

    /// Undoes as far as the database, and ends before that is noted.
    fn put_back_without_its_record(&self, plan: &Plan, link: bool) {
        let mut journal = self.reopen().unwrap();
        let Step::LinkAgent { place, .. } = self.switch() else { panic!("it moves the link") };
        super::super::steps::database::bring_back_snapshot(
            &self.site(),
            &"2.0.0".into(),
            link.then_some(&place),
            &mut journal,
        )
        .unwrap();
        assert_eq!(journal.records().last(), Some(&Record::DatabaseBack));
        let mut shorter = self.begin(plan);
        let records = &journal.records()[1..journal.records().len() - 1];
        records.iter().for_each(|record| shorter.append(record.clone()).unwrap());
    }
}

#[test]
fn what_the_new_version_writes_after_an_undo_could_not_swap_the_database_is_kept_as_well() {
    for restores in [false, true] {
        let (bed, plan) = if restores { host() } else { failed_upgrade() };
        if restores {
            bed.kill(&Plan { switch: plan.switch[..=SWITCH].to_vec(), ..plan }, || {
                write_rows(&bed.db(), &["migrated"])
            });
        }
        let link = inode(&bed.agent());
        // Held by a second name: a link that is made anew must not get the number of the one that went.
        std::fs::hard_link(bed.agent(), bed.layout.root.join("held")).unwrap();
        // A log that cannot be removed.
        let obstacle = bed.db().with_file_name("sqlite.db-shm");
        durable::create_dir_all(&obstacle).unwrap();
        recovery::run(&bed.site(), bed.reopen().unwrap(), &mut |_| panic!("undone")).unwrap_err();
        assert_eq!(std::fs::read_link(bed.agent()).unwrap(), bed.target("2.0.0"), "the pair fits");
        // It had gone back before the swap of the only copy was tried.
        assert_eq!(inode(&bed.agent()) != link, restores);
        // Evidence on another file system is a copy.
        let version = bed.version("2.0.0");
        let kept = directory::asides(&version).unwrap().pop().unwrap_or_else(|| directory::of(&version));
        let bytes = std::fs::read(kept.join(DATABASE_FILE)).unwrap();
        durable::write(&kept.join(DATABASE_FILE), &bytes, 0o600).unwrap();
        write_rows(&bed.db(), &["later"]);
        durable::remove_tree(&obstacle).unwrap();
        bed.recover();
        assert_eq!(rows(&bed.db()), ["one"]);
        assert!(
            bed.evidence().iter().any(|rows| rows.last().is_some_and(|row| row == "later")),
            "{:?}",
            bed.evidence()
        );
    }
}

#[test]
fn a_database_that_is_back_without_a_record_of_it_keeps_what_the_old_version_wrote_since() {
    let (bed, plan) = failed_upgrade();
    // Killed before the link moved.
    durable::symlink(&bed.target("1.0.0"), &bed.agent()).unwrap();
    bed.put_back_without_its_record(&plan, false);
    write_rows(&bed.db(), &["since"]);
    bed.recover();
    assert_eq!(rows(&bed.db()), ["one", "since"]);
    assert_eq!(bed.evidence(), [["one", "migrated"]]);
}

#[test]
fn what_the_new_version_wrote_to_a_database_that_was_back_is_no_database_of_the_old_one() {
    for written in [false, true] {
        let (bed, plan) = failed_upgrade();
        bed.put_back_without_its_record(&plan, true);
        let file = inode(&bed.db());
        if written {
            write_rows(&bed.db(), &["migrated again"]);
        }
        bed.recover();
        assert_eq!(rows(&bed.db()), ["one"]);
        assert_eq!(inode(&bed.db()) == file, !written);
        let mut all = vec![vec!["one", "migrated"]];
        if written {
            all.push(vec!["one", "migrated again"]);
        }
        assert_eq!(bed.evidence(), all);
    }
}

#[test]
fn evidence_of_an_earlier_run_stays_beside_that_of_a_later_one() {
    let (bed, _) = failed_upgrade();
    bed.recover();
    for (count, restores) in [(2, false), (3, true)] {
        let plan = if restores {
            durable::remove_tree(&bed.version("2.0.0").join("backup")).unwrap();
            bed.commit(&Plan { from: Some(revision("2.0.0")), ..super::plan(vec![snapshot(false, "2.0.0")]) });
            restoring(&bed)
        } else {
            super::plan(vec![snapshot(false, "1.0.0"), bed.switch()])
        };
        bed.fail(&plan, || write_rows(&bed.db(), &["another run"]));
        assert_eq!(bed.evidence().len(), count, "{:?}", bed.evidence());
    }
}

#[test]
fn a_snapshot_that_the_disk_has_lost_is_done_without_only_where_nobody_can_have_used_the_database() {
    for moved in [false, true] {
        let (bed, _) = failed_upgrade();
        if !moved {
            durable::symlink(&bed.target("1.0.0"), &bed.agent()).unwrap();
        }
        durable::remove_tree(&bed.version("1.0.0").join("backup")).unwrap();
        let recovered = recovery::run(&bed.site(), bed.reopen().unwrap(), &mut |_| {});
        let link = std::fs::read_link(bed.agent()).unwrap();
        if !moved {
            assert_eq!((recovered.unwrap(), link), (Recovered::Undone, bed.target("1.0.0")))
        } else {
            let error = recovered.unwrap_err();
            assert!(error.advice.unwrap().contains(".journal") && link == bed.target("2.0.0"), "{}", error.what);
        }
        assert_eq!(rows(&bed.db()), ["one", "migrated"], "it is what it was");
    }
}

/// From 1.0.0 back to an agent that was not ours, which with its row "two" is kept.
fn way_back() -> (Bed, Plan) {
    let (bed, plan) = host();
    let kept = bed.version(UNMANAGED).join("teleport");
    durable::create_dir_all(durable::parent(&kept)).unwrap();
    durable::write(&kept, b"theirs", 0o750).unwrap();
    durable::rename(&directory::of(&bed.version("2.0.0")), &directory::of(&bed.version(UNMANAGED))).unwrap();
    let text = serde_json::to_string(&plan.switch).unwrap();
    let dirs = text.replace(r#""dir":"2.0.0""#, &format!(r#""dir":"{UNMANAGED}""#));
    let mut switch: Vec<Step> = serde_json::from_str(&dirs).unwrap();
    if let Step::LinkAgent { place, evidence } = &mut switch[SWITCH] {
        (place.now, *evidence) = (Node::Kept(kept), UNMANAGED.into());
    }
    (bed, Plan { to: None, to_dir: Some(UNMANAGED.into()), direction: Direction::Downgrade, switch, ..plan })
}

#[test]
fn a_way_back_that_is_undone_can_be_gone_again_and_loses_neither_the_agent_nor_what_it_wrote() {
    let (bed, plan) = way_back();
    let kept = || std::fs::read_to_string(bed.version(UNMANAGED).join("teleport")).ok();
    let is_as_before = |what: &str| {
        assert_eq!(std::fs::read_link(bed.agent()).unwrap(), bed.target("1.0.0"), "{what}");
        assert_eq!((rows(&bed.db()), kept().as_deref()), (vec!["one".to_owned()], Some("theirs")), "{what}");
    };
    for count in 1..plan.switch.len() {
        drop(bed.stop_before(&plan, count));
        bed.recover();
        is_as_before(&format!("killed before step {count}"));
    }
    bed.fail(&plan, || write_rows(&bed.db(), &["returned"]));
    is_as_before("undone");
    // What it is kept with goes when the watch is over.
    assert_eq!(bed.aside("1.0.0").unwrap(), ["two", "returned"]);
    bed.commit(&plan);
    assert_eq!(std::fs::read_to_string(bed.agent()).unwrap(), "theirs");
    assert_eq!((rows(&bed.db()), bed.version(UNMANAGED).exists()), (vec!["two".to_owned()], false));
    assert_eq!(bed.aside("1.0.0").unwrap(), ["two", "returned"]);
}
