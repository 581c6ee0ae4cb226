//! `autoupdate agents …` and `approve`.

use fleet_engine::command::Command;
use fleet_wire::api::{Act, Acted, Code, StateCounts};
use serde_json::json;

use super::id;
use crate::args::{AgentsVerb, ApproveArgs, PrintFormat};
use crate::client::{ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::rollout::{AgentRollout, Stops, StopsAlone};
use crate::show::{acted, report, status, value};

/// Carries one of its verbs out.
pub(super) fn run(verb: &AgentsVerb, client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let (command, is_dry) = match verb {
        AgentsVerb::Status => return show_status(client, screen),
        AgentsVerb::Report => return show_report(client, screen),
        AgentsVerb::StartUpdate(start) => {
            (Command::Start { groups: named(&start.groups)?, force: start.force }, start.dry_run)
        }
        AgentsVerb::MarkDone(done) => (Command::MarkDone { groups: named(&done.groups)? }, done.dry_run),
        AgentsVerb::Rollback(back) => {
            let all_started = back.groups.is_empty();
            (Command::Rollback { groups: back.groups.clone(), all_started, at_once: back.at_once }, back.dry_run)
        }
        AgentsVerb::Halt(halt) => {
            let groups = named_or_all(&halt.groups, halt.all)?;
            (Command::Halt { groups, all: halt.all }, halt.dry_run)
        }
        AgentsVerb::Run(run) => {
            (Command::Run { groups: named_or_all(&run.groups, run.all)?, all: run.all }, run.dry_run)
        }
    };
    act(command, is_dry, client, screen)
}

/// `approve GROUP`.
pub(super) fn approve(approve: &ApproveArgs, client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    act(Command::Approve { groups: vec![approve.group.clone()], digest: approve.digest.clone() }, false, client, screen)
}

/// The words of `tctl`.
fn named(groups: &[String]) -> Result<Vec<String>, Failure> {
    if groups.is_empty() {
        return Err(Failure::new("bad_request", "no groups specified"));
    }
    Ok(groups.to_vec())
}

fn named_or_all(groups: &[String], all: bool) -> Result<Vec<String>, Failure> {
    if groups.is_empty() && !all {
        return Err(Failure::new("bad_request", "no groups specified: name groups, or give --all"));
    }
    Ok(groups.to_vec())
}

fn act(command: Command, dry_run: bool, client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let acted = send(command.clone(), dry_run, client)?;
    let shown = json!({
        "groups": acted.groups,
        "dry_run": dry_run,
        "effects": acted.effects,
        "rollout": status::value(acted.rollout.as_ref(), &acted::stops(&acted)),
    });
    value::show(screen, &shown, |out, look| acted::text(out, &command, &acted, dry_run, look))
}

/// Asks the server to carry `command` out.
pub(super) fn send(command: Command, dry_run: bool, client: &ApiClient) -> Result<Acted, Failure> {
    client.ask(&ApiCall::post("/v1/fleet/commands", &Act { id: id(), command, dry_run })?.dry(dry_run))
}

/// The rollout and what keeps hosts besides it; `None`: there is none, and what keeps hosts is asked for by itself.
pub(super) fn rollout(client: &ApiClient) -> Result<(Option<AgentRollout>, Stops), Failure> {
    match client.ask::<AgentRollout>(&ApiCall::get("/v1/fleet/rollout")) {
        Ok(rollout) => {
            let stops = rollout.status.stops.clone();
            Ok((Some(rollout), stops))
        }
        Err(failure) if failure.is(Code::NoRollout) => {
            match client.ask::<StopsAlone>(&ApiCall::get("/v1/fleet/holds")) {
                Ok(stops) => Ok((None, stops.into())),
                // An older server does not say.
                Err(failure) if failure.is(Code::NotFound) => Ok((None, Stops::default())),
                Err(failure) => Err(failure),
            }
        }
        Err(failure) => Err(failure),
    }
}

fn show_status(client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let (rollout, stops) = rollout(client)?;
    let shown = status::value(rollout.as_ref(), &stops);
    value::show(screen, &shown, |out, look| status::text(out, rollout.as_ref(), &stops, look))
}

fn show_report(client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let counts: StateCounts = client.ask(&ApiCall::get("/v1/fleet/counts"))?;
    match screen.format() {
        PrintFormat::Text => report::text(screen.out(), &counts),
        format => value::write(screen.out(), format, &report::value(&counts)?),
    }
}
