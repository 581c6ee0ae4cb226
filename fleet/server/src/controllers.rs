//! Controllers: each asks a TUF repository what its signers list, and drafts a directive of that (DIRECTIVES §5.4).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fleet_engine::drafting::{ReleaseBuild, draft};
use fleet_engine::resource::{BasicDirective, Controller, Resource};
use fleet_wire::api::{NewDraft, Role};
use jiff::Timestamp;
use serde_json::json;

use crate::clock;
use crate::core::{Actor, Core, directives};
use crate::outbound;
use crate::tuf_site::ControllerFaults;

/// Between two looks for controllers that are due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A fault is tried again so soon: a repository that is signed anew heals by itself.
const TRY_EVERY: Duration = Duration::from_secs(60);

/// A controller, and the entries that count where it has none.
type Wanted = (String, Controller, Vec<BasicDirective>);

/// Asks, as long as the server runs.
pub(crate) async fn watch(core: Core, faults: ControllerFaults) {
    let mut due = tokio::time::interval(LOOK_EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut asked: BTreeMap<String, (Controller, Instant)> = BTreeMap::new();
    loop {
        due.tick().await;
        let public = core.snapshot().public();
        let basic = public.resources.version_control().basic;
        let wanted: Vec<Wanted> = public.resources.all().filter_map(|resource| controller(resource, &basic)).collect();
        let names: Vec<String> = wanted.iter().map(|(name, ..)| name.clone()).collect();
        asked.retain(|name, _| names.contains(name));
        faults.keep_only(&names);
        for (name, controller, basic) in wanted {
            let is_asked = asked.get(&name).is_some_and(|(known, next)| *known == controller && Instant::now() < *next);
            if is_asked {
                continue;
            }
            let fault = ask(&core, &name, controller.clone(), basic).await.err();
            let every = Duration::try_from(controller.interval).unwrap_or(TRY_EVERY);
            let next = if fault.is_some() { every.min(TRY_EVERY) } else { every };
            asked.insert(name.clone(), (controller, Instant::now() + next));
            faults.set(&name, fault);
        }
    }
}

fn controller(resource: &Resource, basic: &[BasicDirective]) -> Option<Wanted> {
    let Resource::Controller(object) = resource else { return None };
    let name = format!("tuf/{}", object.metadata.name);
    let own = &object.model.basic;
    Some((name, object.model.clone(), if own.is_empty() { basic.to_vec() } else { own.clone() }))
}

/// Asks one, and writes its draft. Errors: why not.
async fn ask(core: &Core, name: &str, controller: Controller, basic: Vec<BasicDirective>) -> Result<(), String> {
    let now = clock::now();
    let asked = tokio::task::spawn_blocking(move || listed(&controller, now));
    let (builds, stale_after) = asked.await.map_err(|error| error.to_string())??;
    let none = || "its signers list no archive of Teleport's for Linux that its entries want".to_owned();
    let spec = draft(&builds, &basic, name, stale_after).ok_or_else(none)?;
    let text = json!({ "kind": "version-directive", "version": "v1", "spec": spec }).to_string();
    let new = NewDraft { id: uuid::Uuid::new_v4().to_string(), text };
    let actor = Actor { who: format!("controller {name}"), from: "this server".to_owned(), role: Role::Controller };
    let draft = name.to_owned();
    let written = core.run(move |tx| directives::put(tx, &actor, &draft, &new)).await;
    written.map(drop).map_err(|error| error.message)
}

/// The builds that are listed, and until when that is good. May wait for the network.
fn listed(controller: &Controller, now: Timestamp) -> Result<(Vec<ReleaseBuild>, Timestamp), String> {
    let client = outbound::client_for(&controller.url)?;
    let (files, end) =
        fleet_tuf::listed(&controller.url, &controller.root, &client, now).map_err(|error| error.to_string())?;
    let build = |(name, (file, custom)): (&String, &(tuf::TargetFile, serde_json::Value))| {
        let digest = protocol::Digest(file.sha256()?).to_string();
        ReleaseBuild::of(name, file.length, &digest, custom)
    };
    Ok((files.iter().filter_map(build).collect(), end))
}
