//! The table of steps: what each does and how it is undone. Every undo may be repeated.

pub(super) mod database;
pub(super) mod files;
pub(super) mod packages;
pub(super) mod script;
pub(super) mod service;
mod versions;

use std::path::PathBuf;
use std::time::Duration;

use super::Site;
use super::journal::{Journal, Note, Record};
use crate::database::{directory, restore};
use crate::host::durable;
use crate::plan::{Direction, Plan, Step};
use crate::report::{Code, Error, Result};
use crate::service::Reloaded;
use crate::store::publish;

/// Does `step`.
pub(super) fn perform(site: &Site<'_>, plan: &Plan, step: &Step) -> Result<Note> {
    match step {
        Step::RecordAgent { .. } => {}
        Step::Fetch { .. } => return Err(Error::new(Code::Io, "internal error: a download step in the switch phase")),
        Step::Verify { dir } => versions::verify(site, dir)?,
        Step::Place(place) | Step::LinkAgent { place, .. } => files::put(place, &place.now)?,
        Step::PrepareSnapshot { dir } => database::prepare(site, dir)?,
        Step::Snapshot { dir, stopped: true, failed } => return database::take(site, plan, dir, *failed),
        Step::Snapshot { dir, stopped: false, failed } => return database::snapshot(site, plan, dir, *failed),
        Step::Describe { dir, failed } => return database::describe(site, plan, dir, *failed),
        Step::Install { dir } => database::install(&site.version_dir(dir))?,
        Step::PrepareRestore { dir } => {
            let prepared = restore::prepare(&directory::of(&site.version_dir(dir)), &site.database(), None)?;
            return Ok(Note { file: prepared.stat_data()?, ..Note::default() });
        }
        Step::Stop => service::stop(site)?,
        Step::Restore { dir } => database::replace(site, plan, dir)?,
        Step::DaemonReload => site.service.daemon_reload()?,
        Step::Reload => reload(site)?,
        Step::Script { order } => script::run(site, plan, order)?,
        Step::Start => {
            site.service.start()?;
            if plan.switch.contains(&Step::Stop) {
                // Where it runs the start has done nothing.
                service::old_must_not_run(site, plan)?;
            }
        }
        Step::Health { binary, served, failing } => {
            service::health_verdict(site, binary, *served, *failing)
                .map_err(|error| service::not_blamed(site, plan, error))?;
        }
        Step::SetAside { path, kept } => files::set_aside(path, kept)?,
        Step::KeepLink { path, kept } => files::keep_link(path, kept)?,
        Step::StopTimer { unit } => site.systemctl().stop(unit, Some(Duration::ZERO))?,
        Step::RemovePackage { name } => packages::remove_package(site, name)?,
        Step::Reassert { enabled, running, places } => packages::reassert(site, places, *enabled, *running)?,
        Step::GrantTraverse { path } => files::grant_traverse(path)?,
        Step::EnableTimer { unit } => service::enable_unit(site, unit)?,
        Step::DisableUnit { unit } => service::disable_unit(site, unit)?,
        Step::Retire { dir } if plan.direction == Direction::Uninstall => publish::retire(&site.layout.versions, dir)?,
        Step::Retire { dir } => versions::retire(site, dir)?,
    }
    Ok(Note::default())
}

fn reload(site: &Site<'_>) -> Result<()> {
    site.before_reload.set(site.service.reaper()?);
    if site.service.reload()? == Reloaded::Restarted {
        site.before_reload.set(None);
        site.restarted.set(true);
        site.report
            .warn("the agent's service cannot be reloaded, so the agent was restarted; its connections were dropped");
    }
    Ok(())
}

/// Undoes `step`, which was begun and perhaps done.
pub(super) fn undo(site: &Site<'_>, step: &Step, journal: &mut Journal) -> Result<()> {
    match step {
        Step::RecordAgent { running } => service::bring_back(site, *running || journal.has_started()),
        Step::Place(place) => files::take_back(place),
        Step::LinkAgent { place, .. }
            if service::goes_on(site, journal, place, database::snapshot_dir(site, journal)?.as_deref())? =>
        {
            files::take_back(place)?;
            // Nobody may have started the new version between the look and the link.
            if service::runs(site, place)?.1 { Err(service::new_version_runs(site)) } else { Ok(()) }
        }
        Step::LinkAgent { place, evidence } => {
            // A disk that is full or read-only by now is found while the agent still works.
            files::can_put(place, &place.was)?;
            // While the link leads to the new version a start between two recoveries starts that, on the old database.
            if files::look(&place.path)? == place.now || !journal.has(&Record::DatabaseBack) {
                database::bring_back_snapshot(site, evidence, Some(place), journal)?;
            } else {
                service::stop_for_undo(site, journal)?;
            }
            files::take_back(place)
        }
        Step::Restore { .. } if journal.has(&Record::DatabaseBack) => service::stop_for_undo(site, journal),
        Step::Restore { dir } => database::bring_back_snapshot(site, dir, None, journal),
        Step::PrepareRestore { .. } => restore::discard(&site.database()),
        Step::PrepareSnapshot { dir } => directory::sweep(&site.version_dir(dir)),
        Step::Snapshot { dir, .. } => database::put_away(site, journal, dir),
        Step::Script { .. } => script::end(site),
        Step::SetAside { path, kept } => durable::put_back(kept, path),
        Step::KeepLink { kept, .. } => durable::remove_file(kept),
        Step::StopTimer { unit } if site.boot => {
            site.report.debug(&format!("{unit} is started by the boot itself"));
            Ok(())
        }
        Step::StopTimer { unit } => site.service.daemon_reload().and_then(|()| site.systemctl().start(unit)),
        Step::DisableUnit { unit } => site.service.daemon_reload().and_then(|()| service::enable_unit(site, unit)),
        // What they did is nothing, or is undone by another step.
        Step::Fetch { .. }
        | Step::Verify { .. }
        | Step::Describe { .. }
        | Step::Install { .. }
        | Step::Stop
        | Step::DaemonReload
        | Step::Reload
        | Step::Start
        | Step::Health { .. }
        | Step::RemovePackage { .. }
        | Step::Reassert { .. }
        | Step::GrantTraverse { .. }
        | Step::EnableTimer { .. }
        | Step::Retire { .. } => Ok(()),
    }
}

/// Steps that a boot must not wait for.
pub(super) fn needs_running_system(step: &Step) -> bool {
    matches!(step, Step::RemovePackage { .. } | Step::Reassert { .. } | Step::EnableTimer { .. } | Step::Retire { .. })
}

/// After an undo that failed: the rest waits for the next run, and until then any agent is better than none. Not where
/// the failed version would write into the only copy of the old one's database.
pub(super) fn start_meanwhile(site: &Site<'_>, journal: &Journal) {
    let Ok(opening) = journal.opening() else { return };
    let ran = opening.plan.switch.contains(&Step::RecordAgent { running: true });
    // What cannot be looked at may be, here and below.
    let is_new = database::leads_to_new(&opening.plan);
    let shares = |snapshot: PathBuf| database::shares_file(&snapshot, &site.database());
    let snapshot = database::snapshot_dir(site, journal);
    let is_only_copy = snapshot.and_then(|snapshot| snapshot.map_or(Ok(false), shares)).unwrap_or(true);
    if !site.boot && (ran || journal.has_started()) && !(is_new && is_only_copy) {
        // The first error is the one to tell.
        let _ = service::bring_back(site, true);
    }
}
