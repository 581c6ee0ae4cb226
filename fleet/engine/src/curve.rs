//! How many hosts of a group were told, updated and failed, over time: from the times that are remembered of each host, so that
//! nothing more has to be kept and a restart loses nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::host::{Host, Outcome};
use crate::moment::Moment;
use crate::rollout::{GroupStatus, State};
use crate::tally::{HostState, TallyContext};

/// Most points of a curve: more than a page has room for.
pub const POINTS: usize = 256;

/// A group's hosts at a time. Counts only grow: each host is where it is now, since it came there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub at: Timestamp,
    /// Hosts that were allowed to update, in the direction in which the group goes.
    pub told: u64,
    /// Hosts that run the version that is wanted.
    pub updated: u64,
    /// Hosts that failed or timed out.
    pub failed: u64,
}

/// A group over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutCurve {
    /// The beginning first; then each time at which something changed; the end last.
    pub points: Vec<Point>,
    /// When the group was halted, if it is.
    pub halted: Option<Timestamp>,
}

/// A curve while hosts are added to it, in any order.
#[derive(Debug, Clone)]
pub struct Sketch<'a> {
    group: &'a GroupStatus,
    begin: Moment,
    /// Seconds of each step. They double when a time lies behind the last one.
    width: u32,
    steps: Vec<CurveStep>,
    /// Who was there at the beginning.
    first: CurveStep,
    /// The last time at which something changed.
    last: Moment,
}

/// How many hosts came there within a step.
#[derive(Debug, Clone, Copy, Default)]
struct CurveStep {
    told: u64,
    updated: u64,
    failed: u64,
}

impl CurveStep {
    fn plus(self, Self { told, updated, failed }: &Self) -> Self {
        Self { told: self.told + told, updated: self.updated + updated, failed: self.failed + failed }
    }

    fn at(self, at: Timestamp) -> Point {
        let Self { told, updated, failed } = self;
        Point { at, told, updated, failed }
    }
}

impl<'a> Sketch<'a> {
    /// Of a group, from when it began, or turned back; `None`: it has not begun.
    pub fn of(group: &'a GroupStatus) -> Option<Self> {
        let begin = match group.state {
            State::RolledBack => group.attempt_began,
            _ => Moment::of(group.start_time?),
        };
        let steps = vec![CurveStep::default(); POINTS - 2];
        Some(Self { group, begin, width: 1, steps, first: CurveStep::default(), last: begin })
    }

    /// Adds a host of the group.
    pub fn add(&mut self, look: &TallyContext<'_>, host: &Host) {
        if look.has_departed(host) {
            return;
        }
        let mark = look.mark(host);
        if let Some(mark) = mark {
            self.step(mark.told).told += 1;
        }
        match look.state(host) {
            HostState::Updated => {
                let last = host.last().filter(|last| last.outcome == Outcome::Updated && last.to == look.wanted(host));
                let since = mark.and_then(|mark| mark.arrived).or(last.map(|last| last.at));
                // Of one that came by another way it is not known when: it counts from the beginning on.
                self.step(since.unwrap_or(self.begin)).updated += 1;
            }
            HostState::Failed => self.step(look.failed_at(host).unwrap_or(self.begin)).failed += 1,
            HostState::TimedOut => self.step(look.timed_out_at(host).unwrap_or(self.begin)).failed += 1,
            _ => {}
        }
    }

    /// The curve until `now`, or until the last change where the group moves no more.
    pub fn finish(self, now: Timestamp) -> RolloutCurve {
        // An attempt begins a second after the command.
        let begin = self.begin.time().min(now);
        let over = match self.group.state {
            State::Done => self.group.done_time,
            State::Halted => self.group.halt.as_ref().map(|halt| halt.at),
            _ => Some(now),
        };
        let end = over.unwrap_or(now).max(self.last.time()).min(now).max(begin);
        let (mut sum, mut points) = (self.first, vec![self.first.at(begin)]);
        for (nth, step) in (1..).zip(&self.steps) {
            if step.told + step.updated + step.failed == 0 {
                continue;
            }
            sum = sum.plus(step);
            points.push(sum.at((begin + SignedDuration::from_secs(i64::from(self.width) * nth)).min(end)));
        }
        points.push(sum.at(end));
        RolloutCurve { points, halted: self.group.halt.as_ref().map(|halt| halt.at) }
    }

    /// The step of a time.
    fn step(&mut self, at: Moment) -> &mut CurveStep {
        self.last = self.last.max(at);
        let Some(after) = at.since(self.begin).checked_sub(1) else { return &mut self.first };
        while (after / self.width) as usize >= self.steps.len() {
            self.widen();
        }
        self.steps.get_mut((after / self.width) as usize).unwrap_or(&mut self.first)
    }

    /// Each step becomes twice as long.
    fn widen(&mut self) {
        let pair = |pair: &[CurveStep]| pair.iter().fold(CurveStep::default(), |sum, step| sum.plus(step));
        let mut steps: Vec<CurveStep> = self.steps.chunks(2).map(pair).collect();
        steps.resize(self.steps.len(), CurveStep::default());
        (self.steps, self.width) = (steps, self.width * 2);
    }
}

/// That a host came from a version to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionChange {
    /// When that was reported.
    pub at: Timestamp,
    /// What it ran before; empty: nothing.
    pub from: String,
    /// What it runs since.
    pub to: String,
}

/// How many hosts ran which version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionCurve {
    /// The versions, those of most hosts first; where there are more than [`VERSIONS`], the last is empty and stands for all others.
    pub versions: Vec<String>,
    /// From each time on, how many hosts of each; the end last.
    pub points: Vec<(Timestamp, Vec<u64>)>,
}

/// Most versions that are told apart.
pub const VERSIONS: usize = 4;

impl VersionCurve {
    /// Of the hosts that are counted `now`, by version, with what they ran before by their `changes`, the newest first. Only hosts that
    /// are still there are known: of each it is told what it ran before, and of others nothing.
    pub fn of(counts: &BTreeMap<String, u64>, changes: &[VersionChange], now: Timestamp) -> Self {
        let Some(first) = changes.last() else { return Self::default() };
        let mut weights = counts.clone();
        changes.iter().for_each(|change| *weights.entry(change.to.clone()).or_default() += 1);
        for change in changes.iter().filter(|change| !change.from.is_empty()) {
            *weights.entry(change.from.clone()).or_default() += 1;
        }
        let mut versions: Vec<(Reverse<u64>, String)> =
            weights.into_iter().map(|(version, weight)| (Reverse(weight), version)).collect();
        versions.sort_unstable();
        let mut versions: Vec<String> = versions.into_iter().map(|(_, version)| version).collect();
        if versions.len() > VERSIONS {
            versions.truncate(VERSIONS);
            versions.push(String::new());
        }
        let place = |version: &str| versions.iter().position(|known| known == version).unwrap_or(versions.len() - 1);
        let mut present = vec![0; versions.len()];
        counts.iter().for_each(|(version, count)| add(&mut present, place(version), *count));
        let span = u64::try_from(now.duration_since(first.at).as_secs()).unwrap_or(0).max(1);
        let nth =
            |at: Timestamp| u64::try_from(at.duration_since(first.at).as_secs()).unwrap_or(0) * POINTS as u64 / span;
        let mut points = vec![(now, present.clone())];
        for change in changes {
            // One step of the picture shows what it ended with.
            if points.last().is_none_or(|(at, _)| nth(*at) != nth(change.at)) {
                points.push((change.at, present.clone()));
            }
            let to = place(&change.to);
            if let Some(count) = present.get_mut(to).filter(|count| **count > 0) {
                *count -= 1;
                if !change.from.is_empty() {
                    add(&mut present, place(&change.from), 1);
                }
            }
        }
        points.push((first.at, present));
        points.reverse();
        Self { versions, points }
    }
}

fn add(counts: &mut [u64], place: usize, more: u64) {
    counts.get_mut(place).into_iter().for_each(|count| *count += more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_over_time_are_what_hosts_ran_before_each_of_their_changes() {
        let at = |second| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
        let change = |second, from: &str, to: &str| {
            let (from, to) = (from.to_owned(), to.to_owned());
            VersionChange { at: at(second), from, to }
        };
        let counts = BTreeMap::from([("2.0.0".to_owned(), 2), ("1.0.0".to_owned(), 1)]);
        // The oldest one is of a host that has gone since.
        let changes = [change(900, "1.0.0", "2.0.0"), change(500, "", "2.0.0"), change(100, "0.9.0", "0.9.1")];
        let curve = VersionCurve::of(&counts, &changes, at(1000));
        assert_eq!(curve.versions, ["2.0.0", "1.0.0", "0.9.0", "0.9.1"]);
        let points: Vec<_> = curve.points.iter().map(|(at, of)| (at.as_second(), of.as_slice())).collect();
        let points: Vec<_> = points.iter().map(|(at, of)| (*at, of[0], of[1], of[2] + of[3])).collect();
        assert_eq!(points, [(100, 0, 2, 0), (100, 0, 2, 0), (500, 1, 2, 0), (900, 2, 1, 0), (1000, 2, 1, 0)]);
        assert_eq!(VersionCurve::of(&counts, &[], at(1000)), VersionCurve::default());
    }

    #[test]
    fn versions_beyond_the_largest_are_one_and_steps_are_bounded() {
        let at = |second| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
        let counts = (0..20).map(|number| (format!("1.0.{number}"), 20 - number)).collect();
        let change = |second| VersionChange { at: at(second), from: "1.0.0".to_owned(), to: "1.0.1".to_owned() };
        let changes: Vec<_> = (0..5_000).rev().map(change).collect();
        let curve = VersionCurve::of(&counts, &changes, at(5_000));
        assert_eq!((curve.versions.len(), curve.versions.last().map(String::as_str)), (VERSIONS + 1, Some("")));
        assert!(curve.points.len() <= POINTS + 3 && curve.points.is_sorted_by_key(|(at, _)| *at));
    }
}
