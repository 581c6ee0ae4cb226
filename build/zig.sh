#!/bin/bash
# zig.sh DIR   installs zig, which compiles and links C for the other machine, and what has cargo use it, into a fresh DIR.
set -euo pipefail

dir=$1
versions=(cargo-zigbuild==0.24.0 ziglang==0.17.0)

echo "static: ${versions[*]} into $dir"
rm -rf "$dir"
python3 -m venv "$dir"
"$dir/bin/pip" install --quiet --disable-pip-version-check "${versions[@]}"
touch "$dir/ready"
