// A quantised linear over many columns: a prompt reads its weights once for up to 1,024 tokens.
//
// A block of the grid makes 128 rows x 128 columns (or 32, where there are few rows or columns), each of its 8 warps 32 x 64 (or 16). Units of weights and activations of 128 inputs come through a
// ring in shared memory, `STAGES` deep. Codes are made signed as they are masked: with the top bit of a code flipped, its bits at the top of a
// byte are the code less its zero point, times 64 or 16, so that all planes share an accumulator, nothing has to be taken off, and
// one exact shift at the end undoes the factor (|sum| < 2^28 at K = 12,288). Gate and up take turns by row block, so a warp's two row blocks are a pair of them.
#include "bulk_values.cuh"

#define BULK_ROWS 128
#define BULK_INPUTS 128
#define STAGES 3

// One plane of a word of codes as signed bytes, times 256 / 2^BITS.
template <int BITS>
static __device__ __forceinline__ unsigned signed_plane(unsigned word, int plane) {
  const unsigned top = 0x80808080u, kept = BITS == 8 ? 0xffffffffu : BITS == 4 ? 0xf0f0f0f0u : 0xc0c0c0c0u;
  return masked_xor(word << (8 - BITS - plane * BITS), kept, top);
}

template <int BITS, int TILES, int BULK_WARPS>
static __device__ __forceinline__ void bulk(const Linear& p) {
  const int BULK_THREADS = 32 * BULK_WARPS, BULK_COLUMNS = 8 * TILES * (BULK_WARPS / 4), UNIT = 256 / BITS, UNITS = BULK_INPUTS / UNIT, PLANES = 8 / BITS;
  // A column's bytes in shared memory: inputs, and as much as spreads the lanes' loads over all banks.
  const int COLUMN = BULK_INPUTS + 128 / BITS, CODES = UNITS * BULK_ROWS / 16 * 512, STAGE = CODES + BULK_COLUMNS * COLUMN;
  extern __shared__ __align__(128) char memory[];
  release_next();
  int which = 0, before = 0;
  while (which + 1 < p.matrices && (int)blockIdx.x >= p.block_end[which]) before = p.block_end[which++];
  const Matrix& m = p.m[which];
  const int spans = p.output_kind == FFN_OUT ? 2 : 1;
  const int all = (m.rows + 15) / 16 * spans, first_block = (blockIdx.x - before) * (BULK_ROWS / 16);
  const int first_column = blockIdx.y * BULK_COLUMNS, all_chunks = (p.inputs + BULK_INPUTS - 1) / BULK_INPUTS;
  // K in parts, whose sums are added up: any order gives the same.
  const int parts = gridDim.z, first_chunk = all_chunks * blockIdx.z / parts, chunks = all_chunks * (blockIdx.z + 1) / parts - first_chunk;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  // Copies the next chunk of inputs into its stage of the ring: a warp a row block of weights, eight threads a column of activations. Activations
  // outside are 0, so what stands in for weights outside does not matter.
  const int LOADS = BULK_ROWS / 16 / BULK_WARPS;  // row blocks whose weights a warp brings
  int units_left[LOADS];
#pragma unroll
  for (int k = 0; k < LOADS; ++k)
    units_left[k] = first_block + warp + BULK_WARPS * k < all ? (p.inputs + UNIT - 1) / UNIT - first_chunk * UNITS : 0;
  const int part = first_chunk * UNITS / m.split_k, within = first_chunk * UNITS - part * m.split_k;
  int of_part = m.split_k - within;
  const uint4* weight = m.codes + (((size_t)part * all + first_block + warp) * m.split_k + within) * 32 + lane;
  const size_t next_part = (size_t)(all - 1) * m.split_k * 32;
  const int COLUMN_STEP = BULK_THREADS / 8;
  const int piece = threadIdx.x % 8 * 16, some_column = threadIdx.x / 8;
  const int8_t* activation = p.input + (size_t)(first_column + some_column) * p.input_stride + first_chunk * BULK_INPUTS + piece;
  int inputs_left = p.inputs - first_chunk * BULK_INPUTS - piece;
  char* to_weights = memory + (warp * UNITS * 32 + lane) * 16;
  char* to_columns = memory + CODES + some_column * COLUMN + piece;
  auto fetch = [&](int stage) {
#pragma unroll
    for (int i = 0; i < UNITS; ++i) {
#pragma unroll
      for (int k = 0; k < LOADS; ++k)
        if (units_left[k]-- > 0) copy16(to_weights + stage * STAGE + (BULK_WARPS * k * UNITS + i) * 512, weight + (size_t)BULK_WARPS * k * m.split_k * 32);
      weight += 32;
      if (--of_part == 0) weight += next_part, of_part = m.split_k;
    }
#pragma unroll
    for (int i = 0; i < BULK_COLUMNS / COLUMN_STEP; ++i) {
      char* to = to_columns + stage * STAGE + i * COLUMN_STEP * COLUMN;
      if (inputs_left > 0 && first_column + some_column + i * COLUMN_STEP < p.columns)
        copy16(to, activation + (size_t)i * COLUMN_STEP * p.input_stride);
      else *(uint4*)to = make_uint4(0, 0, 0, 0);
    }
    activation += BULK_INPUTS;
    inputs_left -= BULK_INPUTS;
  };

  await_previous();
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) {
    if (i < chunks) fetch(i);
    copies_commit();
  }
  int sums[2][TILES][4];
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int n = 0; n < TILES; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[r][n][j] = 0;
  const int pair = warp % 4, half = warp / 4, t = lane % 4;
  int slot = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    copies_wait<STAGES - 2>();
    __syncthreads();
    if (chunk + STAGES - 1 < chunks) fetch(slot == 0 ? STAGES - 1 : slot - 1);
    copies_commit();
    const char* stage = memory + slot * STAGE;
    slot = slot == STAGES - 1 ? 0 : slot + 1;
    const char* columns = stage + CODES + (half * 8 * TILES + lane / 4) * COLUMN;
#pragma unroll
    for (int u = 0; u < UNITS; ++u) {
      uint4 w[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) w[r] = *(const uint4*)(stage + (((pair * 2 + r) * UNITS + u) * 32 + lane) * 16);
      unsigned a[2][PLANES][4];
      // Which inputs a fragment's halves hold is free, since sums of integers have no order. Both halves are planes of one word, so
      // that the two registers of activations are neighbours as they were loaded.
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int q = 0; q < PLANES; ++q) {
          const int of = q % 2 ? 2 : 0, first = q - q % 2;
          if (PLANES > 1) {
            a[r][first][of] = signed_plane<BITS>(w[r].x, q);
            a[r][first][of + 1] = signed_plane<BITS>(w[r].y, q);
            a[r][first + 1][of] = signed_plane<BITS>(w[r].z, q);
            a[r][first + 1][of + 1] = signed_plane<BITS>(w[r].w, q);
          } else {
            a[r][q][0] = signed_plane<BITS>(w[r].x, q);
            a[r][q][1] = signed_plane<BITS>(w[r].y, q);
            a[r][q][2] = signed_plane<BITS>(w[r].z, q);
            a[r][q][3] = signed_plane<BITS>(w[r].w, q);
          }
        }
#pragma unroll
      for (int n = 0; n < TILES; ++n) {
        const char* x = columns + n * 8 * COLUMN + u * UNIT;
        unsigned b[2][4];
        if (BITS == 8) {
          b[0][0] = ((const unsigned*)x)[t], b[1][0] = ((const unsigned*)x)[4 + t];
        } else if (BITS == 4) {
          *(uint2*)b[0] = ((const uint2*)x)[t], *(uint2*)b[1] = ((const uint2*)x)[4 + t];
        } else {
          *(uint4*)b[0] = ((const uint4*)x)[t], *(uint4*)b[1] = ((const uint4*)x)[4 + t];
        }
#pragma unroll
        for (int q = 0; q < PLANES; ++q)
#pragma unroll
          for (int r = 0; r < 2; ++r)
            if (PLANES > 1)
              mma_signed(sums[r][n], a[r][q][0], a[r][q][1], a[r][q][2], a[r][q][3], b[q % 2][q - q % 2], b[q % 2][q - q % 2 + 1]);
            else mma_signed(sums[r][n], a[r][q][0], a[r][q][1], a[r][q][2], a[r][q][3], b[0][q], b[1][q]);
      }
    }
  }

  // The sums go through shared memory, so that what follows is a short loop over neighbouring rows, not code for every sum of a thread.
  const int TILE_STRIDE = BULK_ROWS + 4;
  copies_wait<0>();
  __syncthreads();
  int* tile = (int*)memory;
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int n = 0; n < TILES; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        tile[(half * 8 * TILES + n * 8 + t * 2 + j % 2) * TILE_STRIDE + (pair * 2 + r) * 16 + lane / 4 + 8 * (j / 2)] =
            sums[r][n][j] >> (8 - BITS);
  __syncthreads();
  if (parts > 1) {
    // Neighbouring lanes add to neighbouring rows.
#pragma unroll 4
    for (int i = threadIdx.x; i < BULK_COLUMNS * BULK_ROWS; i += BULK_THREADS) {
      int local = i / BULK_ROWS, column = first_column + local, row = first_block * 16 + i % BULK_ROWS;
      if (column < p.columns && row < m.rows) atomicAdd(p.sums + (size_t)column * p.sums_stride + row, tile[local * TILE_STRIDE + i % BULK_ROWS]);
    }
    return;
  }
  const int quads = BULK_ROWS / 4 / spans;
  // Two rounds' loads and quotients are under way together.
#pragma unroll 2
  for (int i = threadIdx.x; i < BULK_COLUMNS * quads; i += BULK_THREADS) {
    int local = i / quads, column = first_column + local, quad = i % quads * 4, row = first_block * 16 / spans + quad;
    if (column >= p.columns || row >= m.rows) continue;
    // Of gate and up every other 16 rows are up's.
    const int* at = tile + local * TILE_STRIDE + (spans == 2 ? quad + quad / 16 * 16 : quad);
    bulk_values(p, m, which, column, row, at);
  }
}

#define BULK(name, bits, tiles, warps, blocks)                                                                         \
  extern "C" __global__ void __launch_bounds__(32 * warps, blocks) name(__grid_constant__ const Linear p) {           \
    bulk<bits, tiles, warps>(p);                                                                                      \
  }
BULK(bulk_2, 2, 8, 8, 1)
BULK(bulk_4, 4, 8, 8, 2)
BULK(bulk_8, 8, 8, 8, 2)
BULK(bulk_2_few, 2, 2, 8, 2)
BULK(bulk_4_few, 4, 2, 8, 3)
BULK(bulk_8_few, 8, 2, 8, 3)
