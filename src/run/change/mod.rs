//! The walk of every command that changes the installation: lock → recover → facts → plan → prepare → execute →
//! record → watch. What differs between them is the target and what the commit changes in the settings.

mod download;
mod dry_run;
mod outcome;
mod planned;
mod refusals;
mod request;

use crate::config::status::Watch;
use crate::config::{Spec, Updates};
use crate::context::Context;
use crate::execute::prepare::{self};
use crate::execute::{self, Next, room};
use crate::host::durable;
use crate::inspect::{self, data_dir};
use crate::plan::Plan;
use crate::plan::facts::Facts;
use crate::report::{Code, Error, Result};
use crate::run::{fleet, record, recovery, scope};
use crate::store::contents::UNIT;
use crate::store::manifest;
pub(crate) use download::Fetched;
use download::{Order, Terms, download};
pub(crate) use dry_run::dry_run;
use outcome::{note_failure, refuse_outgoing, say_done};
pub(crate) use planned::{Planned, planned};
use planned::{Unproven, facts, prove, replan, unproven, unreadable};
use protocol::Revision;
use refusals::preflight;
pub(crate) use refusals::warn_of_running;
pub(crate) use request::{Basis, RunRequest};

/// The command that stays on its version.
const PIN: &str = "pin";
/// How often a command decides anew because the settings were changed while it had no lock. Each time it may download.
const ROUNDS: u32 = 4;

/// Decides by `round`, and anew each time that the settings turn out to have changed since (`None`), keeping what was
/// downloaded as long as it is what is asked for. Returns the exit status.
///
/// Errors: `overtaken` after four rounds.
pub(crate) fn rounds(
    context: &mut Context,
    mut round: impl FnMut(&mut Context, &mut Fetched) -> Result<Option<u8>>,
) -> Result<u8> {
    let mut fetched = None;
    for _ in 0..ROUNDS {
        if let Some(status) = round(context, &mut fetched)? {
            return Ok(status);
        }
        context.report.info("the settings changed while this command was running: planning again");
    }
    let what = "gave up: the settings kept changing while this command was running; nothing was installed";
    Err(Error::new(Code::Overtaken, what).advise("run the command again when nothing else is changing updates.yaml"))
}

/// How a change ended that was tried.
#[derive(Debug)]
pub(crate) enum Ended {
    /// What it was decided from has changed: nothing was done, and it is to be decided anew.
    Anew,
    /// It was done by this command in a session of its own, which ended with this status.
    Elsewhere(u8),
    /// It is done; with the watch over the version that was committed, if that is watched.
    Done(Option<Box<Watch>>),
}

/// Carries `request` out, and leaves the watch to the caller.
pub(crate) fn apply(context: &mut Context, request: &RunRequest<'_>, fetched: &mut Fetched) -> Result<Ended> {
    if let Some(status) = scope::leave(context)? {
        return Ok(Ended::Elsewhere(status));
    }
    let mut compared = None;
    for _ in 0..ROUNDS {
        let lock = context.lock(request.command)?;
        recovery::pending(context, false)?;
        let outcome = under_lock(context, request, fetched, compared.as_ref());
        if let Err(error) = &outcome {
            note_failure(context, request, error, None);
        }
        match outcome? {
            Pass::Done(watched) => {
                *fetched = None;
                if watched.is_some() {
                    fleet::switched(context);
                }
                return Ok(Ended::Done(watched));
            }
            Pass::Anew => return Ok(Ended::Anew),
            Pass::Compare(unproven) => {
                drop(lock);
                if let Err(error) = prove(context, request, &unproven) {
                    // Whoever has the lock has more to tell than this.
                    if let Ok(_lock) = context.lock(request.command) {
                        note_failure(context, request, &error, None);
                    }
                    return Err(error);
                }
                compared = Some(unproven);
            }
            Pass::Download(order) => {
                drop(lock);
                // One of another kind holds the lock of its download.
                *fetched = None;
                *fetched = download(context, request, *order)?;
            }
        }
    }
    Err(unreadable(context, request, "it was downloaded several times, but never matched the settings"))
}

fn pinned_to(target: &Revision) -> String {
    format!("pinned to {}", target.version)
}

/// Writes what `change` makes of the settings, and leaves the host as it is. `None`: they are not those of `basis` any more.
pub(crate) fn save_settings(
    context: &mut Context,
    command: &str,
    change: &dyn Fn(&mut Spec),
    basis: &Basis,
) -> Result<Option<u8>> {
    let (_lock, mut updates) = recovery::settled(context, command)?;
    if Basis::of(context, &updates)? != *basis {
        return Ok(None);
    }
    let mut spec = updates.spec().clone();
    change(&mut spec);
    updates.set_spec(&spec);
    let next = Next { config: Some(updates.render()?), credentials: context.next_credentials()? };
    execute::write_settings(&context.site(&updates, false)?, command, next)?;
    context.report.notice("the settings are saved; nothing was installed");
    Ok(Some(0))
}

/// How far a run has come when the lock is given back.
enum Pass {
    /// What the request was decided from is not so any more.
    Anew,
    /// It is over; this is the watch over the version that was committed.
    Done(Option<Box<Watch>>),
    /// A version on the disk must be compared with what its signers mean first, which keeps nobody out.
    Compare(Unproven),
    /// A version must be downloaded first, which keeps nobody out; then all is looked at again.
    Download(Box<Order>),
}

fn under_lock(
    context: &mut Context,
    request: &RunRequest<'_>,
    staged: &mut Fetched,
    compared: Option<&Unproven>,
) -> Result<Pass> {
    let mut updates = inspect::open(context)?;
    if let Some(why) = (request.obsolete)(&updates) {
        context.report.info(&why);
        return Ok(Pass::Done(None));
    }
    if let Some(basis) = &request.basis
        && *basis != Basis::of(context, &updates)?
    {
        return Ok(Pass::Anew);
    }
    // The links go where the settings of this very run say, not where they went before.
    let spec = request.settings(&updates);
    context.lay_out(spec.path.as_deref())?;
    context.data_dir.clone_from(&spec.data_dir);
    recovery::sweep(context);
    remember_data_dir(context, &mut updates)?;
    let (mut plan, mut facts) = match planned(context, &updates, request)? {
        Planned::Wait(why) => {
            context.report.info(&why);
            return Ok(Pass::Done(None));
        }
        Planned::Proceed(plan, facts) => (*plan, *facts),
    };
    if let Some(unproven) = unproven(context, &updates, request, &facts, &plan)?
        && compared != Some(&unproven)
    {
        return Ok(Pass::Compare(unproven));
    }
    preflight(context)?;
    if request.refuse_outgoing.is_none() {
        fleet::started(context, &plan);
    }
    if !plan.prepare.is_empty() {
        match prepared(context, request, updates, staged, plan, facts, &spec)? {
            Prepared::Ready(now) => (updates, plan, facts) = *now,
            Prepared::Download(order) => return Ok(Pass::Download(order)),
        }
    }
    let has_unit = facts.find(&request.target).is_none_or(|target| target.unit.is_some());
    let target_dir = context.layout.versions.join(facts.dir_for(&request.target));
    if !has_unit && std::fs::symlink_metadata(target_dir.join(UNIT)).is_ok() {
        return Err(unreadable(context, request, "its unit file exists but is not readable text"));
    }
    if plan.is_empty() {
        commit_without_move(context, &mut updates, request)?;
        return Ok(Pass::Done(None));
    }
    room::check(&context.site(&updates, false)?, &plan, None)?;
    for note in &plan.notes {
        context.report.warn(note);
    }
    execute(context, request, &plan).map(|watch| Pass::Done(watch.map(Box::new)))
}

/// Which database is the agent's can be seen only while it runs; what was seen last holds while it does not.
fn remember_data_dir(context: &Context, updates: &mut Updates) -> Result<()> {
    if context.layout.is_image() || !durable::exists(&context.layout.config_file())? {
        return Ok(());
    }
    let Some(seen) = data_dir::to_remember(context, updates, &context.data_dir()?)? else { return Ok(()) };
    let mut status = updates.status().clone();
    status.agent_data_dir = Some(seen);
    updates.set_status(&status);
    updates.write()
}

fn execute(context: &Context, request: &RunRequest<'_>, plan: &Plan) -> Result<Option<Watch>> {
    let updates = Updates::read(&context.layout.config_file())?;
    let mut site = context.site(&updates, false)?;
    let spec = request.settings(&updates);
    site.proxy = spec.proxy.clone().unwrap_or_default();
    let finished = execute::run(
        &site,
        plan,
        request.command,
        &mut |snapshot| {
            // Read again: the operator may have edited the file meanwhile.
            let mut updates = Updates::read(&context.layout.config_file())?;
            let refused = updates.status().refused.clone();
            record::committed(&mut updates, plan, request.change, snapshot, context.host.now());
            let mut status = updates.status().clone();
            if plan.from != plan.to {
                record::note_departure(&mut status, plan.from.as_ref(), request.force, context.host.now());
            }
            if let (Some(reason), Some(left)) = (&request.refuse_outgoing, &plan.from) {
                // Going back is no new target: what was refused stays so, and the version left counts on.
                status.refused = refused;
                refuse_outgoing(context, request, plan, &mut status, left, reason);
            }
            updates.set_status(&status);
            Ok(Next { config: Some(updates.render()?), credentials: context.next_credentials()? })
        },
        &mut |journal| recovery::write_failure(context, journal),
    );
    match finished {
        Ok(after) => {
            say_done(context, plan);
            if request.command == PIN {
                context.report.notice(&pinned_to(&request.target));
            }
            match after {
                Some(error) => Err(error),
                None if plan.is_watched() => Ok(Updates::read(&context.layout.config_file())?.status().watch.clone()),
                None => Ok(None),
            }
        }
        Err(undone) => {
            let recorded = undone.recorded;
            let error = match undone.recovery {
                Some(recovery) => undone
                    .error
                    .advise(format!("the rollback failed as well: {recovery}; run `teleport-update recover`")),
                None if !undone.begun => undone.error.during("the change was not started"),
                // Its script is not undone, and says itself what has failed.
                None if plan.script().is_some() => undone.error,
                None => {
                    let left =
                        plan.from.as_ref().map_or("the state before this run".to_owned(), |from| from.to_string());
                    undone.error.during(format!("rolled back to {left}"))
                }
            };
            Err(if recorded { error.recorded() } else { error })
        }
    }
}

/// The version that a plan needs.
enum Prepared {
    /// It is on the disk, and planned with.
    Ready(Box<(Updates, Plan, Facts)>),
    /// It must be downloaded first.
    Download(Box<Order>),
}

/// Publishes what was downloaded for `plan`, or checks what is on the disk, and plans again with it.
fn prepared(
    context: &Context,
    request: &RunRequest<'_>,
    updates: Updates,
    staged: &mut Fetched,
    mut plan: Plan,
    mut facts: Facts,
    spec: &Spec,
) -> Result<Prepared> {
    let terms = Terms::of(context, &plan, spec);
    let fits = staged.take_if(|(_, staged, _)| Some(&*staged) == terms.as_ref());
    if let Some((staged, _, _downloads)) = fits {
        let dir = context.layout.versions.join(facts.dir_for(&request.target));
        if facts.active.as_ref() == Some(&request.target) && manifest::is_open(&dir) {
            warn_of_running(context, &dir);
        }
        staged.publish(&context.site(&updates, false)?)?;
        plan.prepare.iter().for_each(|step| context.report.debug(&format!("done: {}", step.describe())));
    } else {
        let checked = if plan.fetches() { Ok(()) } else { prepare::run(&context.site(&updates, false)?, &plan) };
        match checked {
            // A version on disk that is damaged is downloaded again.
            Err(error) if error.code == Code::Damaged => {
                context.report.warn(&error.to_string());
                facts.installed.iter_mut().filter(|known| known.revision == request.target).for_each(|known| {
                    known.intact = false;
                });
                plan = replan(context, &updates, request, &facts)?;
            }
            other => other?,
        }
        if let Some(terms) = Terms::of(context, &plan, spec) {
            return Ok(Prepared::Download(Box::new(Order { updates, plan, facts, terms })));
        }
    }
    facts = self::facts(context, &updates, request)?;
    plan = replan(context, &updates, request, &facts)?;
    if plan.fetches() {
        return Err(unreadable(context, request, "it was just installed, but some of its files are missing or wrong"));
    }
    plan.prepare.clear();
    Ok(Prepared::Ready(Box::new((updates, plan, facts))))
}

/// The host is as requested; settings may still change.
fn commit_without_move(context: &Context, updates: &mut Updates, request: &RunRequest<'_>) -> Result<()> {
    let mut spec = request.settings(updates);
    // An empty plan is the proof that every link leads there, also where the settings had lost or forgotten it.
    spec.active_version = Some(request.target.version.clone());
    spec.active_edition = Some(request.target.edition);
    let before = updates.render()?;
    updates.set_spec(&spec);
    // Failures of a version that is watched count until its watch is over, as in `record::committed`.
    if request.force && updates.status().watch.is_none() {
        let mut status = updates.status().clone();
        status.refused.retain(|refused| refused.revision != request.target);
        status.delayed.retain(|delayed| delayed.revision != request.target);
        updates.set_status(&status);
    }
    let after = updates.render()?;
    if let Some(credentials) = context.next_credentials()? {
        let next = Next { config: Some(after), credentials: Some(credentials) };
        execute::write_settings(&context.site(updates, false)?, request.command, next)?;
    } else if after != before || context.settings_disagree {
        durable::write(&context.layout.config_file(), after.as_bytes(), durable::FILE_MODE)?;
    }
    context.report.notice(&match request.command {
        PIN => pinned_to(&request.target),
        _ => format!("{} is active, nothing to do", request.target),
    });
    Ok(())
}
