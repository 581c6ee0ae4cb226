#!/bin/bash
# all.sh CARGO_FLAG..   all tests. With nextest where it is installed: it runs them in parallel and kills one that hangs. Its
# summary, or ours, is the last line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if cargo nextest --version >/dev/null 2>&1; then
    set -x
    cargo test "$@" --workspace --doc
    cargo nextest run "$@" --workspace --config-file tests/nextest.toml --no-fail-fast --test-threads $((6 * $(nproc)))
else
    (set -x; cargo test "$@" --workspace --no-fail-fast) 2>&1 | awk \
        '{ print; fflush() } /^test result:/ { passed += $4; failed += $6 }
        END { printf "%d passed, %d failed\n", passed, failed }'
fi
