#!/bin/bash
# Plants each fault of this directory in a copy of the source, builds that, and requires the suite that should see the
# fault to find violations.
#
# usage: run.sh TARGET_DIR TEST_CRASH CARGO_FLAG...
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "$here/../.." && pwd)
target=$1 suites=$2
shift 2
missed=0

for patch in "$here"/*.patch; do
    name=$(basename "$patch" .patch)
    read -r suite flow < <(sed -n 's/^Seen-by: //p' "$patch")
    echo "# planted: $(head -n 1 "$patch")"
    if ! "$suites" --can "$suite"; then
        echo "skipped: no suite $suite here"
        continue
    fi
    copy=$target/planted/$name
    rm -rf "$copy"
    mkdir -p "$copy"
    (cd "$checkout" && git ls-files -z | tar --null --files-from=- --create) | tar --extract --directory "$copy"
    patch --quiet --strip=1 --directory "$copy" <"$patch"
    # One target directory for all: dependencies are compiled once.
    (cd "$copy" && cargo build --quiet "$@" --target-dir "$target/planted/target" --package teleport-update)
    updater=$(find "$target/planted/target" -path '*/debug/teleport-update' -type f | head -n 1)
    output=$copy.txt
    # A third of the points: a fault that shows at one in a hundred only would be another kind of test.
    if "$suites" --suite "$suite" --flow "$flow" --every 3 "$updater" >"$output" 2>&1; then
        echo "MISSED: $suite of $flow finds nothing"
        tail -n 5 "$output"
        missed=1
    else
        grep -c '^violation: ' "$output" | sed 's/$/ violations, the first ones:/'
        grep -m 3 '^violation: ' "$output" | cut -c 1-400
        sed -n '/^# /,$ { /^violation: /d; p }' "$output"
    fi
done
exit $missed
