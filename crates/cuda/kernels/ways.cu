// What ships, and the ways of running that are still being measured (docs/cuda.md): the builds for trials and the emulated card have them, the program does not. None is, at present.
#define WAYS
#include "rawloop.cu"
