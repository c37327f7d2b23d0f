#!/usr/bin/env bash
# The kernels compiled for WebAssembly with 128-bit vectors, against the scalar oracle, under node.
# Ends well with a message where node (18 or newer) or the target cannot be had. Says at the end how many tests ran.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "wasm: skipped: $*"; exit 0; }

target=wasm32-wasip1
export CARGO_TARGET_DIR="${RAWLOOP_WASM_TARGET_DIR:-target/wasm}" CARGO_INCREMENTAL=0
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' 2>/dev/null || skip "node 18 or newer is not installed"
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    rustup target add "$target" >/dev/null 2>&1 || skip "the Rust target $target cannot be installed"
fi

# A module of one function, f32x4.relaxed_madd: whether an engine knows relaxed vectors. Node 21 and newer do. Older ones have them
# behind a flag, unfinished: version 20 computes byte dots wrongly, so the flag is not used. Then a newer node is tried from npm.
relaxed='new WebAssembly.Module(new Uint8Array([0,97,115,109,1,0,0,0,1,8,1,96,3,123,123,123,1,123,3,2,1,0,10,13,1,11,0,32,0,32,1,32,2,253,133,2,11]))'
knows_relaxed() { "$1" -e "$relaxed" 2>/dev/null; }
node=$(command -v node)
if ! knows_relaxed "$node" && command -v npm >/dev/null; then
    newer="$CARGO_TARGET_DIR/node"
    [ -d "$newer" ] || npm install --silent --no-fund --no-audit --prefix "$newer" node@22 >/dev/null 2>&1 || rm -rf "$newer"
    found=$(find "$newer" -path '*/bin/node' -type f 2>/dev/null | head -n 1)
    if [ -n "$found" ] && knows_relaxed "$found"; then node=$(realpath "$found"); fi
fi
if knows_relaxed "$node"; then
    features=+simd128,+relaxed-simd tables=relaxed-simd,simd128,portable
else
    features=+simd128 tables=simd128,portable
    echo "wasm: no node with relaxed vectors: its table is not run"
fi
export CARGO_TARGET_WASM32_WASIP1_RUNNER="$node --no-warnings $PWD/scripts/wasi-run.mjs"
# Dependencies run once in a while, so their build time counts more than their speed.
build=(--config 'profile.dev.package."*".opt-level=0' -p rawloop-cpu --target "$target" --test kernels)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

printf '\n== wasm: tables %s\n' "$tables"
RAWLOOP_TABLES=$tables RUSTFLAGS="-C target-feature=$features" cargo test -q "${build[@]}" 2>&1 | tee "$log"

awk '/^test result:/ { passed += $4; failed += $6 } END { printf "\nwasm: %d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }' "$log"
