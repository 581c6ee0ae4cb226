#!/bin/bash
# million.sh FLEET MILLION ARRIVALS [HOSTS]   measures a rollout server that knows a million enrolled hosts, and prints tables in
# Markdown: its start from the store, its memory, a decision, and how long answers take meanwhile; then all come back within a minute
# (SECONDS_TO_COME), each with a connection of its own: who is served, who is refused, until when. MILLION and ARRIVALS are the examples
# of these names. While they come, server and client have one core each.
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
command -v wrk >/dev/null || fail "there is no wrk: apt-get install wrk"

now() { date +%s%N; }
# since START: seconds.
since() { awk -v from="$1" -v to="$(now)" 'BEGIN { printf "%.2f s", (to - from) / 1e9 }'; }
memory() { awk -v key="^$1" '$0 ~ key { printf "%d MiB", $2 / 1024 }' "/proc/$fleet_pid/status"; }
ctl() { "$fleet" --admin-socket "$work/admin.sock" "$@"; }
# ask SECONDS: asks in the name of known hosts; percentiles of how long the answers took.
ask() { wrk -t1 -c4 -d"$1s" --latency -s "$work/ask.lua" "http://$address"; }
percentiles() { awk '$1 == "50%" || $1 == "99%" { printf "%s %s; ", $1, $2 } $1 == "Latency" && !/Distribution/ { most = $4 } END { print "longest " most }' "$1"; }

echo "bench: writing $hosts hosts" >&2
"$million" "$work/data" "$hosts" >"$work/ids"
database=$(du -m "$work/data/fleet.db" | cut -f1)
awk 'BEGIN { print "local hosts, number = {}, 0" } { print "hosts[" NR "] = \"" $1 "\"" } END { print "function request()\n number = number % #hosts + 1\n return wrk.format(\"GET\", \"/v1/webapi/find?host=\" .. hosts[number], {Host = \"localhost\"})\nend" }' "$work/ids" >"$work/ask.lua"
echo '{}' >"$work/config.yaml"

# start WORDS..: the server, by these words before it; $address is where it answers, $took how long that was.
start() {
    local begin
    begin=$(now)
    exec 5< <(exec "$@" "$fleet" serve --plain --listen 127.0.0.1:0 --metrics 127.0.0.1:0 --edition oss --config "$work/config.yaml" \
        --data "$work/data" --admin-socket "$work/admin.sock" 2>>"$work/log")
    fleet_pid=$!
    read -r address _ <&5 || { cat "$work/log" >&2; fail "the server did not start"; }
    took=$(since "$begin")
}

start env
{
    echo "kind: cluster_maintenance_config"
    echo "spec:"
    echo "  agent_auto_update_groups:"
    echo "    regular:"
    for number in $(seq 0 19); do
        echo "    - {name: group-$number, start_hour: $((number % 24)), max_in_flight: 10%, agents: {node_labels_expression: 'group == \"group-$number\"'}}"
    done
    printf -- '---\nkind: autoupdate_version\nspec: {agent_version: 17.2.1, agent_start_version: 17.2.0}\n'
} >"$work/resources.yaml"
first=$took first_memory=$(memory VmRSS)
begin=$(now); ctl create -f "$work/resources.yaml" >/dev/null; written=$(since "$begin")
kill "$fleet_pid"; tail --pid="$fleet_pid" -f /dev/null
start env
memory=$(memory VmRSS)
ask 5 >"$work/rest"
# An operator decides all the time.
ask 20 >"$work/busy" &
asking=$!
for number in $(seq 0 9); do
    begin=$(now); ctl autoupdate agents start-update "group-$number" >/dev/null; since "$begin" >>"$work/decisions"; echo >>"$work/decisions"
done
wait $asking
begin=$(now); ctl autoupdate agents halt --all >/dev/null; halted=$(since "$begin")
decided=$(sort -n "$work/decisions" | sed -n '5p;10p' | paste -sd';' | sed 's/;/; longest /')
cat <<END
| what, $hosts hosts | measured |
|---|---:|
| database | $database MiB |
| start, without a rollout; with one of twenty groups | $first; $took |
| memory after the start, without a rollout; with one; at the most | $first_memory; $memory; $(memory VmHWM) |
| a new policy and version are written | $written |
| a group is started, median of ten | $decided |
| everything is halted | $halted |
| an answer at rest | $(percentiles "$work/rest") |
| an answer while groups are started | $(percentiles "$work/busy") |
END

kill "$fleet_pid"; tail --pid="$fleet_pid" -f /dev/null
start taskset -c 0
ctl autoupdate agents run --all >/dev/null
taskset -c 1 "$arrivals" "$address" "$work/ids" "$seconds" >"$work/result" || fail "the client failed"
value() { awk -v name="$1" '$1 == name { print $2 }' "$work/result"; }
begin=$(now); ctl autoupdate agents halt --all >/dev/null; halted=$(since "$begin")
cat <<END

| $hosts hosts come within $seconds s | measured |
|---|---:|
| all had come after | $(value offered_s) s |
| all were served after | $(value served_s) s |
| refused and told when to come again | $(value shed) times |
| not answered | $(value unanswered) times |
| from coming to the answer: half, 99 %, longest | $(value half_ms) ms, $(value p99_ms) ms, $(value longest_ms) ms |
| everything is halted afterwards | $halted |
| memory at the most | $(memory VmHWM) |

$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), Linux $(uname -r).
END
