#!/usr/bin/env bash
# Builds the kernels of crates/cuda/examples/trials.rs, one binary a variant, into the folder named first, target/cuda-trials if none is.
#
# Needs nvcc as scripts/build-cuda.sh does. Only for one generation of cards ($TARGETS, 90a if unset), so that all of them stay below 3 MB. With a card, then, or with
# target/cuda-emulator in LD_LIBRARY_PATH (where every variant is the emulated build):
#   cargo run --release -p rawloop-cuda --example trials -- PACK target/cuda-trials OUT.json
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-target/cuda-trials}
mkdir -p "$out"
out=$(cd "$out" && pwd)
export TARGETS=${TARGETS:-90a}
build() { # NAME, DEFINES
  SOURCE=ways.cu DEFINES=$2 scripts/build-cuda.sh "$out/$1.fatbin"
  echo "build-cuda-trials: $out/$1.fatbin"
}
build ways ""
build warps8 "-DSTAGE_WARPS=8"
build warps16 "-DSTAGE_WARPS=16"
build stamps "-DSTAMPS"
