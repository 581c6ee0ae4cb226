//! How many hosts of a group were told, updated and failed, over time: from the times that are remembered of each host, so that
//! nothing more has to be kept and a restart loses nothing.

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
                let last = host.last.filter(|last| last.outcome == Outcome::Updated && last.to == look.wanted);
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
        let CurveStep { told, updated, failed } = self.first;
        let mut point = Point { at: begin, told, updated, failed };
        let mut points = vec![point];
        for (nth, step) in (1..).zip(&self.steps) {
            if step.told + step.updated + step.failed == 0 {
                continue;
            }
            point.told += step.told;
            point.updated += step.updated;
            point.failed += step.failed;
            point.at = (begin + SignedDuration::from_secs(i64::from(self.width) * nth)).min(end);
            points.push(point);
        }
        points.push(Point { at: end, ..point });
        RolloutCurve { points }
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
        let pair = |pair: &[CurveStep]| {
            pair.iter().fold(CurveStep::default(), |sum, step| CurveStep {
                told: sum.told + step.told,
                updated: sum.updated + step.updated,
                failed: sum.failed + step.failed,
            })
        };
        let mut steps: Vec<CurveStep> = self.steps.chunks(2).map(pair).collect();
        steps.resize(self.steps.len(), CurveStep::default());
        (self.steps, self.width) = (steps, self.width * 2);
    }
}
