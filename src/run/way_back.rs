//! A version that falls in its watch, and took the place of an agent that was none of ours: that one comes back.

use crate::config::Updates;
use crate::config::status::{LastResult, Outcome, Watch};
use crate::context::Context;
use crate::database::backup::{self, Backup};
use crate::database::directory;
use crate::execute::{self, Next, unmanaged};
use crate::host::durable;
use crate::inspect::{self, FactsFor};
use crate::plan::{self, Node, Plan, Step};
use crate::report::{Code, Error, Result};
use crate::run::{record, recovery, scope};

/// Goes back from the version that `watch` is over. Always an error, but where another run has taken over.
pub(super) fn go(context: &mut Context, watch: &Watch, reason: &str) -> Result<u8> {
    if let Some(status) = scope::leave(context)? {
        return Ok(status);
    }
    let (_lock, updates) = recovery::settled(context, "watch")?;
    if updates.status().watch.as_ref() != Some(watch) {
        return Ok(0);
    }
    let fell = format!("{} failed while it was being watched: {reason}", watch.revision);
    let Some(done) = unmanaged::noted(&context.layout.versions)? else {
        return Err(Error::new(Code::Unhealthy, fell).advise("there is no earlier version to go back to"));
    };
    recovery::sweep(context);
    check_whole(context, &done, watch)
        .map_err(|error| Error::new(Code::Unhealthy, format!("{fell}; cannot go back: {}", error.what)))?;
    let facts = inspect::facts(context, &updates, FactsFor::Back, None)?;
    let Some(plan) = plan::back(&facts, &done) else {
        return Err(Error::new(Code::Unhealthy, fell).advise("there is no earlier version to go back to"));
    };
    context.stop_proof()?.check_sight()?;
    let site = context.site(&updates, false)?;
    let commit_settings = &mut |_| {
        let updates = settings_after(context, watch, &fell)?;
        Ok(Next { config: Some(updates.render()?), credentials: None })
    };
    let ran =
        execute::run(&site, &plan, "watch", commit_settings, &mut |journal| recovery::write_failure(context, journal));
    // A failure before the journal leaves the watch's `failure`: the next run tries again.
    ran.map_err(|undone| undone.told().during(&fell).recorded())?;
    let what =
        format!("{fell}; the agent that was installed before is in place again; it is not updated automatically");
    Err(Error::new(Code::Unhealthy, what)
        .advise("see `journalctl -u teleport`, and run `teleport-update enable` again")
        .recorded())
}

/// Whether all that `done` replaced is still there to come back.
fn check_whole(context: &Context, done: &Plan, watch: &Watch) -> Result<()> {
    let gone = |what: String| Error::new(Code::NoPrevious, what);
    for step in &done.switch {
        let (Step::Place(place) | Step::LinkAgent { place, .. }) = step else { continue };
        let is_agent = matches!(step, Step::LinkAgent { .. });
        let needed = match &place.was {
            Node::Kept(kept) => kept.clone(),
            Node::Link(target) if is_agent => context.layout.real_path(&durable::parent(&place.path).join(target)),
            _ => continue,
        };
        if !needed.try_exists().unwrap_or(true) {
            return Err(gone(format!("{} is gone", needed.display())));
        }
        if is_agent && durable::link_at(&place.path)?.map(Node::Link).as_ref() != Some(&place.now) {
            return Err(gone(format!("{} was changed meanwhile", place.path.display())));
        }
    }
    let versions = &context.layout.versions;
    let snapshot = directory::of(&done.snapshot_dir().map_or_else(|| versions.clone(), |dir| versions.join(dir)));
    match Backup::read(&snapshot)? {
        Some(backup) if backup.id() == watch.snapshot => backup::check_bytes(&snapshot, &backup),
        _ => Err(gone(format!("{} is not the database backup that the update made", snapshot.display()))),
    }
}

/// The settings when the agent that was replaced is back: nothing of ours is active, and the fallen version waits.
fn settings_after(context: &Context, watch: &Watch, reason: &str) -> Result<Updates> {
    let mut updates = Updates::read(&context.layout.config_file())?;
    let now = context.host.now();
    let (mut spec, mut status) = (updates.spec().clone(), updates.status().clone());
    (spec.active_version, spec.active_edition) = (None, None);
    status.watch = None;
    record::add_refusal(&mut status, &watch.revision, reason, "rolled_back", now);
    let dir = inspect::dir_of(context, &watch.revision)?;
    record::add_kept_database(&mut status, &watch.revision, &directory::of(&context.layout.versions.join(dir)));
    status.last_result = Some(LastResult {
        time: now,
        outcome: Outcome::RolledBack,
        error_code: Some(Code::Unhealthy.as_str().to_owned()),
        message: Some(reason.to_owned()),
        from: Some(watch.revision.clone()),
        to: None,
        run: None,
    });
    updates.set_spec(&spec);
    updates.set_status(&status);
    Ok(updates)
}
