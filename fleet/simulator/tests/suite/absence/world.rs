//! Hosts as they live: each asks every ten minutes while it is on, obeys, and reports; the server may be down, its network cut, and
//! strangers may ask.

use std::collections::BTreeMap;

use fleet_engine::answer::Question;
use fleet_engine::command::Command;
use fleet_engine::fleet::{Fleet, HostChange, HostReport};
use fleet_engine::host::{HostId, Outcome};
use fleet_engine::resource_set::ResourceSet;
use fleet_engine::rollout::{GroupStatus, State};
use fleet_engine::rollout_state::RolloutState;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The first minute, a Monday; groups may start from noon on.
pub(crate) const BEGINS: &str = "2026-01-05T08:00:00Z";
pub(crate) const DAY: i64 = 24 * 60;
/// Minutes from the beginning until the first window opens.
pub(crate) const NOON: i64 = 4 * 60;
const OLD: &str = "1.0.0";
pub(crate) const NEW: &str = "2.0.0";
/// Strangers' hosts begin here.
const STRANGER: HostId = 1 << 64;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Dialect {
    V2,
    Rfd0169,
}

pub(crate) const DIALECTS: [Dialect; 2] = [Dialect::V2, Dialect::Rfd0169];

/// Minutes, from the first to before the second.
pub(crate) type Span = (i64, i64);

/// What goes wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble {
    /// The server does not run; then it starts.
    pub(crate) down: Vec<Span>,
    /// It runs, and no word reaches it.
    pub(crate) cut: Vec<Span>,
    /// A host is switched off.
    pub(crate) off: Vec<(HostId, Span)>,
    /// So many strangers ask each minute, for the group that is named last; each comes back in half an hour.
    pub(crate) strangers: u128,
}

struct Member {
    id: HostId,
    group: String,
    version: &'static str,
    last: Option<(Outcome, &'static str)>,
    /// What it does in the next minutes, seconds from the beginning.
    plan: Vec<(i64, Outcome)>,
    /// The release breaks it.
    breaks: bool,
    pinned: bool,
}

pub(crate) struct World {
    pub(crate) book: RolloutState,
    pub(crate) shelf: ResourceSet,
    pub(crate) fleet: Fleet,
    members: Vec<Member>,
    trouble: Trouble,
    minute: i64,
    /// Enrolled hosts that were told to update, in order.
    pub(crate) told: Vec<HostId>,
    /// Strangers that were.
    pub(crate) told_strangers: usize,
    /// The first minute at which somebody of a group ran the target; and at which it was started.
    pub(crate) run: BTreeMap<String, i64>,
    pub(crate) started: BTreeMap<String, i64>,
}

fn is_in(spans: &[Span], minute: i64) -> bool {
    spans.iter().any(|(from, to)| (*from..*to).contains(&minute))
}

pub(crate) fn time(seconds: i64) -> Timestamp {
    BEGINS.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

/// Groups of so many hosts, each after the one before it, with these keys more in each.
pub(crate) fn policy(dialect: Dialect, groups: &[(&str, u32)], cap: u8, more: &Value) -> Value {
    let mut list = Vec::new();
    for (index, (name, _)) in groups.iter().enumerate() {
        let mut group = json!({ "name": name, "start_hour": 12, "days": ["*"], "max_in_flight": cap });
        group.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        if dialect == Dialect::Rfd0169 {
            group["agents"] = json!({ "node_labels_expression": format!("labels[\"env\"] == \"{name}\"") });
            group["requires"] = json!(groups[..index].iter().map(|(name, _)| name).collect::<Vec<_>>());
        }
        list.push(group);
    }
    let (kind, spec) = match dialect {
        Dialect::V2 => (
            "autoupdate_config",
            json!({ "agents": { "mode": "enabled", "strategy": "halt-on-error", "schedules": { "regular": list } } }),
        ),
        Dialect::Rfd0169 => (
            "cluster_maintenance_config",
            json!({ "agent_auto_update": true, "agent_auto_update_groups": { "regular": list } }),
        ),
    };
    json!({ "kind": kind, "version": "v1", "spec": spec })
}

impl World {
    /// Hosts of these groups, numbered from 1, in a policy of one host at a time; more keys of each group.
    pub(crate) fn new(dialect: Dialect, groups: &[(&str, u32)], more: &Value, trouble: Trouble) -> Self {
        Self::with_cap(dialect, groups, 1, more, trouble)
    }

    pub(crate) fn with_cap(dialect: Dialect, groups: &[(&str, u32)], cap: u8, more: &Value, trouble: Trouble) -> Self {
        let (mut book, mut shelf) = (RolloutState { seed: 7, ..RolloutState::default() }, ResourceSet::default());
        shelf.put_json(&policy(dialect, groups, cap, more), 1, &mut book).unwrap();
        let spec = match dialect {
            Dialect::V2 => {
                json!({ "agents": { "start_version": OLD, "target_version": NEW, "schedule": "regular", "mode": "enabled" } })
            }
            Dialect::Rfd0169 => {
                json!({ "agent_version": NEW, "agent_start_version": OLD, "agent_version_schedule": "regular" })
            }
        };
        let version = json!({ "kind": "autoupdate_version", "version": "v1", "spec": spec });
        let mut world = Self {
            book,
            shelf,
            fleet: Fleet::default(),
            members: Vec::new(),
            trouble,
            minute: 0,
            told: Vec::new(),
            told_strangers: 0,
            run: BTreeMap::new(),
            started: BTreeMap::new(),
        };
        for (name, count) in groups {
            for _ in 0..*count {
                let id = HostId::try_from(world.members.len()).unwrap() + 1;
                let group = (*name).to_owned();
                let member =
                    Member { id, group, version: OLD, last: None, plan: Vec::new(), breaks: false, pinned: false };
                world.members.push(member);
            }
        }
        // All are there before the version is written.
        for index in 0..world.members.len() {
            world.report(index, time(0));
        }
        world.shelf.put_json(&version, 1, &mut world.book).unwrap();
        world
    }

    pub(crate) fn now(&self) -> Timestamp {
        time(self.minute * 60)
    }

    pub(crate) fn group(&self, name: &str) -> &GroupStatus {
        let rollout = self.book.rollout.as_ref().unwrap();
        &rollout.groups[rollout.find(name).unwrap()]
    }

    pub(crate) fn state(&self, name: &str) -> State {
        self.group(name).state
    }

    pub(crate) fn code(&self, name: &str) -> &'static str {
        self.group(name).reason.why.code()
    }

    pub(crate) fn version(&self, id: HostId) -> &'static str {
        self.members.iter().find(|member| member.id == id).unwrap().version
    }

    pub(crate) fn breaks(&mut self, ids: &[HostId]) {
        self.members.iter_mut().filter(|member| ids.contains(&member.id)).for_each(|member| member.breaks = true);
    }

    /// These run the old version again.
    pub(crate) fn set_back(&mut self, ids: &[HostId]) {
        for member in self.members.iter_mut().filter(|member| ids.contains(&member.id)) {
            (member.version, member.last) = (OLD, None);
        }
    }

    pub(crate) fn pin(&mut self, group: &str) {
        self.members.iter_mut().filter(|member| member.group == group).for_each(|member| member.pinned = true);
    }

    /// What would change the reason of a group is a command that is accepted and carried out.
    pub(crate) fn obey_advice(&mut self, name: &str) {
        let index = self.book.rollout.as_ref().unwrap().find(name).unwrap();
        let advice = self.book.advice(&self.shelf, &self.fleet, index, self.now());
        let Some(fleet_engine::advice::Advice::Command(command)) = advice else { panic!("{advice:?}") };
        self.command(&command);
    }

    pub(crate) fn command(&mut self, command: &Command) {
        let now = self.now();
        self.book.command(command, &self.fleet, now).unwrap();
        self.book.step(&mut self.fleet, now);
    }

    fn report(&mut self, index: usize, now: Timestamp) {
        let member = &self.members[index];
        let change = |(outcome, to): (Outcome, &str)| {
            let code = if outcome.is_failure() { "unhealthy" } else { "" };
            HostChange { outcome, to: to.to_owned(), code: code.to_owned() }
        };
        let report = HostReport {
            host: member.id,
            update_id: !member.id,
            group: Some(member.group.clone()),
            version: Some(member.version.to_owned()),
            labels: Some(BTreeMap::from([("env".to_owned(), member.group.clone())])),
            pinned: Some(member.pinned),
            last: member.last.map(change),
            ..HostReport::default()
        };
        self.fleet.report(&report, self.book.rollout.as_ref(), now);
        if member.version == NEW {
            self.run.entry(member.group.clone()).or_insert(self.minute);
        }
    }

    /// Lets the clock run until a minute after the beginning.
    pub(crate) fn until(&mut self, minute: i64) {
        while self.minute < minute {
            self.pass_minute();
        }
    }

    fn pass_minute(&mut self) {
        let minute = self.minute;
        let is_heard = !is_in(&self.trouble.down, minute) && !is_in(&self.trouble.cut, minute);
        let mut events: Vec<(i64, usize, Option<Outcome>)> = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            let is_off = self.trouble.off.iter().any(|(id, span)| *id == member.id && is_in(&[*span], minute));
            let (now, later) = member.plan.drain(..).partition(|(at, _)| *at < (minute + 1) * 60);
            member.plan = later;
            events.extend(now.into_iter().map(|(at, outcome): (i64, Outcome)| (at, index, Some(outcome))));
            let asks = (minute + i64::try_from(index).unwrap()) % 10 == 0;
            if asks && !is_off && member.plan.is_empty() {
                events.push((minute * 60, index, None));
            }
        }
        events.sort_by_key(|(at, index, _)| (*at, *index));
        for (at, index, outcome) in events {
            self.act(index, at, outcome, is_heard);
        }
        if is_heard {
            self.strangers_ask(minute);
        }
        self.minute += 1;
        self.step();
    }

    fn step(&mut self) {
        let (now, minute) = (self.now(), self.minute);
        if is_in(&self.trouble.down, minute) {
            return;
        }
        if self.trouble.down.iter().any(|(_, to)| *to == minute) {
            self.book.starts(now);
        }
        self.book.step(&mut self.fleet, now);
        let groups = self.book.rollout.as_ref().unwrap().groups.iter();
        for group in groups.filter(|group| group.start_time.is_some()) {
            self.started.entry(group.policy.name.clone()).or_insert(minute);
        }
    }

    fn act(&mut self, index: usize, at: i64, outcome: Option<Outcome>, is_heard: bool) {
        let member = &mut self.members[index];
        if let Some(outcome) = outcome {
            member.last = Some((outcome, NEW));
            if outcome == Outcome::Updated {
                member.version = NEW;
            }
        }
        // What is not heard is told with the next question.
        if !is_heard {
            return;
        }
        self.report(index, time(at));
        if outcome.is_some() {
            return;
        }
        let member = &self.members[index];
        let question = Question { host: Some(member.id), update_id: !member.id, ..Question::default() };
        let answer = self.book.ask(&mut self.fleet, &question, time(at));
        let has_failed = member.last.is_some_and(|(outcome, _)| outcome.is_failure());
        let Some(answer) = answer.filter(|answer| answer.update && !has_failed) else { return };
        if answer.version.to_string() == NEW && member.version == OLD {
            self.told.push(member.id);
            let end = if member.breaks { Outcome::RolledBack } else { Outcome::Updated };
            self.members[index].plan = vec![(at + 10, Outcome::Started), (at + 40, Outcome::Switched), (at + 150, end)];
        }
    }

    /// As the server takes them where anybody may enrol.
    fn strangers_ask(&mut self, minute: i64) {
        let group = self.members.last().unwrap().group.clone();
        let turn = HostId::try_from(minute % 30).unwrap();
        for number in 0..self.trouble.strangers {
            let id = STRANGER + turn * self.trouble.strangers + number;
            let now = time(minute * 60 + 59);
            self.fleet.question(id, Some(&group), id, self.book.rollout.as_ref(), now);
            let question = Question { host: Some(id), group: group.clone(), update_id: id };
            let answer = self.book.answer(&self.fleet, &question, now);
            if answer.is_some_and(|answer| answer.update) {
                self.told_strangers += 1;
                self.fleet.tell(id, self.book.rollout.as_ref().unwrap(), false, now);
            }
        }
    }
}
