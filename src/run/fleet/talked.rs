//! What a host and its rollout server know of each other, as a run finds it.

use std::time::Instant;

use protocol::report::{Change, Outcome, Rollout, Wanted};
use sources::Source;

use super::change;
use crate::config::Updates;
use crate::config::fleet_host::{FleetHost, Highest, Seed, Server, Told};
use crate::context::Context;
use crate::context::heard::Heard;
use crate::host::fingerprint::HostFingerprint;
use crate::plan::decide;
use crate::report::{Code, Result};
use crate::run::source;

/// What is kept, and what this run was told.
pub(super) struct Talked {
    /// What is kept, with what this run was told.
    pub kept: FleetHost,
    /// What was there when this run came.
    pub before: FleetHost,
    /// The server asks for reports.
    pub wanted: Option<Wanted>,
    /// The version that the server names.
    pub desired: Option<String>,
    /// What this run was told to install.
    pub told: Option<Told>,
}

impl Talked {
    /// `None` where there is no rollout server, or this process is not the one to talk to it.
    pub(super) fn open(context: &Context) -> Result<Option<Self>> {
        if context.layout.is_image() || context.talk.is_elsewhere.get() {
            return Ok(None);
        }
        let before = read(context)?;
        let heard = context.talk.heard.borrow().clone();
        if before.is_none() && heard.as_ref().is_none_or(|heard| heard.fleet.is_none()) {
            return Ok(None);
        }
        let before = before.unwrap_or_default();
        let mut kept = of_this_host(context, before.clone())?;
        match &heard {
            Some(heard) => hear(&mut kept, heard),
            None => keep_the_asked(context, &mut kept)?,
        }
        let wanted = kept.server.as_ref().and_then(|server| server.wanted);
        let told = heard.as_ref().filter(|heard| outdated(&kept, heard).is_none()).and_then(told);
        let desired = heard.map(|heard| heard.version.to_string());
        Ok(Some(Self { kept, before, wanted, desired, told }))
    }

    /// The rollout and the attempt in which this run was told of `version`.
    pub(super) fn rollout_of(&self, version: &str) -> (Option<u64>, Option<u32>) {
        let told = self.told.as_ref().filter(|told| told.version == version);
        told.map_or((None, None), |told| (Some(told.rollout), Some(told.attempt)))
    }

    /// Takes over what became of the last change.
    pub(super) fn follow(&mut self, context: &Context, updates: &Updates) {
        let (status, active) = (updates.status(), updates.spec().active());
        // What was there before the answer has nothing to do with it.
        let heard = context.talk.heard.borrow().as_ref().and_then(|heard| heard.result.clone());
        let told = self.told.as_ref().filter(|_| heard != change::result_of(status));
        change::follow(&mut self.kept, status, active.as_ref(), told);
        if let Some(told) = &self.told {
            let now = context.host.now();
            let is_wanted = |refusal: &&crate::plan::facts::Refusal| {
                refusal.revision.version.to_string() == told.version && decide::is_waiting(refusal, now)
            };
            if let Some(refusal) = status.refused.iter().find(is_wanted) {
                change::refuse(&mut self.kept, told, refusal, active.as_ref(), now);
            }
        }
        if self.kept.last != self.before.last
            && let Some(last) = &mut self.kept.last
        {
            time_phases(context, last);
        }
    }
}

/// What is kept now. A key that cannot be read signs nothing: a new one is made, and an operator of the server decides.
fn read(context: &Context) -> Result<Option<FleetHost>> {
    match FleetHost::read(&context.layout.versions) {
        Err(error) if error.code == Code::ConfigInvalid => Ok(None),
        read => read,
    }
}

/// The key that this host has by now: another run may have made it.
pub(super) fn seed(context: &Context) -> Result<Option<Seed>> {
    Ok(of_this_host(context, read(context)?.unwrap_or_default())?.seed)
}

/// How long the parts of this run's change took.
fn time_phases(context: &Context, last: &mut Change) {
    let Some(started) = context.talk.started.get().filter(|_| last.outcome != Outcome::Refused) else { return };
    let since = |begin: Instant, end: Instant| {
        u64::try_from(end.saturating_duration_since(begin).as_millis()).unwrap_or(u64::MAX)
    };
    let now = Instant::now();
    let switched = context.talk.switched.get();
    last.phases.insert("change".to_owned(), since(started, switched.unwrap_or(now)));
    if let Some(switched) = switched.filter(|_| last.outcome != Outcome::Switched) {
        last.phases.insert("watch".to_owned(), since(switched, now));
    }
}

/// What a clone brought along is another host's: nothing of it stays.
fn of_this_host(context: &Context, kept: FleetHost) -> Result<FleetHost> {
    let now = HostFingerprint::of_this_host(context.host_uuid()?.as_deref());
    let recorded = HostFingerprint::parse(&kept.host);
    if recorded.is_of_another(&now) {
        return Ok(FleetHost { host: now.to_string(), ..FleetHost::default() });
    }
    Ok(FleetHost { host: recorded.refreshed(&now).to_string(), ..kept })
}

/// Takes over what the server said to this run. Of another server nothing is known: rollouts, attempts and epoch are forgotten.
fn hear(kept: &mut FleetHost, heard: &Heard) {
    let wanted = heard.fleet.and_then(|fleet| fleet.report);
    match &mut kept.server {
        Some(server) if server.origin == heard.origin => {
            server.wanted = wanted;
            let is_of_another = |wanted: Wanted| server.highest.is_some_and(|highest| highest.epoch != wanted.epoch);
            if wanted.is_some_and(is_of_another) {
                kept.failed.clear();
            }
            server.highest = highest(server, heard.fleet);
        }
        _ => {
            forget_rollouts(kept);
            let server = Server { origin: heard.origin.clone(), wanted, ..Server::default() };
            let highest = highest(&server, heard.fleet);
            kept.server = heard.fleet.map(|_| Server { highest, ..server });
        }
    }
}

/// The highest number of a rollout with this answer; they begin anew in another epoch.
fn highest(server: &Server, fleet: Option<Rollout>) -> Option<Highest> {
    let Some((fleet, wanted)) = fleet.and_then(|fleet| Some((fleet, fleet.report?))) else { return server.highest };
    let known = server.highest.filter(|highest| highest.epoch == wanted.epoch).map_or(0, |highest| highest.rollout);
    Some(Highest { epoch: wanted.epoch, rollout: known.max(fleet.rollout) })
}

/// Why the answer `heard` is of an older rollout than this host has seen in the server's epoch; `None`: it is not.
pub(super) fn outdated(kept: &FleetHost, heard: &Heard) -> Option<String> {
    let fleet = heard.fleet.filter(|fleet| fleet.rollout > 0)?;
    let server = kept.server.as_ref().filter(|server| server.origin == heard.origin)?;
    let highest = server.highest.filter(|highest| Some(highest.epoch) == fleet.report.map(|wanted| wanted.epoch))?;
    let (was, now) = (highest.rollout, fleet.rollout);
    let why = || {
        format!(
            "the server's answer is of rollout {now}, and this host has seen rollout {was}: it is disregarded; if {was} was an \
             error of the server's, run `teleport-update enable` here"
        )
    };
    (now < was).then(why)
}

/// Whether `told` is newer than the attempt in which its version failed here.
pub(super) fn is_new_attempt(kept: &FleetHost, told: &Told) -> bool {
    let failed = kept.failed.iter().find(|failed| failed.version == told.version);
    failed.is_some_and(|failed| (told.rollout, told.attempt) > (failed.rollout, failed.attempt))
}

/// A run that asks no such server reports to whom the settings name. Of any other nothing stays known, as in [`hear`].
fn keep_the_asked(context: &Context, kept: &mut FleetHost) -> Result<()> {
    let updates = Updates::read(&context.layout.config_file())?;
    let asked = match source::named(updates.spec()) {
        Ok(Source::Find(server)) => Some(sources::origin(&server)),
        _ => None,
    };
    if kept.server.as_ref().is_none_or(|server| Some(&server.origin) != asked.as_ref()) {
        kept.server = None;
        forget_rollouts(kept);
    }
    Ok(())
}

fn forget_rollouts(kept: &mut FleetHost) {
    kept.failed.clear();
    kept.dry_run = None;
    if let Some(last) = &mut kept.last {
        (last.rollout, last.attempt) = (None, None);
    }
}

/// What this run was told to install, and in which rollout.
fn told(heard: &Heard) -> Option<Told> {
    let fleet = heard.fleet.filter(|_| heard.acts)?;
    Some(Told { version: heard.version.to_string(), rollout: fleet.rollout, attempt: fleet.attempt })
}
