//! Shares of a fleet, in whole numbers.

use serde::{Deserialize, Serialize};

/// A whole percentage, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Percent(u8);

impl Percent {
    /// Nobody.
    pub const ZERO: Self = Self(0);
    /// Everybody.
    pub const ALL: Self = Self(100);

    /// `None` above 100.
    pub const fn new(percent: u8) -> Option<Self> {
        if percent <= 100 { Some(Self(percent)) } else { None }
    }

    /// The number, 0 to 100.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// How many of `whole` that are, rounded up; at least 1 above 0 % (FLEET §3, the cap).
    pub fn cap(self, whole: u64) -> u64 {
        let share = u128::from(whole) * u128::from(self.0);
        let rounded = u64::try_from(share.div_ceil(100)).unwrap_or(u64::MAX);
        if self == Self::ZERO { 0 } else { rounded.max(1) }
    }

    /// True when `part` is more than this share of `whole`: exactly as much is not.
    pub fn is_exceeded(self, part: u64, whole: u64) -> bool {
        u128::from(part) * 100 > u128::from(whole) * u128::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_rounded_up_and_moves_at_least_one_host_above_zero() {
        let of = |percent, whole| Percent::new(percent).unwrap().cap(whole);
        assert_eq!([of(10, 3), of(10, 10), of(10, 11), of(100, 7), of(1, 0), of(0, 1000)], [1, 1, 2, 7, 1, 0]);
    }

    #[test]
    fn exactly_the_share_does_not_exceed_it() {
        let ten = Percent::new(10).unwrap();
        assert!(!ten.is_exceeded(1, 10));
        assert!(ten.is_exceeded(2, 10));
        assert!(Percent::ZERO.is_exceeded(1, 1_000_000));
        assert!(!Percent::ALL.is_exceeded(7, 7));
        assert_eq!(Percent::new(101), None);
    }
}
