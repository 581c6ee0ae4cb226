//! Steps on the agent's service and on units: stopped and brought back, and who runs meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use super::super::Site;
use super::super::journal::{Journal, Note, Record};
use crate::database;
use crate::host::process::FileId;
use crate::host::systemctl::Systemctl;
use crate::plan::{Database, Node, Placement, Plan, Step};
use crate::report::{Code, Error, Result};
use crate::service::sampler::Probe;
use crate::service::{Service, Verdict, health, stopped};
use crate::store::contents::AGENT_FILE;

pub(in crate::execute) fn stop(site: &Site<'_>) -> Result<()> {
    let proof = site.stop_proof();
    let cancelled = || site.signals.cancelled();
    site.service.wait_until_alone(&proof, site.database_timeout, &cancelled)?;
    // The agent can carry the terminal of whoever is waiting: its loss is no request to stop from here on.
    site.signals.ignore_hangup()?;
    site.stopped_at.set(Some(Instant::now()));
    site.service.stop(&proof, site.database_timeout)?;
    // Also who was left in the unit's control group (KillMode=process).
    Service::None.wait_for_strangers(&proof, site.database_timeout, &cancelled)
}

/// Before the database is put back no agent may have it open; who else has it open makes no undo fail. At boot nothing has been
/// started yet; it is looked at all the same.
pub(in crate::execute) fn stop_for_undo(site: &Site<'_>, journal: &mut Journal) -> Result<()> {
    note_started(site, journal)?;
    let service = if site.boot { &Service::None } else { &site.service };
    service.stop(&site.stop_proof(), site.database_timeout)
}

/// Directly before the database that was left is put back: an agent that was started since the stop.
///
/// Errors: [`Code::AgentNotStopped`]; [`Code::Io`].
pub(in crate::execute) fn no_agent_runs(site: &Site<'_>) -> Result<()> {
    let agents = site.service.agents(&site.stop_proof())?;
    if agents.is_empty() { Ok(()) } else { Err(stopped::not_stopped(&agents)) }
}

/// Directly before a database is replaced: the same, and nobody else may have opened it.
///
/// Errors: [`Code::DatabaseBusy`] naming the processes; [`Code::Permission`]; [`Code::Io`].
pub(in crate::execute) fn nobody_came(site: &Site<'_>) -> Result<()> {
    let proof = site.stop_proof();
    let came = no_agent_runs(site).and_then(|()| Service::None.wait_for_strangers(&proof, Duration::ZERO, &|| false));
    came.map_err(|error| match error.code {
        Code::AgentNotStopped | Code::DatabaseBusy => {
            let what = "something was started, or opened the database, while the agent was stopped for the update";
            Error::new(Code::DatabaseBusy, format!("{what}: {}", error.what)).advise(
                "find what starts it (a supervisor, Upholds= of another unit), stop that and run the command again",
            )
        }
        _ => error,
    })
}

/// An agent that did not run before the run, and that a boot or an operator has started since, is stopped by the undo: it is
/// written down first, so that it is brought back.
fn note_started(site: &Site<'_>, journal: &mut Journal) -> Result<()> {
    let switch = &journal.opening()?.plan.switch;
    let Some(step) = switch.iter().position(|step| matches!(step, Step::RecordAgent { running: false })) else {
        return Ok(());
    };
    if site.boot || matches!(site.service, Service::None) || journal.has_started() {
        return Ok(());
    }
    let agent = site.service.state(&site.stop_proof())?;
    if agent.running || (agent.enabled && agent.failed) {
        journal.append(Record::Done { step, note: Note { started: true, ..Note::default() } })?;
    }
    Ok(())
}

/// The agent as it was before the run, or when its undo stopped it: it runs, whatever else has failed.
pub(in crate::execute) fn bring_back(site: &Site<'_>, running: bool) -> Result<()> {
    // What had the database open in the downtime was stopped before it was put back.
    site.downtime.take();
    if let Err(error) = site.service.daemon_reload() {
        let advice = "the agent is started all the same; run `systemctl daemon-reload` when the cause is mended";
        site.report.warn(&format!("{}; {advice}", error.what));
    }
    if site.boot || !running || matches!(site.service, Service::None) {
        return Ok(());
    }
    site.service.ensure_started()?;
    // Files are in order by then, and what keeps the agent down is no reason to undo again: it is told.
    *site.down.borrow_mut() = site.service.wait_for_start(site.health.deadline).err();
    Ok(())
}

/// While the agent stood still nobody may have started it: it has the wrong database, or the one that was replaced.
///
/// Errors: `agent_not_stopped`, which the new version is not to blame for.
pub(in crate::execute) fn old_must_not_run(site: &Site<'_>, plan: &Plan) -> Result<()> {
    let judged = plan.switch.iter().find_map(|step| match step {
        Step::Health { binary, .. } => Some(site.layout.followed(binary)),
        _ => None,
    });
    let new = judged.or_else(|| Some(site.version_dir(plan.to_dir.as_ref()?).join(AGENT_FILE)));
    let new = new.map_or(Ok(None), FileId::find)?;
    let mut is_old = false;
    for agent in site.service.agents(&site.stop_proof())? {
        is_old |= agent.exe_id()?.is_some_and(|program| Some(program) != new);
    }
    // By then the link leads to the new version, on its own database.
    if is_old {
        let what = "the old version was started by something else while it was stopped for the update";
        return Err(Error::new(Code::AgentNotStopped, what).advise(
            "find what starts it (a supervisor, Upholds= of another unit), stop that and run the command again",
        ));
    }
    Ok(())
}

/// Of a version that could not start, because the old one was started in its place, nothing is told by that.
pub(in crate::execute) fn not_blamed(site: &Site<'_>, plan: &Plan, error: Error) -> Error {
    if error.code == Code::Unhealthy && plan.switch.contains(&Step::Stop) {
        old_must_not_run(site, plan).err().unwrap_or(error)
    } else {
        error
    }
}

pub(in crate::execute) fn health_verdict(site: &Site<'_>, binary: &Path, served: bool, failing: bool) -> Result<()> {
    let probe = Probe {
        service: &site.service,
        new_binary: site.layout.followed(binary),
        data_dir: site.data_dir.clone(),
        before_reload: site.before_reload.get(),
    };
    let verdict = health::observe(&probe, site.health, served, failing, &|| site.signals.cancelled())?;
    match verdict {
        Verdict::Healthy { .. } => Ok(()),
        Verdict::Unproven { reason } => {
            site.report.warn(&format!("the new version could not be checked: {reason}"));
            Ok(())
        }
        Verdict::Unstarted { reason } => {
            let what = format!("nothing of the new version was started, so it could not be checked: {reason}");
            Err(Error::new(Code::ServiceFailed, what).advise("see `systemctl status teleport`"))
        }
        Verdict::Failed { reason } => {
            Err(Error::new(Code::Unhealthy, format!("the new version is not healthy: {reason}"))
                .advise("see `journalctl -u teleport`"))
        }
    }
}

/// True where the old version's agent runs on and has the database to itself: nothing was put in its place, and the new version,
/// which runs no more, has left its schema alone, or was never started. Then only names go back, and no agent is stopped.
/// `snapshot`: where the database is that this run has taken.
pub(in crate::execute) fn goes_on(
    site: &Site<'_>,
    journal: &Journal,
    place: &Placement,
    snapshot: Option<&Path>,
) -> Result<bool> {
    let plan = &journal.opening()?.plan;
    if plan.database == Database::Restore || site.boot {
        return Ok(false);
    }
    let (old, new) = runs(site, place)?;
    if !old || new {
        return Ok(false);
    }
    let is_action = |step: &Step| matches!(step, Step::Reload | Step::Start);
    let action = plan.switch.iter().position(is_action);
    if action.is_none_or(|step| !journal.has(&Record::Intent { step })) {
        return Ok(true);
    }
    Ok(snapshot.is_some_and(|snapshot| database::has_schema_of(snapshot, &site.database()).unwrap_or(false)))
}

/// Whether an agent of another version, and whether one of the version that `place` leads to now, runs.
pub(in crate::execute) fn runs(site: &Site<'_>, place: &Placement) -> Result<(bool, bool)> {
    let new = new_program(site, place)?;
    let mut seen = (false, false);
    for agent in site.service.agents(&site.stop_proof())? {
        let is_new = new.is_some() && agent.exe_id()? == new;
        seen = (seen.0 || !is_new, seen.1 || is_new);
    }
    Ok(seen)
}

/// The binary that `place` leads to now.
fn new_program(site: &Site<'_>, place: &Placement) -> Result<Option<FileId>> {
    let Node::Link(target) = &place.now else { return Ok(None) };
    FileId::find(site.layout.followed(target))
}

pub(in crate::execute) fn new_version_runs(site: &Site<'_>) -> Error {
    let data_dir = site.data_dir.display();
    Error::new(Code::AgentNotStopped, "something other than teleport-update has started the new version")
        .advise(format!("stop the agent; the next run then restores the old version's database in {data_dir}"))
}

pub(in crate::execute) fn enable_unit(site: &Site<'_>, unit: &str) -> Result<()> {
    site.systemctl().tell("enable", unit)?;
    let starts = unit.ends_with(".timer") && !site.layout.is_image() && !site.boot;
    if starts { site.systemctl().start(unit) } else { Ok(()) }
}

pub(in crate::execute) fn disable_unit(site: &Site<'_>, unit: &str) -> Result<()> {
    if !site.layout.is_image() {
        site.systemctl().stop(unit, Some(Duration::ZERO))?;
    }
    site.systemctl().tell("disable", unit)
}

impl Site<'_> {
    pub(super) fn systemctl(&self) -> Systemctl {
        Systemctl { root: self.layout.is_image().then(|| self.layout.root.clone()) }
    }
}
