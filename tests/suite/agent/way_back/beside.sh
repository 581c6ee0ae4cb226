#!/bin/bash
# beside.sh PROGRAM AGENT   runs each of the unit tests in PROGRAM that look at processes, by itself, beside agents of others. In name
# spaces of their own (of files and of processes), whose end is the end of all. Prints `N tests` and `failed: TEST`.
#
# The others run what stands where an image's link leads, if it is followed out of the image: in the same name spaces, in their own,
# and some that always begin and end.
set -euo pipefail

export PROGRAM=$1
agent=$2 default=/var/lib/teleport

mount -t tmpfs none /var/lib
for version in 1.0.0 2.0.0; do
    mkdir -p $default/versions/$version/bin
    cp "$agent" $default/versions/$version/bin/teleport
done
mkdir -p /var/lib/second /var/lib/third
$default/versions/1.0.0/bin/teleport start --data-dir $default >/dev/null 2>&1 &
$default/versions/2.0.0/bin/teleport start --data-dir /var/lib/second >/dev/null 2>&1 &
unshare -mpf --mount-proc --kill-child $default/versions/1.0.0/bin/teleport start --data-dir /var/lib/third >/dev/null 2>&1 &
while :; do $default/versions/1.0.0/bin/teleport version; done >/dev/null &
for data in $default /var/lib/second /var/lib/third; do
    until test -S "$data/debug.sock"; do sleep 0.05; done
done

tests=$("$PROGRAM" --list | sed -n 's/: test$//p' | grep -E '^(execute|service|inspect|host::process)::')
echo "$(wc -l <<<"$tests") tests"
# shellcheck disable=SC2016 # the inner shell expands them
xargs -P 6 -n 1 sh -c 'timeout -k 1 60 "$PROGRAM" --exact "$0" </dev/null >/dev/null 2>&1 || echo "failed: $0"' <<<"$tests"
