//! Gathering the facts that a plan is made from. Reads only; works without root as far as files are readable.

pub(crate) mod data_dir;
mod in_use;
mod links;
mod node;
mod own_units;
pub(crate) mod places;
mod running;
mod settings;
mod stranger;
mod takeover;
mod timers;
mod units;
pub(crate) mod upgrader;
mod versions;

use std::path::{Path, PathBuf};

use crate::config::Updates;
use crate::context::Context;
use crate::database::SnapshotId;
use crate::host::{Layout, durable};
use crate::plan::TIMER_UNIT;
use crate::plan::facts::{Agent, Facts, Installed};
use crate::report::{Code, Result};
use crate::service::{AgentState, Service, readiness};
use in_use::InUse;
pub(crate) use links::{links_in_usual_dir, replaced};
pub(crate) use running::{linked, running};
pub(crate) use settings::{believe_links, open};
pub(crate) use takeover::is_foreign;
pub(crate) use timers::silent_timer;
pub(crate) use units::starts_elsewhere;
pub(crate) use versions::{active, dir_of, installed_now};

/// What facts are wanted for, and so how much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FactsFor {
    /// What every move needs.
    Move,
    /// The same for the way back of a watch, whose agent ran.
    Back,
    /// Also what `enable` and `pin` take over: packages, the Go updater, closed directories.
    Adopt,
    /// Also every byte of the active version, in place of sizes and modes alone.
    Repair,
}

/// The facts of now.
pub(crate) fn facts(
    context: &Context,
    updates: &Updates,
    facts_for: FactsFor,
    trusted: Option<SnapshotId>,
) -> Result<Facts> {
    let layout = &context.layout;
    let (spec, status) = (updates.spec(), updates.status());
    let now = context.host.now();
    let versions = layout.path_inside(&layout.versions);
    let data_dir = context.data_dir()?;
    let mut installed = versions::installed(context, updates, now, trusted)?;
    let active = active(updates, &installed);
    if facts_for == FactsFor::Repair {
        let suspect = |version: &&mut Installed| version.intact && Some(&version.revision) == active.as_ref();
        installed.iter_mut().filter(suspect).try_for_each(|version| versions::every_byte(layout, version))?;
    }
    let names = links::names(context, &installed, &versions)?;
    let service = context.service(updates)?;
    // An image has no processes.
    let state = if layout.is_image() { AgentState::default() } else { service.state(&context.stop_proof()?)? };
    let strangers = stranger::strangers(context, &names, active.as_ref(), state.main_pid, spec.version_wait)?;
    let foreign = !state.running && !state.unmanaged.is_empty();
    let other_data_dir = if layout.is_image() { None } else { data_dir::other(context, updates, &state, &data_dir)? };
    let in_use = if layout.is_image() { InUse::default() } else { InUse::of(&layout.versions, &installed, &data_dir)? };
    let adopt = facts_for == FactsFor::Adopt;
    let given_up = if adopt { GivenUp::of(context)? } else { GivenUp::default() };
    let closed_path = if adopt { takeover::closed_path(context)? } else { None };
    Ok(Facts {
        now,
        versions: versions.clone(),
        link_dir: layout.link_dir.clone(),
        active,
        by_script: status.installed_by.is_some(),
        previous: status.previous.clone(),
        unit: units::unit(context)?,
        enablement: units::enablement(context)?,
        database: has_database(layout, &data_dir)?,
        other_data_dir,
        agent: Agent {
            running: state.running || foreign,
            enabled: state.enabled,
            failed: state.failed,
            fell: facts_for == FactsFor::Back && !state.running && !state.stopped,
            served: state.running && readiness::probe(&data_dir).is_served(),
            controllable: !foreign && service != Service::None,
        },
        strangers,
        refused: status.refused.clone(),
        delayed: status.delayed.clone(),
        left: status.left.iter().map(|left| (left.revision.clone(), left.time)).collect(),
        components: spec.components.clone(),
        keep: spec.keep,
        in_use: in_use.by_the_agents,
        in_use_by_others: in_use.by_others,
        packages: if adopt { takeover::packages(layout)? } else { Vec::new() },
        foreign_links: if adopt { takeover::foreign_links(context)? } else { Vec::new() },
        foreign_timers: given_up.timers,
        masked_timer: given_up.masked,
        set_aside: given_up.files,
        grant_traverse: closed_path.clone().and_then(|(path, opens)| opens.then_some(path)),
        closed_path: closed_path.and_then(|(path, opens)| (!opens).then_some(path)),
        moved_links: links::moved_links(context, &versions)?,
        own_units: own_units::all(context, &data_dir)?,
        installed,
        names,
    })
}

/// What the updaters before this one give up.
#[derive(Default)]
struct GivenUp {
    /// Their files, with the place where each will be kept.
    files: Vec<(PathBuf, PathBuf)>,
    /// Their timers that run.
    timers: Vec<String>,
    /// The package's own timer, which one of the files masks.
    masked: Option<String>,
}

impl GivenUp {
    fn of(context: &Context) -> Result<Self> {
        let (layout, foreign) = (&context.layout, timers::foreign(context));
        let mut files = takeover::set_aside(context)?;
        let masks = files.iter().any(|(path, _)| path.ends_with(&foreign));
        let mut timers = upgrader::running(context)?;
        timers.extend(if masks { timers::active(layout, foreign)? } else { None });
        files.extend(upgrader::set_aside(layout)?);
        let is_masked =
            masks && layout.suffix.is_none() && timers::is_in(layout, &upgrader::UNIT_DIRS[1..], TIMER_UNIT)?;
        Ok(Self { files, timers, masked: is_masked.then(|| TIMER_UNIT.to_owned()) })
    }
}

/// Whether the agent has a database; readers that may not look must reckon with one.
fn has_database(layout: &Layout, data_dir: &Path) -> Result<bool> {
    durable::exists(&layout.database(data_dir)).or_else(|error| match error.code {
        Code::Permission => Ok(true),
        _ => Err(error),
    })
}
