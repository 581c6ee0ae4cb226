//! What a change does to the fleet: asked before it is made, and told with it.

use fleet_api::Effects;
use fleet_engine::answer::{Answer, Question};
use fleet_engine::book::Book;
use fleet_engine::fleet::Fleet;
use fleet_engine::host::Host;
use jiff::Timestamp;
use protocol::Version;

/// What every host is told by a book: the version, where it is told to update.
pub(super) fn told(book: &Book, fleet: &Fleet, now: Timestamp) -> Vec<Option<Version>> {
    let question = |host: &Host| Question { host: Some(host.id), ..Question::default() };
    let update = |answer: Answer| answer.update.then_some(answer.version);
    fleet.hosts().iter().map(|host| book.answer(fleet, &question(host), now).and_then(update)).collect()
}

/// The difference between what hosts were told and what they are told by `book`.
pub(super) fn of(before: &[Option<Version>], book: &Book, fleet: &Fleet, now: Timestamp) -> Effects {
    let mut effects = Effects::default();
    for ((host, before), after) in fleet.hosts().iter().zip(before).zip(told(book, fleet, now)) {
        let Some(after) = after.filter(|after| before.as_ref() != Some(after)) else { continue };
        let runs = fleet.names.text(host.version);
        if runs == after.to_string() {
            continue;
        }
        effects.lets_go += 1;
        if runs.parse().is_ok_and(|runs: Version| after.precedes(&runs)) {
            effects.goes_down += 1;
        }
    }
    effects.halted_before = book.target.as_ref().is_some_and(|target| book.halted.contains(&target.target));
    effects
}
