//! What lasts: a group that is stuck, what is held for a day, a store that does not answer or lost decisions. Pure.

use fleet_engine::inventory::VersionAlert;
use fleet_engine::policy::Mode;
use fleet_engine::reason::Why;
use fleet_engine::rollout::{GroupStatus, Rollout, State};
use fleet_engine::rollout_state::{HaltCause, RolloutState};
use fleet_store::{Noted, PlaceInLog};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::event::{WebhookEvent, name, shown};
use crate::tuf_site::TufAlert;

/// After so long somebody should hear that something is still held.
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// What nothing explains may last so long.
const UNEXPLAINED: SignedDuration = SignedDuration::from_hours(24);
/// What the clock should have ended may last so much longer: a step comes each minute, a host each ten.
const GRACE: SignedDuration = SignedDuration::from_hours(1);
/// A group may take so many times as long as it ever took.
const HISTORY_FACTOR: i32 = 2;
/// A store that does not answer for so long is told: shorter is a restart or a slow disk.
const STORE_GONE: SignedDuration = SignedDuration::from_secs(60);

/// Something that lasts now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Condition {
    key: String,
    kind: &'static str,
    /// As long as this rollout lasts, it is told once.
    rollout: Option<u64>,
    /// `None`: since it was first seen.
    since: Option<Timestamp>,
    /// It is told when it has lasted so long.
    after: SignedDuration,
    /// A sentence without its end.
    what: String,
    data: Value,
}

/// What it is judged by.
pub(super) struct Observation<'a> {
    /// What was decided.
    pub(super) book: &'a RolloutState,
    /// Since when the store has not confirmed what is answered; `None`: it does.
    pub(super) unconfirmed: Option<Timestamp>,
    /// Past rollouts.
    pub(super) past: &'a [Rollout],
    /// Of the TUF repository.
    pub(super) tuf: &'a [TufAlert],
    /// Of versions.
    pub(super) alerts: &'a [VersionAlert],
    /// The present time.
    pub(super) now: Timestamp,
}

/// Everything that lasts.
pub(super) fn conditions(seen: &Observation<'_>) -> Vec<Condition> {
    let mut found: Vec<Condition> = store(seen).into_iter().collect();
    found.extend(held(seen.book));
    found.extend(seen.tuf.iter().map(of_tuf));
    found.extend(seen.alerts.iter().filter_map(of_versions));
    let rollout = seen.book.rollout.as_ref();
    let groups = rollout.into_iter().flat_map(|rollout| rollout.groups.iter().map(move |group| (rollout, group)));
    found.extend(groups.filter_map(|(rollout, group)| stuck(rollout, group, seen)));
    found
}

/// Brings what is noted in `place` up to date, and gives the event that is to be told next, with its key. What does not last any
/// more is forgotten; of a rollout only with it.
pub(super) fn next(
    place: &mut PlaceInLog,
    found: &[Condition],
    book: &RolloutState,
    now: Timestamp,
) -> Option<(String, WebhookEvent)> {
    let rollout = book.rollout.as_ref().map(|rollout| rollout.number);
    let lasts = |key: &str, noted: &Noted| {
        let is_of_this = noted.is_told && noted.rollout.is_some() && noted.rollout == rollout;
        is_of_this || found.iter().any(|condition| condition.key == key)
    };
    place.lasting.retain(|key, noted| lasts(key, noted));
    let mut due = None;
    for condition in found {
        let new = || Noted { since: condition.since.unwrap_or(now), is_told: false, rollout: condition.rollout };
        let noted = place.lasting.entry(condition.key.clone()).or_insert_with(new);
        if due.is_none() && !noted.is_told && now.duration_since(noted.since) >= condition.after {
            due = Some((condition.key.clone(), condition.event(noted.since, now)));
        }
    }
    due
}

impl Condition {
    fn event(&self, since: Timestamp, now: Timestamp) -> WebhookEvent {
        let text = format!("{}, since {}.", self.what, since.strftime("%Y-%m-%d %H:%M:%S UTC"));
        let mut data = self.data.clone();
        if let Some(data) = data.as_object_mut() {
            data.insert("since".to_owned(), json!(since));
            data.insert("rollout".to_owned(), json!(self.rollout));
        }
        WebhookEvent::keyed(&format!("{} {since}", self.key), self.kind, now, text, data)
    }
}

fn store(seen: &Observation<'_>) -> Option<Condition> {
    let condition = |kind: &'static str, since, after, what: &str| {
        let (key, what, data) = (kind.to_owned(), what.to_owned(), json!({}));
        Condition { key, kind, since, after, what, data, ..Condition::default() }
    };
    let holds = &seen.book.holds;
    if holds.all && holds.cause == HaltCause::StoreLost {
        let what = "The store lost decisions: everything is held until `run --all`";
        return Some(condition("store_lost", None, SignedDuration::ZERO, what));
    }
    let since = seen.unconfirmed?;
    let what = "The store does not confirm what is answered: nobody new is allowed to update";
    // Where it never answered since the start there is no time.
    let since = Some(since).filter(|since| *since > Timestamp::UNIX_EPOCH);
    Some(condition("store_unavailable", since, STORE_GONE, what))
}

/// Each is told once for each version, draft or plan, however many hosts come and go.
fn of_versions(alert: &VersionAlert) -> Option<Condition> {
    let kinds =
        ["security_patch", "end_of_life", "directive_stale", "draft_stale", "plan_waiting", "new_version_available"];
    let kind = kinds.into_iter().find(|kind| *kind == alert.kind)?;
    Some(Condition {
        key: format!("{kind} {}", alert.subject),
        kind,
        what: upper(&alert.text),
        data: json!({ "subject": alert.subject, "count": alert.count }),
        ..Condition::default()
    })
}

/// With a capital letter at the beginning.
fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn of_tuf(alert: &TufAlert) -> Condition {
    Condition {
        key: alert.key.clone(),
        kind: alert.kind,
        what: alert.what.clone(),
        data: json!({ "role": alert.role }),
        ..Condition::default()
    }
}

fn held(book: &RolloutState) -> Vec<Condition> {
    let kind = "held_for_a_day";
    let of = |key: String, rollout, since, what: String, data| Condition {
        key,
        kind,
        rollout,
        since,
        after: DAY,
        what,
        data,
    };
    if book.holds.all {
        return vec![of("held all".to_owned(), None, None, "Everything is held".to_owned(), json!({ "group": null }))];
    }
    let mut found = Vec::new();
    let groups = book.rollout.iter().flat_map(|rollout| &rollout.groups);
    for group in groups.clone() {
        let Some(halt) = group.halt.as_ref().filter(|_| group.state == State::Halted) else { continue };
        let own = &group.policy.name;
        let what = format!("{} is halted ({})", shown(&name(own)), halt.rule.name());
        let data = json!({ "group": name(own), "rule": halt.rule, "count": halt.count, "of": halt.of });
        let number = book.rollout.as_ref().map(|rollout| rollout.number);
        // Another halt of the same group is another thing.
        found.push(of(format!("halted {} {own}", halt.at), number, Some(halt.at), what, data));
    }
    let is_shown =
        |own: &&String| groups.clone().any(|group| group.policy.name == **own && group.state == State::Halted);
    for own in book.holds.groups.iter().filter(|own| !is_shown(own)) {
        let what = format!("{} is held", shown(&name(own)));
        found.push(of(format!("held group {own}"), None, None, what, json!({ "group": name(own) })));
    }
    if let Some(rollout) = book.rollout.as_ref().filter(|rollout| rollout.mode == Mode::Suspended) {
        let what = format!("Rollout {} is suspended", rollout.number);
        found.push(of("suspended".to_owned(), None, None, what, json!({ "group": null })));
    }
    found
}

/// A group that waits longer than its schedule or its past explains.
fn stuck(rollout: &Rollout, group: &GroupStatus, seen: &Observation<'_>) -> Option<Condition> {
    let (reason, own) = (&group.reason, &group.policy.name);
    // Those are told otherwise, or wait for one that is.
    let is_explained = matches!(
        reason.why,
        Why::PreviousGroupsNotDone { .. } | Why::Disabled | Why::Suspended | Why::Done | Why::Held | Why::Halted { .. }
    );
    let (began, allowed) = match group.state {
        _ if is_explained || seen.book.holds.has(own) => return None,
        State::Unstarted => (reason.since, UNEXPLAINED),
        // Nobody comes by himself, most likely.
        State::Canary | State::Active if matches!(reason.why, Why::Shrunk { present: 0, .. }) => (reason.since, GRACE),
        State::Canary | State::Active => (group.start_time.unwrap_or(reason.since), usual(own, seen.past)),
        State::Done | State::RolledBack | State::Halted => return None,
    };
    let explained_to = reason.until.map_or(began.checked_add(allowed).ok()?, |until| {
        // What the clock ends lasts until then.
        let by_clock = until.saturating_add(GRACE).unwrap_or(until);
        if group.state == State::Unstarted {
            by_clock
        } else {
            by_clock.max(began.saturating_add(allowed).unwrap_or(by_clock))
        }
    });
    if seen.now < explained_to {
        return None;
    }
    let code = reason.why.code();
    let what =
        format!("{} is stuck: it waits ({code}) longer than its schedule or its past explains", shown(&name(own)));
    Some(Condition {
        key: format!("stuck {} {} {own}", rollout.number, group.attempt),
        kind: "group_stuck",
        rollout: Some(rollout.number),
        since: Some(began),
        what,
        data: json!({ "group": name(own), "reason": code, "who": reason.why.who(), "until": reason.until }),
        ..Condition::default()
    })
}

/// How long the group called `own` may take from its start, by how long it took before.
fn usual(own: &str, past: &[Rollout]) -> SignedDuration {
    let groups = past.iter().flat_map(|rollout| &rollout.groups).filter(|group| group.policy.name == own);
    let took = groups.filter_map(|group| Some(group.done_time?.duration_since(group.start_time?)));
    let longest = took.filter(SignedDuration::is_positive).max();
    longest.map_or(UNEXPLAINED, |longest| longest.saturating_mul(HISTORY_FACTOR).max(GRACE))
}
