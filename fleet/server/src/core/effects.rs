//! What a change does to the fleet: asked before it is made, and told with it.

use fleet_engine::book::RolloutState;
use fleet_engine::fleet::Fleet;
use fleet_engine::rollout::State;
use fleet_engine::tally::TallyContext;
use fleet_wire::api::Effects;
use jiff::Timestamp;
use protocol::Version;

/// What every host is told by a book: the version, where it is told to update.
pub(super) fn told(book: &RolloutState, fleet: &Fleet, now: Timestamp) -> Vec<Option<Version>> {
    let mut told = Vec::with_capacity(fleet.hosts().len());
    book.verdicts(fleet, now, |_, answer| told.push(answer.update.then(|| answer.version.clone())));
    told.resize(fleet.hosts().len(), None);
    told
}

/// The difference between what hosts were told and what they are told by `book`.
pub(super) fn of(before: &[Option<Version>], book: &RolloutState, fleet: &Fleet, now: Timestamp) -> Effects {
    let mut effects = Effects::default();
    let target = book.target.as_ref().map(|target| &target.target);
    for ((host, before), after) in fleet.hosts().iter().zip(before).zip(told(book, fleet, now)) {
        let runs = fleet.names.text(host.version);
        let Some(after) = after else {
            // Of one that is there already a stop takes nothing.
            effects.stops += u64::from(before.as_ref().is_some_and(|before| before.to_string() != runs));
            continue;
        };
        if before.as_ref() == Some(&after) {
            continue;
        }
        // One that is on its way to the target goes back, though it runs another version yet.
        let turns_round = book.rollout.as_ref().is_some_and(|rollout| {
            let group = rollout.group(host.place).filter(|group| group.state == State::RolledBack);
            group.is_some_and(|group| TallyContext::new(rollout, group, fleet, now).goes_the_other_way(host))
        });
        if runs == after.to_string() && !turns_round {
            continue;
        }
        effects.lets_go += 1;
        let is_above = |version: &Version| after.precedes(version);
        if runs.parse().is_ok_and(|runs| is_above(&runs)) || (turns_round && target.is_some_and(is_above)) {
            effects.goes_down += 1;
        }
    }
    effects.halted_before = book.target.as_ref().is_some_and(|target| book.halted.contains(&target.target));
    effects
}
