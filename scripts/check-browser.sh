#!/usr/bin/env bash
# The engine and the wgpu backend in a headless Chromium with its software adapter: built for WebAssembly, answers compared with the
# program's. Ends well with a message where the Rust target, node (20 or newer), Chromium or the npm packages cannot be had. Says at
# the end how many tests ran. RAWLOOP_BIN is the program; without it it is built.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "browser: skipped: $*"; exit 0; }

node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null || skip "node 20 or newer is not installed"
target=wasm32-unknown-unknown
[ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || rustup target add "$target" >/dev/null 2>&1 || skip "the Rust target $target cannot be installed"
chromium=${RAWLOOP_CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [ -z "$chromium" ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    { timeout 300 apt-get update -qq && timeout 600 apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || true
    chromium=$(command -v chromium || true)
fi
[ -n "$chromium" ] || skip "Chromium is not installed"
packages=target/browser-packages
wanted="playwright-core@1.65.1"
if [ "$(cat "$packages/installed" 2>/dev/null)" != "$wanted" ]; then
    mkdir -p "$packages"
    echo '{"private": true}' >"$packages/package.json"
    timeout 300 npm install --silent --no-fund --no-audit --ignore-scripts --prefix "$packages" "$wanted" >/dev/null 2>&1 || skip "the npm packages cannot be had"
    echo "$wanted" >"$packages/installed"
fi

page=target/browser/page
scripts/build-browser.sh "$page"
if [ -z "${RAWLOOP_BIN:-}" ]; then
    cargo build -q -p rawloop
    RAWLOOP_BIN=${CARGO_TARGET_DIR:-$PWD/target}/debug/rawloop
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The same conversation from the program: greedy, without drafts, which change nothing but are not there in a browser.
printf '%s\n' "What is the capital of France?" "And of Italy?" |
    "$RAWLOOP_BIN" chat --backend cpu --temperature 0 --draft off --ctx 512 --json >"$work/talk.jsonl"
node -e '
const questions = ["What is the capital of France?", "And of Italy?"];
const lines = require("fs").readFileSync(process.argv[1], "utf8").trim().split("\n").map(JSON.parse);
const answers = lines.filter((line) => line.finish_reason);
if (answers.length !== questions.length) throw new Error(`${answers.length} answers`);
process.stdout.write(JSON.stringify({ turns: answers.map(({ text }, at) => ({ question: questions[at], text })) }));
' "$work/talk.jsonl" >"$work/expected.json"

export RAWLOOP_BROWSER_PAGE="$PWD/$page" RAWLOOP_BROWSER_EXPECTED="$work/expected.json" RAWLOOP_WEB_PACKAGES="$PWD/$packages" RAWLOOP_CHROMIUM=$chromium
printf '\n== browser: %s\n' "$("$chromium" --version 2>/dev/null)"
status=0
node --test --test-concurrency=1 --test-reporter=spec crates/browser/tests/*.test.mjs 2>&1 | tee "$work/log" || status=$?
count() { awk -v name="$1" '$2 == name { n = $3 } END { print n + 0 }' "$work/log"; }
passed=$(count pass) failed=$(($(count fail) + $(count cancelled)))
echo "test result: $([ "$failed" = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; $(count skipped) ignored"
[ "$passed" -gt 0 ] && [ "$status" = 0 ]
