// From a pack's layouts to the card's, once at load.
#include <stdint.h>

// Tiles (crates/spec/src/tile.rs) to units of 16 rows x 8 groups, in the order of `Matrix`: lane `4 r + t` has rows r and r + 8 of groups t, then of
// t + 4. What lies outside the matrix is 0; the inputs it meets are 0. `turns` matrices take turns by row block, this is number `turn`.
extern "C" __global__ void repack_tiles(const uint8_t* tiles, uint4* out, int rows, int groups, int vectors, int split_k,
                                        int splits, int turns, int turn) {
  int row_blocks = (rows + 15) / 16;
  size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= (size_t)row_blocks * split_k * splits * 32) return;
  int lane = index % 32, k = index / 32 % split_k, block = index / 32 / split_k % row_blocks;
  int part = index / 32 / split_k / row_blocks;
  unsigned word[4];
  for (int i = 0; i < 4; ++i) {
    int row = block * 16 + lane / 4 + (i % 2) * 8, group = (part * split_k + k) * 8 + lane % 4 + (i / 2) * 4;
    word[i] = 0;
    if (row < rows && group < groups) {
      int tile = row / (16 * vectors), vector = row % (16 * vectors) / 16;
      size_t at = ((size_t)tile * groups + group) * vectors * 64 + vector * 64 + row % 16 * 4;
      word[i] = *(const unsigned*)(tiles + at);
    }
  }
  size_t unit = ((size_t)(part * row_blocks + block) * turns + turn) * split_k + k;
  out[unit * 32 + lane] = make_uint4(word[0], word[1], word[2], word[3]);
}

// bf16 rows to chunks of 256 inputs: lane l has inputs l, l + 32, ... l + 224 side by side.
extern "C" __global__ void repack_bf16(const uint16_t* rows, uint16_t* out, int count, int width, int chunks) {
  size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= (size_t)count * chunks * 256) return;
  int step = index % 8, lane = index / 8 % 32, chunk = index / 256 % chunks;
  size_t row = index / 256 / chunks;
  int input = chunk * 256 + step * 32 + lane;
  out[index] = input < width ? rows[row * width + input] : 0;
}
