//! Takes note of what others did with the image since the last look (KUBE §6). Pure.

use jiff::Timestamp;

use crate::config::KubeAgent;
use crate::hands::{FieldOwner, Hand};
use crate::image;
use crate::state::{CONTEST_PERIOD, Contested, KeptState};

/// After so many set-backs within [`CONTEST_PERIOD`] this program writes no more.
const MOST_SET_BACK: usize = 3;

/// What somebody did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Nothing, or nothing that matters.
    None,
    /// A person went to an older version, which is obeyed.
    Obeyed(String),
    /// A tool replaced what this program had written.
    SetBack(String),
    /// So often that this program stops.
    Contested(String),
}

/// Takes note of `present`, the image that the workload has, where no change of ours is under way.
pub fn account(
    state: &mut KeptState,
    agent: &KubeAgent,
    present: &str,
    owner: Option<&FieldOwner>,
    now: Timestamp,
) -> Deed {
    state.set_back.retain(|at| now.duration_since(*at) < CONTEST_PERIOD);
    if state.image == present {
        return Deed::None;
    }
    let before = std::mem::replace(&mut state.image, present.to_owned());
    let was_ours = std::mem::take(&mut state.is_written);
    let version = |image: &str| image::version(image, agent.tag.as_deref());
    let (Some(left), Some(owner)) = (version(&before), owner) else { return Deed::None };
    let manager = owner.manager.clone();
    if owner.hand == Hand::Person {
        let is_older = version(present).is_some_and(|now| now.precedes(&left));
        if !is_older {
            return Deed::None;
        }
        state.obey(left.clone(), format!("{manager} went back from {left} by hand"), now);
        state.wish = None;
        return Deed::Obeyed(format!(
            "{manager} went back from {left}; it is not installed again until `release` or a new target"
        ));
    }
    if owner.hand != Hand::Tool || !was_ours {
        return Deed::None;
    }
    state.set_back.push(now);
    if state.set_back.len() < MOST_SET_BACK {
        return Deed::SetBack(format!("{manager} replaced {left}"));
    }
    state.contested = Some(Contested { version: left.clone(), by: manager.clone(), since: now });
    Deed::Contested(format!("{manager} replaced {left} {MOST_SET_BACK} times within 24 hours"))
}
