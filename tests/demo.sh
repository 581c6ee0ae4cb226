#!/bin/bash
# demo.sh UPDATER AGENT CLUSTER [FLEET]   two acts with the real programs; ends with 0 only if everything went as it says.
#
# First a host's life: install, update, a broken release, the next release, back again. With FLEET then a fleet: a rollout
# server, five hosts in three groups, a rollout through them, a broken release that is stopped in the first, its repair, a
# group that is sent back and let go again.
# DEMO_ACTS=life or DEMO_ACTS=fleet: that act alone.
#
# A host is, by what this machine allows ($DEMO_HOST chooses):
#   bed      a throw-away Debian with a real systemd as PID 1 (tests/beds/bed.sh)
#   sandbox  name spaces of its own with an empty /etc, /var and /usr/local; the agent is run by plain commands
#   image    a directory (--root): files only, no process; what needs one is left out, and it says so
#
# UPDATER, AGENT, CLUSTER, FLEET: the programs teleport-update, toy-agent (stands in for Teleport), test-cluster, teleport-fleet.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=demo/say.sh
. "$here/demo/say.sh"
# shellcheck source=cluster.sh
. "$here/cluster.sh"
# shellcheck source=demo/host.sh
. "$here/demo/host.sh"
# shellcheck source=demo/life.sh
. "$here/demo/life.sh"
# shellcheck source=demo/fleet.sh
. "$here/demo/fleet.sh"
# shellcheck source=demo/rollout.sh
. "$here/demo/rollout.sh"

# --- setting up and taking down ---

take_down() {
    trap '' INT TERM HUP
    local each jobs=()
    # A bed on its way up cannot be taken down; who is at work in one ends with it.
    [ -z "${rising:-}" ] || wait "${at_work[@]}" || true
    if [ -s "${work:-}/beds" ]; then
        while read -r each; do
            "$here/beds/bed.sh" down "$each" &
            jobs+=($!)
        done <"$work/beds"
        wait "${jobs[@]}" || true
    fi
    if [ ${#at_work[@]} != 0 ]; then
        # Their beds are gone; a run in an image ends by itself.
        [ "$mode" = image ] || kill "${at_work[@]}" 2>/dev/null || true
        wait "${at_work[@]}" || true
    fi
    stop_server
    stop_cluster
    # With it goes its child, the PID 1 of the sandbox, and with that everything in there.
    [ -z "${sandbox_pid:-}" ] || { kill -KILL "$sandbox_pid" && wait "$sandbox_pid"; } 2>/dev/null || true
    [ -z "${work:-}" ] || rm -rf --one-file-system "$work"
}

# Does not return.
spaces() { if [ "$(id -u)" = 0 ]; then exec unshare -m -p -f --kill-child "$@"; else exec unshare -r -m -p -f --kill-child "$@"; fi; }

can_sandbox() {
    # shellcheck disable=SC2016 # for the inner shell
    (spaces sh -c 'd=$(mktemp -d) && mount -t tmpfs t "$d" && mkdir "$d/p" && mount -t proc p "$d/p"
        s=$?; umount -R "$d"; rmdir "$d"; exit $s') 2>/dev/null
}

main() {
    [ $# = 3 ] || [ $# = 4 ] || { sed -n '2,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
    updater=$(realpath "$1") agent=$(realpath "$2") cluster=$(realpath "$3") fleet=${4:+$(realpath "$4")}
    case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) fail "no test releases for $(uname -m)" ;; esac
    why=$("$here/beds/bed.sh" can) || true
    why=${why#no beds here: }
    mode=${DEMO_HOST:-}
    if [ -n "$mode" ]; then why=${DEMO_WHY:-by choice}
    elif [ -z "$why" ]; then mode=bed
    elif can_sandbox; then mode=sandbox
    else mode=image
    fi
    if [ -n "${DEMO_WORK:-}" ]; then
        # We are in the sandbox; whoever started it takes it down.
        work=$DEMO_WORK
        trap 'exit 143' INT TERM HUP
    else
        trap take_down EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM HUP
        work=$(mktemp -d)
        if [ "$mode" = sandbox ]; then
            # A job of its own: a Ctrl-C is for this shell, which then ends it.
            set -m
            DEMO_HOST=sandbox DEMO_WORK=$work DEMO_WHY=$why spaces "$0" "$@" </dev/null &
            sandbox_pid=$!
            set +m
            wait "$sandbox_pid"
            return
        fi
    fi
    start_cluster "$cluster" "$agent" "$updater" "$work/cluster"
    case ${DEMO_ACTS:-all} in all | life) life ;; esac
    case ${fleet:+${DEMO_ACTS:-all}} in all | fleet) rollout ;; esac
    note "Every line marked ✓ was checked. Next: README.md, docs/operators-guide.md."
}

main "$@"
