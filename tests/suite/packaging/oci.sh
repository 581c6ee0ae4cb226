#!/bin/bash
# oci.sh PROGRAM   an image of PROGRAM: twice the same bytes; every descriptor is of a blob that is there, and every blob has one;
# its SBOMs refer to its images; unpacked, read-only, as its own user without a right, it serves. Prints what it found.
set -euo pipefail
top=$(realpath "$(dirname "$0")/../../..")
program=$(realpath "$1") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

mkdir sbom layout root
for machine in x86_64 aarch64; do
    echo "{\"of\":\"$machine\"}" >"sbom/teleport-fleet-1.0.0.$machine-unknown-linux-musl.cdx.json"
done
export SOURCE_DATE_EPOCH=1700000000
for out in first second; do
    # Neither the mask, nor the time, nor how the file came here is in it. A part of the program takes less time.
    (umask 077 && head -c 1000000 "$program" >"$out.bin")
    "$top/packaging/oci.sh" --out "$out" --version 1.0.0 --sbom sbom --binary "arm64=$out.bin" --binary "amd64=$out.bin" >/dev/null
done
cmp first/teleport-fleet-1.0.0.oci.tar second/teleport-fleet-1.0.0.oci.tar
(cd first && sha256sum --quiet --check SHA256SUMS)
echo "two builds give the same bytes"

tar xf first/teleport-fleet-1.0.0.oci.tar -C layout
cd layout
blobs=blobs/sha256
find $blobs -type f -printf '%f  %p\n' | sha256sum --quiet --check
described=$(grep -rhoE '"digest":"sha256:[0-9a-f]{64}","size":[0-9]+' index.json $blobs --binary-files=without-match | sort -u)
[ "$(wc -l <<<"$described")" = "$(find $blobs -type f | wc -l)" ]
while read -r digest size; do
    [ "$(stat -c %s "$blobs/$digest")" = "$size" ]
done < <(awk -F '[:",]+' '{ print $4, $6 }' <<<"$described")
# SBOM and image: the artifact's subject is the image of that machine.
for machine in amd64:x86_64 arm64:aarch64; do
    config=$(grep -l "\"architecture\":\"${machine%:*}\",\"os\"" $blobs/* | xargs basename)
    image=$(grep -l "\"config\":{[^}]*$config" $blobs/* | xargs basename)
    artifact=$(grep -l "\"subject\":{[^}]*$image" $blobs/*)
    sbom=$(sha256sum <"../sbom/teleport-fleet-1.0.0.${machine#*:}-unknown-linux-musl.cdx.json")
    grep -q "\"artifactType\":\"application/vnd.cyclonedx+json\".*${sbom%% *}" "$artifact"
    grep -q "\"manifests\":.*$(basename "$artifact")" $blobs/*
done
echo "the layout is whole"

"$top/packaging/oci.sh" --out ../third --version 1.0.0 --binary "amd64=$program" >/dev/null
rm -r blobs && tar xf ../third/teleport-fleet-1.0.0.oci.tar
config=$(grep -l '"architecture":"amd64","os"' $blobs/*)
diff=$(grep -oE '"diff_ids":\["sha256:[0-9a-f]{64}' "$config")
layer=$(grep -hoE 'tar\+gzip","digest":"sha256:[0-9a-f]{64}' $blobs/* | grep -oE '[0-9a-f]{64}')
gzip -dc "$blobs/$layer" >../layer
[ "$(sha256sum <../layer)" = "${diff##*:}  -" ]
tar xpf ../layer -C ../root
[ -z "$(find ../root -perm /6022 ! -type l)" ]
user=$(grep -oE '"User":"[0-9]+:[0-9]+"' "$config" | grep -oE '[0-9]+:[0-9]+')
mapfile -t env < <(grep -oE '"[A-Z_]+=[^"]*"' "$config" | tr -d '"')
[ "$(id -u)" = 0 ] || exit 0
# What listens takes ports of the kernel's choice here.
env+=(TELEPORT_FLEET_LISTEN=127.0.0.1:0 TELEPORT_FLEET_METRICS=127.0.0.1:0)
# shellcheck disable=SC2016 # of the shell within
timeout 60 unshare --mount --fork bash -euc '
    root=$1 user=$2
    shift 2
    mount --bind "$root" "$root"
    # A volume that is new has the owner and the mode of the directory in the image.
    mkdir "$root.data" && chown --reference="$root/var/lib/teleport-fleet" "$root.data"
    chmod --reference="$root/var/lib/teleport-fleet" "$root.data"
    mount -o remount,bind,ro "$root"
    mount --bind "$root.data" "$root/var/lib/teleport-fleet"
    fleet=(env -i "$@" /usr/sbin/chroot --userspec="$user" "$root" /usr/bin/teleport-fleet)
    if "${fleet[@]}" doctor --ready >/dev/null; then exit 1; fi
    exec 3< <(exec "${fleet[@]}" serve --plain --behind-proxy 2>/dev/null)
    server=$!
    read -r _ <&3
    "${fleet[@]}" doctor --ready
    "${fleet[@]}" backup /var/lib/teleport-fleet/backup >/dev/null
    grep -E "^(Uid|CapEff)" "/proc/$server/status" | tr -s "\t" " "
    kill "$server"
' _ "$work/root" "$user" "${env[@]}"
