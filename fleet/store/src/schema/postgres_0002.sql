-- What servers tell each other. Times are milliseconds since 1970, by the clock of the database.

-- who: the digest of the token that logged in, or a person's name; role: the person's.
CREATE TABLE session (
    digest TEXT   PRIMARY KEY,
    who    TEXT   NOT NULL,
    role   TEXT,
    began  BIGINT NOT NULL,
    used   BIGINT NOT NULL
);
CREATE INDEX session_used ON session (used);

-- server: which tells it, until when it is another's turn if that does not say so again; place: how far it was told.
CREATE TABLE receiver (
    name   TEXT   PRIMARY KEY,
    server TEXT   NOT NULL,
    until  BIGINT NOT NULL,
    place  TEXT
);

-- id: of a run of the server; position: the write that it read last.
CREATE TABLE server (
    id           TEXT   PRIMARY KEY,
    name         TEXT   NOT NULL,
    version      TEXT   NOT NULL,
    position     BIGINT NOT NULL,
    clock_offset BIGINT NOT NULL,
    seen         BIGINT NOT NULL
);
