#!/usr/bin/env bash
# The kernels compiled for AArch64, against the scalar oracle, and the backend against the reference; emulated on other machines.
# The emulator stands for three CPUs: one with byte matrix products, one with byte dots, one with neither.
# Installs what it needs where it can, and ends well with a message where it cannot. Says at the end how many tests ran.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "arm: skipped: $*"; exit 0; }

target=aarch64-unknown-linux-gnu
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    rustup target add "$target" >/dev/null 2>&1 || skip "the Rust target $target cannot be installed"
fi
if [ "$(uname -m)" != aarch64 ]; then
    if ! command -v qemu-aarch64 >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
        packages=(qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
        root=()
        [ "$(id -u)" = 0 ] || root=(sudo -n)
        command -v apt-get >/dev/null || skip "qemu-aarch64 or aarch64-linux-gnu-gcc is missing, and there is no apt-get"
        "${root[@]}" apt-get update -qq >/dev/null 2>&1 || true
        "${root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null 2>&1 \
            || skip "cannot install ${packages[*]}"
    fi
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
fi

export CARGO_TARGET_DIR="${RAWLOOP_ARM_TARGET_DIR:-target/arm}" CARGO_INCREMENTAL=0
# Dependencies run once in a while, so their build time counts more than their speed.
build=(--config 'profile.dev.package."*".opt-level=0' -p rawloop-cpu --target "$target")
log=$(mktemp)
trap 'rm -f "$log"' EXIT

run() { # the CPU, the tables it must have, arguments of cargo test
    printf '\n== arm: %s: %s\n' "$1" "${*:3}"
    QEMU_CPU=$1 RAWLOOP_TABLES=$2 cargo test -q "${build[@]}" "${@:3}" 2>&1 | tee -a "$log"
}

if [ "$(uname -m)" = aarch64 ]; then
    run native "" --test kernels --test team --test topology
    run native "" --test backend -- taps:: tables::
else
    run max neon-i8mm,neon,portable --test kernels
    run cortex-a76 neon,portable --test kernels
    run cortex-a72 portable --test kernels every_table
    run max neon-i8mm,neon,portable --lib peak
    # Every stage of a small model against the reference, and many columns at once against each other.
    run max neon-i8mm,neon,portable --test backend -- taps::tiny_with_f32_and_i8 tables::tiny
fi

awk '/^test result:/ { passed += $4; failed += $6 } END { printf "\narm: %d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }' "$log"
