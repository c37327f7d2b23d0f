#!/usr/bin/env bash
# Checks that the emulated card (crates/cuda/emulator) ends a kernel of which nobody gets further, and says who waits for what; and that it
# does not end one that only waits a lot. scripts/emulate-cuda.sh runs this first. Needs a C++ compiler on x86-64.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo '#include "hangs.cu"' >"$folder/kernels.inc"
grep -oP '__global__ void \K\w+' crates/cuda/emulator/hangs.cu |
  while read -r name; do echo "{\"$name\", {\"$name\", binder($name)}},"; done >"$folder/names.inc"
g++ -std=c++17 -O1 -fno-strict-aliasing -fPIC -DEMULATED -Icrates/cuda/emulator -I"$folder" -w -o "$folder/hangs" crates/cuda/emulator/hangs.cpp
ulimit -c 0

# Kernel, blocks of a cluster, and what has to be said of it.
hangs() {
  local name=$1 cluster=$2 said code=0
  said=$({ timeout 20 "$folder/hangs" "$name" "$cluster"; } 2>&1) || code=$?
  if [ "$code" != 134 ]; then
    echo "check-emulator: $name ended with $code, not with an abort: $said" >&2
    exit 1
  fi
  shift 2
  for line in "emulated card: $name hangs" "$@"; do
    if ! grep -qF "$line" <<<"$said"; then
      printf 'check-emulator: of %s it is not said "%s", but:\n%s\n' "$name" "$line" "$said" >&2
      exit 1
    fi
  done
}
hangs at_a_barrier 1 "block 0 0 0: 96 threads from 0 on wait at barrier 1 of the block, where 96 of 128 are"
hangs at_two_barriers 1 "block 0 0 0: 64 threads from 0 on wait at barrier 1 of the block, where 64 of 128 are" \
  "block 0 0 0: 64 threads from 64 on wait at barrier 2 of the block, where 64 of 128 are"
hangs in_a_warp 1 "block 0 0 0: 31 threads from 32 on wait in a warp, where 31 of 32 are" \
  "block 0 0 0: 31 threads from 96 on wait in a warp, where 31 of 32 are"
hangs in_a_cluster 2 "block 0 0 0: 128 threads from 0 on wait at the cluster's barrier, where 128 of 256 are" \
  "block 1 0 0: 128 threads from 0 on wait for puts, of which 16 bytes have not come"
for cluster in 1 4; do
  if ! timeout 60 "$folder/hangs" never "$cluster"; then
    echo "check-emulator: a kernel that only waits a lot was ended" >&2
    exit 1
  fi
done
echo "check-emulator: hangs are found"
