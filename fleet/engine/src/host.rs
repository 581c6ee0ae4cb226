//! One host, as far as it is known.

pub use protocol::report::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::Choice;
use crate::moment::Moment;
use crate::names::Name;
use crate::said::Said;

/// A host's UUID as a number.
pub type HostId = u128;

/// The number of an arrival, counted from 1. Five bytes: a million hosts that arrive anew each minute have room for two years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ArrivalNumber([u8; 5]);

impl ArrivalNumber {
    /// The number; what has no room is the highest.
    pub fn of(number: u64) -> Self {
        let [.., a, b, c, d, e] = number.min((1 << 40) - 1).to_be_bytes();
        Self([a, b, c, d, e])
    }

    /// The number.
    pub fn get(self) -> u64 {
        let Self([a, b, c, d, e]) = self;
        u64::from_be_bytes([0, 0, 0, a, b, c, d, e])
    }
}

/// That a host is enrolled: it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnrolmentMark {
    /// Its place among all arrivals then.
    pub at: ArrivalNumber,
    /// Nobody but itself says who it is: it enrolled where anybody may. What it reports sends nobody back.
    pub is_unproven: bool,
}

impl EnrolmentMark {
    /// Somebody vouches for it.
    pub(crate) fn at(number: u64) -> Self {
        Self { at: ArrivalNumber::of(number), is_unproven: false }
    }
}

/// A UUID as it is written.
pub fn uuid(id: HostId) -> String {
    let hex = format!("{id:032x}");
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}

/// The number of a UUID as [`uuid`] writes it.
pub(crate) fn uuid_of(text: &str) -> Option<u128> {
    let number = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    (uuid(number) == text).then_some(number)
}

/// A host's last change, as it reported it. A record has it with texts, a host with their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "Text: Serialize + Default + PartialEq"))]
pub struct Last<Text = Name> {
    /// What became of it.
    pub outcome: Outcome,
    /// The version that it was to.
    pub to: Text,
    /// The code of its error; none: it had none.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub code: Text,
    /// When it was seen.
    pub at: Moment,
    /// Its error is one of [`protocol::report::code::OF_THE_WAY`]; a record has its code alone.
    #[serde(skip)]
    pub is_of_the_way: bool,
}

/// A version that is not good on a host. It stays so, whatever is tried after it, until the host runs that version. With texts
/// or names, as [`Last`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "Text: Serialize + Default + PartialEq"))]
pub struct HostFailure<Text = Name> {
    /// The version.
    pub to: Text,
    /// The code of its error; none: it had none.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub code: Text,
    /// When it was first seen: again, where the host was allowed to update since.
    pub at: Moment,
}

/// The label whose value is the host's name, in place of what its kernel says.
pub(crate) const HOSTNAME: &str = "hostname";

/// A host as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub struct NamedHost {
    /// Its UUID.
    #[schemars(extend("format" = "uuid"))]
    pub host: String,
    /// Its name; empty: it has none.
    #[serde(default)]
    pub hostname: String,
}

/// What an operator or the host itself decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Flags {
    /// Its updater is pinned to a version.
    pub pinned: bool,
    /// Its updater is disabled.
    pub disabled: bool,
    /// An operator holds it.
    pub held: bool,
    /// An operator holds the group that it belongs to by name, which the rollout does not have.
    #[serde(skip)]
    pub held_by_group: bool,
    /// Its sub-directive has nothing for it, or a recommendation alone.
    #[serde(skip)]
    pub told_nothing: bool,
}

impl Flags {
    /// Whether the host has no part in any rollout.
    pub(crate) fn excludes(self) -> bool {
        self.pinned || self.disabled || self.told_nothing || self.is_held()
    }

    /// Whether an operator holds the host, or its group.
    pub fn is_held(self) -> bool {
        self.held || self.held_by_group
    }
}

/// What a rollout did to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    /// The number of that rollout; that of another one means nothing.
    pub rollout: u32,
    /// When it was allowed to update, at the last attempt.
    pub told: Moment,
    /// When it reported that it began.
    pub started: Option<Moment>,
    /// When it reported that it had switched.
    pub switched: Option<Moment>,
    /// When it reported that it runs what it was told.
    pub arrived: Option<Moment>,
    /// When it failed by silence, though it was seen again.
    pub lost: Option<Moment>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// Its UUID.
    pub id: HostId,
    /// Its updater's id; 0 where it has none.
    pub update_id: u128,
    /// Its labels, and what it calls itself: see [`crate::fleet::Fleet::labels`] and [`crate::fleet::Fleet::hostname`].
    pub(crate) said: Said,
    /// The group that it declares.
    pub declared: Name,
    /// The group that an operator gave it; none: it is asked for its own.
    pub assigned: Name,
    /// What it runs; none: it does not say.
    pub version: Name,
    /// Pinned, disabled, held.
    pub flags: Flags,
    /// When it was last seen.
    pub heard: Moment,
    /// Its place among all arrivals: a host that was silent, moved, or is let go again arrives anew.
    pub arrival: ArrivalNumber,
    /// Its place among all arrivals when it came to its group.
    pub joined: ArrivalNumber,
    /// It runs a version below the start version of the present rollout.
    pub(crate) is_below_start: bool,
    /// Its place among all arrivals when it was enrolled; `None`: it only asks, and is not counted.
    pub enrolled: Option<EnrolmentMark>,
    /// It has reported since it arrived, so its version is known.
    pub reports: bool,
    /// What came of its updates; `None`: there was none yet.
    pub(crate) history: Option<Box<UpdateHistory>>,
    /// What it was told then was to go back to the start version; else to go to the target. Not in the mark: there is room here.
    pub told_back: bool,
    /// Its place in the order of the present rollout.
    pub key: u64,
    /// Its group in the present rollout.
    pub place: GroupPlace,
    /// Which target of that group it gets.
    pub choice: Choice,
}

/// What came of a host's updates, apart from it: of many hosts there is none. 48 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UpdateHistory {
    pub(crate) last: Option<Last>,
    pub(crate) failure: Option<Box<HostFailure>>,
    pub(crate) mark: Option<Mark>,
}

impl Host {
    /// Its last change.
    pub fn last(&self) -> Option<Last> {
        self.history.as_ref()?.last
    }

    /// What failed on it last.
    pub fn failure(&self) -> Option<HostFailure> {
        self.history.as_ref()?.failure.as_deref().copied()
    }

    /// What a rollout did to it.
    pub fn mark(&self) -> Option<Mark> {
        self.history.as_ref()?.mark
    }

    /// The same, to be changed.
    pub(crate) fn mark_mut(&mut self) -> Option<&mut Mark> {
        self.history.as_mut()?.mark.as_mut()
    }

    pub(crate) fn set_mark(&mut self, mark: Option<Mark>) {
        if self.mark() != mark {
            self.history.get_or_insert_default().mark = mark;
        }
    }

    /// The group that it belongs to by name: an operator's word, else its own.
    pub fn group(&self) -> Name {
        if self.assigned.is_none() { self.declared } else { self.assigned }
    }
}

/// Where a host belongs in a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum GroupPlace {
    /// To the group of this index.
    Group(u8),
    /// To none: RFD 0169's schedule without groups.
    Ungrouped,
    /// To none, and it waits to be assigned.
    #[default]
    Nowhere,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FLEET §11: a million hosts, and everything else, in 256 MiB.
    #[test]
    fn a_host_is_small() {
        let sizes = (size_of::<Host>(), size_of::<UpdateHistory>());
        assert!(sizes.0 <= 96 && sizes.1 <= 48, "{sizes:?} bytes");
    }

    #[test]
    fn the_number_of_an_arrival_has_five_bytes() {
        for number in [0, 1, 255, 256, 1 << 32, (1 << 40) - 1] {
            assert_eq!(ArrivalNumber::of(number).get(), number);
        }
        assert_eq!(ArrivalNumber::of(u64::MAX).get(), (1 << 40) - 1);
        assert!(
            ArrivalNumber::of(255) < ArrivalNumber::of(256) && ArrivalNumber::of(65_535) < ArrivalNumber::of(1 << 20)
        );
    }
}
