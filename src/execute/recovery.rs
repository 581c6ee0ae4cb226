//! Finishing or undoing an interrupted run from its journal alone (SPEC §8).

use std::path::Path;

use super::journal::{self, Journal, Record};
use super::{Site, steps};
use crate::host::durable;
use crate::plan::{Plan, Step};
use crate::report::{Code, Error, Result};

/// What recovery did.
#[derive(Debug, PartialEq, Eq)]
pub enum Recovered {
    /// There was nothing to recover.
    Nothing,
    /// The run was finished: it had been committed.
    Finished,
    /// The run was undone.
    Undone,
}

/// Whether a run was interrupted.
pub fn is_pending(versions: &Path) -> bool {
    journal::is_open(versions)
}

/// Recovers. `regret` writes down what was undone while the journal is still open.
///
/// # Errors
/// The journal is not understood, or a step cannot be undone yet: the journal stays, the next run goes on.
pub fn run(site: &Site<'_>, mut journal: Journal, regret: &mut dyn FnMut(&Journal)) -> Result<Recovered> {
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
        if let Err(error) = super::finish(site, &plan, journal)? {
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
    regret(&journal);
    journal.close()?;
    Ok(Recovered::Undone)
}

/// Temporary links and files that the killed run left beside what it was placing.
fn sweep_temps(plan: &Plan) -> Result<()> {
    let steps = plan.switch.iter().chain(&plan.after);
    let mut dirs: Vec<&Path> = steps.flat_map(Step::placements).map(|place| durable::parent(&place.path)).collect();
    dirs.sort();
    dirs.dedup();
    dirs.into_iter().try_for_each(durable::sweep_temps)
}
