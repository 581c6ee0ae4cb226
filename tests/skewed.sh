#!/bin/bash
# skewed.sh WORDS..   teleport-fleet (PROGRAM, linked with glibc) with these words; a server's clock is right, or five minutes fast or
# slow, by chance at each start. For `make fleet-faults CLOCKS=1`: our own binary is static, and Linux shifts no wall clock for a process.
set -euo pipefail

if [ "${1-}" = serve ]; then
    LD_PRELOAD=$(compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' | head -n1)
    export LD_PRELOAD FAKETIME_DONT_FAKE_MONOTONIC=1
    export FAKETIME=$((RANDOM % 3 * 300 - 300))s
    [[ $FAKETIME == -* ]] || FAKETIME=+$FAKETIME
fi
exec "$PROGRAM" "$@"
