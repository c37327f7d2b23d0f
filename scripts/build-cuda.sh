#!/usr/bin/env bash
# Compiles the CUDA kernels to the binary that the program embeds: crates/cuda/kernels/rawloop.fatbin. Beside it goes what it was built from, rawloop.fatbin.sha256, by which
# scripts/check-cuda.sh sees a source that was changed since.
#
# Needs nvcc 13.0.x on PATH or in $NVCC; it comes from PyPI without a driver or a card:
#   python3 -m venv DIR
#   DIR/bin/pip install 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' \
#     'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*'
#   NVCC=DIR/lib/python3.*/site-packages/nvidia/cu13/bin/nvcc
# PTXAS=-v has the assembler say what each kernel takes; THREADS=2 compiles for two architectures at a time.
# A newer toolkit makes PTX that drivers of the 13.0 generation refuse. The arithmetic flags are part of the contract.
set -euo pipefail
cd "$(dirname "$0")/../crates/cuda/kernels"
nvcc=${NVCC:-nvcc}
targets=${TARGETS:-"80 90a 100 120"}
arguments=()
for target in $targets; do
  arguments+=(-gencode "arch=compute_$target,code=sm_$target")
done
if [[ -z ${TARGETS:-} ]]; then
  arguments+=(-gencode arch=compute_80,code=compute_80)
fi
out=${1:-rawloop.fatbin}
"$nvcc" -t "${THREADS:-1}" -std=c++17 -O3 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true \
  ${DEFINES:-} ${PTXAS:+-Xptxas "$PTXAS"} -diag-suppress 1556 -Xfatbin -compress-all "${arguments[@]}" -fatbin -o "$out" "${SOURCE:-rawloop.cu}"
if [[ $out == rawloop.fatbin && -z ${TARGETS:-}${DEFINES:-}${SOURCE:-} ]]; then
  # shellcheck disable=SC2046 # names without blanks
  sha256sum "$out" $(ls ./*.cu ./*.cuh | grep -v '/ways\.cu$') ../../../scripts/build-cuda.sh >"$out.sha256"
fi
