#!/usr/bin/env bash
# The web page in a headless Chromium: its own server behind it, answers told by the tests. Ends well with a message where node (20 or
# newer), Chromium or the npm packages cannot be had. Says at the end how many tests ran.
#
# RAWLOOP_WEB_SERVER is the address of a running server; without it the program is started here. RAWLOOP_BIN is the program; without it
# one is built.
# RAWLOOP_WEB_PICTURES is a folder for screenshots.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "web: skipped: $*"; exit 0; }

node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null || skip "node 20 or newer is not installed"

chromium=${RAWLOOP_CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [ -z "$chromium" ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    { timeout 300 apt-get update -qq && timeout 600 apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || true
    chromium=$(command -v chromium || true)
fi
[ -n "$chromium" ] || skip "Chromium is not installed"

# Exact versions: what is checked and what checks stay the same until a change of this file.
packages=target/web
wanted="playwright-core@1.65.1 axe-core@4.14.1 marked@18.2.1 dompurify@3.5.0"
if [ "$(cat "$packages/installed" 2>/dev/null)" != "$wanted" ]; then
    mkdir -p "$packages"
    echo '{"private": true}' >"$packages/package.json"
    # shellcheck disable=SC2086 # a list of words
    timeout 300 npm install --silent --no-fund --no-audit --ignore-scripts --prefix "$packages" $wanted >/dev/null 2>&1 || skip "the npm packages cannot be had"
    echo "$wanted" >"$packages/installed"
fi

# The libraries that the page carries are the ones that npm serves.
same() { cmp "$packages/node_modules/$1" "crates/server/web/vendor/$2" || { echo "web: $2 is not $1 of the package" >&2; exit 1; }; }
same marked/lib/marked.esm.js marked.js
same marked/LICENSE marked.LICENSE.txt
same dompurify/dist/purify.es.mjs dompurify.js
same dompurify/LICENSE dompurify.LICENSE.txt

log=$(mktemp)
server=
trap 'rm -f "$log" "$log.server"; [ -z "$server" ] || kill "$server" 2>/dev/null || true' EXIT

if [ -z "${RAWLOOP_BIN:-}" ]; then
    cargo build -q -p rawloop
    RAWLOOP_BIN=${CARGO_TARGET_DIR:-$PWD/target}/debug/rawloop
fi
export RAWLOOP_BIN

if [ -z "${RAWLOOP_WEB_SERVER:-}" ]; then
    "$RAWLOOP_BIN" serve --port 0 >"$log.server" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        RAWLOOP_WEB_SERVER=$(grep -om1 'http://127\.0\.0\.1:[0-9]*' "$log.server" || true)
        [ -z "$RAWLOOP_WEB_SERVER" ] || break
        kill -0 "$server" 2>/dev/null || { cat "$log.server" >&2; exit 1; }
        sleep 0.2
    done
    [ -n "$RAWLOOP_WEB_SERVER" ] || { echo "web: the server did not say its address" >&2; exit 1; }
fi

export RAWLOOP_WEB_SERVER RAWLOOP_WEB_PACKAGES="$PWD/$packages" RAWLOOP_CHROMIUM=$chromium
printf '\n== web: %s\n' "$("$chromium" --version 2>/dev/null)"
status=0
node --test --test-concurrency=1 --test-reporter=spec crates/server/tests/web/*.test.mjs 2>&1 | tee "$log" || status=$?

# The last lines of node's runner, as cargo's runner says it.
count() { awk -v name="$1" '$2 == name { n = $3 } END { print n + 0 }' "$log"; }
passed=$(count pass) failed=$(($(count fail) + $(count cancelled)))
echo "test result: $([ "$failed" = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; $(count skipped) ignored"
[ "$passed" -gt 0 ] && [ "$status" = 0 ]
