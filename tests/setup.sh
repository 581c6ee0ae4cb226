#!/bin/bash
# setup.sh GROUP..   installs what a group (build, lint, beds, packages, selinux, vm, arm64, sbom, fuzz, mutants, bench, fleet-bench, browser, monitoring, api, kube) lacks, one line for each thing done; silent if none.
#
# Debian packages are installed when root. Otherwise they are named: those of `build` are then an error; without those of
# `beds` the tests that need a bed are skipped; without those of `lint` their check is left out.
set -euo pipefail

deny=0.20.2
audit=0.22.2
cyclonedx=0.5.9
fuzz=0.13.2
mutants=27.1.0
axe_core=4.14.1
schemathesis=4.32.5
python_tuf=(tuf==7.0.0 "securesystemslib[crypto]==1.4.0")

say() { echo "setup: $*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

packages=()
needs() { has "$1" || packages+=("$2"); }

rust_targets() {
    if ! has rustup; then
        say "no rustup: the toolchain must bring the musl targets itself"
        return
    fi
    local target installed
    # Installs the toolchain that rust-toolchain.toml asks for, where it is missing.
    installed=$(rustup target list --installed)
    for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
        if ! grep -qx $target <<<"$installed"; then
            say "rustup target add $target"
            rustup --quiet target add $target
        fi
    done
}

# From source, for it is the one way that is everywhere; unoptimised, for they run for seconds and compile for minutes.
cargo_tool() {
    local tool=$1 version=$2
    if ! cargo "${tool#cargo-}" --version >/dev/null 2>&1; then
        say "cargo install $tool $version (some minutes)"
        CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
            CARGO_PROFILE_RELEASE_DEBUG=false cargo install --quiet --locked "$tool@$version"
    fi
}

# From backports where the suite's own does not fit what is installed: with package lists of its own, for this one command.
qemu() {
    local lists sources=/etc/apt/sources.list.d/debian.sources suite options
    if [ "$(id -u)" != 0 ] || ! has apt-get || ! [ -f $sources ] ||
        apt-get install -s --no-install-recommends qemu-system-x86 qemu-utils >/dev/null 2>&1; then
        packages+=(qemu-system-x86)
        return
    fi
    # shellcheck disable=SC1091 # the host's
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    lists=$(mktemp -d)
    mkdir "$lists/parts" "$lists/lists"
    # The suite itself, not those whose names begin with its own (-security, -updates).
    sed "/^Suites:/s/ $suite\( \|$\)/ $suite $suite-backports\1/" $sources >"$lists/parts/backports.sources"
    options=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$lists/parts" -o "Dir::State::lists=$lists/lists")
    say "apt-get install qemu-system-x86 from $suite-backports"
    if ! { apt-get "${options[@]}" update && DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y \
        --no-install-recommends -t "$suite-backports" qemu-system-x86 qemu-utils; } </dev/null >"$lists/log" 2>&1; then
        tail -n 20 "$lists/log" >&2
        say "apt-get failed"
    fi
    rm -rf "$lists"
}

# Out of Debian's package, which is not installed: it would start a Prometheus. For tests alone, below target/.
take_promtool() {
    local folder=${CARGO_TARGET_DIR:-$(dirname "${BASH_SOURCE[0]}")/../target}/promtool parts
    if [ -x "$folder/promtool" ]; then return; fi
    if ! has apt-get || ! has dpkg-deb; then
        say "no promtool, and no Debian to take it from: alert rules are not tested"
        return
    fi
    say "apt-get download prometheus, for promtool"
    parts=$(mktemp -d)
    if (cd "$parts" && { [ "$(id -u)" != 0 ] || apt-get update; } && apt-get -o APT::Sandbox::User=root download prometheus) \
        </dev/null >"$parts/log" 2>&1 && dpkg-deb -x "$parts"/prometheus_*.deb "$parts/tree" && mkdir -p "$folder"; then
        mv "$parts/tree/usr/bin/promtool" "$folder/promtool"
    else
        tail -n 20 "$parts/log" >&2
        say "apt-get failed: alert rules are not tested"
    fi
    rm -rf "$parts"
}

# Below the target directory, as nobody else's Python.
# take_python FOLDER WITHOUT PACKAGE...   packages of PyPI, in a folder below target/; WITHOUT them that is so.
take_python() {
    local folder=${CARGO_TARGET_DIR:-$(dirname "${BASH_SOURCE[0]}")/../target}/$1 without=$2 log
    shift 2
    if [ "$(cat "$folder/taken" 2>/dev/null)" = "$*" ]; then return; fi
    say "pip install $*"
    log=$(mktemp)
    if { python3 -m venv "$folder" && "$folder/bin/pip" install --quiet "$@"; } >"$log" 2>&1; then
        echo "$*" >"$folder/taken"
    else
        tail -n 20 "$log" >&2
        say "$without"
        rm -rf "$folder"
    fi
    rm -f "$log"
}

fatal=
axe=
api='' tuf=''
kube=
for group in "$@"; do
    case $group in
    build)
        rust_targets
        needs cc gcc
        needs musl-gcc musl-tools
        needs readelf binutils
        has python3 && python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
        fatal=yes
        ;;
    lint)
        rust_targets
        needs musl-gcc musl-tools
        needs shellcheck shellcheck
        cargo_tool cargo-deny $deny
        cargo_tool cargo-audit $audit
        ;;
    beds)
        needs mmdebstrap mmdebstrap
        needs debootstrap debootstrap
        needs systemd-nspawn systemd-container
        needs strace strace
        needs mkfs.xfs xfsprogs
        needs ansible-playbook ansible-core
        needs wget wget
        needs curl curl
        needs openssl openssl
        needs busybox busybox
        needs mksh mksh
        needs perl perl
        perl -MIO::Socket::SSL -e 1 2>/dev/null || packages+=(libio-socket-ssl-perl)
        needs dpkg-scanpackages dpkg-dev
        needs patch patch
        needs mksquashfs squashfs-tools
        ;;
    packages)
        needs dpkg-deb dpkg
        needs rpmbuild rpm
        needs lintian lintian
        needs rpmlint rpmlint
        needs createrepo_c createrepo-c
        needs gpg gnupg
        # Tests start servers of their own: Debian's need not run.
        needs haproxy haproxy
        if ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
            packages+=(postgresql)
            [ "$(id -u)" != 0 ] || { mkdir -p /etc/postgresql-common/createcluster.d &&
                echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/tests.conf; }
        fi
        ;;
    clocks)
        needs faketime faketime
        rustup target add "$(uname -m)-unknown-linux-gnu" >/dev/null
        ;;
    arm64)
        needs qemu-aarch64-static qemu-user-static
        needs arch-test arch-test
        ;;
    sbom)
        cargo_tool cargo-cyclonedx $cyclonedx
        ;;
    selinux)
        needs checkmodule checkpolicy
        needs semodule_package semodule-utils
        needs matchpathcon selinux-utils
        # The translator of modules is in the same package.
        needs setfiles policycoreutils
        needs m4 m4
        [ -f /usr/share/selinux/devel/Makefile ] || packages+=(selinux-policy-dev)
        ;;
    vm)
        needs mmdebstrap mmdebstrap
        needs setfiles policycoreutils
        needs mke2fs e2fsprogs
        needs ssh openssh-client
        needs python3 python3-minimal
        needs mksh mksh
        needs openssl openssl
        needs strip binutils
        if ! has qemu-system-x86_64; then qemu; fi
        needs qemu-img qemu-utils
        ;;
    fuzz)
        needs c++ g++
        needs cc gcc
        cargo_tool cargo-fuzz $fuzz
        ;;
    mutants)
        cargo_tool cargo-mutants $mutants
        ;;
    bench)
        needs curl curl
        needs strace strace
        needs findmnt util-linux
        ;;
    fleet-bench)
        needs wrk wrk
        needs nginx nginx-light
        needs openssl openssl
        needs curl curl
        needs taskset util-linux
        ;;
    browser)
        needs chromium chromium
        needs chromedriver chromium-driver
        needs npm npm
        axe=yes
        ;;
    monitoring)
        has promtool || take_promtool
        ;;
    api | tuf)
        python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3 python3-venv)
        declare "$group=yes"
        ;;
    kube)
        # Tests start one of their own: Debian's need not run.
        needs docker-registry docker-registry
        needs openssl openssl
        kube=yes
        ;;
    *)
        echo "usage: setup.sh build|lint|beds|packages|selinux|vm|arm64|sbom|fuzz|mutants|bench|fleet-bench|browser|monitoring|api|tuf|kube.." >&2
        exit 2
        ;;
    esac
done

if [ ${#packages[@]} != 0 ]; then
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
    if [ "$(id -u)" != 0 ] || ! has apt-get; then
        say "missing, and only root can install on Debian: apt-get install ${packages[*]}"
        [ -z "$fatal" ] || exit 1
        exit 0
    fi
    say "apt-get install ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if ! { apt-get update && apt-get install -y --no-install-recommends "${packages[@]}"; } </dev/null >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        say "apt-get failed"
        exit 1
    fi
fi

# What looks at pages for people who cannot see, or have no mouse: for tests alone, below target/.
if [ -n "$axe" ] && has npm; then
    folder=${CARGO_TARGET_DIR:-$(dirname "${BASH_SOURCE[0]}")/../target}/browser
    if ! grep -qs "\"version\": \"$axe_core\"" "$folder/node_modules/axe-core/package.json"; then
        say "npm install axe-core $axe_core"
        mkdir -p "$folder"
        npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix "$folder" "axe-core@$axe_core" >&2 ||
            say "npm failed: pages are not looked at by axe-core"
    fi
fi
if [ -n "$api" ]; then
    take_python schemathesis "no schemathesis: the API is not questioned by its document" "schemathesis==$schemathesis"
fi
if [ -n "$tuf" ]; then
    take_python python-tuf "no python-tuf: TUF repositories are compared with no other program's" "${python_tuf[@]}"
fi
if [ -n "$kube" ]; then
    "$(dirname "${BASH_SOURCE[0]}")/kube/setup.sh"
    "$(dirname "${BASH_SOURCE[0]}")/kube/tools.sh"
fi
