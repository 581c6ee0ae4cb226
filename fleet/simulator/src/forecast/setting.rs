//! The configuration of a simulation: what was written, and a release for it.

use fleet_engine::fleet::Fleet;
use fleet_engine::policy::{Mode, Policy, Schedule};
use fleet_engine::resource::{AgentVersions, PolicyDialect, Resource, VersionSpec};
use fleet_engine::resource_set::ResourceSet;
use fleet_engine::rollout_state::RolloutState;
use jiff::Timestamp;
use protocol::Version;
use serde_json::json;

use super::plan::ForecastPlan;
use super::words;

/// What is simulated.
pub(super) struct Setting {
    pub(super) begin: Timestamp,
    pub(super) book: RolloutState,
    pub(super) start: Version,
    pub(super) target: Version,
    /// Names of groups, in order.
    pub(super) groups: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Reads the configuration of a plan.
///
/// # Errors
/// The resources do not go together.
pub(super) fn setting(plan: &ForecastPlan) -> Result<Setting, String> {
    let mut notes = Vec::new();
    let (mut shelf, mut book) = (ResourceSet::default(), RolloutState { seed: plan.seed, ..RolloutState::default() });
    let is_policy = |resource: &&Resource| matches!(resource, Resource::Config(_) | Resource::Maintenance(_));
    let policies: Vec<Resource> = plan.resources.iter().filter(is_policy).cloned().collect();
    let wanted = plan.resources.iter().find_map(|resource| resource.model::<VersionSpec>()?.agents.as_ref());
    if policies.is_empty() {
        notes.push("no configuration: simulated with the default group, Monday to Thursday at 12:00 UTC".to_owned());
    }
    let has_config = policies.iter().any(|resource| matches!(resource, Resource::Config(_)));
    let dialect = match wanted {
        Some(wanted) => wanted.dialect,
        None if !has_config && !policies.is_empty() => PolicyDialect::Rfd0169,
        None => PolicyDialect::V2,
    };
    shelf.put_all(policies, &mut book).map_err(|refused| refused.to_string())?;
    let (start, target) = versions(plan, wanted, &mut notes)?;
    let version = version(dialect, &start, &target, wanted.map_or(Schedule::Regular, |wanted| wanted.schedule));
    shelf.put_json(&version, 1, &mut book).map_err(|refused| refused.to_string())?;
    if let Some(policy) = &mut book.policy
        && policy.mode != Mode::Enabled
    {
        notes.push("the configuration's mode is not enabled: simulated as if it were".to_owned());
        policy.mode = Mode::Enabled;
    }
    if wanted.is_some_and(|wanted| wanted.mode != Mode::Enabled) {
        notes.push("the version's mode is not enabled: simulated as if it were".to_owned());
    }
    // At a full minute, as steps are.
    let begin = Timestamp::from_second(plan.begin.as_second().div_euclid(60) * 60).unwrap_or(plan.begin);
    note_freezes(&book, begin, &mut notes);
    let mut probe = book.clone();
    probe.step(&mut Fleet::default(), begin);
    let groups = probe.rollout.iter().flat_map(|rollout| &rollout.groups).map(|group| group.policy.name.clone());
    let groups = groups.filter(|name| !name.is_empty()).collect();
    Ok(Setting { begin, book, start, target, groups, notes })
}

/// The versions before and after: as they are written, but for a release that is asked for.
fn versions(
    plan: &ForecastPlan,
    wanted: Option<&AgentVersions>,
    notes: &mut Vec<String>,
) -> Result<(Version, Version), String> {
    // Where nobody wrote one.
    let before = Version::first_of(1);
    let after = next(&before)?;
    let (start, target) = match (wanted, &plan.to) {
        (None, None) => {
            notes.push(format!("no autoupdate_version: the release is made up ({before} to {after})"));
            (before, after)
        }
        (None, Some(to)) => (before, to.clone()),
        (Some(wanted), Some(to)) if wanted.target != *to => (wanted.target.clone(), to.clone()),
        (Some(wanted), _) => (wanted.start.clone().unwrap_or(before), wanted.target.clone()),
    };
    if start != target {
        return Ok((start, target));
    }
    let next = next(&start)?;
    notes.push(format!("hosts run {start} already: the release is made up ({next})"));
    Ok((start, next))
}

/// The version with the next patch number.
fn next(version: &Version) -> Result<Version, String> {
    let text = version.to_string();
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let (head, patch) = core.rsplit_once('.').unwrap_or((core, "0"));
    let patch = patch.parse::<u64>().unwrap_or(0).saturating_add(1);
    let text = format!("{head}.{patch}");
    text.parse().map_err(|error| format!("{text}: {error}"))
}

fn version(dialect: PolicyDialect, start: &Version, target: &Version, schedule: Schedule) -> serde_json::Value {
    let (start, target) = (start.to_string(), target.to_string());
    let spec = match dialect {
        PolicyDialect::V2 => json!({ "agents": {
            "start_version": start, "target_version": target, "schedule": schedule, "mode": "enabled" } }),
        PolicyDialect::Rfd0169 | PolicyDialect::Directive => json!({
            "agent_version": target, "agent_start_version": start, "agent_version_schedule": schedule }),
    };
    json!({ "kind": "autoupdate_version", "version": "v1", "metadata": { "name": "autoupdate-version" }, "spec": spec })
}

/// Freezes that begin later than any simulation lasts, or are over, have no part in it.
fn note_freezes(book: &RolloutState, begin: Timestamp, notes: &mut Vec<String>) {
    let freezes = book.policy.iter().flat_map(Policy::all_groups).flat_map(|group| &group.gate.blackout);
    let soon = begin.saturating_add(jiff::SignedDuration::from_hours(24 * 30)).unwrap_or(Timestamp::MAX);
    let elsewhere = freezes.filter(|freeze| freeze.to <= begin || freeze.from > soon);
    if let Some(freeze) = elsewhere.min_by_key(|freeze| freeze.from) {
        notes.push(format!(
            "the freeze from {} to {} is not within the simulated time: give --at to begin near it",
            words::date(freeze.from),
            words::date(freeze.to)
        ));
    }
}
