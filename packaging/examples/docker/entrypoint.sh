#!/bin/sh
# PID 1 of a container with an agent that is kept up to date: starts it, runs the updater now and then, ends when the agent
# does (the container's restart policy takes it from there) and ends the agent when it is asked to end.
#
# TELEPORT_UPDATE_INTERVAL: seconds between two runs of the updater, default 600.
set -u

interval=${TELEPORT_UPDATE_INTERVAL:-600}
pid_file=/run/teleport.pid
teleport=/var/lib/teleport/bin/teleport
updater=/usr/lib/teleport-update/teleport-update

alive() { [ -s "$pid_file" ] && kill -0 "$(cat "$pid_file")" 2>/dev/null; }

# A shell waits for all its children, also for those that an ended agent left to PID 1.
nap() {
    sleep "$1" &
    wait $!
}

update_pid=
# shellcheck disable=SC2317 # called by the trap
end() {
    trap '' TERM INT
    # The run ends at its next safe point.
    if [ -n "$update_pid" ]; then
        kill "$update_pid" 2>/dev/null
        wait "$update_pid"
    fi
    if alive; then
        pid=$(cat "$pid_file")
        kill "$pid"
        while kill -0 "$pid" 2>/dev/null; do nap 0.1; done
    fi
    exit 0
}
trap end TERM INT

rm -f "$pid_file"
# What a container that was killed in an update left: --boot puts files in order and leaves the agent, which is started
# below, alone; the first run of the updater does the rest. Then the volume may be new and empty.
if ! "$updater" recover --boot; then
    echo "teleport-container: the recovery has failed (see above); going on with the agent that is linked" >&2
fi
if ! [ -x "$teleport" ]; then
    "$updater" enable --path /var/lib/teleport/bin ${TELEPORT_PROXY:+--proxy "$TELEPORT_PROXY"} || exit 1
fi
setsid "$teleport" start --config=/etc/teleport.yaml --pid-file="$pid_file" </dev/null &
i=0
until alive; do
    i=$((i + 1))
    if [ $i = 300 ]; then
        echo "teleport-container: the agent does not start (no process in $pid_file after 30 s)" >&2
        exit 1
    fi
    nap 0.1
done

waited=$interval
# While the updater is at work the agent may be stopped, and that is the updater's business.
while [ -n "$update_pid" ] || alive; do
    if [ -n "$update_pid" ] && ! kill -0 "$update_pid" 2>/dev/null; then
        wait "$update_pid"
        update_pid=
    fi
    if [ -z "$update_pid" ] && [ "$waited" -ge "$interval" ]; then
        "$updater" update &
        update_pid=$!
        waited=0
    fi
    nap 1
    waited=$((waited + 1))
done
echo "teleport-container: the agent has ended" >&2
exit 1
