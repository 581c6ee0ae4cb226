//! `autoupdate` in RFD 0169's words: `update`, `reset`, `status`, `run` (FLEET §6).

use fleet_engine::command::Command;
use fleet_engine::resource::Kind;
use fleet_wire::api::{Takes, WriteResult};
use yaml::{Node, Value};

use super::{agents, resources, swap};
use crate::args::FlatUpdate;
use crate::client::{Answer, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{acted, flat, status as whole, value};

/// What `update` answers.
const UPDATED: &str = "Automatic updates configuration has been updated.";
/// What `reset` answers.
const RESET: &str = "Automatic updates configuration has been reset to defaults.";

/// The schedule without groups, or whether agents update at all.
const AUTO_UPDATE: &str = "agent_auto_update";
/// The groups.
const GROUPS: &str = "agent_auto_update_groups";

/// `update --set-…`: policy first, so that a version never goes by the old one.
pub(super) fn update(update: &FlatUpdate, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let (settings, dry_run) = (settings(update), update.dry_run);
    if update.group.is_some() && settings.is_empty() {
        let message = "--group is for what is set for one group, such as --set-days; a version is for all of them";
        return Err(Failure::new(Failure::USAGE, message));
    }
    if update.set_agent_auto_update.is_none() && update.set_agent_version.is_none() && settings.is_empty() {
        return Err(Failure::new(Failure::USAGE, "nothing to set: give at least one --set-… option"));
    }
    let mut done = Vec::new();
    match update.set_agent_auto_update {
        Some(is_on) if settings.is_empty() => done.extend(switch(client, is_on, dry_run)?),
        is_on => {
            if !settings.is_empty() {
                let group = update.group.as_deref().unwrap_or_default();
                done.extend(swap::change(client, Kind::Maintenance, dry_run, |document| {
                    if let Some(is_on) = is_on {
                        set_on(document, is_on)?;
                    }
                    set_group(document, update.schedule.as_deref().unwrap_or("regular"), group, &settings)?;
                    Ok(true)
                })?);
            }
        }
    }
    if let Some(version) = &update.set_agent_version {
        let schedule = if update.critical { "critical" } else { "regular" };
        done.extend(swap::change(client, Kind::Version, dry_run, |document| {
            if document.at(&["spec", "agents"]).is_some() {
                let message = "autoupdate_version has start and target version (spec.agents): change both with \
                               `teleport-fleet edit autoupdate_version`";
                return Err(Failure::new("conflict", message));
            }
            document.set(&["spec", "agent_version"], Node::text(version));
            document.set(&["spec", "agent_version_schedule"], Node::text(schedule));
            Ok(true)
        })?);
    }
    said(UPDATED, &done, dry_run, screen)
}

/// The seed's sentence, where it is true, and what each write did to the fleet, or would do. For programs the writes alone.
pub(super) fn said(
    sentence: &str,
    done: &[Answer<WriteResult>],
    dry_run: bool,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let differs = done.iter().flat_map(|written| &written.changed).any(|one| one.takes != Takes::Nothing.into());
    let sentence = match (differs, dry_run) {
        (false, _) => "Nothing is different: all was so before.",
        (true, true) => "Nothing was changed (--dry-run).",
        (true, false) => sentence,
    };
    value::show(screen, done, |out, _| {
        writeln!(out, "{sentence}")?;
        done.iter().try_for_each(|written| resources::text(out, written, dry_run, &resources::line))
    })
}

/// Keys of a group, and what they are set to.
fn settings(update: &FlatUpdate) -> Vec<(&'static str, Node)> {
    let number = |value: Option<u32>| value.map(Node::plain);
    let percent = |value: Option<u32>| value.map(|value| Node::text(format!("{value}%")));
    let days = update.set_days.as_ref().map(|days| Node::list(days.iter().map(Node::text).collect()));
    [
        ("days", days),
        ("start_hour", number(update.set_start_hour)),
        ("jitter_seconds", number(update.set_jitter_seconds)),
        ("max_in_flight", percent(update.set_max_in_flight)),
        ("timeout_seconds", number(update.set_timeout_seconds)),
        ("failure_seconds", number(update.set_failure_seconds)),
        ("max_failed_before_halt", percent(update.set_max_failed_before_halt)),
        ("max_timeout_before_halt", percent(update.set_max_timeout_before_halt)),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect()
}

/// Turns updates on or off where the policy that rules says so.
fn switch(client: &ApiClient, is_on: bool, dry_run: bool) -> Result<Option<Answer<WriteResult>>, Failure> {
    if swap::only(client, Kind::Maintenance)?.is_none()
        && let Some(config) = swap::only(client, Kind::Config)?
        && config.json.pointer("/spec/agents").is_some()
    {
        let mode = if is_on { "enabled" } else { "disabled" };
        return swap::set(client, Kind::Config, &["spec", "agents", "mode"], mode, dry_run);
    }
    swap::change(client, Kind::Maintenance, dry_run, |document| set_on(document, is_on))
}

/// The seed has the key twice: as a boolean, and as the schedule without groups, which means on. Gives whether it changed.
fn set_on(document: &mut Node, is_on: bool) -> Result<bool, Failure> {
    let here = document.at(&["spec", AUTO_UPDATE]);
    match (here.is_some_and(|here| here.pairs().is_some()), is_on) {
        (true, true) => Ok(false),
        (true, false) => {
            let message = "agent_auto_update holds the schedule of hosts without a group, which `off` would remove: stop \
                           with `teleport-fleet autoupdate agents halt --all`, or change it with `teleport-fleet edit \
                           cluster_maintenance_config`";
            Err(Failure::new("conflict", message))
        }
        (false, _) => {
            document.set(&["spec", AUTO_UPDATE], Node::plain(is_on));
            Ok(true)
        }
    }
}

fn set_group(
    document: &mut Node,
    schedule: &str,
    group: &str,
    settings: &[(&'static str, Node)],
) -> Result<(), Failure> {
    let mut groups = document.at(&["spec", GROUPS, schedule]).cloned().unwrap_or_else(|| Node::list(Vec::new()));
    let mut names = Vec::new();
    let mut is_found = false;
    if let Value::Sequence(items) = &mut groups.value {
        for item in items {
            let name = item.get("name").and_then(Node::as_str).unwrap_or_default().to_owned();
            if name == group {
                is_found = true;
                settings.iter().for_each(|(key, value)| item.set(&[key], value.clone()));
            }
            names.push(name);
        }
    }
    if !is_found {
        let has = if names.is_empty() { "no groups".to_owned() } else { names.join(", ") };
        let message = format!(
            "there is no group {group:?} in the {schedule} schedule of cluster_maintenance_config: it has {has}"
        );
        return Err(Failure::new("not_found", message));
    }
    document.set(&["spec", GROUPS, schedule], groups);
    Ok(())
}

/// `reset`: the policy goes, the maintenance window stays.
pub(super) fn reset(dry_run: bool, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let mut done = None;
    if swap::only(client, Kind::Maintenance)?.is_some() {
        done = swap::change(client, Kind::Maintenance, dry_run, |document| {
            let removed = [AUTO_UPDATE, GROUPS, "agents"].map(|key| document.remove(&["spec", key]));
            Ok(removed.contains(&true))
        })?;
    } else if swap::only(client, Kind::Config)?.is_some() {
        let message = "the policy is in autoupdate_config: change it with `teleport-fleet edit autoupdate_config`, or \
                       remove it with `teleport-fleet rm autoupdate_config`";
        return Err(Failure::new("conflict", message));
    }
    said(RESET, done.as_slice(), dry_run, screen)
}

/// `status [--group]`.
pub(super) fn status(group: Option<&str>, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let agents::Found { rollout, stops, mut value } = agents::rollout(client)?;
    let mut shown = None;
    if let (Some(rollout), Some(name)) = (&rollout, group) {
        let groups = &rollout.status.groups;
        let Some(index) = groups.iter().position(|group| group.name == name) else {
            let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
            let message = format!("there is no group {name:?} in the rollout: it has {}", names.join(", "));
            return Err(Failure::new("not_found", message));
        };
        shown = Some(&groups[index]);
        value = value["groups"][index].take();
    }
    value::show(screen, &value, |out, look| {
        match (&rollout, shown) {
            (None, _) => return whole::text(out, None, &stops, look),
            (Some(_), Some(group)) => flat::group(out, group)?,
            (Some(rollout), None) => flat::rollout(out, rollout)?,
        }
        whole::store(out, &stops, look)
    })
}

/// `run --group`.
pub(super) fn run(group: &str, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let acted = agents::send(Command::Run { groups: vec![group.to_owned()], all: false }, false, client)?;
    value::show(screen, &acted::value(&acted, false), |out, look| acted::run(out, group, &acted, look))
}
