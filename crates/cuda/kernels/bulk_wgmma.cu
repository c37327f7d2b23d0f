// A quantised linear over many columns on the tensor cores of compute 9.0: `bulk_linear.cu` with the products of warpgroups (`wgmma.cuh`).
//
// A block of the grid makes 192 rows x 256 columns (or 128, where there are few tiles), so that a byte of activations that comes from the second-level cache meets 192 rows and
// a byte of weights 512 codes' worth of columns. Three warpgroups have 64 rows each; a fourth one brings chunks of 128 inputs through a ring in shared memory and gives its
// registers to the three. A slot of the ring has two gates: the one opens when all who bring it have, the other when all who read it have.
//
// Activations stay in their order, so a lane wants the words of a group that other lanes have in a unit: each plane of a word is four neighbouring inputs, which the fragment gives
// to a lane of its own. Pieces of 16 bytes of a unit are placed so that these loads meet no bank twice. Codes are made signed as they are masked (`bulk_linear.cu`). While a
// product is under way the next one's weights are loaded and masked.
#include "bulk_values.cuh"
#include "wgmma.cuh"

#if defined(EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WGMMA_ROWS 192
#define WGMMA_THREADS 384  // that multiply
#define WGMMA_BRING 128    // that bring
#define WGMMA_INPUTS 128
#define WGMMA_STAGES 4
#define WGMMA_LATE 2  // chunks that are brought before the first of them is awaited

template <int BITS, int COLUMNS>
static __device__ __forceinline__ void bulk_products(const Linear& p) {
  const int PLANES = 8 / BITS, UNIT = 256 / BITS, UNITS = WGMMA_INPUTS / UNIT, BLOCKS = WGMMA_ROWS / 16;
  const int TILE = COLUMNS * WGMMA_INPUTS, STAGE = TILE + BLOCKS * UNITS * 512;
  extern __shared__ __align__(1024) char bulk_memory[];
  const unsigned ring_at = shared_at(bulk_memory), full = ring_at + WGMMA_STAGES * STAGE, empty = full + WGMMA_STAGES * 8;
  release_next();
  const int spans = p.output_kind == FFN_OUT ? 2 : 1, all_chunks = (p.inputs + WGMMA_INPUTS - 1) / WGMMA_INPUTS;
  // K in parts, whose sums are added up: any order gives the same.
  const int parts = gridDim.z, first_chunk = all_chunks * blockIdx.z / parts, chunks = all_chunks * (blockIdx.z + 1) / parts - first_chunk;
  int which = 0, before = 0;
  while (which + 1 < p.matrices && (int)blockIdx.x >= p.block_end[which]) before = p.block_end[which++];
  const Matrix& m = p.m[which];
  const int first_block = (blockIdx.x - before) * BLOCKS, first_column = blockIdx.y * COLUMNS;
  const int lane = threadIdx.x % 32, r = lane / 4, t = lane % 4;
  if (threadIdx.x < WGMMA_STAGES) {
    gate_begin(full + threadIdx.x * 8, WGMMA_BRING);
    gate_begin(empty + threadIdx.x * 8, WGMMA_THREADS / 32);
  }
  __syncthreads();

  if (threadIdx.x < WGMMA_BRING) {
    fewer_registers<32>();
    const int all = (m.rows + 15) / 16 * spans;
    // A warp brings three row blocks. Place `lane` has rows r and r + 8 of groups q and q + 4, for q = lane / 8 and this r.
    const int LOADS = BLOCKS / (WGMMA_BRING / 32), warp = threadIdx.x / 32, placed = lane % 8 ^ lane / 8 % 2 * 4;
    const int blocks = first_block + warp >= all ? 0 : min((all - first_block - warp + 3) / 4, LOADS);
    int units_left = (p.inputs + UNIT - 1) / UNIT - first_chunk * UNITS;
    const int part = first_chunk * UNITS / m.split_k, within = first_chunk * UNITS - part * m.split_k;
    int of_part = m.split_k - within;
    const uint4* weight[LOADS];
#pragma unroll
    for (int k = 0; k < LOADS; ++k)
      weight[k] = m.codes + (((size_t)part * all + first_block + warp + 4 * k) * m.split_k + within) * 32 + placed * 4 + lane / 8;
    const unsigned to_weights = ring_at + TILE + warp * UNITS * 512 + lane * 16;
    // Eight threads bring a column. Activations outside are 0, so what stands in for weights outside does not matter.
    const int STEP = WGMMA_BRING / 8, piece = threadIdx.x % 8 * 16, some_column = threadIdx.x / 8, step = STEP * p.input_stride;
    const int8_t* activation = p.input + (size_t)(first_column + some_column) * p.input_stride + first_chunk * WGMMA_INPUTS + piece;
    int inputs_left = p.inputs - first_chunk * WGMMA_INPUTS - piece;
    const int columns_left = p.columns - first_column - some_column;
    const unsigned to_columns = ring_at + some_column * WGMMA_INPUTS + (piece ^ some_column % 8 * 16);
#pragma unroll 1
    for (int ring = 0; ring < chunks; ++ring) {
      const int slot = ring % WGMMA_STAGES;
      if (ring >= WGMMA_STAGES) gate_await(empty + slot * 8, ring / WGMMA_STAGES - 1);
      // Whole chunks and whole tiles have no question on their way.
      unsigned to = to_weights + slot * STAGE;
      if (blocks == LOADS && units_left >= UNITS && of_part >= UNITS) {
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
#pragma unroll
          for (int i = 0; i < UNITS; ++i) bring16(to + (k * 4 * UNITS + i) * 512, weight[k] + i * 32);
          weight[k] += UNITS * 32;
        }
        of_part -= UNITS;
      } else {
#pragma unroll 1
        for (int i = 0; i < UNITS; ++i, to += 512) {
          if (of_part == 0) {
#pragma unroll
            for (int k = 0; k < LOADS; ++k) weight[k] += (size_t)(all - 1) * m.split_k * 32;
            of_part = m.split_k;
          }
#pragma unroll
          for (int k = 0; k < LOADS; ++k) {
            if (k < blocks && i < units_left) bring16(to + k * 4 * UNITS * 512, weight[k]);
            weight[k] += 32;
          }
          --of_part;
        }
      }
      if (of_part == 0) {
#pragma unroll
        for (int k = 0; k < LOADS; ++k) weight[k] += (size_t)(all - 1) * m.split_k * 32;
        of_part = m.split_k;
      }
      units_left -= UNITS;
      // Weights are nobody's output, so the first ones may come before the kernel's input exists.
      if (ring == 0) await_previous();
      const int8_t* from = activation;
      to = to_columns + slot * STAGE;
      if (inputs_left > 0 && columns_left > COLUMNS - STEP) {
#pragma unroll
        for (int i = 0; i < COLUMNS / STEP; ++i) {
          bring16(to + i * STEP * WGMMA_INPUTS, from);
          from += step;
        }
      } else {
#pragma unroll 1
        for (int i = 0; i < COLUMNS / STEP; ++i, to += STEP * WGMMA_INPUTS) {
          if (inputs_left > 0 && i * STEP < columns_left) bring16(to, from);
          else zero16(to);
          from += step;
        }
      }
      activation += WGMMA_INPUTS;
      inputs_left -= WGMMA_INPUTS;
      copies_commit();
      if (ring < WGMMA_LATE) continue;
      copies_wait<WGMMA_LATE>();
      show_products();
      gate_arrive(full + (ring - WGMMA_LATE) % WGMMA_STAGES * 8);
    }
    copies_wait<0>();
    show_products();
#pragma unroll 1
    for (int late = max(chunks - WGMMA_LATE, 0); late < chunks; ++late) gate_arrive(full + late % WGMMA_STAGES * 8);
    return;
  }

  more_registers<160>();
  const int warp = threadIdx.x / 32 - WGMMA_BRING / 32, WIDE = COLUMNS / 128;
  // A lane's words: those of the group that has its four inputs, of which it takes its plane.
  const int low = t / PLANES, shift = 8 - BITS - t % PLANES * BITS;
  const int in_piece = (r ^ low % 2 * 4) * 16;
  const char* words = bulk_memory + TILE + warp * UNITS * 512 + low * 128;
  const unsigned kept = BITS == 8 ? 0xffffffffu : BITS == 4 ? 0xf0f0f0f0u : 0xc0c0c0c0u;
  int sums[WIDE][64];
#pragma unroll
  for (int n = 0; n < WIDE; ++n)
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[n][i] = 0;
  unsigned a[2][4];
#pragma unroll 1
  for (int ring = 0; ring < chunks; ++ring) {
    const int slot = ring % WGMMA_STAGES;
    gate_await(full + slot * 8, ring / WGMMA_STAGES);
    const uint64_t columns = tile_at(ring_at + slot * STAGE);
    const char* from = words + slot * STAGE;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        // The 16 inputs number `2 k + i` of the chunk begin in this group of it.
        const int begin = (2 * k + i) * 4 / PLANES, q = begin % 4;
        const uint2 w = *(const uint2*)(from + begin / 8 * 512 + q * 128 + (in_piece ^ q % 2 * 64) + begin / 4 % 2 * 8);
        a[k % 2][2 * i] = masked_xor(w.x << shift, kept, 0x80808080u);
        a[k % 2][2 * i + 1] = masked_xor(w.y << shift, kept, 0x80808080u);
      }
      products_begin();
#pragma unroll
      for (int n = 0; n < WIDE; ++n) products(sums[n], a[k % 2], columns + n * (128 * WGMMA_INPUTS / 16) + 2 * k);
      products_commit();
      products_wait<1>();
      // With the first product of a chunk all of the one before are done.
      if (k == 0 && ring > 0 && lane == 0) gate_arrive(empty + (ring - 1) % WGMMA_STAGES * 8);
    }
  }
  products_wait<0>();
#pragma unroll
  for (int n = 0; n < WIDE; ++n) settle(sums[n]);

  // 128 columns of sums at a time go through shared memory, so that what follows is a short loop over neighbouring rows.
  const int STRIDE = WGMMA_ROWS + 4, thread = not_earlier(threadIdx.x) - WGMMA_BRING;
  // A thread has four rows (of gate and up: of each) and every so many columns.
  const int quads = WGMMA_ROWS / 4 / spans, quad = thread % quads * 4, row = first_block * 16 / spans + quad;
  bool plain = false;
  if (spans == 2 && row < m.rows) plain = are_plain(*(const float4*)(m.multipliers + row), *(const float4*)(p.up_multipliers + row), m.output, p.up);
  int* tile = (int*)bulk_memory;
#pragma unroll
  for (int some = 0; some < WIDE; ++some) {
    barrier(1, WGMMA_THREADS);
#pragma unroll
    for (int i = 0; i < 16; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        tile[(i * 8 + t * 2 + j % 2) * STRIDE + warp * 16 + r + 8 * (j / 2)] = sums[some][i * 4 + j] >> (8 - BITS);
    barrier(1, WGMMA_THREADS);
    const int from = first_column + some * 128, columns = min(128, p.columns - from);
    if (parts > 1) {
      // Neighbouring lanes add to neighbouring rows.
      const int local_row = thread % WGMMA_ROWS, to = first_block * 16 + local_row;
      if (to < m.rows) {
#pragma unroll 4
        for (int local = thread / WGMMA_ROWS; local < columns; local += WGMMA_THREADS / WGMMA_ROWS)
          atomicAdd(p.sums + (size_t)(from + local) * p.sums_stride + to, tile[local * STRIDE + local_row]);
      }
      continue;
    }
    if (row >= m.rows) continue;
    const int* at = tile + (spans == 2 ? quad + quad / 16 * 16 : quad);
#pragma unroll 2
    for (int local = thread / quads; local < columns; local += WGMMA_THREADS / quads)
      bulk_values(p, m, which, from + local, row, at + local * STRIDE, plain);
  }
}

#define BULK_WGMMA(name, bits, columns)                                                                                \
  extern "C" __global__ void __launch_bounds__(WGMMA_THREADS + WGMMA_BRING, 1) name(__grid_constant__ const Linear p) {             \
    bulk_products<bits, columns>(p);                                                                                   \
  }
BULK_WGMMA(bulk_wgmma_4_256, 4, 256)
BULK_WGMMA(bulk_wgmma_4_128, 4, 128)
#endif
