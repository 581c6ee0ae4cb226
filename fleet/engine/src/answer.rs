//! What a host is told, and why.

use jiff::Timestamp;
use protocol::Version;
use serde::{Deserialize, Serialize};

use crate::book::Book;
use crate::fleet::Fleet;
use crate::host::{Host, HostId, Place};
use crate::policy::{Mode, Schedule, Strategy};
use crate::reason::{Reason, Why};
use crate::rollout::{GroupStatus, Rollout, State};
use crate::step::{gate, reasons};
use crate::tally::{HostState, Look};

/// What a host is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The version to install, and to update to where `update` is true.
    pub version: Version,
    /// Whether to update now.
    pub update: bool,
    /// Longest random wait before that, seconds.
    pub jitter: u32,
    /// The number of the rollout; 0: there is none.
    pub rollout: u64,
    /// The attempt of the host's group.
    pub attempt: u32,
    /// The group; empty: none.
    pub group: String,
    /// Why.
    pub reason: Reason,
}

/// Who asks.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Its UUID, where it gives one.
    pub host: Option<HostId>,
    /// The group that it declares; empty: none.
    pub group: String,
    /// Its updater's id; 0: none.
    pub update_id: u128,
}

impl Book {
    /// What `question` is answered at `now`; `None` where no rollout ever named a version. Nothing changes by it.
    pub fn answer(&self, fleet: &Fleet, question: &Question, now: Timestamp) -> Option<Answer> {
        let Some(rollout) = &self.rollout else {
            let version = self.last_done.clone()?;
            let reason = Reason { why: Why::NoRollout, since: now, until: None };
            return Some(Answer {
                version,
                update: false,
                jitter: 0,
                rollout: 0,
                attempt: 0,
                group: String::new(),
                reason,
            });
        };
        let known = question.host.and_then(|id| fleet.host(id));
        let known =
            known.or_else(|| (question.update_id != 0).then(|| fleet.by_update_id(question.update_id)).flatten());
        // Whoever asks is heard of.
        let heard = known.map(|host| fleet.as_if_heard(host, rollout, now));
        let known = heard.as_deref();
        let place = match known {
            Some(host) => host.place,
            None => rollout.place_of_name(&question.group, &fleet.names),
        };
        let is_held = self.holds.all || self.blocked.is_some();
        Some(rollout.answer(fleet, known, place, is_held, now))
    }

    /// Takes notice of who asks: the host is known from now on.
    pub fn meet(&self, fleet: &mut Fleet, question: &Question, now: Timestamp) -> Option<HostId> {
        let by_update_id =
            || fleet.by_update_id(question.update_id).filter(|_| question.update_id != 0).map(|host| host.id);
        let id = question.host.or_else(by_update_id)?;
        let group = Some(question.group.as_str()).filter(|group| !group.is_empty());
        fleet.question(id, group, question.update_id, self.rollout.as_ref(), now);
        fleet.enrol(id);
        Some(id)
    }

    /// What `question` is answered, as a host's: it is known from now on, and marked where it is told to update.
    pub fn ask(&self, fleet: &mut Fleet, question: &Question, now: Timestamp) -> Option<Answer> {
        let id = self.meet(fleet, question, now);
        let answer = self.answer(fleet, question, now)?;
        if let (Some(rollout), Some(id), true) = (&self.rollout, id, answer.update) {
            fleet.tell(id, rollout, now);
        }
        Some(answer)
    }
}

impl Rollout {
    fn answer(&self, fleet: &Fleet, host: Option<&Host>, place: Place, is_held: bool, now: Timestamp) -> Answer {
        let Some(group) = self.group(place) else {
            return self.answer_without_group(host, place, is_held, now);
        };
        let told = Told::of(self, group, fleet, host, now);
        let version = if told.is_target { &self.target } else { &self.start };
        Answer {
            version: version.clone(),
            update: told.update,
            jitter: group.policy.pace.jitter,
            rollout: self.number,
            attempt: group.attempt,
            group: group.policy.name.clone(),
            reason: told.reason,
        }
    }

    /// RFD 0169's schedule without groups; hosts that belong nowhere stay.
    fn answer_without_group(&self, host: Option<&Host>, place: Place, is_held: bool, now: Timestamp) -> Answer {
        let window = self.ungrouped.as_ref().and_then(|ungrouped| match self.schedule {
            Schedule::Critical => ungrouped.critical.as_ref().or(ungrouped.regular.as_ref()),
            Schedule::Regular | Schedule::Immediate => ungrouped.regular.as_ref(),
        });
        let lifts_window = self.schedule == Schedule::Critical
            && self.ungrouped.as_ref().is_some_and(|ungrouped| ungrouped.critical.is_none());
        let is_open = window.is_some_and(|window| {
            lifts_window
                || (window.opening.is_open(now, gate::WINDOW)
                    && !gate::began_in_window(&window.opening, self.start_time, now, gate::WINDOW))
        });
        let halted = self.groups.iter().find_map(|group| group.halt.as_ref());
        let held = host.is_some_and(|host| host.flags.held);
        let (why, until) = match (self.mode, window) {
            (Mode::Disabled, _) => (Why::Disabled, None),
            (Mode::Suspended, _) => (Why::Suspended, None),
            _ if held || is_held => (Why::Held, None),
            (_, None) => (Why::Unassigned, None),
            _ if place == Place::Nowhere => (Why::Unassigned, None),
            _ if halted.is_some() => (halted.map_or(Why::Held, reasons::halted), None),
            (_, Some(window)) if !is_open => (Why::OutsideWindow, window.opening.next(now)),
            _ => (Why::LetGo, None),
        };
        let update = why == Why::LetGo;
        let version = if update || self.mode == Mode::Disabled { &self.target } else { &self.start };
        Answer {
            version: version.clone(),
            update,
            jitter: window.map_or(0, |window| window.jitter),
            rollout: self.number,
            attempt: 1,
            group: String::new(),
            reason: Reason { why, since: self.start_time, until },
        }
    }
}

/// What a member of a group is told.
struct Told {
    is_target: bool,
    update: bool,
    reason: Reason,
}

impl Told {
    fn of(rollout: &Rollout, group: &GroupStatus, fleet: &Fleet, host: Option<&Host>, now: Timestamp) -> Self {
        let look = Look::new(rollout, group, fleet, now);
        let state = host.map(|host| look.state(host));
        let was_told = host.is_some_and(|host| look.mark(host).is_some());
        let (is_target, update) = group.tells(rollout, &look, host, state, was_told);
        let because = |why: Why| Reason { why, since: group.reason.since, until: None };
        if rollout.mode == Mode::Disabled {
            return Self { is_target: true, update: false, reason: because(Why::Disabled) };
        }
        if rollout.mode == Mode::Suspended {
            return Self { is_target, update: false, reason: because(Why::Suspended) };
        }
        if let Some(host) = host.filter(|host| host.flags.held) {
            let reason = because(Why::Held);
            return Self { is_target: is_target && look.mark(host).is_some(), update: false, reason };
        }
        // A freeze, or the clock, keeps those that were not told yet.
        let closed = reasons::closed(rollout, group, now).filter(|_| update && !was_told);
        if let Some((why, until)) = closed {
            return Self { is_target: false, update: false, reason: Reason { why, since: group.reason.since, until } };
        }
        let reason = match (host, state) {
            (Some(host), Some(HostState::Updated)) if host.version == look.wanted => because(Why::Updated),
            (Some(host), Some(HostState::Excluded)) if host.flags.pinned => because(Why::Pinned),
            (_, Some(HostState::Excluded)) => because(Why::HostDisabled),
            (Some(host), Some(HostState::Failed)) if group.halt.is_none() => {
                let code = host.failure.map(|failure| fleet.names.text(failure.code).to_owned());
                because(Why::FailedHere { error: code.filter(|code| !code.is_empty()) })
            }
            (_, Some(HostState::TimedOut)) if group.halt.is_none() => because(Why::TimedOut),
            _ if update => because(Why::LetGo),
            (Some(host), _) if group.is_capped() && group.state == State::Active && host.arrival.get() > group.pass_to => {
                because(Why::NextPass)
            }
            _ => group.reason.clone(),
        };
        Self { is_target, update, reason }
    }
}

impl GroupStatus {
    /// Whether a host is told the target, and whether to update now, in mode enabled (ROLLOUTS §3.2).
    fn tells(
        &self,
        rollout: &Rollout,
        look: &Look<'_>,
        host: Option<&Host>,
        state: Option<HostState>,
        was_told: bool,
    ) -> (bool, bool) {
        let is_capped = self.is_capped();
        let its_turn = match state {
            // A group without a cap lets everybody go who asks, known or not.
            None => !is_capped && self.state != State::Canary,
            Some(HostState::Told | HostState::LetGo | HostState::Updated) => true,
            Some(HostState::Excluded) => !is_capped && host.is_some_and(|host| look.is_let_go(host)),
            // The host's own back-off decides; in a group with a cap the next attempt does, or the group's end.
            Some(HostState::Failed | HostState::TimedOut) => !is_capped,
            Some(HostState::Silent | HostState::Pending) => false,
        };
        match self.state {
            State::Unstarted => (false, false),
            State::Canary => {
                let is_canary = host.is_some_and(|host| self.is_canary(host.id));
                (is_canary, is_canary)
            }
            State::Active => (its_turn, its_turn),
            State::Done if rollout.strategy == Strategy::TimeBased => (true, false),
            State::Done if self.is_closed => (was_told || state == Some(HostState::Updated), false),
            State::Done => (its_turn, its_turn),
            State::RolledBack => {
                (false, host.is_none_or(|host| look.goes_back(host) && its_turn || host.version == look.wanted))
            }
            State::Halted => (was_told || state == Some(HostState::Updated), false),
        }
    }
}
