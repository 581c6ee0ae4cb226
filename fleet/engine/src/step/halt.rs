//! What stops a group.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::fleet::Fleet;
use crate::host::{Host, NamedHost};
use crate::moment::Moment;
use crate::policy::OnHalt;
use crate::reason::HaltRule;
use crate::rollout::{GateAnswer, GroupStatus, Halt, Rollout, State};
use crate::rollout_state::{Holds, MOST_LOST};
use crate::tally::{BY_HAND, HostState, TallyContext};

/// Hosts that report a failure before a group goes back by itself: one may lie, or be broken.
const LEAST_REPORTED: u64 = 2;

impl Rollout {
    /// Halts groups whose thresholds are exceeded, whose canaries failed, or whose external check said stop.
    pub(super) fn halt(&mut self, holds: &Holds, fleet: &Fleet, now: Timestamp) {
        for index in 0..self.groups.len() {
            let Some(group) = self.groups.get(index) else { continue };
            let no_way_back = self.start_block_of(group).is_some() || !self.has_way_back(group);
            let stops = || self.canary_failed(index, fleet, now).or_else(|| group.exceeds());
            let Some((rule, count, of)) = stops().or_else(|| group.halted_by_failures(holds)) else { continue };
            let error = self.commonest_error(index, fleet, now);
            let hosts = self.sample(index, rule, fleet, now);
            let sample = hosts.iter().map(|named| named.host.clone()).collect();
            let Some(group) = self.groups.get_mut(index) else { continue };
            // Neither silence nor another version sends anybody back, nor does one host all others.
            let reported = group.tally.counted_reported;
            let by_reports = match rule {
                _ if reported < LEAST_REPORTED => false,
                HaltRule::CanaryFailed => true,
                _ => rule.is_of_failures() && group.fails(reported).is_some(),
            };
            let goes_back = by_reports && group.policy.proof.on_halt == OnHalt::Rollback;
            if goes_back && !no_way_back {
                group.roll_back(rule.name(), false, now);
            } else if let Some(halt) = group.halt.as_mut().filter(|_| group.state == State::Halted) {
                halt.no_way_back |= goes_back;
            } else {
                let no_way_back = goes_back && no_way_back;
                let from = group.state;
                group.stop(Halt { rule, count, of, error, sample, hosts, no_way_back, at: now, from });
            }
        }
    }

    fn canary_failed(&self, index: usize, fleet: &Fleet, now: Timestamp) -> Option<(HaltRule, u64, u64)> {
        let group = self.groups.get(index).filter(|group| group.state == State::Canary)?;
        let look = TallyContext::new(self, group, fleet, now);
        let has_failed = |host: &Host| look.has_failed(host);
        let failed = group.canaries.iter().filter(|canary| fleet.host(canary.host_id).is_some_and(has_failed)).count();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        (failed > 0).then(|| (HaltRule::CanaryFailed, count(failed), count(group.canaries.len())))
    }

    /// The first few of the hosts by which `rule` is broken.
    fn sample(&self, index: usize, rule: HaltRule, fleet: &Fleet, now: Timestamp) -> Vec<NamedHost> {
        let Some(group) = self.groups.get(index) else { return Vec::new() };
        let look = TallyContext::new(self, group, fleet, now);
        let breaks = |host: &&Host| match (rule, look.state(host)) {
            (HaltRule::FailedThreshold | HaltRule::SoakFailed, HostState::Failed)
            | (HaltRule::TimeoutThreshold, HostState::TimedOut) => look.is_counted(host),
            (HaltRule::ChurnThreshold, state) => look.is_counted(host) && look.has_churned(host, state),
            (HaltRule::CanaryFailed, HostState::Failed | HostState::TimedOut) => group.is_canary(host.id),
            _ => false,
        };
        let mut hosts: Vec<_> = fleet.members(index).filter(breaks).collect();
        hosts.sort_unstable_by_key(|host| host.id);
        hosts.truncate(Halt::SAMPLE);
        hosts.into_iter().map(|host| fleet.named(host)).collect()
    }

    fn commonest_error(&self, index: usize, fleet: &Fleet, now: Timestamp) -> Option<String> {
        let group = self.groups.get(index)?;
        let look = TallyContext::new(self, group, fleet, now);
        let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
        // Who does not count says nothing of why it stopped: anybody may report what he likes.
        let has_failed = |host: &&Host| look.is_counted(host) && look.state(host) == HostState::Failed;
        for host in fleet.members(index).filter(has_failed) {
            let code = fleet.names.text(look.failure_code(host));
            *codes.entry(code).or_default() += 1;
        }
        // Of whom somebody sent back it is said where it is so of all.
        let is_all = codes.len() == 1;
        let errors = codes.into_iter().filter(|(code, _)| !code.is_empty() && (is_all || *code != BY_HAND));
        let first = errors.max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(a.0)));
        first.map(|(code, _)| code.to_owned())
    }
}

impl GroupStatus {
    /// The rule that is broken, how many hosts break it, and of how many.
    fn exceeds(&self) -> Option<(HaltRule, u64, u64)> {
        let is_stopped = self.gate == Some(GateAnswer::Stop);
        if is_stopped && (self.state == State::Unstarted || self.state.has_started()) {
            return Some((HaltRule::GateStopped, 0, 0));
        }
        if !self.state.has_started() || self.done_while_halted {
            return None;
        }
        let tally = &self.tally;
        let times_out = self.policy.proof.max_timeout.is_exceeded(tally.counted_timed_out, tally.counted);
        let by_time = || times_out.then_some((HaltRule::TimeoutThreshold, tally.counted_timed_out, tally.counted));
        let proof = &self.policy.proof;
        let churned = tally.counted_churned;
        let is_churned =
            churned >= u64::from(proof.min_churned) && proof.max_churned.is_exceeded(churned, tally.counted);
        let by_churn = || is_churned.then_some((HaltRule::ChurnThreshold, churned, tally.counted));
        self.fails(tally.counted_failed).or_else(by_time).or_else(by_churn)
    }

    /// By which rule of failures it is halted that goes back once a second host has reported one, where no operator holds it.
    fn halted_by_failures(&self, holds: &Holds) -> Option<(HaltRule, u64, u64)> {
        let halt = self.halt.as_ref().filter(|_| self.state == State::Halted && !holds.has(&self.policy.name))?;
        halt.rule.is_of_failures().then_some((halt.rule, halt.count, halt.of))
    }

    /// The same, were so many hosts failed.
    fn fails(&self, failed: u64) -> Option<(HaltRule, u64, u64)> {
        let (tally, proof) = (&self.tally, &self.policy.proof);
        let rule = if self.state == State::Done { HaltRule::SoakFailed } else { HaltRule::FailedThreshold };
        if failed < u64::from(proof.min_failed) {
            return None;
        }
        if proof.max_failed.is_exceeded(failed, tally.counted) {
            return Some((rule, failed, tally.counted));
        }
        let is_judged = tally.counted_ended >= u64::from(proof.min_ended);
        let exceeds = is_judged && proof.max_failed_of_ended.is_exceeded(failed, tally.counted_ended);
        exceeds.then_some((rule, failed, tally.counted_ended))
    }

    /// Nobody is allowed to update any more.
    pub(crate) fn stop(&mut self, halt: Halt) {
        self.note(State::Halted, halt.rule.name(), halt.at);
        self.halt = Some(halt);
    }

    /// A hold or the block of its release stops it, by `rule`. One that is closed tells nobody anyway, and others may wait for it.
    pub(crate) fn halt_by_decision(&mut self, rule: HaltRule, now: Timestamp) {
        if self.state == State::Halted || self.done_while_halted {
            return;
        }
        self.stop(Halt::decided(rule, now, self.state));
    }

    /// Another attempt: what failed before counts no more.
    pub(crate) fn try_again(&mut self, now: Timestamp) {
        self.attempt += 1 + if std::mem::take(&mut self.attempts_lost) { MOST_LOST } else { 0 };
        // What was reported in this very second belongs to the attempt before.
        self.attempt_began = Moment::of(now).after(1);
        (self.retry_cursor, self.halt, self.done_while_halted) = (None, None, false);
    }

    /// Those that were told or run the target go back.
    pub(crate) fn roll_back(&mut self, reason: &str, at_once: bool, now: Timestamp) {
        self.turn_round(now);
        self.try_again(now);
        self.note(State::RolledBack, reason, now);
        // They go back as all others do, and are no proof any more.
        self.canaries.clear();
        self.restart_passes();
        (self.at_once, self.forced) = (at_once, None);
    }
}
