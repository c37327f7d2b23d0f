#!/usr/bin/env bash
# What the checks of .ci/run need from package registries, fetched while the tests compile. Every check still installs for itself what
# is missing, and says what it skips; so nothing here has to succeed.
set -uo pipefail
cd "$(dirname "$0")/.."

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    timeout 300 apt-get update -qq || exit 1
    for packages in "mesa-vulkan-drivers libvulkan1" "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross" chromium; do
        # shellcheck disable=SC2086 # a list of words
        timeout 600 apt-get install -y -qq --no-install-recommends $packages || exit 1
    done
fi
for target in aarch64-unknown-linux-gnu wasm32-wasip1 wasm32-unknown-unknown aarch64-apple-darwin aarch64-apple-ios; do
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || timeout 300 rustup target add "$target"
done
timeout 600 scripts/get-cuda-toolkit.sh
export RAWLOOP_PACKAGES_ONLY=1
scripts/check-python.sh
scripts/check-clients.sh
exit 0
