//! The database that is left: taken before another is put in its place, put back in an undo, and never removed before it
//! is (SPEC §6, rows).

use std::path::{Path, PathBuf};

use super::Site;
use super::journal::{Journal, Note, Record};
use super::steps::{EVIDENCE_BESIDE_SNAPSHOT, stop_for_undo, subject};
use crate::database::backup::{DATABASE_FILE, LINKED};
use crate::database::{self, AtRest, Backup, Content, Pace, Stamp, directory, restore};
use crate::host::process::FileId;
use crate::host::{durable, mark};
use crate::plan::{Database, Plan, Step, UNMANAGED};
use crate::report::{Code, Error, Result};
use crate::service::StopProof;

/// Links the live database to where its snapshot will be, beside the running agent.
pub(super) fn prepare(site: &Site<'_>, dir: &str) -> Result<()> {
    let version_dir = site.version_dir(dir);
    durable::create_dir_all(&version_dir)?;
    database::link_ahead(&site.database(), &directory::new_in(&version_dir)).map(|_| ())
}

/// Takes the stopped agent's database, which a restore replaces next. Read, hashed and described it is later.
pub(super) fn take(site: &Site<'_>, plan: &Plan, dir: &str, failed: bool) -> Result<Note> {
    let new = directory::new_in(&site.version_dir(dir));
    let host = mark::agent_uuid(&site.data_dir);
    let subject = subject(site, plan.owner(), host.as_deref(), failed)?;
    let pace = Pace { deadline: site.database_timeout, cancelled: &|| site.signals.cancelled() };
    let take = |even_if_damaged| database::take_stopped(&site.database(), &new, &subject, even_if_damaged, &pace);
    let taken = take(failed).or_else(|error| match error.code {
        // A version that damaged its database must not for that be one that cannot be left.
        Code::DatabaseInvalid => {
            warn_of_damage(site, &error);
            take(true)
        }
        _ => Err(error),
    })?;
    let mut standstill = site.standstill.borrow_mut();
    (standstill.left, standstill.hold) = (taken.file, taken.hold);
    Ok(Note { snapshot_sha256: Some(taken.identity), file: taken.file })
}

/// Checks, hashes and describes what was taken.
pub(super) fn describe(site: &Site<'_>, plan: &Plan, dir: &str, failed: bool) -> Result<Note> {
    let new = directory::new_in(&site.version_dir(dir));
    let host = mark::agent_uuid(&site.data_dir);
    let subject = subject(site, plan.owner(), host.as_deref(), failed)?;
    // Whoever waits for it would go on in the old file, with the log that is the new one's by its name.
    let taken = StopProof { database: new.join(DATABASE_FILE), ..site.stop_proof() };
    site.service.wait_for_strangers(&taken, site.database_timeout, &|| false)?;
    site.standstill.take();
    let (backup, damage) = database::describe_taken(&new, &subject)?;
    if let Some(damage) = damage.filter(|_| !failed) {
        warn_of_damage(site, &damage);
    }
    Ok(Note { snapshot_sha256: backup.identity().map(str::to_owned), ..Note::default() })
}

pub(super) fn warn_of_damage(site: &Site<'_>, damage: &Error) {
    site.report.warn(&format!("{damage}; it is kept as it is, and will not be restored"));
}

/// Puts the prepared database of `dir` in the place of the one that was left, or removes that where the snapshot says that
/// there was none.
pub(super) fn replace(site: &Site<'_>, plan: &Plan, dir: &str) -> Result<()> {
    let snapshot = directory::of(&site.version_dir(dir));
    let is_absent = Backup::read(&snapshot)?.is_some_and(|backup| backup.content == Content::Absent);
    let db = site.database();
    let taken = plan.snapshot_dir().map(|left| directory::new_in(&site.version_dir(left))).unwrap_or_default();
    let standstill = site.standstill.borrow();
    // The proof of the stop is some syncs old by now, and a service manager can have been asked for a start meanwhile.
    let look = || {
        site.stop_proof().look_again()?;
        database::check_left(&db, standstill.left, &taken)
    };
    let swap = if is_absent { restore::swap_absent } else { restore::swap };
    match swap(&db, &look)? {
        true => Ok(()),
        false => Err(Error::new(Code::BackupMissing, format!("the database prepared beside {} is gone", db.display()))
            .advise("run the command again")),
    }
}

/// What is to be done for the database that was left to be back.
enum Back {
    /// It is there: the live file was never replaced, or it is the snapshot itself that was put back.
    InPlace,
    /// A copy of the snapshot lies ready beside the live one.
    Ready(restore::Prepared),
}

/// Stops what runs and puts this run's snapshot back as the live database; what was written to the one in its place is
/// kept as evidence in `evidence`.
pub(super) fn put_back(site: &Site<'_>, evidence: &str, journal: &mut Journal) -> Result<()> {
    // What only we have and can be told by its digest is made ready while the agent still works. The file that was the
    // database somebody may still write to.
    let early = match journal.snapshot_sha256() {
        Some(LINKED) => None,
        _ => make_ready(site, journal)?,
    };
    if let Some(from) = snapshot_dir(site, journal)?
        && stays(site, journal, &from)?
    {
        // Whoever waits for it is not kept from ending.
        site.standstill.take();
    }
    stop_for_undo(site)?;
    let ready = match journal.snapshot_sha256() {
        Some(LINKED) => make_ready(site, journal)?,
        _ => early,
    };
    match ready {
        None => return Ok(()),
        Some((from, Back::InPlace)) => restore::return_log(&from, &site.database(), left_file(journal)?)?,
        Some((_, Back::Ready(prepared))) => {
            keep_written(site, evidence, journal)?;
            restore::commit(&prepared, &|| site.stop_proof().look_again())?;
        }
    }
    journal.append(Record::DatabaseBack)
}

/// Prepares this run's snapshot beside the live database, of which nothing changes; `None` if the run took none. With the
/// directory that the snapshot is in.
fn make_ready(site: &Site<'_>, journal: &Journal) -> Result<Option<(PathBuf, Back)>> {
    let Some(identity) = journal.snapshot_sha256() else {
        return Ok(None);
    };
    let Some(from) = snapshot_dir(site, journal)? else {
        return Ok(None);
    };
    if stays(site, journal, &from)? {
        return Ok(Some((from, Back::InPlace)));
    }
    let db = site.database();
    let copied = || restore::prepare(&from, &db, Some(identity));
    let linked = || restore::prepare_by_link(&from, &db, Some(identity));
    let prepared = match identity {
        // It is the file that was left, and for whoever still has it open it is the live one again.
        LINKED => linked().or_else(|_| copied())?,
        // The disk is full: the snapshot itself becomes the database, and is no snapshot any more once its own step is
        // undone. On another file system it cannot, and what stands in the way is the full disk.
        _ => copied().or_else(|error| match error.code {
            Code::NoSpace => linked().map_err(|_| error),
            _ => Err(error),
        })?,
    };
    if identity == LINKED {
        check_whole(&from, &prepared, left_file(journal)?).inspect_err(|_| {
            let _ = restore::discard(&db);
        })?;
    }
    Ok(Some((from, Back::Ready(prepared))))
}

/// Whether the live file is the one that was left, of which `from` is the snapshot: it was not replaced, or is back.
fn stays(site: &Site<'_>, journal: &Journal, from: &Path) -> Result<bool> {
    let db = site.database();
    // Plans without this step are of updaters that gave both files one name.
    let tells = journal.opening()?.plan.switch.iter().any(|step| matches!(step, Step::PrepareSnapshot { .. }));
    Ok(shares_file(from, &db) || (tells && restore::is_prepared(&db)?))
}

/// What was taken as the file itself is good if nobody has written to it since; else it is asked. One that has its log
/// beside it was not good then, and whoever wrote to the one wrote to the other.
fn check_whole(from: &Path, prepared: &restore::Prepared, left: Option<Stamp>) -> Result<()> {
    let file = from.join(DATABASE_FILE);
    if Stamp::of(&file)? == left || database::has_log(&file) {
        return Ok(());
    }
    prepared.check().map_err(|error| {
        let what = format!("{}: it was written to after it had been left; {} is kept", error.what, file.display());
        Error::new(error.code, what)
            .advise(format!("repair {} with sqlite3's .recover, and run `teleport-update recover`", file.display()))
    })
}

/// Keeps what was written to the database that was put in the place of the one that was left, once. Nothing is there to be
/// kept while it is the file that the restore has put there.
fn keep_written(site: &Site<'_>, evidence: &str, journal: &mut Journal) -> Result<()> {
    let db = site.database();
    let restored = noted(journal, |step| matches!(step, Step::PrepareRestore { .. }))?;
    if journal.has(&Record::Evidence) {
        return Ok(());
    }
    if !db.is_file() || database::is_unwritten(&db, restored)? {
        // What stands there after the swap is not asked again.
        return journal.append(Record::Evidence);
    }
    let plan = journal.opening()?.plan.clone();
    // Evidence is worth a warning; the old version's database is worth everything.
    if let Err(error) = keep_evidence(site, &plan, evidence) {
        site.report.warn(&format!("what the failed version wrote could not be kept: {error}"));
    }
    journal.append(Record::Evidence)
}

/// Keeps what the failed version wrote (SPEC §6, rows), unless that would replace a snapshot that is still needed.
fn keep_evidence(site: &Site<'_>, plan: &Plan, dir: &str) -> Result<()> {
    let version_dir = site.version_dir(dir);
    let new = directory::new_in(&version_dir);
    let host = mark::agent_uuid(&site.data_dir);
    let subject = subject(site, plan.to.as_ref().or(plan.owner()), host.as_deref(), true)?;
    let at_rest = AtRest { will_be_replaced: true, even_if_damaged: true };
    let pace = Pace { deadline: site.database_timeout, cancelled: &|| false };
    if let Err(error) = database::snapshot_stopped(&site.database(), &new, &subject, at_rest, &pace) {
        let _ = durable::remove_tree(&new);
        return Err(error);
    }
    match plan.needs_snapshot_of_target() {
        true => set_aside(&version_dir).map(|_| ()),
        false => directory::install(&version_dir, &new),
    }
}

/// Moves what is in the making of a snapshot to where it is never restored from.
fn set_aside(version_dir: &Path) -> Result<PathBuf> {
    let place = version_dir.join(EVIDENCE_BESIDE_SNAPSHOT);
    durable::remove_tree(&place)?;
    durable::rename(&directory::new_in(version_dir), &place)?;
    Ok(place)
}

/// Where this run's snapshot is: beside its place until it is installed there. An install that was cut short has left it
/// under either name, and it is told from an earlier one by what it says of itself.
pub(super) fn snapshot_dir(site: &Site<'_>, journal: &Journal) -> Result<Option<PathBuf>> {
    let plan = &journal.opening()?.plan;
    let Some(version_dir) = plan.snapshot_dir().map(|dir| site.version_dir(dir)) else { return Ok(None) };
    let (new, place) = (directory::new_in(&version_dir), directory::of(&version_dir));
    let is_here = match plan.switch.iter().position(|step| matches!(step, Step::Install { .. })) {
        _ if journal.snapshot_sha256() == Some(LINKED) => true,
        None => false,
        Some(step) if !journal.has(&Record::Intent { step }) => true,
        Some(_) => match Backup::read(&new) {
            Err(error) if error.code != Code::BackupInvalid => return Err(error),
            found => found.ok().flatten().is_some_and(|found| found.identity() == journal.snapshot_sha256()),
        },
    };
    Ok(Some(if is_here { new } else { place }))
}

/// Identity of the snapshot that this run took and put in its place.
pub(super) fn installed(site: &Site<'_>, journal: &Journal) -> Result<Option<String>> {
    let dir = snapshot_dir(site, journal)?.filter(|dir| *dir != directory::new_in(durable::parent(dir)));
    Ok(dir.and_then(|_| journal.snapshot_sha256().map(str::to_owned)))
}

/// Undoes the snapshot in `dir`: its database is back. What is only in it stays, where evidence is kept: a log that could
/// not be brought into the database, or a file that is not whole.
pub(super) fn put_away(site: &Site<'_>, journal: &Journal, dir: &str) -> Result<()> {
    let version_dir = site.version_dir(dir);
    let (new, db) = (directory::new_in(&version_dir), site.database());
    // A second name of the live file would change with it.
    database::unlink_shared(&new, &db)?;
    let file = new.join(DATABASE_FILE);
    if left_file(journal)?.is_some() && dir != UNMANAGED {
        let is_bad = || journal.snapshot_sha256() == Some(LINKED) && file.exists() && !database::is_whole(&file);
        if database::has_log(&file) || is_bad() {
            tell_kept(site, &set_aside(&version_dir)?);
        }
    }
    directory::sweep(&version_dir)?;
    let place = directory::of(&version_dir);
    if shares_file(&place, &db) { durable::remove_tree(&place) } else { Ok(()) }
}

/// After a commit: the database of a version that has no directory of its own (any more) goes where it stays. Where the
/// live one was kept only a damaged one: it will be written to, and what there was may be all there is to recover from.
pub(super) fn keep_homeless(site: &Site<'_>, plan: &Plan) -> Result<()> {
    let taken = directory::of(&site.version_dir(UNMANAGED));
    let Some(to) = &plan.to_dir else { return Ok(()) };
    // The way back restores what is kept there.
    if to == UNMANAGED || !durable::exists(&taken.join(DATABASE_FILE))? {
        return Ok(());
    }
    let is_damaged = || Backup::read(&taken).is_ok_and(|backup| backup.is_some_and(|backup| backup.failed));
    if plan.database != Database::Restore && !is_damaged() {
        return Ok(());
    }
    let place = site.version_dir(to).join(EVIDENCE_BESIDE_SNAPSHOT);
    durable::remove_tree(&place)?;
    durable::rename(&taken, &place)?;
    tell_kept(site, &place);
    Ok(())
}

fn tell_kept(site: &Site<'_>, place: &Path) {
    site.report.warn(&format!("the database that was left is kept in {}, and will not be restored", place.display()));
}

/// The live file as it was taken, if there was one.
fn left_file(journal: &Journal) -> Result<Option<Stamp>> {
    noted(journal, |step| matches!(step, Step::Snapshot { .. }))
}

/// The file that a step of this kind has noted.
fn noted(journal: &Journal, wanted: impl Fn(&Step) -> bool) -> Result<Option<Stamp>> {
    let steps = &journal.opening()?.plan.switch;
    Ok(journal.records().iter().rev().find_map(|record| match record {
        Record::Done { step, note } if steps.get(*step).is_some_and(&wanted) => note.file,
        _ => None,
    }))
}

/// Whether the snapshot's file and the live one are the same.
pub(super) fn shares_file(snapshot: &Path, db: &Path) -> bool {
    let shared = FileId::of(snapshot.join(DATABASE_FILE));
    shared.is_some() && shared == FileId::of(db)
}
