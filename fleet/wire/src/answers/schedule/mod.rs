//! `GET /v1/maintenance-schedule?kind=&group=`: when the hosts of a group may update, for updaters that keep their own window
//! (RFD 0109; FLEET §4, §12).

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use fleet_engine::calendar::{Blackout, WindowOpening, end_of_blackout};
use fleet_engine::host::GroupPlace;
use fleet_engine::names::NameTable;
use fleet_engine::policy::{GroupPolicy, Mode, Policy, Schedule, Strategy, Unassigned, Ungrouped};
use fleet_engine::rollout::Rollout;
use fleet_engine::rollout_state::RolloutState;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answers::query::Query;
use crate::answers::reply::{Reply, TEXT};
use crate::api::Code;
use crate::text;

/// How long a window is that names no length (Managed Updates v2, RFD 0109).
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// How far ahead windows are listed: agents ask again long before.
const AHEAD: SignedDuration = SignedDuration::from_hours(4 * 7 * 24);
/// Most windows that are listed: a daily one, and those that freezes cut in two.
const MOST_WINDOWS: usize = 64;
/// For hosts that may update at any time: twice an hour, as the timer of RFD 0109's packages.
const AT_ANY_TIME: &str = "*-*-* *:00,30:00 UTC";

/// What the answer is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An `OnCalendar` expression: the beginnings of windows.
    SystemdTimer,
    /// The JSON of the Kubernetes updater: beginnings and ends.
    KubeController,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<'a> {
    /// What the answer is written for.
    pub kind: Kind,
    /// The group; empty: none is named.
    pub group: Cow<'a, str>,
}

/// Reads the query behind the path, without its `?`. Other parameters are ignored.
///
/// # Errors
/// 400: the kind is not known, or a parameter is malformed.
pub fn question(query: &str) -> Result<Question<'_>, Reply> {
    let wrong = |fault: crate::answers::query::QueryFault| Reply::bad_request(&fault.to_string());
    let query = Query::strict(query).map_err(wrong)?;
    let kind = match query.only("kind").map_err(wrong)?.as_deref() {
        Some("systemd_timer") => Kind::SystemdTimer,
        Some("kube_controller") => Kind::KubeController,
        Some(other) => {
            let message = format!("kind {other:?} is unknown: expected systemd_timer or kube_controller");
            return Err(Reply::bad_request(&message));
        }
        None => return Err(Reply::bad_request("kind is missing: give systemd_timer or kube_controller")),
    };
    let group = query.only("group").map_err(wrong)?.unwrap_or_default();
    Ok(Question { kind, group })
}

/// When hosts may update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Windows {
    /// At any time.
    Always,
    /// In these windows.
    At {
        /// When they begin.
        opening: WindowOpening,
        /// How long they last.
        length: SignedDuration,
        /// When no host is let go.
        freezes: Vec<Blackout>,
    },
    /// Not until an operator changes something.
    Never,
}

/// The windows of the rollout's group called `group`, or of the one to which `find` maps a host that declares it; without a
/// rollout those of the next one.
pub fn windows(book: &RolloutState, group: &str, names: &NameTable) -> Windows {
    match (&book.rollout, &book.policy) {
        (Some(rollout), _) => of_rollout(rollout, group, names),
        (None, Some(policy)) => of_policy(policy, group),
        (None, None) => of_policy(&Policy::absent(), group),
    }
}

/// What `question` is answered at `now`.
pub fn reply(question: &Question<'_>, windows: &Windows, now: Timestamp) -> Reply {
    match question.kind {
        Kind::SystemdTimer => match calendar(windows) {
            Some(text) => Reply::ok(TEXT, text),
            None => no_windows(&question.group),
        },
        Kind::KubeController => Reply::json(200, &list(windows, now)),
    }
}

/// 404: a calendar expression cannot say never.
fn no_windows(group: &str) -> Reply {
    let message = format!(
        "hosts of group {group:?} have no maintenance window: updates are off, the group has no days, or they belong to no group"
    );
    Reply::error(Code::NoWindows, message)
}

fn of_rollout(rollout: &Rollout, group: &str, names: &NameTable) -> Windows {
    if rollout.mode != Mode::Enabled {
        return Windows::Never;
    }
    if rollout.schedule == Schedule::Immediate {
        return Windows::Always;
    }
    // A group that is named counts also where its members are chosen by labels.
    let place = rollout.place_of_name(group, names);
    let named = rollout.find(group).and_then(|index| rollout.groups.get(index));
    if let Some(group) = named.or_else(|| rollout.group(place)) {
        if rollout.without_windows {
            return Windows::Always;
        }
        return of_group(&group.policy, rollout.strategy, rollout.window);
    }
    match (place, &rollout.ungrouped) {
        (GroupPlace::Ungrouped, Some(ungrouped)) => of_ungrouped(ungrouped, rollout.schedule),
        _ => Windows::Never,
    }
}

fn of_policy(policy: &Policy, group: &str) -> Windows {
    if policy.mode != Mode::Enabled {
        return Windows::Never;
    }
    if policy.regular.is_empty() && policy.strategy != Strategy::Requires {
        // Managed Updates' default group.
        let absent = Policy::absent();
        return absent.regular.first().map_or(Windows::Never, |group| of_group(group, policy.strategy, policy.window));
    }
    let named = |name: &str| policy.regular.iter().find(|one| one.name == name);
    let found = named(group).or_else(|| match &policy.unassigned {
        _ if policy.ungrouped.is_some() => None,
        Unassigned::Hold => None,
        Unassigned::Last => policy.regular.last(),
        Unassigned::Group(name) => named(name),
    });
    match (found, &policy.ungrouped) {
        (Some(found), _) => of_group(found, policy.strategy, policy.window),
        (None, Some(ungrouped)) => of_ungrouped(ungrouped, Schedule::Regular),
        (None, None) => Windows::Never,
    }
}

fn of_group(group: &GroupPolicy, strategy: Strategy, window: SignedDuration) -> Windows {
    let length = if strategy == Strategy::TimeBased { window } else { group.pace.window.unwrap_or(HOUR) };
    if group.gate.opening.days.is_empty() {
        return Windows::Never;
    }
    Windows::At { opening: group.gate.opening.clone(), length, freezes: group.gate.blackout.clone() }
}

fn of_ungrouped(ungrouped: &Ungrouped, schedule: Schedule) -> Windows {
    let window = match schedule {
        // Without a critical schedule of its own, it is the regular one at any time.
        Schedule::Critical if ungrouped.critical.is_none() && ungrouped.regular.is_some() => return Windows::Always,
        Schedule::Critical => ungrouped.critical.as_ref(),
        Schedule::Regular | Schedule::Immediate => ungrouped.regular.as_ref(),
    };
    match window.filter(|window| !window.opening.days.is_empty()) {
        Some(window) => Windows::At { opening: window.opening.clone(), length: HOUR, freezes: Vec::new() },
        None => Windows::Never,
    }
}

/// The beginnings as a calendar expression of systemd, without a line feed: `systemd-analyze calendar` would refuse it.
fn calendar(windows: &Windows) -> Option<String> {
    match windows {
        Windows::Always => Some(AT_ANY_TIME.to_owned()),
        Windows::At { opening, .. } => opening.calendar_text(),
        Windows::Never => None,
    }
}

/// The windows of the coming weeks, for the Kubernetes updater.
#[derive(Serialize, JsonSchema)]
pub struct WindowList {
    /// The one that is open now included.
    windows: Vec<WindowSpan>,
}

/// A window.
#[derive(Serialize, JsonSchema)]
struct WindowSpan {
    /// When it opens.
    #[schemars(with = "Timestamp")]
    start: String,
    /// When it closes.
    #[schemars(with = "Timestamp")]
    stop: String,
}

fn list(windows: &Windows, now: Timestamp) -> WindowList {
    let shown = spans(windows, now)
        .into_iter()
        .map(|(start, stop)| WindowSpan { start: text::second(start), stop: text::second(stop) });
    WindowList { windows: shown.collect() }
}

/// Beginning and end of each window of the coming weeks, the one that is open now included; freezes are cut out, and what
/// overlaps is one.
fn spans(windows: &Windows, now: Timestamp) -> Vec<(Timestamp, Timestamp)> {
    let end = now.saturating_add(AHEAD).unwrap_or(Timestamp::MAX);
    let (opening, length, freezes) = match windows {
        Windows::Always => return vec![(now, end)],
        Windows::Never => return Vec::new(),
        Windows::At { opening, length, freezes } => (opening, *length, freezes),
    };
    let mut spans: Vec<(Timestamp, Timestamp)> = Vec::new();
    let mut next = opening.opened_at(now, length).or_else(|| opening.next(now));
    while let Some(start) = next.filter(|start| *start < end && spans.len() < MOST_WINDOWS) {
        next = opening.next(start);
        let stop = start.saturating_add(length).unwrap_or(Timestamp::MAX);
        for (start, stop) in thawed(start, stop, freezes).into_iter().filter(|(start, _)| *start < end) {
            match spans.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.max(stop),
                _ => spans.push((start, stop)),
            }
        }
    }
    spans
}

/// The parts of a window that no freeze covers.
fn thawed(start: Timestamp, stop: Timestamp, freezes: &[Blackout]) -> Vec<(Timestamp, Timestamp)> {
    let mut parts = Vec::new();
    let mut from = end_of_blackout(freezes, start);
    while from < stop && parts.len() < MOST_WINDOWS {
        let to = freezes.iter().map(|freeze| freeze.from).filter(|at| *at > from).min().map_or(stop, |at| at.min(stop));
        parts.push((from, to));
        if to == stop {
            break;
        }
        from = end_of_blackout(freezes, to);
    }
    parts
}
