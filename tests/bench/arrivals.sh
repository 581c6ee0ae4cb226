#!/bin/bash
# arrivals.sh FLEET MILLION ARRIVALS [HOSTS]   has a million enrolled hosts come back within a minute (SECONDS), each with a connection
# of its own, and prints a table in Markdown: who was served, who was refused, and how long until all were served. The server has
# one core and the client the other. MILLION and ARRIVALS are the examples of these names.
set -euo pipefail

fleet=$1 million=$2 arrivals=$3 hosts=${4:-1000000} seconds=${SECONDS_TO_COME:-60}
work=$(mktemp -d)
fleet_pid=''

finish() {
    if [ -n "$fleet_pid" ] && kill "$fleet_pid" 2>/dev/null; then tail --pid="$fleet_pid" -f /dev/null; fi
    rm -rf "$work"
}
trap finish EXIT
fail() { echo "bench: $*" >&2; exit 1; }
[ "$(nproc)" -ge 2 ] || fail "one core for the server and one for the client are needed"
ulimit -n 20000 || fail "8000 connections need as many open files"

echo "bench: writing $hosts hosts" >&2
"$million" "$work/data" "$hosts" >"$work/ids"
echo '{}' >"$work/config.yaml"
exec 5< <(exec taskset -c 0 "$fleet" serve --plain --listen 127.0.0.1:0 --metrics 127.0.0.1:0 --edition oss \
    --config "$work/config.yaml" --data "$work/data" --admin-socket "$work/admin.sock" 2>"$work/log")
fleet_pid=$!
read -r address _ <&5 || { cat "$work/log" >&2; fail "the server did not start"; }
"$fleet" --admin-socket "$work/admin.sock" create -f - >/dev/null <<'END'
kind: autoupdate_config
version: v1
spec: {agents: {mode: enabled, strategy: halt-on-error, schedules: {regular: [{name: dev, days: ['*'], start_hour: 3}]}}}
---
kind: autoupdate_version
version: v1
spec: {agents: {start_version: 17.2.0, target_version: 17.2.1, schedule: regular, mode: enabled}}
END
taskset -c 1 "$arrivals" "$address" "$work/ids" "$seconds" >"$work/result" || fail "the client failed"
value() { awk -v name="$1" '$1 == name { print $2 }' "$work/result"; }
begin=$(date +%s%N)
"$fleet" --admin-socket "$work/admin.sock" autoupdate agents halt --all >/dev/null
halted=$(awk -v from="$begin" -v to="$(date +%s%N)" 'BEGIN { printf "%.2f", (to - from) / 1e9 }')
cat <<END
| $hosts hosts come within $seconds s | measured |
|---|---:|
| all had come after | $(value offered_s) s |
| all were served after | $(value served_s) s |
| refused and told when to come again | $(value shed) times |
| not answered | $(value unanswered) times |
| from coming to the answer: half, 99 %, longest | $(value half_ms) ms, $(value p99_ms) ms, $(value longest_ms) ms |
| everything is halted afterwards | $halted s |
| memory at the most | $(awk '/^VmHWM/ { printf "%.0f", $2 / 1024 }' "/proc/$fleet_pid/status") MiB |

$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), Linux $(uname -r).
END
