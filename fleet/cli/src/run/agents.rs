//! `autoupdate agents …`, and what commands do.

use fleet_engine::command::Command;
use fleet_wire::api::{Act, Acted, Code, StateCounts};
use serde_json::{Value, json};

use super::{id, path};
use crate::args::{AgentsVerb, PrintFormat};
use crate::client::{Answer, ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::rollout::{AgentRollout, Stops, StopsAlone};
use crate::show::{acted, report, status, text, value};

/// What a table of rollouts has.
const ROLLOUT_TITLES: [&str; 7] = ["Number", "Start Version", "Target Version", "Schedule", "Began", "State", "Groups"];

/// Carries one of its verbs out.
pub(super) fn run(verb: &AgentsVerb, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let (command, is_dry) = match verb {
        AgentsVerb::Status(_) => return show_status(client, screen),
        AgentsVerb::Report => return show_report(client, screen),
        AgentsVerb::StartUpdate { groups, force, ignore_blackout, dry_run } => {
            let groups = named(groups, None)?;
            (Command::Start { groups, force: *force, ignore_blackout: *ignore_blackout }, *dry_run)
        }
        AgentsVerb::MarkDone { groups, dry_run } => (Command::MarkDone { groups: named(groups, None)? }, *dry_run),
        AgentsVerb::Rollback { groups, at_once, dry_run } => {
            let all_started = groups.is_empty();
            (Command::Rollback { groups: groups.clone(), all_started, at_once: *at_once }, *dry_run)
        }
        AgentsVerb::Halt(halt) => {
            let groups = named(&halt.groups, Some(halt.all))?;
            (Command::Halt { groups, all: halt.all }, halt.dry_run)
        }
        AgentsVerb::Run(run) => {
            (Command::Run { groups: named(&run.groups, Some(run.all))?, all: run.all }, run.dry_run)
        }
    };
    act(command, is_dry, client, screen)
}

/// The words of `tctl`; `all`: whether `--all` is given, where there is such an option.
fn named(groups: &[String], all: Option<bool>) -> Result<Vec<String>, Failure> {
    if groups.is_empty() && all != Some(true) {
        let way = all.map_or("", |_| ": name groups, or give --all");
        return Err(Failure::new(Failure::USAGE, format!("no groups specified{way}")));
    }
    Ok(groups.to_vec())
}

/// Has the server carry `command` out, and shows what it did.
pub(super) fn act(command: Command, dry_run: bool, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let acted = send(command.clone(), dry_run, client)?;
    let shown = acted::value(&acted, dry_run);
    value::show(screen, &shown, |out, look| acted::text(out, &command, &acted, dry_run, look))
}

/// Asks the server to carry `command` out.
pub(super) fn send(command: Command, dry_run: bool, client: &ApiClient) -> Result<Answer<Acted>, Failure> {
    client.ask(&ApiCall::post("/v1/fleet/commands", &Act { id: id(), command, dry_run })?.dry(dry_run))
}

/// The rollout and what keeps hosts besides it; `None`: there is none, and what keeps hosts is asked for by itself.
pub(super) struct Found {
    pub(super) rollout: Option<AgentRollout>,
    pub(super) stops: Stops,
    /// For programs.
    pub(super) value: Value,
}

/// Asks for it.
pub(super) fn rollout(client: &ApiClient) -> Result<Found, Failure> {
    match client.ask::<Answer<AgentRollout>>(&ApiCall::get("/v1/fleet/rollout")) {
        Ok(rollout) => {
            let stops = rollout.status.stops.clone();
            Ok(Found { value: status::value(&rollout, &rollout.said), rollout: Some(rollout.read), stops })
        }
        Err(failure) if failure.is(Code::NoRollout) => {
            let mut found = Found { rollout: None, stops: Stops::default(), value: json!({ "active": false }) };
            match client.ask::<Answer<StopsAlone>>(&ApiCall::get("/v1/fleet/holds")) {
                Ok(stops) => {
                    found.stops = stops.read.into();
                    status::add_stops(&mut found.value, &stops.said);
                }
                // An older server does not say.
                Err(failure) if failure.is(Code::NotFound) => {}
                Err(failure) => return Err(failure),
            }
            Ok(found)
        }
        Err(failure) => Err(failure),
    }
}

/// `status`.
pub(super) fn show_status(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let found = rollout(client)?;
    value::show(screen, &found.value, |out, look| status::text(out, found.rollout.as_ref(), &found.stops, look))
}

fn show_report(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let counts: Answer<StateCounts> = client.ask(&ApiCall::get("/v1/fleet/counts"))?;
    match screen.format() {
        PrintFormat::Text => report::text(screen.out(), &counts),
        format => value::write(screen.out(), format, &report::value(&counts)?),
    }
}

/// `rollouts`: the present rollout, and past ones as they were last.
pub(super) fn rollouts(
    before: Option<u64>,
    last: u32,
    client: &ApiClient,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let query = [("before", before.map(|before| before.to_string())), ("limit", Some(last.to_string()))];
    let found: Vec<Answer<AgentRollout>> = client.ask(&ApiCall::get(path::with_query("/v1/fleet/rollouts", query)))?;
    value::list(screen, &found, ROLLOUT_TITLES, |rollout| {
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
