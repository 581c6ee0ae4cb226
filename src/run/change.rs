//! The walk of every command that changes the installation: lock → recover → facts → plan → prepare → execute →
//! record → watch. What differs between them is the target and what the commit changes in the settings.

use crate::config::status::{Outcome, Status, Watch};
use crate::config::{Credentials, Spec, Updates};
use crate::context::Context;
use crate::database::SnapshotId;
use crate::database::backup::{self, Backup};
use crate::database::directory;
use crate::execute::prepare::{self, Failed, Staged, Supply};
use crate::execute::{self, Next, Site, room};
use crate::host::lock::Download;
use crate::host::{durable, machine};
use crate::inspect::data_dir;
use crate::inspect::{self, Depth};
use crate::plan::decide::{self, Decision, Request};
use crate::plan::facts::{Facts, Refusal};
use crate::plan::{self, Database, Direction, Over, Plan, ServiceAction, Snapshot, Step, Target};
use crate::release;
use crate::report::{Code, Error, Result};
use crate::run::cluster_client;
use crate::run::record;
use crate::run::recovery;
use crate::run::scope;
use crate::service::Service;
use crate::store::VersionDir;
use crate::store::contents::UNIT;
use crate::store::manifest;
use protocol::{Arch, Revision};
use std::path::Path;

/// How often a command decides anew because the settings were changed while it had no lock. Each time it may download.
const ROUNDS: u32 = 4;

/// What a command decides from, and others may change as long as the lock is not held: an operator's command, another run, a
/// hand in an editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Basis {
    spec: Spec,
    credentials: Credentials,
    /// There was a file with settings: without one they are what the links say.
    written: bool,
}

impl Basis {
    /// Of the settings as they were read.
    ///
    /// Errors: `permission`, `io`.
    pub(crate) fn of(context: &Context, updates: &Updates) -> Result<Self> {
        let credentials = Credentials::known(&context.layout.versions)?;
        let written = durable::exists(&context.layout.config_file())?;
        Ok(Self { spec: updates.spec().clone(), credentials, written })
    }

    /// Refuses to change again what was changed since this was so: `now` it is otherwise, and `wanted` otherwise again. The
    /// later word counts, and who came earlier is told.
    ///
    /// Errors: `overtaken`.
    pub(crate) fn refuse_contested(&self, now: &Self, wanted: &Spec, credentials: Option<&Credentials>) -> Result<()> {
        let mut names = now.spec.contested(&self.spec, wanted);
        let is_other = |credentials: &Credentials| *credentials != now.credentials;
        if self.credentials != now.credentials && credentials.is_some_and(is_other) {
            names.push("the credentials");
        }
        if names.is_empty() {
            return Ok(());
        }
        let what = format!(
            "another command or an editor changed {} while this command was running; that change was kept",
            names.join(", ")
        );
        Err(Error::new(Code::Overtaken, what)
            .advise("check updates.yaml; run the command again if you still want its change"))
    }

    /// Whether the settings have gone since: another run has uninstalled.
    pub(crate) fn is_gone(&self, context: &Context) -> Result<bool> {
        Ok(self.written && !durable::exists(&context.layout.config_file())?)
    }
}

/// What a command wants.
pub(crate) struct RunRequest<'a> {
    /// The command's name, for the lock and the journal.
    pub command: &'static str,
    /// The revision to be reached.
    pub target: Revision,
    /// Whether the cluster's window is open, or does not matter.
    pub in_window: bool,
    /// The operator forced: earlier refusals do not count.
    pub force: bool,
    /// How much is taken over.
    pub depth: Depth,
    /// What of others may be replaced.
    pub over: Over,
    /// What the commit changes in the settings.
    pub change: &'a dyn Fn(&mut Spec),
    /// Why there is nothing to do any more, if the settings say so when the lock is ours: another run was quicker.
    pub obsolete: &'a dyn Fn(&Updates) -> Option<String>,
    /// The version that is left is refused from now on, for this reason (a rollback).
    pub refuse_outgoing: Option<String>,
    /// Digest of a snapshot that is asked for nothing else (a failed watch goes back to its own).
    pub trusted_snapshot: Option<SnapshotId>,
    /// What it was decided from: under the lock it must still be so. `None` where no setting has a say.
    pub basis: Option<Basis>,
}

impl RunRequest<'_> {
    /// The settings as the commit will write them.
    pub(crate) fn settings(&self, updates: &Updates) -> Spec {
        let mut spec = updates.spec().clone();
        (self.change)(&mut spec);
        spec
    }
}

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
    for _ in 0..ROUNDS {
        let lock = context.lock(request.command)?;
        recovery::pending(context, false)?;
        let outcome = under_lock(context, request, fetched);
        if let Err(error) = &outcome {
            note_failure(context, request, error, None);
        }
        match outcome? {
            Pass::Done(watched) => {
                *fetched = None;
                return Ok(Ended::Done(watched));
            }
            Pass::Anew => return Ok(Ended::Anew),
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

/// How far a run has come when the lock is given back.
enum Pass {
    /// What the request was decided from is not so any more.
    Anew,
    /// It is over; this is the watch over the version that was committed.
    Done(Option<Box<Watch>>),
    /// A version must be downloaded first, which keeps nobody out; then all is looked at again.
    Download(Box<Order>),
}

/// What is to be downloaded.
struct Order {
    updates: Updates,
    plan: Plan,
    facts: Facts,
    terms: Terms,
}

/// A version that was downloaded and is to be installed, what it was asked for under, and the lock of its download.
pub(crate) type Fetched = Option<(Staged, Terms, Download)>;

/// What is downloaded, and all that has a say in how: from where, past whom, signed by whom. What was fetched under other terms
/// is not what the settings ask for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    revision: Revision,
    dir: VersionDir,
    arch: Arch,
    insecure: bool,
    /// The settings of a download, all others as they are by default.
    spec: Spec,
}

impl Terms {
    /// `None` where `plan` downloads nothing.
    fn of(context: &Context, plan: &Plan, spec: &Spec) -> Option<Self> {
        let (revision, dir) = plan.download()?;
        let Spec { base_url, public_key, ca, components, https_proxy, http_proxy, no_proxy, .. } = spec.clone();
        let of_downloads = Spec { base_url, public_key, ca, components, https_proxy, http_proxy, ..Spec::default() };
        Some(Self {
            revision: revision.clone(),
            dir: dir.clone(),
            arch: cluster_client::arch(context),
            insecure: cluster_client::is_insecure(context, spec),
            spec: Spec { no_proxy, ..of_downloads },
        })
    }
}

/// Downloads what `order` says, without the lock. `None`: another run did so meanwhile.
fn download(context: &mut Context, request: &RunRequest<'_>, order: Order) -> Result<Fetched> {
    let Some((revision, dir)) = order.plan.download() else { return Ok(None) };
    let begun = Download::begin(&context.lock_path(), dir.as_str(), context.lock_wait(request.command), &|| {
        context.signals.cancelled()
    });
    let failed = match begun {
        Ok(None) => return Ok(None),
        Ok(Some(lock)) => {
            let staged = supplied(context, &order.updates, request, &order.facts, |site, supply| {
                Ok(prepare::download(site, &order.plan, revision, dir, supply))
            });
            match staged {
                Ok(Ok(staged)) => return Ok(Some((staged, order.terms, lock))),
                Ok(Err(failed)) => failed,
                Err(error) => Failed { error, spent: false },
            }
        }
        Err(error) => Failed { error, spent: false },
    };
    let digest = failed.spent.then(|| announced(context, &order.updates, request));
    // Whoever has the lock has more to tell than this.
    if let Ok(_lock) = context.lock(request.command) {
        note_failure(context, request, &failed.error, digest);
    }
    Err(failed.error)
}

/// The digest that is announced for the target now.
fn announced(context: &Context, updates: &Updates, request: &RunRequest<'_>) -> Option<String> {
    let spec = request.settings(updates);
    let (client, base) = (cluster_client::client(context, &spec).ok()?, cluster_client::base_url(context, &spec).ok()?);
    let cancelled = || context.signals.cancelled();
    let digest = release::announced_digest(&client, &base, &request.target, cluster_client::arch(context), &cancelled)?;
    Some(digest.to_string())
}

/// For a command that nothing makes superfluous.
pub(crate) fn never(_: &Updates) -> Option<String> {
    None
}

/// What `plan` shows and [`apply`] runs: the same value from the same facts.
pub(crate) fn planned(context: &Context, updates: &Updates, request: &RunRequest<'_>) -> Result<Planned> {
    let facts = facts(context, updates, request)?;
    let is_delayed = |delay: &Refusal| delay.revision == request.target && delay.digest.is_some();
    let announced = if !request.force && request.in_window && facts.delayed.iter().any(is_delayed) {
        announced(context, updates, request)
    } else {
        None
    };
    let question =
        Request { wanted: request.target.clone(), in_window: request.in_window, force: request.force, announced };
    match decide::decide(&facts, &question, updates.spec().min_version.as_ref()) {
        Decision::Wait(why) => return Ok(Planned::Wait(why)),
        Decision::Refuse(error) => return Err(error),
        Decision::Proceed => {}
    }
    let plan = replan(context, updates, request, &facts)?;
    // A look at the processes that fails half-way would be taken for a fault of the new version's.
    if !context.layout.is_image() && !plan.is_empty() {
        context.stop_proof()?.check_sight()?;
    }
    Ok(Planned::Proceed(Box::new(plan), Box::new(facts)))
}

/// The facts under the settings that the commit will write: `keep` or a proxy given now counts now.
fn facts(context: &Context, updates: &Updates, request: &RunRequest<'_>) -> Result<Facts> {
    let mut updates = updates.clone();
    let spec = request.settings(&updates);
    updates.set_spec(&spec);
    inspect::facts(context, &updates, request.depth, request.trusted_snapshot)
}

/// The result of planning.
pub(crate) enum Planned {
    /// Nothing to do now, and why.
    Wait(String),
    /// This, from these facts.
    Proceed(Box<Plan>, Box<Facts>),
}

fn under_lock(context: &mut Context, request: &RunRequest<'_>, staged: &mut Fetched) -> Result<Pass> {
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
    let (mut plan, mut facts) = match planned(context, &updates, request)? {
        Planned::Wait(why) => {
            context.report.info(&why);
            return Ok(Pass::Done(None));
        }
        Planned::Proceed(plan, facts) => (*plan, *facts),
    };
    preflight(context)?;
    refuse_masked(context, &updates, &plan)?;
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

/// A plan from facts that were not read would take away the links of files that are there.
fn unreadable(context: &Context, request: &RunRequest<'_>, why: &str) -> Error {
    let what = format!("cannot read {} in {}: {why}", request.target, context.layout.versions.display());
    Error::new(Code::Io, what).advise("check the kernel log for disk errors, then run the command again")
}

/// Calls `work` with what a download needs.
fn supplied<T>(
    context: &Context,
    updates: &Updates,
    request: &RunRequest<'_>,
    facts: &Facts,
    work: impl FnOnce(&Site<'_>, &Supply<'_>) -> Result<T>,
) -> Result<T> {
    let spec = request.settings(updates);
    let client = cluster_client::client(context, &spec)?;
    let base = cluster_client::base_url(context, &spec)?;
    let supply = Supply {
        client: &client,
        base: &base,
        arch: cluster_client::arch(context),
        public_key: spec.public_key.as_deref().map(str::parse).transpose()?,
        components: &spec.components,
        limits: spec.network.limits.clone(),
        version_wait: spec.version_wait,
        active_size: facts.active.as_ref().and_then(|active| facts.find(active)).map(|active| active.size),
    };
    work(&context.site(updates, false)?, &supply)
}

fn replan(context: &Context, updates: &Updates, request: &RunRequest<'_>, facts: &Facts) -> Result<Plan> {
    refuse_moved(context, updates, facts)?;
    let spec = request.settings(updates);
    let url =
        cluster_client::base_url(context, &spec)?.join(&request.target.archive_name(cluster_client::arch(context)));
    let target = Target {
        revision: request.target.clone(),
        url,
        bytes: None,
        trust_snapshot: request.trusted_snapshot.is_some(),
        over: request.over,
    };
    let plan = plan::move_to(facts, &target)?;
    data_dir::refuse(&plan, facts.other_data_dir.as_deref(), &context.data_dir()?)?;
    if plan.database == Database::Keep {
        return Ok(plan);
    }
    // Only now are the snapshot's bytes looked at: it takes a while, and most snapshots are never wanted.
    match whole_snapshot(context, &plan) {
        Ok(()) => Ok(plan),
        Err(error) => {
            let mut facts = facts.clone();
            facts.installed.iter_mut().filter(|known| known.revision == request.target).for_each(|known| {
                known.snapshot = Snapshot::Unusable(error.clone());
            });
            plan::move_to(&facts, &target)
        }
    }
}

/// Whether the bytes of the snapshot that `plan` restores are what its description says.
fn whole_snapshot(context: &Context, plan: &Plan) -> Result<()> {
    let Some(dir) = &plan.to_dir else { return Ok(()) };
    let snapshot = directory::of(&context.layout.versions.join(dir));
    match Backup::read(&snapshot)? {
        Some(backup) => backup::check_bytes(&snapshot, &backup),
        None => {
            let what = format!("the database backup {} has disappeared", snapshot.display());
            Err(Error::new(Code::BackupMissing, what))
        }
    }
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
            Ok(Next { config: Some(updates.render()), credentials: context.next_credentials()? })
        },
        &mut |journal| recovery::write_failure(context, journal),
    );
    match finished {
        Ok(finished) => {
            say_done(context, plan);
            match finished.after {
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
        plan.prepare.iter().for_each(|step| context.report.debug(&step.describe()));
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

/// Writes down that `left` was gone back from, for `reason`, and keeps what it wrote.
fn refuse_outgoing(
    context: &Context,
    request: &RunRequest<'_>,
    plan: &Plan,
    status: &mut Status,
    left: &Revision,
    reason: &str,
) {
    if let Some(last) = &mut status.last_result {
        last.outcome = Outcome::RolledBack;
        last.message = Some(reason.to_owned());
        last.error_code = request.trusted_snapshot.as_ref().map(|_| Code::Unhealthy.as_str().to_owned());
    }
    status.refused.retain(|refused| plan.to.as_ref() != Some(&refused.revision));
    record::add_refusal(status, left, reason, "rolled_back", context.host.now());
    // A fall of the version gone back to must not lead forward to the one just refused.
    status.watch = None;
    for (dir, is_failed) in plan.switch.iter().filter_map(|step| match step {
        Step::Snapshot { dir, failed, .. } => Some((dir, *failed)),
        _ => None,
    }) {
        if is_failed {
            let place = directory::of(&context.layout.versions.join(dir));
            record::add_kept_database(status, left, &place);
        }
    }
}

fn say_done(context: &Context, plan: &Plan) {
    let to = plan.to.as_ref().map(ToString::to_string).unwrap_or_default();
    match (&plan.from, plan.direction) {
        (_, Direction::Same) => context.report.notice(&format!("{to} is active and in order")),
        (None, _) => context.report.notice(&format!("{to} is active")),
        (Some(from), _) => context.report.notice(&format!("{from} -> {to}: done")),
    }
    let how_to_start = plan.direction == Direction::First && plan.service == ServiceAction::None;
    if how_to_start && !context.layout.is_image() && machine::is_systemd_booted() {
        let unit = context.layout.unit.trim_end_matches(".service");
        context
            .report
            .info(&format!("the agent is not running yet: configure it, then run `systemctl enable --now {unit}`"));
    }
}

/// The host is as requested; settings may still change.
fn commit_without_move(context: &Context, updates: &mut Updates, request: &RunRequest<'_>) -> Result<()> {
    let mut spec = request.settings(updates);
    // An empty plan is the proof that every link leads there, also where the settings had lost or forgotten it.
    spec.active_version = Some(request.target.version.clone());
    spec.active_edition = Some(request.target.edition);
    let before = updates.render();
    updates.set_spec(&spec);
    if request.force {
        let mut status = updates.status().clone();
        status.refused.retain(|refused| refused.revision != request.target);
        status.delayed.retain(|delayed| delayed.revision != request.target);
        updates.set_status(&status);
    }
    let after = updates.render();
    if let Some(credentials) = context.next_credentials()? {
        let next = Next { config: Some(after), credentials: Some(credentials) };
        execute::write_settings(&context.site(updates, false)?, request.command, next)?;
    } else if after != before || context.settings_disagree {
        durable::write(&context.layout.config_file(), after.as_bytes(), durable::FILE_MODE)?;
    }
    context.report.notice(&format!("{} is active, nothing to do", request.target));
    Ok(())
}

/// A running agent was started from the link directory used before, and starts each new binary of its own from there: its
/// links cannot be taken away, nor the unit that it runs under. What starts the next one must know the new directory.
fn refuse_moved(context: &Context, updates: &Updates, facts: &Facts) -> Result<()> {
    let layout = &context.layout;
    let moved = facts.moved_links.first().map(|(path, _)| durable::parent(path));
    let to = layout.inside(&layout.link_dir);
    let unit = layout.unit.trim_end_matches(".service");
    if facts.agent.running && (moved.is_some() || plan::masking_links(facts).next().is_some()) {
        let from = moved.map_or_else(|| "another directory".to_owned(), |dir| layout.inside(dir).display().to_string());
        let what = format!("the running agent was started from {from}, but its links are to be in {}", to.display());
        let how = match updates.spec().service {
            None => format!(" (`systemctl stop {unit}`)"),
            Some(_) => String::new(),
        };
        return Err(Error::new(Code::AgentNotStopped, what).advise(format!(
            "stop the agent{how}, run this command again, then start the agent; \
             if your session goes through the agent, run all of this with one `systemd-run sh -c '…'`"
        )));
    }
    match inspect::starts_elsewhere(context)?.first() {
        Some((file, program)) if moved.is_some() => Err(Error::new(
            Code::PathTaken,
            format!(
                "{} starts {}, but this run would move that link to {}",
                file.display(),
                program.display(),
                to.display()
            ),
        )
        .advise(format!("first change the program that it starts to {}", to.join("teleport").display()))),
        _ => Ok(()),
    }
}

/// A masked unit can run on, but systemd neither reloads nor starts it again: not the new version, and after a failure not
/// the old one.
fn refuse_masked(context: &Context, updates: &Updates, plan: &Plan) -> Result<()> {
    if plan.service == ServiceAction::None {
        return Ok(());
    }
    match context.service(updates)? {
        Service::Systemd(systemd) if systemd.show()?.load_state == "masked" => {
            let unit = &context.layout.unit;
            Err(Error::new(Code::ServiceFailed, format!("{unit} is masked while the agent runs"))
                .advise(format!("run `systemctl unmask {unit}`, or stop the agent (then only files are changed)")))
        }
        _ => Ok(()),
    }
}

/// Conditions that would stop the run half-way, found before its first step.
fn preflight(context: &Context) -> Result<()> {
    let layout = &context.layout;
    for dir in [&layout.versions, &layout.link_dir, durable::parent(&layout.unit_file)] {
        let mount = machine::mount(dir)?;
        let versions = dir == layout.versions;
        if mount.read_only {
            return Err(Error::new(Code::ReadOnly, format!("{} is on a file system mounted read-only", dir.display()))
                .advise(if machine::is_confined() {
                    "run `teleport-update enable` by hand, which allows teleport-update.service to write there; if that is \
                     not enough, add the directory to ReadWritePaths= (`systemctl edit teleport-update.service`)"
                } else if versions || !layout.is_movable(dir) {
                    "remount it writable"
                } else {
                    "remount it writable, or choose another directory with --path"
                }));
        }
        if versions && mount.no_exec && !layout.is_image() {
            return Err(Error::new(Code::ReadOnly, format!("{} is on a file system mounted noexec", dir.display()))
                .advise("the agent could not run from there: remount it without noexec"));
        }
    }
    if !layout.is_image() && !machine::is_root() {
        return Err(Error::new(Code::Permission, format!("cannot change {}: not root", layout.versions.display()))
            .advise("run as root, for example with sudo"));
    }
    Ok(())
}

/// A failure that no journal tells of (network, archive, refusal) is written down for `status`. Where one is open its
/// recovery has the say: settings that it committed must not look older than this note.
/// `cost`: an archive had come in part, and this digest was announced for it.
fn note_failure(context: &Context, request: &RunRequest<'_>, error: &Error, cost: Option<Option<String>>) {
    // After an `uninstall` there is no status to write to.
    let is_gone = request.basis.as_ref().is_some_and(|basis| basis.is_gone(context).unwrap_or(true));
    if error.is_recorded()
        || is_gone
        || context.is_interrupted()
        || matches!(error.code, Code::Interrupted | Code::ConfigInvalid | Code::LockHeld)
    {
        return;
    }
    let written = Updates::read(&context.layout.config_file()).and_then(|mut updates| {
        record::failed(&mut updates, error, Some(&request.target), context.host.now());
        if let Some(digest) = cost {
            let mut status = updates.status().clone();
            record::add_delay(
                &mut status,
                &request.target,
                &error.what,
                error.code.as_str(),
                digest,
                context.host.now(),
            );
            updates.set_status(&status);
        }
        updates.write()
    });
    if let Err(error) = written {
        context.report.debug(&error.to_string());
    }
}

/// Says what is left to do where others could write the program that the agent was started from.
pub(crate) fn warn_of_running(context: &Context, version_dir: &Path) {
    if !context.layout.is_image() {
        let unit = &context.layout.unit;
        context.report.warn(&format!(
            "users other than root could change {}, so the running agent may be a program that they changed: run \
             `systemctl daemon-reload; systemctl restart {unit}`",
            version_dir.display()
        ));
    }
}
