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
# Relaxed vectors are behind a flag in some versions of node, and unknown to older ones; with them both tables are there.
features=+simd128 tables=simd128,portable flag=
relaxed='new WebAssembly.Module(new Uint8Array([0,97,115,109,1,0,0,0,1,8,1,96,3,123,123,123,1,123,3,2,1,0,10,13,1,11,0,32,0,32,1,32,2,253,133,2,11]))'
for try in "" --experimental-wasm-relaxed-simd; do
    if node $try -e "$relaxed" 2>/dev/null; then
        features=+simd128,+relaxed-simd tables=relaxed-simd,simd128,portable flag=$try
        break
    fi
done
export CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings $flag $PWD/scripts/wasi-run.mjs"
# Dependencies run once in a while, so their build time counts more than their speed.
build=(--config 'profile.dev.package."*".opt-level=0' -p rawloop-cpu --target "$target" --test kernels)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

printf '\n== wasm: tables %s\n' "$tables"
RAWLOOP_TABLES=$tables RUSTFLAGS="-C target-feature=$features" cargo test -q "${build[@]}" 2>&1 | tee "$log"

awk '/^test result:/ { passed += $4; failed += $6 } END { printf "\nwasm: %d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }' "$log"
