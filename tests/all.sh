#!/bin/bash
# all.sh CARGO_FLAG..   all tests of what the flags name (--workspace). With nextest where it is installed: it runs them in parallel and kills one that hangs. Its
# summary, or ours, is the last line. There are no doc tests (a test holds that), and to look for them compiles for a minute.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if cargo nextest --version >/dev/null 2>&1; then
    # The long tests of the whole, which have agents and deadlines of their own, get more of the processors each.
    threads=$(($([ -n "${NEXTEST_PROFILE-}" ] && echo 12 || echo 8) * $(nproc)))
    set -x
    cargo nextest run "$@" --no-fail-fast --test-threads $threads
else
    (set -x; cargo test "$@" --lib --bins --tests --no-fail-fast) 2>&1 | awk \
        '{ print; fflush() } /^test result:/ { passed += $4; failed += $6 }
        END { printf "%d passed, %d failed\n", passed, failed }'
fi
