#!/usr/bin/env bash
# The kernels compiled for WebAssembly with 128-bit vectors, against the scalar oracle, under node.
# Ends well with a message where node (18 or newer) or the target cannot be had. Says at the end how many tests ran.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "wasm: skipped: $*"; exit 0; }

target=wasm32-wasip1
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' 2>/dev/null || skip "node 18 or newer is not installed"
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    rustup target add "$target" >/dev/null 2>&1 || skip "the Rust target $target cannot be installed"
fi

export CARGO_TARGET_DIR="${RAWLOOP_WASM_TARGET_DIR:-target/wasm}"
export CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings $PWD/scripts/wasi-run.mjs"
# Dependencies run once in a while, so their build time counts more than their speed.
build=(--config 'profile.dev.package."*".opt-level=0' -p rawloop-cpu --target "$target" --test kernels)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

run() { # the tables that must be there, flags of the compiler
    printf '\n== wasm: tables %s\n' "$1"
    RAWLOOP_TABLES=$1 RUSTFLAGS=$2 cargo test -q "${build[@]}" 2>&1 | tee -a "$log"
}

run simd128,portable "-C target-feature=+simd128"

awk '/^test result:/ { passed += $4; failed += $6 } END { printf "\nwasm: %d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }' "$log"
