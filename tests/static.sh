#!/bin/bash
# static.sh BINARY..   each must need nothing of the host it lands on: no interpreter, no library; position-independent, and
# stripped; and small enough. Prints size and machine.
set -euo pipefail

# Bytes, 4 MiB, for x86_64: a fleet keeps and fetches it once a host, on the smallest ones in a few seconds and beside
# a full disk. Whoever comes near it looks with cargo bloat (docs/dependencies.md) before raising it.
bound=4194304

for binary in "$@"; do
    header=$(readelf -hW "$binary")
    fail() { echo "static: $binary $1" >&2; exit 1; }
    grep -q 'Type: *DYN' <<<"$header" || fail "is not position-independent"
    ! readelf -lW "$binary" | grep -q INTERP || fail "asks for a dynamic linker"
    ! readelf -dW "$binary" | grep -q NEEDED || fail "needs a library"
    ! readelf -SW "$binary" | grep -q '\.symtab' || fail "is not stripped"
    machine=$(sed -n 's/^ *Machine: *//p' <<<"$header")
    size=$(stat -c %s "$binary")
    [[ $machine != *X86-64* ]] || [ "$size" -le "$bound" ] || fail "has $size bytes, more than $bound"
    printf '%s  %d bytes (%d.%02d MiB)  %s  static-pie, stripped\n' \
        "$binary" "$size" $((size / 1048576)) $((size % 1048576 * 100 / 1048576)) "$machine"
done
