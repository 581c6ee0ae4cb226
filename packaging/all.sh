#!/bin/bash
# all.sh TARGET_DIR AMD64 ARM64 FLEET_AMD64 FLEET_ARM64   the packages of the release binaries, the agent's updater's and the
# rollout server's with its image, in TARGET_DIR/package, linted, with checksums and SBOMs (CycloneDX) beside them. The same checkout gives
# the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=$1 amd64=$2 arm64=$3 fleet_amd64=$4 fleet_arm64=$5
packages=$target/package
version=$(awk -F '"' '/^version = / {print $2; exit}' Cargo.toml)

set -x
rm -rf "$packages"
mkdir -p "$packages"
selinux/build.sh "$target/teleport-update.cil"
packaging/build.sh --out "$packages" --version "$version" --selinux "$target/teleport-update.cil" \
    --binary "amd64=$amd64" --binary "arm64=$arm64"
selinux/build.sh "$target/teleport-fleet.cil"
packaging/build.sh --of packaging/fleet/package.conf --out "$packages" --version "$version" \
    --selinux "$target/teleport-fleet.cil" --binary "amd64=$fleet_amd64" --binary "arm64=$fleet_arm64"
packaging/sbom.sh "$packages" x86_64-unknown-linux-musl aarch64-unknown-linux-musl
packaging/oci.sh --out "$packages" --version "$version" --sbom "$packages" --binary "amd64=$fleet_amd64" --binary "arm64=$fleet_arm64"
install -m 755 packaging/install.sh "$packages"
(cd "$packages" && sha256sum -- install.sh >>SHA256SUMS)
packaging/lint.sh "$packages"
