//! A store in one SQLite file, which one process has open.

use std::path::{Path, PathBuf};

use fleet_engine::host::HostId;
use fleet_wire::api::AuditHead;
use protocol::report::Key;
use rusqlite::{Connection, TransactionBehavior};

use crate::connection::{self, LOG_LIMIT, Sqlite, sqlite};
use crate::error::{Error, OfDatabase, Result};
use crate::files::{self, DataDir, StoreFileId};
use crate::lock::StoreLock;
use crate::state::{Change, Committed, HostSink, StoreState};
use crate::store::Store;
use crate::{audit, commit, enrolment, load, schema, strange, witness};

/// One open database, and the lock on its directory.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    place: DataDir,
    database: PathBuf,
    /// The files that are open, by name: a name that is gone or means another file must not be written through.
    files: Vec<(PathBuf, StoreFileId)>,
    /// Of which generation the file may be.
    generations: Vec<i32>,
    /// Bytes of the log at which it is next brought into the database.
    checkpoint_at: u64,
    /// The newest record that was seen and could not be noted yet, and why not.
    unwitnessed: Option<(AuditHead, Error)>,
    /// Why everything was held when it was opened.
    strange: Option<String>,
    /// After an error that leaves open what was written, nothing goes on before [`Store::reopen`].
    is_in_doubt: bool,
    _lock: Option<StoreLock>,
}

impl SqliteStore {
    /// Opens the database `fleet.db` in `dir`. Directory (0700) and database (0600) are made where there are none; an older
    /// schema is migrated. One that is older than what was seen here, another one, or a backup comes up with everything held
    /// ([`Store::strange`]). Errors: `Locked`, `Newer`, `Foreign`, `Unavailable`.
    pub fn open(dir: &Path) -> Result<Self> {
        let place = DataDir::make(dir)?;
        let lock = StoreLock::take(&place)?;
        let found = place.find()?;
        place.clean(found.as_ref())?;
        let seen = witness::read(&place)?;
        let generations = seen.map(|seen| seen.generations).unwrap_or_default();
        let mut aside = None;
        match found {
            Some(_) => {
                let header = files::check_header(&place.file(files::DATABASE))?;
                if let Some(log) = place.foreign_log(&header, &generations)? {
                    let kept = files::beside(&place.replaced(jiff::Timestamp::now()), "-wal");
                    files::rename(&log, &kept)?;
                    files::sync(place.dir())?;
                    aside = Some(kept);
                }
            }
            None => create(&place)?,
        }
        let mut store = Self::connect(place, Some(lock), false)?;
        let SqliteStore { connection, database, place, .. } = &mut store;
        store.strange = connection::immediate(connection, database, |db| strange::take(db, place, aside.as_deref()))?;
        store.generations = generations;
        store.place.keep_room_for_note()?;
        let head = audit::head(&store.db())?;
        store.begin_generation(&head).sql(&store.database)?;
        store.witness(Some(head));
        Ok(store)
    }

    /// From now on the file is of another generation than any copy of it, so that a copy that is put back beside a later log is told
    /// from it. Whatever a power cut leaves, the file's generation is one of those that are noted; where that fails, it stays.
    fn begin_generation(&mut self, head: &AuditHead) -> rusqlite::Result<()> {
        if !connection::checkpoint(&self.connection).unwrap_or(false) {
            return Ok(());
        }
        let of = |sql| self.connection.query_row(sql, [], |row| row.get(0));
        let (was, next): (i32, i32) = (of("PRAGMA user_version")?, of("SELECT random() % 2147483648")?);
        self.generations = vec![was, next];
        let noted = witness::write(&self.place, head, &self.generations);
        if noted.and_then(|()| files::sync(self.place.dir())).is_err() {
            return Ok(());
        }
        let begun = self.connection.pragma_update(None, "user_version", next);
        if begun.and_then(|()| connection::checkpoint(&self.connection)).unwrap_or(false) {
            self.generations = vec![next];
        }
        Ok(())
    }

    /// Notes that a record was seen. What fails is tried again with the next write: the decision is made, and this only tells an older
    /// database from this one.
    fn witness(&mut self, head: Option<AuditHead>) {
        let before = self.unwitnessed.take().map(|(head, _)| head);
        let Some(head) = head.or(before) else { return };
        self.unwitnessed = witness::write(&self.place, &head, &self.generations).err().map(|error| (head, error));
    }

    fn connect(place: DataDir, lock: Option<StoreLock>, is_after_doubt: bool) -> Result<Self> {
        let database = place.file(files::DATABASE);
        let mut connection = connection::open(&database)?;
        schema::refuse_newer(&connection, &database)?;
        connection::log_ahead(&connection, &database)?;
        connection::check_small_tables(&connection, &database)?;
        schema::migrate(&mut connection, &database)?;
        // What a failed fsync left in the log is in the page cache alone, and a crash may bring it back: only what is in the
        // database, or not in the log, is certain. A full disk does not keep a server from answering.
        match connection::checkpoint(&connection).sql(&database) {
            Err(error) if is_after_doubt => return Err(error),
            Ok(false) if is_after_doubt => {
                return Err(Error::Unavailable(format!("{} is being read by others: try again", database.display())));
            }
            _ => {}
        }
        let mut files = Vec::new();
        for path in [place.file(files::LOCK), database.clone(), files::beside(&database, "-wal")] {
            let found = files::metadata(&path)?.ok_or_else(|| gone(&path))?;
            files.push((path, files::id(&found)));
        }
        Ok(Self {
            connection,
            place,
            database,
            files,
            generations: Vec::new(),
            checkpoint_at: LOG_LIMIT,
            unwitnessed: None,
            strange: None,
            is_in_doubt: false,
            _lock: lock,
        })
    }

    /// Its connection, and the database's path.
    pub(crate) fn parts(&mut self) -> (&mut Connection, &Path) {
        (&mut self.connection, &self.database)
    }

    pub(crate) fn db(&self) -> Sqlite<'_> {
        sqlite(&self.connection, &self.database)
    }

    /// Whether the names still mean the files that are open; the log's length, bytes.
    fn check_files(&self) -> std::result::Result<u64, String> {
        let mut log = 0;
        for (path, id) in &self.files {
            let found = files::metadata(path).map_err(|error| error.message().to_owned())?;
            match found {
                Some(found) if files::id(&found) == *id => {
                    if path.as_os_str().as_encoded_bytes().ends_with(b"-wal") {
                        log = found.len();
                    }
                }
                _ => return Err(gone(path).message().to_owned()),
            }
        }
        Ok(log)
    }

    /// Empties a long log: readers may have kept SQLite from beginning it anew. What fails here is tried again later.
    fn shorten(&mut self, log: u64) {
        if log < self.checkpoint_at {
            return;
        }
        let is_emptied = connection::checkpoint_now(&self.connection).unwrap_or(false);
        let length =
            files::metadata(&files::beside(&self.database, "-wal")).ok().flatten().map_or(log, |wal| wal.len());
        self.checkpoint_at = if is_emptied { length + LOG_LIMIT } else { log + LOG_LIMIT };
    }
}

impl Store for SqliteStore {
    fn load_with(&mut self, sink: &mut dyn HostSink) -> Result<StoreState> {
        let transaction = self.connection.transaction().sql(&self.database)?;
        load::load_with(&sqlite(&transaction, &self.database), sink)
    }

    fn key(&self, host: HostId) -> Result<Option<Key>> {
        enrolment::key(&self.db(), host)
    }

    fn commit(&mut self, change: &Change<'_>) -> Result<Committed> {
        if self.is_in_doubt {
            return Err(Error::Unavailable(format!(
                "{}: an earlier write failed: the store must be opened again",
                self.database.display()
            )));
        }
        let log = self.check_files().map_err(Error::Unavailable)?;
        let committed = write(&mut self.connection, &self.database, change);
        // A transaction that could not be rolled back must not go on into the next change.
        let is_unknown = matches!(committed, Err(Error::Unknown(_)));
        self.is_in_doubt = is_unknown || !self.connection.is_autocommit();
        let committed = committed?;
        if let Err(line) = self.check_files() {
            self.is_in_doubt = true;
            return Err(Error::Unknown(line));
        }
        self.witness(committed.head());
        self.shorten(log);
        Ok(committed)
    }

    fn outcome(&self, request_id: &str) -> Result<Option<String>> {
        commit::outcome(&self.db(), request_id)
    }

    fn revision(&self) -> Result<u64> {
        self.check_files().map_err(Error::Unavailable)?;
        load::revision(&self.db())
    }

    /// The lock is held all the while.
    fn reopen(&mut self) -> Result<()> {
        // Another file of that name is another history, and another lock keeps nobody away.
        for (path, id) in
            self.files.iter().filter(|(path, _)| *path == self.database || *path == self.place.file(files::LOCK))
        {
            if files::metadata(path)?.as_ref().map(files::id) != Some(*id) {
                return Err(gone(path));
            }
        }
        // SQLite forgets what it knows of the log only when the last connection is closed.
        self.connection = Connection::open_in_memory().sql(&self.database)?;
        self.is_in_doubt = true;
        let opened = Self::connect(self.place.clone(), None, true)?;
        let lock = self._lock.take();
        let (strange, generations) = (self.strange.take(), std::mem::take(&mut self.generations));
        *self = Self { _lock: lock, strange, generations, ..opened };
        Ok(())
    }

    fn strange(&self) -> Option<&str> {
        self.strange.as_deref()
    }

    fn unwitnessed(&self) -> Option<&Error> {
        self.unwitnessed.as_ref().map(|(_, error)| error)
    }

    fn stop_waits(&self) -> Result<bool> {
        self.place.stop_waits_noted()
    }

    fn note_stop(&self, waits: bool) -> Result<()> {
        self.place.note_stop(waits)
    }
}

fn write(connection: &mut Connection, path: &Path, change: &Change<'_>) -> Result<Committed> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).sql(path)?;
    let committed = commit::apply(&sqlite(&transaction, path), change)?;
    transaction.commit().map_err(|error| Error::at_commit(path, &error))?;
    Ok(committed)
}

fn gone(path: &Path) -> Error {
    Error::Unavailable(format!(
        "{} was removed or replaced under the running server: stop it, put the file back or restore a backup, and start it",
        path.display()
    ))
}

/// Makes the database under another name, and gives it its own when it is whole.
fn create(place: &DataDir) -> Result<()> {
    let path = place.file(files::DATABASE);
    for sidecar in ["-wal", "-journal"] {
        let left = files::beside(&path, sidecar);
        if files::metadata(&left)?.is_some() {
            return Err(Error::Foreign(format!(
                "{} is there, but {} is not: put it back, restore a backup, or move the former away to begin anew",
                left.display(),
                path.display()
            )));
        }
    }
    let unfinished = place.file(files::UNFINISHED);
    drop(files::make(&unfinished, place.dir_owner())?);
    let made = fill(&unfinished).and_then(|()| files::rename_to_free(&unfinished, &path));
    if made.is_err() {
        files::remove_database(&unfinished)?;
    }
    made?;
    files::sync(place.dir())
}

fn fill(path: &Path) -> Result<()> {
    let mut connection = connection::open(path)?;
    schema::fill(&mut connection, path)?;
    drop(connection);
    files::sync(path)
}
