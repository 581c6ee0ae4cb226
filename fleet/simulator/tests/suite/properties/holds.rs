//! A host that was in a group that an operator halted is told nothing until `run` of that name, whatever the policy calls it then.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::config;

const GROUPS: [&str; 4] = ["a", "b", "c", "d"];
const LABELS: [&str; 3] = ["", "x", "y"];

/// Whom a group takes: who declares its name, or by label, or by another name.
#[derive(Debug, Clone, Copy)]
enum Members {
    Name,
    Label(&'static str),
    Group(&'static str),
}

#[derive(Debug, Clone)]
struct Shape {
    is_v2: bool,
    groups: Vec<(&'static str, Members)>,
    unassigned: Option<usize>,
}

#[derive(Debug, Clone)]
enum Op {
    Policy(Shape, &'static str),
    Halt(&'static str),
    HaltAll,
    Run(&'static str),
    RunAll,
}

fn shape() -> impl Strategy<Value = Shape> {
    let members = prop_oneof![
        2 => Just(Members::Name),
        1 => select(LABELS.to_vec()).prop_map(Members::Label),
        1 => select(GROUPS.to_vec()).prop_map(Members::Group),
    ];
    let names = prop::sample::subsequence(GROUPS[..3].to_vec(), 1..=3).prop_shuffle();
    let rest = prop::option::of(0_usize..4);
    (any::<bool>(), names, prop::collection::vec(members, 3), rest).prop_map(|(is_v2, names, members, unassigned)| {
        Shape { is_v2, groups: names.into_iter().zip(members).collect(), unassigned }
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (shape(), select(vec!["regular", "regular", "immediate"])).prop_map(|(shape, schedule)| Op::Policy(shape, schedule)),
        4 => select(GROUPS[..3].to_vec()).prop_map(Op::Halt),
        1 => select(GROUPS[..3].to_vec()).prop_map(Op::Run),
        1 => Just(Op::HaltAll),
        1 => Just(Op::RunAll),
    ]
}

/// The resources of a policy, with a target of its own.
fn put(shape: &Shape, schedule: &str, patch: usize) -> Vec<Value> {
    let group = |(name, members): &(&str, Members)| {
        let mut group = json!({ "name": name, "start_hour": 12 });
        if shape.is_v2 {
            group["days"] = json!(["*"]);
        }
        let expression = match members {
            Members::Name if shape.is_v2 => return group,
            Members::Name => format!("group == \"{name}\""),
            Members::Label(label) => format!("labels[\"k\"] == \"{label}\""),
            Members::Group(other) => format!("group == \"{other}\""),
        };
        group["agents"] = json!({ "node_labels_expression": expression });
        group
    };
    let groups: Vec<Value> = shape.groups.iter().map(group).collect();
    let rest = shape.unassigned.map(|at| shape.groups.get(at).map_or("hold", |(name, _)| *name));
    let (version, resource) = (
        format!("2.0.{patch}"),
        |kind: &str, spec: Value| json!({ "put": { "kind": kind, "version": "v1", "spec": spec } }),
    );
    if shape.is_v2 {
        let mut agents = json!({
            "mode": "enabled", "strategy": "time-based", "maintenance_window_duration": "2h", "schedules": { "regular": groups },
        });
        if let Some(rest) = rest {
            agents["unassigned"] = rest.into();
        }
        let wanted =
            json!({ "start_version": "1.0.0", "target_version": version, "schedule": schedule, "mode": "enabled" });
        vec![
            json!({ "rm": "cluster_maintenance_config" }),
            resource("autoupdate_config", json!({ "agents": agents })),
            resource("autoupdate_version", json!({ "agents": wanted })),
        ]
    } else {
        let mut spec = json!({ "agent_auto_update_groups": { "regular": groups } });
        if let Some(rest) = rest {
            spec["unassigned"] = rest.into();
        }
        let wanted =
            json!({ "agent_version": version, "agent_start_version": "1.0.0", "agent_version_schedule": schedule });
        vec![
            json!({ "rm": "autoupdate_config" }),
            resource("cluster_maintenance_config", spec),
            resource("autoupdate_version", wanted),
        ]
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_hold_is_of_the_hosts_that_were_in_the_group(first in shape(), ops in prop::collection::vec(op(), 1..8)) {
        let mut played = fleet_simulator::Played::new(0);
        let mut text = String::new();
        let mut say = |day: usize, time: &str, action: &Value| -> Value {
            let date = jiff::civil::date(2026, 1, 5).checked_add(jiff::Span::new().days(i64::try_from(day).unwrap())).unwrap();
            let mut line = json!({ "at": format!("{date}T{time}Z") });
            line.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
            text.push_str(&format!("{line}\n"));
            played.line(&line.to_string()).map_or(Value::Null, |answer| serde_json::from_str(&answer).unwrap())
        };
        // One of each name and label.
        let hosts: Vec<(&str, &str)> = GROUPS.iter().flat_map(|group| LABELS.map(|label| (*group, label))).collect();
        let id = |number: usize| format!("host {number}");
        // The names by which each host is held, and whether everything is.
        let mut held: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        let (mut halted, mut all): (BTreeSet<&str>, bool) = (BTreeSet::new(), false);
        for (day, op) in [Op::Policy(first, "regular")].iter().chain(&ops).enumerate() {
            let mut act = |action: Value| say(day, "08:00:00", &action)["error"].is_null();
            match op {
                Op::Policy(shape, schedule) => {
                    for line in put(shape, schedule, day) {
                        act(line);
                    }
                }
                Op::Halt(name) if act(json!({ "halt": { "groups": [name] } })) => {
                    halted.insert(name);
                }
                Op::Run(name) if act(json!({ "run": { "groups": [name] } })) => {
                    halted.remove(name);
                    held.values_mut().for_each(|names| { names.remove(name); });
                    // For the present rollout that group goes although everything is held.
                    all = false;
                }
                Op::HaltAll => all |= act(json!({ "halt": { "all": true } })),
                Op::RunAll => all &= !act(json!({ "run": { "all": true } })),
                Op::Halt(_) | Op::Run(_) => {}
            }
            for (number, (group, label)) in hosts.iter().enumerate() {
                let labels = if label.is_empty() { json!({}) } else { json!({ "k": label }) };
                let report = json!({ "host": id(number), "group": group, "version": "1.0.0", "labels": labels });
                say(day, "12:10:00", &json!({ "report": report }));
            }
            let is_refused = !say(day, "12:11:00", &json!({ "status": {} }))["error"].is_null();
            for number in (0..hosts.len()).filter(|_| !is_refused) {
                let its = say(day, "12:12:00", &json!({ "explain": { "host": id(number) } }));
                let its = its["explain"]["group"].as_str().unwrap_or_default().to_owned();
                held.entry(number).or_default().extend(halted.get(its.as_str()));
                let find = say(day, "12:12:00", &json!({ "find": { "host": id(number) } }));
                let goes = find["find"]["agent_auto_update"] == true;
                let names = &held[&number];
                let (host, is_held) = (hosts[number], all || !names.is_empty());
                prop_assert!(!(goes && is_held), "{number} {host:?} of {its} is told, held by {names:?}, all: {all}, on day {day}\n{ops:#?}\n{text}");
            }
        }
    }
}
