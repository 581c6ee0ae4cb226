//! Freezes: those that never end, are over, or leave no window open.

use jiff::{SignedDuration, Timestamp};

use super::Found;
use super::place::DocumentPlace;
use crate::calendar::{WindowOpening, blackout_at};
use crate::policy::GroupPolicy;

/// A freeze longer than this is none, days: the longest that shops and banks have around the turn of the year is shorter.
const LONGEST: i64 = 60;
/// Windows that are looked at one after the other: more than there are days in which freezes may follow one another.
const WINDOWS: usize = 400;

/// The freezes of a group that stands at `at`.
pub(super) fn check(at: &DocumentPlace<'_>, group: &GroupPolicy, now: Option<Timestamp>, found: &mut Found) {
    let list = at.key("blackout");
    let mut has_endless = false;
    for (nth, freeze) in group.gate.blackout.iter().enumerate() {
        let item = list.item(nth);
        let days = freeze.to.duration_since(freeze.from).as_hours() / 24;
        if now.is_some_and(|now| freeze.to <= now) {
            let what = format!("the freeze was over at {}", freeze.to);
            found.add(&item, "freeze_over", what, "take it out");
        } else if days > LONGEST {
            has_endless = true;
            let what =
                format!("the freeze lasts {days} days: no host updates in that time, not even to a security release");
            let advice = "end it earlier, or write mode: suspended, which status shows";
            found.add(&item.key("to"), "freeze_never_ends", what, advice);
        }
        if freeze.reason.trim().is_empty() {
            let what = "has no reason: status and hosts say only that there is a freeze";
            found.add(&item.key("reason"), "no_reason", what, "say why, in a line");
        }
    }
    if has_endless {
        return;
    }
    if let Some(days) = frozen_days(group).filter(|days| *days > LONGEST) {
        let what = format!("every window of {days} days begins within a freeze: the group cannot start in them");
        found.add(&list, "windows_frozen", what, "move the window or the freezes");
    }
}

/// The longest time, in days, in which every window begins within a freeze. `None`: no freeze covers a window.
fn frozen_days(group: &GroupPolicy) -> Option<i64> {
    let freezes = &group.gate.blackout;
    let opening: &WindowOpening = &group.gate.opening;
    let longest = freezes.iter().filter_map(|freeze| {
        let before = freeze.from.saturating_sub(SignedDuration::from_secs(1)).ok()?;
        let mut at = before;
        for _ in 0..WINDOWS {
            let next = opening.next(at)?;
            if blackout_at(freezes, next).is_none() {
                return Some(next.duration_since(before));
            }
            at = next;
        }
        Some(at.duration_since(before))
    });
    longest.max().map(|longest| longest.as_hours() / 24)
}
