//! Since when a host is told what it is told: by what it did itself, and not by when its group last changed.

use jiff::Timestamp;

use crate::answer::HostAnswer;
use crate::host::{Host, Outcome};
use crate::moment::Moment;
use crate::reason::Why;
use crate::tally::BY_HAND;

impl HostAnswer {
    /// Since when its reason holds for `host`, whose answer it is; `None`: that is not known. What holds for the group is as old as the
    /// reason says.
    pub fn since(&self, host: Option<&Host>) -> Option<Timestamp> {
        let group = Some(self.reason.since);
        let Some(host) = host else { return group };
        let mark = host.mark().filter(|mark| u64::from(mark.rollout) == self.rollout);
        let updated = || host.last().filter(|last| last.outcome == Outcome::Updated && last.to == host.version);
        let at = match &self.reason.why {
            Why::Updated | Why::WentBack => {
                mark.and_then(|mark| mark.arrived).or_else(|| updated().map(|last| last.at))
            }
            Why::FailedHere { error: Some(code) } if code == BY_HAND => host.last().map(|last| last.at),
            Why::FailedHere { .. } => host.failure().map(|failure| failure.at),
            Why::LetGo | Why::SentBack | Why::TimedOut => return mark.map_or(group, |mark| Some(mark.told.time())),
            // Nobody noted when that began.
            Why::Pinned | Why::HostDisabled | Why::Held | Why::Unassigned => None,
            _ => return group,
        };
        at.map(Moment::time)
    }
}
