//! What is written down about a run: in `updates.yaml`, for the next run and for `status`.

use crate::context::Context;
use protocol::installer::Installer;
use protocol::{Digest, Revision};
use std::path::Path;

use jiff::Timestamp;

use crate::config::status::{Attempt, Busy, FailedUpdater, KeptDatabase, LastResult, Left, Outcome, Watch};
use crate::config::{Spec, Status, Updates};
use crate::database::{Backup, SnapshotId, directory, evidence};
use crate::execute::journal::{Journal, Opening, Record};
use crate::host::machine;
use crate::plan::facts::Refusal;
use crate::plan::{Plan, Step, decide};
use crate::report::{Code, Error, Result};

/// Interruptions of one target before it is refused: a version that takes the host down with it must not do so for
/// ever (SPEC §8, loop guard).
const MAX_ATTEMPTS: u32 = 3;

/// Longest message that is kept of a failure, characters: a server writes some of them.
const MAX_MESSAGE: usize = 2_000;

fn kept(message: &str) -> String {
    message.chars().take(MAX_MESSAGE).collect()
}

/// Counts a run that a database in use has failed. A first one that lies in the future was written by another clock.
fn count_busy(status: &mut Status, now: Timestamp) {
    let earlier = status.database_busy.take().filter(|busy| busy.since <= now);
    let Busy { since, count } = earlier.unwrap_or(Busy { since: now, count: 0 });
    status.database_busy = Some(Busy { since, count: count.saturating_add(1) });
}
/// The name of the run back after a failed watch, for the lock and the journal.
pub(crate) const WATCH: &str = "watch";
/// How many updaters that failed are remembered: those of the versions that a host goes to and fro between.
const FAILED_UPDATERS: usize = 4;

/// The configuration after a commit.
pub(crate) fn committed(
    updates: &mut Updates,
    plan: &Plan,
    change: &dyn Fn(&mut Spec),
    snapshot: Option<SnapshotId>,
    now: Timestamp,
) {
    let mut spec = updates.spec().clone();
    change(&mut spec);
    let mut status = updates.status().clone();
    if let Some(to) = &plan.to {
        spec.active_version = Some(to.version.clone());
        spec.active_edition = Some(to.edition);
        let moved = plan.from.as_ref() != Some(to);
        status.installed_by = plan.script().map(|order| Installer::LocalScript(order.name.clone()));
        if moved {
            status.previous = plan.from.clone().or(status.previous);
            status.last_update_time = Some(now);
        }
        if moved {
            // Where the agent was failing before, the version is not proven, and cannot fall either.
            let watched = plan.is_watched();
            let end = || now.saturating_add(jiff::SignedDuration::try_from(spec.watch).unwrap_or_default());
            status.watch = watched.then(|| Watch {
                revision: to.clone(),
                until: end().unwrap_or(now),
                snapshot,
                previous: plan.from.clone().filter(|_| !plan.unmanaged),
                run: Some(uuid::Uuid::new_v4().to_string()),
                boot: machine::boot_id(),
                failure: None,
            });
            // A new target has come: what was refused before it is no longer asked for. Its own earlier failures count
            // until its watch is over.
            status.refused.retain(|refused| watched && refused.revision == *to);
            status.attempts.clear();
            status.delayed.clear();
            status.database_busy = None;
        } else if status.watch.is_none() {
            // Put right where it stood: what others are refused for, and a watch that goes on, stay.
            status.refused.retain(|refused| refused.revision != *to);
        }
        status.last_result = Some(LastResult {
            time: now,
            outcome: if moved { Outcome::Updated } else { Outcome::Nothing },
            error_code: None,
            message: None,
            from: plan.from.clone(),
            to: Some(to.clone()),
            run: None,
        });
        move_kept_database(&mut status, plan, now);
    }
    updates.set_spec(&spec);
    updates.set_status(&status);
}

/// Follows what failed versions wrote: to where this plan's steps have put it, and out of the list once it is gone.
fn move_kept_database(status: &mut Status, plan: &Plan, now: Timestamp) {
    // Rows of a failed version whose place its new snapshot has taken are beside it.
    for (dir, _) in plan.snapshots() {
        let here = |rows: &KeptDatabase| Path::new(&rows.path).parent().is_some_and(|parent| parent.ends_with(dir));
        let Some(rows) = status.kept_databases.iter().find(|rows| here(rows)).cloned() else { continue };
        status.kept_databases.retain(|rows| !here(rows));
        if let Some(version_dir) = Path::new(&rows.path).parent() {
            note_kept_database(status, &rows.revision, version_dir, true);
        }
    }
    // What an operator has removed is told no more, nor what goes with its version because it is old.
    status.kept_databases.retain(|KeptDatabase { path, .. }| {
        let goes = |step: &Step| matches!(step, Step::Retire { dir } if path.contains(&format!("/{dir}/")));
        let (place, is_retired) = (Path::new(path), plan.after.iter().any(goes));
        place.try_exists().unwrap_or(true) && (!is_retired || evidence::is_kept(place, now))
    });
}

/// Writes down a run that was undone, as its journal tells of it: the result, the refusal with its growing wait, the loop
/// guard's count.
pub(crate) fn undone(journal: &Journal, updates: &mut Updates, versions: &Path, now: Timestamp) -> Result<()> {
    let Opening { time: began, plan, command, .. } = journal.opening()?;
    let (code, reason, blame) = journal.undo_reason().unwrap_or(("interrupted", "the run was interrupted", false));
    let is_switched = journal.records().iter().any(|record| match record {
        Record::Intent { step } => matches!(plan.switch.get(*step), Some(Step::LinkAgent { .. })),
        _ => false,
    });
    let mut status = updates.status().clone();
    let run = began.to_string();
    // An undo that was itself cut short writes the same failure again.
    if status.last_result.as_ref().is_some_and(|last| last.run.as_deref() == Some(&run)) {
        return Ok(());
    }
    // It may have stopped the agent and started it again: no longer what the watch of an earlier run looks at. A run back of a
    // watch is tried again.
    if command != WATCH {
        status.watch = None;
    }
    if let Some(to) = &plan.to {
        let is_begun = is_switched || journal.has_run_script();
        if blame || (is_begun && count_attempt(&mut status, to) >= MAX_ATTEMPTS) {
            add_refusal(&mut status, to, reason, code, now);
        } else if code != Code::Interrupted.as_str() {
            add_delay(&mut status, to, reason, code, None, now);
        }
        if journal.has(&Record::Evidence)
            && let Some(dir) = &plan.to_dir
        {
            note_kept_database(&mut status, to, &versions.join(dir), !plan.needs_snapshot_of_target());
        }
    }
    if let (Some(from), Some(dir)) = (&plan.from, plan.left_by_way_back()) {
        note_kept_database(&mut status, from, &versions.join(dir), false);
    }
    if code == Code::DatabaseBusy.as_str() {
        count_busy(&mut status, now);
    }
    status.last_result = Some(LastResult {
        time: now,
        outcome: if is_switched { Outcome::RolledBack } else { Outcome::Failed },
        error_code: Some(code.to_owned()),
        message: Some(kept(reason)),
        from: plan.from.clone(),
        to: plan.to.clone(),
        run: Some(run),
    });
    updates.set_status(&status);
    Ok(())
}

/// Counts a run towards `to` that was undone once it had begun to change the agent.
fn count_attempt(status: &mut Status, to: &Revision) -> u32 {
    if let Some(attempt) = status.attempts.iter_mut().find(|attempt| attempt.revision == *to) {
        attempt.count = attempt.count.saturating_add(1);
        return attempt.count;
    }
    status.attempts.push(Attempt { revision: to.clone(), count: 1 });
    1
}

/// Notes that what `revision` wrote before it failed is kept in `place`.
pub(crate) fn add_kept_database(status: &mut Status, revision: &Revision, place: &std::path::Path) {
    let path = place.display().to_string();
    status.kept_databases.retain(|rows| rows.path != path);
    status.kept_databases.push(KeptDatabase { revision: revision.clone(), path });
}

/// Notes every database that failed runs of `revision` have left in its directory, and none that is gone by now.
/// `in_place`: also the one where its snapshot would be.
fn note_kept_database(status: &mut Status, revision: &Revision, version_dir: &std::path::Path, in_place: bool) {
    let asides = directory::asides(version_dir).unwrap_or_default();
    let aside = format!("{}-failed", directory::of(version_dir).display());
    status.kept_databases.retain(|rows| !rows.path.starts_with(&aside));
    let is_kept =
        |place: &std::path::PathBuf| Backup::read(place).is_ok_and(|backup| backup.is_some_and(|backup| backup.failed));
    let place = in_place.then(|| directory::of(version_dir));
    asides.into_iter().chain(place).filter(is_kept).for_each(|place| add_kept_database(status, revision, &place));
}

/// Refuses `revision` from now on, with a wait that grows with each failure.
pub(crate) fn add_refusal(status: &mut Status, revision: &Revision, reason: &str, code: &str, now: Timestamp) {
    let earlier = status.refused.iter().find(|refused| refused.revision == *revision);
    let refusal = decide::refuse(earlier, revision, &kept(reason), code, now);
    status.refused.retain(|refused| refused.revision != *revision);
    status.refused.push(refusal);
}

/// A run to `revision` failed at its cost, by no fault of a version that ran: the timer waits with the next one, each time
/// longer. `digest`: what was announced for the archive, where it was downloaded; another one ends the wait.
pub(crate) fn add_delay(
    status: &mut Status,
    revision: &Revision,
    reason: &str,
    code: &str,
    digest: Option<String>,
    now: Timestamp,
) {
    let known = status.delayed.iter().find(|delayed| delayed.revision == *revision && delayed.digest == digest);
    let next = decide::refuse(known, revision, &kept(reason), code, now);
    let retry_at = now.saturating_add(decide::delay_after(code, next.count)).unwrap_or(now);
    status.delayed.retain(|delayed| delayed.revision != *revision);
    status.delayed.push(Refusal { retry_at, digest, ..next });
}

/// Notes that a version was left, or with an operator's word forgets what was left before.
pub(crate) fn note_departure(status: &mut Status, from: Option<&Revision>, forced: bool, now: Timestamp) {
    if forced {
        status.left.clear();
    } else if let Some(from) = from {
        let is_recent = |left: &Left| now.duration_since(left.time).as_hours().abs() < decide::LEFT_WINDOW_HOURS;
        status.left.retain(is_recent);
        status.left.push(Left { revision: from.clone(), time: now });
    }
}

/// Counts a failure of the updater whose file has the digest `sha256`.
pub(crate) fn updater_failed(updates: &mut Updates, sha256: Digest) {
    let mut status = updates.status().clone();
    let known = status.failed_updaters.iter().position(|failed| failed.sha256 == sha256);
    let count = known.map_or(0, |place| status.failed_updaters.remove(place).count).saturating_add(1);
    status.failed_updaters.push(FailedUpdater { sha256, count });
    // The latest at the end; a host has one active updater at a time.
    let superfluous = status.failed_updaters.len().saturating_sub(FAILED_UPDATERS);
    status.failed_updaters.drain(..superfluous);
    updates.set_status(&status);
}

/// A failure before any switch: only the result is written.
pub(crate) fn failed(updates: &mut Updates, error: &Error, to: Option<&Revision>, now: Timestamp) {
    let mut status = updates.status().clone();
    status.last_result = Some(LastResult {
        time: now,
        outcome: Outcome::Failed,
        error_code: Some(error.code.as_str().to_owned()),
        message: Some(kept(&error.what)),
        from: updates.spec().active(),
        to: to.cloned(),
        run: None,
    });
    updates.set_status(&status);
}

/// A cluster that does not answer is written down once, not every ten minutes.
pub(crate) fn note(context: &Context, command: &str, error: &Error) {
    if error.code == Code::Interrupted {
        return;
    }
    let written = context.lock(command).and_then(|_lock| {
        // Settings that were committed and are not in place yet must not look older than this note.
        if context.is_interrupted() {
            return Ok(());
        }
        let mut updates = Updates::read(&context.layout.config_file())?;
        let known = updates.status().last_result.as_ref().is_some_and(|last| {
            last.error_code.as_deref() == Some(error.code.as_str()) && last.message == Some(kept(&error.what))
        });
        if known {
            return Ok(());
        }
        failed(&mut updates, error, None, context.host.now());
        updates.write()
    });
    if let Err(error) = written {
        context.report.debug(&error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::journal::tests::opening;
    use crate::plan::Direction;

    #[test]
    fn a_failure_that_was_cut_short_while_it_was_written_is_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("updates.yaml");
        let to = Revision { version: "2.0.0".parse().unwrap(), edition: protocol::Edition::Oss };
        let plan = Plan { to: Some(to), ..Plan::none(Direction::Upgrade) };
        let run = |began: &str| {
            let opening = Opening { time: began.parse().unwrap(), ..opening(&plan) };
            let mut journal = Journal::create(dir.path(), opening).unwrap();
            journal.append(Record::Undo { code: "unhealthy".into(), reason: "ends".into(), blame: true }).unwrap();
            journal
        };
        let failure = run("2026-11-21T02:26:47.9Z");
        // The run began and failed within a second, whose part is lost in the file.
        for now in ["2026-11-21T02:26:47.95Z", "2026-11-21T02:26:49Z"] {
            let mut updates = Updates::read(&file).unwrap();
            undone(&failure, &mut updates, dir.path(), now.parse().unwrap()).unwrap();
            updates.write().unwrap();
        }
        assert_eq!(Updates::read(&file).unwrap().status().refused[0].count, 1);
        // A later run is another failure.
        let later = run("2026-11-21T03:30:00.1Z");
        let mut updates = Updates::read(&file).unwrap();
        undone(&later, &mut updates, dir.path(), "2026-11-21T03:30:01Z".parse().unwrap()).unwrap();
        assert_eq!(updates.status().refused[0].count, 2);
    }
}
