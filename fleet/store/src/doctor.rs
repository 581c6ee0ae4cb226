//! A look at a data directory, for `teleport-fleet doctor`. It changes nothing.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use fleet_engine::rollout_state::HaltCause;
use fleet_wire::text::counted;
use jiff::{SignedDuration, Timestamp, Unit};
use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::connection::sqlite;
use crate::error::{Error, OfDatabase};
use crate::files::{self, DataDir, beside};
use crate::place::StorePlace;
use crate::postgres::PostgresServer;
use crate::shared::ServerStatus;
use crate::sql::{Sql, SqlExt};
use crate::strange::Strange;
use crate::{audit, connection, load, postgres, schema, shared};

/// Less free space than this is a problem, bytes: the next batches of hosts need it.
const LITTLE_SPACE: u64 = 64 * 1024 * 1024;
/// A log longer than this was not brought into the database for long, bytes.
const LONG_LOG: u64 = 4 * connection::LOG_LIMIT;
/// Clocks of one fleet may differ by this (FLEET §3).
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
/// A backup older than this is worth a word.
const OLD_BACKUP: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    /// As it should be.
    Ok,
    /// It works, but look at it.
    Warning,
    /// It does not work, or may not be trusted.
    Problem,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// How bad it is.
    pub level: FindingLevel,
    /// What was found.
    pub what: String,
    /// What to do; empty: nothing.
    pub advice: String,
}

impl Finding {
    /// All is well.
    pub fn ok(what: impl Into<String>) -> Self {
        Self { level: FindingLevel::Ok, what: what.into(), advice: String::new() }
    }

    /// It works, but look at it.
    pub fn warning(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: FindingLevel::Warning, what: what.into(), advice: advice.into() }
    }

    /// It does not work.
    pub fn problem(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: FindingLevel::Problem, what: what.into(), advice: advice.into() }
    }

    fn of(error: &Error) -> Self {
        // Errors of the store say themselves what to do.
        let (what, advice) = error.message().rsplit_once(": ").unwrap_or((error.message(), ""));
        Self::problem(what, advice)
    }
}

/// Looks at the store at `place`. The first finding that makes others pointless is the last. Where another process owns the database, no
/// other can read it: `owner` asks that one for the whole.
pub fn doctor(place: &StorePlace, owner: impl FnOnce() -> Option<Vec<Finding>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let looked = match &place.server {
        None => look(&place.dir, &mut findings),
        Some(server) => look_at_server(server, &place.dir, &mut findings),
    };
    match looked {
        Ok(()) => {}
        Err(Error::Locked(what)) => match owner() {
            Some(found) => return found,
            None => findings.push(Finding::warning(what, "ask the server that has it open: it did not answer")),
        },
        Err(error) => findings.push(Finding::of(&error)),
    }
    findings
}

/// What [`doctor`] says of a data directory that others may write; `None`: nobody may, or there is none.
pub fn writable_by_others(dir: &Path) -> Option<Finding> {
    let place = DataDir::at(dir).ok()?;
    modes(place.dir(), 0).ok().filter(|finding| finding.level == FindingLevel::Problem)
}

fn look(dir: &Path, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let place = DataDir::at(dir)?;
    findings.push(modes(place.dir(), 0o077)?);
    let Some(found) = place.find()? else {
        findings.push(Finding::problem(
            format!("{} is not there", place.file(files::DATABASE).display()),
            "start the server once, or name another directory with --data",
        ));
        return Ok(());
    };
    let database = place.file(files::DATABASE);
    findings.push(modes(&database, 0o077)?);
    findings.push(space(place.dir(), found.len()));
    findings.push(log(&database)?);
    let connection = open(&database)?;
    connection::refuse_owned(&connection, &database)?;
    let version = schema::refuse_newer(&connection, &database)?;
    findings.push(schema_of(&connection, &database, version)?);
    connection::check_all(&connection, &database)?;
    findings.push(Finding::ok("the database is whole"));
    let db = sqlite(&connection, &database);
    findings.push(chain(&db)?);
    let now = Timestamp::now();
    findings.push(clock(&db, now)?);
    findings.push(holds(&db)?);
    // An older schema has no mark of a backup: the server that brings it to this one makes one.
    if version == schema::newest() {
        findings.extend(strange(&db, &place)?);
    }
    findings.push(last_backup(&db, now)?);
    Ok(())
}

/// A PostgreSQL server: whether it answers, and what is in it.
fn look_at_server(server: &PostgresServer, dir: &Path, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let reader = server.connect()?;
    findings.push(Finding::ok(format!("{} answers", server.name())));
    reader.read(|db| {
        let found = postgres::schema::version(db)?;
        if found == 0 {
            findings.push(Finding::problem("it has no fleet yet", "start the server once"));
            return Ok(());
        }
        findings.push(Finding::ok(format!("schema {found}")));
        findings.push(chain(db)?);
        let at = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
        let at = db.first(at, &[], |row| row.number(0))?.unwrap_or_default();
        let now = Timestamp::from_millisecond(at).unwrap_or_default();
        findings.push(clock(db, now)?);
        let own = Timestamp::now().duration_since(now);
        findings.push(if own.abs() > CLOCK_TOLERANCE {
            Finding::warning(
                format!("the clock of this host is {own:#} from that of the store"),
                "set the clock (`timedatectl`): the fleet goes by the store's, certificates and logs by this one",
            )
        } else {
            Finding::ok("the clock is that of the store")
        });
        let durable =
            "SELECT count(*) FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit') AND setting = 'off'";
        findings.push(match db.count(durable)? {
            0 => Finding::ok("what it answered is durable"),
            _ => Finding::problem(
                "fsync or synchronous_commit is off: a crash may undo a stop",
                "set both to on in postgresql.conf",
            ),
        });
        findings.push(holds(db)?);
        if found == postgres::schema::newest() {
            findings.extend(servers(db)?);
        }
        if let Ok(place) = DataDir::at(dir) {
            findings.extend(strange(db, &place)?);
        }
        Ok(())
    })
}

/// Beside a server by its log; else without making a log.
fn open(database: &Path) -> Result<Connection, Error> {
    let wal = files::metadata(&beside(database, "-wal"))?;
    if wal.is_some() { connection::open_for_reading(database) } else { connection::open_still(database) }
}

fn modes(path: &Path, others: u32) -> Result<Finding, Error> {
    let shown = path.display();
    let Some(found) = files::metadata(path)? else {
        return Ok(Finding::problem(format!("{shown} is not there"), "name another directory with --data"));
    };
    let mode = found.permissions().mode() & 0o7777;
    let user = rustix::process::geteuid().as_raw();
    let owner = found.uid();
    Ok(if mode & 0o022 != 0 {
        Finding::problem(format!("others may write {shown} (mode {mode:o})"), format!("chmod go-w {shown}"))
    } else if mode & others != 0 {
        Finding::warning(format!("others may read {shown} (mode {mode:o})"), format!("chmod go= {shown}"))
    } else if user != 0 && owner != user {
        Finding::warning(
            format!("{shown} belongs to user {owner}, this is user {user}"),
            "run as the server's user or root",
        )
    } else {
        Finding::ok(format!("{shown}: mode {mode:o}, of user {owner}"))
    })
}

fn space(dir: &Path, database: u64) -> Finding {
    let found = match rustix::fs::statvfs(dir) {
        Ok(found) => found,
        Err(error) => return Finding::warning(format!("free space of {} is not known: {error}", dir.display()), ""),
    };
    if found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        let what = format!("{} is on a file system that is mounted read-only", dir.display());
        return Finding::problem(what, "mount it for writing: decisions cannot be kept");
    }
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let what = format!("{} MiB free in {}, the database has {} MiB", mebi(free), dir.display(), mebi(database));
    if free < LITTLE_SPACE {
        Finding::problem(what, "free some space: decisions cannot be kept on a full disk")
    } else if free < database {
        Finding::warning(what, "free some space: a restore needs as much as the database has")
    } else {
        Finding::ok(what)
    }
}

fn log(database: &Path) -> Result<Finding, Error> {
    let length = files::metadata(&beside(database, "-wal"))?.map_or(0, |wal| wal.len());
    let what = format!("the write-ahead log has {} MiB", mebi(length));
    Ok(if length > LONG_LOG {
        Finding::warning(what, format!("end what reads the database for long (`fuser {}`)", database.display()))
    } else {
        Finding::ok(what)
    })
}

fn schema_of(connection: &Connection, path: &Path, version: i64) -> Result<Finding, Error> {
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0)).sql(path)?;
    Ok(if application != schema::APPLICATION_ID {
        Finding::problem(format!("{} is not a database of teleport-fleet", path.display()), "move it away")
    } else if version < schema::newest() {
        Finding::ok(format!("schema {version}: the server brings it to {} when it starts", schema::newest()))
    } else {
        Finding::ok(format!("schema {version}"))
    })
}

fn chain(db: &dyn Sql) -> Result<Finding, Error> {
    let verified = audit::verify(db, None)?;
    Ok(match verified.fault {
        None => Finding::ok(format!("audit log: {}, head {}", counted(verified.records, "record"), verified.head.hash)),
        Some(fault) => Finding::problem(
            format!("the audit log is damaged: {fault}"),
            "compare it with a backup and with the heads in the server's log: somebody changed the file",
        ),
    })
}

fn clock(db: &dyn Sql, now: Timestamp) -> Result<Finding, Error> {
    let newest = db.first("SELECT at FROM audit ORDER BY seq DESC LIMIT 1", &[], |row| row.string(0))?;
    let newest = newest.and_then(|at| at.parse::<Timestamp>().ok());
    Ok(match newest {
        Some(newest) if newest.duration_since(now) > CLOCK_TOLERANCE => Finding::problem(
            format!("the clock is behind: it is {now}, and the newest record is of {newest}"),
            "set the clock (`timedatectl`): the server does not step before the time of its last step",
        ),
        _ => Finding::ok("the clock is not behind the newest record"),
    })
}

fn holds(db: &dyn Sql) -> Result<Finding, Error> {
    let is_restored = db.count("SELECT restored_held FROM store")? != 0;
    let book = load::book(db)?.unwrap_or_default();
    let groups: Vec<&str> = book.holds.groups.iter().map(String::as_str).collect();
    let advice = "if that is no longer meant, end it with `teleport-fleet autoupdate agents run --all`";
    let names = "if that is no longer meant, end it with `teleport-fleet autoupdate agents run GROUP`";
    let look = "look at `status`, then `autoupdate agents run --all`";
    Ok(if book.holds.all && book.holds.cause == HaltCause::StoreLost {
        Finding::warning("everything is held: the store lost decisions, perhaps a stop", look)
    } else if book.holds.all && is_restored {
        Finding::warning("everything is held since a restore", look)
    } else if book.holds.all {
        Finding::warning("every group is held by an operator", advice)
    } else if groups.is_empty() {
        Finding::ok("no group is held")
    } else {
        Finding::warning(format!("held by an operator: {}", groups.join(", ")), names)
    })
}

/// The servers that share it.
fn servers(db: &dyn Sql) -> Result<Vec<Finding>, Error> {
    let of = |server: ServerStatus| {
        let what = format!("server {}: {}", server.name, server.words());
        if !server.is_there() {
            Finding::warning(what, "start it, or look at its log and at its way to the database")
        } else if server.version != env!("CARGO_PKG_VERSION") {
            Finding::warning(what, concat!("this one is ", env!("CARGO_PKG_VERSION"), ": bring all to one version"))
        } else {
            Finding::ok(what)
        }
    };
    Ok(shared::servers(db)?.into_iter().map(of).collect())
}

/// What the server finds strange when it starts.
fn strange(db: &dyn Sql, place: &DataDir) -> Result<Option<Finding>, Error> {
    let Some(strange) = Strange::of(db, place)? else { return Ok(None) };
    let what = strange.line(&audit::head(db)?);
    let advice = "put the newer database back, or start the server: it holds everything until `run --all`";
    Ok(Some(Finding::problem(what, advice)))
}

fn last_backup(db: &dyn Sql, now: Timestamp) -> Result<Finding, Error> {
    let at = db.first("SELECT backup_at FROM store", &[], |row| Ok(row.some_text(0)?.map(str::to_owned)))?;
    let Some(at) = at.flatten().and_then(|at| at.parse::<Timestamp>().ok()) else {
        return Ok(Finding::warning("no backup was ever made", "make one with `teleport-fleet backup FILE`, daily"));
    };
    let what = format!("the last backup is of {}", at.round(Unit::Second).unwrap_or(at));
    Ok(if now.duration_since(at) > OLD_BACKUP {
        Finding::warning(what, "make one with `teleport-fleet backup FILE`, daily")
    } else {
        Finding::ok(what)
    })
}

/// Bytes as whole MiB.
fn mebi(bytes: u64) -> u64 {
    bytes / (1024 * 1024)
}
