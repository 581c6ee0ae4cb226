//! A report on its way: numbered, kept, signed, sent, and what was answered.

use std::time::{Duration, Instant};

use http_client::Client;
use jiff::{SignedDuration, Timestamp};
use protocol::report::{GoOn, MAX_NUMBER, Report};
use sources::{HostKey, ReportVerdict, new_seed, send_report};

use super::talked::{self, Talked};
use super::{commands, content};
use crate::config::Updates;
use crate::config::fleet_host::{FleetHost, Seed, Server};
use crate::context::Context;
use crate::host::durable;
use crate::host::lock::Lock;
use crate::report::Result;
use crate::run::network;

/// How long the end of a run waits for the lock, to write down what a report came to: another run has its own to say.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// Less time than this is none.
const TOO_SHORT: Duration = Duration::from_millis(50);
/// A time that lies further ahead was written by a clock that has been set back since.
const LONGEST_HOLD: SignedDuration = SignedDuration::from_hours(24);
/// Tries of one report: the second goes on from what the server has.
const TRIES: u32 = 2;

/// When a report is sent, and how.
pub(super) struct Occasion {
    /// Also where there is nothing new to say.
    pub always: bool,
    /// Whether this run has its lock.
    pub locking: Locking,
    /// When all must be over.
    pub end: Instant,
}

/// Who sees to the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Locking {
    /// The run holds it.
    Held,
    /// It is taken for each write, and never while the server is waited for.
    Taken,
}

impl Locking {
    fn lock(self, context: &Context) -> Result<Option<Lock>> {
        if self == Self::Held {
            return Ok(None);
        }
        Lock::acquire(&context.lock_path(), LOCK_WAIT, "report", &|| context.signals.cancelled()).map(Some)
    }
}

/// Sends a report if one is due, and keeps what is to be kept.
///
/// Errors: `lock_held`, `io`. What the server says is none.
pub(super) fn deliver(context: &Context, updates: &Updates, mut talked: Talked, occasion: &Occasion) -> Result<()> {
    let host = context.host_uuid()?;
    let due = talked
        .kept
        .server
        .as_ref()
        .is_some_and(|server| is_due(server, &talked.kept, occasion.always, context.host.now()));
    let (Some(host), true) = (host, due) else { return keep(context, &talked, occasion.locking) };
    if occasion.locking == Locking::Taken {
        talked.kept.printed = commands::refresh(context, &talked.kept.printed, occasion.end);
    }
    let mut report = content::gather(context, updates, &talked, host);
    let client = client(context, updates)?;
    let mut least = None;
    for _ in 0..TRIES {
        let left = occasion.end.saturating_duration_since(Instant::now());
        if left < TOO_SHORT {
            return keep(context, &talked, occasion.locking);
        }
        number(context, &mut talked, least, occasion.locking)?;
        report.sequence = talked.kept.sequence;
        let verdict = send(context, &client, &talked, &report, occasion.end)?;
        let Some(verdict) = verdict else { return Ok(()) };
        if let ReportVerdict::GoOn(GoOn { epoch, sequence }) = verdict {
            report.epoch = epoch;
            least = Some(sequence + 1);
        }
        note(context, &mut talked, &verdict, report.epoch);
        keep(context, &talked, occasion.locking)?;
        if verdict == ReportVerdict::Taken {
            // It has served; it may be good for others.
            context.talk.token.take();
            durable::remove_file(&FleetHost::token_file(&context.layout.versions))?;
        }
        if !matches!(verdict, ReportVerdict::GoOn(_)) {
            return Ok(());
        }
    }
    tell(context, "the server and this host do not agree on a number");
    Ok(())
}

/// Whether a report is due: there is something to say, or the interval is over.
fn is_due(server: &Server, kept: &FleetHost, always: bool, now: Timestamp) -> bool {
    let Some(wanted) = server.wanted else { return false };
    let lies_ahead = |time: Timestamp, longest: SignedDuration| {
        let left = time.duration_since(now);
        left.is_positive() && left <= longest
    };
    if server.hold.is_some_and(|hold| lies_ahead(hold, LONGEST_HOLD)) {
        return false;
    }
    let interval = SignedDuration::from_secs(wanted.interval_seconds.into());
    let is_news = server.said != kept.last || server.said_dry_run != kept.dry_run;
    always || is_news || !server.next.is_some_and(|next| lies_ahead(next, interval))
}

/// Gives the next report its number, and this host its key, and keeps both: what was signed by a key that is not kept would lock
/// this host out.
fn number(context: &Context, talked: &mut Talked, least: Option<u64>, locking: Locking) -> Result<()> {
    let _lock = locking.lock(context)?;
    if talked.kept.seed.is_none() {
        talked.kept.seed = Some(talked::seed(context)?.map_or_else(|| new_seed().map(Seed), Ok)?);
    }
    talked.kept.sequence = next(context, talked.kept.sequence).max(least.unwrap_or_default()).min(MAX_NUMBER);
    talked.kept.write(&context.layout.versions)
}

/// The number after `kept` and after those that this run has signed: at least the time, milliseconds since 1970.
pub(super) fn next(context: &Context, kept: u64) -> u64 {
    let now = u64::try_from(context.host.now().as_millisecond()).unwrap_or_default();
    now.max(kept.saturating_add(1)).max(context.talk.number.get().saturating_add(1)).min(MAX_NUMBER)
}

/// Writes down what differs from what was there.
fn keep(context: &Context, talked: &Talked, locking: Locking) -> Result<()> {
    if talked.kept == talked.before {
        return Ok(());
    }
    let _lock = locking.lock(context)?;
    talked.kept.write(&context.layout.versions)
}

fn client(context: &Context, updates: &Updates) -> Result<Client> {
    let heard = context.talk.heard.borrow();
    heard.as_ref().map_or_else(|| network::client(context, updates.spec()), |heard| Ok(heard.client.clone()))
}

/// `None`: a signal has ended this run.
fn send(
    context: &Context,
    client: &Client,
    talked: &Talked,
    report: &Report,
    end: Instant,
) -> Result<Option<ReportVerdict>> {
    let (Some(server), Some(seed)) = (&talked.kept.server, &talked.kept.seed) else { return Ok(None) };
    let key = HostKey::of(&seed.0)?;
    let given = context.talk.token.borrow().clone();
    let kept = || FleetHost::token(&FleetHost::token_file(&context.layout.versions));
    // A token that cannot be read is as good as none: the server says that one is needed.
    let token = given.or_else(|| kept().ok().flatten());
    let left = end.saturating_duration_since(Instant::now());
    Ok(send_report(client, &server.origin, &key, report, token, left, &|| context.signals.cancelled()))
}

/// Takes over what the server answered.
fn note(context: &Context, talked: &mut Talked, verdict: &ReportVerdict, epoch: u64) {
    let now = context.host.now();
    let after = |rest: Duration| now.saturating_add(SignedDuration::try_from(rest).unwrap_or_default()).ok();
    let Some(server) = &mut talked.kept.server else { return };
    let interval = Duration::from_secs(server.wanted.map_or(0, |wanted| wanted.interval_seconds).into());
    if matches!(verdict, ReportVerdict::Taken | ReportVerdict::Waits) {
        (server.next, server.hold) = (after(interval), None);
        server.said.clone_from(&talked.kept.last);
        server.said_dry_run.clone_from(&talked.kept.dry_run);
    }
    match verdict {
        ReportVerdict::GoOn(_) => {}
        // As a find answer without the wish, which a host that is pinned or disabled does not ask for.
        ReportVerdict::Unwanted => server.wanted = None,
        ReportVerdict::Taken => (server.epoch, server.taken, server.refusal) = (Some(epoch), Some(now), None),
        ReportVerdict::Waits => {
            server.refusal = Some("waits for approval".to_owned());
            if !context.talk.is_told.replace(true) {
                context
                    .report
                    .info("this host's reports wait until an operator of the rollout server approves of this host");
            }
        }
        ReportVerdict::Conflict(told) => {
            server.refusal = Some(format!("refused: {told}"));
            server.hold = after(interval);
            tell(context, told);
        }
        ReportVerdict::Refused(told, rest) => {
            server.refusal = Some(format!("refused: {told}"));
            server.hold = Some(*rest).filter(|rest| !rest.is_zero()).and_then(after);
            // A rest is no fault: the next run after it says all there is to say.
            if rest.is_zero() {
                tell(context, told);
            } else if !context.talk.is_told.replace(true) {
                context.report.info(&format!("this host reports later, as the rollout server asks: {told}"));
            }
        }
    }
}

/// Says once a run that a report was not taken.
fn tell(context: &Context, told: &str) {
    if !context.talk.is_told.replace(true) {
        context
            .report
            .warn(&format!("the rollout server did not take this host's report; updates go on without it: {told}"));
    }
}
