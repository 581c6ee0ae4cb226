# The flags of the binaries that ship. Whoever changes a word here changes its bytes.

# SQLite and ring are C: for the native target with Debian's musl-gcc, for the other one with zig, which also links it.
export CC_$(subst -,_,$(NATIVE)) ?= musl-gcc
ZIG := $(TARGET_DIR)/zig

# Instructions that stand in many places are moved to one (90 KB), as LLVM does by itself for aarch64 when it minds size. Only
# what saves 9 bytes and more: without that bound, inflating and hashing would be 5 % slower.
OUTLINE := -C llvm-args=-enable-machine-outliner=always -C llvm-args=-outliner-benefit-threshold=9

# Increments, which a developer may have asked for, would be 4 KB more.
static static-fleet static-kube crash package native: export CARGO_INCREMENTAL := 0

# The released binary does not tell where it was built, so that two checkouts give the same bytes.
REMAP := $(TARGET_DIR)=/target $(CURDIR)=/teleport-update $(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo
REMAP_RUST := $(REMAP:%=--remap-path-prefix=%)
# Unwind tables are a tenth of the binary, and nobody reads them: a panic aborts.
LEAN := -C link-arg=-Wl,-T,$(CURDIR)/build/unwind.ld
# A position-independent program relocates itself; as a bitmap (RELR, which musl reads since 1.2.4) that is 128 KB less. zig's
# linker does not know the option.
LEAN_$(NATIVE) := -C link-arg=-Wl,-z,pack-relative-relocs
static static-kube crash package native: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS := \
    $(REMAP_RUST) $(LEAN) $(OUTLINE) $(LEAN_x86_64-unknown-linux-musl)
# Rust's aarch64 target is static but, unlike its x86_64 one, not position-independent unless told.
static static-kube crash package native: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS := \
    $(REMAP_RUST) $(LEAN) $(LEAN_aarch64-unknown-linux-musl) -C relocation-model=pic -C link-arg=-pie
static static-fleet static-kube crash package native: export CFLAGS_x86_64_unknown_linux_musl := $(REMAP:%=-ffile-prefix-map=%)
static static-fleet static-kube crash package native: export CFLAGS_aarch64_unknown_linux_musl := $(REMAP:%=-ffile-prefix-map=%)
# The rollout server unwinds: a request that panics ends its own connection. So its tables stay, and all else is the same.
static-fleet: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS := $(REMAP_RUST) $(LEAN_x86_64-unknown-linux-musl)
static-fleet: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS := \
    $(REMAP_RUST) $(LEAN_aarch64-unknown-linux-musl) -C relocation-model=pic -C link-arg=-pie
static static-fleet static-kube: export PATH := $(ZIG)/bin:$(PATH)

$(ZIG)/ready: build/zig.sh
	@build/zig.sh $(ZIG)
