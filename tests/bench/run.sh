#!/bin/bash
# run.sh TARGET_DIR NATIVE [quick]   measures what was built for NATIVE (a target), and makes docs/performance.md. quick: a smaller
# run, whose page lies in TARGET_DIR/bench.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=$1 debug=$1/$2/debug release=$1/$2/release kind=${3:-}

tests/beds/roots.sh bookworm trixie-sysupdate
out=docs
if [ -n "$kind" ]; then out=$target/bench; fi
set -x
"$debug/test-bench" ${kind:+"--$kind"} --work "$target/bench" --out "$out" \
    "$release/teleport-update" "$debug/toy-agent" "$release/test-cluster" "$release/test-limit"
