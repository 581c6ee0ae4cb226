//! Made-up hosts: who they are, what is drawn for each, and when each does something next. Drawn from the seed, and alike on
//! every machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fleet_engine::host::HostId;
use fleet_wire::answers::ids;
use jiff::{SignedDuration, Timestamp};

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Draw(u64);

impl Draw {
    /// On whom the target fails.
    pub(crate) const BAD: Self = Self(1);
    /// Who never comes back.
    pub(crate) const VANISHES: Self = Self(2);
    /// When a host asks.
    pub(crate) const ASKS: Self = Self(3);
    /// Which labels it has.
    pub(crate) const LABELS: Self = Self(4);
    /// How long it waits before it updates.
    pub(crate) const JITTER: Self = Self(5);

    /// Who is part of a cut.
    pub(crate) fn cut(nth: u32) -> Self {
        Self(16 + u64::from(nth))
    }
}

/// What a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostAct {
    /// Asks.
    Ask,
    /// Downloads, and reports that it began.
    Start,
    /// Reports so, later than it could.
    ReportStart,
    /// Reports that it switched.
    Switch,
    /// Comes to its outcome.
    End,
    /// Breaks after it was updated.
    Break,
}

/// All hosts, and what each does next.
#[derive(Debug, Clone)]
pub(crate) struct Crowd<Member> {
    pub(crate) members: Vec<Member>,
    seed: u64,
    /// When, in which order among equals, who, what.
    acts: BinaryHeap<Reverse<(Timestamp, u64, usize, HostAct)>>,
    planned: u64,
}

impl<Member> Crowd<Member> {
    /// These hosts, who do nothing yet.
    pub(crate) fn new(seed: u64, members: Vec<Member>) -> Self {
        Self { members, seed, acts: BinaryHeap::new(), planned: 0 }
    }

    /// Changes what is known of a host.
    pub(crate) fn change(&mut self, who: usize, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.members.get_mut(who) {
            change(member);
        }
    }

    /// When a host asks, after the beginning of each interval of so many seconds.
    pub(crate) fn turn(&self, who: usize, every: u64) -> SignedDuration {
        below(lot(self.seed, Draw::ASKS, who), every)
    }

    /// The random wait of a host.
    pub(crate) fn jitter(&self, who: usize, rollout: u64, longest: u32) -> SignedDuration {
        below(lot(self.seed ^ rollout, Draw::JITTER, who), longest.into())
    }

    /// Plans what a host does.
    pub(crate) fn plan(&mut self, who: usize, does: HostAct, at: Timestamp) {
        self.planned += 1;
        self.acts.push(Reverse((at, self.planned, who, does)));
    }

    /// When somebody does something next.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.acts.peek().map(|Reverse((at, ..))| *at)
    }

    /// What is due first.
    pub(crate) fn take(&mut self) -> Option<(Timestamp, usize, HostAct)> {
        self.acts.pop().map(|Reverse((at, _, who, does))| (at, who, does))
    }
}

/// Seconds below so many.
fn below(lot: u64, seconds: u64) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(lot % seconds.max(1)).unwrap_or(0))
}

/// The UUID of a host.
pub(crate) fn id(seed: u64, number: usize) -> HostId {
    ids::made(&[b"forecast", &seed.to_be_bytes(), &number.to_be_bytes()])
}

/// A number that only seed, purpose and host give (SplitMix64).
pub(crate) fn lot(seed: u64, Draw(what): Draw, number: usize) -> u64 {
    let number = u64::try_from(number).unwrap_or(u64::MAX);
    mixed(mixed(mixed(seed) ^ what) ^ number)
}

/// Of `among`, those `count` that have the lowest lots.
pub(crate) fn drawn(seed: u64, what: Draw, among: &[usize], count: usize) -> Vec<usize> {
    let mut lots: Vec<(u64, usize)> = among.iter().map(|number| (lot(seed, what, *number), *number)).collect();
    if let Some(last) = count.checked_sub(1).filter(|last| *last < lots.len()) {
        lots.select_nth_unstable(last);
    }
    lots.into_iter().take(count).map(|(_, number)| number).collect()
}

fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of SplitMix64 seeded with 1234567, as its authors' reference code prints them: the seed of the n-th
    /// is that of the first plus n times the golden gamma.
    #[test]
    fn lots_are_those_of_splitmix64() {
        let outputs = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for (nth, output) in (0_u64..).zip(outputs) {
            assert_eq!(mixed(1_234_567_u64.wrapping_add(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15))), output);
        }
    }

    #[test]
    fn as_many_are_drawn_as_were_asked_for_and_each_once() {
        let all: Vec<usize> = (0..100).collect();
        for (count, wanted) in [(0, 0), (7, 7), (100, 100), (200, 100)] {
            let mut drawn = drawn(1, Draw::BAD, &all, count);
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), wanted);
        }
        assert_ne!(drawn(1, Draw::BAD, &all, 7), drawn(2, Draw::BAD, &all, 7));
    }
}
