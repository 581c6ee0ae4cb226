#!/bin/bash
# static.sh BINARY..   each must need nothing of the host it lands on: no interpreter, no library; position-independent, and
# stripped; and small enough. Prints size and machine.
set -euo pipefail

# Most bytes of the program $1 for x86_64. Whoever comes near it looks with cargo bloat (docs/dependencies.md) before raising it.
bound_of() {
    case $1 in
    # 4 MiB: a fleet keeps and fetches it once a host, on the smallest ones in a few seconds and beside a full disk.
    teleport-update) echo 4194304 ;;
    # 7 MiB: an image that a node fetches in a second.
    teleport-kube-update) echo 7340032 ;;
    # 16 MiB: there is one of it.
    teleport-fleet) echo 16777216 ;;
    *) echo "static: $1 has no bound" >&2 && return 1 ;;
    esac
}

for binary in "$@"; do
    bound=$(bound_of "$(basename "$binary")")
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
