#!/usr/bin/env bash
# The wgpu backend on software adapters, what it needs for Apple's systems type-checked, and what Metal would get compared with what is committed.
# Installs Mesa's software Vulkan where apt can; SwiftShader joins where a Chromium package is installed. Each part that cannot be had
# is skipped with a message. RAWLOOP_BIN is the program; without it it is built.
set -euo pipefail
cd "$(dirname "$0")/.."

lavapipe=/usr/share/vulkan/icd.d/lvp_icd.x86_64.json
if ! [ -f "$lavapipe" ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    { apt-get update && apt-get install -y --no-install-recommends mesa-vulkan-drivers libvulkan1; } >/dev/null 2>&1 || true
fi
mesa=$(ls /usr/share/vulkan/icd.d/lvp_icd.*.json 2>/dev/null | head -n 1 || true)
drivers=$mesa
[ -n "$drivers" ] || echo "wgpu: no Mesa software driver here; tests use the adapters that there are"

# Chromium's copy names its library relative to itself.
swiftshader=$(ls /usr/lib/chromium/libvk_swiftshader.so 2>/dev/null || true)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$swiftshader" ] && [ "${RAWLOOP_SWIFTSHADER:-1}" != 0 ]; then
    printf '{"file_format_version":"1.0.0","ICD":{"library_path":"%s","api_version":"1.0.5"}}' "$swiftshader" >"$work/swiftshader.json"
    drivers=${drivers:+$drivers:}$work/swiftshader.json
else
    echo "wgpu: SwiftShader is skipped: there is no Chromium package"
fi
[ -z "$drivers" ] || export VK_DRIVER_FILES=$drivers

printf '\n== wgpu: conformance, steps, decode runs and rewinds; Metal text\n'
# Of the whole workspace: with a package's own set of features nearly everything would be compiled once more.
cargo test --workspace --test adapter

# Ids of task prompts: 20 of the 200 unless RAWLOOP_GATE says more; all take 5 to 12 minutes on a software adapter.
if [ -z "$mesa" ]; then
    echo "wgpu: task prompts are skipped: there is no Mesa software driver"
else
    printf '\n== wgpu: %s task prompts have the ids of the CPU\n' "${RAWLOOP_GATE:-20}"
    if [ -z "${RAWLOOP_BIN:-}" ]; then
        cargo build -q -p rawloop
        RAWLOOP_BIN=${CARGO_TARGET_DIR:-$PWD/target}/debug/rawloop
    fi
    VK_DRIVER_FILES=$mesa "$RAWLOOP_BIN" gate --goldens goldens/tiny/transcripts.json \
        --backend wgpu --against cpu --ctx 1024 --limit "${RAWLOOP_GATE:-20}" --quiet
fi

for target in aarch64-apple-darwin aarch64-apple-ios; do
    if [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || rustup target add "$target" >/dev/null 2>&1; then
        printf '\n== wgpu: types for %s\n' "$target"
        cargo check -p rawloop-wgpu --target "$target"
    else
        echo "wgpu: $target is skipped: the target cannot be installed"
    fi
done
