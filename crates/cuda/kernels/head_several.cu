// The head of a few columns (2, 4 or 8) with one reading of its weights (rule 9; head.cu has it for one column).
//
// Three limbs a column are at most 24 columns of fragments. A warp owns whole row blocks, so sums stay in registers until a row block is done, meet in 2 KB of the
// warp's own and leave as logits or as its best row so far: no memory for all of a block's sums, no barrier but the two of the input. All columns' limbs are
// made at once, four values a thread and column; lane l of a warp finds what belongs to column l % N.
#include "several.cuh"

// From a limb's sums of a row block to the next limb's: lanes write and read in different banks.
#define HEAD_PITCH 20

// Bytes 0 of four words side by side.
static __device__ __forceinline__ unsigned low_bytes(int a, int b, int c, int d) {
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// Limbs of N columns into `x`, their sums into `limbs` (zero before). Ends with a barrier; a lane gets the exponent of column `lane % N`.
template <int N>
static __device__ __forceinline__ int make_limbs(const Head& p, int8_t* x, int x_size, int stride, int* scratch, int* limbs) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, from = 4 * threadIdx.x;
  const bool mine = from < p.width;
  float4 h[N];
#pragma unroll
  for (int c = 0; c < N; ++c) {
    h[c] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (mine && c < p.count) h[c] = __ldcg((const float4*)(p.hidden + (size_t)c * p.width + from));
  }
  int own = 0;
#pragma unroll
  for (int c = 0; c < N; ++c) {
    // Bits of floats that are not negative are in the order of the floats; fmaxf leaves NaN out.
    float top = fmaxf(fmaxf(fmaxf(0.0f, fabsf(h[c].x)), fabsf(h[c].y)), fmaxf(fmaxf(0.0f, fabsf(h[c].z)), fabsf(h[c].w)));
    int bits = __reduce_max_sync(ALL, (int)__float_as_uint(top));
    if (lane == c) own = bits;
  }
  if (lane < N) scratch[lane * WARPS + warp] = own;
  __syncthreads();
  int bits = 0;
#pragma unroll
  for (int i = 0; i < WARPS / 4; ++i) {
    int4 four = ((const int4*)(scratch + lane % N * WARPS))[i];
    bits = max(bits, max(max(four.x, four.y), max(four.z, four.w)));
  }
  const int exponent = max((bits >> 23) - 127, -100), shift = bits == 0 ? 0 : 21 - exponent;
  own = 0;
#pragma unroll
  for (int c = 0; c < N; ++c) {
    const float scale = __int_as_float((__shfl_sync(ALL, shift, c) + 127) << 23);
    const float value[4] = {h[c].x, h[c].y, h[c].z, h[c].w};
    int n[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) n[i] = __float2int_rn(value[i] * scale);
#pragma unroll
    for (int limb = 0; limb < 3; ++limb) {
      unsigned four = low_bytes(n[0], n[1], n[2], n[3]);
      if (mine) *(unsigned*)(x + (3 * c + limb) * stride + from) = four;
      int sum = warp_sum(__dp4a((int)four, 0x01010101, 0));
      if (lane == 3 * c + limb) own = sum;
#pragma unroll
      for (int i = 0; i < 4; ++i) n[i] = (n[i] - (int8_t)n[i]) >> 8;
    }
  }
  if (lane < 3 * N) shared_add(limbs + lane, own);
  for (int i = p.width + from; i < x_size; i += 4 * THREADS)
    for (int c = 0; c < 3 * N; ++c) *(int*)(x + c * stride + i) = 0;
  __syncthreads();
  return shift;
}

template <int N>
static __device__ __forceinline__ void head_unit(Sums<2, (3 * N + 7) / 8>& sums, const uint4& w, const int8_t* const (&x)[(3 * N + 7) / 8], int at) {
  const int t = threadIdx.x % 4;
  const unsigned m = 0x03030303u;
#pragma unroll
  for (int n = 0; n < (3 * N + 7) / 8; ++n) {
    const uint4* b = (const uint4*)(x[n] + at);
    const uint4 low = b[t], high = b[4 + t];
    mma(sums.c[n][0], w.x & m, w.y & m, w.z & m, w.w & m, low.x, high.x);
    mma(sums.c[n][1], w.x & m << 2, w.y & m << 2, w.z & m << 2, w.w & m << 2, low.y, high.y);
    mma(sums.c[n][2], w.x & m << 4, w.y & m << 4, w.z & m << 4, w.w & m << 4, low.z, high.z);
    mma(sums.c[n][3], w.x & m << 6, w.y & m << 6, w.z & m << 6, w.w & m << 6, low.w, high.w);
  }
}

// Shared memory, in this order: rings, a row block's sums of each warp, limbs.
template <int N>
static __device__ __forceinline__ void head_of_several(const Head& p) {
  const int WIDTH = 3 * N, TILES = (WIDTH + 7) / 8, ROWS = 16 * N / 32;
  extern __shared__ __align__(128) char memory[];
  __shared__ __align__(16) int scratch[N * WARPS];
  __shared__ int limbs[WIDTH];
  __shared__ unsigned long long found[WARPS * N];
  release_next();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, token = lane % N;
  const int row_block = blockIdx.x * p.row_blocks, row_blocks = min(p.row_blocks, (p.m.rows + 15) / 16 - row_block);
  const int k_count = p.m.split_k, x_size = k_count * 128, stride = several_stride(x_size, 2);
  uint4* ring = (uint4*)memory + warp * HEAD_DEPTH * 32 + lane;
  int* out = (int*)(memory + WARPS * HEAD_DEPTH * 512) + warp * WIDTH * HEAD_PITCH;
  int8_t* x = (int8_t*)memory + WARPS * (HEAD_DEPTH * 512 + WIDTH * HEAD_PITCH * 4);

  const int first = row_blocks * warp / WARPS, last = row_blocks * (warp + 1) / WARPS, units = (last - first) * k_count;
  Stream s;
  s.first = 0, s.last = units;
  s.from = p.m.codes + ((size_t)(row_block + first) * k_count) * 32 + lane;
  prefetch<HEAD_DEPTH>(s, ring);
  if (threadIdx.x < WIDTH) limbs[threadIdx.x] = 0;
  __syncthreads();
  await_previous();
  const int shift = make_limbs<N>(p, x, x_size, stride, scratch, limbs);
  const long long total = limbs[3 * token] + (long long)limbs[3 * token + 1] * 256 + (long long)limbs[3 * token + 2] * 65536;
  const float unit_of = __int_as_float((127 - shift) << 23);
  const bool wanted = token < p.count;

  const int8_t* columns[TILES];
#pragma unroll
  for (int n = 0; n < TILES; ++n) columns[n] = x + min(n * 8 + lane / 4, WIDTH - 1) * stride;
  const uint64_t policy = streaming();
  const uint4* next = s.from + HEAD_DEPTH * 32;
  unsigned long long best = 0;
  Sums<2, TILES> c;
  clear(c);
  float scale[ROWS];
  int k = 0, slot = 0, row = (row_block + first) * 16;
#pragma unroll 1
  for (int index = 0; index < units; index += BATCH) {
    copies_wait<HEAD_DEPTH / BATCH - 1>();
    uint4* now = ring + slot * 32;
    const bool whole = k_count % BATCH == 0;
#pragma unroll 1
    for (int i = 0; i < BATCH && index + i < units; i += whole ? BATCH : 1) {
      if (k == 0) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) scale[r] = p.m.multipliers[min(row + lane / N + r * (32 / N), p.m.rows - 1)];
      }
      if (whole) {
        uint4 w[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; ++j) w[j] = now[j * 32];
#pragma unroll
        for (int j = 0; j < BATCH; ++j) head_unit<N>(c, w[j], columns, (k + j) * 128);
        k += BATCH;
      } else {
        head_unit<N>(c, now[i * 32], columns, k * 128);
        k += 1;
      }
      if (k < k_count) continue;
      k = 0;
#pragma unroll
      for (int n = 0; n < TILES; ++n)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int at = n * 8 + lane % 4 * 2 + j % 2;
          int sum = c.c[n][0][j] + (c.c[n][1][j] >> 2) + (c.c[n][2][j] >> 4) + (c.c[n][3][j] >> 6);
          if (at < WIDTH) out[at * HEAD_PITCH + lane / 4 + j / 2 * 8] = sum;
        }
      clear(c);
      __syncwarp();
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const int own = lane / N + r * (32 / N), id = row + own;
        const int* limb = out + 3 * token * HEAD_PITCH + own;
        long long sum = (long long)limb[0] + (long long)limb[HEAD_PITCH] * 256 + (long long)limb[2 * HEAD_PITCH] * 65536 - 2 * total;
        float z = (__ll2float_rn(sum) * unit_of) * scale[r];
        if (id >= p.m.rows || !wanted) continue;
        if (p.logits) p.logits[(size_t)token * p.m.rows + id] = z;
        unsigned long long key = ordered(z, (unsigned)id);
        best = key > best ? key : best;
      }
      __syncwarp();
      row += 16;
    }
    if (index + HEAD_DEPTH < units) {
#pragma unroll
      for (int i = 0; i < BATCH; ++i)
        if (index + HEAD_DEPTH + i < units) copy16(now + i * 32, next + i * 32, policy);
      next += BATCH * 32;
    }
    copies_commit();
    slot = (slot + BATCH) % HEAD_DEPTH;
  }
  if (!p.best) return;
#pragma unroll
  for (int step = 16; step >= N; step /= 2) {
    unsigned long long other = __shfl_xor_sync(ALL, best, step);
    best = other > best ? other : best;
  }
  if (lane < N) found[warp * N + lane] = best;
  __syncthreads();
  if ((int)threadIdx.x >= min(N, p.count)) return;
#pragma unroll 1
  for (int w = 0; w < WARPS; ++w) best = found[w * N + threadIdx.x] > best ? found[w * N + threadIdx.x] : best;
  atomicMax(p.best + threadIdx.x, best);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) head_2(__grid_constant__ const Head p) { head_of_several<2>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 1) head_4(__grid_constant__ const Head p) { head_of_several<4>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 1) head_8(__grid_constant__ const Head p) { head_of_several<8>(p); }
