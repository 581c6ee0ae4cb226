#!/bin/bash
# reports.sh FLEET CLIENT   measures how many signed reports the rollout server takes, and prints a table in Markdown.
#
# The server has one core, the client (the example `reports` of the package) the other. Each of HOSTS (40000) hosts reports twice
# over CONNECTIONS (3000) kept connections: a report is answered when it is durable, so that many wait at a time. The median of
# ROUNDS (5) counts, each with new data.
set -euo pipefail

fleet=$1 client=$2 rounds=${ROUNDS:-5} hosts=${HOSTS:-40000} connections=${CONNECTIONS:-3000}
server_core=0 client_core=1
work=$(mktemp -d)
fleet_pid=''

stop() {
    [ -n "$fleet_pid" ] || return 0
    if kill "$fleet_pid" 2>/dev/null; then tail --pid="$fleet_pid" -f /dev/null; fi
    fleet_pid=
}
trap 'stop; rm -rf "$work"' EXIT
# Ticks that the server has used.
ticks() { awk '{ print $14 + $15 }' "/proc/$fleet_pid/stat"; }
fail() { echo "bench: $*" >&2; exit 1; }

command -v taskset >/dev/null || fail "there is no taskset: apt-get install util-linux"
[ "$(nproc)" -ge 2 ] || fail "one core for the server and one for the client are needed"
ulimit -n $((connections + 1000)) || fail "$connections connections need as many open files"
echo '{}' >"$work/config.yaml"

for _ in $(seq "$rounds"); do
    rm -rf "$work/data"
    exec 5< <(exec taskset -c $server_core "$fleet" serve --plain --enrolment token --listen 127.0.0.1:0 --metrics 127.0.0.1:0 \
        --edition oss --config "$work/config.yaml" --data "$work/data" --admin-socket "$work/admin.sock" 2>"$work/log")
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
    awk '$1 == "new" { print $2 }' "$work/round" >>"$work/new"
    awk '$1 == "known" { print $2 }' "$work/round" >>"$work/known"
    # Two reports of each host; a tick is a hundredth of a second.
    awk -v reports=$((2 * hosts)) -v used=$(($(ticks) - before)) 'BEGIN { printf "%.0f\n", reports * 100 / used }' >>"$work/cpu"
    awk '/^VmHWM/ { printf "%.0f\n", $2 / 1024 }' "/proc/$fleet_pid/status" >>"$work/memory"
    stop
done

median() { sort -n "$work/$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
cat <<END
| what | at least | teleport-fleet |
|---|---|---:|
| signed reports for each CPU second of the server | 5 000 | $(median cpu) |
| signed reports a second, each durable before its answer, by this disk: hosts that enrol | | $(median new) |
| the same, known hosts | | $(median known) |
| memory at most, $hosts hosts and $connections connections | | $(median memory) MiB |

Medians of $rounds rounds of $hosts hosts; $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), Linux $(uname -r).
END
