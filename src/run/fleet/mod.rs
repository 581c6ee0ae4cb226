//! What this host says to a rollout server that asks for it: signed reports (SPEC §11). Nothing here fails or changes a run: a
//! server that is down, slow or hostile costs a line and a few seconds, never while the agent is stopped.

mod change;
mod commands;
mod content;
mod deliver;
mod talked;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use protocol::report::{Outcome, SignedQuestion, question_message};
use sources::HostKey;

use crate::cli::Command;
use crate::config::Updates;
use crate::config::fleet_host::{FleetHost, Server};
use crate::context::Context;
use crate::host::durable;
use crate::host::fingerprint::HostFingerprint;
use crate::plan::Plan;
use crate::report::Result;
use deliver::{Locking, Occasion};
use talked::Talked;

/// Longest time of all reports that a run sends while it holds its lock.
const UNDER_LOCK: Duration = Duration::from_secs(2);
/// Longest time of the report at the end of a run, both tries of it.
const AT_THE_END: Duration = Duration::from_secs(10);

/// A change begins, no rollback: the lock is held, and the agent runs.
pub(crate) fn started(context: &Context, plan: &Plan) {
    let Some(to) = &plan.to else { return };
    if plan.from.as_ref() == Some(to) || context.talk.started.get().is_some() {
        return;
    }
    context.talk.started.set(Some(Instant::now()));
    let begun = |talked: &mut Talked, updates: &Updates| {
        let from = plan.from.as_ref().map(|from| from.version.to_string()).unwrap_or_default();
        let (to, now) = (to.version.to_string(), context.host.now());
        let rollout = talked.rollout_of(&to);
        talked.kept.result = change::result_of(updates.status());
        talked.kept.last = Some(change::new(from, to, now, Outcome::Started, rollout));
    };
    under_lock(context, begun);
}

/// A version was committed and its watch begins: the lock is held, and the agent runs.
pub(crate) fn switched(context: &Context) {
    context.talk.switched.set(Some(Instant::now()));
    under_lock(context, |talked, updates| talked.follow(context, updates));
}

fn under_lock(context: &Context, change: impl FnOnce(&mut Talked, &Updates)) {
    let begun = Instant::now();
    let left = UNDER_LOCK.saturating_sub(context.talk.spent.get());
    let told = Talked::open(context).and_then(|talked| {
        let Some(mut talked) = talked else { return Ok(()) };
        let updates = Updates::read(&context.layout.config_file())?;
        change(&mut talked, &updates);
        deliver::deliver(
            context,
            &updates,
            talked,
            &Occasion { always: true, locking: Locking::Held, end: begun + left },
        )
    });
    context.talk.spent.set(context.talk.spent.get() + begun.elapsed());
    debug(context, told);
}

/// The run of `command` is over, and its lock is given back.
pub(crate) fn finish(context: &Context, command: &Command) {
    let always = match command {
        Command::Enable(_) | Command::Pin(_) => true,
        Command::Update(_) | Command::Rollback => false,
        _ => return,
    };
    if context.signals.cancelled() || context.talk.is_deaf.get() {
        return;
    }
    debug(context, end(context, always));
}

fn end(context: &Context, always: bool) -> Result<()> {
    let end = Instant::now() + AT_THE_END;
    // An uninstalled host says nothing more.
    if !durable::exists(&context.layout.config_file())? {
        return Ok(());
    }
    let Some(mut talked) = Talked::open(context)? else { return Ok(()) };
    let updates = Updates::read(&context.layout.config_file())?;
    talked.follow(context, &updates);
    if let Some(result) = context.talk.dry_run.take() {
        talked.kept.dry_run = Some(result);
    }
    deliver::deliver(context, &updates, talked, &Occasion { always, locking: Locking::Taken, end })
}

fn debug(context: &Context, told: Result<()>) {
    if let Err(error) = told {
        context.report.debug(&format!("no report to the rollout server: {error}"));
    }
}

/// The signature of a question of the agent `host` to `origin`: none where no report was taken there.
pub(crate) fn signature(context: &Context, origin: &str, host: &str) -> Option<String> {
    if context.layout.is_image() {
        return None;
    }
    let kept = FleetHost::read(&context.layout.versions).ok()??;
    let now = HostFingerprint::of_this_host(Some(host));
    let server = kept.server.filter(|server| server.origin == origin && server.wanted.is_some())?;
    if HostFingerprint::parse(&kept.host).is_of_another(&now) {
        return None;
    }
    let (epoch, key) = (server.epoch?, HostKey::of(&kept.seed?.0).ok()?);
    let number = deliver::next(context, kept.sequence);
    context.talk.number.set(number);
    let signature = key.sign(&question_message(host, epoch, number));
    Some(SignedQuestion { key: key.public(), epoch, number, signature }.to_string())
}

/// The record of the last run that is there now.
pub(crate) fn last_result(context: &Context) -> Option<String> {
    let updates = Updates::read(&context.layout.config_file()).ok()?;
    change::result_of(updates.status())
}

/// Why the answer that this run got is not followed: it is older than what this host has seen.
pub(crate) fn outdated(context: &Context) -> Option<String> {
    let heard = context.talk.heard.borrow();
    let kept = FleetHost::read(&context.layout.versions).ok()??;
    talked::outdated(&kept, heard.as_ref()?)
}

/// Whether the server has begun a new attempt with the version that it names since that failed here.
pub(crate) fn is_new_attempt(context: &Context) -> bool {
    let talked = Talked::open(context).ok().flatten();
    talked.is_some_and(|talked| talked.told.as_ref().is_some_and(|told| talked::is_new_attempt(&talked.kept, told)))
}

/// Whether this host has done the dry run of this plan.
pub(crate) fn has_tried(context: &Context, plan: &str) -> bool {
    let talked = Talked::open(context).ok().flatten();
    talked.and_then(|talked| talked.kept.dry_run).is_some_and(|done| done.starts_with(plan))
}

/// What `status` says of the last report; `None` where this user may not know.
pub(crate) fn shown(context: &Context) -> Option<String> {
    let server = FleetHost::read(&context.layout.versions).ok()?.and_then(|kept| kept.server);
    let asks = |server: &Server| server.wanted.is_some() && !context.layout.is_image();
    let is_enabled = durable::exists(&context.layout.config_file()).ok()?;
    Some(match server.filter(|server| is_enabled && asks(server)) {
        None => "not asked for".to_owned(),
        Some(Server { refusal: Some(refusal), .. }) => refusal,
        Some(Server { taken: Some(taken), .. }) => {
            format!("taken {}", Timestamp::from_second(taken.as_second()).unwrap_or(taken))
        }
        Some(_) => match context.host_uuid() {
            Ok(Some(_)) => "not sent yet".to_owned(),
            Ok(None) => "not sent yet: this host has no host_uuid; the agent makes it when it first starts".to_owned(),
            Err(error) => format!("not sent yet: {error}"),
        },
    })
}
