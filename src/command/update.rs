//! `update`: what the timer runs (RFD 0169, 15 steps). When there is nothing to do it is one HTTPS exchange.

use crate::run::{apply, fleet, identity, network, record, recovery, source, watch};
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::handover::PROTOCOL;

use crate::cli::Update;
use crate::config::{Status, Updates};
use crate::context::Context;
use crate::inspect;
use crate::plan::facts::{is_linked, is_updater_name, lacks};
use crate::report::{Code, Error, Result};
use crate::run::change::{self, Basis, Fetched, RunRequest};
use crate::run::wanted::{self, Asking, Purpose, Wanted};
use crate::store::VersionDir;
use crate::store::contents::{AGENT_FILE, UNIT, UPDATER};
use crate::store::manifest::{self, Manifest};
use protocol::Revision;

/// After a longer wait than this the cluster is asked again, seconds: its answer may have changed, also within the
/// RFD's longest jitter of a minute, and one more exchange costs nothing.
const STALE_AFTER_SECONDS: u32 = 5;

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: &Update) -> Result<u8> {
    let mut has_waited = false;
    let ran = change::rounds(context, |context, fetched| once(context, args, &mut has_waited, fetched));
    if ran.is_ok() {
        change::dry_run(context);
    }
    ran.map_err(|error| match error.of_settings() {
        error if is_of_settings(context, &error) => noted(context, error),
        error => error,
    })
}

/// Whether it is the settings with which nothing can be updated: who watches this host by `status` learns of that, too. Not of a file
/// that cannot be read, nor of one that is gone.
fn is_of_settings(context: &Context, error: &Error) -> bool {
    let file = context.layout.config_file();
    matches!(error.code, Code::ConfigInvalid | Code::PathTaken | Code::OtherDataDir)
        && !error.recorded
        && file.exists()
        && Updates::read(&file).is_ok()
}

/// The error, written down.
fn noted(context: &Context, error: Error) -> Error {
    record::note(context, "update", &error);
    error.recorded()
}

/// What the source wants this host to install now. `None`, after saying so: nothing. A source that does not answer is written
/// down.
fn ask(context: &Context, updates: &Updates, args: &Update) -> Result<Option<Wanted>> {
    let asked = network::client(context, updates.spec())
        .and_then(|client| Wanted::ask(context, updates, &client, Purpose::Act, args.now));
    let why = match asked.map_err(|error| noted(context, error.of_settings()))? {
        Ok(wanted) => match fleet::outdated(context) {
            None => return Ok(Some(wanted)),
            Some(why) => why,
        },
        Err(why) => format!("nothing to do: {why}"),
    };
    context.report.info(&why);
    Ok(None)
}

/// Tells what is to be installed, and installs nothing.
fn notify(context: &Context, updates: &Updates) -> Result<Option<u8>> {
    let active = wanted::active(context, updates)?;
    let client = network::client(context, updates.spec())?;
    let asking = Asking::new(updates, active.as_ref(), &client, Purpose::Tell);
    let answer = wanted::ask(context, &asking).map_err(|error| noted(context, error.of_settings()))?;
    let told = match (&answer.directive, active) {
        (None, _) => format!("nothing to do: {}", answer.terms.reason.as_deref().unwrap_or_default()),
        (Some(directive), Some(active)) if directive.version == active.version => {
            format!("{active} is active, nothing to do")
        }
        (Some(directive), _) => {
            format!("{} is available; it is not installed, because notify_only is set", directive.version)
        }
    };
    context.report.notice(&told);
    Ok(Some(0))
}

/// One decision, and what comes of it; `None`: the settings it was made from have changed. A host waits for its turn once.
fn once(context: &mut Context, args: &Update, has_waited: &mut bool, fetched: &mut Fetched) -> Result<Option<u8>> {
    let updates = inspect::open(context)?;
    if !updates.spec().enabled || updates.spec().pinned || updates.spec().notify_only {
        recovery::tidy(context);
    }
    if !updates.spec().enabled {
        context.report.info("updates are disabled; run `teleport-update enable` to enable them");
        return Ok(Some(0));
    }
    source::named(updates.spec())?;
    let updates = with_id(context, updates)?;
    if let Some(status) = watch::resume(context, &updates)? {
        return Ok(Some(status));
    }
    // Only a watch that ended here has changed the file.
    let updates = if updates.status().watch.is_some() { inspect::open(context)? } else { updates };
    if updates.spec().pinned {
        context.report.info("a version is pinned: the cluster is not followed");
        let spec = updates.spec();
        if let Some(pinned) = spec.pinned_version.as_ref().filter(|pinned| spec.active_version.as_ref() != Some(pinned))
        {
            let what = "and is not active: run `teleport-update enable` to install it, or `teleport-update pin`";
            context.report.warn(&format!("{} has pinned_version: {pinned}, {what}", updates.file().display()));
        }
        return Ok(Some(0));
    }
    if updates.spec().notify_only {
        return notify(context, &updates);
    }
    let Some(wanted) = ask(context, &updates, args)? else { return Ok(Some(0)) };
    let updates = with_new_attempt(context, updates, &wanted.revision)?;
    if is_current(context, &updates, &wanted.revision) {
        context.report.info(&match wanted.terms.held() {
            Some(held) => format!("nothing to do: {held}"),
            None => format!("{} is active, nothing to do", wanted.revision),
        });
        return Ok(Some(0));
    }
    let is_refused = updates.status().refused.iter().any(|refused| refused.revision == wanted.revision);
    let is_move = updates.spec().active().as_ref() != Some(&wanted.revision) && !is_refused;
    let open = wanted.in_window || args.now;
    let waits = open && !args.now && wanted.jitter_seconds > 0 && is_move && !*has_waited;
    let (wanted, updates) = if waits {
        *has_waited = true;
        match wait_for_turn(context, updates, wanted, args)? {
            Some(then) => then,
            None => return Ok(Some(0)),
        }
    } else {
        (wanted, updates)
    };
    go(context, args, &updates, wanted, open, fetched)
}

fn go(
    context: &mut Context,
    args: &Update,
    updates: &Updates,
    wanted: Wanted,
    open: bool,
    fetched: &mut Fetched,
) -> Result<Option<u8>> {
    let basis = Some(Basis::of(context, updates)?);
    let Wanted { revision: target, terms, .. } = wanted;
    apply(
        context,
        &RunRequest {
            in_window: open,
            force: args.now,
            terms,
            obsolete: &|updates| {
                let is_off = !updates.spec().enabled || updates.spec().pinned;
                let what = "updates were disabled or a version was pinned while this run was working; nothing to do";
                is_off.then(|| what.to_owned())
            },
            basis,
            ..RunRequest::new("update", target)
        },
        fetched,
    )
}

/// A host baked into an image has no id before its first run, or the id of the host that was copied: made and kept here,
/// never under `--root` (SPEC §3).
fn with_id(context: &mut Context, updates: Updates) -> Result<Updates> {
    if !identity::is_due(context, updates.spec())? {
        return Ok(updates);
    }
    let (_lock, mut updates) = recovery::settled(context, "update")?;
    if let Some(spec) = identity::completed(context, updates.spec())? {
        let is_new = updates.spec().update_id != spec.update_id;
        updates.set_spec(&spec);
        match updates.write() {
            // More is known about the host of the same id: not worth a failed run.
            Err(error) if !is_new => context.report.warn(&format!("{error}")),
            written => written?,
        }
    }
    Ok(updates)
}

/// A server that begins a new attempt has the target tried again that failed here before.
fn with_new_attempt(context: &mut Context, updates: Updates, target: &Revision) -> Result<Updates> {
    let is_held = |status: &Status| {
        let mut held = status.refused.iter().chain(&status.delayed).map(|refusal| &refusal.revision);
        held.any(|revision| revision == target)
    };
    if !is_held(updates.status()) || !fleet::is_new_attempt(context) {
        return Ok(updates);
    }
    let (_lock, mut updates) = recovery::settled(context, "update")?;
    let mut status = updates.status().clone();
    status.refused.retain(|refusal| refusal.revision != *target);
    status.delayed.retain(|delay| delay.revision != *target);
    status.attempts.retain(|attempt| attempt.revision != *target);
    updates.set_status(&status);
    updates.write()?;
    context.report.info(&format!("the rollout server has begun a new attempt: {target} is tried again"));
    Ok(updates)
}

/// The target is active, its marker is there and our links lead to it: nothing else is looked at.
fn is_current(context: &Context, updates: &Updates, target: &Revision) -> bool {
    // A file that names another version is put right by the whole walk.
    if context.settings_disagree || updates.spec().active().as_ref() != Some(target) {
        return false;
    }
    // Its links are not ours to look after.
    if updates.status().installed_by.is_some() {
        return true;
    }
    let Ok(link) = std::fs::read_link(context.layout.link_dir.join("teleport")) else {
        return false;
    };
    let versions = context.layout.path_inside(&context.layout.versions);
    VersionDir::candidates(target).iter().any(|dir| {
        let is_linked = link == versions.join(dir).join(AGENT_FILE);
        is_linked && is_whole(context, &updates.spec().components, dir)
    })
}

/// The marker of the version in `dir` is there, the selection of components has not changed, every file has its size and mode,
/// and every link of ours is there: a dozen looks, no reading.
fn is_whole(context: &Context, components: &[String], dir: &VersionDir) -> bool {
    let version_dir = &context.layout.versions.join(dir);
    let in_order = |manifest: &Manifest| {
        !lacks(manifest.components.as_deref(), components)
            && !is_too_much_linked(context, components, manifest)
            && !is_link_lost(context, components, manifest, dir)
            && manifest.quick_check(version_dir).is_ok_and(|differences| differences.is_empty())
    };
    manifest::read_marker(version_dir).is_ok_and(|marker| marker.is_some())
        && Manifest::read(version_dir).is_ok_and(|manifest| in_order(&manifest))
}

/// Whether a helper's link, the updater's or the unit is gone, or leads to another version. What is not ours in its place stays
/// (SPEC §5).
fn is_link_lost(context: &Context, components: &[String], manifest: &Manifest, dir: &VersionDir) -> bool {
    let versions = context.layout.path_inside(&context.layout.versions);
    let is_gone = |place: &Path| std::fs::symlink_metadata(place).is_err_and(|error| error.kind() == NotFound);
    let is_lost = |place: PathBuf, file: &str| match std::fs::read_link(&place) {
        Ok(target) => target.starts_with(&versions) && target != versions.join(dir).join(file),
        Err(_) => is_gone(&place),
    };
    let updater = manifest.updater.as_ref().filter(|updater| updater.protocol == PROTOCOL);
    updater.is_some_and(|_| is_gone(&context.layout.link_dir.join(UPDATER)))
        || manifest.files.iter().any(|file| match file.path.strip_prefix("bin/") {
            // The agent's was looked at; the updater's leads to the newest that works.
            Some(name) if name == "teleport" || is_updater_name(name) || !is_linked(components, name) => false,
            Some(name) => is_lost(context.layout.link_dir.join(name), &file.path),
            None => file.path == UNIT && is_lost(context.layout.unit_file.clone(), UNIT),
        })
}

/// Whether an executable is linked that is not selected (any more).
fn is_too_much_linked(context: &Context, components: &[String], manifest: &Manifest) -> bool {
    let names = manifest.files.iter().filter_map(|file| file.path.strip_prefix("bin/"));
    let mut others = names.filter(|name| *name != "teleport" && !is_updater_name(name) && !is_linked(components, name));
    let versions = context.layout.path_inside(&context.layout.versions);
    let is_ours = |name: &str| {
        std::fs::read_link(context.layout.link_dir.join(name)).is_ok_and(|target| target.starts_with(&versions))
    };
    others.any(is_ours)
}

/// Waits this host's share of the jitter, without the lock: the target then, and the settings that name it. `None`: after the
/// wait there is nothing to do.
fn wait_for_turn(
    context: &mut Context,
    updates: Updates,
    wanted: Wanted,
    args: &Update,
) -> Result<Option<(Wanted, Updates)>> {
    let (target, jitter) = (&wanted.revision, wanted.jitter_seconds);
    let id = context.host_uuid()?.or(updates.spec().update_id.clone()).unwrap_or_default();
    let seconds = protocol::turn::seconds(&id, target, jitter);
    context.report.info(&format!("{target} is due; waiting {seconds} s (jitter, up to {jitter} s)"));
    http_client::pause(Duration::from_secs(seconds.into()), &|| context.signals.cancelled())?;
    if seconds <= STALE_AFTER_SECONDS {
        return Ok(Some((wanted, updates)));
    }
    let updates = inspect::open(context)?;
    if !updates.spec().enabled || updates.spec().pinned {
        context.report.info("updates were disabled or a version was pinned while this host was waiting; nothing to do");
        return Ok(None);
    }
    let Some(wanted) = ask(context, &updates, args)? else { return Ok(None) };
    if !wanted.in_window {
        context.report.info("the cluster's update window closed while this host was waiting");
    }
    Ok(wanted.in_window.then_some((wanted, updates)))
}
