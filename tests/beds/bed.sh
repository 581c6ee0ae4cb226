#!/bin/bash
# A bed: a small Debian with a real systemd as PID 1, up in under a second, thrown away after use.
#
#   bed.sh can                       0 if this machine can host a bed; else says why not and exits 77
#   bed.sh up NAME [NSPAWN-ARG..]    a fresh overlay on the root, booted and ready; prints its root directory, see `root`
#   bed.sh root NAME                 path of its root directory on the host (write there to put files in)
#   bed.sh run NAME CMD..            CMD in a unit of its own inside; its exit status comes back
#   bed.sh exec NAME CMD..           CMD in the bed's namespaces (not its cgroup); its exit status comes back
#   bed.sh wait NAME                 until the bed is ready
#   bed.sh reboot NAME               an orderly reboot, until ready again
#   bed.sh halt NAME                 an orderly shutdown; the disk stays
#   bed.sh cut NAME                  SIGKILL of PID 1: everything dies at once; the disk (with the page cache) stays
#   bed.sh boot NAME                 boots a halted or cut bed from the same disk
#   bed.sh layer NAME DIR            copies what a halted bed changed to DIR: an image layer, see BED_LAYER
#   bed.sh console NAME              what the bed wrote to its console
#   bed.sh down NAME                 kills it and removes every trace
#   bed.sh sweep                     takes down the beds whose owner (BED_OWNER at `up`) is dead
#   bed.sh clean                     takes down every bed
#
# Environment: TELEPORT_UPDATE_BEDS (cache and state directory), BED_ROOT (a root of root.sh, default bookworm),
# BED_SIZE (size of the disk, default 2g, in memory), BED_DEADLINE (seconds until ready, default 60),
# BED_LAYER (a directory laid over the root: what `bed.sh layer` took of another bed; the bed is then a host's first boot),
# BED_OWNER (pid that the bed must not outlive), TELEPORT_UPDATE_NO_BEDS=1 (this machine shall host none).
#
# Beds share the host's network, so that servers of a test on 127.0.0.1 can be reached; `--private-network` after NAME
# gives a bed its own. Not for tests of the clock (CAP_SYS_TIME is withheld) nor of MemoryMax= and TasksMax= (no
# controllers on hybrid hosts).
set -euo pipefail

self=${BASH_SOURCE[0]}
[[ $self == */* ]] || self=./$self
here=${self%/*}
home=${TELEPORT_UPDATE_BEDS:-${HOME:-/root}/.cache/teleport-update-beds}
run_dir=$home/run
deadline=${BED_DEADLINE:-60}

die() { echo "bed.sh: $*" >&2; exit 1; }

# shellcheck source=processes.sh
. "$here/processes.sh"

# All below runs thousands of times in a test run, so it reads files without `cat` and `sed`.

# Reads a small file of /proc into `text`.
slurp() {
    text=
    { IFS= read -r -d '' text <"$1"; } 2>/dev/null || [ -n "$text" ]
}

# Sets `leader` to the bed's PID 1 as the host numbers it. nspawn's first child can still be on the way in: only a pid 1 of a
# namespace of its own counts, else nsenter would join the host.
leader() {
    local pid child children=() text is_first=$'\nNSpid:[\t0-9]*\t1\n'
    living "$bed/nspawn.pid" || return 1
    { read -r -a children <"/proc/$pid/task/$pid/children"; } 2>/dev/null || true
    for child in "${children[@]}"; do
        if slurp "/proc/$child/status" && [[ $text =~ $is_first ]]; then
            leader=$child
            return 0
        fi
    done
    return 1
}

# --- control groups ---

# The hierarchies systemd needs: the unified one, and on hybrid hosts also v1's name=systemd.
hierarchies=()
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    hierarchies=(/sys/fs/cgroup)
elif [ -f /sys/fs/cgroup/unified/cgroup.procs ] && [ -f /sys/fs/cgroup/systemd/cgroup.procs ]; then
    hierarchies=(/sys/fs/cgroup/unified /sys/fs/cgroup/systemd)
fi

# systemd 229 knows the unified hierarchy only under the type it had before Linux 4.5; where the host has v1's as well
# (hybrid), it gets that.
unified() { case $kind in xenial*) echo 0 ;; *) echo 1 ;; esac; }

# Kills whatever the bed's groups still hold and removes them.
remove_groups() {
    local h group procs i
    for h in "${hierarchies[@]}"; do
        group=$h/bed-$name
        [ -d "$group" ] || continue
        for ((i = 0; i < 100; i++)); do
            procs=$(find "$group" -name cgroup.procs -exec cat {} + 2>/dev/null || true)
            [ -n "$procs" ] || break
            # shellcheck disable=SC2086 # a list
            kill -KILL $procs 2>/dev/null || true
            sleep 0.02
        done
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
}

# --- life and death ---

can() {
    local why='' tool
    if [ -n "${TELEPORT_UPDATE_NO_BEDS:-}" ]; then why="switched off by TELEPORT_UPDATE_NO_BEDS"
    elif [ $EUID != 0 ]; then why="not root"
    elif ! grep -qw overlay /proc/filesystems && ! modprobe -q overlay 2>/dev/null; then why="the kernel has no overlay file system"
    elif [ ${#hierarchies[@]} = 0 ]; then why="no unified control group hierarchy"
    elif ! [ -w "${hierarchies[0]}/cgroup.procs" ]; then why="control groups are read-only"
    else
        for tool in systemd-nspawn mmdebstrap nsenter setpriv flock; do
            if ! command -v $tool >/dev/null; then why="$tool is missing (make setup)"; break; fi
        done
    fi
    if [ -z "$why" ] && ! unshare -m -p -f true 2>/dev/null; then why="may not make namespaces"; fi
    if [ -n "$why" ]; then echo "no beds here: $why"; exit 77; fi
}

# systemd-nspawn in the background under a keeper shell. With --keep-unit nspawn uses its caller's groups, so the keeper
# first moves into groups of the bed's own; and nspawn leaves a reboot to its caller, by exit status 133.
start() {
    local args=() h kind
    read -r kind <"$bed/kind"
    mapfile -d '' -t args <"$bed/args"
    rm -f "$bed/rc"
    for h in "${hierarchies[@]}"; do mkdir -p "$h/bed-$name"; done
    (
        for h in "${hierarchies[@]}"; do echo "$BASHPID" >"$h/bed-$name/cgroup.procs"; done
        remember "$bed/keeper.pid" "$BASHPID"
        status=133
        while [ $status = 133 ]; do
            # setsid: a Ctrl-C at a test run is for the test, which then takes its bed down.
            SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=$(unified) setsid systemd-nspawn -q -b -D "$bed/root" -M "$name" \
                --register=no --keep-unit --console=read-only --notify-ready=yes --kill-signal=SIGRTMIN+3 \
                --resolv-conf=copy-host --link-journal=no "${args[@]}" &
            remember "$bed/nspawn.pid" $!
            status=0
            wait $! || status=$?
        done
        echo $status >"$bed/rc"
    ) </dev/null >>"$bed/console" 2>&1 &
    ready
}

ready() {
    local leader kind enter left wait=--wait state='no PID 1' end=$((SECONDS + deadline))
    read -r kind <"$bed/kind"
    # Before 240 systemctl cannot wait until a host has booted.
    case $kind in xenial* | bionic*) wait= ;; esac
    while ((left = end - SECONDS, left > 0)); do
        if enter; then
            state=$(timeout $left "${enter[@]}" systemctl is-system-running $wait 2>/dev/null || true)
            case $state in running | degraded) return 0 ;; esac
        elif [ -e "$bed/rc" ]; then
            tail -n 20 "$bed/console" >&2
            die "bed $name ended with status $(cat "$bed/rc") while booting"
        fi
        sleep 0.03
    done
    tail -n 20 "$bed/console" >&2
    die "bed $name not ready after $deadline s (state: ${state:-no answer})"
}

# Sets `leader`, and `enter` to the words that run a command in the bed; fails where it is not running. nsenter keeps the
# capabilities of the host, and the clock is not namespaced: drop first. env -i: nothing of the host's environment in the bed.
enter() {
    local text i last fewer=()
    leader && slurp "/proc/$leader/status" && [[ $text =~ CapBnd:[[:blank:]]+([0-9a-f]+) ]] || return 1
    local bounds=$((0x${BASH_REMATCH[1]}))
    # A bed without CAP_SYS_PTRACE (19) would not see what a process of more capabilities does: none from here has more.
    if ! ((bounds >> 19 & 1)); then
        fewer=(setpriv --inh-caps=-all --bounding-set=-sys_ptrace)
        read -r last </proc/sys/kernel/cap_last_cap
        for ((i = 0; i <= last; i++)); do
            ((bounds >> i & 1)) || fewer[2]+=,-cap_$i
        done
        fewer+=(--)
    fi
    # shellcheck disable=SC2054 # one word
    enter=(setpriv --inh-caps=-all --bounding-set=-sys_time,-sys_module,-sys_rawio,-sys_boot,-syslog,-wake_alarm,-bpf,-perfmon --
        nsenter -t "$leader" -m -u -i -n -p -r -w -- "${fewer[@]}"
        env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
}

must_run() { enter || die "bed $name is not running"; }

# Until nspawn and its keeper have gone; kills what is left after $1 tenths of a second.
await_end() {
    local i pid leader file
    for ((i = 0; i < $1 * 5; i++)); do
        living "$bed/keeper.pid" || living "$bed/nspawn.pid" || return 0
        sleep 0.02
    done
    if leader; then kill -KILL "$leader" 2>/dev/null || true; fi
    for file in nspawn keeper; do
        if living "$bed/$file.pid"; then kill -KILL "$pid" 2>/dev/null || true; fi
    done
    remove_groups
}

unmount() {
    local i
    mountpoint -q "$1" || return 0
    for ((i = 0; i < 20; i++)); do
        if umount "$1" 2>/dev/null; then return 0; fi
        sleep 0.05
    done
    # Somebody on the host has a file open in there; it goes when they close it.
    umount -l "$1"
}

# Safe on a bed in any state: half made, running, cut, left by a run that was killed.
down() {
    local leader
    if leader; then kill -KILL "$leader" 2>/dev/null || true; fi
    await_end 50
    remove_groups
    unmount "$bed/root"
    unmount "$bed/disk"
    rm -rf --one-file-system "$bed"
}

# The end of `up`.
fate() {
    [ "$1" = 0 ] || down
    exit "$1"
}

up() {
    local base
    can >&2
    sweep
    [ ! -e "$bed" ] || down
    base=$("$here/root.sh" "${BED_ROOT:-bookworm}")
    mkdir -p "$bed"/{disk,root}
    # From here on a failure takes everything down again.
    trap 'fate $?' EXIT
    trap 'exit 143' TERM INT HUP
    if [ -n "${BED_OWNER:-}" ]; then remember "$bed/owner.pid" "$BED_OWNER"; fi
    if [ $# != 0 ]; then printf '%s\0' "$@"; fi >"$bed/args"
    echo "${BED_ROOT:-bookworm}" >"$bed/kind"
    mount -t tmpfs -o "size=${BED_SIZE:-2g},mode=755" "bed-$name" "$bed/disk"
    mkdir "$bed"/disk/{upper,work}
    mount -t overlay -o "lowerdir=${BED_LAYER:+$BED_LAYER:}$base,upperdir=$bed/disk/upper,workdir=$bed/disk/work" "bed-$name" "$bed/root"
    if [ -z "${BED_LAYER:-}" ]; then
        # A host that has booted before: no first-boot presets.
        tr -d - </proc/sys/kernel/random/uuid >"$bed/root/etc/machine-id"
        echo "$name" >"$bed/root/etc/hostname"
    fi
    start
    echo "$bed/root"
}

clean() { down_all; }

verb=${1:-}
case $verb in
can | sweep | clean) "$verb"; exit ;;
up | root | run | exec | wait | reboot | halt | cut | boot | layer | console | down) ;;
*) sed -n '2,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
name=${2:-}
# It becomes a host name, a directory and a control group.
[[ $name =~ ^[a-z0-9][a-z0-9-]{0,50}$ ]] || die "not a name for a bed: '$name'"
shift 2
bed=$run_dir/$name
case $verb in up | down) ;; *) [ -d "$bed/root" ] || die "no bed $name" ;; esac

case $verb in
up) up "$@" ;;
down) down ;;
root) echo "$bed/root" ;;
console) cat "$bed/console" ;;
layer)
    ! living "$bed/keeper.pid" || die "bed $name is running"
    # With the overlay's marks of what was removed.
    cp -a --no-target-directory "$bed/disk/upper" "$1"
    ;;
wait) ready ;;
boot)
    ! living "$bed/keeper.pid" || die "bed $name is running"
    start
    ;;
exec)
    must_run
    exec "${enter[@]}" "$@"
    ;;
run)
    must_run
    if ! { read -r version <"$bed/version"; } 2>/dev/null; then
        version=$("${enter[@]}" systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
        echo "$version" >"$bed/version"
    fi
    if ((version >= 240)); then
        exec "${enter[@]}" systemd-run -q --pipe --wait --collect --service-type=exec -E HOME=/root -E LANG=C.UTF-8 -- "$@"
    else
        # No Type=exec, and before 235 no --pipe: a unit of its own all the same, but not PID 1's child. Messages about
        # the scope itself are dropped, by way of another descriptor for the command's.
        exec "${enter[@]}" systemd-run --scope -- sh -c 'exec "$@" 2>&3 3>&-' sh "$@" 3>&2 2>/dev/null
    fi
    ;;
cut)
    must_run
    kill -KILL "$leader"
    await_end 50
    remove_groups
    ;;
halt)
    must_run
    kill -s RTMIN+4 "$leader" # poweroff.target
    await_end 300
    remove_groups
    ;;
reboot)
    must_run
    kill -s RTMIN+5 "$leader" # reboot.target
    for ((i = 0; i < deadline * 20; i++)); do
        [ -d "/proc/$leader" ] || break
        sleep 0.05
    done
    ready
    ;;
esac
