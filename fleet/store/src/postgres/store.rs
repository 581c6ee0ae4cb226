//! The store: a turn begins with all that others wrote, and what is written in it is made from that, or is refused.
//!
//! Two guards, one beneath the other. A lock that servers ask for at the beginning of a turn has them come one after the other; a
//! server that stopped with it keeps the others for [`TURN_WAIT`] only. What makes it safe is the number of the write: one that
//! was made from an older one than the newest is refused, whoever had the lock.

use std::path::Path;
use std::sync::Arc;

use fleet_engine::host::HostId;
use fleet_wire::api::AuditHead;
use jiff::{SignedDuration, Timestamp};
use protocol::report::Key;

use super::connection::{PostgresConnection, PostgresServer};
use super::schema::prepare;
use crate::error::{Error, Result};
use crate::files::DataDir;
use crate::sql::{Sql, SqlExt, with};
use crate::state::{Change, Committed, HostSink, StoreState};
use crate::store::{News, Store};
use crate::{audit, commit, enrolment, load, strange, witness};

/// The format of the book that this program writes. A book of a newer one is read, and left as it is: an older program would drop
/// what it does not know. 2: groups that turn round, and numbers that were lost.
const ENGINE: i64 = 2;
/// Asked for by whoever begins a turn.
const TURN: &str = "SELECT pg_advisory_xact_lock(1951751020)";
/// For so long a server with the turn keeps the others waiting.
const TURN_WAIT: &str = "SET LOCAL lock_timeout = '1500ms'; SAVEPOINT turn";
/// For so long one that writes does.
const WRITE_WAIT: &str = "SET LOCAL lock_timeout = '4s'";
/// How many writes a server may be behind without reading everything again: a day of one a second.
const KEPT_WRITES: i64 = 100_000;
/// Writes between two cleanings.
const CLEAN_EVERY: i64 = 1000;

/// See [`crate::Store`].
#[derive(Debug)]
pub(crate) struct PostgresStore {
    server: Arc<PostgresServer>,
    connection: PostgresConnection,
    place: DataDir,
    /// The write that was read last.
    change: i64,
    /// The newest audit record of that.
    head: AuditHead,
    epoch: String,
    /// A newer program wrote the book.
    is_outdated: bool,
    /// How much later it is there.
    offset: SignedDuration,
    /// Whether a transaction is open.
    has_turn: bool,
    strange: Option<String>,
    unwitnessed: Option<Error>,
}

/// How far the store is.
struct StoreStatus {
    change: i64,
    head: AuditHead,
    epoch: String,
    arrivals: u64,
    forgotten_from: i64,
    revision: u64,
    engine: i64,
    /// Milliseconds since 1970.
    now: i64,
    /// When the tables were written last, in the order of [`STATUS`].
    written: [i64; 5],
}

const STATUS: &str = "SELECT change, head_seq, head_hash, epoch, arrivals, forgotten_from, revision, engine, \
                      CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT), book_at, resource_at, token_at, join_token_at, candidate_at FROM store, book";

impl StoreStatus {
    fn of(db: &dyn Sql) -> Result<Self> {
        let status = db.first(STATUS, &[], |row| {
            Ok(Self {
                change: row.number(0)?,
                head: AuditHead { seq: row.unsigned(1)?, hash: row.string(2)? },
                epoch: row.string(3)?,
                arrivals: row.unsigned(4)?,
                forgotten_from: row.number(5)?,
                revision: row.unsigned(6)?,
                engine: row.number(7)?,
                now: row.number(8)?,
                written: [row.number(9)?, row.number(10)?, row.number(11)?, row.number(12)?, row.number(13)?],
            })
        })?;
        status.ok_or_else(|| Error::Foreign(format!("{} is no store of teleport-fleet", db.name())))
    }
}

impl PostgresStore {
    /// Opens the store at the server, and makes or migrates its tables; notes of this host are in `dir`.
    pub(crate) fn open(dir: &Path, server: &Arc<PostgresServer>) -> Result<Self> {
        let dir = DataDir::make(dir)?;
        let connection = server.connect()?;
        prepare(&connection)?;
        let mut store = Self {
            server: Arc::clone(server),
            connection,
            place: dir,
            change: 0,
            head: AuditHead { seq: 0, hash: String::new() },
            epoch: String::new(),
            is_outdated: false,
            offset: SignedDuration::ZERO,
            has_turn: false,
            strange: None,
            unwitnessed: None,
        };
        store.place.keep_room_for_note()?;
        store.strange = store.look()?;
        let status = store.status()?;
        (store.change, store.head, store.epoch) = (status.change, status.head, status.epoch);
        Ok(store)
    }

    /// Holds everything where what was seen here last is not there any more: a standby took over that did not have it, or somebody
    /// put an older copy in place.
    fn look(&mut self) -> Result<Option<String>> {
        self.connection.batch("BEGIN; SELECT 1 FROM store FOR UPDATE; UPDATE store SET change = change + 1")?;
        let found = strange::take(&self.connection, &self.place, None)?;
        match &found {
            None => self.connection.batch("ROLLBACK")?,
            Some(_) => self.connection.commit()?,
        }
        let head = audit::head(&self.connection)?;
        self.witness(Some(head));
        Ok(found)
    }

    fn witness(&mut self, head: Option<AuditHead>) {
        if let Some(head) = head.filter(|head| head.seq > 0) {
            self.unwitnessed = witness::write(&self.place, &head, &[]).err();
        }
    }

    fn begin(&mut self) -> Result<()> {
        if self.has_turn {
            return Ok(());
        }
        self.connection.batch(&format!("BEGIN; {TURN_WAIT}"))?;
        self.has_turn = true;
        // Who stopped with it has no turn any more: what he writes will be refused, or was written before.
        if self.connection.batch(TURN).is_err() {
            self.connection.batch("ROLLBACK TO turn")?;
        }
        self.connection.batch(WRITE_WAIT)
    }

    fn status(&mut self) -> Result<StoreStatus> {
        let status = StoreStatus::of(&self.connection)?;
        self.offset = SignedDuration::from_millis(status.now - Timestamp::now().as_millisecond());
        self.is_outdated = status.engine > ENGINE;
        Ok(status)
    }

    fn news(&self, now: &StoreStatus) -> Result<News> {
        let (db, since) = (&self.connection, self.change);
        if now.change < since || now.epoch != self.epoch {
            return Err(Error::Mismatch(format!("{}: it is another one, or it went back", db.name())));
        }
        if now.forgotten_from > since {
            return Err(Error::Mismatch(format!("{}: too much was written meanwhile", db.name())));
        }
        let is_new = |table: usize| now.written.get(table).is_some_and(|written| *written > since);
        let hosts = "SELECT id, record FROM host WHERE written_at > $1";
        let enrolled = "SELECT host, key, sequence, how, fixed, change FROM enrolled WHERE written_at > $1";
        Ok(News {
            revision: now.revision,
            book: if is_new(0) { load::book(db)? } else { None },
            resources: is_new(1).then(|| load::resources(db)).transpose()?,
            tokens: is_new(2).then(|| load::tokens(db)).transpose()?,
            joins: is_new(3).then(|| enrolment::joins(db)).transpose()?,
            candidates: is_new(4).then(|| enrolment::candidates(db)).transpose()?,
            hosts: db.rows(hosts, with![since], load::host)?,
            enrolled: db.rows(enrolled, with![since], enrolment::enrolled)?,
            forgotten: db.rows("SELECT host FROM forgotten WHERE change > $1", with![since], |row| row.host(0))?,
            arrivals: now.arrivals,
            entries: audit::page(db, self.head.seq, u32::MAX)?
                .into_iter()
                .filter(|entry| entry.seq <= now.head.seq)
                .collect(),
        })
    }

    fn write(&mut self, change: &Change<'_>) -> Result<Committed> {
        let db = &self.connection;
        let next = "UPDATE store SET change = change + 1 WHERE change = $1 AND head_hash = $2";
        if db.execute(next, with![self.change, &self.head.hash])? != 1 {
            return Err(Error::Mismatch(format!("{}: another server wrote since: load it again", db.name())));
        }
        if change.book.is_some() && self.is_outdated {
            return Err(Error::Newer(format!("{}: a newer teleport-fleet decides", db.name())));
        }
        let committed = commit::apply(db, change)?;
        if change.book.is_some() {
            db.execute("UPDATE book SET engine = $1 WHERE engine < $1", with![ENGINE])?;
        }
        if self.change % CLEAN_EVERY == 0 {
            db.execute("DELETE FROM forgotten WHERE change <= $1", with![self.change - KEPT_WRITES])?;
            db.execute(
                "UPDATE store SET forgotten_from = $1 WHERE forgotten_from < $1",
                with![self.change - KEPT_WRITES],
            )?;
        }
        db.commit()?;
        Ok(committed)
    }
}

impl Store for PostgresStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn clock_offset(&self) -> SignedDuration {
        self.offset
    }

    fn position(&self) -> i64 {
        self.change
    }

    fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    fn load_with(&mut self, sink: &mut dyn HostSink) -> Result<StoreState> {
        self.end_turn();
        let db = &self.connection;
        db.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0")?;
        let status = StoreStatus::of(db)?;
        let state = load::load_with(db, sink)?;
        db.batch("ROLLBACK")?;
        (self.change, self.head, self.epoch) = (status.change, status.head, status.epoch);
        self.is_outdated = status.engine > ENGINE;
        Ok(state)
    }

    fn key(&self, host: HostId) -> Result<Option<Key>> {
        enrolment::key(&self.connection, host)
    }

    fn take_turn(&mut self) -> Result<Option<News>> {
        self.begin()?;
        let now = self.status()?;
        if now.change == self.change && now.epoch == self.epoch {
            return Ok(None);
        }
        let news = self.news(&now)?;
        let is_decided = now.head != self.head;
        (self.change, self.head) = (now.change, now.head);
        if is_decided {
            self.witness(Some(self.head.clone()));
        }
        Ok(Some(news))
    }

    fn end_turn(&mut self) {
        if std::mem::take(&mut self.has_turn) {
            // Where that fails the connection ends, and with it the turn.
            let _ = self.connection.batch("ROLLBACK");
        }
    }

    fn commit(&mut self, change: &Change<'_>) -> Result<Committed> {
        self.begin()?;
        let committed = self.write(change).inspect_err(|_| self.end_turn())?;
        self.has_turn = false;
        self.change += 1;
        if let Some(head) = committed.head() {
            self.head = head.clone();
            self.witness(Some(head));
        }
        Ok(committed)
    }

    fn outcome(&self, request_id: &str) -> Result<Option<String>> {
        commit::outcome(&self.connection, request_id)
    }

    fn revision(&self) -> Result<u64> {
        load::revision(&self.connection)
    }

    fn reopen(&mut self) -> Result<()> {
        let connection = self.server.connect()?;
        std::mem::replace(&mut self.connection, connection).close();
        self.has_turn = false;
        prepare(&self.connection)?;
        if let Some(what) = self.look()? {
            self.strange = Some(what);
        }
        Ok(())
    }

    fn strange(&self) -> Option<&str> {
        self.strange.as_deref()
    }

    fn unwitnessed(&self) -> Option<&Error> {
        self.unwitnessed.as_ref()
    }

    fn stop_waits(&self) -> Result<bool> {
        self.place.stop_waits_noted()
    }

    fn note_stop(&self, waits: bool) -> Result<()> {
        self.place.note_stop(waits)
    }
}
