//! Takes note of what others did with the image since the last look (KUBE §6). Pure.

use crate::hands::{FieldOwner, Hand};
use crate::plan::AgentLook;
use crate::state::{CONTEST_PERIOD, Contested};

/// After so many set-backs within [`CONTEST_PERIOD`] this program writes no more.
const MOST_SET_BACK: usize = 3;

/// Takes note of the image that the workload has, where no change of ours is under way. Gives what somebody did to it, if that
/// matters: the code, and a sentence.
pub fn account(look: &mut AgentLook<'_>) -> Option<(&'static str, String)> {
    let (present, own, now, remedy) = (look.present(), look.own(), look.now, look.remedy());
    let state = &mut look.state;
    if state.attempt.is_some() || present.is_empty() {
        return None;
    }
    state.set_back.retain(|at| now.duration_since(*at) < CONTEST_PERIOD);
    if state.image == present {
        return None;
    }
    let before = std::mem::replace(&mut state.image, present.to_owned());
    let was_ours = std::mem::take(&mut state.is_written);
    let (left, FieldOwner { hand, manager, .. }) = (look.agent.version(&before)?, look.owner.as_ref()?);
    match hand {
        // To an older version: that is obeyed.
        Hand::Person if own.is_some_and(|own| own.precedes(&left)) => {
            state.obey(left.clone(), format!("{manager} went back from {left} by hand"), now);
            state.wish = None;
            let until = "it is not installed again until `release` or a new target";
            Some(("set_back_by_hand", format!("{manager} went back from {left}; {until}")))
        }
        Hand::Tool if was_ours => {
            state.set_back.push(now);
            if state.set_back.len() < MOST_SET_BACK {
                return Some(("set_back", format!("{manager} replaced {left}{remedy}")));
            }
            let what = format!("{manager} replaced {left} {MOST_SET_BACK} times within 24 hours");
            state.contested = Some(Contested { version: left, by: manager.clone(), since: now });
            Some(("contested", format!("{what}: nothing more is written{remedy}")))
        }
        _ => None,
    }
}
