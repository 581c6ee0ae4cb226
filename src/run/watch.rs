//! The watch that goes on after the commit, without the lock; a failure in it is a new run, back (SPEC §6).
//!
//! It belongs to one commit, which the record in `updates.yaml` names. Everything that it does is done under the lock and only
//! if that record still stands: what another run did since is not its to judge.

use crate::run::{record, recovery, way_back};
use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::config::Updates;
use crate::config::status::Watch;
use crate::context::Context;
use crate::execute::unmanaged;
use crate::host::{lock, machine};
use crate::inspect::{self, FactsFor};
use crate::plan::retention;
use crate::report::{Code, Error, Result};
use crate::run::change::{self, RunRequest};
use crate::service::sampler::Probe;
use crate::service::{Verdict, health};
use crate::store::contents::AGENT_FILE;
use crate::store::publish;
use protocol::Revision;

/// How long after its watch a version that fell in it may still be left, if the run back failed: some tries of the timer. Later
/// too much was done on the host since.
const BACK_WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// Watches the version that was committed: for `left`, or for as long as is configured (what follows a commit, such as
/// the removal of a package, can take longer than the watch and must not use it up). Returns the exit status.
pub(crate) fn run(context: &mut Context, watch: &Watch, left: Option<Duration>) -> Result<u8> {
    let updates = inspect::open(context)?;
    let site = context.site(&updates, false)?;
    let left = left.unwrap_or(updates.spec().watch);
    if left.is_zero() {
        return end_watch(context, watch, true);
    }
    context.report.info(&format!("watching {} for another {} s", watch.revision, left.as_secs()));
    let binary = context.layout.versions.join(inspect::dir_of(context, &watch.revision)?).join(AGENT_FILE);
    let data_dir = site.data_dir.clone();
    let probe = Probe { service: &site.service, new_binary: binary, data_dir, before_reload: None };
    let link = agents_link(context);
    let ends = || context.signals.cancelled() || agents_link(context) != link || !is_alone(context, watch);
    match health::watch(&probe, left, &ends) {
        // Stopped with the host: the next run looks again.
        Ok(Verdict::Failed { .. }) if machine::is_going_down() => Ok(0),
        Ok(Verdict::Failed { reason }) => back(context, watch, &reason),
        Ok(_) => end_watch(context, watch, true),
        // Told to end, or another run is at work or was: that one judges what it does.
        Err(error) if error.code == Code::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

/// A watch that was cut short is gone on with by the next run, for what is left of it. `Some`: it led back, with this status.
pub(crate) fn resume(context: &mut Context, updates: &Updates) -> Result<Option<u8>> {
    let Some(watch) = updates.status().watch.clone() else {
        return Ok(None);
    };
    let boot = machine::boot_id();
    let active = updates.spec().active();
    let Some(left) = left_of(&watch, active.as_ref(), boot.as_deref(), context.host.now()) else {
        end_watch(context, &watch, false)?;
        return Ok(None);
    };
    let status = match &watch.failure {
        Some(reason) => back(context, &watch, reason)?,
        None => run(context, &watch, Some(left.min(updates.spec().watch)))?,
    };
    Ok(Some(status).filter(|&status| status != 0))
}

/// What is left of `watch`; `None` if it is over, whatever a look would show now: its time has passed, another version is
/// active, or the host was booted since. Pure.
fn left_of(watch: &Watch, active: Option<&Revision>, boot: Option<&str>, now: Timestamp) -> Option<Duration> {
    let is_other_boot = watch.boot.is_some() && watch.boot.as_deref() != boot;
    let grace = if watch.failure.is_some() { BACK_WITHIN } else { SignedDuration::ZERO };
    let left = watch.until.duration_since(now).saturating_add(grace);
    if active != Some(&watch.revision) || is_other_boot || !left.is_positive() {
        return None;
    }
    Duration::try_from(left).ok()
}

/// Where the agent's link leads.
fn agents_link(context: &Context) -> Option<PathBuf> {
    std::fs::read_link(context.layout.link_dir.join("teleport")).ok()
}

/// Whether no other run is at work, nor was at work with the agent since `watch` began.
fn is_alone(context: &Context, watch: &Watch) -> bool {
    let is_at_work = lock::run_of(&context.lock_path()).is_ok_and(|run| run.is_some());
    !is_at_work && Updates::read(&context.layout.config_file()).map_or(true, |updates| is_current(&updates, watch))
}

fn is_current(updates: &Updates, watch: &Watch) -> bool {
    updates.status().watch.as_ref() == Some(watch)
}

/// The watch is over: what was kept only for its failure may go. `stood`: the version was watched to the end.
fn end_watch(context: &mut Context, watch: &Watch, stood: bool) -> Result<u8> {
    let (_lock, mut updates) = match recovery::settled(context, record::WATCH) {
        // The other run's now; the next one settles what it leaves.
        Err(error) if error.code == Code::LockHeld => return Ok(0),
        settled => settled?,
    };
    if !is_current(&updates, watch) {
        return Ok(0);
    }
    let mut status = updates.status().clone();
    status.watch = None;
    if stood {
        // It has proven itself: an earlier failure counts no more.
        status.refused.retain(|refused| refused.revision != watch.revision);
    }
    updates.set_status(&status);
    updates.write()?;
    unmanaged::forget(&context.layout.versions)?;
    let facts = inspect::facts(context, &updates, FactsFor::Move, None)?;
    if facts.keep == 1 {
        for dir in retention::after_watch(&facts) {
            match publish::retire(&context.layout.versions, &dir) {
                Ok(()) => context.report.done(&format!("removed {dir}")),
                // The next commit tries again.
                Err(error) => context.report.warn(&format!("cannot remove {dir}: {error}")),
            }
        }
    }
    Ok(0)
}

/// The version fell during its watch: back to the one before, with the snapshot of that very run.
fn back(context: &mut Context, watch: &Watch, reason: &str) -> Result<u8> {
    let Some(fallen) = note_fall(context, watch, reason)? else {
        return Ok(0);
    };
    context.report.warn(&format!("{} failed while it was being watched: {reason}", watch.revision));
    let Some(previous) = watch.previous.clone() else {
        return way_back::go(context, &fallen, reason);
    };
    let overtaken = Cell::new(false);
    // No setting has a say in where it goes: the watch does.
    change::apply(
        context,
        &RunRequest {
            facts_for: FactsFor::Back,
            change: &|spec| spec.follow(&previous.version),
            obsolete: &|updates| {
                let is_ours =
                    is_current(updates, &fallen) && updates.spec().active().as_ref() == Some(&fallen.revision);
                overtaken.set(!is_ours);
                (!is_ours)
                    .then(|| format!("another run changed the version since; the watch over {} ends", fallen.revision))
            },
            refuse_outgoing: Some(format!("failed while it was being watched: {reason}")),
            trusted_snapshot: watch.snapshot,
            ..RunRequest::new(record::WATCH, previous.clone())
        },
        &mut None,
    )?;
    if overtaken.get() {
        return Ok(0);
    }
    let fell = &watch.revision;
    let what = format!("{fell} failed while it was being watched ({reason}); rolled back to {previous}");
    Err(Error::new(Code::Unhealthy, what).advise("see `journalctl -u teleport`"))
}

/// Writes the fall down, so that a run back that fails is tried again. `None`: the watch is over by another run.
fn note_fall(context: &mut Context, watch: &Watch, reason: &str) -> Result<Option<Watch>> {
    let (_lock, mut updates) = match recovery::settled(context, record::WATCH) {
        Err(error) if error.code == Code::LockHeld => return Ok(None),
        settled => settled?,
    };
    if !is_current(&updates, watch) || updates.spec().active().as_ref() != Some(&watch.revision) {
        return Ok(None);
    }
    let mut status = updates.status().clone();
    let fallen = Watch { failure: Some(reason.to_owned()), ..watch.clone() };
    status.watch = Some(fallen.clone());
    updates.set_status(&status);
    match updates.write() {
        Ok(()) => Ok(Some(fallen)),
        // A full disk must not keep a host on a version that fell.
        Err(error) => {
            context.report.warn(&error.to_string());
            Ok(Some(watch.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Edition;

    #[test]
    fn a_watch_is_over_by_its_time_another_version_or_another_boot() {
        let revision = |version: &str| Revision { version: version.parse().unwrap(), edition: Edition::Oss };
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let watch = Watch {
            revision: revision("2.0.0"),
            until: at(60),
            snapshot: None,
            previous: Some(revision("1.0.0")),
            run: Some("a".to_owned()),
            boot: Some("b".to_owned()),
            failure: None,
        };
        let left = |watch: &Watch, version: &str, boot: &str, now: i64| {
            left_of(watch, Some(&revision(version)), Some(boot), at(now)).map(|left| left.as_secs())
        };
        assert_eq!(left(&watch, "2.0.0", "b", 20), Some(40));
        assert_eq!(left(&watch, "2.0.0", "b", 60), None);
        assert_eq!(left(&watch, "2.0.0", "c", 20), None);
        assert_eq!(left(&watch, "3.0.0", "b", 20), None);
        assert_eq!(left_of(&watch, None, Some("b"), at(20)), None);
        // A fall that was seen is no later look: the way back may take some tries, and not for ever.
        let fallen = Watch { failure: Some("down".to_owned()), ..watch };
        assert_eq!(left(&fallen, "2.0.0", "b", 60), Some(3600));
        assert_eq!(left(&fallen, "2.0.0", "b", 3660), None);
    }
}
