#!/bin/bash
# reports.sh FLEET CLIENT   measures how many signed reports the rollout server takes, and prints a table in Markdown.
#
# The server has one core, the client (the example `reports` of the package) the other. Each of HOSTS (40000) hosts reports twice
# over CONNECTIONS (3000) kept connections: a report is answered when it is durable, so that many wait at a time. The median of
# ROUNDS (5) counts, each with new data: of a file, and of a PostgreSQL server that shares the client's core.
set -euo pipefail

fleet=$1 client=$2 rounds=${ROUNDS:-5} hosts=${HOSTS:-40000} connections=${CONNECTIONS:-3000}
server_core=0 client_core=1
work=$(mktemp -d)
fleet_pid='' postgres_pid='' store=file
bin=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n1 || true)

stop() {
    [ -n "$fleet_pid" ] || return 0
    if kill "$fleet_pid" 2>/dev/null; then tail --pid="$fleet_pid" -f /dev/null; fi
    fleet_pid=
}
stop_postgres() {
    [ -n "$postgres_pid" ] || return 0
    if kill -INT "$postgres_pid" 2>/dev/null; then tail --pid="$postgres_pid" -f /dev/null; fi
    postgres_pid=
}
trap 'stop; stop_postgres; rm -rf "$work"' EXIT
# Ticks that the server has used.
ticks() { awk '{ print $14 + $15 }' "/proc/$fleet_pid/stat"; }
fail() { echo "bench: $*" >&2; exit 1; }

command -v taskset >/dev/null || fail "there is no taskset: apt-get install util-linux"
[ "$(nproc)" -ge 2 ] || fail "one core for the server and one for the client are needed"
ulimit -n $((connections + 1000)) || fail "$connections connections need as many open files"
echo '{}' >"$work/config.yaml"

# It does not run as root.
as_user() { if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --clear-groups "$@"; else "$@"; fi; }
start_postgres() {
    local port=$((20000 + RANDOM % 20000))
    chmod 755 "$work"
    mkdir "$work/postgres"
    [ "$(id -u)" != 0 ] || chown postgres "$work/postgres"
    as_user "$bin/initdb" -A trust -U fleet -D "$work/postgres/data" >/dev/null
    as_user taskset -c $client_core "$bin/postgres" -D "$work/postgres/data" -p $port -k '' -c listen_addresses=127.0.0.1 \
        >"$work/postgres/log" 2>&1 &
    url=postgres://fleet@127.0.0.1:$port
    for _ in $(seq 100); do
        if "$bin/psql" -XAtq -d "$url/postgres" -c 'SELECT 1' >/dev/null 2>&1; then
            postgres_pid=$(head -n1 "$work/postgres/data/postmaster.pid")
            return
        fi
        sleep 0.1
    done
    cat "$work/postgres/log" >&2; fail "PostgreSQL does not start"
}

round() {
    rm -rf "$work/data"
    local shared=()
    if [ $store = postgres ]; then
        "$bin/psql" -XAtq -d "$url/postgres" -c 'DROP DATABASE IF EXISTS fleet' -c 'CREATE DATABASE fleet' 2>/dev/null
        shared=(--store "$url/fleet")
    fi
    exec 5< <(exec taskset -c $server_core "$fleet" serve --plain --enrolment token --listen 127.0.0.1:0 --metrics 127.0.0.1:0 \
        --edition oss --config "$work/config.yaml" --data "$work/data" --admin-socket "$work/admin.sock" "${shared[@]}" 2>"$work/log")
    fleet_pid=$!
    read -r address _ <&5 || { cat "$work/log" >&2; fail "the server did not start"; }
    "$fleet" --admin-socket "$work/admin.sock" create -f - >/dev/null <<'END'
kind: autoupdate_config
version: v1
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
      - {name: dev, days: ['*'], start_hour: 3}
      - {name: prod, days: ['*'], start_hour: 4}
---
kind: autoupdate_version
version: v1
metadata: {name: autoupdate-version}
spec:
  agents: {start_version: 17.2.0, target_version: 17.2.1, schedule: regular, mode: enabled}
END
    "$fleet" --admin-socket "$work/admin.sock" tokens join create bench >"$work/token"
    before=$(ticks)
    taskset -c $client_core "$client" "$address" "$hosts" "$connections" "$work/token" >"$work/round" || fail "the client failed"
    awk '$1 == "new" { print $2 }' "$work/round" >>"$work/$store.new"
    awk '$1 == "known" { print $2 }' "$work/round" >>"$work/$store.known"
    # Two reports of each host; a tick is a hundredth of a second.
    awk -v reports=$((2 * hosts)) -v used=$(($(ticks) - before)) 'BEGIN { printf "%.0f\n", reports * 100 / used }' >>"$work/$store.cpu"
    awk '/^VmHWM/ { printf "%.0f\n", $2 / 1024 }' "/proc/$fleet_pid/status" >>"$work/$store.memory"
    stop
}

for _ in $(seq "$rounds"); do round; done
if [ -n "$bin" ]; then
    store=postgres
    start_postgres
    for _ in $(seq "$rounds"); do round; done
    stop_postgres
fi

median() { [ ! -f "$work/$1" ] || sort -n "$work/$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
cat <<END
| what | at least | a file | PostgreSQL |
|---|---|---:|---:|
| signed reports for each CPU second of the server | 5 000 | $(median file.cpu) | $(median postgres.cpu) |
| signed reports a second, each durable before its answer, by this disk: hosts that enrol | | $(median file.new) | $(median postgres.new) |
| the same, known hosts | | $(median file.known) | $(median postgres.known) |
| memory at most, $hosts hosts and $connections connections, MiB | | $(median file.memory) | $(median postgres.memory) |

Medians of $rounds rounds of $hosts hosts; $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), Linux $(uname -r).
END
