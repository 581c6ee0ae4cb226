//! Random policies, fleets and commands, and the scripts that they make.

use std::collections::BTreeSet;
use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// When the policy is written, and when things begin to happen: five minutes before the earliest window.
pub(super) const WRITTEN: &str = "2026-01-05T08:00:00Z";
pub(super) const BEGINS: &str = "2026-01-05T11:50:00Z";
/// Hosts of which every report is a line of the script.
pub(super) const NAMED: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct GroupSpec {
    pub(super) cap: u8,
    pub(super) hour: u8,
    pub(super) canaries: u8,
    pub(super) rate: Option<(u8, u8)>,
    pub(super) requires: Vec<Index>,
    pub(super) max_failed: Option<u8>,
    pub(super) max_timeout: Option<u8>,
    pub(super) failure_seconds: u16,
    pub(super) soak: u8,
    pub(super) rolls_back: bool,
    /// It needs an approval.
    pub(super) approval: bool,
    /// A freeze lasts from 12:30 to 15:00 of the first day.
    pub(super) is_frozen: bool,
    /// Hours of `window_duration`.
    pub(super) hours: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Dialect {
    Rfd0169,
    HaltOnError,
    TimeBased,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Mode {
    Enabled,
    Suspended,
    Disabled,
}

#[derive(Debug, Clone)]
pub(super) enum Op {
    Hosts { count: u8, group: Index, breaks: u8, update_in: u16 },
    Report { host: usize, group: Index, version: u8, outcome: Option<&'static str> },
    Find { host: usize },
    Start { group: Index, force: bool },
    MarkDone { group: Index },
    Rollback { group: Option<Index> },
    Halt { group: Option<Index> },
    Run { group: Option<Index> },
    Approve { group: Index },
    Block { is_blocked: bool },
    Cap { group: Index, cap: u8 },
    Mode(Mode),
    Target { patch: u8, schedule: &'static str },
    Exclude { host: usize, way: usize, is_out: bool },
    Assign { host: usize, group: Option<Index> },
    Wait,
}

#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) dialect: Dialect,
    pub(super) groups: Vec<GroupSpec>,
    /// Made-up hosts of each group at the beginning.
    pub(super) crowd: u8,
    pub(super) breaks: u8,
    pub(super) ops: Vec<(u32, Op)>,
}

pub(super) fn spec() -> impl Strategy<Value = GroupSpec> {
    let pace = (
        prop_oneof![2 => Just(100_u8), 5 => 1_u8..60, 1 => Just(0_u8)],
        select(vec![12_u8, 13, 20]),
        prop_oneof![3 => Just(0_u8), 1 => 1_u8..4],
        prop_oneof![5 => Just(None), 1 => (1_u8..4, 1_u8..4).prop_map(Some)],
    );
    let proof = (
        prop_oneof![1 => Just(None), 2 => (0_u8..=100).prop_map(Some)],
        prop_oneof![1 => Just(None), 2 => (0_u8..=100).prop_map(Some)],
        prop_oneof![2 => Just(0_u16), 1 => 1_u16..900],
        prop_oneof![4 => Just(0_u8), 1 => 1_u8..30],
        prop::bool::weighted(0.2),
    );
    let requires = prop::collection::vec(any::<Index>(), 0..3);
    (pace, requires, proof).prop_map(|(pace, requires, proof)| {
        let (cap, hour, canaries, rate) = pace;
        let (max_failed, max_timeout, failure_seconds, soak, rolls_back) = proof;
        GroupSpec {
            cap,
            hour,
            canaries,
            rate,
            requires,
            max_failed,
            max_timeout,
            failure_seconds,
            soak,
            rolls_back,
            approval: false,
            is_frozen: false,
            hours: None,
        }
    })
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let host = 0..NAMED;
    let some = || prop_oneof![1 => Just(None), 3 => any::<Index>().prop_map(Some)];
    let outcome = select(vec![
        None,
        Some("started"),
        Some("switched"),
        Some("updated"),
        Some("updated"),
        Some("rolled_back"),
        Some("network"),
    ]);
    prop_oneof![
        2 => (1_u8..8, any::<Index>(), select(vec![0_u8, 0, 20, 100]), select(vec![30_u16, 90, 600, 5000]))
            .prop_map(|(count, group, breaks, update_in)| Op::Hosts { count, group, breaks, update_in }),
        8 => (host.clone(), any::<Index>(), 0_u8..4, outcome)
            .prop_map(|(host, group, version, outcome)| Op::Report { host, group, version, outcome }),
        8 => host.clone().prop_map(|host| Op::Find { host }),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(group, force)| Op::Start { group, force }),
        1 => any::<Index>().prop_map(|group| Op::MarkDone { group }),
        1 => some().prop_map(|group| Op::Rollback { group }),
        2 => some().prop_map(|group| Op::Halt { group }),
        2 => some().prop_map(|group| Op::Run { group }),
        2 => (any::<Index>(), 0_u8..=100).prop_map(|(group, cap)| Op::Cap { group, cap }),
        1 => select(vec![Mode::Enabled, Mode::Suspended, Mode::Disabled]).prop_map(Op::Mode),
        1 => (0_u8..4, select(vec!["regular", "regular", "regular", "critical", "immediate"]))
            .prop_map(|(patch, schedule)| Op::Target { patch, schedule }),
        2 => (host.clone(), 0_usize..3, any::<bool>()).prop_map(|(host, way, is_out)| Op::Exclude { host, way, is_out }),
        1 => (host, some()).prop_map(|(host, group)| Op::Assign { host, group }),
        2 => Just(Op::Wait),
    ]
}

pub(super) fn scenario() -> impl Strategy<Value = Scenario> {
    let later = prop_oneof![2 => Just(0_u32), 3 => 1_u32..90, 3 => 120_u32..2400, 1 => 3600_u32..20_000];
    let dialect = select(vec![Dialect::Rfd0169, Dialect::Rfd0169, Dialect::HaltOnError, Dialect::TimeBased]);
    (
        dialect,
        prop::collection::vec(spec(), 1..4),
        0_u8..8,
        select(vec![0_u8, 0, 10, 50]),
        prop::collection::vec((later, op()), 4..30),
    )
        .prop_map(|(dialect, groups, crowd, breaks, ops)| Scenario { dialect, groups, crowd, breaks, ops })
}

/// The same with everything that keeps a group: approvals, freezes, hours, blocked releases.
pub(super) fn gated() -> impl Strategy<Value = Scenario> {
    let gate =
        (prop::bool::weighted(0.3), prop::bool::weighted(0.3), prop_oneof![3 => Just(None), 1 => Just(Some(1_u8))]);
    let more = prop_oneof![
        2 => any::<Index>().prop_map(|group| Op::Approve { group }),
        1 => any::<bool>().prop_map(|is_blocked| Op::Block { is_blocked }),
    ];
    let more = prop::collection::vec((any::<Index>(), 0_u32..2400, more), 0..4);
    (scenario(), prop::collection::vec(gate, 3), more).prop_map(|(mut scenario, gates, more)| {
        for (group, (approval, is_frozen, hours)) in scenario.groups.iter_mut().zip(gates) {
            (group.approval, group.is_frozen, group.hours) = (approval, is_frozen, hours);
        }
        for (place, later, op) in more {
            scenario.ops.insert(place.index(scenario.ops.len()), (later, op));
        }
        scenario
    })
}

/// What a line is to those who check.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// It asks nothing.
    Act,
    /// The same; it is a command on these groups (by index), of this verb.
    Command(&'static str, Vec<usize>),
    /// The caps are these from here on.
    Caps(Vec<u8>),
    /// Updates are on or off from here on.
    Mode(bool),
    /// A question of a host.
    Find(usize),
    /// Which group it is in.
    Explain,
    /// A question of nobody: it tells the number of the rollout.
    Probe,
    Status,
}

/// A script, and what its lines are.
#[derive(Default)]
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) kinds: Vec<Kind>,
}

impl Rendered {
    pub(super) fn line(&mut self, at: Timestamp, action: Value, kind: Kind) {
        let mut line = json!({ "at": at.to_string() });
        line.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
        writeln!(self.text, "{line}").unwrap();
        self.kinds.push(kind);
    }

    /// A line, and a look at all groups after it.
    fn look(&mut self, at: Timestamp, action: Value, kind: Kind) {
        self.line(at, action, kind);
        self.line(at, json!({ "find": {} }), Kind::Probe);
        self.line(at, json!({ "status": {} }), Kind::Status);
    }
}

pub(super) fn name(index: usize) -> String {
    format!("g{index}")
}

/// The groups before the one at `index`, by index.
pub(super) fn required(scenario: &Scenario, index: usize) -> BTreeSet<usize> {
    match scenario.dialect {
        Dialect::TimeBased => BTreeSet::new(),
        Dialect::HaltOnError => (0..index).collect(),
        Dialect::Rfd0169 if index == 0 => BTreeSet::new(),
        Dialect::Rfd0169 => scenario.groups[index].requires.iter().map(|other| other.index(index)).collect(),
    }
}

pub(super) fn policy(scenario: &Scenario, caps: &[u8], mode: Mode) -> Value {
    let mut groups = Vec::new();
    for (index, spec) in scenario.groups.iter().enumerate() {
        let requires: Vec<String> = required(scenario, index).into_iter().map(name).collect();
        let mut group =
            json!({ "name": name(index), "start_hour": spec.hour, "days": ["*"], "max_in_flight": caps[index] });
        if let Some(most) = spec.max_failed {
            group["max_failed_before_halt"] = most.into();
        }
        if let Some(most) = spec.max_timeout {
            group["max_timeout_before_halt"] = most.into();
        }
        if let Some((base, factor)) = spec.rate {
            group["rate"] = json!({ "base": base, "factor": factor, "maximum": base * 4 });
        }
        if spec.failure_seconds > 0 {
            group["failure_seconds"] = spec.failure_seconds.into();
        }
        if spec.canaries > 0 && scenario.dialect != Dialect::TimeBased {
            group["canary_count"] = spec.canaries.into();
        }
        if spec.rolls_back {
            group["on_halt"] = "rollback".into();
        }
        if spec.approval {
            group["approval"] = "operator".into();
        }
        if spec.is_frozen {
            group["blackout"] =
                json!([{ "from": "2026-01-05T12:30:00Z", "to": "2026-01-05T15:00:00Z", "reason": "sale" }]);
        }
        if let Some(hours) = spec.hours.filter(|_| scenario.dialect != Dialect::TimeBased) {
            group["window_duration"] = format!("{hours}h").into();
        }
        if spec.soak > 0 && !requires.is_empty() {
            group["soak_hours"] = spec.soak.into();
        }
        if scenario.dialect == Dialect::Rfd0169 {
            group["agents"] = json!({ "node_labels_expression": format!("labels[\"env\"] == \"{}\"", name(index)) });
            group["requires"] = json!(requires);
        }
        groups.push(group);
    }
    if scenario.dialect == Dialect::Rfd0169 {
        let is_on = matches!(mode, Mode::Enabled);
        let spec = json!({ "agent_auto_update": is_on, "agent_auto_update_groups": { "regular": groups } });
        return json!({ "put": { "kind": "cluster_maintenance_config", "version": "v1", "spec": spec } });
    }
    let mode = match mode {
        Mode::Enabled => "enabled",
        Mode::Suspended => "suspended",
        Mode::Disabled => "disabled",
    };
    let mut agents = json!({ "mode": mode, "strategy": "halt-on-error", "schedules": { "regular": groups } });
    if scenario.dialect == Dialect::TimeBased {
        agents["strategy"] = "time-based".into();
        agents["maintenance_window_duration"] = "3h".into();
    }
    json!({ "put": { "kind": "autoupdate_config", "version": "v1", "spec": { "agents": agents } } })
}

pub(super) fn target(scenario: &Scenario, patch: u8, schedule: &str) -> Value {
    let version = format!("2.0.{patch}");
    let spec = match (scenario.dialect, schedule) {
        (Dialect::Rfd0169, _) => {
            json!({ "agent_version": version, "agent_start_version": "1.0.0", "agent_version_schedule": schedule })
        }
        (_, schedule) => {
            let schedule = if schedule == "critical" { "regular" } else { schedule };
            let agents =
                json!({ "start_version": "1.0.0", "target_version": version, "schedule": schedule, "mode": "enabled" });
            json!({ "agents": agents })
        }
    };
    json!({ "put": { "kind": "autoupdate_version", "version": "v1", "spec": spec } })
}

pub(super) fn host(number: usize) -> String {
    format!("host {number}")
}

pub(super) fn crowd(count: u8, group: usize, breaks: u8, update_in: u16) -> Value {
    let name = name(group);
    json!({ "hosts": {
        "count": count, "group": name, "version": "1.0.0", "labels": { "env": name }, "breaks": breaks,
        "update_in": format!("{update_in}s"), "every": "10m",
    } })
}

#[allow(clippy::too_many_lines, reason = "an arm a kind of line")]
pub(super) fn render(scenario: &Scenario) -> Rendered {
    let mut out = Rendered::default();
    let mut now: Timestamp = WRITTEN.parse().unwrap();
    let mut caps: Vec<u8> = scenario.groups.iter().map(|group| group.cap).collect();
    let (mut mode, mut patch) = (Mode::Enabled, 0_u8);
    let count = scenario.groups.len();
    out.line(now, policy(scenario, &caps, mode), Kind::Caps(caps.clone()));
    out.line(now, target(scenario, patch, "regular"), Kind::Act);
    now = BEGINS.parse().unwrap();
    for number in 0..NAMED {
        let group = name(number % count);
        let report = json!({
            "host": host(number), "group": group, "version": "1.0.0", "labels": { "env": group },
            "update_id": format!("updater {number}"),
        });
        out.line(now, json!({ "report": report }), Kind::Act);
    }
    for group in 0..count {
        if scenario.crowd > 0 {
            out.line(now, crowd(scenario.crowd, group, scenario.breaks, 90), Kind::Act);
        }
    }
    let groups = |group: &Index| (vec![group.index(count)], json!({ "groups": [name(group.index(count))] }));
    let all = |group: &Option<Index>, all: &str| match group {
        Some(group) => groups(group),
        None => ((0..count).collect(), json!({ all: true })),
    };
    for (later, op) in &scenario.ops {
        now = now.checked_add(SignedDuration::from_secs(i64::from(*later))).unwrap();
        let version = format!("2.0.{patch}");
        let (action, kind) = match op {
            Op::Hosts { count: hosts, group, breaks, update_in } => {
                (crowd(*hosts, group.index(count), *breaks, *update_in), Kind::Act)
            }
            Op::Report { host: number, group, version: which, outcome } => {
                let group = name(group.index(count));
                let runs = match (outcome, which) {
                    (Some("updated" | "switched"), _) | (None, 3) => version.as_str(),
                    (None, 2) => "0.9.0",
                    _ => "1.0.0",
                };
                let mut report = json!({
                    "host": host(*number), "group": group, "version": runs, "labels": { "env": group },
                    "update_id": format!("updater {number}"),
                });
                if let Some(outcome) = outcome {
                    let (outcome, code) = match *outcome {
                        "network" => ("failed", "network"),
                        "rolled_back" => ("rolled_back", "unhealthy"),
                        other => (other, ""),
                    };
                    report["last"] = json!({ "outcome": outcome, "to": version, "code": code });
                }
                (json!({ "report": report }), Kind::Act)
            }
            Op::Find { host: number } => {
                let group = name(number % count);
                let find = json!({ "host": host(*number), "group": group, "update_id": format!("updater {number}") });
                out.line(now, json!({ "find": find }), Kind::Find(*number));
                (json!({ "explain": { "host": host(*number) } }), Kind::Explain)
            }
            Op::Start { group, force } => {
                let (indices, mut command) = groups(group);
                command["force"] = (*force).into();
                (json!({ "start": command }), Kind::Command("start", indices))
            }
            Op::MarkDone { group } => {
                let (indices, command) = groups(group);
                (json!({ "mark_done": command }), Kind::Command("mark_done", indices))
            }
            Op::Rollback { group } => {
                let (indices, command) = all(group, "all_started");
                (json!({ "rollback": command }), Kind::Command("rollback", indices))
            }
            Op::Halt { group } => {
                let (indices, command) = all(group, "all");
                (json!({ "halt": command }), Kind::Command("halt", indices))
            }
            Op::Run { group } => {
                let (indices, command) = all(group, "all");
                (json!({ "run": command }), Kind::Command("run", indices))
            }
            Op::Approve { group } => {
                let indices = vec![group.index(count)];
                (json!({ "approve": { "group": name(group.index(count)) } }), Kind::Command("approve", indices))
            }
            Op::Block { is_blocked } => {
                let mut spec = json!({ "version": version });
                if *is_blocked {
                    spec["blocked"] = json!({ "reason": "breaks" });
                }
                let metadata = json!({ "name": "r" });
                (
                    json!({ "put": { "kind": "fleet_release", "version": "v1", "metadata": metadata, "spec": spec } }),
                    Kind::Act,
                )
            }
            Op::Cap { group, cap } => {
                caps[group.index(count)] = *cap;
                // Who was let go by the clock before is known to the checks.
                out.line(now, json!({ "find": {} }), Kind::Probe);
                out.line(now, json!({ "status": {} }), Kind::Status);
                (policy(scenario, &caps, mode), Kind::Caps(caps.clone()))
            }
            Op::Mode(wanted) => {
                mode = *wanted;
                (policy(scenario, &caps, mode), Kind::Mode(matches!(mode, Mode::Enabled)))
            }
            Op::Target { patch: wanted, schedule } => {
                patch = *wanted;
                (target(scenario, patch, schedule), Kind::Act)
            }
            Op::Exclude { host: number, way, is_out } => {
                let action = match (way, is_out) {
                    (0, _) => json!({ "report": { "host": host(*number), "pinned": is_out } }),
                    (1, _) => json!({ "report": { "host": host(*number), "disabled": is_out } }),
                    (_, true) => json!({ "hold": { "host": host(*number) } }),
                    (_, false) => json!({ "release": { "host": host(*number) } }),
                };
                (action, Kind::Act)
            }
            Op::Assign { host: number, group } => {
                let group = group.as_ref().map(|group| name(group.index(count)));
                (json!({ "assign": { "host": host(*number), "group": group } }), Kind::Act)
            }
            Op::Wait => (json!({ "status": {} }), Kind::Status),
        };
        out.look(now, action, kind);
    }
    out
}
