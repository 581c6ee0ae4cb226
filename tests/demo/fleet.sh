#!/bin/bash
# For demo.sh: the second act, a fleet: five hosts in three groups, each with the real updater, and a rollout server.
# shellcheck disable=SC2154  # set by demo.sh and cluster.sh

# shellcheck disable=SC2034  # of rollout.sh
fleet_hosts=(dev-1 staging-1 staging-2 prod-1 prod-2)
# Processes of ours that are at work on hosts.
at_work=()

# as HOST: what follows is done on this one.
as() {
    at=$1 root=$work/hosts/$1 bed=''
    [ "$mode" != bed ] || { bed=demo-$$-$1 && root=$("$here/beds/bed.sh" root "$bed"); }
}

# uuid HOST: the agent's own name for itself, made by the demo so that a reader knows it again.
uuid() {
    case $1 in
    dev-*) echo "de000000-0000-4000-8000-00000000000${1#dev-}" ;;
    staging-*) echo "57000000-0000-4000-8000-00000000000${1#staging-}" ;;
    prod-*) echo "90000000-0000-4000-8000-00000000000${1#prod-}" ;;
    esac
}

# on_each FUNCTION HOST..: on all of them at the same time. $work/said/HOST gets what each said.
on_each() {
    local what=$1 host job failed=''
    shift
    mkdir -p "$work/said"
    at_work=()
    for host in "$@"; do
        "$what" "$host" >"$work/said/$host" 2>&1 &
        at_work+=($!)
    done
    for job in "${at_work[@]}"; do
        wait "$job" || failed=yes
    done
    at_work=()
    [ -z "$failed" ] || { (cd "$work/said" && tail -n 20 -- "$@"); fail "$what failed on one of $*"; }
}

# --- the server ---

certificates() {
    local dir=$work/fleet
    mkdir -p "$dir"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj '/CN=demo authority' \
        -keyout "$dir/ca-key.pem" -out "$dir/ca.pem" 2>"$dir/openssl"
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=localhost' \
        -keyout "$dir/key.pem" -out "$dir/request.pem" 2>>"$dir/openssl"
    openssl x509 -req -in "$dir/request.pem" -CA "$dir/ca.pem" -CAkey "$dir/ca-key.pem" -days 2 -set_serial 2 \
        -extfile <(echo 'subjectAltName = DNS:localhost, IP:127.0.0.1') -out "$dir/cert.pem" 2>>"$dir/openssl"
}

# The command's flags are the environment's, so that they do not stand in each line.
server() {
    local dir=$work/fleet bound
    export TELEPORT_FLEET_ADMIN_SOCKET=$dir/admin.sock TELEPORT_FLEET_DATA=$dir/data TELEPORT_FLEET_CONFIG=$dir/config.yaml
    : >"$dir/config.yaml"
    mkdir -p "$dir/data"
    typed "teleport-fleet serve --listen 127.0.0.1:0 --tls-cert cert.pem --tls-key key.pem --edition oss &"
    exec 5< <(exec "$fleet" serve --listen 127.0.0.1:0 --metrics 127.0.0.1:0 --tls-cert "$dir/cert.pem" --tls-key "$dir/key.pem" \
        --edition oss 2>"$dir/log")
    fleet_pid=$!
    read -r bound <&5 || { cat "$dir/log"; fail "the rollout server did not start"; }
    echo "$bound"
    fleet_addr=localhost:${bound%% *} fleet_addr=${fleet_addr/127.0.0.1:/}
}

stop_server() {
    [ -z "${fleet_pid:-}" ] || { kill "$fleet_pid" && tail --pid="$fleet_pid" -f /dev/null; } 2>/dev/null || true
    fleet_pid=
}

# steers STATUS WORD..: the operator's command.
steers() {
    local wanted=$1
    shift
    at='' typed "teleport-fleet $*"
    (cd "$work/fleet" && ends "$wanted" "$fleet" "$@")
}

# quietly WORD..: the same without showing what it says.
quietly() {
    at='' typed "teleport-fleet $*"
    (cd "$work/fleet" && "$fleet" "$@" >said 2>&1) || { cat "$work/fleet/said"; fail "that failed"; }
}

# state_of GROUP: as the server says.
state_of() {
    "$fleet" autoupdate agents status --format json 2>&1 | python3 -c '
import json, sys
groups = json.load(sys.stdin)["groups"]
print(next(each["state"] for each in groups if each["name"] == sys.argv[1]))' "$1" || true
}

# state_is GROUP STATE [HOST..]: asked of the server, until it is so. Ten minutes of a real host are a second here: what a HOST
# could not report, since it had reported so often, one of its next runs does.
state_is() {
    local group=$1 wanted=$2 found='' end=$((SECONDS + 60))
    shift 2
    while ((SECONDS < end)); do
        found=$(state_of "$group")
        [ "$found" != "$wanted" ] || { good "the server says that $group is $wanted"; return; }
        sleep 1
        [ $# = 0 ] || on_each update_once "$@"
    done
    fail "expected: $group is $wanted; found: $found"
}

# is_known HOST VERSION: the same for the version that the host reported.
is_known() {
    local end=$((SECONDS + 60))
    until "$fleet" hosts --search "$(uuid "$1")" --version "$2" 2>&1 | grep -qF " $2 "; do
        ((SECONDS < end)) || fail "expected: the server knows that $1 runs $2"
        sleep 1
        on_each update_once "$1"
    done
    good "the server knows that $1 runs $2"
}

policy() {
    # Half a day from now: no group starts by itself while the demo runs.
    local hour=$(((10#$(date -u +%H) + 12) % 24))
    cat <<END
kind: autoupdate_config
version: v1
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
      - {name: dev, days: ['*'], start_hour: $hour, jitter_seconds: 0}
      - {name: staging, days: ['*'], start_hour: $hour, jitter_seconds: 0}
      - {name: prod, days: [Mon, Tue, Wed, Thu], start_hour: $hour, wait_hours: 24, jitter_seconds: 0, canary_count: 1, max_in_flight: 50%}
END
}

# target START VERSION
target() {
    cat <<END
kind: autoupdate_version
version: v1
metadata: {name: autoupdate-version}
spec:
  agents: {start_version: $1, target_version: $2, schedule: regular, mode: enabled}
END
}

# --- the hosts ---

host_up() {
    make_host "$1" '  watch: 1s
  health:
    stable: 1s
    without_readiness: 2s
    deadline: 8s
'
    uuid "$1" >"$root/var/lib/teleport/host_uuid"
    cat "$work/cluster/ca.pem" "$work/fleet/ca.pem" >"$root/etc/fleet-ca.pem"
}

enable_words() {
    local ca=/etc/fleet-ca.pem
    [ "$mode" != image ] || ca=$root$ca
    words=(teleport-update enable --proxy "$fleet_addr" --group "${1%-*}" --base-url "$base_url" --ca-file "$ca")
}

join_fleet() {
    local words
    as "$1"
    enable_words "$1"
    on_host "${words[@]}" && start_agent on_host && until_seen 20 "(runs|installed) 5.0.0,.*"
}

# Its exit status is looked at afterwards.
update_once() {
    local status=0
    as "$1"
    on_host teleport-update update || status=$?
    echo "exit status $status"
}

# timer HOST..: what the timer of each does every ten minutes, once, now. Shows how each ended.
timer() {
    local host
    on_each update_once "$@"
    for host in "$@"; do
        at=$host typed "teleport-update update"
        grep -v '^exit status 0$' "$work/said/$host" | tail -n 3 || true
    done
    at=
}

# all_run VERSION REFUSED HOST..: checked on each; REFUSED is - for none.
all_run() {
    local version=$1 refused=$2
    shift 2
    on_each runs_it "$@"
    [ "$refused" = - ] || refused="; it refuses $refused"
    good "$version runs on $*${refused#-}"
}

# shellcheck disable=SC2154  # of all_run
runs_it() {
    as "$1"
    until_seen 10 "(runs|installed) $version,.* refused $refused" || { echo "$1: $seen"; return 1; }
}
