//! Runs a plan: the server's engine steps at each full minute, and two seconds after a report that may halt a group.

use fleet_engine::answer::Question;
use fleet_engine::command::Command;
use fleet_engine::fleet::{Fleet, HostChange, HostReport};
use fleet_engine::host::{GroupPlace, Outcome as Became};
use fleet_engine::reason::Why;
use fleet_engine::rollout::{GateAnswer, GroupStatus, Rollout, State};
use jiff::{SignedDuration, Timestamp};
use protocol::report::DEFAULT_INTERVAL;
use protocol::report::code::UNHEALTHY;

use super::hosts::ForecastHosts;
use super::plan::ForecastPlan;
use super::setting::{Setting, setting};
use super::watch::{GroupWatch, GroupWatches};
use super::{Forecast, ServerLoad, later, seconds};
use crate::crowd::HostAct;

/// Between two steps of the engine.
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// Between a report that halts a group and the step that does so (FLEET §3).
const SOON: SignedDuration = SignedDuration::from_secs(2);
/// Nothing has changed for so long: nothing will. Longer than an update may take, and an empty group waits.
const STUCK: SignedDuration = SignedDuration::from_hours(3);
/// Most minutes between two questions: a report interval of the engine. After three of them a host is silent.
const MOST_BETWEEN: i64 = DEFAULT_INTERVAL as i64 / 60;
/// A host that is seen within so many minutes is not silent.
const HEARD: u64 = 3 * DEFAULT_INTERVAL as u64 / 60 - 1;

/// What would happen.
///
/// # Errors
/// The resources are refused, there is no host, or a name in the plan is unknown: one line.
pub fn run(plan: &ForecastPlan) -> Result<Forecast, String> {
    let minutes = plan.every.as_secs() / 60;
    if plan.every.as_secs() % 60 != 0 || !(1..=MOST_BETWEEN).contains(&minutes) {
        return Err(format!("hosts ask every 1m to {MOST_BETWEEN}m, in whole minutes"));
    }
    let setting = setting(plan)?;
    let (hosts, arrives) = ForecastHosts::new(plan, &setting.groups)?;
    let mut world = ForecastWorld::new(plan, setting, hosts);
    for host in arrives {
        world.arrive(&host);
    }
    world.go();
    Ok(world.end())
}

struct ForecastWorld<'a> {
    plan: &'a ForecastPlan,
    setting: Setting,
    fleet: Fleet,
    hosts: ForecastHosts,
    /// Minutes since the beginning.
    minute: u64,
    watch: GroupWatches,
    /// When the engine steps before the next full minute.
    urgent: Option<Timestamp>,
    /// When the clock brings something, while nobody is on the way; `None`: nobody knows.
    next: Option<Timestamp>,
    /// Until this minute nothing can change.
    quiet: Option<u64>,
    /// Some hosts did not reach the server at the last step.
    was_cut: bool,
}

impl<'a> ForecastWorld<'a> {
    fn new(plan: &'a ForecastPlan, setting: Setting, hosts: ForecastHosts) -> Self {
        let load = ServerLoad {
            size: plan.size,
            hosts: u64::try_from(hosts.crowd.members.len()).unwrap_or(u64::MAX),
            every: u64::try_from(plan.every.as_secs()).unwrap_or(0),
            ..ServerLoad::default()
        };
        Self {
            plan,
            watch: GroupWatches::new(setting.begin, load),
            setting,
            fleet: Fleet::default(),
            hosts,
            minute: 0,
            urgent: None,
            next: None,
            quiet: None,
            was_cut: false,
        }
    }

    /// A host is known before the rollout begins, and runs the version before.
    fn arrive(&mut self, host: &super::plan::KnownHost) {
        let id = host.report.host;
        let report =
            HostReport { update_id: !id, version: Some(self.setting.start.to_string()), ..host.report.clone() };
        self.fleet.report(&report, None, self.setting.begin);
        if let Some(group) = &host.assigned {
            self.fleet.assign(id, Some(group), None, self.setting.begin);
        }
        if host.held {
            self.fleet.decide(id, None, self.setting.begin, |flags| flags.held = true);
        }
    }

    fn at(&self, minute: u64) -> Timestamp {
        later(self.setting.begin, minute.saturating_mul(60))
    }

    /// From the beginning to the end.
    fn go(&mut self) {
        self.setting.book.step(&mut self.fleet, self.setting.begin);
        self.place();
        self.look(self.setting.begin);
        let last = u64::try_from(self.plan.length.as_secs() / 60).unwrap_or(0);
        while self.minute < last && !self.is_over() {
            if let Some(quiet) = self.quiet.filter(|quiet| *quiet > self.minute + 1 && self.may_skip()) {
                self.minute = quiet.min(last);
                self.setting.book.listens(self.at(self.minute));
                self.watch.changed = self.at(self.minute);
            }
            self.pass_minute();
        }
        self.watch.is_late = self.minute >= last;
    }

    /// Which host belongs to which group; what belongs to none comes last.
    fn place(&mut self) {
        let Some(rollout) = &self.setting.book.rollout else { return };
        let none = rollout.groups.len();
        for (member, host) in self.hosts.crowd.members.iter_mut().zip(self.fleet.hosts()) {
            member.group = match host.place {
                GroupPlace::Group(index) => usize::from(index),
                GroupPlace::Ungrouped | GroupPlace::Nowhere => none,
            };
        }
        let is_ungrouped = self.fleet.hosts().iter().any(|host| host.place == GroupPlace::Ungrouped);
        self.watch.begin(rollout, &self.hosts.crowd.members, is_ungrouped);
    }

    fn pass_minute(&mut self) {
        let from = self.at(self.minute);
        let is_paused = self.quiet.is_some_and(|quiet| quiet > self.minute + 1);
        // Hosts of a group that waits for its hours only show that they are there.
        let rounds = (HEARD / self.hosts.cycle()).max(1);
        let asks = !is_paused || (self.minute / self.hosts.cycle()).is_multiple_of(rounds);
        if asks {
            for (second, who) in self.hosts.turns(self.minute).to_vec() {
                let at = from + SignedDuration::from_secs(i64::from(second));
                self.pass(at);
                self.ask(usize::try_from(who).unwrap_or(usize::MAX), at);
            }
        }
        let to = from.saturating_add(MINUTE).unwrap_or(Timestamp::MAX);
        self.pass(to);
        self.minute += 1;
        if self.is_down(to) {
            return;
        }
        if is_paused {
            self.setting.book.listens(to);
        } else {
            self.step(to);
        }
    }

    /// What happens until `to`.
    fn pass(&mut self, to: Timestamp) {
        loop {
            let next = self.hosts.crowd.next().filter(|next| *next <= to);
            if let Some(urgent) = self.urgent.filter(|urgent| *urgent <= next.unwrap_or(to)) {
                self.step(urgent);
                continue;
            }
            if next.is_none() {
                return;
            }
            if let Some((at, who, does)) = self.hosts.crowd.take() {
                self.act(who, does, at);
            }
        }
    }

    fn step(&mut self, at: Timestamp) {
        self.urgent = None;
        let mut cuts = self.plan.down.iter().chain(self.plan.cuts.iter().map(|cut| &cut.span));
        let since = at.duration_since(self.setting.begin);
        let is_cut = cuts.any(|span| (span.from..span.to).contains(&since));
        if std::mem::replace(&mut self.was_cut, is_cut) {
            self.setting.book.starts(at);
        }
        // Hosts that have nothing more to tell do not ask here.
        if !is_cut {
            self.setting.book.listens(at);
        }
        self.setting.book.step(&mut self.fleet, at);
        self.look(at);
    }

    /// Sees what the step did; gives approvals, of which the simulation has plenty.
    fn look(&mut self, at: Timestamp) {
        let Some(rollout) = &self.setting.book.rollout else { return };
        self.watch.look(rollout, at);
        self.next = self.next_change(rollout);
        self.quiet = self.next.and_then(|next| self.quiet_until(next, at));
        let command = |group: &GroupStatus| {
            let name = group.policy.name.clone();
            let (command, what) = match group.reason.why {
                Why::Approval { .. } => (Command::Approve { groups: vec![name.clone()], digest: None }, "its approval"),
                Why::Gate { .. } => {
                    (Command::Gate { group: name.clone(), answer: GateAnswer::Go }, "its external check")
                }
                _ => return None,
            };
            Some((name, command, what))
        };
        for (name, command, what) in rollout.groups.iter().filter_map(command).collect::<Vec<_>>() {
            if self.setting.book.command(&command, &self.fleet, at).is_ok() {
                self.setting.notes.push(format!("{name} asked for {what}: given at once"));
                (self.next, self.quiet, self.watch.changed) = (None, None, at);
            }
        }
    }

    fn is_moving(&self, rollout: &Rollout) -> bool {
        rollout.groups.iter().any(|group| group.tally.in_flight() > 0) || self.watch.waits_without_group()
    }

    /// When something changes at the earliest: nobody is on the way, and the clock decides. `None`: hosts or people do.
    fn next_change(&self, rollout: &Rollout) -> Option<Timestamp> {
        if self.is_moving(rollout) {
            return None;
        }
        let waits = rollout.groups.iter().filter(|group| !self.watch.is_over(group));
        waits.filter_map(|group| group.reason.until).chain(self.hosts.crowd.next()).min()
    }

    /// Until which minute nothing can change. Every host is seen once between that and the `next` change.
    fn quiet_until(&self, next: Timestamp, now: Timestamp) -> Option<u64> {
        let minutes = seconds(self.setting.begin, next) / 60;
        let quiet = minutes.saturating_sub(self.hosts.cycle() + 5);
        (self.at(quiet) > now).then_some(quiet)
    }

    /// Whether hosts that are not seen meanwhile lose nothing: no group is under way.
    fn may_skip(&self) -> bool {
        let is_at_rest = |state| matches!(state, State::Unstarted | State::Done | State::Halted);
        self.setting.book.rollout.iter().flat_map(|rollout| &rollout.groups).all(|group| is_at_rest(group.state))
    }

    fn is_over(&self) -> bool {
        let Some(rollout) = &self.setting.book.rollout else { return true };
        let now = self.at(self.minute);
        if self.is_moving(rollout) || self.hosts.crowd.next().is_some() {
            return false;
        }
        let has_halted = rollout.groups.iter().any(|group| group.state == State::Halted);
        let is_final = |group: &GroupStatus| {
            self.watch.is_over(group) || (has_halted && group.state == State::Unstarted && group.reason.until.is_none())
        };
        if rollout.groups.iter().all(is_final) {
            return true;
        }
        self.next.is_none() && now.duration_since(self.watch.changed) > STUCK
    }

    fn is_down(&self, at: Timestamp) -> bool {
        self.back_at(0, at).is_some()
    }

    /// When a host with these cuts reaches the server again; `None`: it does now.
    fn back_at(&self, cuts: u64, at: Timestamp) -> Option<Timestamp> {
        let since = at.duration_since(self.setting.begin);
        let of_cut = (0_u32..64).zip(&self.plan.cuts).filter(|(nth, _)| cuts >> nth & 1 == 1).map(|(_, cut)| &cut.span);
        let spans = self.plan.down.iter().chain(of_cut);
        let ends = spans.filter(|span| (span.from..span.to).contains(&since)).map(|span| span.to);
        self.setting.begin.saturating_add(ends.max()?).ok()
    }

    fn ask(&mut self, who: usize, at: Timestamp) {
        let Some(member) = self.hosts.crowd.members.get(who) else { return };
        let is_away = member.is_dead || member.is_busy || self.back_at(member.cuts, at).is_some();
        if is_away || !self.watch.wants(member.group, member.on_target) {
            return;
        }
        let question = Question { host: Some(member.id), ..Question::default() };
        let Some(answer) = self.setting.book.ask(&mut self.fleet, &question, at).filter(|answer| answer.update) else {
            return;
        };
        let goes_back = answer.version != self.setting.target;
        if member.on_target != goes_back {
            return;
        }
        if !goes_back && member.refuses == answer.attempt {
            self.refuse(who, at);
            return;
        }
        let wait = self.hosts.crowd.jitter(who, answer.rollout, answer.jitter);
        let Some(member) = self.hosts.crowd.members.get_mut(who) else { return };
        (member.is_busy, member.goes_back) = (true, goes_back);
        if !std::mem::replace(&mut member.was_told, true) {
            self.watch.of(member.group, |watched| watched.seen.told += 1);
        }
        self.hosts.crowd.plan(who, HostAct::Start, at + wait);
    }

    /// It is told to try again what failed here: it says once that it does not.
    fn refuse(&mut self, who: usize, at: Timestamp) {
        let Some(member) = self.hosts.crowd.members.get_mut(who) else { return };
        let group = member.group;
        if !std::mem::replace(&mut member.has_refused, true) {
            self.report(who, Some(Became::Refused), at);
            self.fails(group, at);
        }
    }

    fn act(&mut self, who: usize, does: HostAct, at: Timestamp) {
        let Some(member) = self.hosts.crowd.members.get(who).cloned() else { return };
        let length = self.plan.update_in;
        if does == HostAct::Start {
            self.watch.load.count(self.setting.begin, at, u64::from(!member.goes_back), 0);
            if !member.vanishes || member.goes_back {
                self.hosts.crowd.plan(who, HostAct::Switch, at + length / 2);
                self.hosts.crowd.plan(who, HostAct::End, at + length);
            }
        }
        if let Some(back) = self.back_at(member.cuts, at) {
            // It tells its news with its first question after that.
            let later = SignedDuration::from_secs(i64::try_from(who % 60).unwrap_or(0));
            let does = if does == HostAct::Start { HostAct::ReportStart } else { does };
            self.hosts.crowd.plan(who, does, back + later);
            return;
        }
        match does {
            HostAct::Start | HostAct::ReportStart => {
                self.report(who, Some(Became::Started), at);
                if member.vanishes && !member.goes_back {
                    self.hit(who, |watched| watched.seen.lost += 1);
                    self.hosts.crowd.change(who, |member| member.is_dead = true);
                }
            }
            HostAct::Switch => self.report(who, Some(Became::Switched), at),
            HostAct::End => self.finish(who, at),
            HostAct::Break => self.break_down(who, at),
            // They ask by turns.
            HostAct::Ask => {}
        }
    }

    /// Counts a host that is hit, once.
    fn hit(&mut self, who: usize, count: impl FnOnce(&mut GroupWatch)) {
        let Some(member) = self.hosts.crowd.members.get_mut(who) else { return };
        let group = member.group;
        if !std::mem::replace(&mut member.was_hit, true) {
            self.watch.of(group, count);
        }
    }

    fn attempt(&self, group: usize) -> u32 {
        let group = self.setting.book.rollout.as_ref().and_then(|rollout| rollout.groups.get(group));
        group.map_or(1, |group| group.attempt)
    }

    /// The outcome of a change.
    fn finish(&mut self, who: usize, at: Timestamp) {
        let Some(member) = self.hosts.crowd.members.get(who).cloned() else { return };
        let breaks_at_once = member.is_bad && self.plan.bad_after.is_zero() && !member.goes_back;
        let is_there = !breaks_at_once && !member.goes_back;
        let attempt = self.attempt(member.group);
        self.hosts.crowd.change(who, |member| {
            member.on_target = is_there;
            if breaks_at_once {
                member.refuses = attempt;
            }
        });
        let became = if breaks_at_once { Became::RolledBack } else { Became::Updated };
        self.report(who, Some(became), at);
        self.hosts.crowd.change(who, |member| member.is_busy = false);
        match (is_there, member.on_target) {
            (true, false) => self.watch.of(member.group, |watched| watched.seen.updated += 1),
            (false, true) => self.watch.of(member.group, |watched| watched.seen.updated -= 1),
            _ => {}
        }
        if breaks_at_once {
            self.hit(who, |watched| watched.seen.broken += 1);
            self.fails(member.group, at);
        } else if is_there && member.is_bad {
            self.hosts.crowd.plan(who, HostAct::Break, at + self.plan.bad_after);
        }
    }

    /// It was updated, and breaks now.
    fn break_down(&mut self, who: usize, at: Timestamp) {
        let Some(member) = self.hosts.crowd.members.get(who).cloned() else { return };
        if !member.on_target || member.is_busy {
            return;
        }
        let attempt = self.attempt(member.group);
        self.hosts.crowd.change(who, |member| (member.on_target, member.refuses) = (false, attempt));
        self.watch.of(member.group, |watched| watched.seen.updated -= 1);
        self.report(who, Some(Became::RolledBack), at);
        self.hit(who, |watched| watched.seen.broken += 1);
        self.fails(member.group, at);
    }

    /// The engine steps soon where a failure may halt the group.
    fn fails(&mut self, group: usize, at: Timestamp) {
        self.watch.of(group, |watched| watched.new_failures += 1);
        let new = self.watch.groups.get(group).map_or(0, |watched| watched.new_failures);
        let Some(group) = self.setting.book.rollout.as_ref().and_then(|rollout| rollout.groups.get(group)) else {
            return;
        };
        let (tally, proof) = (&group.tally, &group.policy.proof);
        let (failed, ended) = (tally.counted_failed + new, tally.counted_ended + new);
        let is_many = failed >= u64::from(proof.min_failed)
            && (proof.max_failed.is_exceeded(failed, tally.counted)
                || (ended >= u64::from(proof.min_ended) && proof.max_failed_of_ended.is_exceeded(failed, ended)));
        let soon = at + SOON;
        if group.state.has_started() && (is_many || group.state == State::Canary) && !self.is_down(soon) {
            self.urgent = self.urgent.or(Some(soon));
        }
    }

    fn report(&mut self, who: usize, became: Option<Became>, at: Timestamp) {
        let Some(member) = self.hosts.crowd.members.get(who) else { return };
        let (on_target, goes_back) = (member.on_target, member.goes_back && member.is_busy);
        let version = if on_target { &self.setting.target } else { &self.setting.start };
        let to = if goes_back { &self.setting.start } else { &self.setting.target };
        let code = if became.is_some_and(Became::is_failure) { UNHEALTHY } else { "" };
        let report = HostReport {
            host: member.id,
            version: Some(version.to_string()),
            last: became.map(|outcome| HostChange { outcome, to: to.to_string(), code: code.to_owned() }),
            ..HostReport::default()
        };
        self.watch.load.count(self.setting.begin, at, 0, 1);
        self.fleet.report(&report, self.setting.book.rollout.as_ref(), at);
    }

    fn end(self) -> Forecast {
        let at_risk = self.hosts.crowd.members.iter().filter(|member| member.is_bad || member.vanishes).count();
        let end = self.at(self.minute);
        let (outcome, groups) = self.watch.end(self.setting.book.rollout.as_ref());
        Forecast {
            versions: (self.setting.start.to_string(), self.setting.target.to_string()),
            begin: self.setting.begin,
            decided: self.watch.decided,
            end,
            outcome,
            groups,
            hosts: u64::try_from(self.hosts.crowd.members.len()).unwrap_or(u64::MAX),
            at_risk: u64::try_from(at_risk).unwrap_or(u64::MAX),
            spans: self.spans().into_iter().filter(|(_, from, _)| *from < end).collect(),
            load: self.watch.load,
            notes: self.setting.notes,
            seed: self.plan.seed,
        }
    }

    fn spans(&self) -> Vec<(String, Timestamp, Timestamp)> {
        let at = |length: SignedDuration| self.setting.begin.saturating_add(length).unwrap_or(Timestamp::MAX);
        let down = self.plan.down.iter().map(|span| ("server down".to_owned(), at(span.from), at(span.to)));
        let cuts = self.plan.cuts.iter().map(|cut| ("network cut".to_owned(), at(cut.span.from), at(cut.span.to)));
        down.chain(cuts).collect()
    }
}
