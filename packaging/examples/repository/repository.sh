#!/bin/sh
# repository.sh DIR KEY   makes DIR, which has the packages of one or both programs, a repository for apt and for dnf, signed by
# the OpenPGP key that gpg knows as KEY (an address or a fingerprint). Run it again after each new package.
#
# Hosts need KEY's public half, DIR/repository.asc, and trust it for this repository alone. Needs gpg; for debs dpkg-scanpackages
# (dpkg-dev); for rpms createrepo_c. What was there is replaced last and each file at once: who reads meanwhile reads again.
set -eu
umask 022
if [ $# != 2 ]; then
    sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
fi
cd "$1"
key=$2
has() { [ -e "$1" ]; }
sign() { gpg --batch --yes --local-user "$key" --armor --output "$2" "$3" "$1"; }

has ./*.deb || has ./*.rpm || { echo "repository.sh: no packages in $1" >&2; exit 1; }
gpg --batch --armor --export "$key" >repository.asc.new
[ -s repository.asc.new ] || { rm repository.asc.new; echo "repository.sh: gpg has no key $key" >&2; exit 1; }

if has ./*.deb; then
    rm -rf .apt
    mkdir .apt
    dpkg-scanpackages --multiversion . >.apt/Packages
    gzip -9nk .apt/Packages
    {
        echo "Origin: teleport-update"
        echo "Suite: stable"
        echo "Date: $(date -Ru)"
        echo "SHA256:"
        for list in Packages Packages.gz; do
            sum=$(sha256sum <".apt/$list")
            echo " ${sum%% *} $(wc -c <".apt/$list") $list"
        done
    } >.apt/Release
    sign .apt/Release .apt/InRelease --clearsign
    mv .apt/Packages .apt/Packages.gz .
    mv .apt/InRelease .
    rm -r .apt
fi
if has ./*.rpm; then
    createrepo_c --quiet --general-compress-type gz .
    sign repodata/repomd.xml repodata/repomd.xml.asc --detach-sign
fi
mv repository.asc.new repository.asc
