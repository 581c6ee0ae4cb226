#!/bin/bash
# demo.sh UPDATER AGENT CLUSTER   walks a host through its life with the real updater and shows what happens: install,
# update, a broken release, the next release, back again. Ends with 0 only if everything went as it says.
#
# The host is, by what this machine allows ($DEMO_HOST chooses):
#   bed      a throw-away Debian with a real systemd as PID 1 (tests/beds/bed.sh)
#   sandbox  name spaces of its own with an empty /etc, /var and /usr/local; the agent is run by plain commands
#   image    a directory (--root): files only, no process; what needs one is left out, and it says so
#
# UPDATER, AGENT, CLUSTER: the programs teleport-update, toy-agent (stands in for Teleport) and test-cluster.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bold='' faint='' green='' red='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$'\e[1m' faint=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi

# --- what a reader sees ---

tell() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
note() { printf '%s# %s%s\n' "$faint" "$*" "$plain"; }
fail() { printf '%s✗ %s%s\n' "$red" "$*" "$plain"; exit 1; }
good() { printf '%s✓ %s%s\n' "$green" "$*" "$plain"; }

# runs STATUS CMD..: shows the command, runs it on the host, and insists on its exit status.
runs() {
    local wanted=$1 status=0
    shift
    if [ "$1" = sh ]; then printf '%s$ %s%s\n' "$bold" "$3" "$plain"; else printf '%s$ %s%s\n' "$bold" "$*" "$plain"; fi
    on_host "$@" 2>&1 || status=$?
    [ "$status" = "$wanted" ] || fail "that ended with $status, not with $wanted"
    [ "$wanted" = 0 ] || note "exit status $status"
}

# holds VERSION ROWS [REFUSED]: VERSION is what runs, ROWS are the versions that wrote a row at each of their starts.
# Asked again for ten seconds: the agent may still be starting.
holds() {
    local seen='' i
    for ((i = 0; i < 100; i++)); do
        seen=$(look) || true
        case $mode in
        image) [ "$seen" != "installed $1, refused -" ] || { good "the image holds Teleport $1"; return; } ;;
        *) if [ "$seen" = "runs $1, rows $2, refused ${3:--}" ]; then
            good "the agent now runs $1; its database has the rows of the starts of: $2${3:+; refused: $3}"
            return
        fi ;;
        esac
        sleep 0.1
    done
    fail "expected: runs $1, rows $2, refused ${3:--}; found: $seen"
}

look() {
    on_host teleport-update status --format json 2>/dev/null | python3 -c '
import json, sqlite3, sys
mode, path = sys.argv[1:]
status = json.load(sys.stdin)
refused = " ".join(each["version"] for each in status["refused"]) or "-"
if mode == "image":
    print("installed %s, refused %s" % (status["agent_version_linked"], refused))
    sys.exit()
rows = sqlite3.connect("file:" + path + "?mode=ro", uri=True).execute("SELECT version FROM rows ORDER BY id")
print("runs %s, rows %s, refused %s" % (status["agent_version_running"], " ".join(row[0] for row in rows), refused))
' "$mode" "$root/var/lib/teleport/proc/sqlite.db"
}

# --- the cluster ---

# shellcheck source=cluster.sh
. "$here/cluster.sh"

# release VERSION SCHEMA BEHAVIOUR: published, and named by the cluster from now on.
release() { publish "$1" "$2" "$3" "$arch"; }

# --- the host ---

on_host() {
    case $mode in
    bed) "$here/beds/bed.sh" exec "$bed" env TERM="${TERM:-dumb}" "$@" ;;
    sandbox) chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
        PATH=/usr/local/sbin:/usr/local/bin:/opt/teleport-update:/usr/sbin:/usr/bin:/sbin:/bin "$@" ;;
    image) case $1 in teleport-update) shift; "$updater" --root "$root" "$@" ;; *) "$@" ;; esac ;;
    esac
}

# settings BELOW: quick verdicts, so that the demo is short.
settings() {
    mkdir -p "$root/var/lib/teleport/versions" "$root/etc"
    # Longer than the broken release lives: at one second both would come at the same time.
    { printf 'version: v1\nkind: agent_versions\nspec:\n  watch: 2s\n  health:\n'
      printf '    stable: 3s\n    without_readiness: 2s\n    deadline: 8s\n%s' "$1"; } \
        >"$root/var/lib/teleport/versions/updates.yaml"
    printf 'teleport:\n  data_dir: /var/lib/teleport\n' >"$root/etc/teleport.yaml"
    cp "$work/cluster/ca.pem" "$root/etc/cluster-ca.pem"
}

make_bed() {
    local unit
    bed=demo-$$
    BED_OWNER=$$ "$here/beds/bed.sh" up "$bed"
    root=$("$here/beds/bed.sh" root "$bed")
    install -D "$updater" "$root/usr/lib/teleport-update/teleport-update"
    ln -s ../lib/teleport-update/teleport-update "$root/usr/bin/teleport-update"
    for unit in teleport-update.service teleport-update.timer teleport-update-recover.service; do
        install -m 644 "$here/../systemd/$unit" "$root/usr/lib/systemd/system/$unit"
    done
    printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
    on_host systemctl -q enable teleport-update.timer teleport-update-recover.service 2>/dev/null
    settings ''
}

# Within name spaces of our own: nothing is mounted or written outside of them. /usr is the host's, read-only.
make_sandbox() {
    local each
    root=$work/root
    mkdir "$root"
    mount -t tmpfs -o mode=755 demo "$root"
    for each in /bin /sbin /lib /lib32 /lib64 /libx32 /usr /dev; do
        if [ -L "$each" ]; then
            cp -P "$each" "$root$each"
        elif [ -d "$each" ]; then
            mkdir "$root$each"
            mount --rbind "$each" "$root$each"
            [ "$each" = /dev ] || mount -o remount,bind,ro "$root$each"
        fi
    done
    mkdir -p "$root"/{etc,opt/teleport-update,proc,root,run,tmp,var/lib,var/log}
    mount -t tmpfs -o mode=755 demo "$root/usr/local"
    mount -t proc proc "$root/proc"
    mkdir -p "$root/usr/local/bin"
    printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
    cp /etc/passwd /etc/group "$root/etc/"
    install "$updater" "$root/opt/teleport-update/teleport-update"
    # shellcheck disable=SC2016 # for the shell that runs them
    settings '  service:
    start: teleport start --config /etc/teleport.yaml --pid-file /run/teleport.pid >>/var/log/teleport.log 2>&1 &
    stop: kill "$(cat /run/teleport.pid)"
    reload: kill -HUP "$(cat /run/teleport.pid)"
    pid_file: /run/teleport.pid
'
}

make_image() {
    root=$work/root
    settings ''
}

# --- the walk ---

walk() {
    local ca=/etc/cluster-ca.pem
    [ "$mode" != image ] || ca=$root$ca
    case $mode in
    bed) tell "A host: a fresh Debian with systemd, and the updater as its package leaves it." ;;
    sandbox) tell "A host: a sandbox without systemd (this machine can host no bed: $why)."
        note "The agent is started, stopped and reloaded by commands in updates.yaml, as with OpenRC or in a container." ;;
    image) tell "A host: an image in a directory, with --root (this machine can host no bed: $why)."
        note "No process runs in an image: the health check, the rollback and the database are left out here." ;;
    esac
    note "The cluster is a test server on this machine; Teleport is a small stand-in that keeps a real SQLite database"
    note "and writes one row at each start. Its releases carry this very updater."

    tell "1. Install: the cluster names 1.0.0."
    release 1.0.0 1 healthy
    runs 0 teleport-update enable --proxy "$addr" --base-url "$base_url" --ca-file "$ca"
    case $mode in
    bed) runs 0 systemctl -q enable --now teleport ;;
    sandbox) runs 0 sh -c 'teleport start --config /etc/teleport.yaml --pid-file /run/teleport.pid >/var/log/teleport.log 2>&1 &' ;;
    esac
    holds 1.0.0 "1.0.0"
    runs 0 ls -l "$([ "$mode" = image ] && echo "$root")/usr/local/bin"

    tell "2. Update: the cluster names 2.0.0, which migrates the database. First: what would happen?"
    release 2.0.0 2 healthy
    runs 0 teleport-update plan
    note "Now do it. The timer runs the same command every ten minutes."
    runs 0 teleport-update update
    holds 2.0.0 "1.0.0 2.0.0"

    if [ "$mode" != image ]; then
        tell "3. A broken release: 3.0.0 migrates the database, says that it is ready, and dies a second later."
        release 3.0.0 3 crash-loop
        runs 1 teleport-update update
        note "The database is 2.0.0's own again: 3.0.0's row and its new tables are gone from it (and kept aside)."
        holds 2.0.0 "1.0.0 2.0.0 2.0.0" 3.0.0
        note "The timer comes again; a version that failed waits, an hour at first."
        runs 0 teleport-update update
        runs 0 teleport-update status --format text
    else
        tell "3. A broken release: left out. Nothing runs in an image, so nothing can be seen to fail."
    fi

    tell "4. Roll forward: 4.0.0 repairs it. A new target clears the refusal."
    release 4.0.0 4 healthy
    runs 0 teleport-update update
    holds 4.0.0 "1.0.0 2.0.0 2.0.0 4.0.0"

    if [ "$mode" != image ]; then
        tell "5. Downgrade: the cluster names 2.0.0 again. It cannot read a database that 4.0.0 has migrated:
   the copy made when 2.0.0 was left is put back, with the agent stopped."
    else
        tell "5. Downgrade: the cluster names 2.0.0 again. It is still on disk, and there is no database yet to stand in the way."
    fi
    post /control/directive '{"version":"2.0.0"}'
    runs 0 teleport-update update
    holds 2.0.0 "1.0.0 2.0.0 2.0.0 2.0.0"
    [ "$mode" = image ] || note "4.0.0's row is not lost: it is in the copy made when 4.0.0 was left, and comes back with 4.0.0."

    tell "6. How is the host?"
    runs 0 teleport-update status --format text
    runs 0 teleport-update verify
    runs 0 teleport-update plan

    case $mode in
    image) tell "Done: installed, updated, rolled forward, downgraded, in an image. Left out: rollback, health, database." ;;
    *) tell "Done: installed, updated, rolled back, rolled forward, downgraded." ;;
    esac
    note "Every line marked ✓ was checked. Next: README.md, docs/operators-guide.md."
}

# --- setting up and taking down ---

take_down() {
    trap '' INT TERM HUP
    [ -z "${bed:-}" ] || "$here/beds/bed.sh" down "$bed"
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
    [ $# = 3 ] || { sed -n '2,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
    updater=$(realpath "$1") agent=$(realpath "$2") cluster=$(realpath "$3")
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
    "make_$mode"
    walk
}

main "$@"
