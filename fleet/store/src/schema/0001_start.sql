-- One row in each of schema_version, store and book.
CREATE TABLE schema_version (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;

-- epoch: a UUID of this life of the data; restore makes a new one. head_*: the newest audit record, kept twice so that a
-- cut of the log is found. backup_at: RFC 3339.
CREATE TABLE store (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    epoch         TEXT    NOT NULL,
    arrivals      INTEGER NOT NULL DEFAULT 0,
    restored_held INTEGER NOT NULL DEFAULT 0,
    head_seq      INTEGER NOT NULL DEFAULT 0,
    head_hash     TEXT    NOT NULL,
    backup_at     TEXT
) STRICT;

-- json: fleet_engine::book::Book; NULL before the first decision. revision: one more with each decision.
CREATE TABLE book (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    revision INTEGER NOT NULL DEFAULT 0,
    json     TEXT
) STRICT;
INSERT INTO book (one) VALUES (1);

-- Past rollouts as they were last: fleet_engine::rollout::Rollout.
CREATE TABLE rollout (
    number INTEGER PRIMARY KEY,
    json   TEXT NOT NULL
) STRICT;

CREATE TABLE resource (
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    revision TEXT NOT NULL,
    yaml     TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT;

-- id: the host's UUID. record: fleet_engine::record::HostRecord.
CREATE TABLE host (
    id     BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    record TEXT NOT NULL
) STRICT;

-- What a request was answered; at: seconds since 1970.
CREATE TABLE request (
    id      TEXT PRIMARY KEY NOT NULL,
    outcome TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
CREATE INDEX request_at ON request (at);

-- hash: see chain.rs. origin: fleet_api::Entry::from.
CREATE TABLE audit (
    seq      INTEGER PRIMARY KEY CHECK (seq > 0),
    at       TEXT    NOT NULL,
    who      TEXT    NOT NULL,
    origin   TEXT    NOT NULL,
    action   TEXT    NOT NULL,
    subject  TEXT    NOT NULL,
    done     INTEGER NOT NULL CHECK (done IN (0, 1)),
    detail   TEXT    NOT NULL,
    before   TEXT    NOT NULL,
    after    TEXT    NOT NULL,
    previous TEXT    NOT NULL,
    hash     TEXT    NOT NULL
) STRICT;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
-- Against INSERT OR REPLACE, which removes a row without the trigger above.
CREATE TRIGGER audit_goes_on BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE seq >= NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
