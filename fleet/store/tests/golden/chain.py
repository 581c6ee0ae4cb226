"""The head of the audit log in an SQL file, by the description in src/chain.rs. Ends with an error where a hash differs."""

import hashlib
import sqlite3
import sys

database = sqlite3.connect(":memory:")
with open(sys.argv[1], encoding="utf-8") as file:
    database.executescript(file.read())
COLUMNS = "seq, at, who, origin, action, subject, done, detail, before, after, previous, hash"
previous = "0" * 64
for row in database.execute(f"SELECT {COLUMNS} FROM audit ORDER BY seq"):
    *fields, stored_previous, stored = [str(value) for value in row]
    hasher = hashlib.sha256(b"teleport-fleet audit 1\n")
    for field in [previous, *fields]:
        data = field.encode("utf-8")
        hasher.update(len(data).to_bytes(8, "big") + data)
    if (stored_previous, stored) != (previous, hasher.hexdigest()):
        sys.exit(f"record {row[0]}: {stored} is stored, {hasher.hexdigest()} computed")
    previous = stored
print(previous)
