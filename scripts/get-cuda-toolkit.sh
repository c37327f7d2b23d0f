#!/usr/bin/env bash
# Fetches what scripts/check-cuda.sh needs, from PyPI, into target/cuda-toolkit: the pinned compiler and a disassembler (the toolkit's own
# packages have none; triton's wheel carries one). No driver and no card is needed. Prints the two paths as shell assignments; fails
# where they cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

toolkit=target/cuda-toolkit
if ! [ -f "$toolkit/complete" ]; then
    rm -rf "$toolkit"
    python3 -m venv "$toolkit" >&2
    "$toolkit/bin/pip" install --quiet --no-deps nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 \
        nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 triton==3.5.1 >&2
    touch "$toolkit/complete"
fi
find_one() { find "$PWD/$toolkit" -path "*/bin/$1" -type f | head -n 1; }
nvcc=$(find_one nvcc) cuobjdump=$(find_one cuobjdump)
chmod +x "$cuobjdump"
echo "NVCC=$nvcc CUOBJDUMP=$cuobjdump"
