#!/bin/bash
# setup.sh   brings the programs of the bed of Kubernetes into a cache: etcd of Debian's package, and kube-apiserver and
#            kube-controller-manager, built from the source of Debian's package `kubernetes` in ten minutes with two processors.
#            Silent, and done at once, where they are there. Needs no root, and installs nothing. Where it cannot be done it says
#            so, and the tests that need them are skipped.
#
# KUBE_BED_CACHE   the cache (default: teleport-kube-bed below the user's caches)
# KUBE_BED_ETCD, KUBE_BED_APISERVER, KUBE_BED_MANAGER   programs of another version: with all three nothing is built
set -euo pipefail

version=1.20.2
cache=${KUBE_BED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/teleport-kube-bed}
ready=$cache/kubernetes-$version
sources=/etc/apt/sources.list.d/debian.sources

say() { echo "setup: $*" >&2; }
skip() {
    say "no kube-apiserver ($*): tests with Kubernetes are skipped"
    exit 0
}

[ -z "${KUBE_BED_ETCD-}" ] || [ -z "${KUBE_BED_APISERVER-}" ] || [ -z "${KUBE_BED_MANAGER-}" ] || exit 0
[ ! -d "$ready" ] || exit 0
[ -f $sources ] || skip "no $sources to take Debian's packages from"

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
# Another may have built it meanwhile.
[ ! -d "$ready" ] || exit 0
# What a killed build left.
rm -rf "$cache"/build.*
work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Packages and a source from where apt takes them, with lists of its own for these commands. Apt checks signatures and digests.
fetch() {
    local package options=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists"
        -o "Dir::Cache=$work/apt" -o APT::Sandbox::User=root -o Acquire::Languages=none)
    mkdir -p "$work/parts" "$work/lists/partial" "$work/apt/archives/partial" "$tree"
    sed 's/^Types:.*/Types: deb deb-src/' $sources >"$work/parts/debian.sources"
    cd "$work"
    apt-get "${options[@]}" update
    apt-get "${options[@]}" download etcd-server golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev
    for package in ./*.deb; do dpkg-deb -x "$package" "$work/root"; done
    apt-get "${options[@]}" source --download-only kubernetes
    tar -C "$tree" --strip-components 1 -xzf kubernetes_*"$version".orig.tar.gz
}

# The description of the API, which the source lacks: of the packages that ask for one, as its makefile has it.
describe() {
    local packages
    go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    packages=$(grep -rl --include='*.go' '^// +k8s:openapi-gen=' cmd pkg plugin staging/src/k8s.io |
        grep -v -e /code-generator/ -e /sample-apiserver/ -e /_examples/ -e /testdata/ | xargs -n 1 dirname | sort -u |
        sed -e 's,^staging/src/,k8s.io/kubernetes/vendor/,' -e t -e 's,^,k8s.io/kubernetes/,' | paste -sd ,)
    "$work/openapi-gen" --logtostderr -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
        -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$work/violations"
}

build() {
    # Its list of modules is too old for this Go's -mod=vendor: it is built as its makefile does, below a GOPATH.
    export GO111MODULE=off GOPATH=$work/gopath GOCACHE=$work/cache GOTMPDIR=$work GOROOT=$work/root/usr/lib/go-1.19 CGO_ENABLED=0
    export PATH=$GOROOT/bin:$PATH
    tree=$GOPATH/src/k8s.io/kubernetes
    fetch
    cd "$tree"
    # The vendored 1.0.1 crashes with this Go.
    rm -r vendor/github.com/modern-go/reflect2
    cp -r "$work/root/usr/share/gocode/src/github.com/modern-go/reflect2" vendor/github.com/modern-go/
    describe
    mkdir "$work/out"
    cp "$work/root/usr/bin/etcd" "$work/out/"
    # What `/version` answers.
    local name=k8s.io/kubernetes/vendor/k8s.io/component-base/version
    go build -trimpath -ldflags "-s -w -X $name.gitVersion=v$version -X $name.gitMajor=1 -X $name.gitMinor=20" \
        -o "$work/out/" ./cmd/kube-apiserver ./cmd/kube-controller-manager
}

say "building kube-apiserver and kube-controller-manager $version (ten minutes)"
export -f fetch describe build
export work version sources
# In a shell of its own: behind an `if` this one would go on after an error.
if ! nice bash -euo pipefail -c build </dev/null >"$work/log" 2>&1; then
    tail -n 20 "$work/log" >&2
    skip "its build failed"
fi
mv -T "$work/out" "$ready"
