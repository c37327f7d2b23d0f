// Every kernel, in one translation unit (scripts/build-cuda.sh).
#include "repack.cu"
#include "inputs.cu"
#include "stages.cu"
#include "attention.cu"
#include "head.cu"
