#!/bin/bash
# roots.sh ROOT..   builds these roots before the tests that need them, whose deadlines are for tests. Nothing where this
# machine can host no bed; a root that cannot be had here (77) is left to its tests, which say so.
set -euo pipefail

beds=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# At once: half of a root's minute is waiting for the network and the disk.
builders=4
"$beds/bed.sh" can || exit 0
trap '"$beds/binfmt.sh" off' EXIT
# shellcheck disable=SC2016 # the inner shell expands them
for root in "$@"; do
    case $root in *-arm64) "$beds/binfmt.sh" on >&2 || continue ;; esac
    echo "$root"
done | xargs -r -n 1 -P $builders bash -c '"$0" "$1" >/dev/null || [ $? = 77 ]' "$beds/root.sh"
