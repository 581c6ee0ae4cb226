#!/bin/sh
# install.sh - installs the package teleport-update on this host, and enables updates of its Teleport agent.
#
#   sh install.sh --url https://example.com/teleport-update --proxy example.teleport.sh      (--help lists the options)
#
# Exit status: 0 done, or nothing to do; 1 failed, and nothing was installed; 2 usage; 3 the package is installed, but
# `enable`, which came after, failed. Everything else of this host is left alone; what `enable` does about an older Teleport
# package or updater is said before it is done.
#
# POSIX sh, for dash, busybox, ksh and bash. Downloads with curl, wget, python3, perl or openssl, whichever there is;
# installs with dpkg or rpm themselves: they need no network, and touch no other package but teleport-ent-updater, which
# this one replaces. Nothing runs before the last line has arrived.

# Seconds that another package manager is waited for: unattended upgrades take minutes.
LOCK_WAIT=300
# Redirections that are followed.
MAX_HOPS=3
# Seconds for one download by a program that knows no time-out itself.
TRANSFER_WAIT=120
BOOTSTRAP=/usr/lib/teleport-update/teleport-update

# A password in an address is for the server alone, not for terminals and logs.
say() { printf '%s\n' "$*" | sed 's#://[^/[:space:]]*@#://***@#g'; }
fail() { say "install.sh: $*" >&2; exit 1; }
misused() { say "install.sh: $* (--help lists the options)" >&2; exit 2; }
has() { command -v "$1" >/dev/null 2>&1; }

usage() {
    cat <<'USAGE'
usage: install.sh --url BASE | --file PACKAGE  [--version V] [--public-key FILE] [--ca-file FILE] [--insecure]
                  [--proxy ADDR] [--group NAME] [--no-enable] [--dry-run] [--yes] [-- ENABLE-ARGUMENT...]

Installs the package teleport-update and enables updates of this host's Teleport agent.

  --url BASE          directory with the packages and SHA256SUMS: https://..., file:///..., or a path
  --version V         this version; without it the newest release in SHA256SUMS
  --file PACKAGE      a deb or rpm that is already here, instead of --url
  --public-key FILE   PEM, ECDSA P-256: SHA256SUMS must carry its signature, SHA256SUMS.sig (base64)
  --ca-file FILE      PEM, certificates that --url is checked against instead of the system's
  --insecure          allow http://, and https:// without a check of the certificate
  --proxy ADDR        for `teleport-update enable`: the Teleport proxy, where /etc/teleport.yaml does not name it
  --group NAME        for `teleport-update enable`: the update group
  -- ARGUMENT...      for `teleport-update enable`. Where updates are enabled already, or were disabled by somebody, it
                      is run only if --proxy, --group or -- is given
  --no-enable         only install
  --dry-run           only say what would be done
  --yes               do not ask (without a terminal nothing is asked)
USAGE
}

# --- the host ---

# Prints the value of the key $2 in the os-release file $1. Not sourced: an odd line would end this script.
os_value() {
    value=$(tr -d '\r' <"$1" | sed -n -e 's/[[:space:]]*$//' -e "s/^$2=//p" | tail -n 1)
    value=${value#[\"\']}
    printf '%s' "${value%[\"\']}"
}

# Sets system (for people), format (deb, rpm), arch (as packages of that format name it).
look_at_host() {
    system='' ids=''
    for file in /etc/os-release /usr/lib/os-release; do
        if [ -r "$file" ]; then
            system=$(os_value "$file" PRETTY_NAME)
            ids=" $(os_value "$file" ID) $(os_value "$file" ID_LIKE) "
            break
        fi
    done
    # Older than os-release.
    case $ids in *[!\ ]*) ;; *) ids='' ;; esac
    if [ -z "$ids" ]; then
        if [ -e /etc/debian_version ]; then
            ids=' debian ' system="Debian $(cat /etc/debian_version)"
        else
            for file in /etc/redhat-release /etc/system-release /etc/SuSE-release; do
                if [ -e "$file" ]; then
                    ids=' rhel '
                    IFS= read -r system <"$file" || true
                    break
                fi
            done
        fi
    fi
    system=${system:-a Linux without os-release}
    [ "$(uname -s)" = Linux ] || fail "this is $(uname -s): the Teleport agent updater is for Linux"
    if [ -e /run/ostree-booted ]; then
        fail "$system has a read-only /usr: install the rpm with \`rpm-ostree install\`, then run \`teleport-update enable\`"
    fi
    case $ids in
    *' alpine '* | *' nixos '*) see='Not supported' ;;
    *' flatcar '*) see=Flatcar ;;
    *) see='' ;;
    esac
    if [ -n "$see" ]; then fail "there is no package for $system: see \"$see\" in docs/install.md"; fi
    # A host can have the other family's tool as well.
    case $ids in
    *' debian '* | *' ubuntu '*) wanted='deb rpm' ;;
    *' rhel '* | *' fedora '* | *' centos '* | *' suse '* | *' opensuse '* | *' sles '* | *' amzn '*) wanted='rpm deb' ;;
    *) if [ -s /var/lib/dpkg/status ]; then wanted='deb rpm'; else wanted='rpm deb'; fi ;;
    esac
    format=''
    for each in $wanted; do
        case $each in deb) tool=dpkg ;; *) tool=rpm ;; esac
        if has $tool; then
            format=$each
            break
        fi
    done
    [ -n "$format" ] || fail "$system has neither dpkg nor rpm: see \"Without a package manager\" in docs/install.md"
    # The userland's, which on a 64-bit kernel can be a 32-bit one.
    machine=$(uname -m)
    if [ "$format" = deb ]; then machine=$(dpkg --print-architecture); fi
    case $machine in
    x86_64 | amd64) arch=amd64 other=x86_64 ;;
    aarch64 | arm64) arch=arm64 other=aarch64 ;;
    *) fail "there is no package for $machine: only for amd64 (x86_64) and arm64 (aarch64)" ;;
    esac
    if [ "$format" = rpm ]; then arch=$other; fi
}

# Sets installed to the version of package $1, or to nothing.
installed_version() {
    installed=''
    case $format in
    deb)
        # dpkg-query fails for a package that it never heard of.
        # shellcheck disable=SC2016 # dpkg's own variables
        found=$(dpkg-query -W -f '${Status} ${Version}' "$1" 2>/dev/null) || found=''
        case $found in *' installed '*) installed=${found##* } ;; esac
        ;;
    rpm) installed=$(rpm -q --qf '%{VERSION}' "$1" 2>/dev/null) || installed='' ;;
    esac
}

# --- versions: semver's order; packages write the hyphen before a pre-release as ~ ---

# Sets order to -1, 0 or 1: dotted lists $1 and $2. What is missing comes first, numbers before words.
compare_lists() {
    a=$1 b=$2 order=0
    while [ "$order" = 0 ] && [ -n "$a$b" ]; do
        x=${a%%.*} y=${b%%.*}
        case $a in *.*) a=${a#*.} ;; *) a='' ;; esac
        case $b in *.*) b=${b#*.} ;; *) b='' ;; esac
        if [ "$x" = "$y" ]; then continue; fi
        kinds=''
        for part in "$x" "$y"; do
            case $part in '') kinds="${kinds}e" ;; *[!0-9]*) kinds="${kinds}w" ;; *) kinds="${kinds}n" ;; esac
        done
        case $kinds in
        e* | nw) order=-1 ;;
        ?e | wn) order=1 ;;
        nn) if [ "$x" -lt "$y" ]; then order=-1; elif [ "$x" -gt "$y" ]; then order=1; fi ;;
        *) if expr "x$x" '<' "x$y" >/dev/null; then order=-1; else order=1; fi ;;
        esac
    done
}

# True if version $1 comes after version $2.
is_after() {
    left=${1%%+*} right=${2%%+*}
    left_pre='' right_pre=''
    case $left in *[-~]*) left_pre=${left#*[-~]} ;; esac
    case $right in *[-~]*) right_pre=${right#*[-~]} ;; esac
    compare_lists "${left%%[-~]*}" "${right%%[-~]*}"
    if [ "$order" = 0 ] && [ "$left_pre" != "$right_pre" ]; then
        # A release comes after its pre-releases.
        if [ -z "$left_pre" ]; then order=1
        elif [ -z "$right_pre" ]; then order=-1
        else compare_lists "$left_pre" "$right_pre"; fi
    fi
    [ "$order" = 1 ]
}

# --- downloads ---

# -I and this: neither python3 nor an old perl loads modules from the current directory, which may be anybody's.
# shellcheck disable=SC2016 # perl's own variables
PERL_INC='BEGIN { @INC = grep { $_ ne "." } @INC }'

# Sets fetcher. busybox's wget does not look at certificates: what it brings must be signed.
choose_fetcher() {
    fetcher=''
    if has curl; then fetcher=curl
    elif has wget && wget --version 2>/dev/null | grep -q 'GNU Wget'; then fetcher=wget
    elif has python3 && python3 -I -c 'import ssl, urllib.request' 2>/dev/null; then fetcher=python3
    elif has perl && perl -e "$PERL_INC use HTTP::Tiny; use IO::Socket::SSL;" 2>/dev/null; then fetcher=perl
    elif has openssl && is_https "$url"; then fetcher=openssl
    elif has wget; then
        fetcher=busybox
        if is_https "$url" && [ -z "$public_key" ] && [ -z "$insecure" ]; then
            fail "this host's wget does not check certificates: give --public-key, or install curl, or copy the package here and use --file"
        fi
    fi
    [ -n "$fetcher" ] || fail "no curl, wget, python3, perl or openssl to download with: copy the package here and use --file"
}

is_https() { case $1 in [Hh][Tt][Tt][Pp][Ss]://?*) true ;; *) false ;; esac; }

check_scheme() {
    is_https "$1" && return
    case $1 in
    [Hh][Tt][Tt][Pp]://?*) [ -n "$insecure" ] || fail "$1 is not https: use https, or add --insecure" ;;
    *) fail "cannot download $1: neither https://, file:// nor a path" ;;
    esac
}

# Downloads $1 to the file $2.
download() {
    say "downloading $1"
    rm -f "$2"
    words=''
    case $1 in
    # Not by way of a file, for which there may be no space either.
    file://*) words=$(cp "${1#file://}" "$2" 2>&1) && return ;;
    /*) words=$(cp "$1" "$2" 2>&1) && return ;;
    *)
        hop=$1 hops=0
        while :; do
            check_scheme "$hop"
            location=''
            if fetch "$hop" "$2" 2>"$work/words"; then
                if [ -z "$location" ]; then return; fi
            fi
            [ -n "$location" ] || break
            case $location in
            //*) location=${hop%%:*}:$location ;;
            /*) location=$(expr "$hop" : '\([a-zA-Z]*://[^/]*\)')$location ;;
            esac
            if is_https "$hop" && ! is_https "$location"; then fail "$hop leads to $location, which is not https"; fi
            hop=$location hops=$((hops + 1))
            [ "$hops" -le "$MAX_HOPS" ] || fail "cannot download $1: more than $MAX_HOPS redirections"
        done
        ;;
    esac
    rm -f "$2"
    if [ -z "$words" ] && [ -e "$work/words" ]; then
        while IFS= read -r line; do case $line in *[!\ ]*) words=$line ;; esac; done <"$work/words"
    fi
    fail "cannot download $1: ${words:-$fetcher says nothing}"
}

# Downloads $1 to the file $2, or sets location to where it leads; what goes wrong is the last line on stderr.
fetch() {
    case $fetcher in
    curl) fetch_curl "$@" ;;
    wget) fetch_wget "$@" ;;
    # Without -T: with it, the wget of busybox 1.35 crashes.
    busybox) limited wget -q -O "$2" "$1" </dev/null ;;
    python3) fetch_python3 "$@" ;;
    perl) fetch_perl "$@" ;;
    openssl) fetch_openssl "$@" ;;
    esac
}

# Runs the words with our stdin for at most $TRANSFER_WAIT seconds; sets late if that was not enough. Not with
# timeout(1): not all have it, it was called otherwise in older busyboxes, and Ctrl-C would have to wait for it.
limited() {
    # A shell gives what runs in the background no stdin, unless it is told.
    { "$@" <&3 3<&- & } 3<&0
    transfer=$! waited=0 late=''
    while kill -0 "$transfer" 2>/dev/null; do
        if [ "$waited" -ge "$TRANSFER_WAIT" ]; then
            kill "$transfer" 2>/dev/null || true
            wait "$transfer" 2>/dev/null || true
            transfer='' late=yes
            say "not done after $TRANSFER_WAIT s" >&2
            return 1
        fi
        sleep 1
        waited=$((waited + 1))
    done
    status=0
    wait "$transfer" || status=$?
    transfer=''
    return $status
}

fetch_curl() {
    set -- -fsS --connect-timeout 30 --speed-limit 1000 --speed-time 60 -o "$2" "$1"
    if [ -n "$ca_file" ]; then set -- --cacert "$ca_file" "$@"; fi
    if [ -n "$insecure" ]; then set -- -k "$@"; fi
    # Redirections are followed by `download`, which looks where they lead.
    code=$(curl -w '%{http_code} %{redirect_url}' "$@") || return
    location=${code#* }
    case $code in 30*) ;; *) location='' ;; esac
}

fetch_wget() {
    set -- -S --tries=2 --waitretry=2 --timeout=60 --max-redirect=0 -O "$2" "$1"
    if [ -n "$ca_file" ]; then set -- --ca-certificate="$ca_file" "$@"; fi
    if [ -n "$insecure" ]; then set -- --no-check-certificate "$@"; fi
    wget "$@" 2>"$work/headers" && return
    location=$(sed -n 's/^Location: \([^ ]*\).*/\1/p' "$work/headers" | tail -n 1)
    grep -i 'error\|failed\|unable\|cannot\|no space' "$work/headers" >&2
    return 1
}

fetch_python3() {
    location=$(python3 -I - "$1" "$2" "$ca_file" "$insecure" <<'PYTHON'
import shutil, ssl, sys, urllib.error, urllib.request
url, path, ca, insecure = sys.argv[1:]

class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None

try:
    context = ssl.create_default_context(cafile=ca or None)
    if insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(Stay, urllib.request.HTTPSHandler(context=context))
    with opener.open(url, timeout=60) as answer, open(path, "wb") as file:
        shutil.copyfileobj(answer, file)
        length = answer.headers.get("Content-Length")
        if length and int(length) != file.tell():
            sys.exit("the answer ended after %d of %s bytes" % (file.tell(), length))
except urllib.error.HTTPError as error:
    if error.code in (301, 302, 303, 307, 308):
        print(error.headers["Location"])
    else:
        sys.exit(str(error))
except Exception as error:
    sys.exit(str(error))
PYTHON
    )
}

fetch_perl() {
    # shellcheck disable=SC2016 # perl's own variables
    location=$(perl -e "$PERL_INC"' use HTTP::Tiny;
        my ($url, $path, $ca, $insecure) = @ARGV;
        my $http = HTTP::Tiny->new(verify_SSL => !$insecure, max_redirect => 0, timeout => 60,
            $ca ? (SSL_options => { SSL_ca_file => $ca }) : ());
        open(my $file, ">", $path) or die "$path: $!\n";
        binmode $file;
        my $answer = $http->get($url, { data_callback => sub { print {$file} $_[0] or die "$path: $!\n" } });
        close($file) or die "$path: $!\n";
        if ($answer->{status} =~ /^30[12378]$/) { print $answer->{headers}{location}; exit }
        $answer->{success} or die "$answer->{status} $answer->{reason}"
            . ($answer->{status} == 599 ? " $answer->{content}" : "") . "\n";
        my $length = $answer->{headers}{"content-length"};
        defined $length && $length != -s $path and die "the answer ended after " . (-s $path) . " of $length bytes\n";
    ' "$1" "$2" "$ca_file" "$insecure")
}

# HTTP/1.0 by hand: the answer ends with the connection, and its length must be the one it says.
fetch_openssl() {
    rest=${1#*://} target=$2
    authority=${rest%%/*} path=/${rest#*/}
    host=${authority%:*} port=${authority##*:}
    if [ "$host" = "$authority" ]; then port=443; fi
    # A name goes into the hello, and the certificate must be for it; an address goes into none.
    case $host in
    *[!0-9.]*) set -- -servername "$host" && check=-verify_hostname ;;
    *) set -- && check=-verify_ip ;;
    esac
    if [ -z "$insecure" ]; then set -- "$@" -verify_return_error "$check" "$host" ${ca_file:+-CAfile "$ca_file"}; fi
    printf 'GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n' "$path" "$authority" >"$work/request"
    limited openssl s_client -quiet -connect "$host:$port" "$@" \
        <"$work/request" >"$work/answer" 2>"$work/headers" || true
    if [ -n "$late" ]; then
        tail -n 1 "$work/headers" >&2
        return 1
    fi
    cr=$(printf '\r') size=0 length='' status='' complete=''
    while IFS= read -r line; do
        size=$((size + ${#line} + 1))
        line=${line%"$cr"}
        if [ -z "$line" ]; then complete=yes && break; fi
        if [ -z "$status" ]; then status=$line; fi
        case $line in
        [Cc]ontent-[Ll]ength:*) length=${line#*:} && length=${length# } ;;
        [Ll]ocation:*) location=${line#*:} && location=${location# } ;;
        esac
    done <"$work/answer"
    case $status in
    'HTTP/1.'?' 200'*) location='' ;;
    'HTTP/1.'?' 30'[12378]*) return 1 ;;
    *)
        location=''
        if [ -n "$status" ]; then say "$status" >&2; elif [ -s "$work/headers" ]; then tail -n 1 "$work/headers" >&2; fi
        return 1
        ;;
    esac
    tail -c "+$((size + 1))" "$work/answer" >"$target" || return
    rm -f "$work/answer"
    bytes=$(($(wc -c <"$target")))
    if [ -z "$complete" ] || [ "$bytes" != "${length:-$bytes}" ]; then
        say "the answer ended after $bytes of ${length:-?} bytes" >&2
        return 1
    fi
}

# --- checks ---

# Prints the SHA-256 of the file $1, hex.
digest() {
    if has sha256sum; then sum=$(sha256sum <"$1")
    elif has shasum; then sum=$(shasum -a 256 <"$1")
    elif has openssl; then sum=$(openssl dgst -sha256 <"$1") && sum=${sum##* }
    elif has busybox; then sum=$(busybox sha256sum <"$1")
    elif has python3; then sum=$(python3 -I -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())' <"$1")
    elif has perl; then sum=$(perl -e "$PERL_INC"' use Digest::SHA; print Digest::SHA->new(256)->addfile(*STDIN)->hexdigest' <"$1")
    else return 1; fi && printf '%s' "${sum%% *}"
}

# $1 names the list, for people; it is in $work/SHA256SUMS, its signature in $work/SHA256SUMS.sig.
check_signature() {
    has openssl || fail "--public-key needs openssl, which is not installed"
    tr -d ' \r\n' <"$work/SHA256SUMS.sig" >"$work/sig64"
    if ! openssl base64 -d -A -in "$work/sig64" -out "$work/sig" 2>/dev/null ||
        ! openssl dgst -sha256 -verify "$public_key" -signature "$work/sig" "$work/SHA256SUMS" >/dev/null 2>&1; then
        fail "$1 does not carry a valid signature by $public_key: nothing was installed"
    fi
}

# As other tools than sha256sum write it: with CR, with ./ before names, in capitals, without the last line's end.
# Calls $1 with the sum and the name of each line that is one of a list; what it sets stays set.
each_line() {
    tr -d '\r' <"$work/SHA256SUMS" >"$work/list"
    while read -r each_sum each_name || [ -n "$each_sum" ]; do
        each_name=${each_name#\*} && each_name=${each_name#./}
        case $each_sum in *[!0-9A-Fa-f]*) continue ;; esac
        if [ ${#each_sum} = 64 ]; then "$1"; fi
    done <"$work/list"
    sum=$(printf '%s' "$sum" | tr A-F a-f)
}

# One line of the list, for choose_package.
# shellcheck disable=SC2317 # called by each_line
consider() {
    lines=yes
    case $format:$each_name in
    *[!A-Za-z0-9._~+:-]*) return 0 ;;
    "deb:teleport-update_"*"_$arch.deb") each=${each_name#*_} && each=${each%_*} ;;
    "rpm:teleport-update-"[0-9]*".$arch.rpm") each=${each_name#teleport-update-} && each=${each%-*} ;;
    *) return 0 ;;
    esac
    if [ -n "$wanted_version" ]; then
        [ "$each" = "$wanted_version" ] || [ "$each" = "$debian_wanted" ] || return 0
    elif [ -n "$found" ]; then
        case $each:$found in
        *[-~]*:*[-~]*) is_after "$each" "$found" || return 0 ;;
        *[-~]*:*) return 0 ;;
        *:*[-~]*) ;;
        *) is_after "$each" "$found" || return 0 ;;
        esac
    fi
    found=$each name=$each_name sum=$each_sum
}

# Sets name, version and sum from the list: of the version wanted, else of the newest release (else pre-release).
choose_package() {
    name='' sum='' found='' lines='' debian_wanted=''
    case $wanted_version in *-*) debian_wanted=${wanted_version%%-*}~${wanted_version#*-} ;; esac
    each_line consider
    [ -n "$lines" ] || fail "$url/SHA256SUMS is not a list of checksums (an error page?): is the address right?"
    [ -n "$name" ] || fail "$url/SHA256SUMS names no ${wanted_version:+version $wanted_version of the }$format package for $arch"
    version=$found
}

# The list of checksums, checked, in $work/SHA256SUMS.
get_list() {
    download "$url/SHA256SUMS" "$work/SHA256SUMS"
    if [ -n "$public_key" ]; then
        download "$url/SHA256SUMS.sig" "$work/SHA256SUMS.sig"
        check_signature "$url/SHA256SUMS"
    fi
}

# One line of the list, for look_at_file.
# shellcheck disable=SC2317 # called by each_line
is_it() { if [ "$each_name" = "$name" ]; then sum=$each_sum; fi; }

# A local package: sets package, name, version, and sum if a list lies beside it.
look_at_file() {
    if [ ! -f "$file_given" ] || [ ! -r "$file_given" ]; then fail "cannot read $file_given"; fi
    case $file_given in
    *."$format") ;;
    *) fail "$file_given is not a $format package, which $system takes" ;;
    esac
    name=${file_given##*/} package=$file_given
    # rpm takes a name for a pattern, and either takes some for an option.
    case $package in
    -* | *[!A-Za-z0-9._~+/-]*)
        package=$work/package.$format
        words=$(cp -- "$file_given" "$package" 2>&1) || fail "cannot copy $file_given: $words"
        ;;
    esac
    case $format in
    deb) about=$(dpkg-deb -f "$package" Package Version Architecture 2>/dev/null | sed 's/.*: //' | tr '\n' ' ') ;;
    rpm) about=$(rpm -qp --nosignature --qf '%{NAME} %{VERSION} %{ARCH} ' "$package" 2>/dev/null) ;;
    esac || about=''
    case $about in
    "teleport-update "*" $arch ") version=${about#* } && version=${version%% *} ;;
    '') fail "$file_given is damaged: $format package expected" ;;
    *) fail "$file_given is not the package teleport-update for $arch" ;;
    esac
    sum=''
    list=$(dirname -- "$file_given")/SHA256SUMS
    if [ -r "$list" ]; then
        cp "$list" "$work/SHA256SUMS"
        each_line is_it
        [ -n "$sum" ] || fail "$list does not name $name: add its line, or put the package into a directory without a list"
    fi
    if [ -n "$public_key" ]; then
        if [ -z "$sum" ] || [ ! -r "$list.sig" ]; then
            fail "--public-key needs $list, which names $name, and $list.sig"
        fi
        cp "$list.sig" "$work/SHA256SUMS.sig"
        check_signature "$list"
    fi
}

# --- the plan, and what it says ---

explain() {
    say "On this host ($system, $arch) this script will"
    if [ -n "$file_given" ]; then
        how="not check $file_given: no SHA256SUMS beside it names it"
        if [ -n "$sum" ]; then how="check $file_given against the SHA256SUMS beside it"; fi
        say "  * $how${public_key:+, signed with $public_key}"
    else
        say "  * download $url/$name${fetcher:+ with $fetcher}, and check its SHA-256${public_key:+, of a list signed with $public_key}"
    fi
    case $format in deb) tool=dpkg ;; *) tool=rpm ;; esac
    say "  * install teleport-update $version with $tool${present:+ over $present}"
    installed_version teleport-ent-updater
    if [ -n "$installed" ]; then
        say "    (it replaces teleport-ent-updater $installed, whose timer is removed with it)"
    fi
    if [ -n "$enables" ]; then explain_enable; else say "  * not enable updates: $why_not"; fi
}

explain_enable() {
    case $state in
    enabled) say "  * run \`$enable_line\`: updates are enabled already, these settings are new or stay" ;;
    *) say "  * run \`$enable_line\`, which installs the agent's version that the cluster names" ;;
    esac
    for each in teleport teleport-ent teleport-ent-fips; do
        installed_version $each
        if [ -n "$installed" ]; then
            say "    and then removes the package $each $installed; /etc/teleport.yaml and the agent's data stay"
        fi
    done
    if [ -e /opt/teleport/default/update.yaml ]; then
        say "    and takes over from the updater in /opt/teleport/default (\`teleport-update uninstall\` gives it back)"
    fi
}

# Sets state to enabled, disabled (by an operator: an agent is installed), or nothing.
look_at_updates() {
    state=''
    [ -x "$BOOTSTRAP" ] || return 0
    status=$("$BOOTSTRAP" status --format json 2>/dev/null) || true
    case $status in
    *'"agent_updates_enabled": true'* | *'"agent_updates_enabled":true'*) state=enabled ;;
    *'"agent_version_installed": "'* | *'"agent_version_installed":"'*) state=disabled ;;
    esac
}

# Sets enables and enable_line, or why_not.
plan_enable() {
    enables='' why_not='' enable_line="teleport-update enable${proxy:+ --proxy $proxy}${group:+ --group $group}${more:+ $more}"
    look_at_updates
    if [ -n "$no_enable" ]; then
        why_not="--no-enable"
    elif [ -n "$asked" ]; then
        # Also where they are enabled: settings that were given are not silently left out.
        enables=yes
    elif [ "$state" = enabled ]; then
        why_not="they are enabled already"
    elif [ "$state" = disabled ]; then
        why_not="somebody disabled them on this host; with --proxy, --group or -- they are enabled again"
    elif [ -z "$proxy" ] && [ ! -e /etc/teleport.yaml ] && [ ! -e /opt/teleport/default/update.yaml ]; then
        why_not="no --proxy, and no /etc/teleport.yaml that names one; later: teleport-update enable --proxy ADDR"
    else
        enables=yes
    fi
}

ask() {
    if [ -n "$yes" ] || [ ! -t 0 ]; then return; fi
    printf 'Go on? [y/N] '
    answer=''
    read -r answer || true
    case $answer in [Yy] | [Yy][Ee][Ss]) ;; *) say "nothing was done" && exit 0 ;; esac
}

# --- the deed ---

install_package() {
    # An operator's change of a configuration file stays: without a terminal dpkg's question about it would end half way.
    case $format in deb) set -- dpkg -i --force-confdef --force-confold "$1" ;; *) set -- rpm -U --nosignature "$1" ;; esac
    waited=0
    while :; do
        status=0
        DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@" >"$work/words" 2>&1 </dev/null || status=$?
        if [ $status = 0 ]; then return; fi
        # rpm and dpkg say the same words of a database that they may not lock and of one that another has locked.
        if grep -q 'Read-only file system' "$work/words"; then
            cat "$work/words" >&2
            sealed
        fi
        if ! grep -q 'locked by another process\|database area is locked\|can.t create transaction lock' "$work/words"; then break; fi
        [ "$waited" -lt "$LOCK_WAIT" ] || break
        if [ "$waited" = 0 ]; then say "waiting for another package manager, at most $LOCK_WAIT s"; fi
        sleep 2
        waited=$((waited + 2))
    done
    cat "$work/words" >&2
    fail "$1 could not install $name, see above: nothing is enabled"
}

# The package manager could not write its database. How software gets onto such a system is the system's own affair.
sealed() {
    how="install the package in the way of this system, then run \`teleport-update enable\`"
    if has transactional-update; then
        how="run \`transactional-update pkg install PACKAGE\` with the $format package, reboot, then run \`$enable_line\`"
    fi
    fail "this host's root is read-only, nothing was installed: $how (docs/install.md, \"Sealed systems\")"
}

# An agent's package that came in only for teleport-ent-updater must not go with an `apt-get autoremove` before `enable`
# has put another agent in its place.
keep_agents() {
    if [ "$format" != deb ] || ! has apt-mark; then return 0; fi
    for each in $(apt-mark showauto teleport teleport-ent teleport-ent-fips 2>/dev/null); do
        installed_version "$each"
        if [ -n "$installed" ] && apt-mark manual "$each" >/dev/null 2>&1; then
            say "marked $each as installed by hand: \`apt-get autoremove\` does not take it before \`enable\` does"
        fi
    done
}

# shellcheck disable=SC2317 # called by the trap
clean_up() {
    if [ -n "$transfer" ]; then kill "$transfer" 2>/dev/null || true; fi
    if [ -n "$work" ]; then rm -rf "$work"; fi
}

parse() {
    url=${TELEPORT_UPDATE_URL:-} wanted_version='' file_given='' public_key='' ca_file='' insecure='' proxy='' group=''
    no_enable='' dry_run='' yes='' more='' asked=''
    while [ $# != 0 ]; do
        case $1 in
        --url | --version | --file | --public-key | --ca-file | --proxy | --group)
            [ -n "${2:-}" ] || misused "$1 needs a value"
            case $1 in
            --url) url=$2 ;;
            --version) wanted_version=${2#v} ;;
            --file) file_given=$2 ;;
            --public-key) public_key=$2 ;;
            --ca-file) ca_file=$2 ;;
            --proxy) proxy=$2 asked=yes ;;
            --group) group=$2 asked=yes ;;
            esac
            shift
            ;;
        --insecure) insecure=yes ;;
        --no-enable) no_enable=yes ;;
        --dry-run) dry_run=yes ;;
        --yes | -y) yes=yes ;;
        --help | -h) usage && exit 0 ;;
        --)
            shift
            more=$* asked=yes
            break
            ;;
        *) misused "unknown option $1" ;;
        esac
        shift
    done
    # What is left is for `enable`, word by word.
    extra_count=$#
    case $url in
    '' | /* | *://*) ;;
    *) if [ -d "$url" ]; then url=$(unset CDPATH && cd -- "$url" && pwd); fi ;;
    esac
    url=${url%/}
    if [ -n "$file_given" ]; then url=''; fi
    [ -n "$url$file_given" ] || misused "give --url or --file"
    case $wanted_version in *[!A-Za-z0-9.~+-]*) misused "--version $wanted_version is no version" ;; esac
    for file in "$public_key" "$ca_file"; do
        [ -z "$file" ] || [ -r "$file" ] || fail "cannot read $file"
    done
    case $url in '' | /* | file://*) ;; *) check_scheme "$url" ;; esac
}

main() {
    set -eu
    umask 022
    LC_ALL=C
    export LC_ALL
    work='' transfer=''
    parse "$@"
    shift $(($# - extra_count))
    if [ "$(id -u)" != 0 ] && [ -z "$dry_run" ]; then fail "only root can install packages: run it with sudo, or with --dry-run"; fi
    look_at_host
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if has mktemp; then
        work=$(mktemp -d "${TMPDIR:-/tmp}/teleport-update.XXXXXX") || fail "cannot make a directory in ${TMPDIR:-/tmp}"
    else
        (umask 077 && mkdir "${TMPDIR:-/tmp}/teleport-update.$$") || fail "cannot make a directory in ${TMPDIR:-/tmp}"
        work=${TMPDIR:-/tmp}/teleport-update.$$
    fi
    fetcher=''
    if [ -n "$file_given" ]; then
        look_at_file
    else
        case $url in /* | file://*) ;; *) choose_fetcher ;; esac
        if [ -n "$insecure" ]; then say "warning: --insecure: what $url sends is not verified${public_key:+ except by the signature}"; fi
        get_list
        choose_package
    fi
    installed_version teleport-update
    present=$installed
    plan_enable
    if [ -n "$present" ] && ! is_after "$version" "$present"; then
        say "teleport-update $present is installed, and $version is not newer"
        if [ -z "$enables" ]; then
            say "nothing to do (updates: ${why_not})"
            return
        fi
        explain_enable
        [ -z "$dry_run" ] || return 0
        ask
    else
        explain
        [ -z "$dry_run" ] || return 0
        ask
        if [ -z "$file_given" ]; then
            package=$work/$name
            download "$url/$name" "$package"
        fi
        if [ -n "$sum" ]; then
            actual=$(digest "$package") || fail "no sha256sum, shasum, openssl, busybox, python3 or perl to check $name with"
            [ "$actual" = "$sum" ] || fail "$name has the SHA-256 $actual, not $sum as in SHA256SUMS: nothing was installed"
        fi
        installed_version teleport-ent-updater
        replaced=$installed
        install_package "$package"
        if [ "$format:$replaced" != "$format:" ]; then keep_agents; fi
        say "installed teleport-update $version"
    fi
    if [ -z "$enables" ]; then return; fi
    if [ -n "$group" ]; then set -- --group "$group" "$@"; fi
    if [ -n "$proxy" ]; then set -- --proxy "$proxy" "$@"; fi
    status=0
    # By its full path: until then a program of that name of another updater can come first in PATH.
    "$BOOTSTRAP" enable "$@" </dev/null || status=$?
    if [ $status != 0 ]; then
        say "install.sh: teleport-update is installed, but \`$enable_line\` failed with status $status, see above;" \
            "you can run this script again" >&2
        exit 3
    fi
}

{ main "$@"; exit; }
