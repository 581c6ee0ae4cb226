#!/bin/bash
# static.sh BINARY..   each must need nothing of the host it lands on: no interpreter, no library; position-independent, and
# stripped. Prints size and machine.
set -euo pipefail

for binary in "$@"; do
    header=$(readelf -hW "$binary")
    fail() { echo "static: $binary $1" >&2; exit 1; }
    grep -q 'Type: *DYN' <<<"$header" || fail "is not position-independent"
    ! readelf -lW "$binary" | grep -q INTERP || fail "asks for a dynamic linker"
    ! readelf -dW "$binary" | grep -q NEEDED || fail "needs a library"
    ! readelf -SW "$binary" | grep -q '\.symtab' || fail "is not stripped"
    machine=$(sed -n 's/^ *Machine: *//p' <<<"$header")
    size=$(stat -c %s "$binary")
    printf '%s  %d bytes (%d.%02d MiB)  %s  static-pie, stripped\n' \
        "$binary" "$size" $((size / 1048576)) $((size % 1048576 * 100 / 1048576)) "$machine"
done
