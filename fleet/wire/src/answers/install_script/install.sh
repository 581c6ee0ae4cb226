#!/bin/sh
# Installs teleport-update, the Teleport agent updater, and enables it with the rollout server @ADDRESS@.
#
#   curl -fsSL 'https://@ADDRESS@/scripts/install.sh' | sudo sh
#
# TELEPORT_UPDATE_URL names another https directory with the packages, SHA256SUMS and install.sh.
# Exit status: 0 done; 1 failed; otherwise that of the program that failed. Nothing runs before the last line has arrived.

# Where the package has it.
UPDATER=/usr/lib/teleport-update/teleport-update

# A password in an address is for the server alone, not for terminals and logs.
fail() { printf '%s\n' "install.sh: $*" | sed 's#://[^/[:space:]]*@#://***@#g' >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# Downloads $1 to the file $2, with certificates checked and no way to plain http.
download() {
    if has curl; then
        curl --proto '=https' -fsSL --connect-timeout 30 --speed-limit 1000 --speed-time 60 -o "$2" "$1" </dev/null
    elif has wget && wget --version 2>/dev/null | grep -q 'GNU Wget'; then
        # No redirection: wget would follow one to plain http.
        wget -q --max-redirect=0 --timeout=60 --tries=2 -O "$2" "$1" </dev/null
    else
        fail "neither curl nor GNU wget is here to download with: install the package teleport-update, then run this again"
    fi
}

# Prints the SHA-256 of the file $1.
digest() {
    if has sha256sum; then sha256sum <"$1"
    elif has openssl; then openssl dgst -sha256 -r <"$1"
    else fail "neither sha256sum nor openssl is here to check the download with: install one of them"; fi
}

# Installs the package by its own installer, which detects the system and checks what it downloads.
install_updater() {
    [ -n "$packages" ] || fail "$address does not say where teleport-update comes from: set TELEPORT_UPDATE_URL to the" \
        "https directory with its packages, or install the package teleport-update, then run this again"
    case $packages in
    https://?*) ;;
    *) fail "TELEPORT_UPDATE_URL is $packages: expected an https:// URL" ;;
    esac
    work=$(mktemp -d "${TMPDIR:-/tmp}/teleport-update.XXXXXX") || fail "cannot make a directory in ${TMPDIR:-/tmp}"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    for file in SHA256SUMS install.sh; do
        download "$packages/$file" "$work/$file" || fail "cannot download $packages/$file"
    done
    # A list made by `sha256sum -b` has an asterisk before the name.
    wanted=$(sed -n 's/^\([0-9a-f]\{64\}\) [ *]install\.sh$/\1/p' "$work/SHA256SUMS")
    [ -n "$wanted" ] || fail "$packages/SHA256SUMS does not name install.sh: it is no directory of teleport-update's packages"
    found=$(digest "$work/install.sh")
    [ "${found%% *}" = "$wanted" ] || fail "$packages/install.sh has another SHA-256 than in SHA256SUMS: nothing was installed"
    sh "$work/install.sh" --url "$packages" --no-enable --yes </dev/null
}

main() {
    set -eu
    umask 022
    address='@ADDRESS@'
    group='@GROUP@'
    packages=${TELEPORT_UPDATE_URL:-'@PACKAGES@'}
    packages=${packages%/}
    [ "$(uname -s)" = Linux ] || fail "this is $(uname -s): the Teleport agent updater is for Linux"
    [ "$(id -u)" = 0 ] || fail "only root can install packages: run it with \`| sudo sh\`"
    updater=$UPDATER
    if [ -z "$packages" ] && [ ! -x "$updater" ] && has teleport-update; then
        # Installed in another way; or another updater, which has the same command.
        updater=teleport-update
    elif [ ! -x "$updater" ]; then
        install_updater
        [ -x "$updater" ] || fail "the package was installed, but $updater is not there: see the lines above"
    fi
    set -- enable --proxy "$address"
    if [ -n "$group" ]; then set -- "$@" --group "$group"; fi
    "$updater" "$@" </dev/null
}

{ main; exit; }
