-- As 0001 to 0004 of SQLite, where each table is described. What is here alone: `written_at` is the number of the write that
-- a row is of, by which other servers find what they have not read; triggers keep it, so that no statement can forget it.
CREATE TABLE schema_version (one BIGINT PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL);

-- change: one more with each write, and each is made from the one before. *_at: the last write of that table. forgotten_from:
-- of writes up to this the table `forgotten` has nothing any more.
CREATE TABLE store (
    one            BIGINT PRIMARY KEY CHECK (one = 1),
    epoch          TEXT   NOT NULL,
    arrivals       BIGINT NOT NULL DEFAULT 0,
    restored_held  BIGINT NOT NULL DEFAULT 0,
    head_seq       BIGINT NOT NULL DEFAULT 0,
    head_hash      TEXT   NOT NULL,
    backup_at      TEXT,
    is_backup      BIGINT NOT NULL DEFAULT 0,
    change         BIGINT NOT NULL DEFAULT 0,
    book_at        BIGINT NOT NULL DEFAULT 0,
    resource_at    BIGINT NOT NULL DEFAULT 0,
    token_at       BIGINT NOT NULL DEFAULT 0,
    join_token_at  BIGINT NOT NULL DEFAULT 0,
    candidate_at   BIGINT NOT NULL DEFAULT 0,
    forgotten_from BIGINT NOT NULL DEFAULT 0
);

-- engine: the format of `json`, by the newest program that wrote it; an older one leaves it as it is.
CREATE TABLE book (
    one      BIGINT PRIMARY KEY CHECK (one = 1),
    revision BIGINT NOT NULL DEFAULT 0,
    json     JSON,
    engine   BIGINT NOT NULL DEFAULT 1
);
INSERT INTO book (one) VALUES (1);

CREATE TABLE rollout (number BIGINT PRIMARY KEY, json JSON NOT NULL);

CREATE TABLE resource (
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    revision TEXT NOT NULL,
    yaml     TEXT NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE host (
    id         BYTEA  PRIMARY KEY CHECK (length(id) = 16),
    record     TEXT   NOT NULL,
    written_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX host_written_at ON host (written_at);

CREATE TABLE forgotten (host BYTEA PRIMARY KEY, change BIGINT NOT NULL);
CREATE INDEX forgotten_change ON forgotten (change);

CREATE TABLE request (id TEXT PRIMARY KEY, outcome TEXT NOT NULL, at BIGINT NOT NULL);
CREATE INDEX request_at ON request (at);

CREATE TABLE audit (
    seq      BIGINT PRIMARY KEY CHECK (seq > 0),
    at       TEXT   NOT NULL,
    who      TEXT   NOT NULL,
    origin   TEXT   NOT NULL,
    action   TEXT   NOT NULL,
    subject  TEXT   NOT NULL,
    done     BIGINT NOT NULL CHECK (done IN (0, 1)),
    detail   TEXT   NOT NULL,
    before   TEXT   NOT NULL,
    after    TEXT   NOT NULL,
    previous TEXT   NOT NULL,
    hash     TEXT   NOT NULL
);

CREATE TABLE token (
    name    TEXT PRIMARY KEY,
    digest  TEXT NOT NULL,
    role    TEXT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT
);

CREATE TABLE enrolled (
    host       BYTEA  PRIMARY KEY CHECK (length(host) = 16),
    key        BYTEA  NOT NULL CHECK (length(key) = 32),
    sequence   BIGINT NOT NULL,
    how        TEXT   NOT NULL,
    since      TEXT   NOT NULL,
    fixed      TEXT,
    change     BIGINT NOT NULL,
    written_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX enrolled_written_at ON enrolled (written_at);

CREATE TABLE candidate (
    host  BYTEA PRIMARY KEY CHECK (length(host) = 16),
    key   BYTEA NOT NULL CHECK (length(key) = 32),
    since TEXT  NOT NULL
);

CREATE TABLE report (
    host BYTEA PRIMARY KEY CHECK (length(host) = 16),
    at   TEXT NOT NULL,
    json TEXT NOT NULL
);

CREATE TABLE host_change (
    host   BYTEA  NOT NULL CHECK (length(host) = 16),
    number BIGINT NOT NULL,
    at     TEXT   NOT NULL,
    json   JSON   NOT NULL,
    PRIMARY KEY (host, number)
);
CREATE INDEX host_change_at ON host_change (at);

CREATE TABLE join_token (
    name    TEXT PRIMARY KEY,
    digest  TEXT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT,
    uses    BIGINT,
    fixed   TEXT
);

CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only';
END $$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();

CREATE FUNCTION number_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT change INTO NEW.written_at FROM store;
    RETURN NEW;
END $$;
CREATE TRIGGER host_is_numbered BEFORE INSERT OR UPDATE ON host FOR EACH ROW EXECUTE FUNCTION number_row();
CREATE TRIGGER enrolled_is_numbered BEFORE INSERT OR UPDATE ON enrolled FOR EACH ROW EXECUTE FUNCTION number_row();

-- Who comes again in the same write is in `host` with that number: readers take away first, and put there then.
CREATE FUNCTION note_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO forgotten (host, change) SELECT OLD.id, change FROM store
    ON CONFLICT (host) DO UPDATE SET change = excluded.change;
    RETURN NULL;
END $$;
CREATE TRIGGER host_is_noted AFTER DELETE ON host FOR EACH ROW EXECUTE FUNCTION note_forgotten();

CREATE FUNCTION number_table() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('UPDATE store SET %I = change WHERE %I <> change', TG_TABLE_NAME || '_at', TG_TABLE_NAME || '_at');
    RETURN NULL;
END $$;
CREATE TRIGGER book_is_numbered AFTER UPDATE ON book FOR EACH STATEMENT EXECUTE FUNCTION number_table();
CREATE TRIGGER resource_is_numbered AFTER INSERT OR UPDATE OR DELETE ON resource
FOR EACH STATEMENT EXECUTE FUNCTION number_table();
CREATE TRIGGER token_is_numbered AFTER INSERT OR UPDATE OR DELETE ON token
FOR EACH STATEMENT EXECUTE FUNCTION number_table();
CREATE TRIGGER join_token_is_numbered AFTER INSERT OR UPDATE OR DELETE ON join_token
FOR EACH STATEMENT EXECUTE FUNCTION number_table();
CREATE TRIGGER candidate_is_numbered AFTER INSERT OR UPDATE OR DELETE ON candidate
FOR EACH STATEMENT EXECUTE FUNCTION number_table();

-- Whoever listens reads what is new; who does not asks each second.
CREATE FUNCTION tell_others() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('teleport_fleet', NEW.change::text);
    RETURN NULL;
END $$;
CREATE TRIGGER others_are_told AFTER UPDATE OF change ON store FOR EACH ROW EXECUTE FUNCTION tell_others();
