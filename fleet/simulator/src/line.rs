//! A line of a script, read strictly: an unknown key is an error that names it.

use std::collections::BTreeMap;

use fleet_engine::command::Command;
use fleet_engine::host::Outcome;
use fleet_engine::rollout::GateAnswer;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// What a line does, or asks.
pub(crate) enum LineAction {
    Put(Value),
    Remove(String),
    Report(ReportLine),
    Counts(Vec<CountLine>),
    Hosts(HostsLine),
    Find(Find),
    Command(Command),
    Host {
        host: String,
        decision: HostDecision,
    },
    Status,
    Explain(ExplainLine),
    /// What `fleet_wire::answers::graph` reads.
    Graph(Value),
}

/// An operator's decision on a host.
pub(crate) enum HostDecision {
    Hold,
    Release,
    Assign(Option<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportLine {
    pub host: String,
    pub group: Option<String>,
    pub version: Option<String>,
    pub labels: Option<BTreeMap<String, String>>,
    pub update_id: Option<String>,
    pub pinned: Option<bool>,
    pub disabled: Option<bool>,
    pub last: Option<LastLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LastLine {
    pub outcome: Outcome,
    pub to: String,
    #[serde(default)]
    pub code: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountLine {
    pub group: String,
    pub version: String,
    /// Not more than a report may say: sums of them have room.
    pub count: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostsLine {
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
pub(crate) struct ExplainLine {
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
struct GroupsLine {
    groups: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RollbackLine {
    groups: Vec<String>,
    all_started: bool,
    at_once: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GroupsOrAllLine {
    groups: Vec<String>,
    all: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApproveLine {
    group: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GateLine {
    group: String,
    answer: GateAnswer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnHostLine {
    host: String,
    group: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NothingLine {}

/// The time and the action of a line.
///
/// # Errors
/// What is wrong with it; the time where it has one.
pub(crate) fn parse(text: &str) -> Result<(Timestamp, LineAction), (Option<Timestamp>, String)> {
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

fn action(key: &str, value: Value) -> Result<LineAction, String> {
    fn read<T: serde::de::DeserializeOwned>(key: &str, value: Value) -> Result<T, String> {
        serde_json::from_value(value).map_err(|error| format!("{key}: {error}"))
    }
    Ok(match key {
        "put" => LineAction::Put(value),
        "rm" => LineAction::Remove(read(key, value)?),
        "report" => LineAction::Report(read(key, value)?),
        "counts" => LineAction::Counts(read(key, value)?),
        "hosts" => LineAction::Hosts(read(key, value)?),
        "find" => LineAction::Find(read(key, value)?),
        "explain" => LineAction::Explain(read(key, value)?),
        "graph" => LineAction::Graph(value),
        "status" => {
            let NothingLine {} = read(key, value)?;
            LineAction::Status
        }
        "start" => {
            let Start { groups, force } = read(key, value)?;
            LineAction::Command(Command::Start { groups, force })
        }
        "mark_done" => {
            let GroupsLine { groups } = read(key, value)?;
            LineAction::Command(Command::MarkDone { groups })
        }
        "rollback" => {
            let RollbackLine { groups, all_started, at_once } = read(key, value)?;
            // As `tctl autoupdate agents rollback` without a group.
            let all_started = all_started || groups.is_empty();
            LineAction::Command(Command::Rollback { groups, all_started, at_once })
        }
        "halt" => {
            let GroupsOrAllLine { groups, all } = read(key, value)?;
            LineAction::Command(Command::Halt { groups, all })
        }
        "run" => {
            let GroupsOrAllLine { groups, all } = read(key, value)?;
            LineAction::Command(Command::Run { groups, all })
        }
        "approve" => {
            let ApproveLine { group } = read(key, value)?;
            LineAction::Command(Command::Approve { groups: vec![group], digest: None })
        }
        "gate" => {
            let GateLine { group, answer } = read(key, value)?;
            LineAction::Command(Command::Gate { group, answer })
        }
        "hold" => LineAction::Host { host: read::<OnHostLine>(key, value)?.host, decision: HostDecision::Hold },
        "release" => LineAction::Host { host: read::<OnHostLine>(key, value)?.host, decision: HostDecision::Release },
        "assign" => {
            let OnHostLine { host, group } = read(key, value)?;
            LineAction::Host { host, decision: HostDecision::Assign(group) }
        }
        other => return Err(format!("{other:?} is no action")),
    })
}
