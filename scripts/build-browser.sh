#!/usr/bin/env bash
# Builds the browser's module and page into FOLDER (target/browser/page where none is named): a static site with the embedded model's pack.
# Needs the Rust target wasm32-unknown-unknown.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-target/browser/page}
export CARGO_TARGET_DIR="${RAWLOOP_BROWSER_TARGET_DIR:-target/browser}" CARGO_INCREMENTAL=0
target=wasm32-unknown-unknown
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then rustup target add "$target" >/dev/null; fi
cargo build --release -p rawloop-browser --lib --target "$target" --config 'profile.release.debug=false' --config 'profile.release.strip="debuginfo"' --config 'profile.release.lto="fat"' --config 'profile.release.codegen-units=1'
cargo build -p rawloop-browser --features bind --bin rawloop-bind --config 'profile.dev.debug=false'
mkdir -p "$folder"
"$CARGO_TARGET_DIR/debug/rawloop-bind" "$CARGO_TARGET_DIR/$target/release/rawloop_browser.wasm" "$folder"
cp crates/browser/web/* models/tiny/tiny.rlp "$folder/"
printf '%s: module %s bytes, %s gzipped\n' "$folder" "$(stat -c %s "$folder/rawloop_bg.wasm")" "$(gzip -9 -c "$folder/rawloop_bg.wasm" | wc -c)"
