//! What becomes of the agent's database: the table of SPEC §6.

use super::{Database, Direction, Facts, Snapshot};
use crate::report::{Code, Error, Result};
use protocol::Revision;

const NEWER: &str = "update to a newer version instead";

/// The table of SPEC §6.
pub(super) fn database_move(
    facts: &Facts,
    direction: Direction,
    to: &Revision,
    trusted: bool,
    notes: &mut Vec<String>,
) -> Result<Database> {
    // The target's own snapshot is older than what a newer agent than the active one has written since.
    if direction == Direction::Upgrade && facts.ran().is_some_and(|ran| !to.version.precedes(&ran.version)) {
        return Ok(Database::Keep);
    }
    let none = Snapshot::Unusable(Error::new(Code::BackupMissing, format!("there is no database backup for {to}")));
    let snapshot = facts.find(to).map_or(&none, |installed| &installed.snapshot);
    match (direction, snapshot) {
        (Direction::Downgrade, Snapshot::Valid) => Ok(Database::Restore),
        (Direction::Downgrade, Snapshot::NoDatabase) if !facts.database => Ok(Database::Keep),
        // What the failed version made goes; it is kept as its snapshot.
        (Direction::Downgrade, Snapshot::NoDatabase) if trusted => Ok(Database::Restore),
        (Direction::Downgrade, Snapshot::NoDatabase) => {
            let why = "when this host last ran it there was no database, and now there is one";
            Err(Error::new(Code::BackupMissing, format!("refusing to downgrade to {to}: {why}")).advise(NEWER))
        }
        (Direction::Downgrade, Snapshot::Unusable(why)) => {
            Err(Error::new(why.code, format!("refusing to downgrade to {to}: {}", why.what))
                .advise(why.advice.as_deref().unwrap_or(NEWER)))
        }
        (Direction::Upgrade, Snapshot::Valid) => Ok(Database::Restore),
        (Direction::EditionSwitch, Snapshot::Valid) if trusted => Ok(Database::Restore),
        // Not read is not invalid: a disk's passing fault must not decide which rows the agent gets.
        (Direction::Upgrade, Snapshot::Unusable(why)) if !why.code.as_str().starts_with("backup_") => {
            Err(Error::new(why.code, format!("cannot check the database backup of {to}: {}", why.what)).advise(
                format!(
                    "run the command again; to continue without this backup, move {} away",
                    facts.versions.join(facts.dir_for(to)).join("backup").display()
                ),
            ))
        }
        (Direction::Upgrade, Snapshot::Unusable(why)) if why.code != Code::BackupMissing => {
            notes.push(format!("the database backup of {to} is not restored: {}", why.what));
            Ok(Database::Keep)
        }
        _ => Ok(Database::Keep),
    }
}
