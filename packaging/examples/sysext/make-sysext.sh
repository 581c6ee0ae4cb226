#!/bin/sh
# make-sysext.sh DEB [raw]   makes a system extension (systemd-sysext) out of the package, in the current directory: for hosts
# whose /usr is sealed and that have no package manager, as Flatcar. As a directory, `teleport-update`, which must stay root's
# (tar as root, cp -a); with the word raw as one file, `teleport-update.raw`, which needs mksquashfs.
#
# Runs on any Debian or Ubuntu. The host's part is in docs/install.md, "Flatcar".
set -eu
umask 022

fail() { echo "make-sysext.sh: $*" >&2; exit 1; }

case "$#:${2:-}" in
1: | 2:raw) deb=$1 form=${2:-} ;;
*) echo "usage: make-sysext.sh DEB [raw]" >&2 && exit 2 ;;
esac
name=teleport-update
[ "$(dpkg-deb -f "$deb" Package 2>/dev/null)" = $name ] || fail "$deb is not the package $name"
# As systemd calls them: os-release(5), ARCHITECTURE in systemd.unit(5).
case $(dpkg-deb -f "$deb" Architecture) in
amd64) architecture=x86-64 ;;
arm64) architecture=arm64 ;;
*) fail "$deb is for an architecture that is not known here" ;;
esac
if [ -n "$form" ] && ! command -v mksquashfs >/dev/null 2>&1; then fail "mksquashfs is missing (package squashfs-tools)"; fi
for each in $name $name.raw; do
    if [ -e "$each" ]; then fail "$each is there already: remove it first"; fi
done

work=$(mktemp -d "$PWD/.$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
# 0700 by mktemp, but the extension's own top is for everybody.
tree=$work/$name
mkdir "$tree"
dpkg-deb --fsys-tarfile "$deb" | tar -C "$tree" -x
# An extension adds to /usr; nothing else of it would be seen.
find "$tree" -mindepth 1 -maxdepth 1 ! -name usr -exec rm -rf {} +
mkdir -p "$tree/usr/lib/extension-release.d"
# The one program is static: it runs on any distribution, and on the next version of this one.
printf 'ID=_any\nARCHITECTURE=%s\n' $architecture >"$tree/usr/lib/extension-release.d/extension-release.$name"
if [ -n "$form" ]; then
    mksquashfs "$tree" "$work/$name.raw" -all-root -noappend -quiet -no-progress
    mv "$work/$name.raw" .
else
    mv "$tree" .
fi
