-- Tokens of the admin API. digest: SHA-256 of the secret, in hex. created, expires: RFC 3339; expires NULL: never.
CREATE TABLE token (
    name    TEXT PRIMARY KEY NOT NULL,
    digest  TEXT NOT NULL,
    role    TEXT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT
) STRICT;
