//! A line of a script, read strictly: an unknown key is an error that names it.

use std::collections::BTreeMap;

use fleet_engine::host::Outcome;
use fleet_engine::rollout::GateAnswer;
use fleet_engine::selection::{BUILD, Build};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// What a line does, or asks.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum LineAction {
    Put(Value),
    Rm(String),
    Report(ReportLine),
    Counts(Vec<CountLine>),
    Hosts(HostsLine),
    Find(Find),
    Status {},
    Inventory {},
    Explain {
        host: String,
    },
    Draft {
        name: String,
        author: String,
        directive: Value,
    },
    Plan {
        id: String,
        author: String,
        draft: String,
    },
    Review {
        id: String,
        who: String,
        approve: bool,
        #[serde(default)]
        reason: String,
    },
    Apply {
        id: String,
    },
    /// What `fleet_wire::answers::graph` reads.
    Graph(Value),
    Start {
        #[serde(default)]
        groups: Vec<String>,
        #[serde(default)]
        force: bool,
        #[serde(default)]
        ignore_blackout: bool,
    },
    MarkDone {
        #[serde(default)]
        groups: Vec<String>,
    },
    Rollback {
        #[serde(default)]
        groups: Vec<String>,
        #[serde(default)]
        all_started: bool,
        #[serde(default)]
        at_once: bool,
    },
    Halt {
        #[serde(default)]
        groups: Vec<String>,
        #[serde(default)]
        all: bool,
    },
    Run {
        #[serde(default)]
        groups: Vec<String>,
        #[serde(default)]
        all: bool,
    },
    Approve {
        group: String,
    },
    Gate {
        group: String,
        answer: GateAnswer,
    },
    Hold {
        host: String,
    },
    Release {
        host: String,
    },
    Assign {
        host: String,
        group: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportLine {
    pub host: String,
    pub group: Option<String>,
    pub version: Option<String>,
    pub labels: Option<BTreeMap<String, String>>,
    pub hostname: Option<String>,
    pub update_id: Option<String>,
    pub pinned: Option<bool>,
    pub disabled: Option<bool>,
    pub last: Option<LastLine>,
    #[serde(default)]
    pub build: BuildLine,
}

/// What hosts say of their build: see [`Build`].
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BuildLine {
    pub arch: String,
    pub edition: String,
    pub services: Vec<String>,
    pub installers: Vec<String>,
}

impl BuildLine {
    /// The labels with it; where it says nothing, as they are.
    pub(crate) fn labels(&self, labels: Option<BTreeMap<String, String>>) -> Option<BTreeMap<String, String>> {
        let (services, installers) = (self.services.join(","), self.installers.join(","));
        let build = Build { arch: &self.arch, edition: &self.edition, services: &services, installers: &installers };
        match build.text() {
            none if none.is_empty() => labels,
            text => Some(labels.into_iter().flatten().chain([(BUILD.to_owned(), text)]).collect()),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LastLine {
    pub outcome: Outcome,
    pub to: String,
    #[serde(default)]
    pub code: String,
    #[serde(default)]
    pub by_hand: bool,
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
    #[serde(default)]
    pub build: BuildLine,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Find {
    pub host: Option<String>,
    #[serde(default)]
    pub group: String,
    pub update_id: Option<String>,
}

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
    let wrong = |error| (Some(at), format!("{key}: {error}"));
    let action = serde_json::from_value(Value::Object([(key.clone(), value)].into_iter().collect()));
    action.map(|action| (at, action)).map_err(wrong)
}
