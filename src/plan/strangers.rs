//! Agents that are not ours: what of them may be replaced, and what is said of the rest.

use super::{Facts, Over, Stranger};
use crate::report::{Code, Error, Result};
use protocol::Revision;

/// A newer agent has migrated the database, and of the time before that there is no snapshot: to put an older one in its
/// place is a downgrade in disguise (SPEC §5).
pub(super) fn refuse_strangers(facts: &Facts, to: &Revision, over: Over) -> Result<()> {
    for stranger in unknown(facts) {
        let path = stranger.path.display();
        match &stranger.revision {
            Some(revision) if to.version.precedes(&revision.version) && over < Over::Newer => {
                let what = format!(
                    "{path} is Teleport {revision}: installing {to} would be a downgrade without a database backup"
                );
                return Err(Error::new(Code::NewerAgent, what)
                    .advise("install a version that is not older, or downgrade anyway with `enable --overwrite`"));
            }
            None if stranger.in_place && over == Over::Told => {
                let what = format!("{path} was not installed by teleport-update, and its version cannot be found out");
                return Err(Error::new(Code::PathTaken, what).advise("run `teleport-update enable` to replace it"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What an operator should know of agents that are not ours.
pub(super) fn stranger_notes(facts: &Facts, to: &Revision) -> Vec<String> {
    let note = |stranger: &Stranger| {
        let path = stranger.path.display();
        match &stranger.revision {
            Some(revision) if to.version.precedes(&revision.version) => Some(format!(
                "{path} is Teleport {revision}, and {to} will use that database: there is no backup to go back to"
            )),
            Some(revision) if stranger.in_place && facts.active.is_some() => Some(format!(
                "{path} was replaced by Teleport {revision}, which teleport-update did not install; {to} replaces it"
            )),
            None if stranger.in_place => Some(format!(
                "the Teleport version of {path} cannot be found out: if it is newer than {to}, this is a downgrade \
                 without a database backup"
            )),
            _ => None,
        }
    };
    unknown(facts).filter_map(note).collect()
}

/// All but what a script has installed: that is the active version.
fn unknown(facts: &Facts) -> impl Iterator<Item = &Stranger> {
    facts.strangers.iter().filter(|stranger| !(facts.by_script && stranger.revision == facts.active))
}
