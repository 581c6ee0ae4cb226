//! A line of a script, read strictly: an unknown key is an error that names it.

use std::collections::BTreeMap;

use fleet_engine::command::Command;
use fleet_engine::host::Outcome;
use fleet_engine::rollout::GateAnswer;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// What a line does, or asks.
pub(crate) enum Action {
    Put(Value),
    Remove(String),
    Report(Report),
    Counts(Vec<Count>),
    Hosts(Hosts),
    Find(Find),
    Command(Command),
    Host {
        host: String,
        decision: Decision,
    },
    Status,
    Explain(Explain),
    /// What `fleet_wire::answers::graph` reads.
    Graph(Value),
}

/// An operator's decision on a host.
pub(crate) enum Decision {
    Hold,
    Release,
    Assign(Option<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    pub host: String,
    pub group: Option<String>,
    pub version: Option<String>,
    pub labels: Option<BTreeMap<String, String>>,
    pub update_id: Option<String>,
    pub pinned: Option<bool>,
    pub disabled: Option<bool>,
    pub last: Option<Last>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Last {
    pub outcome: Outcome,
    pub to: String,
    #[serde(default)]
    pub code: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Count {
    pub group: String,
    pub version: String,
    /// Not more than a report may say: sums of them have room.
    pub count: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hosts {
    pub count: u32,
    #[serde(default)]
    pub group: String,
    pub version: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub breaks: Value,
    #[serde(default)]
    pub update_in: Value,
    #[serde(default)]
    pub every: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Find {
    pub host: Option<String>,
    #[serde(default)]
    pub group: String,
    pub update_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explain {
    pub host: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Start {
    groups: Vec<String>,
    force: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Groups {
    groups: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Rollback {
    groups: Vec<String>,
    all_started: bool,
    at_once: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GroupsOrAll {
    groups: Vec<String>,
    all: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approve {
    group: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gate {
    group: String,
    answer: GateAnswer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnHost {
    host: String,
    group: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// The time and the action of a line.
///
/// # Errors
/// What is wrong with it; the time where it has one.
pub(crate) fn parse(text: &str) -> Result<(Timestamp, Action), (Option<Timestamp>, String)> {
    let value: Value = serde_json::from_str(text).map_err(|error| (None, format!("not a JSON object: {error}")))?;
    let Value::Object(mut keys) = value else { return Err((None, "not a JSON object".to_owned())) };
    let Some(at) = keys.shift_remove("at") else { return Err((None, "\"at\" is missing".to_owned())) };
    let Some(at) = at.as_str().and_then(|at| at.parse::<Timestamp>().ok()) else {
        return Err((None, "\"at\" is not a time such as 2026-01-05T12:00:00Z".to_owned()));
    };
    let mut actions = keys.into_iter();
    let (Some((key, value)), None) = (actions.next(), actions.next()) else {
        return Err((Some(at), "a line has \"at\" and exactly one action".to_owned()));
    };
    action(&key, value).map(|action| (at, action)).map_err(|what| (Some(at), what))
}

fn action(key: &str, value: Value) -> Result<Action, String> {
    fn read<T: serde::de::DeserializeOwned>(key: &str, value: Value) -> Result<T, String> {
        serde_json::from_value(value).map_err(|error| format!("{key}: {error}"))
    }
    Ok(match key {
        "put" => Action::Put(value),
        "rm" => Action::Remove(read(key, value)?),
        "report" => Action::Report(read(key, value)?),
        "counts" => Action::Counts(read(key, value)?),
        "hosts" => Action::Hosts(read(key, value)?),
        "find" => Action::Find(read(key, value)?),
        "explain" => Action::Explain(read(key, value)?),
        "graph" => Action::Graph(value),
        "status" => {
            let Nothing {} = read(key, value)?;
            Action::Status
        }
        "start" => {
            let Start { groups, force } = read(key, value)?;
            Action::Command(Command::Start { groups, force })
        }
        "mark_done" => {
            let Groups { groups } = read(key, value)?;
            Action::Command(Command::MarkDone { groups })
        }
        "rollback" => {
            let Rollback { groups, all_started, at_once } = read(key, value)?;
            // As `tctl autoupdate agents rollback` without a group.
            let all_started = all_started || groups.is_empty();
            Action::Command(Command::Rollback { groups, all_started, at_once })
        }
        "halt" => {
            let GroupsOrAll { groups, all } = read(key, value)?;
            Action::Command(Command::Halt { groups, all })
        }
        "run" => {
            let GroupsOrAll { groups, all } = read(key, value)?;
            Action::Command(Command::Run { groups, all })
        }
        "approve" => {
            let Approve { group } = read(key, value)?;
            Action::Command(Command::Approve { groups: vec![group], digest: None })
        }
        "gate" => {
            let Gate { group, answer } = read(key, value)?;
            Action::Command(Command::Gate { group, answer })
        }
        "hold" => Action::Host { host: read::<OnHost>(key, value)?.host, decision: Decision::Hold },
        "release" => Action::Host { host: read::<OnHost>(key, value)?.host, decision: Decision::Release },
        "assign" => {
            let OnHost { host, group } = read(key, value)?;
            Action::Host { host, decision: Decision::Assign(group) }
        }
        other => return Err(format!("{other:?} is no action")),
    })
}
