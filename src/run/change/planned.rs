//! Facts and a plan for a request: what `plan` shows is what a run does.

use super::refusals::{refuse_moved, refuse_places, refuse_shared};
use super::request::RunRequest;
use crate::config::Updates;
use crate::context::Context;
use crate::database::backup::{self, Backup};
use crate::database::directory;
use crate::execute::Site;

use crate::inspect::{self, data_dir};
use crate::plan::decide::{self, Decision, Request};
use crate::plan::facts::{Facts, Refusal};
use crate::plan::{self, Database, Plan, Snapshot, Target};
use crate::release::{self, Supply, tuf::Look};
use crate::report::{Code, Error, Result};
use crate::run::{installer, network, tuf};
use crate::store::manifest::Manifest;
use protocol::{Digest, Revision};

/// The result of planning.
pub(crate) enum Planned {
    /// Nothing to do now, and why.
    Wait(String),
    /// This, from these facts.
    Proceed(Box<Plan>, Box<Facts>),
}

/// What `plan` shows and [`apply`](super::apply) runs: the same value from the same facts.
pub(crate) fn planned(context: &Context, updates: &Updates, request: &RunRequest<'_>) -> Result<Planned> {
    let facts = facts(context, updates, request)?;
    let is_delayed = |delay: &Refusal| delay.revision == request.target && delay.digest.is_some();
    let announced = if !request.force && request.in_window && facts.delayed.iter().any(is_delayed) {
        announced(context, updates, request)
    } else {
        None
    };
    let question = Request {
        wanted: request.target.clone(),
        in_window: request.in_window,
        force: request.force,
        announced,
        terms: request.terms.clone(),
    };
    match decide::decide(&facts, &question, updates.spec().min_version.as_ref()) {
        Decision::Wait(why) => return Ok(Planned::Wait(why)),
        Decision::Refuse(error) => return Err(error),
        Decision::Proceed => {}
    }
    // What is there already is installed by nobody.
    let script = match facts.active.as_ref() {
        Some(active) if *active == request.target => None,
        _ => installer::script(context, &request.settings(updates), &request.terms, &request.target)?,
    };
    let is_scripts = updates.status().installed_by.is_some() && facts.active.as_ref() == Some(&request.target);
    let plan = if script.is_some() || is_scripts {
        let plan = plan::by_script(&facts, &request.target, script.unwrap_or_default());
        data_dir::refuse(plan.needs_database(), facts.other_data_dir.as_ref())?;
        plan
    } else {
        let plan = replan(context, updates, request, &facts)?;
        check_stored(context, request, &facts, &plan)?;
        plan
    };
    // A look at the processes that fails half-way would be taken for a fault of the new version's.
    if !context.layout.is_image() && !plan.is_empty() {
        context.stop_proof()?.check_sight()?;
    }
    Ok(Planned::Proceed(Box::new(plan), Box::new(facts)))
}

/// A version that is on the disk already must come from the archive that the source names, as one that is downloaded. What is
/// active stays.
fn check_stored(context: &Context, request: &RunRequest<'_>, facts: &Facts, plan: &Plan) -> Result<()> {
    let target = &request.target;
    let stored = facts.find(target).and_then(|installed| installed.marker.as_ref());
    match (stored, request.terms.digest(target.edition, network::arch(context))) {
        (Some(stored), Some(named))
            if !plan.fetches() && facts.active.as_ref() != Some(target) && *stored != named.to_string() =>
        {
            let what =
                format!("{target} is installed from an archive with digest {stored}, but the source names {named}");
            Err(Error::new(Code::ChecksumMismatch, what).advise("correct the digest in the source"))
        }
        _ => Ok(()),
    }
}

/// A version on the disk that is to be compared with what the signers mean.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unproven {
    revision: Revision,
    digest: Digest,
    /// The root whose signers are asked.
    root: String,
}

/// A version that is on the disk and is to become active must be what the signers mean, as one that is downloaded; what was verified
/// with this trust when it was downloaded is so, and a way back asks nobody. `None`: there is nothing to compare.
///
/// Errors: those of reading the manifest.
pub(super) fn unproven(
    context: &Context,
    updates: &Updates,
    request: &RunRequest<'_>,
    facts: &Facts,
    plan: &Plan,
) -> Result<Option<Unproven>> {
    let target = &request.target;
    let is_way_back = request.refuse_outgoing.is_some();
    if plan.fetches() || plan.script().is_some() || is_way_back || facts.active.as_ref() == Some(target) {
        return Ok(None);
    }
    let Some(tuf) = tuf::of(context, updates, &request.settings(updates))? else { return Ok(None) };
    let manifest = Manifest::read(&context.layout.versions.join(facts.dir_for(target)))?;
    if tuf.has_proven(manifest.tuf.as_ref()) {
        return Ok(None);
    }
    Ok(Some(Unproven { revision: target.clone(), digest: manifest.archive_sha256, root: tuf.root }))
}

/// Compares it, without the lock: a mirror that is slow keeps no rollback waiting.
///
/// Errors: `tuf_unlisted`, `tuf_mismatch`; those of verifying.
pub(super) fn prove(context: &Context, request: &RunRequest<'_>, unproven: &Unproven) -> Result<()> {
    let updates = Updates::read(&context.layout.config_file())?;
    let spec = request.settings(&updates);
    let Some(tuf) = tuf::of(context, &updates, &spec)? else { return Ok(()) };
    let name = unproven.revision.archive_name(network::arch(context));
    let (client, cancelled) = (network::client(context, &spec)?, || context.signals.cancelled());
    let warn = |what: &str| context.report.warn(what);
    let look = Look { client: &client, now: context.host.now(), cancelled: &cancelled, warn: &warn };
    tuf.proven(&look, &name)?.check_digest(&format!("{}, which is on this host,", unproven.revision), unproven.digest)
}

/// The facts under the settings that the commit will write: `keep` or a proxy given now counts now.
pub(super) fn facts(context: &Context, updates: &Updates, request: &RunRequest<'_>) -> Result<Facts> {
    let mut updates = updates.clone();
    updates.set_spec(&request.settings(&updates));
    inspect::facts(context, &updates, request.facts_for, request.trusted_snapshot)
}

pub(super) fn replan(context: &Context, updates: &Updates, request: &RunRequest<'_>, facts: &Facts) -> Result<Plan> {
    refuse_places(context, request.facts_for)?;
    refuse_moved(context, updates, facts)?;
    let spec = request.settings(updates);
    let url = network::base_url(context, &spec)?.join(&request.target.archive_name(network::arch(context)));
    let target = Target {
        revision: request.target.clone(),
        url,
        trust_snapshot: request.trusted_snapshot.is_some(),
        over: request.over,
    };
    let plan = plan::move_to(facts, &target)?;
    let is_named = spec.data_dir != updates.spec().data_dir;
    data_dir::refuse(plan.needs_database() || is_named, facts.other_data_dir.as_ref())?;
    if plan.needs_database() {
        refuse_shared(context)?;
    }
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
pub(super) fn whole_snapshot(context: &Context, plan: &Plan) -> Result<()> {
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

/// Calls `work` with what a download needs.
pub(super) fn supplied<T>(
    context: &Context,
    updates: &Updates,
    request: &RunRequest<'_>,
    facts: &Facts,
    work: impl FnOnce(&Site<'_>, &Supply<'_>) -> Result<T>,
) -> Result<T> {
    let spec = request.settings(updates);
    let client = network::client(context, &spec)?;
    let base = network::base_url(context, &spec)?;
    let supply = Supply {
        client: &client,
        base: &base,
        arch: network::arch(context),
        public_key: spec.public_key.as_deref().map(str::parse).transpose()?,
        tuf: tuf::of(context, updates, &spec)?,
        digest: request.terms.digest(request.target.edition, network::arch(context)),
        components: &spec.components,
        limits: spec.network.limits.clone(),
        version_wait: spec.version_wait,
        active_size: facts.active.as_ref().and_then(|active| facts.find(active)).map(|active| active.size),
    };
    work(&context.site(updates, false)?, &supply)
}

/// The digest that is announced for the target now.
pub(super) fn announced(context: &Context, updates: &Updates, request: &RunRequest<'_>) -> Option<String> {
    let spec = request.settings(updates);
    let (client, base) = (network::client(context, &spec).ok()?, network::base_url(context, &spec).ok()?);
    let cancelled = || context.signals.cancelled();
    let digest = release::announced_digest(&client, &base, &request.target, network::arch(context), &cancelled)?;
    Some(digest.to_string())
}

/// A plan from facts that were not read would take away the links of files that are there.
pub(super) fn unreadable(context: &Context, request: &RunRequest<'_>, why: &str) -> Error {
    let what = format!("cannot read {} in {}: {why}", request.target, context.layout.versions.display());
    Error::new(Code::Io, what).advise("check the kernel log for disk errors, then run the command again")
}
