// Every kernel, in one translation unit (scripts/build-cuda.sh).
#include "repack.cu"
#include "inputs.cu"
#include "stages.cu"
#include "attention.cu"
#include "head.cu"
#include "bulk_inputs.cu"
#include "bulk_linear.cu"
#include "bulk_attention.cu"
