-- Hosts that enrolled. key: Ed25519, public. sequence: the highest number that was taken. how: `open`, `token NAME` or
-- `accepted by WHO`. since: RFC 3339. fixed: JSON, what a join token fixed; NULL: nothing. change: of the last change that was
-- reported, so that the same one counts once.
CREATE TABLE enrolled (
    host     BLOB    PRIMARY KEY NOT NULL CHECK (length(host) = 16),
    key      BLOB    NOT NULL CHECK (length(key) = 32),
    sequence INTEGER NOT NULL,
    how      TEXT    NOT NULL,
    since    TEXT    NOT NULL,
    fixed    TEXT,
    change   INTEGER NOT NULL
) STRICT;

-- Keys that wait for an operator: of new hosts, and second ones of known hosts.
CREATE TABLE candidate (
    host  BLOB PRIMARY KEY NOT NULL CHECK (length(host) = 16),
    key   BLOB NOT NULL CHECK (length(key) = 32),
    since TEXT NOT NULL
) STRICT;

-- What each host reported last. at: RFC 3339, the server's time.
CREATE TABLE report (
    host BLOB PRIMARY KEY NOT NULL CHECK (length(host) = 16),
    at   TEXT NOT NULL,
    json TEXT NOT NULL
) STRICT;

-- Changes of hosts, the last 50 of each: protocol::report::Change.
CREATE TABLE host_change (
    host   BLOB    NOT NULL CHECK (length(host) = 16),
    number INTEGER NOT NULL,
    at     TEXT    NOT NULL,
    json   TEXT    NOT NULL,
    PRIMARY KEY (host, number)
) STRICT, WITHOUT ROWID;

-- Join tokens, with which hosts enrol. digest: SHA-256 of the secret, in hex. uses: how many are left; NULL: any number.
-- fixed: as in enrolled.
CREATE TABLE join_token (
    name    TEXT PRIMARY KEY NOT NULL,
    digest  TEXT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT,
    uses    INTEGER,
    fixed   TEXT
) STRICT;
