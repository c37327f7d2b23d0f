#!/usr/bin/env bash
# Checks of the CUDA kernels that need no card: they give the reference's bits on an emulated one, they compile, the committed binary is of these sources and holds the
# instructions that they give, no kernel keeps values of its inner loops in memory, and the instructions are the intended ones.
#
# Without a word it takes what a change is most likely to break: the build that ships, compiled for Hopper; of the other generations it sees only that the sources are the ones
# that the binary was built from. `every` compiles for all of them, and runs the build with clocks, too.
#
# The emulated card needs a C++ compiler on x86-64; it runs the `short` tests, about a minute (scripts/emulate-cuda.sh has the whole form). The rest needs nvcc 13.0.x
# (scripts/build-cuda.sh says where from) on PATH or in $NVCC. What is missing is said, and passes. Disassembles where cuobjdump is on PATH or in $CUOBJDUMP.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
case ${1:-} in
  "") builds=("shipped short_") generations="90a" ;;
  # The kernels as they ship, then the build with clocks, which only trials use.
  every) builds=("shipped short_" "clocks short_trials") generations="80 90a 100 120" ;;
  *) echo "check-cuda: '$1' is not a form of this check; there is 'every', and the short one without a word" >&2; exit 2 ;;
esac

if ! (cd "$root/crates/cuda/kernels" && sha256sum --check --quiet rawloop.fatbin.sha256) >&2; then
  echo "check-cuda: crates/cuda/kernels/rawloop.fatbin was built from other sources; run scripts/build-cuda.sh and commit what it writes" >&2
  exit 1
fi

if [ "$(uname -m)" != x86_64 ] || ! echo '_Float16 half; char32_t word;' | g++ -x c++ -std=c++17 -fsyntax-only - 2>/dev/null; then
  echo "check-cuda: no C++ compiler with _Float16 on x86-64 here, the kernels are not run"
else
  shown=$(mktemp)
  for build in "${builds[@]}"; do
    read -r name wanted <<<"$build"
    emulated=$root/target/cuda-emulator/$name
    unset DEFINES RAWLOOP_CLOCKS
    # Of what runs one test the compiler takes longer than the test.
    if [ "$name" = clocks ]; then export DEFINES="-DSTAMPS -O1" RAWLOOP_CLOCKS=1; fi
    "$root/scripts/emulate-cuda.sh" "$emulated"
    (cd "$root" && LD_LIBRARY_PATH=$emulated cargo test --workspace --test card -- --nocapture "$wanted") 2>&1 | tee "$shown" |
      grep -E '^test |panicked|error' || true
    # A test that finds no driver passes, too.
    if ! grep -q '^test result: ok. [1-9]' "$shown" || grep -q 'nothing to test on' "$shown"; then
      cat "$shown" >&2
      rm -f "$shown"
      echo "check-cuda: the kernels do not give the reference's results on the emulated card" >&2
      exit 1
    fi
  done
  unset DEFINES RAWLOOP_CLOCKS
  rm -f "$shown"
fi

nvcc=${NVCC:-nvcc}
if ! command -v "$nvcc" >/dev/null; then
  echo "check-cuda: no nvcc here, nothing checked"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cuobjdump=${CUOBJDUMP:-cuobjdump} said="not compared with the committed binary"
# One generation after the other, so that what the assembler says of them does not mix.
PTXAS=-v TARGETS=$generations "$root/scripts/build-cuda.sh" "$work/rawloop.fatbin" 2>"$work/ptxas" || {
  cat "$work/ptxas" >&2
  exit 1
}
# Not byte by byte: names of local functions hold a hash of the folder that was compiled in, and some generations keep the assembler's options, of which `-v` is one.
# Nothing at all is found below, by the number of lines.
instructions() { "$cuobjdump" --dump-sass -arch "sm_$2" "$1" 2>/dev/null | sed '/^ptxasOptions/d'; }
if ! command -v "$cuobjdump" >/dev/null; then
  echo "check-cuda: no cuobjdump here, the committed binary is not compared"
else
  for generation in $generations; do
    instructions "$work/rawloop.fatbin" "$generation" >"$work/given" || true
    instructions "$root/crates/cuda/kernels/rawloop.fatbin" "$generation" >"$work/committed" || true
    if [ "$(wc -l <"$work/given")" -lt 1000 ] || ! cmp "$work/given" "$work/committed" >&2; then
      diff "$work/given" "$work/committed" | head -n 20 >&2 || true
      echo "check-cuda: for sm_$generation crates/cuda/kernels/rawloop.fatbin is not what its sources give; run scripts/build-cuda.sh and commit what it writes" >&2
      exit 1
    fi
  done
  said="the committed binary is theirs for $generations"
fi

# What a decoded token runs must stay in registers; a few bytes around a call are allowed elsewhere.
awk '
  /Compiling entry function/ { fast = /sm_90a/ }
  /Function properties for/ { name = $NF; kernels += fast }
  fast && /bytes spill stores/ && !/ 0 bytes spill stores/ && name ~ /^(stage_|per_layer|layer_|head|final_head|draft_|draw_)/ { print name ": " $0; bad = 1 }
  END { exit bad || kernels < 50 }
' "$work/ptxas" >&2 || {
  echo "check-cuda: a kernel of a token spills, or the assembler said nothing" >&2
  exit 1
}

if command -v "$cuobjdump" >/dev/null; then
  "$cuobjdump" --dump-sass -arch sm_90a "$work/rawloop.fatbin" >"$work/sass"
  for word in IMMA.16832.U8.S8 IMMA.16832.S8.S8 UBLKCP LDGSTS.E.BYPASS.128 ACQBULK PREEXIT REDUX.SUM STAS IGMMA.64x128x32.S8.S8; do
    if ! grep -q "$word" "$work/sass"; then
      echo "check-cuda: no $word among the instructions" >&2
      exit 1
    fi
  done
fi
echo "check-cuda: kernels compile, $said"
