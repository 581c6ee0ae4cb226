//! A host's state in a rollout, and which of its group's counts it is in.

use jiff::Timestamp;
use protocol::report::DEFAULT_INTERVAL;
use protocol::report::code::SENDS_NOBODY_BACK;
use serde::{Deserialize, Serialize};

use crate::choice::Choice;
use crate::counts::Tally;
use crate::host::{Host, HostFailure, Last, Mark, Outcome};
use crate::listening::{Listening, heard_every};
use crate::moment::Moment;
use crate::names::Name;
use crate::policy::GroupPolicy;
use crate::rollout::{Cursor, FormerCourse, GroupStatus, State};

named! { name[] self of 8:
/// A host's state in a rollout; the first that holds (FLEET §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HostState {
    /// Pinned, disabled, without an updater, or held by an operator.
    Excluded = "excluded",
    /// Runs the wanted version, and no watch goes on.
    Updated = "updated",
    /// It reported that this version is not good there.
    Failed = "failed",
    /// It took too long.
    TimedOut = "timed_out",
    /// It was allowed to update.
    Told = "told",
    /// It has not been seen for three report intervals, and was not told.
    Silent = "silent",
    /// Its turn has come, and it has not asked yet.
    LetGo = "let_go",
    /// Its turn has not come.
    Pending = "pending",
}
}

/// Seconds without a word after which a host is silent, where hosts report each `interval` seconds: three times as long as one
/// that is well says nothing.
pub fn silent_after(interval: u32) -> u32 {
    3 * heard_every(interval)
}

/// The code of a host that left the version to which a rollout brought it because somebody there went back (`teleport-update
/// rollback`): it counts as failed, and nothing failed.
pub const BY_HAND: &str = "by_hand";

/// Seconds after which a silent host leaves members and denominators: a day.
pub const DEPARTED_AFTER: u32 = 86_400;
/// Seconds after its jitter in which a host that was told must come to an outcome: an hour covers question, download and
/// watch.
const STALLED_AFTER: u32 = 3_600;
/// Seconds after which it is known who was told what was decided before: an answer is good for 30 of them, and the rest is for a slow
/// write, clocks that differ, and the report of who began.
const ANSWERS_LAST: u32 = 45;

/// How the hosts of a fleet are judged, whatever their rollout is.
#[derive(Debug, Clone, Copy)]
pub struct FleetTerms {
    /// How often hosts report, seconds.
    pub interval: u32,
    /// Hosts enrol by token or approval, so that nobody can invent one: then failures that they report may send others back
    /// (`on_halt: rollback`, FLEET §3). Else hosts that only ask may be let go one after the other.
    pub is_proven: bool,
    /// Seconds before its silence in which a host waits that may update, because another server hears hosts too and may give its slot
    /// away; 0: none does.
    pub silence_margin: u32,
    /// No other server answers hosts: whatever they are told is what was decided last.
    pub is_alone: bool,
}

impl Default for FleetTerms {
    fn default() -> Self {
        Self { interval: DEFAULT_INTERVAL, is_proven: true, silence_margin: 0, is_alone: false }
    }
}

/// The names of a group's versions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupVersions {
    start: Name,
    /// By the place of a target, as a choice has it.
    targets: [Name; GroupPolicy::MOST_TARGETS],
}

impl GroupVersions {
    pub(crate) fn new(start: Name, names: impl IntoIterator<Item = Name>) -> Self {
        let mut targets = [Name::NONE; GroupPolicy::MOST_TARGETS];
        targets.iter_mut().zip(names).for_each(|(target, name)| *target = name);
        Self { start, targets }
    }

    /// Those that are there.
    pub(crate) fn names(&self) -> impl Iterator<Item = Name> {
        [self.start].into_iter().chain(self.targets).filter(|name| !name.is_none())
    }

    /// The target of this choice; none: there is none.
    pub(crate) fn target(&self, choice: Choice) -> Name {
        choice.target().and_then(|at| self.targets.get(at)).copied().unwrap_or(Name::NONE)
    }
}

/// The view of one group at one time, from which states of its hosts are derived.
#[derive(Debug, Clone, Copy)]
pub struct TallyContext<'a> {
    /// The rollout.
    pub rollout: u64,
    /// The group.
    pub group: &'a GroupStatus,
    /// What its hosts run before their turn, and get.
    pub(crate) versions: GroupVersions,
    /// The name of [`BY_HAND`]; `None`: no host has that code.
    pub(crate) by_hand: Option<Name>,
    /// The names of those codes; `None`: no host has it.
    pub(crate) sends_nobody_back: [Option<Name>; SENDS_NOBODY_BACK.len()],
    /// When.
    pub now: Moment,
    /// The listening clock.
    pub listening: Listening<'a>,
    /// Those of its fleet.
    pub(crate) terms: FleetTerms,
    /// A freeze, or a change that nobody approved, keeps those that were not told.
    pub is_frozen: bool,
}

impl TallyContext<'_> {
    /// The version that `host` shall run: its target, or where its group goes back, the start version.
    pub fn wanted(&self, host: &Host) -> Name {
        if self.is_going_back() { self.versions.start } else { self.target(host) }
    }

    /// What it runs before its turn.
    pub(crate) fn start(&self) -> Name {
        self.versions.start
    }

    /// The version that it gets; none: it gets nothing.
    pub(crate) fn target(&self, host: &Host) -> Name {
        self.versions.target(host.choice)
    }

    /// What the present rollout did to `host`, in the direction in which the group goes now. What it was told before the group turned
    /// round, and did not do, is over.
    pub fn mark(&self, host: &Host) -> Option<Mark> {
        let is_over = |mark: &Mark, course: &FormerCourse| {
            mark.arrived.is_none() && mark.told <= course.end && is_at_rest(host, course, self.told_version(host))
        };
        let counts = |mark: &Mark| !self.group.courses.iter().any(|course| is_over(mark, course));
        self.any_mark(host).filter(|mark| host.told_back == self.is_going_back() && counts(mark))
    }

    /// The same, in either direction.
    pub(crate) fn any_mark(&self, host: &Host) -> Option<Mark> {
        host.mark().filter(|mark| u64::from(mark.rollout) == self.rollout)
    }

    fn is_going_back(&self) -> bool {
        self.group.state == State::RolledBack
    }

    /// The version that a host was told which has a mark.
    pub(crate) fn told_version(&self, host: &Host) -> Name {
        if host.told_back { self.versions.start } else { self.target(host) }
    }

    /// The host's state.
    pub fn state(&self, host: &Host) -> HostState {
        let state = self.state_of_member(host);
        match state {
            _ if !host.flags.excludes() => state,
            // What came of an attempt stays in its counts, and who is on the way arrives, whatever is decided of the host since.
            HostState::Failed | HostState::TimedOut => state,
            HostState::Told if host.flags.is_held() || is_under_way(host, self.wanted(host)) => state,
            _ => HostState::Excluded,
        }
    }

    /// The state's name, as it is shown: of a host for whom its sub-directive has nothing, why not (DIRECTIVES §2).
    pub fn shown_state(&self, host: &Host) -> &'static str {
        let state = self.state(host);
        if !host.flags.told_nothing || state != HostState::Excluded {
            return state.name();
        }
        match host.choice {
            Choice::NO_TARGET => "no_target",
            Choice::NO_INSTALLER => "no_installer",
            _ => "recommended",
        }
    }

    /// The same, were the host not excluded.
    fn state_of_member(&self, host: &Host) -> HostState {
        if !self.group.courses.is_empty() && self.may_go_the_other_way(host) {
            HostState::LetGo
        } else if self.any_mark(host).is_none() && host.failure().is_none() {
            self.state_of_untold(host)
        } else if self.goes_the_other_way(host) {
            HostState::Told
        } else if self.is_updated(host) {
            HostState::Updated
        } else if self.is_retried(host) && self.is_let_go(host) && !self.is_silent(host) {
            HostState::LetGo
        } else if self.failed_at(host).is_some_and(|at| at >= self.group.attempt_began) {
            HostState::Failed
        } else if self.timed_out_at(host).is_some_and(|at| at >= self.group.attempt_began) {
            HostState::TimedOut
        } else if self.is_on_the_way(host) && self.ended_before(host).is_none() {
            HostState::Told
        } else if self.is_silent(host) {
            HostState::Silent
        } else if self.is_let_go(host) {
            HostState::LetGo
        } else {
            HostState::Pending
        }
    }

    /// The same for one that was not told in this rollout and has not failed: most hosts are, and what follows from marks and
    /// failures cannot be.
    fn state_of_untold(&self, host: &Host) -> HostState {
        if self.is_updated(host) {
            HostState::Updated
        } else if self.is_unheard(host) {
            HostState::Silent
        } else if self.is_let_go(host) {
            HostState::LetGo
        } else {
            HostState::Pending
        }
    }

    /// Not seen for long, and not told in this attempt.
    fn is_silent(&self, host: &Host) -> bool {
        self.is_unheard(host) && (self.mark(host).is_none() || self.is_retried(host))
    }

    /// Not seen for three report intervals.
    pub(crate) fn is_unheard(&self, host: &Host) -> bool {
        self.listening.is_over(host.heard, silent_after(self.listening.heard_every))
    }

    /// It was told, and has not been seen for three report intervals since.
    pub fn has_churned(&self, host: &Host, state: HostState) -> bool {
        let since =
            |mark: Mark| self.listening.is_over(host.heard.max(mark.told), silent_after(self.listening.heard_every));
        matches!(state, HostState::Told | HostState::TimedOut) && self.mark(host).is_some_and(since)
    }

    /// It is silent soon, or is, and has a slot that it loses by that.
    pub(crate) fn is_nearly_silent(&self, host: &Host) -> bool {
        let has_slots = self.group.is_capped() || self.group.state == State::Canary;
        let seconds = silent_after(self.listening.heard_every).saturating_sub(self.terms.silence_margin);
        self.terms.silence_margin > 0
            && has_slots
            && self.mark(host).is_none()
            && self.listening.is_past(host.heard, seconds)
    }

    /// A silent host that is no member any more.
    pub(crate) fn has_departed(&self, host: &Host) -> bool {
        let is_gone = self.listening.is_over(host.heard, DEPARTED_AFTER) && self.mark(host).is_none();
        is_gone && !self.has_failed(host)
    }

    /// It failed or timed out in this attempt.
    pub(crate) fn has_failed(&self, host: &Host) -> bool {
        matches!(self.state(host), HostState::Failed | HostState::TimedOut)
    }

    /// It has reported within three intervals.
    pub(crate) fn is_present(&self, host: &Host) -> bool {
        host.reports && !self.is_unheard(host)
    }

    /// Whether a host that has left was among those that were present when the group started.
    fn was_there_at_start(&self, host: &Host) -> bool {
        let was_heard = |start| host.heard.after(silent_after(self.listening.heard_every)) >= Moment::of(start);
        host.reports && self.is_counted(host) && self.group.start_time.is_some_and(was_heard)
    }

    /// It reports that it runs the wanted version, and no change goes on.
    fn is_updated(&self, host: &Host) -> bool {
        runs(host, self.wanted(host))
    }

    /// It reported in this attempt that it came to the wanted version.
    fn has_updated(&self, host: &Host) -> bool {
        let is_news = |last: &Last| last.to == self.wanted(host) && last.at >= self.group.attempt_began;
        host.last().is_some_and(|last| last.outcome == Outcome::Updated && is_news(&last))
    }

    /// It was told, and has not arrived. Who arrived in an attempt before and left again waits for his turn. In a group that goes
    /// back only those are on the way that were told so in this attempt.
    fn is_on_the_way(&self, host: &Host) -> bool {
        let Some(mark) = self.mark(host) else { return false };
        let is_here =
            mark.arrived.is_none_or(|arrived| arrived >= self.group.attempt_began || host.version == self.wanted(host));
        let is_of_this_attempt = mark.told >= self.group.attempt_began && mark.arrived.is_none();
        if self.is_going_back() { is_of_this_attempt } else { is_here }
    }

    /// When it failed in this rollout: by a report, by silence after it began, or by leaving the version that it had.
    pub(crate) fn failed_at(&self, host: &Host) -> Option<Moment> {
        let by_silence = || self.mark(host).and_then(|mark| mark.lost.or_else(|| self.lost_at(host)));
        self.reported_failure(host).or_else(by_silence)
    }

    /// When it reported that the wanted version failed, or left that version again.
    pub(crate) fn reported_failure(&self, host: &Host) -> Option<Moment> {
        if let Some(failure) = self.failure(host) {
            return Some(failure.at);
        }
        let arrived = self.mark(host)?.arrived?;
        (arrived >= self.group.attempt_began && host.version != self.wanted(host)).then_some(host.heard)
    }

    /// What it reported of the wanted version since it was told.
    fn failure(&self, host: &Host) -> Option<HostFailure> {
        // One from before it was told again was of another try.
        let mark = self.mark(host);
        let is_new = |at: Moment| mark.is_none_or(|mark| at >= mark.told);
        host.failure().filter(|failure| failure.to == self.wanted(host) && is_new(failure.at))
    }

    /// The error code with which the wanted version failed, or [`BY_HAND`]; none: it failed without one, as by silence. Not of its
    /// last change, which may have come to another end since.
    pub fn failure_code(&self, host: &Host) -> Name {
        let left = || host.last().filter(|last| last.to == host.version && self.reported_failure(host).is_some());
        self.failure(host).map(|failure| failure.code).or_else(|| Some(left()?.code)).unwrap_or_default()
    }

    /// It reported a failure for which others may go back.
    fn may_send_back(&self, host: &Host) -> bool {
        self.failure(host).is_some_and(|failure| !self.sends_nobody_back.contains(&Some(failure.code)))
    }

    /// It came to the wanted version once.
    pub(crate) fn has_arrived(&self, host: &Host) -> bool {
        self.mark(host).is_some_and(|mark| mark.arrived.is_some())
    }

    /// When it failed by silence after it began (`failure_seconds`).
    pub(crate) fn lost_at(&self, host: &Host) -> Option<Moment> {
        self.lost_due(host).filter(|due| self.listening.has_passed(*due))
    }

    fn lost_due(&self, host: &Host) -> Option<Moment> {
        let mark = self.mark(host)?;
        let seconds = self.group.policy.proof.failure_seconds;
        let begun = mark.started.filter(|_| seconds > 0 && mark.arrived.is_none())?;
        Some(self.listening.after(host.heard.max(begun), self.listening.heard_every.saturating_add(seconds)))
    }

    /// As what a host counts that has a slot, and when, if nothing is heard of it until then; not before now.
    pub(crate) fn due(&self, host: &Host) -> (HostState, Timestamp) {
        let silent = || self.listening.after(host.heard, silent_after(self.listening.heard_every));
        let (state, at) = match self.any_mark(host).map(|mark| self.over_due(&mark)) {
            None => (HostState::Silent, silent()),
            Some(over) => match self.lost_due(host).filter(|lost| *lost < over) {
                Some(lost) => (HostState::Failed, lost),
                None => (HostState::TimedOut, over),
            },
        };
        (state, at.max(self.now).time())
    }

    /// When its time was over.
    pub(crate) fn timed_out_at(&self, host: &Host) -> Option<Moment> {
        self.over_at(&self.mark(host)?)
    }

    fn over_at(&self, mark: &Mark) -> Option<Moment> {
        Some(self.over_due(mark)).filter(|due| self.listening.has_passed(*due))
    }

    fn over_due(&self, mark: &Mark) -> Moment {
        // A switch that comes later does not undo it: another host has the slot since.
        let is_missed = |end: &Moment| mark.switched.is_none_or(|switched| switched > *end);
        let end = |seconds: u32| mark.started.map(|started| self.listening.after(started, seconds));
        let by_clock = self.group.policy.proof.timeout_seconds.and_then(end).filter(is_missed);
        let stalled = self.listening.after(mark.told, self.group.policy.pace.jitter.saturating_add(STALLED_AFTER));
        by_clock.map_or(stalled, |by_clock| by_clock.min(stalled))
    }

    /// When it failed or timed out, if that was before this attempt.
    pub(crate) fn ended_before(&self, host: &Host) -> Option<Moment> {
        let ended = self.failed_at(host).or_else(|| self.timed_out_at(host))?;
        let told_again = self.mark(host).is_some_and(|mark| mark.told >= self.group.attempt_began);
        (ended < self.group.attempt_began && !told_again).then_some(ended)
    }

    /// Whether it is among those that are let go again: it failed or timed out before this attempt, or before its group, which
    /// has a cap, was done.
    pub(crate) fn is_retried(&self, host: &Host) -> bool {
        let group = self.group;
        let has_part = host.arrival.get() <= group.retry_to && !host.flags.excludes();
        if !has_part || (host.failure().is_none() && self.mark(host).is_none()) {
            return false;
        }
        let is_late = || {
            let done = group.done_time.map(Moment::of).filter(|_| group.state == State::Done && group.is_capped());
            let ended = self.failed_at(host).or_else(|| self.timed_out_at(host));
            let told_again = |done: Moment| self.mark(host).is_some_and(|mark| mark.told > done);
            // Who fails after the end of the group is a soak failure, and is told nothing.
            ended.zip(done).is_some_and(|(ended, done)| ended <= done && !told_again(done))
        };
        self.ended_before(host).is_some() || is_late()
    }

    /// It was told before the group turned round, and has come to no end yet: it keeps its slot.
    pub fn goes_the_other_way(&self, host: &Host) -> bool {
        let Some(mark) = self.any_mark(host).filter(|_| host.told_back != self.is_going_back()) else { return false };
        let to = self.told_version(host);
        // In the very second in which it was told again, what it reported is of the attempt before.
        let is_of_it = |at: Moment| self.group.courses.last().is_none_or(|course| at >= course.group.attempt_began);
        let is_new = |at: Moment| at >= mark.told && is_of_it(at);
        let has_failed = host.failure().is_some_and(|failure| failure.to == to && is_new(failure.at));
        let is_here = || self.group.courses.last().is_some_and(|course| is_at_rest(host, course, to));
        mark.arrived.is_none() && host.version != to && !has_failed && self.over_at(&mark).is_none() && !is_here()
    }

    /// It was let go before the group turned round, and nobody knows yet whether it was told: it keeps its slot as long as it may be,
    /// and where it reports that it is on that way.
    fn may_go_the_other_way(&self, host: &Host) -> bool {
        let group = self.group;
        let may_go = |course: &FormerCourse| {
            let then = TallyContext { group: &course.group, is_frozen: false, ..*self };
            let wanted = then.wanted(host);
            let may_be_told = self.now <= course.end.after(ANSWERS_LAST) && !self.has_come_since(host, course);
            (may_be_told || is_under_way(host, wanted)) && then.state(host) == HostState::LetGo
        };
        let lets_go = !matches!(group.state, State::Unstarted | State::Halted) && !group.done_while_halted;
        lets_go && group.is_capped() && group.courses.iter().any(may_go)
    }

    /// It reported that it came to the wanted version after a former course. A server that is alone answers by what it decided last:
    /// nobody tells that host to go the other way.
    fn has_come_since(&self, host: &Host, course: &FormerCourse) -> bool {
        self.terms.is_alone && self.is_updated(host) && host.last().is_some_and(|last| last.at > course.end)
    }

    /// It was told before the group turned round for the last time.
    pub(crate) fn was_told_before(&self, host: &Host) -> bool {
        let end = self.group.courses.last().map(|course| course.end);
        let is_before = |mark: Mark| end.is_some_and(|end| mark.told <= end);
        self.goes_the_other_way(host) || self.any_mark(host).is_some_and(is_before)
    }

    /// It is told nothing new: nobody knows whether it was told to go the other way; or it was, from what the group goes to, and a word
    /// to stay would send it back if the group turned again.
    pub(crate) fn may_be_away(&self, host: &Host) -> bool {
        let may_have_gone = || host.version == self.wanted(host) && self.goes_the_other_way(host);
        let has_turned = !self.group.courses.is_empty() && self.group.is_capped();
        has_turned && (may_have_gone() || self.may_go_the_other_way(host))
    }

    /// From when on it is known who was told by a former course.
    pub(crate) fn known_at(course: &FormerCourse) -> Moment {
        course.end.after(ANSWERS_LAST + 1)
    }

    /// Whether hosts of a former course have timed out that were told last.
    pub(crate) fn is_over(course: &FormerCourse, listening: Listening<'_>) -> bool {
        let seconds = ANSWERS_LAST + STALLED_AFTER + course.group.policy.pace.jitter;
        listening.is_over(course.end, seconds)
    }

    /// Its turn has come.
    pub(crate) fn is_let_go(&self, host: &Host) -> bool {
        let group = self.group;
        match group.state {
            State::Unstarted | State::Halted => false,
            _ if self.is_frozen => false,
            State::Canary => group.is_canary(host.id),
            _ if group.done_while_halted => false,
            State::RolledBack if !self.goes_back(host) => false,
            _ if !group.is_capped() => true,
            // One that was silent has lost its place.
            State::Active | State::Done
                if group.is_canary(host.id) && host.arrival.get() <= group.counted_to && !self.is_retried(host) =>
            {
                true
            }
            _ if self.is_retried(host) && host.enrolled.is_none() => false,
            _ if self.is_retried(host) => group.retry_cursor.is_some_and(|retry| Cursor::of(host) <= retry),
            State::Active | State::Done | State::RolledBack => group.has_passed(host),
        }
    }

    /// Whether a rollback is about it: it runs the target, was told to, or does not say what it runs. Of those that do not run the
    /// target one below the start version stays: going back would take it up.
    pub fn goes_back(&self, host: &Host) -> bool {
        let was_told = self.any_mark(host).is_some_and(|mark| mark.arrived.is_none());
        let has_target = !host.version.is_none() && host.version == self.target(host);
        has_target || (!host.is_below_start && (host.version.is_none() || was_told))
    }

    /// Whether it counts in thresholds: it was enrolled when the group started.
    pub(crate) fn is_counted(&self, host: &Host) -> bool {
        let counted_to = self.group.counted_to;
        host.joined.get() <= counted_to && host.enrolled.is_some_and(|enrolled| enrolled.at.get() <= counted_to)
    }
}

/// It was heard of when nobody was told any more to go to `to` by a former course, and no change to that goes on.
fn is_at_rest(host: &Host, course: &FormerCourse, to: Name) -> bool {
    host.heard > course.end.after(ANSWERS_LAST) && !is_under_way(host, to)
}

/// It reports that it runs `version`, and no change to it goes on.
fn runs(host: &Host, version: Name) -> bool {
    !host.version.is_none() && host.version == version && !is_under_way(host, version)
}

/// It reports that a change to `version` goes on.
fn is_under_way(host: &Host, version: Name) -> bool {
    host.last().is_some_and(|last| last.outcome.is_under_way() && last.to == version)
}

impl Tally {
    fn count_in_thresholds(&mut self, look: &TallyContext<'_>, host: &Host, state: HostState) {
        let was_told = look.mark(host).is_some();
        let is_proven = host.enrolled.is_some_and(|enrolled| !enrolled.is_unproven);
        self.counted += 1;
        self.counted_failed += u64::from(state == HostState::Failed);
        self.counted_reported += u64::from(state == HostState::Failed && is_proven && look.may_send_back(host));
        self.counted_timed_out += u64::from(state == HostState::TimedOut);
        self.counted_churned += u64::from(look.has_churned(host, state));
        let has_ended = match state {
            HostState::Updated => was_told || look.has_updated(host),
            HostState::Failed => true,
            HostState::TimedOut => was_told,
            _ => false,
        };
        self.counted_ended += u64::from(has_ended);
    }

    fn fail(&mut self, is_by_hand: bool) {
        self.failed += 1;
        self.by_hand += u64::from(is_by_hand);
    }

    /// Counts `host`.
    pub fn add(&mut self, look: &TallyContext<'_>, host: &Host) {
        let is_of_somebody = (host.enrolled.is_some() && host.reports) || host.flags.excludes();
        self.known += u64::from(is_of_somebody && !host.is_expected());
        if look.has_departed(host) {
            self.gone += u64::from(look.was_there_at_start(host));
            return;
        }
        let state = look.state(host);
        let may_start = matches!(look.group.state, State::Unstarted | State::RolledBack);
        let asked_before = may_start || host.arrival.get() <= look.group.counted_to;
        let asks = !host.reports && (host.enrolled.is_some() || !look.terms.is_proven);
        self.asking += u64::from(asks && asked_before);
        self.ever_let_go += u64::from(look.any_mark(host).is_some() || state == HostState::LetGo);
        // Nobody waits for who only asks.
        if host.enrolled.is_none() && state != HostState::Excluded {
            self.unknown += u64::from(matches!(state, HostState::LetGo | HostState::Told));
            return;
        }
        let is_counted = look.is_counted(host);
        match state {
            HostState::Excluded => {
                self.excluded += 1;
                self.without += u64::from(host.flags.told_nothing);
            }
            HostState::Updated => self.updated += 1,
            HostState::Failed => self.fail(look.by_hand == Some(look.failure_code(host))),
            HostState::TimedOut => self.timed_out += 1,
            HostState::Told => self.told += 1,
            HostState::Silent => self.silent += 1,
            HostState::LetGo => self.let_go += 1,
            HostState::Pending => self.pending += 1,
        }
        if is_counted && state != HostState::Excluded {
            self.count_in_thresholds(look, host, state);
        }
        let is_present = look.is_present(host) && state != HostState::Excluded;
        let is_up_to_date = is_present && runs(host, look.target(host));
        self.present += u64::from(is_present);
        self.up_to_date += u64::from(is_up_to_date);
        if is_counted {
            let proof = &mut self.proof;
            proof.members += 1;
            match state {
                HostState::Excluded => {}
                HostState::Updated => proof.updated += 1,
                HostState::Failed | HostState::TimedOut => proof.failed += 1,
                HostState::Silent => proof.silent += 1,
                HostState::Told | HostState::LetGo | HostState::Pending => proof.to_go += 1,
            }
            proof.left += u64::from(state == HostState::Updated && !is_present);
            proof.present += u64::from(is_present);
            proof.up_to_date += u64::from(is_up_to_date);
        }
    }
}
