# The single entry: `make` lists what there is. Everything is built, linted and tested for the target that ships (static,
# musl), so that dependencies are compiled once and tests run what is delivered.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

TARGETS := x86_64-unknown-linux-musl aarch64-unknown-linux-musl
NATIVE := $(shell uname -m)-unknown-linux-musl
TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
RELEASE := --locked --release --package teleport-update
STATIC := $(foreach t,$(TARGETS),$(TARGET_DIR)/$(t)/release/teleport-update)

# SQLite and ring are C: for the native target with Debian's musl-gcc, for the other one with zig, which also links it.
export CC_$(subst -,_,$(NATIVE)) ?= musl-gcc
ZIG := $(TARGET_DIR)/zig
ZIG_VERSIONS := cargo-zigbuild==0.24.0 ziglang==0.17.0

# Where a copy of RustSec's database lies beside the checkout it is used as it is; else cargo-audit fetches its own.
ADVISORY_DB ?= $(wildcard ../shared/advisory-db)

CARGO_FLAGS := --locked --target $(NATIVE)
SCRIPTS := .ci/run $(shell find tests packaging selinux -name '*.sh')

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install what is missing: rustup targets, cargo tools, Debian packages (as root; else says which)
	@tests/setup.sh build lint beds

.PHONY: build
build: setup-build ## Debug binaries of the workspace, static, for this machine
	cargo build $(CARGO_FLAGS) --workspace --bins
	@ls -l $(TARGET_DIR)/$(NATIVE)/debug/teleport-update

# The released binary does not tell where it was built, so that two checkouts give the same bytes.
REMAP := $(TARGET_DIR)=/target $(CURDIR)=/teleport-update $(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo
REMAP_RUST := $(REMAP:%=--remap-path-prefix=%)
# Unwind tables are a tenth of the binary, and nobody reads them: a panic aborts.
LEAN := -C link-arg=-Wl,-T,$(CURDIR)/build/unwind.ld
# A position-independent program relocates itself; as a bitmap (RELR, which musl reads since 1.2.4) that is 128 KB less. zig's
# linker does not know the option.
LEAN_$(NATIVE) := -C link-arg=-Wl,-z,pack-relative-relocs
static crash package native: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS := \
    $(REMAP_RUST) $(LEAN) $(LEAN_x86_64-unknown-linux-musl)
# Rust's aarch64 target is static but, unlike its x86_64 one, not position-independent unless told.
static crash package native: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS := \
    $(REMAP_RUST) $(LEAN) $(LEAN_aarch64-unknown-linux-musl) -C relocation-model=pic -C link-arg=-pie
static crash package native: export CFLAGS_x86_64_unknown_linux_musl := $(REMAP:%=-ffile-prefix-map=%)
static crash package native: export CFLAGS_aarch64_unknown_linux_musl := $(REMAP:%=-ffile-prefix-map=%)

.PHONY: static
static: export PATH := $(ZIG)/bin:$(PATH)
static: setup-build $(ZIG)/ready ## Release binaries for x86_64 and aarch64: static, position-independent, stripped
	cargo $(if $(filter x86_64-%,$(NATIVE)),build,zigbuild) $(RELEASE) --target x86_64-unknown-linux-musl
	cargo zigbuild $(RELEASE) --target aarch64-unknown-linux-musl
	@tests/static.sh $(STATIC)

$(ZIG)/ready: Makefile
	@echo "static: $(ZIG_VERSIONS) into $(ZIG)"
	@rm -rf $(ZIG)
	@python3 -m venv $(ZIG)
	@$(ZIG)/bin/pip install --quiet --disable-pip-version-check $(ZIG_VERSIONS)
	@touch $@

# The debug binaries: static as well, for the same target, and what `make test` runs; no second build with LTO to wait for.
.PHONY: demo
demo: DEMO := $(TARGET_DIR)/$(NATIVE)/debug
demo: setup-beds build ## A host's life in a minute: install, update, a broken release, downgrade (bed, else sandbox)
	@if tests/beds/bed.sh can >/dev/null; then tests/beds/root.sh >/dev/null; fi
	@tests/demo.sh $(DEMO)/teleport-update $(DEMO)/toy-agent $(DEMO)/test-cluster

# nextest where it is installed: it runs tests in parallel and kills one that hangs. Its summary, or ours, is the last line.
# systemd 229, 237, 247, 252, 257; rpm and dnf; cloud-init.
ROOTS := bookworm bookworm-rpm bookworm-cloud bookworm-needrestart bullseye trixie bionic xenial
.PHONY: test
test: export TEST_AGENT := $(TARGET_DIR)/$(NATIVE)/debug/toy-agent
test: export TEST_UPDATER := $(TARGET_DIR)/$(NATIVE)/debug/teleport-update
test: setup-beds setup-packages setup-selinux build ## All tests, black box and beds included (beds need root; elsewhere they are skipped)
	@# Before the tests, whose deadlines are for tests.
	@tests/beds/roots.sh $(ROOTS)
	@if cargo nextest --version >/dev/null 2>&1; then \
	    (set -x; cargo test $(CARGO_FLAGS) --workspace --doc); \
	    (set -x; cargo nextest run $(CARGO_FLAGS) --workspace --config-file tests/nextest.toml --no-fail-fast \
	        --test-threads $$((2 * $$(nproc)))); \
	else \
	    (set -x; cargo test $(CARGO_FLAGS) --workspace --no-fail-fast) 2>&1 | awk \
	        '{ print; fflush() } /^test result:/ { passed += $$4; failed += $$6 } \
	        END { printf "%d passed, %d failed\n", passed, failed }'; \
	fi

# Each kind of bed lives a whole life; `make test` has those of apt and dnf. The arm64 one runs the release binary under qemu.
E2E_ARM64 := $(TARGET_DIR)/e2e-arm64
.PHONY: e2e
e2e: export TEST_AGENT := $(TARGET_DIR)/$(NATIVE)/debug/toy-agent
e2e: export TEST_UPDATER := $(TARGET_DIR)/$(NATIVE)/debug/teleport-update
e2e: export E2E_ARM64_PACKAGES := $(E2E_ARM64)
e2e: export E2E_ARM64_AGENT := $(TARGET_DIR)/aarch64-unknown-linux-musl/debug/toy-agent
e2e: setup-beds setup-packages setup-arm64 static build ## Whole lives, package to purge, in every kind of bed; a matrix
	PATH=$(ZIG)/bin:$$PATH cargo zigbuild --locked --target aarch64-unknown-linux-musl --package toy-agent
	rm -rf $(E2E_ARM64) $(TARGET_DIR)/$(NATIVE)/tmp/e2e
	for version in 1.0.0 1.2.0; do packaging/build.sh --out $(E2E_ARM64) --version $$version --level 0 \
	    --binary amd64=$(word 1,$(STATIC)) --binary arm64=$(word 2,$(STATIC)) >/dev/null; done
	tests/beds/roots.sh bookworm bookworm-rpm bullseye trixie bookworm-arm64
	cargo test $(CARGO_FLAGS) --test suite e2e:: -- --include-ignored --test-threads 1
	tests/suite/packaging/e2e/matrix.sh $(TARGET_DIR)/$(NATIVE)/tmp/e2e

# Fedora's policy for the flows of e2e-vm; where it is not, only Debian's is tried, and the table says so.
FEDORA_POLICY ?= $(wildcard ../shared/beds/fedora-targeted.tar.xz)

# An enforcing SELinux machine under qemu, without KVM: half an hour for each policy.
.PHONY: e2e-vm
e2e-vm: setup-selinux setup-vm build ## Every flow under SELinux, Debian's policy and Fedora's, in a virtual machine: no denial, every label right, negative tests
	FEDORA_POLICY="$(FEDORA_POLICY)" tests/selinux/run.sh $(addprefix $(TARGET_DIR)/$(NATIVE)/debug/,teleport-update toy-agent test-cluster)

# The exhaustive suites, on the binary that ships. `make test` has a slice of them.
.PHONY: crash
crash: setup-build setup-beds ## Crash suites, whole: each system call killed, each failing, power cuts; a table of each
	cargo build $(RELEASE) --target $(NATIVE)
	cargo build $(CARGO_FLAGS) --package test-crash --package toy-agent
	$(TARGET_DIR)/$(NATIVE)/debug/test-crash $(CRASH) $(TARGET_DIR)/$(NATIVE)/release/teleport-update

# Random lives: of the pure rules (a second for about 150), and of images under the real program (some seconds each).
MODEL_CASES ?= 30000
MODEL_SEEDS ?= 200
.PHONY: model
model: setup-build ## Model tests, whole: MODEL_CASES lives of the pure rules, MODEL_SEEDS of the real program
	PROPTEST_CASES=$(MODEL_CASES) cargo test $(CARGO_FLAGS) --package teleport-update --lib model::
	MODEL_SEEDS=$(MODEL_SEEDS) cargo test $(CARGO_FLAGS) --package teleport-update --test suite crash::model::

# Which modules are mutated, and what is asked about each mutant: the unit tests, the model among them.
MUTANTS ?= src/plan/** src/store/** src/database/** src/execute/**
.PHONY: mutants
mutants: export CARGO_BUILD_TARGET := $(NATIVE)
mutants: setup-build setup-mutants ## Mutation testing of MUTANTS against the unit tests; a list of the survivors (hours)
	cargo mutants --jobs 1 --timeout 120 --output $(TARGET_DIR)/mutants --cargo-arg=--lib \
	    $(foreach files,$(MUTANTS),--file '$(files)')

.PHONY: planted
planted: setup-build setup-beds ## Plants faults in copies of the source, and requires the crash suites to see each
	cargo build $(CARGO_FLAGS) --package test-crash --package toy-agent
	tests/crash/planted/run.sh $(TARGET_DIR) $(TARGET_DIR)/$(NATIVE)/debug/test-crash $(CARGO_FLAGS)

# Side by side on this machine, best with nothing else on it. BENCH=quick: a smaller run, which leaves the page alone.
BENCH ?=
BENCH_WORK := $(TARGET_DIR)/bench

# Optimised: the updater as it ships, and what must not be slower than it.
.PHONY: native
native: setup-build
	cargo build $(RELEASE) --target $(NATIVE)
	cargo build --locked --release --target $(NATIVE) --package test-cluster
	cargo build --locked --release --target $(NATIVE) --package test-limit

.PHONY: bench
bench: setup-build setup-beds setup-bench native ## Measure beside curl, tar, systemd-sysupdate; makes docs/performance.md (a quarter of an hour; BENCH=quick)
	cargo build $(CARGO_FLAGS) --package test-bench --package toy-agent
	@tests/beds/roots.sh bookworm trixie-sysupdate
	$(TARGET_DIR)/$(NATIVE)/debug/test-bench $(if $(BENCH),--$(BENCH)) --work $(BENCH_WORK) \
	    --out $(if $(BENCH),$(BENCH_WORK),docs) $(TARGET_DIR)/$(NATIVE)/release/teleport-update \
	    $(TARGET_DIR)/$(NATIVE)/debug/toy-agent $(addprefix $(TARGET_DIR)/$(NATIVE)/release/,test-cluster test-limit)

.PHONY: fuzz
fuzz: setup-fuzz ## Fuzz what reads foreign bytes, FUZZ_SECONDS (60) a target, needs nightly; FUZZ_TARGETS='find tar' for some
	@tests/fuzz.sh $(FUZZ_TARGETS)

# Packages of the release binaries: the same checkout gives the same bytes. Checksums and SBOM (CycloneDX) lie beside them.
PACKAGES := $(TARGET_DIR)/package
VERSION := $(shell awk -F '"' '/^version = / {print $$2; exit}' Cargo.toml)
.PHONY: package
package: static setup-packages setup-selinux setup-vm setup-arm64 setup-sbom ## deb and rpm for amd64 and arm64, linted, with checksums and SBOM
	rm -rf $(PACKAGES)
	mkdir -p $(PACKAGES)
	selinux/build.sh $(TARGET_DIR)/teleport-update.cil
	packaging/build.sh --out $(PACKAGES) --version $(VERSION) --selinux $(TARGET_DIR)/teleport-update.cil \
	    --binary amd64=$(word 1,$(STATIC)) --binary arm64=$(word 2,$(STATIC))
	packaging/sbom.sh $(PACKAGES) $(TARGETS)
	install -m 755 packaging/install.sh $(PACKAGES)
	cd $(PACKAGES) && sha256sum -- install.sh >>SHA256SUMS
	packaging/lint.sh $(PACKAGES)

.PHONY: lint
lint: setup-lint ## Formatting, clippy, shell scripts, licences and sources of dependencies, known vulnerabilities
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	if command -v shellcheck >/dev/null; then shellcheck -x -P SCRIPTDIR $(SCRIPTS); fi
	cargo deny --locked check licenses bans sources
	cargo audit --deny warnings $(if $(ADVISORY_DB),--db $(ADVISORY_DB) --no-fetch)

.PHONY: docs
docs: build ## The crates' documentation (a broken link is an error) and the manual page
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc $(CARGO_FLAGS) --workspace --no-deps --document-private-items
	@mkdir -p $(TARGET_DIR)/man
	$(TARGET_DIR)/$(NATIVE)/debug/teleport-update man >$(TARGET_DIR)/man/teleport-update.8

.PHONY: clean-beds
clean-beds: ## Take down every bed and remove their root file systems
	tests/beds/bed.sh clean
	tests/beds/vm.sh clean
	tests/beds/root.sh clean

.PHONY: setup-build setup-lint setup-beds setup-packages setup-selinux setup-vm setup-arm64 setup-sbom setup-fuzz setup-mutants setup-bench
setup-build setup-lint setup-beds setup-packages setup-selinux setup-vm setup-arm64 setup-sbom setup-fuzz setup-mutants setup-bench: setup-%:
	@tests/setup.sh $*
