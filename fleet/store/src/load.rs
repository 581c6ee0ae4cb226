//! Reading what is kept.

use fleet_engine::record::HostRecord;
use fleet_engine::resource::Kind;
use fleet_engine::rollout::Rollout;
use fleet_engine::rollout_state::RolloutState;
use fleet_wire::api::Role;

use crate::column::{parse, time, unreadable};
use crate::enrolment;
use crate::error::{Error, Result};
use crate::sql::{Sql, SqlExt, SqlFields, with};
use crate::state::{HostSink, StoreState, StoredResource, StoredToken};

/// Most past rollouts at once, count.
const MOST_ROLLOUTS: u32 = 1000;

/// Everything; what there is of each host goes to `sink`.
pub(crate) fn load_with(db: &dyn Sql, sink: &mut dyn HostSink) -> Result<StoreState> {
    let state = load(db)?;
    let count = |sql| db.count(sql).map(|count| usize::try_from(count).unwrap_or(0));
    sink.expect(count("SELECT count(*) FROM enrolled")?, count("SELECT count(*) FROM host")?);
    enrolment::keys(db, &mut |key| sink.take_key(key))?;
    hosts(db, &mut |host| sink.take_host(host, state.arrivals))?;
    Ok(state)
}

/// Everything but hosts and their keys.
pub(crate) fn load(db: &dyn Sql) -> Result<StoreState> {
    let state = db.first("SELECT revision, json, epoch, arrivals, restored_held FROM book, store", &[], |row| {
        Ok(StoreState {
            revision: row.unsigned(0)?,
            book: row.some_text(1)?.map(|json| parse(row.name(), "the book", json)).transpose()?,
            epoch: row.string(2)?,
            arrivals: row.unsigned(3)?,
            is_restored_held: row.number(4)? != 0,
            ..StoreState::default()
        })
    })?;
    let state = state.ok_or_else(|| unreadable(&db.name(), "the book", "it has no row"))?;
    let (candidates, joins) = (enrolment::candidates(db)?, enrolment::joins(db)?);
    Ok(StoreState { resources: resources(db)?, tokens: tokens(db)?, candidates, joins, ..state })
}

/// The book; `None`: there was no decision yet.
pub(crate) fn book(db: &dyn Sql) -> Result<Option<RolloutState>> {
    let book = db.first("SELECT json FROM book", &[], |row| {
        row.some_text(0)?.map(|json| parse(row.name(), "the book", json)).transpose()
    });
    book.map(Option::flatten)
}

/// The book's revision.
pub(crate) fn revision(db: &dyn Sql) -> Result<u64> {
    db.count("SELECT revision FROM book")
}

/// Past rollouts, the newest first.
pub(crate) fn rollouts(db: &dyn Sql, before: Option<u64>, limit: u32) -> Result<Vec<Rollout>> {
    let before = before.map_or(i64::MAX, |number| i64::try_from(number).unwrap_or(i64::MAX));
    let sql = "SELECT json FROM rollout WHERE number < $1 ORDER BY number DESC LIMIT $2";
    db.rows(sql, with![before, limit.min(MOST_ROLLOUTS)], |row| parse(row.name(), "a past rollout", row.text(0)?))
}

/// Resources, by kind and name.
pub(crate) fn resources(db: &dyn Sql) -> Result<Vec<StoredResource>> {
    db.rows("SELECT kind, name, revision, yaml FROM resource ORDER BY kind, name", &[], |row| {
        let (kind, name) = (row.text(0)?, row.string(1)?);
        // By its very name: `Kind::named` knows plurals as well.
        let known = Kind::ALL.into_iter().find(|known| known.as_str() == kind);
        let unknown = || unreadable(row.name(), &format!("the resource {kind}/{name}"), "unknown kind");
        Ok(StoredResource { kind: known.ok_or_else(unknown)?, name, revision: row.string(2)?, yaml: row.string(3)? })
    })
}

/// Tokens, by name.
pub(crate) fn tokens(db: &dyn Sql) -> Result<Vec<StoredToken>> {
    db.rows("SELECT name, digest, role, created, expires FROM token ORDER BY name", &[], |row| {
        let name = row.string(0)?;
        let role = Role::named(row.text(2)?);
        Ok(StoredToken {
            role: role.ok_or_else(|| unreadable(row.name(), &format!("the token {name}"), "unknown role"))?,
            digest: row.string(1)?,
            created: time(row.name(), row.text(3)?)?,
            expires: row.some_text(4)?.map(|text| time(row.name(), text)).transpose()?,
            name,
        })
    })
}

/// Gives `take` each host.
pub(crate) fn hosts(db: &dyn Sql, take: &mut dyn FnMut(HostRecord)) -> Result<()> {
    let name = db.name();
    db.each("SELECT id, record FROM host", &[], &mut |row| {
        take(host(&SqlFields::of(row, &name))?);
        Ok(())
    })
}

/// A host: id, record.
pub(crate) fn host(row: &SqlFields<'_>) -> Result<HostRecord> {
    let id = row.host(0)?;
    let unreadable = |error: String| unreadable(row.name(), &format!("host {id:032x}"), &error);
    let json = row.text(1).map_err(|error: Error| unreadable(error.to_string()))?;
    let mut record: HostRecord = serde_json::from_str(json).map_err(|error| unreadable(error.to_string()))?;
    record.id = id;
    Ok(record)
}
