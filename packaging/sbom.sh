#!/bin/bash
# sbom.sh DIR TARGET..   writes DIR/PROGRAM-VERSION.TARGET.cdx.json (CycloneDX 1.5) for each program and target: every crate
# that is linked, with version, licence and digest, and adds them to DIR/SHA256SUMS.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath "$1")
shift
cd "$here/.."
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y packaging/contents)}"
export SOURCE_DATE_EPOCH
version=$(awk -F '"' '/^version = / {print $2; exit}' Cargo.toml)
for target in "$@"; do
    # One for each member of the workspace, beside its Cargo.toml: three of them are shipped.
    name=$version.$target.cdx
    cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$target" --override-filename "$name"
    for program in teleport-update=. teleport-fleet=fleet/server teleport-kube-update=kube; do
        # Where it was built is nobody's business, and would make two builds differ.
        sed "s|file://$PWD|file:///teleport-update|g" "${program#*=}/$name.json" >"$out/${program%%=*}-$name.json"
    done
    find . -path ./target -prune -o -name "$name.json" -exec rm {} +
done
(cd "$out" && sha256sum -- *.cdx.json >>SHA256SUMS)
