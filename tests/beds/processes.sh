#!/bin/bash
# For bed.sh and vm.sh, which source it: the processes they have started, and the machines whose owner is gone. $run_dir has
# a directory for each machine; a machine that shall not outlive its owner has `owner.pid` in it.
#
# A process is known by its pid *and* start time: a pid alone may have been given to a stranger since.

# Nothing here forks but for what it writes: who waits asks every few hundredths of a second.

# Sets `state` and `started` to those of a process; fails where there is none.
look_at() {
    local line='' fields
    { IFS= read -r -d '' line <"/proc/$1/stat"; } 2>/dev/null || [ -n "$line" ] || return 1
    # A program's name may hold whatever it likes.
    read -r -a fields <<<"${line##*) }"
    state=${fields[0]} started=${fields[19]}
}

# remember FILE PID
remember() {
    local state started
    look_at "$2" || started=gone
    echo "$2 $started" >"$1.new" && mv "$1.new" "$1"
}

# Sets `pid` to the one kept in FILE if that very process still lives (a zombie does not).
living() {
    local since state started
    { read -r pid since <"$1"; } 2>/dev/null || return 1
    look_at "$pid" && [ "$started" = "$since" ] && [ "$state" != Z ]
}

# Takes down the machines whose owner is dead.
sweep() {
    local each pid
    for each in "${run_dir:?}"/*; do
        [ -f "$each/owner.pid" ] || continue
        living "$each/owner.pid" || "$0" down "${each##*/}" || true
    done
}

# Takes down every machine.
down_all() {
    local each
    for each in "${run_dir:?}"/*; do
        [ -d "$each" ] || continue
        "$0" down "${each##*/}"
    done
}
