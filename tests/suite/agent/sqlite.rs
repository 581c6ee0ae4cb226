//! What is left of SQLite (`.cargo/config.toml`) still copies and checks whatever schema a database has: the updater keeps
//! databases of agents that it has never seen.

use protocol::{Edition, Revision};
use rusqlite::Connection;
use teleport_update::testing::database::{Pace, Subject, snapshot_online};

use crate::support::*;

/// Features that a schema can use and that a check must understand; each has a row.
const SCHEMA: &str = r#"
    CREATE TABLE json (a TEXT CHECK (json_valid(a)), b INT AS (json_extract(a, '$.n')) STORED, c ANY) STRICT;
    CREATE INDEX by_json ON json (json_extract(a, '$.name') COLLATE NOCASE) WHERE a ->> 'n' > 0;
    INSERT INTO json (a) VALUES ('{"n": 1, "name": "x"}');
    CREATE TABLE words (word TEXT PRIMARY KEY, CHECK (length(word) > 0 AND word LIKE '%o%')) WITHOUT ROWID;
    INSERT INTO words VALUES ('one'), ('two');
    CREATE TABLE times (at TEXT DEFAULT CURRENT_TIMESTAMP CHECK (julianday(at) > 0), name TEXT AS (upper(printf('%s', at))));
    CREATE UNIQUE INDEX by_time ON times (date(at, '+1 day'));
    INSERT INTO times VALUES ('2026-11-21 00:00:00');
    CREATE TABLE parents (id INTEGER PRIMARY KEY AUTOINCREMENT);
    CREATE TABLE children (parent REFERENCES parents ON DELETE CASCADE, bytes BLOB DEFAULT (randomblob(4)) CHECK (length(bytes) > 0));
    INSERT INTO parents VALUES (1);
    INSERT INTO children VALUES (1, zeroblob(100000));
    CREATE VIEW ranks AS WITH all_words AS (SELECT word FROM words) SELECT rank() OVER (ORDER BY word) FROM all_words;
    CREATE TRIGGER on_word AFTER INSERT ON words BEGIN INSERT INTO parents (id) VALUES (NULL); END;
    ANALYZE;
"#;
/// Virtual tables of modules that are not linked, as their makers leave them in the schema.
const VIRTUAL: [&str; 4] = ["fts5(x)", "fts4(x)", "rtree(id, low, high)", "nobody_knows(x)"];

#[test]
fn a_database_with_every_kind_of_schema_is_copied_and_found_good() {
    let dir = tempfile::tempdir().unwrap();
    let (db, to) = (dir.path().join("sqlite.db"), dir.path().join("backup"));
    let connection = Connection::open(&db).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    connection.execute_batch("PRAGMA writable_schema = ON").unwrap();
    for (number, module) in VIRTUAL.iter().enumerate() {
        let (name, rows) = (format!("virtual_{number}"), format!("virtual_{number}_content"));
        let insert = "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES ('table', ?1, ?1, 0, ?2)";
        connection.execute(insert, (&name, format!("CREATE VIRTUAL TABLE {name} USING {module}"))).unwrap();
        connection.execute_batch(&format!("CREATE TABLE {rows} (a); INSERT INTO {rows} VALUES (1)")).unwrap();
    }
    drop(connection);

    let revision = Revision { version: "1.0.0".parse().unwrap(), edition: Edition::Oss };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let subject = Subject { proxy: "localhost", revision: &revision, host: None, now, failed: false };
    let pace = Pace { deadline: Duration::from_secs(20), cancelled: &|| false };
    let taken = snapshot_online(&db, &to, &subject, false, &pace).unwrap();
    assert!(!taken.raw, "{taken:?}");
    let copy = Connection::open(to.join("sqlite.db")).unwrap();
    for (table, rows) in [("json", 1), ("words", 2), ("times", 1), ("children", 1), ("virtual_0_content", 1)] {
        let count = copy.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0));
        assert_eq!(count.unwrap(), rows, "{table}");
    }
}
