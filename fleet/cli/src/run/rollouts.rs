//! `rollouts`: the present rollout, and past ones as they were last.

use serde_json::Value;

use super::path;
use crate::args::RolloutsArgs;
use crate::client::{ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::table::{TableCell, TextTable};
use crate::show::{text, value};

/// Carries it out.
pub(super) fn run(rollouts: &RolloutsArgs, client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let query =
        [("before", rollouts.before.map(|before| before.to_string())), ("limit", Some(rollouts.last.to_string()))];
    let found: Vec<Value> = client.ask(&ApiCall::get(path::with_query("/v1/fleet/rollouts", query)))?;
    let mut table =
        TextTable::new(["Number", "Start Version", "Target Version", "Schedule", "Began", "State", "Groups"]);
    for rollout in &found {
        let (spec, status) = (&rollout["spec"], &rollout["status"]);
        let word = |value: &Value| TableCell::new(value.as_str().unwrap_or_default());
        table.row(vec![
            TableCell::new(&rollout["metadata"]["number"].to_string()),
            word(&spec["start_version"]),
            word(&spec["target_version"]),
            word(&spec["schedule"]),
            TableCell::new(&text::time_of(status["start_time"].as_str().unwrap_or_default())),
            TableCell::new(&state(rollout)),
            TableCell::new(&groups(&status["groups"])),
        ]);
    }
    value::show(screen, &found, |out, _| Ok(table.write(out, false)?))
}

/// `halted`; `active, present`: it goes on.
fn state(rollout: &Value) -> String {
    let state = rollout["status"]["state"].as_str().unwrap_or_default();
    let is_present = rollout["metadata"]["present"].as_bool().unwrap_or_default();
    let words = [state, if is_present { "present" } else { "" }];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}

/// `dev done, prod halted`.
fn groups(groups: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group = |group: &Value| format!("{} {}", word(&group["name"]), word(&group["state"]));
    groups.as_array().into_iter().flatten().map(group).collect::<Vec<_>>().join(", ")
}
