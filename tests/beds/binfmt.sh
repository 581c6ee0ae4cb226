#!/bin/bash
# binfmt.sh on    lets this machine's kernel run aarch64 programs through qemu-user, by an entry of our own; 77 where it can't.
# binfmt.sh off   takes that entry away.
#
# The entry is the whole kernel's: who calls `on` calls `off`, also on failure. F: the interpreter is opened now, so that it is
# found from within every root.
set -euo pipefail

entry=teleport-update-aarch64
registry=/proc/sys/fs/binfmt_misc
qemu=/usr/bin/qemu-aarch64-static
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

case ${1:-} in
on)
    [ "$(id -u)" = 0 ] || { echo "no aarch64 here: not root"; exit 77; }
    [ -x $qemu ] || { echo "no aarch64 here: $qemu is missing (make setup-arm64)"; exit 77; }
    [ -e $registry/register ] || mount -t binfmt_misc binfmt_misc $registry 2>/dev/null ||
        { echo "no aarch64 here: the kernel has no binfmt_misc"; exit 77; }
    [ -e $registry/$entry ] || printf '%s' ":$entry:M::$magic:$mask:$qemu:OCF" >$registry/register
    ;;
off) if [ -e $registry/$entry ]; then echo -1 >$registry/$entry; fi ;;
*)
    echo "usage: binfmt.sh on|off" >&2
    exit 2
    ;;
esac
