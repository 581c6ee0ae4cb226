#!/bin/bash
# build.sh [--of DESCRIPTION] --out DIR --version V [--binary ARCH=PATH].. [--selinux FILE.cil] [--level 0-9]
#
# Makes a deb and an rpm for each ARCH (amd64, arm64) out of finished binaries, and SHA256SUMS over all of DIR's packages.
# The same input gives the same bytes: times are SOURCE_DATE_EPOCH's (default: the last commit's). DESCRIPTION is the
# package.conf of a program (default: the agent's, beside this script); what goes into its packages is in `contents` beside it,
# and its maintainer scripts are in deb/ and rpm/. dpkg-deb and rpmbuild, the formats' own tools, write them. --level is xz's (6).
set -euo pipefail
export LC_ALL=C TZ=UTC
umask 022

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(dirname "$here")
# shellcheck source=project.conf
. "$here/project.conf"

die() { echo "build.sh: $*" >&2; exit 1; }

# Writes what `contents` names for format $1 below $2. Uses binary, native, selinux.
stage() {
    local format=$1 tree=$2 for mode path source kind file
    while read -r for mode path source kind; do
        case $for in '' | '#'*) continue ;; any | "$format") ;; *) continue ;; esac
        file=$tree$path
        mkdir -p "$(dirname "$file")"
        case $source in
        @binary) cp "$binary" "$file" ;;
        @selinux)
            if [ -z "$selinux" ]; then continue; fi
            cp "$selinux" "$file"
            ;;
        @help,*) IFS=, read -ra words <<<"${source#@help,}" && "$native" "${words[@]}" >"$file" ;;
        *)
            case $kind in
            link) ln -s "$source" "$file" && continue ;;
            tree)
                mkdir -p "$file" && cp -R "$top/$source/." "$file/"
                # What the checkout can run is run by people where it is installed, too.
                find "$file" -type d -exec chmod 755 {} + -o -perm /111 -exec chmod 755 {} + -o -exec chmod "$mode" {} +
                continue
                ;;
            *) cp "$top/$source" "$file" ;;
            esac
            ;;
        esac
        if [ "$kind" = gz ]; then gzip -9n <"$file" >"$file.new" && mv "$file.new" "$file"; fi
        chmod "$mode" "$file"
        if [ "$kind" = config ]; then echo "$path" >>"$work/config-files"; fi
    done <"$described/contents"
}

# A maintainer script: what both formats do, and what this format calls when.
script() {
    (cd "$top" && cat "${actions[@]}") && cat "$1"
}

# The KiB below $1 as dpkg-gencontrol counts them: a file's size rounded up, 1 for all else. How much a directory takes is
# the builder's file system's affair.
installed_size() {
    find "$1" -path "$1/DEBIAN" -prune -o -printf '%y %s\n' |
        awk '{ size += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print size }'
}

build_deb() {
    local arch=$1 tree=$work/deb-$1 each
    rm -f "$work/config-files"
    stage deb "$tree"
    mkdir -p "$tree/DEBIAN"
    {
        echo "$name ($debian_version) stable; urgency=medium"
        printf '\n  * Release %s. What changed is in NEWS.md.gz.\n\n' "$version"
        echo " -- $maintainer  $(date -R -d "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$tree/usr/share/doc/$name/changelog.gz"
    chmod 644 "$tree/usr/share/doc/$name/changelog.gz"
    cat >"$tree/DEBIAN/control" <<EOF
Package: $name
Version: $debian_version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(installed_size "$tree")
$deb_relations
Section: admin
Priority: optional
Homepage: $homepage
Description: $summary
$(sed -e 's/^$/./' -e 's/^/ /' <<<"$description")
EOF
    cp "$work/config-files" "$tree/DEBIAN/conffiles"
    for each in preinst postinst prerm postrm; do
        [ -e "$described/deb/$each" ] || continue
        { printf '#!/bin/sh\nset -e\n' && script "$described/deb/$each"; } >"$tree/DEBIAN/$each"
        chmod 755 "$tree/DEBIAN/$each"
    done
    (cd "$tree" && find . -type f ! -path './DEBIAN/*' -printf '%P\n' | sort | xargs -d '\n' md5sum >DEBIAN/md5sums)
    # What is younger than the epoch only because it was copied now.
    find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    # xz: dpkg before Debian 12 does not read zstd.
    dpkg-deb --root-owner-group -Zxz "-z$level" --build "$tree" "$out/${name}_${debian_version}_$arch.deb" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; die "dpkg-deb failed for $arch"; }
}

build_rpm() {
    local arch=$1 tree=$work/rpm-$1 machine spec=$work/$1.spec each
    machine=$(rpm_architecture "$arch")
    rm -f "$work/config-files"
    stage rpm "$tree"
    {
        cat <<EOF
Name: $name
Version: $rpm_version
Release: 1
Summary: $summary
License: $license
URL: $homepage
Packager: $maintainer
Group: System Environment/Base
$rpm_relations
AutoReqProv: no
%description
$description
%install
mkdir -p %{buildroot}
cp -a $tree/. %{buildroot}/
EOF
        for each in post preun postun posttrans; do
            [ -e "$described/rpm/$each" ] || continue
            printf '%%%s\n' "$each"
            script "$described/rpm/$each" | sed 's/%/%%/g'
        done
        echo %files
        # Directories of other programs too, which need not be there: several packages may own one, and the last takes it.
        (cd "$tree" && find . \( -type f -o -type l \) -printf '%P\n' -o -type d \( -path "*/$name*" -o -path './etc/?*' -o \
            -path './usr/share/bash-completion*' -o -path './usr/share/fish*' -o -path './usr/share/zsh*' -o \
            -path './usr/share/selinux*' \) -printf '%%dir %P\n') | sort |
            while read -r each; do
                case $each in
                '%dir '*) echo "%dir /${each#%dir }" ;;
                etc/*) echo "%config(noreplace) /$each" ;;
                usr/share/licenses/*) echo "%license /$each" ;;
                usr/share/man/*) echo "%doc /$each" ;;
                usr/share/doc/*) echo "%doc /$each" ;;
                *) echo "/$each" ;;
                esac
            done
        echo %changelog
        echo "* $(date -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y') $maintainer - $rpm_version-1"
        echo "- Release $version. What changed is in CHANGELOG.md."
    } >"$spec"
    # Times, build host and payload (xz and version 4 for rpm 4.11, RHEL 7) fixed; nothing stripped, linked or compressed again.
    HOME=$work rpmbuild -bb --target "$machine-linux" \
        -D "_topdir $work/rpmbuild" -D "_rpmdir $out" -D "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
        -D "_buildhost localhost" -D "use_source_date_epoch_as_buildtime 1" -D "clamp_mtime_to_source_date_epoch 1" \
        -D "_binary_payload w$level.xzdio" -D "__os_install_post %{nil}" -D "debug_package %{nil}" -D "_build_id_links none" \
        -D "_docdir_fmt %{NAME}" "$spec" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "rpmbuild failed for $arch"; }
}

of=$here/package.conf out='' version='' selinux='' level=6
declare -A binaries=()
while [ $# != 0 ]; do
    case $1 in
    --of) of=$2 ;;
    --out) out=$2 ;;
    --version) version=$2 ;;
    --level) level=$2 ;;
    --selinux) selinux=$(realpath "$2") ;;
    --binary) binaries[${2%%=*}]=$(realpath "${2#*=}") ;;
    *) die "unknown argument: $1 (see the head of $0)" ;;
    esac
    shift 2
done
if [ -z "$out" ] || [ -z "$version" ] || [ ${#binaries[@]} = 0 ]; then
    sed -n '2,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
fi
described=$(cd "$(dirname "$of")" && pwd)
# Sets what project.conf names as a program's own.
# shellcheck source=package.conf
. "$described/${of##*/}"
for tool in dpkg-deb rpmbuild; do
    command -v $tool >/dev/null || die "$tool is missing (make setup-packages)"
done
# Both formats order a ~ before the end: 1.1.0~rc.1 < 1.1.0, as semver does with its hyphen.
debian_version=${version/-/\~}
rpm_version=$debian_version
: "${SOURCE_DATE_EPOCH:=$(git -C "$top" log -1 --format=%ct 2>/dev/null || stat -c %Y "$here/contents")}"
export SOURCE_DATE_EPOCH
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Manual page and completions come from a binary that runs here.
native=
for arch in "${!binaries[@]}"; do
    if "${binaries[$arch]}" --version >/dev/null 2>&1; then native=${binaries[$arch]}; fi
done
[ -n "$native" ] || die "none of the binaries runs on this machine, and the manual page comes from one"

for arch in $(printf '%s\n' "${!binaries[@]}" | sort); do
    binary=${binaries[$arch]}
    rpm_architecture "$arch" >/dev/null || die "no such architecture: $arch (amd64, arm64)"
    build_deb "$arch"
    build_rpm "$arch"
done
(cd "$out" && sha256sum -- *.deb *.rpm >SHA256SUMS)
ls -l "$out"
