#!/bin/bash
# root.sh [SUITE[-KIND]]   builds the root file system of a kind of bed, once, and prints its path.
# root.sh clean            removes every root that no bed is using.
#
# SUITE is Debian's (default bookworm: systemd 252; bullseye: 247; trixie: 257), or Ubuntu's where Debian's archive has
# none so old (xenial: 229; bionic: 237). KINDs: `rpm` (with rpm and dnf), `cloud` (with cloud-init, and what Ansible needs),
# `needrestart`, `sysupdate` (systemd's own updater), `arm64` (runs under qemu-user; the caller sees to binfmt_misc). 77: Ubuntu's archive cannot be reached from here.
#
# A root lives in $TELEPORT_UPDATE_BEDS (default ~/.cache/teleport-update-beds) under a name that holds a digest of
# everything it was made from, so a changed package list is another root. It is built under a temporary name and renamed
# when complete: a killed build leaves nothing that could be mistaken for a root. Nothing ever boots it: beds are overlays.
set -euo pipefail

cache=${TELEPORT_UPDATE_BEDS:-${HOME:-/root}/.cache/teleport-update-beds}

# procps: pkill in scenarios; iproute2: cutting the network; libpam-systemd: sessions, for "the agent's own session".
packages=systemd,systemd-sysv,dbus,ca-certificates,iproute2,procps,libpam-systemd
architecture=
of_kind() {
    case $1 in
    '') ;;
    rpm) packages+=,rpm,dnf,createrepo-c ;;
    cloud) packages+=,cloud-init,python3-apt ;;
    needrestart) packages+=,needrestart ;;
    sysupdate) packages+=,systemd-container ;;
    arm64) architecture=arm64 ;;
    *) echo "root.sh: not a kind of root: $1" >&2; return 2 ;;
    esac
}

# What is done to the fresh root; part of the key.
settle() {
    local root=$1
    # A journal that survives a reboot and a cut.
    mkdir -p "$root/var/log/journal"
    # No timer of the distribution may hold dpkg's lock or the disk in the middle of a test.
    local unit
    for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
        console-getty.service getty@.service; do
        mkdir -p "$root/etc/systemd/system"
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
    done
    # Generators run at each boot and each daemon-reload, and these have nothing to find in a bed.
    local generator generators=$root/etc/systemd/system-generators
    mkdir -p "$generators"
    for generator in cryptsetup debug getty gpt-auto hibernate-resume integritysetup rc-local run system-update veritysetup; do
        ln -s /dev/null "$generators/systemd-$generator-generator"
    done
    # The exclusions below are for building only: a package of ours must land with its documentation.
    rm -f "$root/etc/dpkg/dpkg.cfg.d/99mmdebstrap"
    # Written per bed.
    : >"$root/etc/machine-id"
    rm -f "$root/var/lib/dbus/machine-id" "$root/etc/hostname" "$root/etc/resolv.conf"
}

# A root in use is the lower layer of a mounted overlay.
in_use() { grep -qsE "lowerdir=([^,]*:)?$1," /proc/self/mountinfo; }

clean() {
    local root
    for root in "$cache"/root-*; do
        [ -d "$root" ] || continue
        if in_use "$root"; then
            echo "root.sh: $root is in use, kept" >&2
        else
            rm -rf --one-file-system "$root"
        fi
    done
    rm -rf --one-file-system "$cache"/.building-*
}

# The host's own apt source for this suite (it may be a mirror or a snapshot); else mmdebstrap's default.
source_of() {
    local file=/etc/apt/sources.list.d/debian.sources
    if [ -f "$file" ] && grep -q "^Suites:.*\b$1\b" "$file"; then echo "$file"; fi
}

build() {
    local suite=$1 root=$2 temp log source started
    temp=$(mktemp -d "$cache/.building-XXXXXX")
    log=$temp.log
    # shellcheck disable=SC2064 # the paths of now
    trap "rm -rf --one-file-system '$temp' '$log'" EXIT
    source=$(source_of "$suite")
    started=$SECONDS
    echo "root.sh: building $(basename "$root") (about a minute)" >&2
    if ! mmdebstrap --variant=minbase --mode=root --include="$packages" \
        ${architecture:+--architectures=$architecture} \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        "$suite" "$temp/root" ${source:+"$source"} </dev/null >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        echo "root.sh: mmdebstrap failed for $suite" >&2
        return 1
    fi
    settle "$temp/root"
    mv -T "$temp/root" "$root"
    echo "root.sh: $root, $(du -sm "$root" | cut -f1) MiB, $((SECONDS - started)) s" >&2
}

# Ubuntu's keys are in no package of Debian's; debootstrap knows what its old releases need done in which order.
ubuntu=http://archive.ubuntu.com/ubuntu
keyring=pool/main/u/ubuntu-keyring/ubuntu-keyring_2018.02.28_all.deb
keyring_sha256=c0763889cec4196839354d99b71f3c369dfa51ff17f59cabea87d1c7d55fe5e0

bootstrap_ubuntu() {
    local suite=$1 temp=$2
    if ! /usr/lib/apt/apt-helper download-file "$ubuntu/$keyring" "$temp/keyring.deb" "SHA256:$keyring_sha256"; then
        echo "no root $suite here: $ubuntu cannot be reached"
        return 77
    fi
    dpkg-deb -x "$temp/keyring.deb" "$temp/keyring" || return
    debootstrap --variant=minbase --include="$packages" \
        --keyring="$temp/keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg" "$suite" "$temp/root" "$ubuntu" || return
    rm -rf "$temp/root/debootstrap" "$temp"/root/var/cache/apt/archives/*.deb
}

build_ubuntu() {
    local suite=$1 root=$2 temp log started
    command -v debootstrap >/dev/null || { echo "root.sh: debootstrap is missing (make setup)" >&2; return 1; }
    temp=$(mktemp -d "$cache/.building-XXXXXX")
    log=$temp.log
    # shellcheck disable=SC2064 # the paths of now
    trap "rm -rf --one-file-system '$temp' '$log'" EXIT
    started=$SECONDS
    echo "root.sh: building $(basename "$root") (about a minute)" >&2
    local status=0
    bootstrap_ubuntu "$suite" "$temp" </dev/null >"$log" 2>&1 || status=$?
    if [ $status != 0 ]; then
        tail -n 30 "$log" >&2
        echo "root.sh: no root for $suite" >&2
        return $status
    fi
    settle "$temp/root"
    mv -T "$temp/root" "$root"
    echo "root.sh: $root, $(du -sm "$root" | cut -f1) MiB, $((SECONDS - started)) s" >&2
}

main() {
    mkdir -p "$cache"
    if [ "${1:-}" = clean ]; then
        clean
        return
    fi
    local suite=${1:-bookworm} name key root build=build
    name=$suite
    [[ $suite =~ ^[a-z]+(-[a-z0-9]+)?$ ]] || { echo "root.sh: not a suite: $suite" >&2; return 2; }
    if [ "${suite#*-}" != "$suite" ]; then
        of_kind "${suite#*-}"
        suite=${suite%%-*}
    fi
    case $suite in xenial | bionic) build=build_ubuntu ;; esac
    key=$({ declare -f settle $build; echo "$packages $(uname -m) $architecture"; } | sha256sum | cut -c1-12)
    root=$cache/root-$name-$key
    if [ ! -d "$root" ]; then
        # One builder at a time: tests run in parallel. Children of mmdebstrap must not inherit the lock.
        exec 9>"$cache/.lock-$name"
        flock 9
        if [ ! -d "$root" ]; then ($build "$suite" "$root" 9>&-); fi
        exec 9>&-
    fi
    echo "$root"
}

main "$@"
