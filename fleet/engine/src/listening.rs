//! The listening clock: the time that counts, by which everything is measured that hosts can be late with (FLEET §3). It stands
//! while the server does not step, or does not hear most of those that it heard before: a host's silence means nothing then.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// Seconds between two questions of a host: the updater's timer. No report interval that is shorter makes it ask more often.
pub const ASKS_EVERY: u32 = 600;
/// Seconds without a step that are no gap: a step a minute is due.
const LATE: u32 = 120;
/// Gaps that are kept; beyond that the oldest two become one, with the time between them.
const MOST: usize = 16;
/// Seconds after which a gap is forgotten, thirty days: whoever was silent before it has departed.
const FORGOTTEN_AFTER: u32 = 30 * 86_400;

/// A time that counts against nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The last time before it that counts.
    pub from: Moment,
    /// When each host has had its next occasion to be heard.
    pub to: Moment,
}

/// What is known of the times in which hosts were heard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListeningClock {
    /// The times that do not count, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<Gap>,
    /// Where the clock stands: since then most of those were seen that were before.
    #[serde(default, rename = "most_heard", skip_serializing_if = "Option::is_none")]
    most: Option<Moment>,
    /// The newest word of anybody.
    #[serde(default, rename = "last_heard", skip_serializing_if = "Option::is_none")]
    newest: Option<Moment>,
    /// How often hosts report, seconds.
    #[serde(default, rename = "report_interval")]
    interval: u32,
}

/// How often hosts are heard, seconds, where they report each `interval` seconds.
pub fn heard_every(interval: u32) -> u32 {
    interval.max(ASKS_EVERY)
}

impl ListeningClock {
    /// Takes notice at `now` of when each host was `heard` of last, those left out that nobody waits for; the last step was at
    /// `last_step`, and hosts report each `interval` seconds.
    pub(crate) fn step(
        &mut self,
        heard: impl Iterator<Item = Moment> + Clone,
        last_step: Option<Timestamp>,
        interval: u32,
        now: Timestamp,
    ) {
        let now = Moment::of(now);
        self.interval = interval;
        self.gaps.retain(|gap| now.since(gap.to) <= FORGOTTEN_AFTER);
        if let Some(last) = last_step.map(Moment::of).filter(|last| now.since(*last) > LATE) {
            self.leave_out(last, now);
        }
        let Some(newest) = heard.clone().max() else {
            (self.most, self.newest) = (Some(now), None);
            return;
        };
        let most = self.most.unwrap_or(newest).min(now);
        // Who was silent when the others were heard is missed by nobody.
        let quiet = self.quiet();
        // Made at once: a million that grow take twice the room on the way.
        let mut recent: Vec<Moment> = Vec::with_capacity(heard.size_hint().1.unwrap_or_default());
        recent.extend(heard.filter(|heard| most.since(*heard) <= quiet));
        if let Some(before) = self.newest.filter(|before| newest.since(*before) > self.heard_every()) {
            self.leave_out(before, newest);
        }
        self.newest = Some(newest);
        let half = recent.len() / 2;
        let most_now = if recent.is_empty() { most } else { most.max(*recent.select_nth_unstable(half).1) };
        if most_now.since(most) > self.quiet() {
            self.leave_out(most, most_now);
        }
        self.most = Some(most_now);
    }

    /// The server starts at `now`, or its network is back: nobody was heard since `last_step`, or longer, however short that is.
    pub(crate) fn start(&mut self, last_step: Timestamp, now: Timestamp) {
        let last = Moment::of(last_step);
        self.leave_out(self.most.map_or(last, |most| most.min(last)), Moment::of(now));
    }

    /// All hosts were heard until `now`.
    pub(crate) fn set(&mut self, now: Timestamp) {
        (self.most, self.newest) = (Some(Moment::of(now)), Some(Moment::of(now)));
    }

    /// Leaves a time out, and the one in which each host asks for the first time after it.
    fn leave_out(&mut self, from: Moment, to: Moment) {
        let mut gap = Gap { from, to: to.after(self.heard_every()) };
        let touches = |other: &Gap, gap: &Gap| other.from <= gap.to && gap.from <= other.to;
        for other in self.gaps.iter().filter(|other| touches(other, &gap)).copied().collect::<Vec<_>>() {
            gap = Gap { from: gap.from.min(other.from), to: gap.to.max(other.to) };
        }
        self.gaps.retain(|other| !touches(other, &gap));
        self.gaps.push(gap);
        self.gaps.sort_unstable_by_key(|gap| gap.from);
        if self.gaps.len() > MOST {
            let oldest = self.gaps.remove(0);
            self.gaps.iter_mut().take(1).for_each(|next| next.from = oldest.from);
        }
    }

    fn heard_every(&self) -> u32 {
        heard_every(self.interval)
    }

    /// Seconds without a word of most hosts that are no gap: each has missed two questions then.
    fn quiet(&self) -> u32 {
        2 * self.heard_every()
    }

    /// Since when most of the fleet is not seen, all at once; `None`: it is.
    pub fn silent_since(&self, now: Timestamp) -> Option<Timestamp> {
        let most = self.most.filter(|most| Moment::of(now).since(*most) > self.quiet())?;
        Some(most.time())
    }

    /// The clock as it is read at `now`.
    pub(crate) fn at(&self, now: Timestamp) -> Listening<'_> {
        let now = Moment::of(now);
        let most = self.most.unwrap_or(now);
        let of_groups = if now.since(most) > self.quiet() { most } else { now };
        Listening { gaps: &self.gaps, most, of_groups, now, heard_every: self.heard_every() }
    }
}

/// The listening clock at one time.
#[derive(Debug, Clone, Copy)]
pub struct Listening<'a> {
    gaps: &'a [Gap],
    most: Moment,
    /// A moment too early is nothing to a group, and all the difference to a host that cannot be heard any more.
    of_groups: Moment,
    now: Moment,
    /// How often hosts are heard, seconds.
    pub(crate) heard_every: u32,
}

impl Listening<'_> {
    /// When so many seconds that count have passed since `moment`; no gap moves what was over before it.
    pub fn after(&self, moment: Moment, seconds: u32) -> Moment {
        let mut end = moment.after(seconds);
        for gap in self.gaps {
            if gap.from >= end {
                break;
            }
            end = end.after(gap.to.since(gap.from.max(moment)));
        }
        end
    }

    /// Whether `end` is over for a host.
    pub(crate) fn has_passed(&self, end: Moment) -> bool {
        self.most > end
    }

    /// Whether more than so many seconds that count have passed since a host did something at `moment`.
    pub fn is_over(&self, moment: Moment, seconds: u32) -> bool {
        // Gaps only make it later: most hosts need no look at them.
        self.has_passed(moment.after(seconds)) && self.has_passed(self.after(moment, seconds))
    }

    /// Whether so many seconds that count may have passed by now since a host did something at `moment`.
    pub(crate) fn is_past(&self, moment: Moment, seconds: u32) -> bool {
        self.now > moment.after(seconds) && self.now > self.after(moment, seconds)
    }

    /// When a group has waited for so many hours since `from`: at the earliest, where the clock stands.
    pub(crate) fn end_of_wait(&self, from: Timestamp, hours: u32) -> Timestamp {
        let end = self.after(Moment::of(from), hours.saturating_mul(3_600));
        end.after(self.now.since(self.of_groups)).time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Moment {
        Moment::of(time(second))
    }

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn gap(from: i64, to: i64) -> Gap {
        Gap { from: at(from), to: at(to) }
    }

    /// A step each minute from `from` on, in which hosts were seen as `heard` says.
    fn steps(clock: &mut ListeningClock, from: i64, to: i64, heard: impl Fn(i64) -> Vec<i64>) {
        for now in (from..=to).step_by(60) {
            let last = (now > from).then(|| time(now - 60));
            clock.step(heard(now).into_iter().map(at), last, 600, time(now));
        }
    }

    /// When each of ten hosts was seen last that ask each ten minutes, a minute apart.
    fn ten(now: i64) -> Vec<i64> {
        (0..10).map(|host| now - (now - host * 60).rem_euclid(600)).collect()
    }

    #[test]
    fn time_passes_only_while_hosts_are_heard() {
        let clock = ListeningClock {
            gaps: vec![gap(1_000, 5_000), gap(6_000, 7_000)],
            most: Some(at(9_060)),
            ..ListeningClock::default()
        };
        let listening = clock.at(time(9_060));
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
    fn the_clock_stands_while_most_of_those_are_silent_that_were_heard() {
        let begin = 60_000;
        for (silent, stands) in [(10, true), (6, true), (5, false), (1, false), (0, false)] {
            let mut clock = ListeningClock::default();
            let cut = begin + 3_600;
            let heard = |now: i64| {
                let of = |(host, at): (usize, i64)| if host < silent { ten(now.min(cut))[host] } else { at };
                ten(now).into_iter().enumerate().map(of).collect::<Vec<_>>()
            };
            steps(&mut clock, begin, cut + 7_200, heard);
            let now = time(cut + 7_200);
            assert_eq!(clock.silent_since(now).is_some(), stands, "{silent} of ten are silent");
            let listening = clock.at(now);
            assert_eq!(listening.is_over(at(cut), 60), !stands, "{silent} of ten are silent: {clock:?}");
        }
    }

    #[test]
    fn a_night_in_which_hosts_go_one_after_the_other_is_no_outage() {
        let mut clock = ListeningClock::default();
        // One of ten goes each half hour.
        let heard = |now: i64| {
            let of = |(host, at): (usize, i64)| at.min(60_000 + i64::try_from(host).unwrap() * 1_800);
            ten(now).into_iter().enumerate().skip(1).map(of).collect::<Vec<_>>()
        };
        steps(&mut clock, 60_000, 60_000 + 8 * 1_800, heard);
        assert!(clock.gaps.is_empty() && clock.silent_since(time(60_000 + 8 * 1_800)).is_none(), "{clock:?}");
    }

    #[test]
    fn what_comes_after_a_silence_has_its_occasion_first() {
        let mut clock = ListeningClock::default();
        let (cut, back) = (63_600, 63_600 + 7_200);
        let heard = |now: i64| if (cut..back).contains(&now) { ten(cut) } else { ten(now) };
        steps(&mut clock, 60_000, back + 1_800, heard);
        let [only] = clock.gaps[..] else { panic!("{clock:?}") };
        assert!(only.from <= at(cut) && only.to >= at(back + 600), "{only:?}");
    }

    #[test]
    fn a_server_that_starts_or_steps_late_has_heard_nobody_meanwhile() {
        let mut clock = ListeningClock::default();
        clock.start(time(1_000), time(1_010));
        assert_eq!(clock.gaps, [gap(1_000, 1_610)], "however short");
        let mut clock = ListeningClock::default();
        for (last, now) in [(1_000, 1_120), (1_120, 1_241)] {
            clock.step([at(now)].into_iter(), Some(time(last)), 600, time(now));
        }
        assert_eq!(clock.gaps, [gap(1_120, 1_841)]);
    }

    #[test]
    fn where_nobody_is_waited_for_the_clock_goes_on() {
        let mut clock = ListeningClock::default();
        steps(&mut clock, 1_000, 100_000, |_| Vec::new());
        assert!(clock.gaps.is_empty() && clock.silent_since(time(100_000)).is_none());
        assert!(clock.at(time(99_940)).is_over(at(1_000), 90_000));
    }

    #[test]
    fn gaps_are_bounded() {
        let mut clock = ListeningClock::default();
        for number in 0..40 {
            clock.start(time(1_000 + number * 2_000), time(1_010 + number * 2_000));
        }
        assert_eq!(clock.gaps.len(), MOST);
        assert_eq!(clock.gaps.first().map(|gap| gap.from), Some(at(1_000)));
        assert_eq!(clock.gaps.last(), Some(&gap(79_000, 79_610)));
        clock.step([].into_iter(), None, 600, time(79_000 + 31 * 86_400));
        assert!(clock.gaps.is_empty());
    }
}
