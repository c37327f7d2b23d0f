#!/usr/bin/env bash
# Builds a libcuda that runs the CUDA kernels on the processor (crates/cuda/emulator), into the folder named first, target/cuda-emulator if none is.
# Needs a C++ compiler with _Float16 on x86-64. Then:
#   LD_LIBRARY_PATH=$PWD/target/cuda-emulator cargo test -p rawloop-cuda --test card
# DEFINES are those of a build for a trial (scripts/build-cuda-trials.sh); unset, they are what the tests need. The whole of the tests
# takes an hour of one processor; the tests named `short` take a minute and are part of scripts/check-cuda.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/check-emulator.sh
out=${1:-target/cuda-emulator}
mkdir -p "$out/source"
# What plain C++ has no word for: shared memory of a launch's size.
for file in crates/cuda/kernels/*.cu*; do
  sed -E 's/extern __shared__ __align__\([0-9]+\) (\w+) (\w+)\[\];/\1* \2 = (\1*)emulated::now->of->shared;/' "$file" \
    >"$out/source/$(basename "$file")"
done
flags=(-std=c++17 -O2 ${DEFINES:-} -march=native -ffp-contract=off -fno-strict-aliasing -fPIC -DEMULATED -Icrates/cuda/emulator -I"$out/source" -w)
echo '#include "ways.cu"' >"$out/source/kernels.inc"
names=$(g++ "${flags[@]}" -E -P -include crates/cuda/emulator/device.h -x c++ "$out/source/ways.cu" | tr '\n' ' ' |
  grep -oP '__attribute__\(\(used\)\)\s+void\s+\w+(?=\s*\()' | awk '{ print $NF }' | sort -u)
for name in $names; do echo "{\"$name\", {\"$name\", binder($name)}},"; done >"$out/source/names.inc"
g++ "${flags[@]}" -shared -o "$out/libcuda.so" crates/cuda/emulator/driver.cpp
echo "emulate-cuda: $(wc -l <"$out/source/names.inc") kernels in $out/libcuda.so"
