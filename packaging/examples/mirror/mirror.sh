#!/bin/sh
# mirror.sh [OPTION..] --to DIR VERSION..   keeps a mirror of Teleport archives for hosts that do not reach the public ones.
#
#   --to DIR              the mirror; made if need be. Serve it by https, or hand it to hosts as file://DIR
#   --from URL            where archives come from (default https://cdn.teleport.dev)
#   --editions LIST       comma-separated: oss, enterprise, enterprise-fips (default enterprise)
#   --archs LIST          comma-separated: amd64, arm64, arm, 386 (default amd64)
#   --public-key FILE     P-256 key, PEM: each archive must have a good signature (URL.sig); needs openssl
#   --no-signatures       do not ask for URL.sig at all
#
# An archive appears under its name only when its digest (and signature) is right; what was there before stays as it is if
# anything fails. What is there already and right is not fetched again, and an interrupted download goes on where it
# ended. Exit status: 0 all there, 1 something is missing or wrong (one line each on stderr), 2 usage.
#
# Two runs at once in one DIR: the second one ends with 1.
#
# Agents use it by:   teleport-update enable --base-url https://mirror.example.com/teleport
# Needs curl or wget, and sha256sum. CURL and WGET in the environment name other programs, or add options to them.
set -eu
umask 022

to='' from=https://cdn.teleport.dev editions=enterprise archs=amd64 key='' signatures=yes versions=''
curl=${CURL:-curl} wget=${WGET:-wget}

say() { echo "mirror.sh: $*"; }
fail() { echo "mirror.sh: $*" >&2; failed=yes; }
usage() {
    if [ -n "$1" ]; then echo "mirror.sh: $1" >&2; fi
    sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
}

while [ $# != 0 ]; do
    case $1 in
    --no-signatures) signatures= ;;
    --to | --from | --editions | --archs | --public-key)
        [ $# -ge 2 ] || usage "$1 needs a value"
        case $1 in
        --to) to=$2 ;;
        --from) from=${2%/} ;;
        --editions) editions=$2 ;;
        --archs) archs=$2 ;;
        --public-key) key=$2 ;;
        esac
        shift
        ;;
    -*) usage "unknown option: $1" ;;
    *)
        # It becomes part of file names and URLs.
        case ${1#v} in
        '' | [!0-9]* | *[!0-9A-Za-z.+-]*) usage "not a version: $1" ;;
        esac
        versions="$versions ${1#v}"
        ;;
    esac
    shift
done
[ -n "$to" ] || usage "where to? give --to DIR"
[ -n "$versions" ] || usage "give at least one version"
if [ -n "$key" ]; then
    [ -n "$signatures" ] || usage "--public-key and --no-signatures exclude each other"
    [ -r "$key" ] || usage "$key cannot be read"
    command -v openssl >/dev/null || { echo "mirror.sh: openssl is missing, and --public-key needs it" >&2; exit 1; }
fi
for edition in $(echo "$editions" | tr , ' '); do
    case $edition in oss | enterprise | enterprise-fips) ;; *) usage "not an edition: $edition" ;; esac
done
for arch in $(echo "$archs" | tr , ' '); do
    case $arch in amd64 | arm64 | arm | 386) ;; *) usage "not an architecture: $arch" ;; esac
done
command -v sha256sum >/dev/null || { echo "mirror.sh: sha256sum is missing (coreutils)" >&2; exit 1; }

# get URL FILE: fetches, going on from what FILE holds. 0, or 1 with the program's own words on stderr.
# From https it never leads to http.
case $from in [Hh][Tt][Tt][Pp][Ss]://*) https_only=yes ;; *) https_only= ;; esac
if command -v "${curl%% *}" >/dev/null; then
    # shellcheck disable=SC2086 # options of the caller
    get() { $curl ${https_only:+--proto-redir =https} --fail --silent --show-error --location --retry 3 --continue-at - --output "$2" "$1"; }
elif command -v "${wget%% *}" >/dev/null; then
    # shellcheck disable=SC2086 # options of the caller
    get() {
        if [ -z "$https_only" ]; then
            $wget --quiet --tries=3 --continue --output-document="$2" "$1"
            return
        fi
        # wget's --https-only is for recursion alone, so redirections are followed one by one.
        hop=$1 hops=0
        # shellcheck disable=SC2086 # options of the caller
        until LC_ALL=C $wget --tries=3 --continue --max-redirect=0 --output-document="$2" "$hop" 2>"$work/wget"; do
            next=$(sed -n 's/^Location: \([^ ]*\).*/\1/p' "$work/wget" | tail -n 1)
            hops=$((hops + 1))
            case $hops:$next in
            *:) grep -i 'error\|failed\|unable\|cannot\|no space' "$work/wget" >&2 || cat "$work/wget" >&2 ;;
            5:*) echo "more than 4 redirections from $1" >&2 ;;
            *:[Hh][Tt][Tt][Pp][Ss]://*) hop=$next && continue ;;
            *) echo "$hop leads to $next, which is not https" >&2 ;;
            esac
            return 1
        done
    }
else
    echo "mirror.sh: neither curl nor wget is there" >&2
    exit 1
fi

# The digest that a .sha256 file names: its first word, 64 hex digits.
digest_in() { sed -n '1s/^[[:space:]]*\([0-9a-fA-F]\{64\}\)\([[:space:]].*\)\{0,1\}$/\1/p' "$1" | tr A-F a-f; }
digest_of() { sha256sum <"$1" | cut -d' ' -f1; }
same() { [ -f "$2" ] && [ "$(digest_of "$1")" = "$(digest_of "$2")" ]; }

# signed ARCHIVE SIGNATURE: whether the key in $key made the signature (base64) over the archive.
signed() {
    openssl base64 -d -A -in "$2" -out "$work/sig.raw" 2>/dev/null &&
        openssl dgst -sha256 -verify "$key" -signature "$work/sig.raw" "$1" >/dev/null 2>&1
}

# fetch URL PART: completes what is there. A part that cannot be completed (the release was made again, and is shorter)
# is in the way: then everything anew, beside it.
fetch() {
    if [ -f "$2" ] && [ "$(digest_of "$2")" = "$wanted" ]; then return; fi
    if [ ! -s "$2" ]; then
        get "$1" "$2"
        return
    fi
    if get "$1" "$2" 2>"$work/why" && [ "$(digest_of "$2")" = "$wanted" ]; then return; fi
    rm -f "$2.new"
    if get "$1" "$2.new"; then mv "$2.new" "$2"; else
        rm -f "$2.new"
        return 1
    fi
}

# Puts NAME and its companions in place: the archive last, for an agent asks for it after its digest.
mirror() {
    name=$1
    part=$to/.partial/$name
    rm -f "$work"/*
    if ! get "$from/$name.sha256" "$work/sha256"; then
        fail "no digest at $from/$name.sha256"
        return
    fi
    wanted=$(digest_in "$work/sha256")
    if [ -z "$wanted" ]; then
        fail "$from/$name.sha256 holds no SHA-256 digest"
        return
    fi
    if [ -n "$signatures" ] && ! get "$from/$name.sig" "$work/sig" 2>"$work/why"; then
        rm -f "$work/sig"
        if [ -n "$key" ]; then
            fail "no signature at $from/$name.sig: $(cat "$work/why")"
            return
        fi
    fi
    if [ -f "$to/$name" ] && [ "$(digest_of "$to/$name")" = "$wanted" ]; then
        source=$to/$name
    else
        source=$part
        if ! fetch "$from/$name" "$part"; then
            fail "cannot fetch $from/$name; run it again to go on"
            return
        fi
        found=$(digest_of "$part")
        if [ "$found" != "$wanted" ]; then
            rm -f "$part"
            fail "$from/$name has the digest $found, and its .sha256 says $wanted"
            return
        fi
    fi
    if [ -n "$key" ] && ! signed "$source" "$work/sig"; then
        if [ "$source" = "$part" ]; then rm -f "$part"; fi
        fail "the signature $from/$name.sig is not by $key"
        return
    fi
    for companion in sha256 sig; do
        if [ -f "$work/$companion" ] && ! same "$work/$companion" "$to/$name.$companion"; then
            cp "$work/$companion" "$to/.partial/$name.$companion"
            mv "$to/.partial/$name.$companion" "$to/$name.$companion"
        fi
    done
    if [ "$source" = "$part" ]; then
        # On the disk before it has its name.
        sync
        mv "$part" "$to/$name"
        say "$name: fetched"
    else
        say "$name: is there"
    fi
}

mkdir -p "$to"
work=$(mktemp -d)
lock=
trap 'rm -rf "$work"; if [ -n "$lock" ]; then rmdir "$lock"; fi' EXIT
trap 'exit 130' INT TERM HUP
if command -v flock >/dev/null; then
    # On the directory itself: nothing is left behind, whatever ends this run.
    exec 9<"$to"
    flock -n 9 || { echo "mirror.sh: another run is at work in $to" >&2; exit 1; }
elif mkdir "$to/.lock" 2>/dev/null; then
    lock=$to/.lock
else
    echo "mirror.sh: another run is at work in $to (if none is: rmdir $to/.lock)" >&2
    exit 1
fi
mkdir -p "$to/.partial"
failed=
for version in $versions; do
    for edition in $(echo "$editions" | tr , ' '); do
        case $edition in
        oss) head=teleport tail='' ;;
        enterprise) head=teleport-ent tail='' ;;
        *) head=teleport-ent tail=-fips ;;
        esac
        for arch in $(echo "$archs" | tr , ' '); do
            mirror "$head-v$version-linux-$arch$tail-bin.tar.gz"
        done
    done
done
rmdir "$to/.partial" 2>/dev/null || true
[ -z "$failed" ]
