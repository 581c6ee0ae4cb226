//! When the server listened: a host's silence means nothing while nobody could hear it (FLEET §3).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// Seconds without a step in which the server listened all the same, whatever the report interval is: a step a minute is due.
const SHORTEST: u32 = 120;
/// Gaps that are kept; beyond that the oldest two become one, with the time between them.
const MOST: usize = 16;
/// Seconds after which a gap is forgotten, thirty days: whoever was silent before it has departed.
const FORGOTTEN_AFTER: u32 = 30 * 86_400;

/// A time in which the server did not listen: it was down, an older store was put back, or its clock jumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The last step before it.
    pub from: Moment,
    /// The first step after it.
    pub to: Moment,
}

/// The times in which the server listened, as they are known at one time.
#[derive(Debug, Clone, Copy)]
pub struct Listening<'a> {
    gaps: &'a [Gap],
    last_step: Moment,
    now: Moment,
    is_open: bool,
}

impl<'a> Listening<'a> {
    /// At `now`, where the last step was at `last_step` and hosts report each `interval` seconds.
    pub(crate) fn new(gaps: &'a [Gap], last_step: Timestamp, interval: u32, now: Timestamp) -> Self {
        let (last_step, now) = (Moment::of(last_step), Moment::of(now));
        Self { gaps, last_step, now, is_open: is_gap(last_step, interval, now) }
    }

    /// When the server had listened for so many seconds since `moment`, gaps left out; none of them moves what was over before it.
    pub fn after(&self, moment: Moment, seconds: u32) -> Moment {
        let mut end = moment.after(seconds);
        let open = Gap { from: self.last_step, to: self.now };
        for gap in self.gaps.iter().chain(self.is_open.then_some(&open)) {
            if gap.from >= end {
                break;
            }
            end = end.after(gap.to.since(gap.from.max(moment)));
        }
        end
    }

    /// Whether the server has listened for more than so many seconds since `moment`.
    pub fn is_over(&self, moment: Moment, seconds: u32) -> bool {
        // Gaps only make it later: most hosts need no look at them.
        self.now > moment.after(seconds) && self.now > self.after(moment, seconds)
    }
}

/// Later than a report interval after the last step: whatever hosts said meanwhile was not heard.
fn is_gap(last_step: Moment, interval: u32, now: Moment) -> bool {
    now.since(last_step) > interval.max(SHORTEST)
}

/// Notes in `gaps` that a step comes at `now`, where the last one was at `last_step` and hosts report each `interval` seconds.
pub(crate) fn note_step(gaps: &mut Vec<Gap>, last_step: Option<Timestamp>, interval: u32, now: Timestamp) {
    let at = Moment::of(now);
    gaps.retain(|gap| at.since(gap.to) <= FORGOTTEN_AFTER);
    if let Some(from) = last_step.map(Moment::of).filter(|last| is_gap(*last, interval, at)) {
        gaps.push(Gap { from, to: at });
    }
    if gaps.len() > MOST {
        let oldest = gaps.remove(0);
        gaps.iter_mut().take(1).for_each(|next| next.from = oldest.from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Moment {
        Moment::of(Timestamp::from_second(second).unwrap())
    }

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn gap(from: i64, to: i64) -> Gap {
        Gap { from: at(from), to: at(to) }
    }

    #[test]
    fn time_passes_only_while_somebody_listens() {
        let gaps = [gap(1_000, 5_000), gap(6_000, 7_000)];
        let listening = Listening::new(&gaps, time(9_000), 900, time(9_060));
        for (from, seconds, end) in [
            (100, 900, 1_000),   // Over when the gap began.
            (100, 901, 5_001),   // Not quite.
            (3_000, 500, 5_500), // From within the gap.
            (500, 1_500, 6_000), // Over when the second gap began.
            (500, 1_600, 7_100),
            (7_000, 100, 7_100),
        ] {
            assert_eq!(listening.after(at(from), seconds), at(end), "{from} and {seconds}");
        }
        assert!(listening.is_over(at(500), 3_559) && !listening.is_over(at(500), 3_560));
    }

    #[test]
    fn a_gap_that_no_step_ended_yet_counts_as_well() {
        let silent = |now: i64| Listening::new(&[], time(1_000), 900, time(now)).is_over(at(900), 200);
        assert!(silent(1_101) && silent(1_900), "a step is late, and no more");
        assert!(!silent(1_901) && !silent(500_000));
        let over = Listening::new(&[], time(1_000), 900, time(500_000)).is_over(at(500), 200);
        assert!(over, "what was over before stays over");
    }

    #[test]
    fn gaps_are_noted_and_bounded() {
        let (mut gaps, mut last) = (Vec::new(), None);
        let mut step = |second: i64, gaps: &mut Vec<Gap>| {
            note_step(gaps, last, 60, time(second));
            last = Some(time(second));
        };
        for number in 0..100 {
            step(1_000 + number * 120, &mut gaps);
        }
        assert!(gaps.is_empty(), "{gaps:?}");
        let mut now = 1_000 + 99 * 120;
        for _ in 0..40 {
            step(now + 121, &mut gaps);
            step(now + 130, &mut gaps);
            now += 130;
        }
        assert_eq!(gaps.len(), MOST);
        assert_eq!(gaps.first(), Some(&gap(1_000 + 99 * 120, now - 15 * 130 - 9)));
        assert_eq!(gaps.last(), Some(&gap(now - 130, now - 9)));
        step(now + 31 * 86_400, &mut gaps);
        assert_eq!(gaps, [gap(now, now + 31 * 86_400)]);
    }
}
