"""python_tuf.py make KIND DIR          a repository of python-tuf in DIR/metadata, which names the file `target`; the root is DIR/root.json
   python_tuf.py accept ROOT DIR NAME FILE   whether its client, which trusts ROOT, takes FILE for NAME by the metadata in DIR (0, 1)

KIND: flat, delegated, bins, rsa, p256, rotated (20 roots).
"""

import os
import sys
import tempfile
from copy import deepcopy
from datetime import datetime, timedelta, timezone
from pathlib import Path

from securesystemslib.signer import CryptoSigner
from tuf.api.exceptions import DownloadHTTPError, RepositoryError
from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    SuccinctRoles,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization.json import JSONSerializer
from tuf.ngclient import FetcherInterface, Updater

PRETTY = JSONSerializer(compact=False)
NAME = "target"
CONTENT = b"the file that is meant"


def signer(kind):
    return {"rsa": CryptoSigner.generate_rsa, "p256": CryptoSigner.generate_ecdsa}.get(kind, CryptoSigner.generate_ed25519)()


def write(metadata, path, signers):
    metadata.signatures.clear()
    for one in signers:
        metadata.sign(one, append=True)
    metadata.to_file(str(path), PRETTY)


def make(kind, place):
    out = Path(place, "metadata")
    out.mkdir(parents=True)
    end = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=30)
    keys = {role: [signer(kind) for _ in range(2)] for role in ("root", "targets", "snapshot", "timestamp")}
    root = Metadata(Root(expires=end, consistent_snapshot=True))
    for role, signers in keys.items():
        for one in signers:
            root.signed.add_key(one.public_key, role)
        root.signed.roles[role].threshold = 2 if role in ("root", "targets") else 1
    write(root, out / "1.root.json", keys["root"])
    Path(place, "root.json").write_bytes((out / "1.root.json").read_bytes())
    for version in range(2, 22 if kind == "rotated" else 2):
        old, keys["root"] = keys["root"], [signer(kind) for _ in range(2)]
        for one in old:
            root.signed.revoke_key(one.public_key.keyid, "root")
        for one in keys["root"]:
            root.signed.add_key(one.public_key, "root")
        root.signed.version = version
        write(root, out / f"{version}.root.json", old + keys["root"])

    # Whatever canonical JSON must keep: quotes, backslashes, control characters, letters beyond the first plane, order by code point.
    odd = {"\u00e9\"\\\n\u0001\U0001f600": ["\u007f\u2028", {"b": 1, "a": None, "B": True, "\uffff": -5, "\U00010000": []}]}
    targets = Metadata(Targets(expires=end, unrecognized_fields={"x": odd}))
    snapshot = Metadata(Snapshot(expires=end))
    file = TargetFile.from_data(NAME, CONTENT, ["sha256", "sha512"])
    if kind == "delegated":
        one = signer(kind)
        role = DelegatedRole("team/a", [one.public_key.keyid], 1, False, paths=["t*", "other"])
        targets.signed.delegations = Delegations({one.public_key.keyid: one.public_key}, {"team/a": role})
        write(Metadata(Targets(targets={NAME: file}, expires=end)), out / "1.team%2Fa.json", [one])
        snapshot.signed.meta["team/a.json"] = MetaFile(1)
    elif kind == "bins":
        one = signer(kind)
        roles = SuccinctRoles([one.public_key.keyid], 1, 5, "bin")
        targets.signed.delegations = Delegations({one.public_key.keyid: one.public_key}, succinct_roles=roles)
        for name in roles.get_roles():
            has = {NAME: file} if name == roles.get_role_for_target(NAME) else {}
            write(Metadata(Targets(targets=has, expires=end)), out / f"1.{name}.json", [one])
            snapshot.signed.meta[f"{name}.json"] = MetaFile(1)
    else:
        targets.signed.targets[NAME] = file
    write(targets, out / "1.targets.json", keys["targets"])
    write(snapshot, out / "1.snapshot.json", keys["snapshot"])
    timestamp = Metadata(Timestamp(expires=end))
    timestamp.signed.snapshot_meta = MetaFile.from_data(1, (out / "1.snapshot.json").read_bytes(), ["sha256"])
    write(timestamp, out / "timestamp.json", keys["timestamp"])


class Files(FetcherInterface):
    """Reads files in place of URLs."""

    def __init__(self, place):
        self.place = place

    def _fetch(self, url):
        path = Path(self.place, url.rsplit("/", 1)[1])
        if not path.exists():
            raise DownloadHTTPError("not there", 404)
        yield path.read_bytes()


def accept(root, place, name, file):
    with tempfile.TemporaryDirectory() as kept:
        updater = Updater(kept, "http://files", fetcher=Files(place), bootstrap=Path(root).read_bytes())
        updater.refresh()
        found = updater.get_targetinfo(name)
        if found is None:
            raise RepositoryError(f"{name} is not named")
        found.verify_length_and_hashes(Path(file).read_bytes())


if __name__ == "__main__":
    try:
        {"make": make, "accept": accept}[sys.argv[1]](*sys.argv[2:])
    except (RepositoryError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
