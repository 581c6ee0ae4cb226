#!/bin/bash
# roots.sh   builds every root of the end-to-end lives before their tests, whose deadlines are for tests.
set -euo pipefail

beds=$(cd "$(dirname "${BASH_SOURCE[0]}")/../beds" && pwd)
for root in bookworm bookworm-rpm bullseye trixie; do "$beds/root.sh" $root >/dev/null; done
if "$beds/binfmt.sh" on; then
    trap '"$beds/binfmt.sh" off' EXIT
    "$beds/root.sh" bookworm-arm64 >/dev/null
fi
