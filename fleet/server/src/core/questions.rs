//! Questions, as the core takes notice of them, and whom it forgets.

use std::collections::HashSet;

use fleet_engine::host::{Host, HostId};
use fleet_engine::moment::Moment;
use fleet_engine::tally::DEPARTED_AFTER;
use jiff::{SignedDuration, Timestamp};

use super::inbox::InboxItem;
use super::snapshot::HostContact;
use super::tx::Ledger;

/// Most hosts that only ask, where fewer are enrolled (FLEET §5).
const MOST_ASKING: usize = 100_000;
/// A surplus of one in so many is taken away at once, so that not each newcomer costs a walk through all.
const FORGET_SHARE: usize = 50;
/// How long a key waits for an admin: over a week's absence. Who still reports by it then waits anew.
const WAITS_FOR: SignedDuration = SignedDuration::from_hours(10 * 24);
/// Most of what hosts said that waits for a turn; of further questions their hosts tell again.
const MOST_HEARD: usize = 65_536;

impl Ledger {
    /// Keeps questions until this server has its turn.
    pub(super) fn hear_questions(&mut self, questions: impl Iterator<Item = HostContact>) {
        if self.store().is_err() {
            questions.for_each(drop);
            return;
        }
        for question in questions {
            if self.inbox.len() < MOST_HEARD {
                self.inbox.push(InboxItem::Question(question));
            } else if let Some(host) = question.question.host {
                self.snapshot.tell_again_of(host);
            }
        }
        if self.inbox.len() > 0 {
            self.times.flush_soon();
        }
    }

    /// Takes notice of them in a turn.
    pub(super) fn take_questions(&mut self, questions: &mut Vec<HostContact>) {
        let heard = self.record_questions(questions.drain(..));
        self.unpublished.extend(heard);
    }

    /// Takes notice of questions. Where the store is gone, what is known may have half of a decision that failed: nothing of it is
    /// answered, and hosts are asked to tell again when the store is back. Gives the hosts to publish.
    pub(super) fn record_questions(&mut self, questions: impl Iterator<Item = HostContact>) -> Vec<HostId> {
        if self.store().is_err() {
            questions.for_each(drop);
            return Vec::new();
        }
        let known = self.state.fleet.hosts().len();
        let mut heard: Vec<HostId> = questions.filter_map(|contact| self.record_question(contact)).collect();
        if heard.is_empty() {
            return heard;
        }
        self.times.flush_soon();
        let is_any_new = self.state.fleet.hosts().len() > known;
        if is_any_new {
            self.forget_surplus();
        }
        // What a host reported is answered from when it is durable.
        let reported: HashSet<HostId> = self.reported().into_iter().map(|(host, _)| host).collect();
        heard.retain(|id| !reported.contains(id));
        if is_any_new {
            self.times.step_soon();
        }
        heard
    }

    /// The host that a question is noted of.
    fn record_question(&mut self, contact: HostContact) -> Option<HostId> {
        let HostContact { question, at, told, signed } = contact;
        let Ledger { state, snapshot, .. } = &mut *self;
        // An updater of today names itself by its update id alone.
        let is_so = |host: &&Host| {
            host.id == question.update_id
                || question.group.is_empty()
                || state.fleet.names.text(host.declared) == question.group
        };
        let by_update_id = || state.fleet.by_update_id(question.update_id).filter(is_so).map(|host| host.id);
        let id = question.host.or_else(by_update_id).unwrap_or(question.update_id);
        // Nobody speaks in another one's name, and who may not enrol by himself is nobody yet.
        if !state.enrolments.takes_question(id, signed) || !state.may_meet(id) {
            // What was sent once before keeps nobody from being heard.
            snapshot.tell_again_of(id);
            return None;
        }
        let group = Some(question.group.as_str()).filter(|group| !group.is_empty() && state.may_keep(group));
        let rollout = state.rollouts.rollout.as_ref();
        state.fleet.question(id, group, question.update_id, rollout, at);
        // An answer of a rollout that is over is no mark in the next one.
        if let (Some(told), Some(rollout)) = (told, rollout)
            && told.rollout == rollout.number
        {
            state.fleet.tell(id, rollout, told.back, at);
        }
        Some(id)
    }

    /// Of hosts that only ask there are at most as many as there are enrolled ones, and 100,000: whoever asked longest ago goes,
    /// those that were not allowed to update before those that were (FLEET §5). Of whom somebody decided something stays.
    fn forget_surplus(&mut self) {
        let Ledger { state, .. } = &*self;
        let number = state.rollouts.rollout.as_ref().map_or(0, |rollout| rollout.number);
        let rank = |host: &Host| {
            let was_told = host.mark().is_some_and(|mark| u64::from(mark.rollout) == number);
            is_stranger(host).then_some((was_told, host.heard))
        };
        let mut ranks: Vec<_> = state.fleet.hosts().iter().filter_map(rank).collect();
        let most = MOST_ASKING.max(state.fleet.hosts().len() - ranks.len());
        if ranks.len() <= most {
            return;
        }
        let surplus = ranks.len() - most + most / FORGET_SHARE;
        let (_, last, _) = ranks.select_nth_unstable(surplus.saturating_sub(1).min(most));
        let last = *last;
        let left = std::cell::Cell::new(surplus);
        self.forget(|host| {
            let goes = left.get() > 0 && rank(host).is_some_and(|rank| rank <= last);
            left.set(left.get() - usize::from(goes));
            goes
        });
        tracing::warn!(count = surplus - left.get(), "more hosts ask than can be remembered: the oldest are forgotten");
    }

    /// Forgets hosts that asked long before `now`, and keys that wait since long. Where hosts enrol by token or approval nobody only
    /// asks. Of whom somebody decided something stays.
    pub(super) fn forget_strangers(&mut self, now: Timestamp) {
        let Ledger { state, .. } = &mut *self;
        state.enrolments.drop_waiting(|since| now.duration_since(since) >= WAITS_FOR);
        let is_old = |host: &Host| state.fleet.terms.is_proven || Moment::of(now).since(host.heard) >= DEPARTED_AFTER;
        let goes = |host: &&Host| is_stranger(host) && is_old(host) && state.enrolments.waits(host.id).is_none();
        let gone: HashSet<HostId> = state.fleet.hosts().iter().filter(goes).map(|host| host.id).collect();
        if !gone.is_empty() {
            self.forget(|host| gone.contains(&host.id));
        }
    }
}

/// It only asks, and nobody decided anything on it.
fn is_stranger(host: &Host) -> bool {
    host.enrolled.is_none() && !host.flags.held && host.assigned.is_none()
}
