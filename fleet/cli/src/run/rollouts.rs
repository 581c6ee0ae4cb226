//! `rollouts`: the present rollout, and past ones as they were last.

use fleet_wire::rollout::AgentRollout;

use super::path;
use crate::client::{Answer, ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{text, value};

/// What a table of rollouts has.
const TITLES: [&str; 7] = ["Number", "Start Version", "Target Version", "Schedule", "Began", "State", "Groups"];

/// Carries it out.
pub(super) fn run(before: Option<u64>, last: u32, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let query = [("before", before.map(|before| before.to_string())), ("limit", Some(last.to_string()))];
    let found: Vec<Answer<AgentRollout>> = client.ask(&ApiCall::get(path::with_query("/v1/fleet/rollouts", query)))?;
    value::list(screen, &found, TITLES, |rollout| {
        let AgentRollout { metadata, spec, status, .. } = &**rollout;
        // It goes on.
        let present = metadata.present.then_some("present");
        let state: Vec<&str> = status.state.as_deref().into_iter().chain(present).collect();
        let groups: Vec<String> = status.groups.iter().map(|group| format!("{} {}", group.name, group.state)).collect();
        [
            metadata.number.unwrap_or_default().to_string(),
            spec.start_version.clone(),
            spec.target_version.clone(),
            spec.schedule.clone(),
            text::time_of(status.start_time.as_deref().unwrap_or_default()),
            state.join(", "),
            groups.join(", "),
        ]
    })
}
