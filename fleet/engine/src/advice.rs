//! What would change a reason: a command that is accepted now and changes something, or resources to edit (FLEET §6); after a bad
//! release several, in order. Where only time or hosts can change it, there is none.

use jiff::Timestamp;
use protocol::report::code::is_outside_of_the_release;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::HostAnswer;
use crate::command::Command;
use crate::fleet::Fleet;
use crate::host::Host;
use crate::policy::{Mode, Strategy};
use crate::reason::{HaltRule, Why};
use crate::resource::Kind;
use crate::resource_set::ResourceSet;
use crate::rollout::{GroupStatus, Rollout, State};
use crate::rollout_state::RolloutState;
use crate::step::gate;
use crate::tally::BY_HAND;

/// What would change a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// A command.
    Command(Command),
    /// Resources to edit, as KIND or KIND/NAME: all of them.
    Edit(Vec<String>),
    /// A resource of this kind to write, as there is none.
    Write(String),
    /// Hosts to look at: those by which a group was halted.
    Look {
        /// The group; empty: that of an immediate rollout.
        group: String,
        /// Those that took too long; else those that failed.
        timed_out: bool,
    },
    /// Several, the first to do first.
    Steps(Vec<Advice>),
    /// A decision on the host.
    Host(OnHost),
    /// What somebody does on the host itself.
    Agent(OnAgent),
}

/// A decision on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnHost {
    /// Ends its hold.
    Release,
    /// Puts it into a group.
    Assign,
}

/// What the updater is told on the host itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnAgent {
    /// It is no longer pinned.
    Unpin,
    /// It updates again.
    Enable,
    /// It tries the version again at once.
    UpdateNow,
}

/// Everything that advice rests on.
struct Desk<'a> {
    state: &'a RolloutState,
    resources: &'a ResourceSet,
    rollout: &'a Rollout,
}

impl RolloutState {
    /// What would change the reason of the group at `index` at `now`. A command is one that this state accepts.
    pub fn advice(&self, resources: &ResourceSet, fleet: &Fleet, index: usize, now: Timestamp) -> Option<Advice> {
        let rollout = self.rollout.as_ref()?;
        let desk = Desk { state: self, resources, rollout };
        desk.of_group(index, rollout.groups.len()).and_then(|advice| self.accepted(advice, fleet, now))
    }

    /// The same of the reason in `answer`, which `host` would be given; `None`: it was never seen.
    pub fn host_advice(
        &self,
        resources: &ResourceSet,
        fleet: &Fleet,
        host: Option<&Host>,
        answer: &HostAnswer,
        now: Timestamp,
    ) -> Option<Advice> {
        let Some(rollout) = &self.rollout else {
            return Some(Advice::Write(Kind::Version.as_str().to_owned()));
        };
        let desk = Desk { state: self, resources, rollout };
        desk.of_host(fleet, host, answer).and_then(|advice| self.accepted(advice, fleet, now))
    }

    /// What ends a hold of everything, or of a group that the rollout does not have.
    pub(crate) fn end_of_hold(&self, group: Option<&str>) -> Command {
        Command::Run { groups: group.into_iter().map(str::to_owned).collect(), all: group.is_none() }
    }

    /// What of it would not be refused; a start in a freeze says so.
    fn accepted(&self, advice: Advice, fleet: &Fleet, now: Timestamp) -> Option<Advice> {
        let is_accepted = match &advice {
            Advice::Command(command) if self.clone().command(command, fleet, now).is_ok() => true,
            Advice::Command(Command::Start { groups, force, ignore_blackout: false }) => {
                let start = Command::Start { groups: groups.clone(), force: *force, ignore_blackout: true };
                return self.accepted(Advice::Command(start), fleet, now);
            }
            Advice::Command(_) => false,
            Advice::Edit(resources) => !resources.is_empty(),
            _ => true,
        };
        let Advice::Steps(steps) = advice else { return Some(advice).filter(|_| is_accepted) };
        let steps = steps.into_iter().filter_map(|step| self.accepted(step, fleet, now)).collect();
        Some(Advice::Steps(steps))
    }
}

impl Desk<'_> {
    /// `depth` is how many groups it may still follow to the one that is waited for.
    fn of_group(&self, index: usize, depth: usize) -> Option<Advice> {
        let group = self.rollout.groups.get(index)?;
        let is_unstarted = group.state == State::Unstarted;
        match &group.reason.why {
            Why::Halted { .. } | Why::Held => Some(self.end_of_halt(group)),
            Why::Disabled | Why::Suspended => Some(self.modes()),
            Why::PreviousGroupsNotDone { group: before, .. } => {
                let is_it = |group: &GroupStatus| group.is_stopped() && (is_unstarted || group.policy.name == *before);
                let stopped = gate::find_before(self.rollout, index, is_it).filter(|_| depth > 0);
                // Past a group that was stopped nobody is sent by advice.
                match stopped.and_then(|stopped| self.rollout.find(&stopped.policy.name)) {
                    Some(stopped) => self.of_group(stopped, depth - 1),
                    None => self.start(group, false),
                }
            }
            Why::OutsideWindow if !is_unstarted && group.policy.pace.window.is_some() => self.edit_groups(group),
            Why::OutsideWindow
            | Why::RolloutChangedDuringWindow
            | Why::WaitHours { .. }
            | Why::SoakHours { .. }
            | Why::Gate { .. }
                if is_unstarted =>
            {
                self.start(group, false)
            }
            Why::Blackout { .. } if self.rollout.strategy != Strategy::TimeBased && group.state != State::Done => {
                self.begin(Command::Start { groups: name(group), force: false, ignore_blackout: true }, group)
            }
            Why::Blackout { .. } | Why::MaxInFlight { .. } | Why::Rate { .. } => self.edit_groups(group),
            Why::Approval { .. } => Some(Advice::Command(approve(group))),
            Why::WaitingForCanaries { .. } => self.start(group, true),
            Why::NobodyOnTheWay { .. } => Some(Advice::Command(self.state.end_of_hold(Some(&group.policy.name)))),
            Why::NoReports { .. } if group.state == State::Canary => self.start(group, true),
            Why::NoReports { .. } | Why::Empty | Why::Shrunk { .. } | Why::UpdateInProgress { .. } => {
                Some(Advice::Command(Command::MarkDone { groups: name(group) }))
            }
            Why::RolledBack if self.state.holds.has(&group.policy.name) || self.state.blocked.is_some() => {
                Some(self.end_of_halt(group))
            }
            Why::RolledBack if self.rollout.strategy == Strategy::TimeBased => Some(self.edit_versions()),
            Why::RolledBack => self.start(group, false),
            Why::VersionBlocked { .. } | Why::DirectiveDisabled | Why::NotBefore | Why::DirectiveOver => {
                Some(self.edit_versions())
            }
            _ => None,
        }
    }

    fn of_host(&self, fleet: &Fleet, host: Option<&Host>, answer: &HostAnswer) -> Option<Advice> {
        let rollout = self.rollout;
        let index = host.map_or_else(|| rollout.find(&answer.group), |host| rollout.index_of(host.place));
        let of_its_group = || {
            let group = rollout.groups.get(index?)?;
            // What keeps the host, and not the group, is no matter of the group.
            let is_same = std::mem::discriminant(&group.reason.why) == std::mem::discriminant(&answer.reason.why);
            self.of_group(index?, rollout.groups.len()).filter(|_| is_same)
        };
        match &answer.reason.why {
            Why::Held if host.is_some_and(|host| host.flags.held) => Some(Advice::Host(OnHost::Release)),
            Why::Held => Some(Advice::Command(self.state.end_of_hold(host.and_then(|host| fleet.held_by(host))))),
            Why::Pinned => Some(Advice::Agent(OnAgent::Unpin)),
            Why::HostDisabled => Some(Advice::Agent(OnAgent::Enable)),
            // Who is allowed to update is kept by its own refusal alone.
            Why::FailedHere { .. } | Why::TimedOut if answer.update => Some(Advice::Agent(OnAgent::UpdateNow)),
            Why::Unassigned => (!rollout.groups.is_empty()).then_some(Advice::Host(OnHost::Assign)),
            Why::Disabled | Why::Suspended => Some(self.modes()),
            Why::VersionBlocked { .. } | Why::NoTarget { .. } | Why::NoInstaller { .. } | Why::Recommended => {
                Some(self.edit_versions())
            }
            Why::Halted { .. } if index.is_none() => self.end_of_halt_elsewhere(),
            _ => of_its_group(),
        }
    }

    /// What names the versions.
    fn edit_versions(&self) -> Advice {
        edit(if self.rollout.directive.is_some() { Kind::Directive } else { Kind::Version })
    }

    /// Starts a group that has not begun; where a person must agree, that comes first.
    fn start(&self, group: &GroupStatus, force: bool) -> Option<Advice> {
        self.begin(Command::Start { groups: name(group), force, ignore_blackout: false }, group)
    }

    fn begin(&self, start: Command, group: &GroupStatus) -> Option<Advice> {
        if self.rollout.strategy == Strategy::TimeBased {
            return None;
        }
        let is_next = matches!(group.state, State::Unstarted | State::RolledBack);
        let command = match group.unapproved().filter(|_| is_next) {
            Some(_) => approve(group),
            None => start,
        };
        Some(Advice::Command(command))
    }

    fn end_of_halt(&self, group: &GroupStatus) -> Advice {
        if self.state.blocked.is_some() {
            return self.block();
        }
        // An immediate rollout has no groups to name.
        let is_named = self.rollout.find(&group.policy.name).is_some();
        // What stopped all groups has one end, and not one for each.
        let holds = &self.state.holds;
        let is_of_hold = group.halt.as_ref().is_some_and(|halt| halt.rule.is_of_hold());
        let is_by_all = is_of_hold && holds.all && !holds.groups.contains(&group.policy.name);
        let run = self.state.end_of_hold(Some(group.policy.name.as_str()).filter(|_| is_named && !is_by_all));
        match &group.reason.why {
            Why::Halted { rule, error, .. } => {
                let back = self.rollout.goes_back();
                end_of_halt(&group.policy.name, (*rule, error.as_deref()), back, self.edit_versions(), run)
            }
            _ => Advice::Command(run),
        }
    }

    /// For hosts without a group: any halted group stops them, and what stops everything.
    fn end_of_halt_elsewhere(&self) -> Option<Advice> {
        if self.state.blocked.is_some() {
            return Some(self.block());
        }
        if self.state.holds.all {
            return Some(Advice::Command(self.state.end_of_hold(None)));
        }
        self.rollout.groups.iter().find(|group| group.halt.is_some()).map(|group| self.end_of_halt(group))
    }

    /// The release of the target, which is blocked.
    fn block(&self) -> Advice {
        let name = self.resources.release_of(&self.rollout.target).unwrap_or_default();
        Advice::Edit(vec![format!("{}/{name}", Kind::Release)])
    }

    /// The resources whose mode is not enabled: the lowest counts, so all of them.
    fn modes(&self) -> Advice {
        if self.rollout.directive.is_some() {
            return self.edit_versions();
        }
        let mut kinds = self.resources.kinds_below_enabled();
        if self.state.target.as_ref().is_some_and(|target| target.mode != Mode::Enabled) {
            kinds.push(Kind::Version);
        }
        Advice::Edit(kinds.into_iter().map(|kind| kind.as_str().to_owned()).collect())
    }

    /// The resource that has the group, where it still does: pace and freezes act at once.
    fn edit_groups(&self, group: &GroupStatus) -> Option<Advice> {
        let policy = self.state.policy.as_ref()?;
        let (groups, _) = policy.groups(self.rollout.schedule);
        let is_there = groups.iter().any(|wanted| wanted.name == group.policy.name);
        if self.rollout.directive.is_some() {
            return Some(self.edit_versions()).filter(|_| is_there);
        }
        self.resources.kind_of_groups().filter(|_| is_there).map(edit)
    }
}

/// What ends a halt of `group` by `rule`; `back`: its hosts can be sent back; `edit` names another version. `run` ends it with the same version, which comes last
/// where hosts did not bear that one, and not at all where their commonest `error` can only be the release's.
pub fn end_of_halt(
    group: &str,
    (rule, error): (HaltRule, Option<&str>),
    back: bool,
    edit: Advice,
    run: Command,
) -> Advice {
    let is_late = rule == HaltRule::TimeoutThreshold;
    if !rule.is_by_hosts() {
        return Advice::Command(run);
    }
    let mut steps = vec![Advice::Look { group: group.to_owned(), timed_out: is_late }, edit];
    if back {
        let groups = vec![group.to_owned()];
        steps.push(Advice::Command(Command::Rollback { groups, all_started: false, at_once: false }));
    }
    let may_be_good = is_late || error.is_none_or(|error| error == BY_HAND || is_outside_of_the_release(error));
    steps.extend(may_be_good.then_some(Advice::Command(run)));
    Advice::Steps(steps)
}

fn name(group: &GroupStatus) -> Vec<String> {
    vec![group.policy.name.clone()]
}

fn approve(group: &GroupStatus) -> Command {
    Command::Approve { groups: name(group), digest: None }
}

fn edit(kind: Kind) -> Advice {
    Advice::Edit(vec![kind.as_str().to_owned()])
}
