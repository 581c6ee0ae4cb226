//! What servers of one database tell each other beside the fleet: sessions of browsers, which of them tells a receiver, and how each
//! of them is. Nothing of it is a decision, so nothing of it waits for a turn.

use std::sync::Arc;
use std::time::Duration;

use fleet_wire::text::counted;

use crate::column::{json, parse};
use crate::error::Result;
use crate::place_in_log::PlaceInLog;
use crate::postgres::{PostgresConnection, PostgresServer};
use crate::sql::{Sql, SqlExt, with};

/// Milliseconds since 1970, by the clock of the database.
const NOW: &str = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
/// A server that was not heard of for so long is one no more, milliseconds: a day.
const GONE: i64 = 24 * 60 * 60 * 1000;
/// Each says every 2 s that it lives: who did not for so long does not, or cannot reach the database.
const SILENT: Duration = Duration::from_secs(10);
/// A session that is in use is noted as used again after so long, milliseconds.
const NOTE_USE: i64 = 60_000;
/// What errors call it.
const PLACE: &str = "how far a receiver was told";

/// See the module.
#[derive(Debug, Clone)]
pub struct SharedTables(pub(crate) Arc<PostgresServer>);

/// A session of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// The digest of the token that logged in, or the person's name.
    pub who: String,
    /// What the person may do, as whoever began it wrote it; `None`: it is a token's session.
    pub role: Option<String>,
    /// Since it began.
    pub age: Duration,
    /// Since it was used last.
    pub idle: Duration,
}

/// How many sessions there may be, and how long.
#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    /// Without a use.
    pub idle: Duration,
    /// From its beginning.
    pub longest: Duration,
    /// Of one token or person; beyond them the one goes that was used longest ago.
    pub most_of_one: usize,
    /// In all.
    pub most: usize,
}

/// A server, as the others know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Of this run of it.
    pub id: String,
    /// What people call it: host and port.
    pub name: String,
    /// The program's.
    pub version: String,
    /// Writes that it had not read then.
    pub behind: u64,
    /// How much later it is in the database than on its host, milliseconds.
    pub clock_offset: i64,
    /// Since it was heard of.
    pub silent: Duration,
}

impl ServerStatus {
    /// Whether it lives, as far as the others know.
    pub fn is_there(&self) -> bool {
        self.silent < SILENT
    }

    /// How it is, for people.
    pub fn words(&self) -> String {
        if self.is_there() {
            format!("version {}, {} behind", self.version, counted(self.behind, "write"))
        } else {
            format!("not heard of for {} s", self.silent.as_secs())
        }
    }
}

impl SharedTables {
    fn ask<T>(&self, ask: impl FnOnce(&PostgresConnection) -> Result<T>) -> Result<T> {
        ask(&self.0.connect()?)
    }

    /// Keeps a new session, by the digest of its secret. Errors: `Unavailable`.
    pub fn begin_session(&self, digest: &str, who: &str, role: Option<&str>, limits: SessionLimits) -> Result<()> {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.ask(|db| {
            let over = format!("DELETE FROM session WHERE used < {NOW} - $1 OR began < {NOW} - $2");
            db.execute(&over, with![millis(limits.idle), millis(limits.longest)])?;
            let begin =
                format!("INSERT INTO session (digest, who, role, began, used) VALUES ($1, $2, $3, {NOW}, {NOW})");
            db.execute(&begin, with![digest, who, role])?;
            let of_one = "DELETE FROM session WHERE digest IN \
                          (SELECT digest FROM session WHERE who = $1 ORDER BY used DESC, began DESC OFFSET $2)";
            db.execute(of_one, with![who, count(limits.most_of_one)])?;
            let of_all =
                "DELETE FROM session WHERE digest IN (SELECT digest FROM session ORDER BY used DESC OFFSET $1)";
            db.execute(of_all, with![count(limits.most)]).map(drop)
        })
    }

    /// The session with this digest; with `is_use` that it is used is noted. `None`: there is none. Errors: `Unavailable`.
    pub fn session(&self, digest: &str, is_use: bool) -> Result<Option<StoredSession>> {
        self.ask(|db| {
            if is_use {
                let used = format!("UPDATE session SET used = {NOW} WHERE digest = $1 AND used < {NOW} - $2");
                db.execute(&used, with![digest, NOTE_USE])?;
            }
            let found = format!("SELECT who, role, {NOW} - began, {NOW} - used FROM session WHERE digest = $1");
            db.first(&found, with![digest], |row| {
                Ok(StoredSession {
                    who: row.string(0)?,
                    role: row.some_text(1)?.map(str::to_owned),
                    age: duration(row.number(2)?),
                    idle: duration(row.number(3)?),
                })
            })
        })
    }

    /// Ends it. Errors: `Unavailable`.
    pub fn end_session(&self, digest: &str) -> Result<()> {
        self.ask(|db| db.execute("DELETE FROM session WHERE digest = $1", with![digest])).map(drop)
    }

    /// Whether the server `id` tells `receiver` for another `lease`: nobody does, or it does already; a lease that ends later than this
    /// one is of a clock that was set back. Errors: `Unavailable`.
    pub fn tells(&self, receiver: &str, id: &str, lease: Duration) -> Result<bool> {
        let take = format!(
            "INSERT INTO receiver (name, server, until) VALUES ($1, $2, {NOW} + $3) ON CONFLICT (name) DO UPDATE \
             SET server = excluded.server, until = excluded.until \
             WHERE receiver.server = excluded.server OR receiver.until NOT BETWEEN {NOW} AND excluded.until"
        );
        self.ask(|db| db.execute(&take, with![receiver, id, millis(lease)])).map(|taken| taken == 1)
    }

    /// How far `receiver` was told; `None`: it was never told anything. Errors: `Unavailable`, `Foreign`.
    pub fn place(&self, receiver: &str) -> Result<Option<PlaceInLog>> {
        let sql = "SELECT place FROM receiver WHERE name = $1 AND place IS NOT NULL";
        self.ask(|db| db.first(sql, with![receiver], |row| parse(row.name(), PLACE, row.text(0)?)))
    }

    /// Keeps it, by the server `id`. The answer: whether that still tells it. Errors: `Unavailable`; the place before is kept.
    pub fn keep_place(&self, receiver: &str, id: &str, place: &PlaceInLog) -> Result<bool> {
        let sql = "UPDATE receiver SET place = $1 WHERE name = $2 AND server = $3";
        let kept = self.ask(|db| db.execute(sql, with![json(&db.name(), PLACE, place)?, receiver, id]));
        kept.map(|kept| kept == 1)
    }

    /// Says that a server of this program lives, which has read up to the write `position` ([`crate::Store::position`]) and is
    /// `clock_offset` milliseconds behind the database; gives all of them, by name. Errors: `Unavailable`.
    pub fn report_server(
        &self,
        (id, name): (&str, &str),
        position: i64,
        clock_offset: i64,
    ) -> Result<Vec<ServerStatus>> {
        let put = format!(
            "INSERT INTO server (id, name, version, position, clock_offset, seen) VALUES ($1, $2, $3, $4, $5, {NOW}) \
             ON CONFLICT (id) DO UPDATE SET position = excluded.position, clock_offset = excluded.clock_offset, \
             seen = excluded.seen"
        );
        self.ask(|db| {
            // What it was before it crashed; another that lives may have the same name.
            let gone =
                format!("DELETE FROM server WHERE seen < {NOW} - $1 OR (name = $2 AND id <> $3 AND seen < {NOW} - $4)");
            db.execute(&gone, with![GONE, name, id, millis(SILENT)])?;
            db.execute(&put, with![id, name, env!("CARGO_PKG_VERSION"), position, clock_offset])?;
            servers(db)
        })
    }

    /// The server `id` does not tell `receiver` any more. Errors: `Unavailable`.
    pub fn release(&self, receiver: &str, id: &str) -> Result<()> {
        let sql = "UPDATE receiver SET until = 0 WHERE name = $1 AND server = $2";
        self.ask(|db| db.execute(sql, with![receiver, id])).map(drop)
    }

    /// A server ends: it tells no receiver, and is one no more. Errors: `Unavailable`.
    pub fn leave(&self, id: &str) -> Result<()> {
        self.ask(|db| {
            db.execute("DELETE FROM server WHERE id = $1", with![id])?;
            db.execute("UPDATE receiver SET until = 0 WHERE server = $1", with![id]).map(drop)
        })
    }
}

/// The servers that share it, by name.
pub(crate) fn servers(db: &dyn Sql) -> Result<Vec<ServerStatus>> {
    let all = format!(
        "SELECT name, version, greatest(change - position, 0), clock_offset, {NOW} - seen, id FROM server, store \
         WHERE seen >= {NOW} - $1 ORDER BY name, id"
    );
    db.rows(&all, with![GONE], |row| {
        Ok(ServerStatus {
            id: row.string(5)?,
            name: row.string(0)?,
            version: row.string(1)?,
            behind: row.unsigned(2)?,
            clock_offset: row.number(3)?,
            silent: duration(row.number(4)?),
        })
    })
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Below 0 where the clock was set back.
fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
