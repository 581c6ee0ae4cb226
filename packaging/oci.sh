#!/bin/bash
# oci.sh [--of DESCRIPTION] --out DIR --version V --binary ARCH=PATH.. [--sbom DIR]
#
# Makes DIR/NAME-V.oci.tar out of finished binaries: an image of a program for each ARCH (amd64, arm64) in one OCI layout
# (image-spec 1.1), without a container engine. DESCRIPTION is the program's package.conf (default: the rollout server's);
# container/config.json beside it says how it runs. The same input gives the same bytes: times are SOURCE_DATE_EPOCH's
# (default: the last commit's). With --sbom each image has the SBOM that DIR/sbom.sh wrote of it, as an artifact that refers to it.
#
# What is in the image is the program, its user, what the description's `image_…` name and a licence: nothing else to run, patch
# or read.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C TZ=UTC
umask 022

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$here")
# shellcheck source=project.conf
. "$here/project.conf"
die() { echo "oci.sh: $*" >&2; exit 1; }

# Nobody of the host's: the number that images without a shell have for their user.
user=65532

of=$here/fleet/package.conf out='' version='' sboms=''
declare -A binaries=()
while [ $# != 0 ]; do
    case $1 in
    --of) of=$(realpath "$2") ;;
    --out) out=$2 ;;
    --version) version=$2 ;;
    --sbom) sboms=$(realpath "$2") ;;
    --binary) binaries[${2%%=*}]=$(realpath "${2#*=}") ;;
    *) die "unknown argument: $1 (see the head of $0)" ;;
    esac
    shift 2
done
if [ -z "$out" ] || [ -z "$version" ] || [ ${#binaries[@]} = 0 ]; then
    sed -n '2,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
fi
# Sets name, summary; where there are such: image_data, a directory of the user's; image_config, an empty file; image_examples;
# image_roots, the certificate authorities that this machine trusts.
image_data='' image_config='' image_examples=() image_roots=''
# shellcheck source=fleet/package.conf
. "$of"
own=$(dirname "$of")
: "${SOURCE_DATE_EPOCH:=$(git -C "$top" log -1 --format=%ct 2>/dev/null || stat -c %Y "$here/contents")}"
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
revision=$(git -C "$top" rev-parse HEAD 2>/dev/null || true)
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layout=$work/layout
blobs=$layout/blobs/sha256
mkdir -p "$blobs"

# `--create` or `--append`: all of one time, and root's unless told otherwise.
pack() {
    local how=$1 tree=$2
    shift 2
    tar "$how" --directory "$tree" --format=ustar --sort=name --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --owner=0 --group=0 "$@"
}

# Takes file $1 in, of media type $2; prints its descriptor, with $3 more in it.
blob() {
    local file=$1 type=$2 more=${3:-} digest size
    digest=$(sha256sum <"$file" | cut -d ' ' -f 1)
    size=$(stat -c %s "$file")
    mv "$file" "$blobs/$digest"
    printf '{"mediaType":"%s","digest":"sha256:%s","size":%s%s}' "$type" "$digest" "$size" "$more"
}

stage() {
    local tree=$1 doc=$1/usr/share/doc/$name example
    mkdir -p "$tree/etc" "$tree/usr/bin" "$doc" "$tree$image_data"
    cp "$2" "$tree/usr/bin/$name"
    chmod 755 "$tree/usr/bin/$name"
    echo "$name:x:$user:$user::${image_data:-/}:/nonexistent" >"$tree/etc/passwd"
    echo "$name:x:$user:" >"$tree/etc/group"
    # Settings are variables and flags; who mounts a file here is read as on a host.
    [ -z "$image_config" ] || : >"$tree$image_config"
    for example in "${image_examples[@]}"; do mkdir -p "$doc/examples" && cp "$own/$example" "$doc/examples/"; done
    cp "$top/LICENSE" "$doc/"
    [ -z "$image_roots" ] || install -D -m 644 "$image_roots" "$tree$image_roots" || die "no $image_roots: install ca-certificates"
    find "$doc" "$tree/etc" -type f -exec chmod 644 {} +
}

labels=$(printf '"org.opencontainers.image.%s":"%s",' title "$name" description "$summary" version "$version" \
    licenses "$license" url "$homepage" created "$created" ${revision:+revision "$revision"})
labels=${labels%,}

image() {
    local arch=$1 tree=$work/$1 layer config manifest diff
    stage "$tree" "${binaries[$arch]}"
    # The user owns the data, and nothing else.
    pack --create "$tree" ${image_data:+--exclude=".$image_data"} --file "$work/layer" .
    [ -z "$image_data" ] || pack --append "$tree" --file "$work/layer" --no-recursion --owner=$user --group=$user --mode=0700 ".$image_data"
    diff=$(sha256sum <"$work/layer" | cut -d ' ' -f 1)
    gzip -9n <"$work/layer" >"$work/layer.gz"
    layer=$(blob "$work/layer.gz" application/vnd.oci.image.layer.v1.tar+gzip)
    sed -e "s|@ARCH@|$arch|; s|@CREATED@|$created|g; s|@USER@|$user|g; s|@LABELS@|$labels|; s|@DIFF@|$diff|" \
        "$own/container/config.json" | tr -d '\n' >"$work/config"
    config=$(blob "$work/config" application/vnd.oci.image.config.v1+json)
    manifest=application/vnd.oci.image.manifest.v1+json
    printf '{"schemaVersion":2,"mediaType":"%s","config":%s,"layers":[%s],"annotations":{%s}}' \
        $manifest "$config" "$layer" "$labels" >"$work/manifest"
    blob "$work/manifest" $manifest ",\"platform\":{\"os\":\"linux\",\"architecture\":\"$arch\"}"
}

# The SBOM of $1 as an artifact that refers to the image $2. It stands beside the image, so that it is copied with it, and is of
# no machine, so that nobody runs it.
sbom() {
    local type=application/vnd.cyclonedx+json manifest=application/vnd.oci.image.manifest.v1+json of empty file
    file=$sboms/$name-$version.$(rpm_architecture "$1")-unknown-linux-musl.cdx.json
    [ -e "$file" ] || die "there is no SBOM $file"
    cp "$file" "$work/sbom"
    printf '{}' >"$work/empty"
    empty=$(blob "$work/empty" application/vnd.oci.empty.v1+json)
    of="${2%%,\"platform\"*}}"
    printf '{"schemaVersion":2,"mediaType":"%s","artifactType":"%s","config":%s,"layers":[%s],"subject":%s,"annotations":{"org.opencontainers.image.created":"%s"}}' \
        $manifest $type "$empty" "$(blob "$work/sbom" $type)" "$of" "$created" >"$work/manifest"
    blob "$work/manifest" $manifest ",\"artifactType\":\"$type\",\"platform\":{\"os\":\"unknown\",\"architecture\":\"unknown\"}"
}

manifests=''
for arch in $(printf '%s\n' "${!binaries[@]}" | sort); do
    rpm_architecture "$arch" >/dev/null || die "no such architecture: $arch (amd64, arm64)"
    made=$(image "$arch")
    manifests+=,$made
    if [ -n "$sboms" ]; then manifests+=,$(sbom "$arch" "$made"); fi
done
index=application/vnd.oci.image.index.v1+json
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[%s],"annotations":{%s}}' $index "${manifests#,}" "$labels" >"$work/index"
# What it is called where it is loaded: podman reads the one, containerd the other.
called="\"org.opencontainers.image.ref.name\":\"$name:$version\",\"io.containerd.image.name\":\"localhost/$name:$version\""
whole=$(blob "$work/index" $index ",\"annotations\":{$called}")
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[%s]}' $index "$whole" >"$layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
archive=$name-$version.oci.tar
pack --create "$layout" --file "$out/$archive" blobs index.json oci-layout
(cd "$out" && touch SHA256SUMS && sed -i "/ $archive\$/d" SHA256SUMS && sha256sum -- "$archive" >>SHA256SUMS)
ls -l "$out/$archive"
