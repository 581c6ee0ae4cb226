//! The database that is left: taken before another is put in its place, put back in an undo, and never removed before it
//! is (SPEC §6, rows).

use std::path::{Path, PathBuf};

use super::super::Site;
use super::super::journal::{self, Journal, Note, Record};
use super::files::{look, put, take_back};
use super::service::{no_agent_runs, nobody_came, stop_for_undo};
use crate::database::backup::DATABASE_FILE;
use crate::database::{self, Backup, Content, Pace, SnapshotId, StatData, Subject, directory, restore};
use crate::host::process::FileId;
use crate::host::{durable, fingerprint};
use crate::plan::{Database, Placement, Plan, Step};
use crate::report::{Code, Error, Result};
use crate::service::StopProof;
use crate::store::VersionDir;
use protocol::Revision;

/// Links the live database to where its snapshot will be, beside the running agent.
pub(in crate::execute) fn prepare(site: &Site<'_>, dir: &VersionDir) -> Result<()> {
    let version_dir = site.version_dir(dir);
    durable::create_dir_all(&version_dir)?;
    database::link_ahead(&site.database(), &directory::new_in(&version_dir)).map(|_| ())
}

/// Takes the stopped agent's database, which a restore replaces next. Read, hashed and described it is later.
pub(in crate::execute) fn take(site: &Site<'_>, plan: &Plan, dir: &VersionDir, failed: bool) -> Result<Note> {
    let new = directory::new_in(&site.version_dir(dir));
    let subject = subject(site, plan.owner(), failed)?;
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
    let mut downtime = site.downtime.borrow_mut();
    (downtime.left, downtime.lock) = (taken.file, taken.lock);
    Ok(Note { snapshot: Some(taken.id), file: taken.file, ..Note::default() })
}

/// Copies the database that is left beside the running agent. Its identity goes into the journal: undo asks for nothing
/// else.
pub(in crate::execute) fn snapshot(site: &Site<'_>, plan: &Plan, dir: &VersionDir, failed: bool) -> Result<Note> {
    let version_dir = site.version_dir(dir);
    durable::create_dir_all(&version_dir)?;
    let new = directory::new_in(&version_dir);
    let subject = subject(site, plan.owner(), failed)?;
    let pace = Pace { deadline: site.database_timeout, cancelled: &|| site.signals.cancelled() };
    let taken = database::snapshot_online(&site.database(), &new, &subject, site.busy_too_long, &pace);
    let taken = taken.inspect_err(|_| drop(durable::remove_tree(&new)))?;
    match &taken.damage {
        Some(damage) if taken.raw => warn_of_damage(site, damage),
        Some(busy) => site.report.warn(&format!(
            "{}; the database has been locked for hours, so its files were copied without waiting for the lock",
            busy.what
        )),
        None => {}
    }
    let backup = taken.backup;
    install(&version_dir)?;
    Ok(Note { snapshot: backup.id(), ..Note::default() })
}

fn subject<'a>(site: &'a Site<'_>, revision: Option<&'a Revision>, failed: bool) -> Result<Subject<'a>> {
    let host = fingerprint::agent_uuid(&site.data_dir)?;
    let revision = revision.ok_or_else(|| Error::new(Code::Io, "a snapshot needs a version"))?;
    Ok(Subject { proxy: &site.proxy, revision, host, now: site.host.now(), failed })
}

/// Checks, hashes and describes what was taken.
pub(in crate::execute) fn describe(site: &Site<'_>, plan: &Plan, dir: &VersionDir, failed: bool) -> Result<Note> {
    let new = directory::new_in(&site.version_dir(dir));
    let subject = subject(site, plan.owner(), failed)?;
    // Whoever waits for it would go on in the old file, with the log that is the new one's by its name.
    let taken = StopProof { database: new.join(DATABASE_FILE), ..site.stop_proof() };
    site.service.wait_for_strangers(&taken, site.database_timeout, &|| false)?;
    site.downtime.take();
    let (backup, damage) = database::describe_taken(&new, &subject)?;
    if let Some(damage) = damage.filter(|_| !failed) {
        warn_of_damage(site, &damage);
    }
    Ok(Note { snapshot: backup.id(), ..Note::default() })
}

pub(in crate::execute) fn warn_of_damage(site: &Site<'_>, damage: &Error) {
    site.report.warn(&format!("{damage}; the damaged database is kept as it is, and will not be restored"));
}

/// Puts the prepared database of `dir` in the place of the one that was left, or removes that where the snapshot says that
/// there was none.
pub(in crate::execute) fn replace(site: &Site<'_>, plan: &Plan, dir: &VersionDir) -> Result<()> {
    let snapshot = directory::of(&site.version_dir(dir));
    let is_absent = Backup::read(&snapshot)?.is_some_and(|backup| backup.content == Content::Absent);
    let db = site.database();
    let taken = plan.snapshot_dir().map(|left| directory::new_in(&site.version_dir(left))).unwrap_or_default();
    let downtime = site.downtime.borrow();
    // The proof of the stop is some syncs old by now, and a service manager can have been asked for a start meanwhile.
    let look = || {
        nobody_came(site)?;
        database::check_left(&db, downtime.left, &taken)
    };
    if restore::swap(&db, is_absent, &look)? {
        Ok(())
    } else {
        let what = format!("the copy that was prepared next to {} has disappeared", db.display());
        Err(Error::new(Code::BackupMissing, what).advise("run the command again"))
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
/// kept as evidence in `evidence`. `link`: the agent's, where it may lead to the new version.
pub(in crate::execute) fn bring_back_snapshot(
    site: &Site<'_>,
    evidence: &VersionDir,
    link: Option<&Placement>,
    journal: &mut Journal,
) -> Result<()> {
    // What only we have and can be told by its digest is made ready while the agent still works. The file that was the
    // database somebody may still write to.
    let is_linked = journal.snapshot() == Some(SnapshotId::Linked);
    let early = if is_linked { None } else { make_ready(site, journal)? };
    if let Some(from) = snapshot_dir(site, journal)?
        && stays(site, journal, &from)?
    {
        // Whoever waits for it is not kept from ending.
        site.downtime.take();
    }
    stop_for_undo(site, journal)?;
    let ready = if is_linked { make_ready(site, journal)? } else { early };
    match ready {
        None => return Ok(()),
        Some((from, Back::InPlace)) => restore::return_log(&from, &site.database(), left_file(journal)?)?,
        Some((from, Back::Ready(prepared))) => {
            keep_written(site, evidence, &prepared, journal)?;
            swap_back(site, &from, &prepared, link)?;
        }
    }
    journal.append(Record::DatabaseBack)
}

/// Swaps the database that was left in. Where that is the only copy, the link goes back before it: whoever starts the agent
/// between the two starts the old version on what is kept as evidence, and not the new one on the only copy.
fn swap_back(site: &Site<'_>, from: &Path, prepared: &restore::Prepared, link: Option<&Placement>) -> Result<()> {
    let link = link.filter(|_| prepared.is_second_name_of(from));
    if let Some(place) = link {
        take_back(place)?;
    }
    let swapped = restore::commit(prepared, &|| no_agent_runs(site));
    if let (Err(_), Some(place)) = (&swapped, link)
        && !shares_file(from, &site.database()).unwrap_or(false)
    {
        // What is started meanwhile must fit the database. The first error is the one to tell.
        let _ = put(place, &place.now);
    }
    swapped
}

/// Prepares this run's snapshot beside the live database, of which nothing changes; `None` if the run took none. With the
/// directory that the snapshot is in.
fn make_ready(site: &Site<'_>, journal: &Journal) -> Result<Option<(PathBuf, Back)>> {
    let Some(id) = journal.snapshot() else {
        return Ok(None);
    };
    let Some(from) = snapshot_dir(site, journal)? else {
        return Ok(None);
    };
    if stays(site, journal, &from)? {
        return Ok(Some((from, Back::InPlace)));
    }
    let db = site.database();
    if is_lost(&from, id)? {
        return without_snapshot(site, journal, from);
    }
    let copied = || restore::prepare(&from, &db, Some(id));
    let linked = || restore::prepare_by_link(&from, &db, Some(id));
    let prepared = match id {
        // It is the file that was left, and for whoever still has it open it is the live one again.
        SnapshotId::Linked => linked().or_else(|_| copied())?,
        // The disk is full: the snapshot itself becomes the database, and is no snapshot any more once its own step is
        // undone. On another file system it cannot, and what stands in the way is the full disk.
        _ => copied().or_else(|error| match error.code {
            Code::NoSpace => linked().map_err(|_| error),
            _ => Err(error),
        })?,
    };
    if id == SnapshotId::Linked {
        check_whole(&from, &prepared, left_file(journal)?).inspect_err(|_| drop(restore::discard(&db)))?;
    }
    Ok(Some((from, Back::Ready(prepared))))
}

/// Whether the disk has lost the file of this run's snapshot.
fn is_lost(from: &Path, id: SnapshotId) -> Result<bool> {
    Ok(id != SnapshotId::Absent && !durable::exists(&from.join(DATABASE_FILE))?)
}

/// Without its snapshot a run can be undone only if nobody but the old version can have written to the live database: it
/// was kept, and the link has never moved.
///
/// Errors: `backup_missing`; links and database stay as the fitting pair that they are.
fn without_snapshot(site: &Site<'_>, journal: &Journal, from: PathBuf) -> Result<Option<(PathBuf, Back)>> {
    let plan = &journal.opening()?.plan;
    let file = from.join(DATABASE_FILE);
    if plan.database == Database::Keep && !leads_to_new(plan) {
        site.report.warn(&format!(
            "{} (this run's database backup) is missing; the live database was not changed and stays in use",
            file.display()
        ));
        return Ok(Some((from, Back::InPlace)));
    }
    let to = plan.to.as_ref().map(ToString::to_string).unwrap_or_default();
    let what = format!("{} (this run's database backup) is missing: cannot go back to the old version", file.display());
    Err(Error::new(Code::BackupMissing, what).advise(format!(
        "{to} stays active with its own database; to accept this, remove {} and run `teleport-update enable`",
        site.layout.versions.join(journal::NAME).display()
    )))
}

/// Whether the agent's link leads to the new version.
pub(in crate::execute) fn leads_to_new(plan: &Plan) -> bool {
    plan.switch.iter().any(|step| match step {
        // What cannot be looked at may.
        Step::LinkAgent { place, .. } => look(&place.path).map_or(true, |node| node == place.now),
        _ => false,
    })
}

/// Whether an earlier undo has put back what was left, and nobody but the old version can have written to it since. It may
/// have ended between the swap and its record.
fn is_back(site: &Site<'_>, journal: &Journal) -> Result<bool> {
    let db = site.database();
    let Some((returns, _)) = journal.swap() else { return Ok(false) };
    if restore::is_undo_prepared(&db)? || StatData::of(&db)?.is_none_or(|live| live.ino != returns.ino) {
        return Ok(false);
    }
    // While the link leads to the new version, that is what anybody starts.
    Ok(!leads_to_new(&journal.opening()?.plan) || database::is_unwritten(&db, Some(returns))?)
}

/// Whether the live file is the one that was left, of which `from` is the snapshot: it was not replaced, or is back.
fn stays(site: &Site<'_>, journal: &Journal, from: &Path) -> Result<bool> {
    let db = site.database();
    // Plans without this step are of updaters that gave both files one name.
    let tells = journal.opening()?.plan.switch.iter().any(|step| matches!(step, Step::PrepareSnapshot { .. }));
    Ok(shares_file(from, &db)? || (tells && restore::is_prepared(&db)?) || is_back(site, journal)?)
}

/// What was taken as the file itself is good if nobody has written to it since; else it is asked. One that has its log
/// beside it was not good then, and whoever wrote to the one wrote to the other.
fn check_whole(from: &Path, prepared: &restore::Prepared, left: Option<StatData>) -> Result<()> {
    let file = from.join(DATABASE_FILE);
    if StatData::of(&file)? == left || database::has_log(&file) {
        return Ok(());
    }
    prepared.check().map_err(|error| {
        let file = file.display();
        let what =
            format!("{}: a program wrote to the database after the agent was stopped; {file} is kept", error.what);
        Error::new(error.code, what)
            .advise(format!("repair {file} with the .recover command of sqlite3, then run `teleport-update recover`"))
    })
}

/// Keeps what was written to the database that was put in the place of the one that was left. Nothing is there to be kept
/// while it is the file that the restore has put there, or that was kept before. The journal then tells the file that goes
/// from the one that comes, `prepared`: a swap that was cut short is known by them.
fn keep_written(
    site: &Site<'_>,
    evidence: &VersionDir,
    prepared: &restore::Prepared,
    journal: &mut Journal,
) -> Result<()> {
    let db = site.database();
    let plan = journal.opening()?.plan.clone();
    let restored = noted(journal, |step| matches!(step, Step::PrepareRestore { .. }))?;
    let is_kept = match (journal.has(&Record::Evidence), journal.swap()) {
        (false, _) => false,
        // Of an updater that did not tell.
        (true, None) => true,
        (true, Some((_, goes))) => database::is_unwritten(&db, goes)?,
    };
    if !is_kept && StatData::of(&db)?.is_some() && db.is_file() && !database::is_unwritten(&db, restored)? {
        // Evidence is worth a warning; the old version's database is worth everything.
        if let Err(error) = keep_evidence(site, &plan, evidence) {
            site.report.warn(&format!("could not keep the database of the failed version: {error}"));
        }
    }
    let step = plan.switch.iter().position(|step| matches!(step, Step::Restore { .. } | Step::LinkAgent { .. }));
    let note = Note { returns: prepared.stat_data()?, goes: StatData::of(&db)?, ..Note::default() };
    let mut records: Vec<Record> = step.map(|step| Record::Done { step, note }).into_iter().collect();
    if !journal.has(&Record::Evidence) {
        records.push(Record::Evidence);
    }
    journal.append_all(records)
}

/// Keeps what the failed version wrote (SPEC §6, rows), unless that would replace a snapshot that is still needed.
fn keep_evidence(site: &Site<'_>, plan: &Plan, dir: &VersionDir) -> Result<()> {
    let version_dir = site.version_dir(dir);
    let new = directory::new_in(&version_dir);
    let subject = subject(site, plan.to.as_ref().or(plan.owner()), true)?;
    let pace = Pace { deadline: site.database_timeout, cancelled: &|| false };
    if let Err(error) = database::take_failed(&site.database(), &new, &subject, &pace) {
        let _ = durable::remove_tree(&new);
        return Err(error);
    }
    if plan.needs_snapshot_of_target() {
        return directory::set_aside(&version_dir, &new).map(|_| ());
    }
    install(&version_dir)
}

/// Puts the new snapshot in the place of the version's present one. What an earlier, failed run of the same version has left
/// there is other rows: it stays beside.
pub(in crate::execute) fn install(version_dir: &Path) -> Result<()> {
    let (new, place) = (directory::new_in(version_dir), directory::of(version_dir));
    if durable::exists(&new)? && Backup::is_failed(&place)? && !shares_file(&place, &new.join(DATABASE_FILE))? {
        directory::set_aside(version_dir, &place)?;
    }
    directory::install(version_dir, &new)
}

/// Where this run's snapshot is: beside its place until it is installed there. An install that was cut short has left it
/// under either name, and it is told from an earlier one by what it says of itself.
pub(in crate::execute) fn snapshot_dir(site: &Site<'_>, journal: &Journal) -> Result<Option<PathBuf>> {
    let plan = &journal.opening()?.plan;
    let Some(version_dir) = plan.snapshot_dir().map(|dir| site.version_dir(dir)) else { return Ok(None) };
    let (new, place) = (directory::new_in(&version_dir), directory::of(&version_dir));
    let is_here = match plan.switch.iter().position(|step| matches!(step, Step::Install { .. })) {
        _ if journal.snapshot() == Some(SnapshotId::Linked) => true,
        None => false,
        Some(step) if !journal.has(&Record::Intent { step }) => true,
        Some(_) => match Backup::read(&new) {
            Err(error) if error.code != Code::BackupInvalid => return Err(error),
            found => found.ok().flatten().is_some_and(|found| found.id() == journal.snapshot()),
        },
    };
    Ok(Some(if is_here { new } else { place }))
}

/// The snapshot that this run took and put in its place.
pub(in crate::execute) fn installed(site: &Site<'_>, journal: &Journal) -> Result<Option<SnapshotId>> {
    let dir = snapshot_dir(site, journal)?.filter(|dir| *dir != directory::new_in(durable::parent(dir)));
    Ok(dir.and_then(|_| journal.snapshot()))
}

/// Undoes the snapshot in `dir`: its database is back. What is only in it stays, where evidence is kept: a log that could
/// not be brought into the database, or a file that is not whole.
pub(in crate::execute) fn put_away(site: &Site<'_>, journal: &Journal, dir: &VersionDir) -> Result<()> {
    let version_dir = site.version_dir(dir);
    let (new, db) = (directory::new_in(&version_dir), site.database());
    // A second name of the live file would change with it.
    database::unlink_shared(&new, &db)?;
    let file = new.join(DATABASE_FILE);
    if left_file(journal)?.is_some() && !dir.is_unmanaged() {
        let is_linked = journal.snapshot() == Some(SnapshotId::Linked) && durable::exists(&file)?;
        if database::has_log(&file) || (is_linked && !database::is_whole(&file)) {
            tell_kept(site, &directory::set_aside(&version_dir, &new)?);
        }
    }
    directory::sweep(&version_dir)?;
    let place = directory::of(&version_dir);
    if shares_file(&place, &db)? { durable::remove_tree(&place) } else { Ok(()) }
}

/// After an undo of the way back to an agent that was not ours: what that has written is evidence, and goes where it stays
/// when the way back goes.
pub(in crate::execute) fn keep_returned(site: &Site<'_>, plan: &Plan) -> Result<()> {
    let Some(left) = plan.left_by_way_back() else { return Ok(()) };
    let asides = directory::asides(&site.version_dir(&VersionDir::unmanaged()))?;
    asides.iter().try_for_each(|aside| directory::set_aside(&site.version_dir(left), aside).map(|_| ()))
}

pub(in crate::execute) fn tell_kept(site: &Site<'_>, place: &Path) {
    site.report.warn(&format!(
        "the database of the replaced version is kept in {}; it will not be restored automatically",
        place.display()
    ));
}

/// The live file as it was taken, if there was one.
fn left_file(journal: &Journal) -> Result<Option<StatData>> {
    noted(journal, |step| matches!(step, Step::Snapshot { .. }))
}

/// The file that a step of this kind has noted.
fn noted(journal: &Journal, wanted: impl Fn(&Step) -> bool) -> Result<Option<StatData>> {
    let steps = &journal.opening()?.plan.switch;
    Ok(journal.records().iter().rev().find_map(|record| match record {
        Record::Done { step, note } if steps.get(*step).is_some_and(&wanted) => note.file,
        _ => None,
    }))
}

/// Whether the snapshot's file and the live one are the same.
pub(in crate::execute) fn shares_file(snapshot: &Path, db: &Path) -> Result<bool> {
    let shared = FileId::find(snapshot.join(DATABASE_FILE))?;
    Ok(shared.is_some() && shared == FileId::find(db)?)
}
