#!/bin/bash
# build.sh OUT.cil   compiles a policy module with the headers of the distribution (Debian: selinux-policy-dev). Which one is
# OUT's name: teleport-update.cil or teleport-fleet.cil.
#
# The same sources and headers give the same bytes. CIL and not a binary module: what a policy lacks is left out by optional
# blocks for file contexts as well, and no binary format is too new for a host.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
headers=${SELINUX_HEADERS:-/usr/share/selinux/devel/include}

fail() { echo "selinux/build.sh: $*" >&2; exit 1; }
[ $# = 1 ] || fail "usage: build.sh OUT.cil"
# The module's name, which semodule takes from the file's; and its sources'.
module=$(basename "$1" .cil)
name=${module//-/_}
[ -f "$here/$name.te" ] || fail "no module $module: $here/$name.te is missing"
for tool in checkmodule semodule_package m4; do
    command -v $tool >/dev/null || fail "$tool is missing (tests/setup.sh selinux)"
done
# Where distributions keep the translator of binary modules, which semodule runs for each.
translator=
for file in /usr/libexec/selinux/hll/pp /usr/lib/selinux/hll/pp; do
    if [ -x $file ]; then translator=$file; fi
done
[ -n "$translator" ] || fail "the translator to CIL is missing (tests/setup.sh selinux)"
[ -d "$headers/support" ] || fail "no policy headers in $headers (Debian: selinux-policy-dev)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# As the headers' own Makefile does it, but into a directory of its own, with a fixed order.
export LC_ALL=C
mapfile -t interfaces < <(find "$headers" -mindepth 2 -maxdepth 2 -name '*.if' | sort)
mapfile -t support < <(find "$headers/support" -name '*.spt' | sort)
parameters=(-D enable_mcs -D distro_debian -D mls_num_sens=16 -D mls_num_cats=1024 -D mcs_num_cats=1024 -D hide_broken_symptoms
    -D enable_ubac -D init_systemd -D direct_sysadm_daemon)
{
    echo "ifdef(\`__if_error',\`m4exit(1)')"
    echo "divert(-1)"
    m4 "${parameters[@]}" "${support[@]}" "${interfaces[@]}" "$here/teleport_update.if" /dev/null | sed -e 's/dollarsstar/$*/g'
    echo "divert"
} >"$work/all_interfaces.conf"

m4 "${parameters[@]}" -s "${support[@]}" "$work/all_interfaces.conf" "$here/$name.te" >"$work/$name.tmp"
(
    cd "$work"
    checkmodule -M -m "$name.tmp" -o "$module.mod" >log 2>&1 || { cat log >&2; exit 1; }
)
m4 "${parameters[@]}" "${support[@]}" "$here/$name.fc" >"$work/$name.fc"
semodule_package -o "$work/$module.pp" -m "$work/$module.mod" -f "$work/$name.fc"
"$translator" "$work/$module.pp" >"$work/$module.cil"
# What the compiler of modules has no words for.
if [ -f "$here/$name.cil" ]; then cat "$here/$name.cil" >>"$work/$module.cil"; fi
mv "$work/$module.cil" "$1"
