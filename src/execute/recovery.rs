//! Finishing or undoing an interrupted run from its journal alone (SPEC §8).

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::journal::{self, Journal, Record};
use super::{Site, steps};
use crate::host::durable;
use crate::host::layout::Layout;
use crate::plan::{Node, Placement, Plan, Step};
use crate::report::{Code, Error, Result};

/// What recovery did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// There was nothing to recover.
    Nothing,
    /// The run was finished: it had been committed.
    Finished,
    /// The run was undone.
    Undone,
}

/// Makes sure that the run in `journal` is the last one that changed this host: one that came back with a backup would put an
/// old database in the place of a newer one. What a run leaves at its links, wherever it ends, is what was there, what was to be
/// there, or nothing.
///
/// Errors: `journal_unknown` if something else is there; `io`.
pub(crate) fn check_is_last(journal: &Journal, layout: &Layout) -> Result<()> {
    if journal.is_closed() || (!journal.is_committed() && journal.to_undo().is_empty()) {
        return Ok(());
    }
    let plan = &journal.opening()?.plan;
    let is_version = |node: &Node| matches!(node, Node::Link(target) if target.starts_with(layout.versions_inside()));
    let is_kept = |place: &Placement| matches!((&place.was, &place.now), (Node::Kept(_), _) | (_, Node::Kept(_)));
    // A name can have two steps: ours is taken away, and what was set aside for it comes back.
    let places: Vec<&Placement> = plan.switch.iter().flat_map(|step| step.placements()).collect();
    for step in &plan.switch {
        // Another agent in its place can have changed the database, too; a helper of others has not.
        let is_agents = matches!(step, Step::LinkAgent { .. }) && !journal.is_committed();
        for place in step.placements().iter().filter(|place| !steps::files::is_below_a_file(&place.path)) {
            let found = steps::files::look(&place.path)?;
            let at_name = places.iter().filter(|other| other.path == place.path);
            let is_runs =
                at_name.flat_map(|place| [&place.was, &place.now]).chain([&Node::Absent]).any(|node| *node == found);
            if is_runs || !(is_version(&found) || (is_agents && !is_kept(place))) {
                continue;
            }
            let (shown, path) = (layout.versions.join(journal::NAME), place.path.display());
            let shown = shown.display();
            let found = match found {
                Node::Link(target) => format!("{path} leads to {}", target.display()),
                _ => format!("{path} is a file"),
            };
            let command = &journal.opening()?.command;
            let what = format!(
                "{shown} does not belong to the last change of this host (was it restored from a backup?): {found}, \
                 which its run of `{command}` neither found nor put there"
            );
            return Err(Error::new(Code::JournalUnknown, what).advise(format!(
                "nothing was changed; if `teleport-update status` shows the right versions, remove {shown} and run \
                 `teleport-update enable`"
            )));
        }
    }
    Ok(())
}

/// Recovers. `on_undone` writes down what was undone while the journal is still open.
///
/// # Errors
/// The journal is not understood, or a step cannot be undone yet: the journal stays, the next run goes on.
pub(crate) fn run(site: &Site<'_>, mut journal: Journal, on_undone: &mut dyn FnMut(&Journal)) -> Result<Recovered> {
    if journal.is_closed() {
        journal.close()?;
        return Ok(Recovered::Nothing);
    }
    let plan = journal.opening()?.plan.clone();
    let command = journal.opening()?.command.clone();
    sweep_temps(&plan)?;
    site.report.notice(&format!("a run of `{command}` was interrupted; recovering"));
    if journal.is_committed() {
        // It stays as it is, and the command that recovers goes on with its own work.
        if let Some(error) = super::finish(site, &plan, journal)? {
            site.report.warn(&error.to_string());
        }
        return Ok(Recovered::Finished);
    }
    journal.append(Record::Recover).inspect_err(|_| steps::start_meanwhile(site, &journal))?;
    let error = Error::new(Code::Interrupted, format!("a run of `{command}` was interrupted"));
    super::undo(site, &mut journal, &error, false).map_err(|error| {
        Error::new(Code::RecoveryFailed, error.what.clone()).advise(error.advice.unwrap_or_else(|| {
            "the next run or boot tries again; run `teleport-update recover` for the details".into()
        }))
    })?;
    if let Some(down) = site.down.take() {
        site.report.warn(&down.to_string());
    }
    on_undone(&journal);
    journal.close()?;
    Ok(Recovered::Undone)
}

/// Temporary links and files that the killed run left beside what it was placing.
fn sweep_temps(plan: &Plan) -> Result<()> {
    let steps = plan.switch.iter().chain(&plan.after);
    let dirs = steps.flat_map(Step::placements).map(|place| durable::parent(&place.path).to_owned());
    let dirs: BTreeSet<PathBuf> = dirs.collect();
    dirs.iter().try_for_each(|dir| durable::sweep_temps(dir))
}
