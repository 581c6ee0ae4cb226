# The single entry: `make` lists what there is. Everything is built, linted and tested for the target that ships (static,
# musl), so that dependencies are compiled once and tests run what is delivered.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

NATIVE := $(shell uname -m)-unknown-linux-musl
GLIBC := $(shell uname -m)-unknown-linux-gnu
TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
DEBUG := $(TARGET_DIR)/$(NATIVE)/debug
STATIC := $(foreach machine,x86_64 aarch64,$(TARGET_DIR)/$(machine)-unknown-linux-musl/release/teleport-update)
STATIC_FLEET := $(STATIC:%/release/teleport-update=%/server/teleport-fleet)
STATIC_KUBE := $(STATIC:%/teleport-update=%/teleport-kube-update)
CARGO_FLAGS := --locked --target $(NATIVE)
RELEASE := --locked --release --package teleport-update
SERVER := --locked --profile server --package teleport-fleet
KUBE := --locked --release --package teleport-kube-update
BUILD_X86_64 := $(if $(filter x86_64-%,$(NATIVE)),build,zigbuild)
include build/static.mk
SETUPS := $(addprefix setup-,build clocks lint beds packages selinux vm arm64 sbom fuzz mutants bench fleet-bench browser monitoring api tuf kube)
.PHONY: $(SETUPS) setup help check build static static-fleet static-kube demo demo-kube test test-all test-kube tuf-client api e2e e2e-vm way-back crash fleet-crash fleet-faults kube-faults kube-figures soak model mutants planted native bench fleet-bench blast fuzz pictures package oci-fleet oci-kube lint docs size clean-beds
$(SETUPS): setup-%:
	@tests/setup.sh $*

help: ## This list
	@echo "  Everything is built here: it needs rustup (https://rustup.rs), also \`make demo\` and \`make package\`."
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what is missing: rustup targets, cargo tools, Debian packages (as root; else says which)
	@tests/setup.sh build lint beds

# Increments make one changed line quick to build, and a build from nothing a quarter slower. So whoever has none yet gets none
# from what runs everything.
test test-all test-kube way-back docs lint: export CARGO_INCREMENTAL ?= $(if $(wildcard $(DEBUG)/incremental),1,0)

check: export TELEPORT_UPDATE_NO_BEDS := 1
check: export TEST_UPDATER := $(DEBUG)/teleport-update
check: setup-build ## While you work: formatting, clippy, unit tests and the quick black-box tests, in some minutes; no root, no beds
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	MAKEFLAGS= cargo build $(CARGO_FLAGS) --workspace --bins
	@NEXTEST_PROFILE=check tests/all.sh $(CARGO_FLAGS) --workspace

# Cargo takes all processors, also where `make` does something else beside it.
build: setup-build ## Debug binaries of the workspace, static, for this machine
	MAKEFLAGS= cargo build $(CARGO_FLAGS) --workspace --bins
	@ls -l $(DEBUG)/teleport-update

static: setup-build $(ZIG)/ready ## Release binaries for x86_64 and aarch64: static, position-independent, stripped
	cargo $(BUILD_X86_64) $(RELEASE) --target x86_64-unknown-linux-musl
	cargo zigbuild $(RELEASE) --target aarch64-unknown-linux-musl
	@tests/static.sh $(STATIC)

static-fleet: setup-build $(ZIG)/ready ## The same of the rollout server
	cargo $(BUILD_X86_64) $(SERVER) --target x86_64-unknown-linux-musl
	cargo zigbuild $(SERVER) --target aarch64-unknown-linux-musl
	@tests/static.sh $(STATIC_FLEET)

static-kube: setup-build $(ZIG)/ready ## The same of the Kubernetes updater
	cargo $(BUILD_X86_64) $(KUBE) --target x86_64-unknown-linux-musl
	cargo zigbuild $(KUBE) --target aarch64-unknown-linux-musl
	@tests/static.sh $(STATIC_KUBE)

# On the debug binaries: static as well, for the same target, and what `make test` runs; no second build with LTO to wait for.
demo: setup-beds build ## A host's life, then a fleet's rollout, in two minutes (bed, else sandbox)
	@if tests/beds/bed.sh can >/dev/null; then tests/beds/root.sh >/dev/null; fi
	@tests/demo.sh $(addprefix $(DEBUG)/,teleport-update toy-agent test-cluster teleport-fleet)

demo-kube: setup-build setup-kube build ## An agent in Kubernetes: a rollout, a bad image, a halt, in two minutes, on a real API server
	@tests/demo-kube.sh $(addprefix $(DEBUG)/,teleport-kube-update teleport-fleet demo-kube)

# Roots of beds before the tests, whose deadlines are for tests: systemd 229, 237, 247, 252, 257; rpm and dnf; cloud-init.
ROOTS := bookworm bookworm-rpm bookworm-cloud bookworm-needrestart bullseye trixie bionic xenial
# Beside the build: they wait for the network and the disk half of their time.
.PHONY: roots
roots:
	@tests/beds/roots.sh $(ROOTS)

# What `test` leaves to `test-all` is named in .config/nextest.toml.
test: export NEXTEST_PROFILE ?= test
test test-all: export TEST_UPDATER := $(DEBUG)/teleport-update
test test-all: setup-build setup-beds setup-packages setup-selinux setup-browser setup-monitoring setup-tuf
	@$(MAKE) --jobs 2 roots build
	$(if $(filter test-all,$@),@tests/api.sh $(DEBUG)/teleport-fleet)
	@tests/all.sh $(CARGO_FLAGS) --workspace
test-all: setup-api
test: ## Each fact once, black box and beds included (beds need root; elsewhere they are skipped)
test-all: ## All tests: each row with each flow, old systemds, images, packages of others, many cases

# One control plane for all of them, which ends some seconds after the last.
test-kube: export NEXTEST_PROFILE := kube
test-kube: setup-build setup-kube ## Tests with a real Kubernetes API server, from Debian's source (built once, in ten minutes); else skipped
	MAKEFLAGS= cargo build $(CARGO_FLAGS) --workspace --bins
	@tests/all.sh $(CARGO_FLAGS) --package kube-bed $(if $(wildcard kube/Cargo.toml),--package teleport-kube-update)

tuf-client: setup-build ## The TUF client of the agent with the command line of the public conformance suite; prints where it is
	cargo build $(CARGO_FLAGS) --package oracles --bin tuf-client
	@echo $(abspath $(DEBUG))/tuf-client

api: setup-build setup-api build ## Question the server's API by its own document for five minutes, with schemathesis
	@tests/api.sh $(DEBUG)/teleport-fleet

e2e: setup-beds setup-packages setup-arm64 static build ## Whole lives, package to purge, in every kind of bed; a matrix
	@tests/e2e.sh $(TARGET_DIR) $(NATIVE)

# Half an hour for each policy; without Fedora's only Debian's is tried, and the table says so.
FEDORA_POLICY ?= $(wildcard ../shared/beds/fedora-targeted.tar.xz)
e2e-vm: setup-selinux setup-vm build ## Every flow under SELinux, Debian's policy and Fedora's, in a virtual machine: no denial, every label right, negative tests
	FEDORA_POLICY="$(FEDORA_POLICY)" tests/selinux/run.sh $(addprefix $(DEBUG)/,teleport-update toy-agent test-cluster teleport-fleet)

# `make test` has three flows of each row.
way-back: export TEST_UPDATER := $(DEBUG)/teleport-update
way-back: setup-build setup-beds ## An agent runs at the end of every run: the whole table of what can be refused or delayed (some minutes)
	@$(MAKE) --jobs 2 roots build
	cargo test $(CARGO_FLAGS) --package teleport-update --test suite agent::way_back -- --include-ignored --test-threads $(shell expr 4 '*' $$(nproc))

# The exhaustive suites, on the binary that ships. `make test` has a slice of them.
crash: setup-build setup-beds ## Crash suites, whole: each system call killed, each failing, power cuts; a table of each
	cargo build $(RELEASE) --target $(NATIVE)
	cargo build $(CARGO_FLAGS) --package testing --bins
	$(DEBUG)/test-crash $(CRASH) $(TARGET_DIR)/$(NATIVE)/release/teleport-update

# A third of an hour; FLEET_CRASH='--flow halt-all' for some. `make test` has a slice.
fleet-crash: setup-build ## The rollout server, killed and failed at each system call of each of its decisions; a table of each
	cargo build $(CARGO_FLAGS) --package testing --package teleport-fleet --bins
	$(DEBUG)/test-fleet-crash $(FLEET_CRASH) $(DEBUG)/teleport-fleet

# Each seed is a rollout of some seconds with some faults: docs/internals/faults.md. `make test` has two.
fleet-faults: setup-build ## Three rollout servers, PostgreSQL with a standby and hosts, with the faults of SEEDS=n rollouts (30); a table
	cargo build $(CARGO_FLAGS) --package testing --package teleport-fleet --bins
ifdef CLOCKS
	@tests/setup.sh clocks
	cargo build --locked --target $(GLIBC) --package teleport-fleet --bins
endif
	PROGRAM=$(TARGET_DIR)/$(GLIBC)/debug/teleport-fleet $(DEBUG)/test-fleet-faults --seeds $(or $(SEEDS),30) --from $(or $(FROM),1) \
		$(if $(CLOCKS),tests/skewed.sh,$(DEBUG)/teleport-fleet)

# The slice of `make test-kube` is the same with two points of each flow. KUBE_FAULTS_SEED, _FLOWS, _KIND and _WIDTH: kube/tests/suite/faults.rs.
kube-faults: setup-build setup-kube ## Each call of each flow of the Kubernetes updater with each fault, and two leaders in 1000 orders; a table (half an hour)
	cargo test $(CARGO_FLAGS) --package teleport-kube-update --test suite -- --ignored --nocapture --test-threads 1 faults:: leaders::

kube-figures: setup-build setup-kube ## What the Kubernetes updater takes with 1 and with 200 agents: memory, calls a minute (ten minutes)
	cargo build $(KUBE) --target $(NATIVE)
	TEST_KUBE_UPDATER=$(TARGET_DIR)/$(NATIVE)/release/teleport-kube-update \
		cargo test $(CARGO_FLAGS) --package teleport-kube-update --test suite -- --ignored --nocapture figures::

# Side by side; each prints what it needs every minute.
soak: setup-build ## The same for HOURS=n (2), and one server with a file: memory and descriptors must stay
	cargo build $(SERVER) --target $(NATIVE)
	cargo build $(CARGO_FLAGS) --package testing --bins
	@pids=; for file in "" --file; do \
	    $(DEBUG)/test-fleet-faults --hours $(or $(HOURS),2) $$file $(TARGET_DIR)/$(NATIVE)/server/teleport-fleet & pids="$$pids $$!"; \
	done; for pid in $$pids; do wait $$pid; done

# Random lives: of the pure rules (a second for about 150), and of images under the real program (some seconds each). Then every
# order of the steps of several nodes of the rollout server, optimised: docs/internals/model.md.
model: setup-build ## Model tests, whole: MODEL_CASES lives of the pure rules, MODEL_SEEDS of the real program, nodes of the server
	PROPTEST_CASES=$(or $(MODEL_CASES),30000) cargo test $(CARGO_FLAGS) --package teleport-update --lib model::
	MODEL_SEEDS=$(or $(MODEL_SEEDS),200) cargo test $(CARGO_FLAGS) --package teleport-update --test suite crash::model::
	CARGO_PROFILE_DEV_OPT_LEVEL=2 cargo test $(CARGO_FLAGS) --package fleet-engine --test model -- --ignored whole --nocapture --test-threads 1

# Which modules are mutated, and what is asked about each mutant: the unit tests, the model among them.
MUTANTS ?= src/plan/** src/store/** src/database/** src/execute/**
mutants: export CARGO_BUILD_TARGET := $(NATIVE)
mutants: setup-build setup-mutants ## Mutation testing of MUTANTS against the unit tests; a list of the survivors (hours)
	cargo mutants --jobs 1 --timeout 120 --test-tool nextest --output $(TARGET_DIR)/mutants --cargo-arg=--lib $(foreach files,$(MUTANTS),--file '$(files)')

planted: setup-build setup-beds ## Plants faults in copies of the source, and requires the crash suites to see each
	cargo build $(CARGO_FLAGS) --package testing --bins
	testing/planted/run.sh $(TARGET_DIR) $(DEBUG)/test-crash $(CARGO_FLAGS)

native: setup-build # Optimised: the updater as it ships, and what must not be slower than it.
	cargo build $(RELEASE) --target $(NATIVE)
	cargo build --locked --release --target $(NATIVE) --package testing --bin test-cluster --bin test-limit

# Side by side on this machine, best with nothing else on it. BENCH=quick: a smaller run, which leaves the page alone.
bench: setup-build setup-beds setup-bench native ## Measure beside curl, tar, systemd-sysupdate; makes docs/performance.md (a quarter of an hour; BENCH=quick)
	cargo build $(CARGO_FLAGS) --package testing --bins
	@tests/bench/run.sh $(TARGET_DIR) $(NATIVE) $(BENCH)

fleet-bench: setup-build setup-fleet-bench ## Measure the rollout server beside nginx that serves the same bytes, and its reports; prints tables
	cargo build $(SERVER) --target $(NATIVE)
	cargo build $(SERVER) --target $(NATIVE) --example reports --example million --example arrivals
	@tests/bench/fleet.sh $(TARGET_DIR)/$(NATIVE)/server/teleport-fleet
	@tests/bench/reports.sh $(TARGET_DIR)/$(NATIVE)/server/teleport-fleet $(TARGET_DIR)/$(NATIVE)/server/examples/reports
	@tests/bench/million.sh $(TARGET_DIR)/$(NATIVE)/server/teleport-fleet $(TARGET_DIR)/$(NATIVE)/server/examples/million \
		$(TARGET_DIR)/$(NATIVE)/server/examples/arrivals
	@cargo test $(CARGO_FLAGS) --package teleport-fleet --test suite -- --ignored --nocapture stop::measure | grep '^|'
	@$(MAKE) blast

blast: setup-build ## Simulate a bad release under our example policy and its peers'; makes docs/blast-radius.md (ten minutes)
	cargo build --locked --profile server --target $(NATIVE) --package fleet-simulator --example blast
	@$(TARGET_DIR)/$(NATIVE)/server/examples/blast docs

fuzz: setup-fuzz ## Fuzz what reads foreign bytes, FUZZ_SECONDS (60) a target, needs nightly; FUZZ_TARGETS='find tar' for some
	@tests/fuzz.sh $(FUZZ_TARGETS)

pictures: setup-build setup-browser ## The dashboard's pages as docs/pictures, by Chromium
	cargo test $(CARGO_FLAGS) --package teleport-fleet --test browser -- --ignored pictures

package: static static-fleet setup-packages setup-selinux setup-vm setup-arm64 setup-sbom ## deb and rpm of both programs, the server's image, for amd64 and arm64, linted, with checksums and SBOMs
	@packaging/all.sh $(TARGET_DIR) $(STATIC) $(STATIC_FLEET)

oci-fleet: static-fleet setup-sbom ## The rollout server's container image (OCI layout, amd64 and arm64) with its SBOM, without a container engine
	@rm -rf $(TARGET_DIR)/oci && mkdir -p $(TARGET_DIR)/oci/sbom
	@packaging/sbom.sh $(TARGET_DIR)/oci/sbom x86_64-unknown-linux-musl aarch64-unknown-linux-musl
	@packaging/oci.sh --out $(TARGET_DIR)/oci --version $$(awk -F '"' '/^version = / {print $$2; exit}' Cargo.toml) --sbom $(TARGET_DIR)/oci/sbom \
	    --binary amd64=$(firstword $(STATIC_FLEET)) --binary arm64=$(lastword $(STATIC_FLEET))

oci-kube: static-kube setup-sbom ## The same of the Kubernetes updater
	@rm -rf $(TARGET_DIR)/oci-kube && mkdir -p $(TARGET_DIR)/oci-kube/sbom
	@packaging/sbom.sh $(TARGET_DIR)/oci-kube/sbom x86_64-unknown-linux-musl aarch64-unknown-linux-musl
	@packaging/oci.sh --of packaging/kube/package.conf --out $(TARGET_DIR)/oci-kube --sbom $(TARGET_DIR)/oci-kube/sbom \
	    --version $$(awk -F '"' '/^version = / {print $$2; exit}' Cargo.toml) \
	    --binary amd64=$(firstword $(STATIC_KUBE)) --binary arm64=$(lastword $(STATIC_KUBE))

# Where a copy of RustSec's database lies beside the checkout it is used as it is; else cargo-audit fetches its own.
ADVISORY_DB ?= $(wildcard ../shared/advisory-db)
SCRIPTS := .ci/run $(shell find build testing tests packaging selinux -name '*.sh')
lint: setup-lint ## Formatting, clippy, shell scripts, licences and sources of dependencies, known vulnerabilities
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	cargo clippy $(CARGO_FLAGS) --package teleport-fleet --no-default-features --all-targets -- -D warnings
	if command -v shellcheck >/dev/null; then shellcheck -x -P SCRIPTDIR $(SCRIPTS); fi
	cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	cargo deny --locked --workspace check licenses bans sources
	cargo audit --deny warnings $(if $(ADVISORY_DB),--db $(ADVISORY_DB) --no-fetch)

docs: build ## The crates' documentation (a broken link is an error) and the manual pages
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc $(CARGO_FLAGS) --workspace --no-deps --document-private-items
	@mkdir -p $(TARGET_DIR)/man
	for program in teleport-update teleport-fleet; do $(DEBUG)/$$program man >$(TARGET_DIR)/man/$$program.8; done

size: ## Lines of code and of tests, words of documentation, each beside its limit
	@tests/size.sh

clean-beds: ## Take down every bed and remove their root file systems
	tests/beds/bed.sh clean
	tests/beds/vm.sh clean
	tests/beds/root.sh clean
