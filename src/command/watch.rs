//! The watch that goes on after the commit, without the lock; a failure in it is a new run, back (SPEC §6).

use std::time::Duration;

use super::errand::{self, Errand};
use super::survey::{self, Depth};
use super::{Context, recover, way_back};
use crate::config::Updates;
use crate::execute::unmanaged;
use crate::host::machine;
use crate::plan::{Over, retention};
use crate::report::{Code, Error, Result};
use crate::service::health::{self, Probe};
use crate::service::{HealthSettings, Verdict};
use crate::store::publish;

/// Watches the version that was committed: for `left`, or for as long as is configured (what follows a commit, such as
/// the removal of a package, can take longer than the watch and must not use it up). Returns the exit status.
pub fn run(context: &mut Context, left: Option<Duration>) -> Result<u8> {
    let updates = context.open()?;
    let Some(watch) = updates.status().watch.clone() else {
        return Ok(0);
    };
    let site = context.site(&updates, false)?;
    let left = left.unwrap_or(updates.spec().watch);
    if left.is_zero() {
        return settle(context);
    }
    context.report.info(&format!("{} is healthy; watching it for {} s more", watch.revision, left.as_secs()));
    let binary = context.layout.versions.join(survey::dir_of(context, &watch.revision)).join("bin/teleport");
    let data_dir = site.data_dir.clone();
    let probe = Probe { service: &site.service, new_binary: binary, data_dir, before_reload: None };
    let settings = HealthSettings { watch: left, ..site.health };
    match health::watch(&probe, settings, &|| context.signals.cancelled()) {
        // Stopped with the host: the next run looks again.
        Ok(Verdict::Failed { .. }) if machine::is_going_down() => Ok(0),
        Ok(Verdict::Failed { reason }) => back(context, &reason),
        Ok(_) => settle(context),
        // The next run looks again.
        Err(error) if error.code == Code::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

/// A watch that was cut short (a kill, a reboot) is judged by the next run. `Some`: it led back, with this status.
pub fn resume(context: &mut Context, updates: &Updates) -> Result<Option<u8>> {
    let Some(watch) = &updates.status().watch else {
        return Ok(None);
    };
    if updates.spec().active().as_ref() != Some(&watch.revision) {
        return Ok(None);
    }
    let state = context.service(updates)?.state(&context.stop_proof()?)?;
    if state.failed {
        return back(context, "the agent failed during its watch").map(Some);
    }
    let left = Duration::try_from(watch.until.duration_since(context.host.now())).unwrap_or_default();
    if !left.is_zero() {
        return run(context, Some(left.min(updates.spec().watch)))
            .map(Some)
            .map(|status| status.filter(|&status| status != 0));
    }
    settle(context)?;
    Ok(None)
}

/// The version stood: what was kept only for its failure may go.
fn settle(context: &mut Context) -> Result<u8> {
    let _lock = context.lock("watch")?;
    recover::pending(context, false)?;
    let mut updates = context.open()?;
    let mut status = updates.status().clone();
    if let Some(watch) = status.watch.take() {
        // It has proven itself: an earlier failure counts no more.
        status.refused.retain(|refused| refused.revision != watch.revision);
        updates.set_status(&status);
        updates.write()?;
    }
    unmanaged::forget(&context.layout.versions)?;
    let facts = survey::facts(context, &updates, Depth::Move, None)?;
    if facts.keep == 1 {
        for dir in retention::after_watch(&facts) {
            match publish::retire(&context.layout.versions, &dir) {
                Ok(()) => context.report.done(&format!("remove {dir}")),
                // The next commit tries again.
                Err(error) => context.report.warn(&format!("remove {dir}: {error}")),
            }
        }
    }
    Ok(0)
}

/// The version fell during its watch: back to the one before, with the snapshot of that very run.
fn back(context: &mut Context, reason: &str) -> Result<u8> {
    let updates = context.open()?;
    let Some(watch) = updates.status().watch.clone() else {
        return Ok(0);
    };
    context.report.warn(&format!("{} fell during its watch: {reason}", watch.revision));
    let Some(previous) = watch.previous.clone() else {
        return way_back::go(context, &watch, reason);
    };
    errand::carry_out(
        context,
        &Errand {
            command: "watch",
            target: previous.clone(),
            in_window: true,
            insist: true,
            depth: Depth::Move,
            over: Over::Told,
            change: &|_| {},
            refuse_left: Some(format!("fell during its watch: {reason}")),
            trusted_snapshot: watch.snapshot_sha256,
        },
    )?;
    Err(Error::new(
        Code::Unhealthy,
        format!("{} fell during its watch ({reason}); rolled back to {previous}", watch.revision),
    )
    .advise("see `journalctl -u teleport`"))
}
