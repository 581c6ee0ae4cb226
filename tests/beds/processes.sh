#!/bin/bash
# For bed.sh and vm.sh, which source it: the processes they have started, and the machines whose owner is gone. $run_dir has
# a directory for each machine; a machine that shall not outlive its owner has `owner.pid` in it.
#
# A process is known by its pid *and* start time: a pid alone may have been given to a stranger since.

start_time() { local s; s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1; s=${s##*) }; cut -d' ' -f20 <<<"$s"; }

# remember FILE PID
remember() { echo "$2 $(start_time "$2" || echo gone)" >"$1.new" && mv "$1.new" "$1"; }

# Prints the pid kept in FILE if that very process still lives (a zombie does not).
living() {
    local pid start stat
    { read -r pid start <"$1"; } 2>/dev/null || return 1
    [ "$(start_time "$pid" || true)" = "$start" ] || return 1
    stat=$(cat "/proc/$pid/stat" 2>/dev/null) || return 1
    stat=${stat##*) }
    [ "${stat:0:1}" != Z ] || return 1
    echo "$pid"
}

# Takes down the machines whose owner is dead.
sweep() {
    local each
    for each in "${run_dir:?}"/*/; do
        [ -f "$each/owner.pid" ] || continue
        living "$each/owner.pid" >/dev/null || "$0" down "$(basename "$each")" || true
    done
}

# Takes down every machine.
down_all() {
    local each
    for each in "${run_dir:?}"/*/; do
        [ -d "$each" ] || continue
        "$0" down "$(basename "$each")"
    done
}
