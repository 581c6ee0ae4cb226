#!/bin/bash
# fuzz.sh [TARGET..]   runs libFuzzer on each target (all: those of fuzz/fuzz_targets) for FUZZ_SECONDS, default 60.
#
# Prints a row a target: executions, executions a second, coverage (edges, features), crashes. Ends with 1 after a crash.
# Starts from fuzz/corpus, and keeps what it finds in fuzz/target/corpus; crashes lie in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${FUZZ_SECONDS:-60}
# MiB: far above what any target needs, far below what a bomb takes.
memory=1024
# Seconds for one input: a busy machine may let it wait for long.
patience=60

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz: libFuzzer needs a nightly toolchain and there is none: rustup toolchain install nightly --profile minimal" >&2
    exit 1
fi

if [ $# = 0 ]; then
    set -- fuzz/fuzz_targets/*.rs
    set -- "${@##*/}"
    set -- "${@%.rs}"
fi

dictionary() {
    case $1 in
    *yaml | strings | fleet_resources | fleet_counts) echo yaml ;;
    find | update_graph | manifest | journal* | fleet_admin | fleet_script | image_manifest | docker_config | cosign_signature | registry_answers | tuf_metadata) echo json ;;
    fleet_query | fleet_request | fleet_graph) echo query ;;
    fleet_labels) echo labels ;;
    archive* | tar | entries) echo tar ;;
    esac
}

# The last number behind a word of libFuzzer's log.
number() { { grep -oE "$1:? +[0-9]+" "$2" || true; } | tail -n 1 | grep -oE '[0-9]+$' || echo -; }

cargo +nightly fetch --quiet --locked --manifest-path fuzz/Cargo.toml
cargo +nightly fuzz build

failed=0
row='%-16s %8s %12s %8s %8s %8s %8s\n'
# shellcheck disable=SC2059
printf "$row" target seconds executions exec/s edges features crashes
for target in "$@"; do
    found=fuzz/target/corpus/$target log=fuzz/target/$target.log crash=
    mkdir -p "$found" "fuzz/artifacts/$target" "fuzz/corpus/$target"
    dictionary=$(dictionary "$target")
    cargo +nightly fuzz run "$target" "$found" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=$memory -timeout=$patience -print_final_stats=1 \
        ${dictionary:+-dict=fuzz/dictionaries/$dictionary.dict} >"$log" 2>&1 || crash=1
    # shellcheck disable=SC2059
    printf "$row" "$target" "$seconds" "$(number stat::number_of_executed_units "$log")" \
        "$(number stat::average_exec_per_sec "$log")" "$(number cov "$log")" "$(number ft "$log")" "${crash:-0}"
    if [ -n "$crash" ]; then
        failed=1
        grep -E 'panicked|ERROR|assertion|Test unit written|error' -A 2 "$log" | head -n 20 | sed 's/^/    /'
    fi
done
exit $failed
