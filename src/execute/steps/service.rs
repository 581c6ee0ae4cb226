//! Steps on the agent's service and on units: stopped and brought back, and who runs meanwhile.

use std::path::Path;
use std::time::Instant;

use super::super::Site;
use super::super::journal::{Journal, Note, Record};
use crate::host::process::FileId;
use crate::host::systemctl::Systemctl;
use crate::plan::{Database, Node, Placement, Plan, ServiceAction, Step};
use crate::report::{Code, Error, Result};
use crate::service::sampler::Probe;
use crate::service::{Service, Verdict, health};
use crate::store::contents::AGENT_FILE;

pub(in crate::execute) fn stop(site: &Site<'_>) -> Result<()> {
    let proof = site.stop_proof();
    site.service.wait_until_alone(&proof, site.database_timeout, &|| site.signals.cancelled())?;
    site.downtime.borrow_mut().bus = site.service.bus();
    // The agent can carry the terminal of whoever is waiting: its loss is no request to stop from here on.
    site.signals.ignore_hangup()?;
    site.stopped_at.set(Some(Instant::now()));
    site.service.stop(&proof, site.database_timeout)
}

/// Before the database is put back nothing may have it open. At boot nothing has been started yet; it is proven all
/// the same.
pub(in crate::execute) fn stop_for_undo(site: &Site<'_>, journal: &mut Journal) -> Result<()> {
    note_started(site, journal)?;
    let service = if site.boot { &Service::None } else { &site.service };
    service.stop(&site.stop_proof(), site.database_timeout)
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

/// The agent as it was before the run, or when its undo stopped it.
pub(in crate::execute) fn bring_back(site: &Site<'_>, running: bool) -> Result<()> {
    // What had the database open in the downtime was stopped before it was put back.
    site.downtime.take();
    site.service.daemon_reload()?;
    if site.boot || !running || site.service.is_running()? {
        return Ok(());
    }
    site.service.start()
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
    let new = match new {
        Some(program) => FileId::find(program)?,
        None => None,
    };
    let mut is_old = false;
    for agent in site.stop_proof().agents()? {
        is_old |= agent.exe_id()?.is_some_and(|program| Some(program) != new);
    }
    // By then the link leads to the new version, on its own database.
    if is_old {
        return Err(Error::new(
            Code::AgentNotStopped,
            "the old version was started by something else while it was stopped for the update",
        )
        .advise("find what starts it (a supervisor, Upholds= of another unit), stop that and run the command again"));
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
            site.report.warn(&format!(
                "the agent was already failing before this update, so the new version could not be checked: {reason}"
            ));
            Ok(())
        }
        Verdict::Failed { reason } => {
            Err(Error::new(Code::Unhealthy, format!("the new version is not healthy: {reason}"))
                .advise("see `journalctl -u teleport`"))
        }
    }
}

/// True where an agent that we did not touch (it is run by something that we cannot control, or was started by hand
/// meanwhile) is seen to run another binary than the new one: the live database is its own, and only the link goes back.
/// Whoever else may have the database open does not tell whose it is.
pub(in crate::execute) fn was_left_alone(site: &Site<'_>, journal: &Journal, place: &Placement) -> Result<bool> {
    let plan = &journal.opening()?.plan;
    let ours_to_stop = plan.service != ServiceAction::None || plan.database == Database::Restore;
    let Some(new) = new_program(site, place)?.filter(|_| !ours_to_stop) else { return Ok(false) };
    let mut runs_old = false;
    for agent in site.stop_proof().agents()? {
        runs_old |= agent.exe_id()?.is_some_and(|program| program != new);
    }
    Ok(runs_old && !runs_new(site, place)?)
}

/// Whether a process runs the binary that `place` leads to now.
pub(in crate::execute) fn runs_new(site: &Site<'_>, place: &Placement) -> Result<bool> {
    let new = new_program(site, place)?;
    for process in site.stop_proof().leftovers()? {
        if new.is_some() && process.exe_id()? == new {
            return Ok(true);
        }
    }
    Ok(false)
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
    site.systemctl().enable(unit)?;
    let starts = unit.ends_with(".timer") && !site.layout.is_image() && !site.boot;
    if starts { site.systemctl().start(unit) } else { Ok(()) }
}

pub(in crate::execute) fn disable_unit(site: &Site<'_>, unit: &str) -> Result<()> {
    if !site.layout.is_image() {
        site.systemctl().stop(unit)?;
    }
    site.systemctl().disable(unit)
}

impl Site<'_> {
    pub(super) fn systemctl(&self) -> Systemctl {
        if self.layout.is_image() { Systemctl::image(&self.layout.root) } else { Systemctl::host() }
    }
}
