//! A copy of the database while the server writes it (FLEET §7).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::{AtPath, Error, OfDatabase, Result};
use crate::files::{self, DataDir};
use crate::{connection, schema};

/// How long the database may be locked by others in all: SQLite locks it only while it begins its log anew.
const DEADLINE: Duration = Duration::from_secs(10);
/// Pause before the next look at a locked database.
const PAUSE: Duration = Duration::from_millis(20);

/// Writes a consistent copy of the database in `dir` to `to`, as one file that only its owner may read, and syncs it. Works
/// beside the server that writes `dir`, in any thread or process, and keeps it waiting nowhere. Errors: `Refused` where `to`
/// exists or is a name of the database's own; then, and after any other error, nothing is left at `to`.
pub fn backup(dir: &Path, to: &Path) -> Result<()> {
    let place = DataDir::at(dir)?;
    if place.find()?.is_none() {
        return Err(Error::Unavailable(format!(
            "{} is not there: name the data directory",
            place.file(files::DATABASE).display()
        )));
    }
    let target = BackupTarget::new(&place, to)?;
    let copied = copy(&place, &target.partial).and_then(|()| files::rename_to_free(&target.partial, &target.path));
    if let Err(error) = copied {
        files::remove_database(&target.partial)?;
        return Err(error);
    }
    files::sync(&target.dir)?;
    note(&place.file(files::DATABASE));
    Ok(())
}

/// Where a backup goes.
struct BackupTarget {
    dir: PathBuf,
    path: PathBuf,
    /// Its name while it is not whole.
    partial: PathBuf,
}

impl BackupTarget {
    fn new(place: &DataDir, to: &Path) -> Result<Self> {
        let name = to.file_name().ok_or_else(|| Error::Refused(format!("{} is not a file's name", to.display())))?;
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = parent.canonicalize().at("cannot open", parent)?;
        let path = dir.join(name);
        let shown = path.display();
        // The server and SQLite give these names a meaning.
        if dir == place.dir() && name.as_encoded_bytes().starts_with(b"fleet.") {
            return Err(Error::Refused(format!("{shown} is a name of the server's own: choose another one")));
        }
        if files::metadata(&path)?.is_some() {
            return Err(Error::Refused(format!("{shown} exists: choose another name, or remove it first")));
        }
        let mut partial = std::ffi::OsString::from(".");
        partial.push(name);
        partial.push(format!(".partial-{}", std::process::id()));
        Ok(Self { partial: dir.join(partial), dir, path })
    }
}

fn copy(place: &DataDir, partial: &Path) -> Result<()> {
    let database = place.file(files::DATABASE);
    let source = connection::open_for_reading(&database)?;
    schema::refuse_newer(&source, &database)?;
    // What an interrupted backup of a process with this id left.
    files::remove_database(partial)?;
    let user = rustix::process::geteuid().as_raw();
    drop(files::make(partial, (user, rustix::process::getegid().as_raw()))?);
    let mut target = connection::open(partial)?;
    // It is worth nothing until it is whole, and is synced then.
    target.pragma_update(None, "synchronous", "OFF").sql(partial)?;
    pages(&source, &mut target).sql(partial)?;
    schema::migrate(&mut target, partial)?;
    // Put in a database's place by hand it would forget what was stopped since.
    target.execute("UPDATE store SET is_backup = 1", []).sql(partial)?;
    // One file, which can be read also where nothing can be made beside it.
    connection::settle(&target, partial)?;
    connection::check_all(&target, partial)?;
    drop(target);
    files::sync(partial)
}

/// Copies all pages in one step: it reads one point in time, and the server's log keeps what comes meanwhile.
fn pages(source: &Connection, target: &mut Connection) -> rusqlite::Result<()> {
    let until = Instant::now() + DEADLINE;
    let backup = Backup::new(source, target)?;
    loop {
        match backup.step(-1)? {
            StepResult::Done => return Ok(()),
            StepResult::Busy | StepResult::Locked if Instant::now() >= until => {
                let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
                return Err(rusqlite::Error::SqliteFailure(busy, None));
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// Notes when the last backup was made, for `doctor`. One that cannot be noted is a backup all the same.
fn note(database: &Path) {
    let noted = connection::open(database)
        .map(|connection| connection.execute("UPDATE store SET backup_at = ?1", [Timestamp::now().to_string()]));
    drop(noted);
}
