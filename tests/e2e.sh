#!/bin/bash
# e2e.sh TARGET_DIR NATIVE   whole lives, package to purge, in every kind of bed, and a matrix of them. The arm64 bed runs the
# release binary under qemu; both release binaries and the debug ones of NATIVE (a target) have been built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=$1 native=$2
export TEST_UPDATER=$target/$native/debug/teleport-update
export E2E_ARM64_PACKAGES=$target/e2e-arm64
export E2E_ARM64_AGENT=$target/aarch64-unknown-linux-musl/debug/toy-agent

set -x
PATH=$target/zig/bin:$PATH cargo zigbuild --locked --target aarch64-unknown-linux-musl --package testing --bin toy-agent
rm -rf "$E2E_ARM64_PACKAGES" "$target/$native/tmp/e2e"
for version in 1.0.0 1.2.0; do
    packaging/build.sh --out "$E2E_ARM64_PACKAGES" --version $version --level 0 \
        --binary "amd64=$target/x86_64-unknown-linux-musl/release/teleport-update" \
        --binary "arm64=$target/aarch64-unknown-linux-musl/release/teleport-update" >/dev/null
done
tests/beds/roots.sh bookworm bookworm-rpm bullseye trixie bookworm-arm64
cargo test --locked --target "$native" --test suite e2e:: -- --include-ignored --test-threads 1
tests/suite/packaging/e2e/matrix.sh "$target/$native/tmp/e2e"
