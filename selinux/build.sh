#!/bin/bash
# build.sh OUT.pp   compiles the policy module with the headers of the distribution (Debian: selinux-policy-dev).
#
# The same sources and headers give the same bytes. The binary format is the oldest that has all that the module uses, so
# that a RHEL 8 reads it too (MODULE_FORMAT chooses another).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
headers=${SELINUX_HEADERS:-/usr/share/selinux/devel/include}
# 19 is what libsepol 2.9 (RHEL 8) reads at most.
format=${MODULE_FORMAT:-19}
name=teleport_update
# The module's name, which semodule takes from the file's.
module=teleport-update

fail() { echo "selinux/build.sh: $*" >&2; exit 1; }
[ $# = 1 ] || fail "usage: build.sh OUT.pp"
for tool in checkmodule semodule_package m4; do
    command -v $tool >/dev/null || fail "$tool is missing (tests/setup.sh selinux)"
done
[ -d "$headers/support" ] || fail "no policy headers in $headers (Debian: selinux-policy-dev)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# As the headers' own Makefile does it, but into a directory of its own, with a fixed order and a fixed format.
export LC_ALL=C
mapfile -t interfaces < <(find "$headers" -mindepth 2 -maxdepth 2 -name '*.if' | sort)
mapfile -t support < <(find "$headers/support" -name '*.spt' | sort)
parameters=(-D enable_mcs -D distro_debian -D mls_num_sens=16 -D mls_num_cats=1024 -D mcs_num_cats=1024 -D hide_broken_symptoms
    -D enable_ubac -D init_systemd -D direct_sysadm_daemon)
{
    echo "ifdef(\`__if_error',\`m4exit(1)')"
    echo "divert(-1)"
    m4 "${parameters[@]}" "${support[@]}" "${interfaces[@]}" "$here/$name.if" /dev/null | sed -e 's/dollarsstar/$*/g'
    echo "divert"
} >"$work/all_interfaces.conf"

m4 "${parameters[@]}" -s "${support[@]}" "$work/all_interfaces.conf" "$here/$name.te" >"$work/$name.tmp"
(
    cd "$work"
    checkmodule -M -m -c "$format" "$name.tmp" -o "$module.mod" >log 2>&1 || { cat log >&2; exit 1; }
)
m4 "${parameters[@]}" "${support[@]}" "$here/$name.fc" >"$work/$name.fc"
semodule_package -o "$work/$module.pp" -m "$work/$module.mod" -f "$work/$name.fc"
mv "$work/$module.pp" "$1"
