//! From a decision to the snapshot: every host's answer.

use std::collections::HashMap;
use std::sync::Arc;

use fleet_engine::answer::{HostAnswer, Question};
use fleet_engine::fleet::Fleet;
use fleet_engine::host::{Host, HostId};
use fleet_engine::reason::Why;
use fleet_engine::rollout_state::RolloutState;
use jiff::Timestamp;

use super::CoreState;
use super::enrolments::KeyMark;
use super::host_table::{HostTable, Slot, name_of};
use super::snapshot::{AnswerTable, Snapshot};

/// Answers, each kept once.
#[derive(Default)]
struct Answers {
    list: Vec<HostAnswer>,
    /// Where those of a group begin to look: there are few of a group.
    by_group: HashMap<String, Vec<usize>>,
}

impl Answers {
    fn of(list: &[HostAnswer]) -> Self {
        let mut answers = Self::default();
        for answer in list {
            answers.add(answer.clone());
        }
        answers
    }

    fn keep(&mut self, answer: &HostAnswer) -> usize {
        let known = self.by_group.get(&answer.group).into_iter().flatten();
        let found = known.copied().find(|index| self.list.get(*index).is_some_and(|known| is_same(known, answer)));
        found.unwrap_or_else(|| self.add(answer.clone()))
    }

    fn add(&mut self, mut answer: HostAnswer) -> usize {
        if let Why::FailedHere { error } = &mut answer.reason.why {
            *error = None;
        }
        let index = self.list.len();
        self.by_group.entry(answer.group.clone()).or_default().push(index);
        self.list.push(answer);
        index
    }
}

/// Whether a stranger is told the same: he is told a code alone, and hosts' own codes of errors would make a table without an end.
fn is_same(known: &HostAnswer, answer: &HostAnswer) -> bool {
    match (&known.reason.why, &answer.reason.why) {
        (Why::FailedHere { .. }, Why::FailedHere { .. }) => {
            let told = |answer: &HostAnswer| (answer.update, answer.rollout, answer.attempt, answer.reason.until);
            told(known) == told(answer) && known.version == answer.version
        }
        _ => known == answer,
    }
}

/// Publishes what is decided for every host at `now`, as decision `generation`.
pub(super) fn all(snapshot: &Snapshot, CoreState { rollouts, fleet, .. }: &CoreState, generation: u32, now: Timestamp) {
    let mut answers = Answers::default();
    let mut answer = |question: &Question| rollouts.answer(fleet, question, now).map(|answer| answers.keep(&answer));
    let Some(elsewhere) = answer(&Question::default()) else {
        snapshot.publish(None);
        return;
    };
    let groups = rollouts.rollout.iter().flat_map(|rollout| &rollout.groups).map(|group| &group.policy.name);
    // A group that is held is, or decides who is, though the rollout may not have it.
    let groups = groups.chain(rollouts.holds.names());
    let unknown = groups
        .filter_map(|name| Some((name.clone(), answer(&Question { group: name.clone(), ..Question::default() })?)))
        .collect();
    let mut words: Vec<u32> = Vec::with_capacity(fleet.hosts().len());
    rollouts.verdicts(fleet, now, |_, answer| words.push(u32::try_from(answers.keep(answer)).unwrap_or(u32::MAX)));
    let before = snapshot.table().map(|table| Arc::new(AnswerTable { before: None, ..AnswerTable::clone(&table) }));
    snapshot.publish(Some(AnswerTable { generation, answers: answers.list, unknown, elsewhere, before }));
    meet(snapshot, fleet.hosts().iter().enumerate());
    let hosts = snapshot.hosts();
    // One look at each: with a million hosts that is most of a decision's time.
    for (place, (host, answer)) in fleet.hosts().iter().zip(words).enumerate() {
        if let Some(slot) = hosts.get_near(place, host.id) {
            know(slot, rollouts, fleet, host);
            slot.set(generation, answer as usize);
        }
    }
}

/// Publishes what these hosts are answered; everybody else's answer is as before.
pub(super) fn some(snapshot: &Snapshot, state: &CoreState, ids: &[HostId]) {
    let Some(table) = snapshot.table() else { return };
    let (CoreState { rollouts, fleet, .. }, now) = (state, state.now());
    let mut answers = Answers::of(&table.answers);
    let hosts: Vec<&Host> = ids.iter().filter_map(|id| fleet.host(*id)).collect();
    let words: Vec<Option<usize>> =
        hosts.iter().map(|host| rollouts.answer(fleet, &of(host), now).map(|answer| answers.keep(&answer))).collect();
    if answers.list.len() > table.answers.len() {
        snapshot.publish(Some(AnswerTable { answers: answers.list, ..AnswerTable::clone(&table) }));
    }
    meet(snapshot, hosts.iter().copied().map(|host| (usize::MAX, host)));
    let slots = snapshot.hosts();
    for (host, answer) in hosts.into_iter().zip(words) {
        let Some(slot) = slots.get(host.id) else { continue };
        know(slot, rollouts, fleet, host);
        if let Some(answer) = answer {
            slot.set(table.generation, answer);
        }
    }
}

/// Notes the keys of hosts. Gives whether each of them has a slot.
pub(super) fn keys(snapshot: &Snapshot, keys: impl IntoIterator<Item = (HostId, KeyMark)>) -> bool {
    let (hosts, mut is_each) = (snapshot.hosts(), true);
    for (host, key) in keys {
        match hosts.get(host) {
            Some(slot) => slot.set_key(key),
            None => is_each = false,
        }
    }
    is_each
}

/// Forgets hosts: they are answered as strangers.
pub(super) fn forget(snapshot: &Snapshot, gone: &[HostId]) {
    snapshot.set_hosts(snapshot.hosts().without(gone));
}

/// Gives slots to those of the `hosts` that have none; before each, where it is looked for first.
fn meet<'a>(snapshot: &Snapshot, hosts: impl Iterator<Item = (usize, &'a Host)> + Clone) {
    let known = snapshot.hosts();
    // Slots are shared: from the first change until the table is published, readers see it without its index.
    let missing = hosts.filter(|(place, host)| !known.knows(*place, host.id, host.update_id)).map(|(_, host)| host);
    // Counted first: a list of a million that is dropped at once stays in memory.
    let count = missing.clone().count();
    if count == 0 {
        return;
    }
    let mut next = HostTable::clone(&known);
    next.reserve(count);
    missing.for_each(|host| next.meet(host.id, host.update_id));
    snapshot.set_hosts(next);
}

/// Notes what of a host decides whether the group that a question names counts.
fn know(slot: &Slot, rollouts: &RolloutState, fleet: &Fleet, host: &Host) {
    let number = rollouts.rollout.as_ref().map_or(0, |rollout| rollout.number);
    let was_told = host.mark().is_some_and(|mark| u64::from(mark.rollout) == number);
    let is_bound = host.reports || !host.assigned.is_none() || was_told;
    slot.know(name_of(fleet.names.text(host.declared)), is_bound);
}

fn of(host: &Host) -> Question {
    Question { host: Some(host.id), ..Question::default() }
}
