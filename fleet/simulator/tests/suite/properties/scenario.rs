//! Random policies, fleets and commands, and the scripts that they make.

use std::collections::BTreeSet;
use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

/// When the policy is written, and when things begin to happen: five minutes before the earliest window.
pub(super) const WRITTEN: &str = "2026-01-05T08:00:00Z";
pub(super) const BEGINS: &str = "2026-01-05T11:50:00Z";
/// Hosts of which every report is a line of the script.
pub(super) const NAMED: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct GroupSpec {
    pub(super) cap: u8,
    pub(super) requires: Vec<Index>,
    /// What else it has, as it is written.
    pub(super) keys: Map<String, Value>,
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
    Hosts {
        count: u8,
        group: Index,
        breaks: u8,
        update_in: u16,
    },
    Report {
        host: usize,
        group: Index,
        version: u8,
        outcome: Option<&'static str>,
    },
    Find {
        host: usize,
    },
    /// Without a group: of all of them, where the verb can.
    Command {
        verb: &'static str,
        group: Option<Index>,
        force: bool,
    },
    Block {
        is_blocked: bool,
    },
    Cap {
        group: Index,
        cap: u8,
    },
    Mode(Mode),
    Target {
        patch: u8,
        schedule: &'static str,
    },
    Exclude {
        host: usize,
        way: usize,
        is_out: bool,
    },
    Assign {
        host: usize,
        group: Option<Index>,
    },
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

/// A key that a group has with this probability.
fn key<V: Into<Value> + std::fmt::Debug>(
    share: f64,
    name: &'static str,
    values: impl Strategy<Value = V> + 'static,
) -> BoxedStrategy<Option<(String, Value)>> {
    prop::option::weighted(share, values.prop_map(move |value| (name.to_owned(), value.into()))).boxed()
}

pub(super) fn spec() -> impl Strategy<Value = GroupSpec> {
    let rate =
        (1_u8..4, 1_u8..4).prop_map(|(base, factor)| json!({ "base": base, "factor": factor, "maximum": base * 4 }));
    let keys = vec![
        key(0.25, "canary_count", 1_u8..4),
        key(0.16, "rate", rate),
        key(0.66, "max_failed_before_halt", 0_u8..=100),
        key(0.66, "max_timeout_before_halt", 0_u8..=100),
        key(0.33, "failure_seconds", 1_u16..900),
        key(0.2, "soak_hours", 1_u8..30),
        key(0.2, "on_halt", Just("rollback")),
    ];
    let cap = prop_oneof![2 => Just(100_u8), 5 => 1_u8..60, 1 => Just(0_u8)];
    let hour = select(vec![12_u8, 13, 20]).prop_map(|hour| Some(("start_hour".to_owned(), hour.into())));
    (cap, prop::collection::vec(any::<Index>(), 0..3), hour, keys).prop_map(|(cap, requires, hour, keys)| GroupSpec {
        cap,
        requires,
        keys: keys.into_iter().chain([hour]).flatten().collect(),
    })
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let host = 0..NAMED;
    let verbs = vec!["start", "start", "mark_done", "rollback", "halt", "halt", "run", "run"];
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
        8 => (select(verbs), some(), any::<bool>()).prop_map(|(verb, group, force)| Op::Command { verb, group, force }),
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
    let blackout = json!([{ "from": "2026-01-05T12:30:00Z", "to": "2026-01-05T15:00:00Z", "reason": "sale" }]);
    let gate = vec![
        key(0.3, "approval", Just("operator")),
        key(0.3, "blackout", Just(blackout)),
        key(0.25, "window_duration", Just("1h")),
    ];
    let more = prop_oneof![
        2 => any::<Index>().prop_map(|group| Op::Command { verb: "approve", group: Some(group), force: false }),
        1 => any::<bool>().prop_map(|is_blocked| Op::Block { is_blocked }),
    ];
    let more = prop::collection::vec((any::<Index>(), 0_u32..2400, more), 0..4);
    (scenario(), prop::collection::vec(gate, 3), more).prop_map(|(mut scenario, gates, more)| {
        for (group, gate) in scenario.groups.iter_mut().zip(gates) {
            group.keys.extend(gate.into_iter().flatten());
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
        let mut group = json!({ "name": name(index), "days": ["*"], "max_in_flight": caps[index] });
        let is_known = |key: &str| match key {
            "canary_count" | "window_duration" => scenario.dialect != Dialect::TimeBased,
            "soak_hours" => !requires.is_empty(),
            _ => true,
        };
        for (key, value) in spec.keys.iter().filter(|(key, _)| is_known(key)) {
            group[key] = value.clone();
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
            Op::Command { verb, group, force } => {
                let all = match *verb {
                    "rollback" => Some("all_started"),
                    "halt" | "run" => Some("all"),
                    _ => None,
                };
                let one = group.as_ref().map_or(0, |group| group.index(count));
                let (groups, mut command) = match all.filter(|_| group.is_none()) {
                    Some(all) => ((0..count).collect(), json!({ all: true })),
                    None if *verb == "approve" => (vec![one], json!({ "group": name(one) })),
                    None => (vec![one], json!({ "groups": [name(one)] })),
                };
                if *verb == "start" {
                    command["force"] = (*force).into();
                }
                (json!({ *verb: command }), Kind::Command(verb, groups))
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
