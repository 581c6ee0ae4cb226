//! Takes note of what others did with the image since the last look (KUBE §6). Pure.

use crate::hands::Hand;
use crate::plan::AgentLook;
use crate::state::{CONTEST_PERIOD, Contested};

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

/// Takes note of the image that the workload has, where no change of ours is under way.
pub fn account(look: &mut AgentLook<'_>) -> Deed {
    let (present, own, now, state) = (look.present(), look.own(), look.now, &mut look.state);
    if state.attempt.is_some() || present.is_empty() {
        return Deed::None;
    }
    state.set_back.retain(|at| now.duration_since(*at) < CONTEST_PERIOD);
    if state.image == present {
        return Deed::None;
    }
    let before = std::mem::replace(&mut state.image, present.to_owned());
    let was_ours = std::mem::take(&mut state.is_written);
    let (Some(left), Some(owner)) = (look.agent.version(&before), &look.owner) else { return Deed::None };
    let manager = owner.manager.clone();
    if owner.hand == Hand::Person {
        if !own.is_some_and(|own| own.precedes(&left)) {
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
