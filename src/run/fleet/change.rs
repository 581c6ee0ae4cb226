//! The last change as a report has it, from what `updates.yaml` says of the last run. Pure.

use jiff::Timestamp;
use protocol::Revision;
use protocol::report::{Change, Outcome};

use crate::config::fleet_host::{FleetHost, Told};
use crate::config::status::{self, Status};
use crate::plan::facts::Refusal;

/// How many failures are remembered: one a version, of those that a host goes to and fro between.
const FAILURES: usize = 4;

/// What the last run was, if it was a change: its outcome now. `active`: the version that is active.
pub(super) fn of(status: &Status, active: Option<&Revision>) -> Option<Change> {
    let last = status.last_result.as_ref()?;
    let text = |revision: &Option<Revision>| revision.as_ref().map(|it| it.version.to_string()).unwrap_or_default();
    let is_back = last.to.is_none() || last.to.as_ref() == active;
    let (from, to, outcome) = match last.outcome {
        status::Outcome::Updated => {
            let is_watched = status.watch.as_ref().is_some_and(|watch| Some(&watch.revision) == last.to.as_ref());
            (text(&last.from), text(&last.to), if is_watched { Outcome::Switched } else { Outcome::Updated })
        }
        // A version that stood, and was then left: the record tells of the way back.
        status::Outcome::RolledBack if is_back => (text(&last.to), text(&last.from), Outcome::RolledBack),
        status::Outcome::RolledBack => (text(&last.from), text(&last.to), Outcome::RolledBack),
        status::Outcome::Failed => (text(&last.from), text(&last.to), Outcome::Failed),
        status::Outcome::Nothing | status::Outcome::Other(_) => return None,
    };
    (!to.is_empty()).then(|| Change {
        code: last.error_code.clone().unwrap_or_default(),
        error: last.message.clone().unwrap_or_default(),
        ..new(from, to, last.time, outcome, Default::default())
    })
}

/// A change without an error. `told`: the rollout and the attempt.
pub(super) fn new(
    from: String,
    to: String,
    at: Timestamp,
    outcome: Outcome,
    (rollout, attempt): (Option<u64>, Option<u32>),
) -> Change {
    let (code, error, phases) = Default::default();
    Change { from, to, at: at.to_string(), rollout, attempt, outcome, code, error, phases }
}

/// What tells one record of a last run from another.
pub(super) fn result_of(status: &Status) -> Option<String> {
    let last = status.last_result.as_ref()?;
    let version = |revision: &Option<Revision>| revision.as_ref().map(ToString::to_string).unwrap_or_default();
    let (from, to, run) = (version(&last.from), version(&last.to), last.run.as_deref().unwrap_or_default());
    Some(format!("{} {}: {from} -> {to} {run}", last.time, last.outcome))
}

/// Takes over what the last run came to. `told`: what this run was told.
pub(super) fn follow(host: &mut FleetHost, status: &Status, active: Option<&Revision>, told: Option<&Told>) {
    let Some(mut now) = of(status, active) else { return };
    let result = result_of(status);
    let of_begun = host.last.as_ref().filter(|last| last.to == now.to).map(|last| (last.rollout, last.attempt));
    let of_told = told.filter(|told| told.version == now.to).map(|told| (Some(told.rollout), Some(told.attempt)));
    let is_begun = host.last.as_ref().is_some_and(|last| last.outcome.is_under_way());
    let known = if is_begun { of_begun.or(of_told) } else { of_told.or(of_begun) };
    (now.rollout, now.attempt) = known.unwrap_or_default();
    let is_news = match &host.last {
        None => true,
        // The same record: only the end of its watch makes it another. Of a change that was cut short there is none yet.
        Some(last) if host.result == result => (last.outcome, now.outcome) == (Outcome::Switched, Outcome::Updated),
        // What fails each time before it begins is told once.
        Some(last) => !(now.outcome.is_failure() && is_alike(last, &now)),
    };
    host.result = result;
    if is_news {
        host.last = Some(now);
        remember_failure(host);
    }
}

fn is_alike(one: &Change, other: &Change) -> bool {
    let Change { at, error, phases, .. } = other.clone();
    Change { at, error, phases, ..one.clone() } == *other
}

/// The version of `told` is not tried, because it failed here before: said once a rollout and attempt. `from`: what is active.
pub(super) fn refuse(host: &mut FleetHost, told: &Told, refusal: &Refusal, from: Option<&Revision>, now: Timestamp) {
    let attempt = (Some(told.rollout), Some(told.attempt));
    let is_said =
        |last: &Change| last.to == told.version && last.outcome.is_failure() && (last.rollout, last.attempt) == attempt;
    if host.last.as_ref().is_some_and(is_said) {
        return;
    }
    let from = from.map(|from| from.version.to_string()).unwrap_or_default();
    host.last = Some(Change {
        code: refusal.error_code.clone(),
        error: refusal.reason.clone(),
        ..new(from, told.version.clone(), now, Outcome::Refused, attempt)
    });
    remember_failure(host);
}

fn remember_failure(host: &mut FleetHost) {
    let Some(last) = host.last.as_ref().filter(|last| last.outcome.is_failure()) else { return };
    let (Some(rollout), Some(attempt)) = (last.rollout, last.attempt) else { return };
    let failed = Told { version: last.to.clone(), rollout, attempt };
    host.failed.retain(|known| known.version != failed.version);
    host.failed.push(failed);
    let superfluous = host.failed.len().saturating_sub(FAILURES);
    host.failed.drain(..superfluous);
}
