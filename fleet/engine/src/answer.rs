//! What a host is told, and why.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use protocol::Version;
use protocol::installer::InstallerOrder;
use serde::{Deserialize, Serialize};

use crate::fleet::Fleet;
use crate::host::{ArrivalNumber, GroupPlace, Host, HostId, Outcome};
use crate::moment::Moment;
use crate::names::Name;
use crate::policy::{Mode, Schedule, Strategy};
use crate::reason::{WaitReason, Why};
use crate::rollout::{GroupStatus, Halt, Rollout, StartBlock, State};
use crate::rollout_state::RolloutState;
use crate::selection::Choice;
use crate::step::{gate, pace};
use crate::tally::{BY_HAND, HostState, TallyContext};

/// What a host is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAnswer {
    /// The version to install, and to update to where `update` is true.
    pub version: Version,
    /// The rollout's target, where that is another version: it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Version>,
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
    pub reason: WaitReason,
    /// What installs it, where that is not the updater's usual way (DIRECTIVES §4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installer: Option<InstallerOrder>,
    /// What else is known of the version that an installer is told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

impl HostAnswer {
    /// This version, for no rollout and no group, and not to update.
    fn of(version: Version, reason: WaitReason) -> Self {
        let (group, attributes) = (String::new(), BTreeMap::new());
        let (target, update, jitter, rollout, attempt, installer) = (None, false, 0, 0, 0, None);
        Self { version, target, update, jitter, rollout, attempt, group, reason, installer, attributes }
    }

    /// It sends the host back to the start version.
    pub fn goes_back(&self) -> bool {
        matches!(self.reason.why, Why::SentBack | Why::WentBack)
    }

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

    /// With the version that hosts of `rollout` have before their turn. Where that is blocked, whoever `is_new` gets the last good
    /// one, where there is one, and is told why: who updates by the version alone must not go down to it.
    fn with_start(self, (start, target): (&Version, &Version), block: Option<&StartBlock>, is_new: bool) -> Self {
        let block = block.filter(|_| is_new);
        let version = block.and_then(|block| block.instead.as_ref()).unwrap_or(start).clone();
        let target = Some(target.clone()).filter(|target| *target != version);
        let Some(block) = block else { return Self { version, target, ..self } };
        let why = Why::VersionBlocked { reason: block.reason.clone() };
        Self { version, target, update: false, reason: WaitReason { why, until: None, ..self.reason }, ..self }
    }
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

impl RolloutState {
    /// What `question` is answered at `now`; `None` where no rollout ever named a version. Nothing changes by it.
    pub fn answer(&self, fleet: &Fleet, question: &Question, now: Timestamp) -> Option<HostAnswer> {
        let Some(rollout) = &self.rollout else {
            let last = self.last_done.as_ref()?;
            let why = match self.block_of(last) {
                Some(reason) => Why::VersionBlocked { reason: reason.to_owned() },
                None => Why::NoRollout,
            };
            let version = self.last_good().unwrap_or(last).clone();
            return Some(HostAnswer::of(version, WaitReason { why, since: now, until: None }));
        };
        let known = question.host.and_then(|id| fleet.host(id));
        // Who names its host is that host, whatever update id another one has as well.
        let is_by_update_id = question.host.is_none() && question.update_id != 0;
        let known = known.or_else(|| is_by_update_id.then(|| fleet.by_update_id(question.update_id)).flatten());
        let place = match known {
            Some(host) => host.place,
            None => rollout.place_of_name(&question.group, &fleet.names),
        };
        let held = self.held_everywhere();
        // Who is known has it in his flags.
        if known.is_none() && fleet.holds_unknown(&question.group, place) {
            return Some(rollout.answer_held(fleet, place, now));
        }
        Some(rollout.answer(fleet, known, place, held.as_ref(), now))
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

    /// What `question` is answered, as a host's: it is known from now on, and marked where it is allowed to update.
    pub fn ask(&self, fleet: &mut Fleet, question: &Question, now: Timestamp) -> Option<HostAnswer> {
        let id = self.meet(fleet, question, now);
        let answer = self.answer(fleet, question, now)?;
        if let (Some(rollout), Some(id), true) = (&self.rollout, id, answer.update) {
            fleet.tell(id, rollout, answer.goes_back(), now);
        }
        Some(answer)
    }

    /// What each host of the fleet would be answered at `now`, as [`RolloutState::answer`] does with its id: every different answer is
    /// made once. Nothing where no rollout ever named a version. Two looks at a host, and no allocation for it.
    pub fn verdicts(&self, fleet: &Fleet, now: Timestamp, mut each: impl FnMut(&Host, &HostAnswer)) {
        let Some(rollout) = &self.rollout else {
            if let Some(answer) = self.answer(fleet, &Question::default(), now) {
                fleet.hosts().iter().for_each(|host| each(host, &answer));
            }
            return;
        };
        let held = self.held_everywhere();
        let view = |group| (GroupView::new(rollout, group, fleet, now), HashMap::new());
        let mut views: Vec<(GroupView<'_>, HashMap<MemberAnswer, HostAnswer>)> =
            rollout.groups.iter().map(view).collect();
        let mut elsewhere: HashMap<(GroupPlace, bool, bool), HostAnswer> = HashMap::new();
        for host in fleet.hosts() {
            let answer = match rollout.index_of(host.place).and_then(|index| views.get_mut(index)) {
                Some((view, answers)) => {
                    answers.entry(view.verdict_of(host)).or_insert_with_key(|verdict| view.answer(verdict))
                }
                None => elsewhere
                    .entry((host.place, host.flags.is_held(), is_new(Some(host))))
                    .or_insert_with(|| rollout.answer_without_group(Some(host), host.place, held.as_ref(), now)),
            };
            each(host, answer);
        }
    }
}

/// What keeps hosts, and until when.
type Pause = (Why, Option<Timestamp>);

/// A group at one time.
struct GroupView<'a> {
    rollout: &'a Rollout,
    look: TallyContext<'a>,
    fleet: &'a Fleet,
    paused: Option<Pause>,
    stop: Option<Pause>,
}

impl<'a> GroupView<'a> {
    fn new(rollout: &'a Rollout, group: &'a GroupStatus, fleet: &'a Fleet, now: Timestamp) -> Self {
        let look = TallyContext::new(rollout, group, fleet, now);
        let (paused, stop) = (pace::paused(rollout, group, now), rollout.stop(now));
        Self { rollout, look, fleet, paused, stop }
    }

    fn verdict_of(&self, host: &Host) -> MemberAnswer {
        let (mut heard, mut state) = (Cow::Borrowed(host), self.look.state(host));
        if state == HostState::Silent && host.heard < self.look.now {
            // Whoever asks is seen, and arrives anew.
            let arrival = ArrivalNumber::of(self.fleet.arrivals() + 1);
            heard = Cow::Owned(Host { heard: self.look.now, arrival, ..host.clone() });
            state = self.look.state(&heard);
        }
        if state == HostState::LetGo && self.look.is_nearly_silent(host) {
            // Another server may have given its slot away: it waits until this one has its turn, and knows that.
            state = HostState::Silent;
        }
        self.verdict(Some(&heard), Some(state))
    }

    fn verdict(&self, host: Option<&Host>, state: Option<HostState>) -> MemberAnswer {
        let (rollout, group, look) = (self.rollout, self.look.group, &self.look);
        let was_told = host.is_some_and(|host| look.mark(host).is_some());
        let (is_target, update) = group.tells(rollout, look, host, state, was_told);
        let away = host.filter(|host| look.may_be_away(host));
        let (update, is_target) =
            (update && away.is_none(), is_target && away.is_none_or(|away| away.version == look.target(away)));
        let is_new = is_new(host);
        let choice = host.map_or_else(Choice::default, |host| host.choice);
        let stays = |is_target: bool, cause: Cause| MemberAnswer { is_target, update: false, is_new, choice, cause };
        if rollout.mode == Mode::Disabled {
            return stays(true, Cause::Plain(Why::Disabled));
        }
        if self.stop.is_some() {
            return stays(is_target, Cause::Stop);
        }
        if host.is_some_and(|host| host.flags.is_held()) {
            return stays(is_target && was_told, Cause::Plain(Why::Held));
        }
        if let Some(host) = host.filter(|host| host.flags.told_nothing) {
            return stays(false, Cause::Plain(rollout.why_nothing(host, group, &self.fleet.names)));
        }
        // A freeze, or the clock, keeps those that were not told yet.
        if self.paused.is_some() && update && !was_told {
            return stays(false, Cause::Paused);
        }
        let goes_back = group.state == State::RolledBack;
        let cause = match (host, state) {
            (Some(host), Some(HostState::Updated)) if host.version == look.wanted(host) && goes_back => {
                Cause::Plain(Why::WentBack)
            }
            (Some(host), Some(HostState::Updated)) if host.version == look.wanted(host) => Cause::Plain(Why::Updated),
            (Some(host), Some(HostState::Excluded)) if host.flags.pinned => Cause::Plain(Why::Pinned),
            (_, Some(HostState::Excluded)) => Cause::Plain(Why::HostDisabled),
            (Some(host), Some(HostState::Failed)) if group.halt.is_none() => Cause::FailedHere(look.failure_code(host)),
            (_, Some(HostState::TimedOut)) if group.halt.is_none() => Cause::Plain(Why::TimedOut),
            _ if update && goes_back => Cause::Plain(Why::SentBack),
            _ if update => Cause::Plain(Why::LetGo),
            // Who is not known yet arrives with this question.
            _ if group.is_capped()
                && group.state == State::Active
                && host.is_none_or(|host| host.arrival.get() > group.pass_of(host).pass_to) =>
            {
                Cause::Plain(Why::NextPass)
            }
            _ => Cause::Group,
        };
        MemberAnswer { is_target, update, is_new, choice, cause }
    }

    /// The same in words.
    fn answer(&self, verdict: &MemberAnswer) -> HostAnswer {
        let (rollout, group) = (self.rollout, self.look.group);
        let because = |why: Why| WaitReason { why, since: group.reason.since, until: None };
        let until = |found: &Option<Pause>| match found {
            Some((why, until)) => WaitReason { until: *until, ..because(why.clone()) },
            None => group.reason.clone(),
        };
        let reason = match verdict.cause.clone() {
            Cause::Paused => until(&self.paused),
            Cause::Stop => until(&self.stop),
            Cause::Group => group.reason.clone(),
            Cause::Plain(why) => because(why),
            Cause::FailedHere(code) => {
                let error = (!code.is_none()).then(|| self.fleet.names.text(code).to_owned());
                because(Why::FailedHere { error })
            }
        };
        let target = rollout.target_of(group, verdict.choice).unwrap_or(&rollout.target);
        let is_told = verdict.is_target && verdict.update;
        let attributes =
            group.policy.target_of(verdict.choice).filter(|_| is_told).map(|target| target.attributes.clone());
        let answer = HostAnswer {
            update: verdict.update,
            jitter: group.policy.pace.jitter,
            rollout: rollout.number,
            attempt: group.attempt,
            group: group.policy.name.clone(),
            installer: is_told.then(|| group.policy.order_of(verdict.choice, &rollout.rules)).flatten(),
            attributes: attributes.unwrap_or_default(),
            ..HostAnswer::of(target.clone(), reason)
        };
        let block = rollout.start_block_of(group);
        let versions = (rollout.start_of(group), target);
        if verdict.is_target { answer } else { answer.with_start(versions, block.as_ref(), verdict.is_new) }
    }
}

impl Rollout {
    /// What somebody unknown is answered whose group is held, and is none of this rollout: as a host that an operator holds.
    fn answer_held(&self, fleet: &Fleet, place: GroupPlace, now: Timestamp) -> HostAnswer {
        let answer = self.answer(fleet, None, place, Some(&Why::Held), now);
        if !answer.update {
            return answer;
        }
        let reason = WaitReason { why: Why::Held, ..answer.reason };
        let group = self.group(place);
        let start = group.map_or(&self.start, |group| self.start_of(group));
        let target = group.and_then(|group| self.target_of(group, Choice::default())).unwrap_or(&self.target);
        let block = group.map_or_else(|| self.start_block.clone(), |group| self.start_block_of(group));
        HostAnswer { update: false, reason, ..answer }.with_start((start, target), block.as_ref(), true)
    }

    fn answer(
        &self,
        fleet: &Fleet,
        host: Option<&Host>,
        place: GroupPlace,
        stop: Option<&Why>,
        now: Timestamp,
    ) -> HostAnswer {
        let Some(group) = self.group(place) else {
            return self.answer_without_group(host, place, stop, now);
        };
        let view = GroupView::new(self, group, fleet, now);
        view.answer(&host.map_or_else(|| view.verdict(None, None), |host| view.verdict_of(host)))
    }

    /// RFD 0169's schedule without groups; hosts that belong nowhere stay.
    fn answer_without_group(
        &self,
        host: Option<&Host>,
        place: GroupPlace,
        stop: Option<&Why>,
        now: Timestamp,
    ) -> HostAnswer {
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
        let held = host.is_some_and(|host| host.flags.is_held());
        let (why, until) = match (self.stop(now), window) {
            (Some(stop), _) => stop,
            _ if held => (Why::Held, None),
            _ if stop.is_some() => (stop.cloned().unwrap_or(Why::Held), None),
            (_, None) => (Why::Unassigned, None),
            _ if place == GroupPlace::Nowhere => (Why::Unassigned, None),
            _ if halted.is_some() => (halted.map_or(Why::Held, Halt::why), None),
            (_, Some(window)) if !is_open => (Why::OutsideWindow, window.opening.next(now)),
            _ => (Why::LetGo, None),
        };
        let update = why == Why::LetGo;
        let answer = HostAnswer {
            update,
            jitter: window.map_or(0, |window| window.jitter),
            rollout: self.number,
            attempt: 1,
            ..HostAnswer::of(self.target.clone(), WaitReason { why, since: self.start_time, until })
        };
        let block = self.start_block.as_ref();
        if update || self.mode == Mode::Disabled {
            answer
        } else {
            answer.with_start((&self.start, &self.target), block, is_new(host))
        }
    }
}

/// Whether a host may have nothing yet: it would install what it is told.
fn is_new(host: Option<&Host>) -> bool {
    host.is_none_or(|host| host.version.is_none())
}

/// What a member of a group is told, without the words.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MemberAnswer {
    is_target: bool,
    update: bool,
    is_new: bool,
    choice: Choice,
    cause: Cause,
}

/// Why.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Cause {
    /// One without texts of its own: it is made for each host.
    Plain(Why),
    /// This version failed here, with this error.
    FailedHere(Name),
    /// A freeze, or the clock.
    Paused,
    /// What stops the whole rollout.
    Stop,
    /// What holds for its group.
    Group,
}

impl GroupStatus {
    /// Whether a host is told the target, and whether to update now, in mode enabled (FLEET §4).
    fn tells(
        &self,
        rollout: &Rollout,
        look: &TallyContext<'_>,
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
                let is_canary = state != Some(HostState::Silent) && host.is_some_and(|host| self.is_canary(host.id));
                (is_canary, is_canary)
            }
            State::Active => (its_turn, its_turn),
            State::Done if rollout.strategy == Strategy::TimeBased => (true, false),
            State::Done if self.done_while_halted => (was_told || state == Some(HostState::Updated), false),
            State::Done => (its_turn, its_turn),
            State::RolledBack if rollout.start_block_of(self).is_some() => (false, false),
            State::RolledBack => {
                (false, host.is_none_or(|host| look.goes_back(host) && its_turn || host.version == look.wanted(host)))
            }
            State::Halted => (was_told || state == Some(HostState::Updated), false),
        }
    }
}
