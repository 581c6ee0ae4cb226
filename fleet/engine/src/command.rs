//! What operators do to a rollout. A command is all or nothing: one that is refused changes nothing.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calendar::{Blackout, blackout_at, end_of_blackout};
use crate::fleet::Fleet;
use crate::policy::{Mode, Schedule, Strategy};
use crate::reason::{HaltRule, Why};
use crate::refusal::Refusal;
use crate::rollout::{GateAnswer, GroupStatus, Halt, Rollout, State};
use crate::rollout_state::{HaltCause, RolloutState};

named! { name[&] self:
/// A command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Command {
    /// Starts groups before their time; in a freeze only with `force` or `ignore_blackout`.
    Start {
        /// Names of groups.
        #[schemars(length(min = 1), inner(length(min = 1, max = 255)))]
        groups: Vec<String>,
        /// Without canaries, and although a freeze lasts.
        force: bool,
        /// Although a freeze lasts, with canaries first.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ignore_blackout: bool,
    } = "start",
    /// Calls groups done.
    MarkDone {
        /// Names of groups.
        #[schemars(length(min = 1), inner(length(min = 1, max = 255)))]
        groups: Vec<String>,
    } = "mark_done",
    /// Sends hosts back to the start version.
    Rollback {
        /// Names of groups; none with `all_started`.
        #[schemars(inner(length(min = 1, max = 255)))]
        groups: Vec<String>,
        /// Every group that has started.
        all_started: bool,
        /// Without the cap.
        at_once: bool,
    } = "rollback",
    /// Stops groups until `run`.
    Halt {
        /// Names of groups; none with `all`.
        #[schemars(inner(length(min = 1, max = 255)))]
        groups: Vec<String>,
        /// Every group, also of rollouts to come.
        all: bool,
    } = "halt",
    /// Of named groups: ends their halts with another attempt; starts one that has not begun and is not held (RFD 0169). Of all: ends
    /// the hold of everything, and no halt that has a name or a reason of its own.
    Run {
        /// Names of groups; none with `all`.
        #[schemars(inner(length(min = 1, max = 255)))]
        groups: Vec<String>,
        /// What stopped everything.
        all: bool,
    } = "run",
    /// Approves groups of this rollout.
    Approve {
        /// Names of groups.
        #[schemars(length(min = 1), inner(length(min = 1, max = 255)))]
        groups: Vec<String>,
        /// What was seen of them; absent: as they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    } = "approve",
    /// What an external check said of a group.
    Gate {
        /// Its name.
        #[schemars(length(min = 1, max = 255))]
        group: String,
        /// The answer.
        answer: GateAnswer,
    } = "gate",
}
}

impl Command {
    /// The groups that it names; none: all of them.
    pub fn groups(&self) -> &[String] {
        match self {
            Self::Start { groups, .. }
            | Self::MarkDone { groups }
            | Self::Rollback { groups, .. }
            | Self::Halt { groups, .. }
            | Self::Run { groups, .. }
            | Self::Approve { groups, .. } => groups,
            Self::Gate { group, .. } => std::slice::from_ref(group),
        }
    }
}

fn refuse<T>(code: &'static str, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, message))
}

impl RolloutState {
    /// Carries `command` out at `now`, all of it or nothing.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn command(&mut self, command: &Command, fleet: &Fleet, now: Timestamp) -> Result<(), Refusal> {
        let mut state = self.clone();
        state.act(command, fleet, now)?;
        *self = state;
        Ok(())
    }

    fn act(&mut self, command: &Command, fleet: &Fleet, now: Timestamp) -> Result<(), Refusal> {
        match command {
            Command::Start { groups, force, ignore_blackout } => {
                let by = StartedBy { force: *force, ignore_blackout: *ignore_blackout };
                self.may_start()?;
                self.not_blocked()?;
                let held: Vec<String> = groups.iter().filter(|name| self.holds.has(name)).cloned().collect();
                self.each(groups, |group, name, strategy| {
                    let is_held = held.iter().any(|held| held == name);
                    if is_held { halted(name) } else { group.trigger(by, strategy, fleet, now) }
                })
            }
            Command::MarkDone { groups } => self.each(groups, |group, _, strategy| group.mark_done(strategy, now)),
            Command::Rollback { groups, all_started, at_once } => self.roll_back(groups, *all_started, *at_once, now),
            Command::Halt { groups, all } => self.halt(groups, *all, now),
            Command::Run { groups, all } => self.run(groups, *all, fleet, now),
            Command::Approve { groups, digest } => {
                let id = self.rollout.as_ref().map_or(0, |rollout| rollout.id);
                self.each(groups, |group, _, _| group.approve(digest.as_deref(), id))
            }
            Command::Gate { group, answer } => {
                self.each(std::slice::from_ref(group), |group, _, _| group.take_answer(*answer))
            }
        }
    }

    /// Suspended or disabled, nothing starts (FLEET §3).
    fn may_start(&self) -> Result<(), Refusal> {
        let word = match self.rollout.as_ref().map(|rollout| rollout.mode) {
            Some(Mode::Suspended) => "suspended",
            Some(Mode::Disabled) => "disabled",
            Some(Mode::Enabled) | None => return Ok(()),
        };
        let message = format!(
            "the mode is {word}, nothing starts: set `mode: enabled` in autoupdate_config and autoupdate_version first"
        );
        refuse("conflict", message)
    }

    /// Does something to each named group.
    fn each(
        &mut self,
        names: &[String],
        mut act: impl FnMut(&mut GroupStatus, &str, Strategy) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let rollout = self.with_groups()?;
        if names.is_empty() {
            return refuse("bad_request", "no groups specified");
        }
        let strategy = rollout.strategy;
        for name in names.iter().collect::<BTreeSet<_>>() {
            let group = rollout.named_group(name)?;
            act(group, name, strategy)?;
        }
        Ok(())
    }

    /// The rollout, if it has groups.
    fn with_groups(&mut self) -> Result<&mut Rollout, Refusal> {
        let Some(rollout) = &mut self.rollout else {
            return refuse("no_rollout", "there is no rollout: write an autoupdate_version first");
        };
        if rollout.schedule == Schedule::Immediate {
            return refuse(
                "bad_request",
                "rollout schedule is immediate, it has no groups: every host updates to the target version at once",
            );
        }
        if rollout.groups.is_empty() {
            return refuse("bad_request", "rollout has no groups");
        }
        Ok(rollout)
    }

    fn roll_back(&mut self, groups: &[String], all: bool, at_once: bool, now: Timestamp) -> Result<(), Refusal> {
        if all != groups.is_empty() {
            return refuse("bad_request", "name groups, or all started groups, and not both");
        }
        self.may_go_back()?;
        let rollout = self.with_groups()?;
        let started = rollout.groups.iter().filter(|group| group.has_begun()).map(|group| group.policy.name.clone());
        let names: Vec<String> = if all { started.collect() } else { groups.to_vec() };
        if names.is_empty() {
            return refuse("already_exists", "no groups to rollback");
        }
        let stays = |group: &&GroupStatus| names.contains(&group.policy.name) && !rollout.has_way_back(group);
        if let Some(group) = rollout.groups.iter().find(stays) {
            let name = &group.policy.name;
            return refuse(
                "conflict",
                format!("{name} has no version to go back to: give its entry of the directive a start_version"),
            );
        }
        self.each(&names, |group, name, strategy| match (group.state, strategy) {
            (_, Strategy::TimeBased) => not_by_hand(),
            (State::RolledBack, _) => already(name, "rolled back"),
            _ => {
                group.roll_back("manual_rollback", at_once, now);
                Ok(())
            }
        })
    }

    fn halt(&mut self, groups: &[String], all: bool, now: Timestamp) -> Result<(), Refusal> {
        if all != groups.is_empty() {
            return refuse("bad_request", "name groups, or all, and not both");
        }
        if all {
            self.holds.hold_all(HaltCause::Operator);
            for group in self.rollout.iter_mut().flat_map(|rollout| &mut rollout.groups) {
                group.halt_by_decision(HaltRule::ManualHalt, now);
            }
            return Ok(());
        }
        self.each(groups, |group, _, _| {
            group.halt_by_decision(HaltRule::ManualHalt, now);
            Ok(())
        })?;
        for name in groups {
            self.holds.hold(name);
        }
        self.note_members();
        Ok(())
    }

    /// Nobody is sent to a target that is blocked.
    fn not_blocked(&self) -> Result<(), Refusal> {
        let (Some(reason), Some(Rollout { target, .. })) = (&self.blocked, &self.rollout) else { return Ok(()) };
        let message = format!(
            "{target} is blocked by its fleet_release ({reason}): take `blocked` out of it, or give another target"
        );
        refuse("conflict", message)
    }

    /// Nobody is sent back to a version that is blocked.
    fn may_go_back(&self) -> Result<(), Refusal> {
        let Some(Rollout { start, .. }) = &self.rollout else { return Ok(()) };
        let Some(reason) = self.block_of(start) else { return Ok(()) };
        let message = format!(
            "{start} is blocked by its fleet_release ({reason}), nobody is sent back to it: name another start_version in \
             autoupdate_version, or take `blocked` out of it"
        );
        refuse("conflict", message)
    }

    fn run(&mut self, groups: &[String], all: bool, fleet: &Fleet, now: Timestamp) -> Result<(), Refusal> {
        self.not_blocked()?;
        if all != groups.is_empty() {
            return refuse("bad_request", "name groups, or all, and not both");
        }
        if all {
            return self.run_all(now);
        }
        // A held group that the rollout does not have, or without a rollout: only its hold ends.
        let is_here = |name: &&String| self.rollout.as_ref().is_some_and(|rollout| rollout.find(name).is_some());
        let is_orphan = |name: &&String| self.holds.groups.contains(*name) && !is_here(name);
        let here: Vec<String> = groups.iter().filter(|name| !is_orphan(name)).cloned().collect();
        let held: BTreeSet<String> = here.iter().filter(|name| self.holds.has(name)).cloned().collect();
        let may_start = self.may_start();
        if !here.is_empty() {
            self.each(&here, |group, name, strategy| match group.state {
                State::Halted => {
                    group.resume(now);
                    Ok(())
                }
                // A hold that keeps nobody, or keeps a rollback: it ends, and nothing else.
                _ if held.contains(name) => Ok(()),
                State::Unstarted | State::RolledBack => {
                    may_start.clone()?;
                    group.trigger(StartedBy::default(), strategy, fleet, now)
                }
                // Those that failed try again.
                State::Active if group.is_stuck() && strategy != Strategy::TimeBased => {
                    may_start.clone()?;
                    group.try_again(now);
                    group.note(State::Active, "manual_run", now);
                    Ok(())
                }
                State::Canary | State::Active => already(name, "started"),
                State::Done => already(name, "done"),
            })?;
        }
        for name in groups {
            self.holds.release(name);
        }
        Ok(())
    }

    /// Ends what stopped everything. What else stops a group has a name of its own, but in a rollout without groups to name.
    fn run_all(&mut self, now: Timestamp) -> Result<(), Refusal> {
        let was_held = self.holds.release_all();
        let has_names = self.rollout.as_ref().is_none_or(|rollout| rollout.schedule != Schedule::Immediate);
        let holds = &self.holds;
        let groups = self.rollout.iter_mut().flat_map(|rollout| &mut rollout.groups);
        let mut others = Vec::new();
        for group in groups {
            let Some(rule) = group.halt.as_ref().map(|halt| halt.rule) else { continue };
            if !was_held && !has_names {
                group.resume(now);
                return Ok(());
            }
            if rule.is_of_hold() && !holds.groups.contains(&group.policy.name) {
                group.go_on(now);
            } else {
                others.push(group.policy.name.as_str());
            }
        }
        others
            .extend(holds.groups.iter().map(String::as_str).filter(|name| !others.contains(name)).collect::<Vec<_>>());
        match others.as_slice() {
            _ if was_held => Ok(()),
            [] => refuse("already_exists", "nothing is halted"),
            others => {
                let others = others.join(" ");
                let message =
                    format!("everything is not held; to end a halt, name its group: `autoupdate agents run {others}`");
                refuse("already_exists", message)
            }
        }
    }
}

impl Rollout {
    fn named_group(&mut self, name: &str) -> Result<&mut GroupStatus, Refusal> {
        if name.is_empty() {
            return refuse("bad_request", "a group's name is empty");
        }
        let names: Vec<&str> = self.groups.iter().map(|group| group.policy.name.as_str()).collect();
        let message = format!("there is no group {name:?} in the rollout: it has {}", names.join(", "));
        let found = self.find(name).and_then(|index| self.groups.get_mut(index));
        found.ok_or(Refusal { code: "not_found", message })
    }
}

fn already<T>(name: &str, what: &str) -> Result<T, Refusal> {
    refuse("already_exists", format!("group {name} is already {what}"))
}

fn halted<T>(name: &str) -> Result<T, Refusal> {
    refuse("conflict", format!("group {name} is halted: end that with `autoupdate agents run {name}`"))
}

fn frozen<T>(name: &str, freeze: &Blackout, end: Timestamp) -> Result<T, Refusal> {
    let reason = if freeze.reason.is_empty() { String::new() } else { format!(" ({})", freeze.reason) };
    let message = format!(
        "a freeze keeps group {name} until {end}{reason}: start it in spite of that with `autoupdate agents start-update {name} \
         --ignore-blackout`, or with --force, which leaves out the canaries too"
    );
    refuse("conflict", message)
}

fn not_by_hand<T>() -> Result<T, Refusal> {
    let message = "manual group state transition is not supported for rollout strategy \"time-based\"";
    refuse("bad_request", message)
}

/// What a start before its time passes over.
#[derive(Debug, Clone, Copy, Default)]
struct StartedBy {
    force: bool,
    ignore_blackout: bool,
}

impl GroupStatus {
    fn trigger(&mut self, by: StartedBy, strategy: Strategy, fleet: &Fleet, now: Timestamp) -> Result<(), Refusal> {
        let name = self.policy.name.clone();
        let passes = by.force || by.ignore_blackout;
        let is_behind = matches!(self.reason.why, Why::PreviousGroupsNotDone { .. });
        match (self.state, strategy) {
            (_, Strategy::TimeBased) => return not_by_hand(),
            (State::Halted, _) => return halted(&name),
            (State::Canary, _) if by.force => {
                (self.forced, self.started_by_hand) = (Some(now), Some(now));
                self.enter(State::Active, "manual_trigger", now);
                return Ok(());
            }
            // It was started before what keeps its hosts now: a freeze, or by force a group before it that was stopped.
            (State::Canary | State::Active, _) if passes && self.blackout(now).is_some() || by.force && is_behind => {
                (self.forced, self.started_by_hand) = (Some(now), by.force.then_some(now).or(self.started_by_hand));
                return Ok(());
            }
            (State::Canary | State::Active, _) => return already(&name, "started"),
            (State::Done, _) => return already(&name, "done"),
            (State::RolledBack, _) => {
                self.may_begin()?;
                self.turn_round(now);
                self.try_again(now);
            }
            (State::Unstarted, _) => self.may_begin()?,
        }
        let freezes = &self.policy.gate.blackout;
        if let Some(freeze) = blackout_at(freezes, now).filter(|_| !passes) {
            return frozen(&name, freeze, end_of_blackout(freezes, now));
        }
        (self.forced, self.started_by_hand) = (passes.then_some(now), Some(now));
        self.at_once = false;
        self.start(by.force, "manual_trigger", fleet, now);
        Ok(())
    }

    fn mark_done(&mut self, strategy: Strategy, now: Timestamp) -> Result<(), Refusal> {
        match (self.state, strategy) {
            (_, Strategy::TimeBased) => not_by_hand(),
            (State::Done, _) => already(&self.policy.name.clone(), "done"),
            (before, _) => {
                // Late-comers of a group that is done are let go; those of one that was halted are not.
                if before != State::Halted {
                    self.may_begin()?;
                }
                let is_back = |halt: &Halt| halt.from == State::RolledBack;
                if before == State::RolledBack || self.halt.as_ref().is_some_and(is_back) {
                    self.turn_round(now);
                }
                self.done_while_halted = before == State::Halted;
                if before == State::RolledBack {
                    // How far hosts went back says nothing of the way up.
                    self.restart_passes();
                    self.at_once = false;
                }
                self.halt = None;
                self.enter(State::Done, "manual_forced_done", now);
                Ok(())
            }
        }
    }

    /// A hold that it had no part in has ended: the state before it, in the same attempt, with what failed in that.
    fn go_on(&mut self, now: Timestamp) {
        if let Some(halt) = self.halt.take() {
            self.note(halt.from, "manual_run", now);
        }
    }

    /// Ends a halt: the state before it, with another attempt. One that had not begun waits for its gate again: a stop is no start.
    fn resume(&mut self, now: Timestamp) {
        let from = self.halt.as_ref().map_or(State::Active, |halt| halt.from);
        self.try_again(now);
        if self.gate == Some(GateAnswer::Stop) {
            self.gate = None;
        }
        // Canaries that failed are chosen anew; those that are on the target stay.
        self.canaries.retain(|canary| canary.success);
        self.note(from, "manual_run", now);
    }

    /// An approval is a person's word in a role: no other command stands for it.
    fn may_begin(&self) -> Result<(), Refusal> {
        let Some(role) = self.unapproved().filter(|_| !self.has_begun()) else { return Ok(()) };
        let name = &self.policy.name;
        let message =
            format!("group {name} needs the approval of the role {role} first: `teleport-fleet approve {name}`");
        refuse("conflict", message)
    }

    fn approve(&mut self, seen: Option<&str>, rollout: u128) -> Result<(), Refusal> {
        if self.policy.gate.approval.is_none() {
            let message = format!("group {} needs no approval", self.policy.name);
            return refuse("bad_request", message);
        }
        if seen.is_some_and(|seen| seen != self.shown_digest(rollout)) {
            let message = format!("group {} was changed since you looked: look again", self.policy.name);
            return refuse("conflict", message);
        }
        self.approved = Some(self.digest);
        Ok(())
    }

    fn take_answer(&mut self, answer: GateAnswer) -> Result<(), Refusal> {
        if self.policy.gate.external.is_none() {
            let message = format!("group {} has no external check", self.policy.name);
            return refuse("bad_request", message);
        }
        self.gate = Some(answer);
        Ok(())
    }
}
