// A layer's FFN of a few columns as one kernel: layer_ffn.cu with the entry and the products of several.cuh.
//
// Down lies as repack_ffn_down made it: a fragment of the first two units has two row blocks, one in each half of its K, and the third one all four. With one column all four row blocks
// meet in one fragment, two columns of it each; with N columns 8 / N of them do, N columns of the fragment each, so N / 2 sets of accumulators go through a quad. Every block adds to the
// same sums: with copies, the entry behind would read four times as much of every column.
#include "several.cuh"

// What a lane multiplies with: its words of groups 0 to 3 and of 4 and 5 of the column that its column of the fragment has; zero points of the two columns whose sums it gets.
template <int BITS, int N>
struct SeveralValues {
  unsigned first[8 / BITS], last[8 / BITS];
  int correction[2];
};

template <int BITS, int N>
static __device__ __forceinline__ SeveralValues<BITS, N> read_several(const int8_t* values, int stride) {
  const int PLANES = 8 / BITS, t = threadIdx.x % 4, f = threadIdx.x % 32 / 4;
  const unsigned* words = (const unsigned*)(values + f % N * stride);
  SeveralValues<BITS, N> v;
  int sum = 0;
#pragma unroll
  for (int p = 0; p < PLANES; ++p) {
    v.first[p] = words[t * PLANES + p], v.last[p] = words[(4 + t % 2) * PLANES + p];
    sum = __dp4a((int)v.first[p], 0x01010101, sum);
    sum = __dp4a(t < 2 ? (int)v.last[p] : 0, 0x01010101, sum);
  }
  sum += __shfl_xor_sync(ALL, sum, 1);
  sum += __shfl_xor_sync(ALL, sum, 2);
#pragma unroll
  for (int i = 0; i < 2; ++i) v.correction[i] = __shfl_sync(ALL, sum, (2 * t + i) % N * 4) << (BITS - 1);
  return v;
}

// Adds a quad's sums to `sums[column * stride + row]`, whose first row is `row`.
// ALL_ROWS: every row is one of the matrix.
template <int BITS, int N, bool ALL_ROWS>
static __device__ __forceinline__ void add_quad_of_several(const Quad& quad, const SeveralValues<BITS, N>& v, int row, int rows, int columns, int* sums,
                                                           int stride) {
  const int PLANES = 8 / BITS, BLOCKS = 8 / N, t = threadIdx.x % 4, f = threadIdx.x % 32 / 4;
#pragma unroll
  for (int set = 0; set < N / 2; ++set) {
    // The lane's row block among four, as a column of the fragment.
    const int own = set * BLOCKS + f / N;
    ColumnSums<BITS> c;
    clear(c);
#pragma unroll
    for (int unit = 0; unit < 3; ++unit) {
      if (unit < 2 && (2 * unit / BLOCKS > set || (2 * unit + 1) / BLOCKS < set)) continue;
      const int in_low = unit < 2 ? 2 * unit : t / 2, in_high = unit < 2 ? 2 * unit + 1 : 2 + t / 2;
      unsigned low[PLANES], high[PLANES];
#pragma unroll
      for (int p = 0; p < PLANES; ++p) {
        const unsigned word = unit < 2 ? v.first[p] : v.last[p];
        low[p] = own == in_low ? word : 0, high[p] = own == in_high ? word : 0;
      }
      add_planes<BITS>(c, quad.unit[unit], low, high);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = (2 * t + i) % N, at = row + f + 8 * (set * BLOCKS + (2 * t + i) / N) + 32 * half;
        int sum = -v.correction[i];
#pragma unroll
        for (int p = 0; p < PLANES; ++p) sum += c.c[p][2 * half + i] >> (p * BITS);
        if ((ALL_ROWS || at < rows) && column < columns) atomicAdd(sums + column * stride + at, sum);
      }
  }
}

template <int BITS, int N, bool PLAIN>
static __device__ __forceinline__ void multiply_down_of_several(const Linear& p, const DownPlace& at, const Quad (&held)[FFN_HELD], const int8_t* values,
                                                                int stride) {
  const Matrix& down = p.m[1];
  const SeveralValues<BITS, N> v = read_several<BITS, N>(values, stride);
  const int columns = min(N, p.columns), stride_of = PLAIN ? 4 * THREADS : p.sums_stride;
#pragma unroll
  for (int i = 0; i < FFN_HELD; ++i)
    if (PLAIN || has_quad(at, i)) add_quad_of_several<BITS, N, PLAIN>(held[i], v, quad_of(at, i) * 64, down.rows, columns, p.sums, stride_of);
#pragma unroll 1
  for (int i = FFN_HELD; !PLAIN && has_quad(at, i); ++i) {
    const int quad = quad_of(at, i);
    const uint4* from = quads_of(down, at) + quad * 96;
    const Quad now = {__ldcs(from), __ldcs(from + 32), __ldcs(from + 64)};
    add_quad_of_several<BITS, N, false>(now, v, quad * 64, down.rows, columns, p.sums, p.sums_stride);
  }
}

#define HELD_EARLY(N) ((N) <= 4 ? 1 : 0)
// Quads of down that a thread reads before its input is there, as far as there are registers; the rest come when it is through with gate and up.
template <int N, bool PLAIN>
static __device__ __forceinline__ void hold(const Matrix& down, const DownPlace& place, bool early, Quad (&held)[FFN_HELD]) {
#pragma unroll
  for (int i = 0; i < FFN_HELD; ++i) {
    if ((i < HELD_EARLY(N)) != early || !(PLAIN || has_quad(place, i))) continue;
    const uint4* from = quads_of(down, place) + quad_of(place, i) * 96;
#pragma unroll
    for (int unit = 0; unit < 3; ++unit) held[i].unit[unit] = __ldcs(from + unit * 32);
  }
}

// Four columns do not enter in clusters. Clusters of as many blocks as there are multiprocessors do not lie evenly in the groups of multiprocessors of a card, and some
// blocks begin when others have ended (4 columns 1,152 us for 1,142); eight gain more by their shorter entry.
#define FFN_CLUSTERS(N) ((N) != 4)

// Shared memory, in this order: units of gate and up, entry room, GELU table, multipliers, sums, values of the FFN's hidden, input codes.
// A BITS that is not 0: see ffn_values.cuh. Without clusters the streams come behind the wait then.
template <int N, int BITS>
static __device__ __forceinline__ void ffn_of_several(const Linear& p) {
  constexpr bool PLAIN = BITS != 0;
  extern __shared__ __align__(128) char memory[];
  stamp(p.stamps, STARTED);
  const Matrix &gate = p.m[0], &down = p.m[1];
  const int block = blockIdx.x, width = ffn_width<FFN_GROUPS>(PLAIN ? BITS : down.bits), first = block * (width / 16);
  const int bits = PLAIN ? BITS : gate.bits, split_k = PLAIN ? 4 * THREADS * BITS / 256 : gate.split_k, hidden = PLAIN ? 4 * THREADS : p.enter.hidden;
  const int row_blocks = PLAIN ? width / 16 : max(0, min(width / 16, (gate.rows + 15) / 16 - first)), rows = row_blocks * 16, units = row_blocks * 2 * split_k;
  const int x_size = split_k * (256 / bits), x_stride = several_stride(x_size, bits);
  char* room = memory + width / 16 * 2 * split_k * 512;
  const bool CLUSTERS = FFN_CLUSTERS(N);
  EnterRoom entry;
  char* behind = several_room<N>(entry, room, hidden);
  if (CLUSTERS) entry = enter_room(room, hidden, 1), behind = room + hidden * 17;
  float* gelu = (float*)behind;
  float* multipliers = gelu + 256;
  int* sums = (int*)(multipliers + 2 * width);
  int8_t* values = (int8_t*)(sums + 2 * width * N);
  int8_t* x = values + width * N;
  SeveralRoom<N>& own = *(SeveralRoom<N>*)(x + N * x_stride);
  DownPlace place;
  place.quads = PLAIN ? FFN_HELD * WARPS : (down.rows + 63) / 64;
  place.first = (threadIdx.x / 32 + block) % place.quads;

  if (runs_starter()) {
    const unsigned kept = 4 * rows;
    runs_begin(&own.vectors, enter_bytes(p.enter) + 2 * kept + 1024);
    runs_begin(&own.weights, units * 512);
    if (CLUSTERS) runs_begin(&own.codes, handed_bytes<N>(hidden));
    enter_prefetch(p.enter, entry, &own.vectors);
    run(&own.vectors, gelu, p.gelu, 1024, staying());
    if (row_blocks > 0) {
      const int bytes = place.quads * 96 * 16;
      run(&own.vectors, multipliers, gate.multipliers + first * 16, kept, staying());
      run(&own.vectors, multipliers + width, p.up_multipliers + first * 16, kept, staying());
      run(&own.weights, memory, gate.codes + (size_t)first * 2 * split_k * 32, units * 512, streaming());
      prefetch((const char*)down.codes + (size_t)block * bytes, bytes, streaming());
    }
  }
  if (CLUSTERS) cluster_arrive();
  Quad held[FFN_HELD];
  if (row_blocks > 0) hold<N, PLAIN>(down, place, true, held);
  Stream s;
  s.k_count = split_k;
  if (PLAIN) s.first = threadIdx.x / 32 * FFN_EVEN, s.last = s.first + FFN_EVEN, s.block = s.first / split_k, s.k = s.first % split_k;
  else share(s, units);
  if (threadIdx.x < N) own.code_sums[threadIdx.x] = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < 2 * width * N; i += THREADS) sums[i] = 0;
  if (!PLAIN) clear_behind<N>(hidden, x, x_size, x_stride);
  read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out), read_now(p.enter.join.inverse);
  read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse), read_now(p.zero), read_now(p.zero_count);
  read_now(p.sums), read_now(p.sums_stride), read_now(p.next.inverse), read_now(p.up.inverse), read_now(gate.output.inverse);
  __syncthreads();
  runs_await(&own.vectors);
  const EnterVectors vectors = enter_vectors(p.enter, entry, team_of(1));
  const auto clears = [&](int from, int step) {
#pragma unroll 1
    for (int i = block * step + from; i < p.zero_count; i += gridDim.x * step) p.zero[i] = 0;
  };
  if (CLUSTERS) {
    const Handing<N> to = handing<N>(hidden, x, x_stride, own.parts, &own.codes);
    const EnterPlaces places = column_places<N, true>(p.enter, entry, to.column, cluster_id() == 0, own.scratch);
    cluster_wait();
    const auto begun = [&] { stamp(p.stamps, COULD_START); };
    const unsigned code = column_codes<PLAIN, true, true>(p.enter, entry, vectors, places, begun, [&] { clears(threadIdx.x - 32, THREADS - 32); });
    hand_on<N>(to, code, hidden);
    puts_await(&own.codes);
    add_parts<N>(own.parts, own.code_sums);
  } else {
    // The output projection, which has no entry, did not write the streams; attention as one kernel does (`late`).
    const bool early = !PLAIN && p.late == 0;
    float4 h[N];
    if (READS_EARLY(N) && early) read_streams<N>(p.enter, h);
    await_previous();
    stamp(p.stamps, COULD_START);
    release_early<N>();
    clears(threadIdx.x, THREADS);
    enter_several<N, PLAIN>(p.enter, entry, vectors, h, early, block == 0, x, x_size, x_stride, own.parts, own.roots, own.code_sums);
    __syncthreads();
  }
  // The last cluster may have more blocks than there are values: these are through.
  if (row_blocks == 0) return;
  stamp(p.stamps, HAS_INPUT);
  runs_await(&own.weights);
  const uint4* lanes = (const uint4*)memory + threadIdx.x % 32;
  static_assert(!PLAIN || ffn_width<FFN_GROUPS>(BITS) / 16 * 2 * (4 * THREADS * BITS / 256) == FFN_EVEN * WARPS, "the units of a warp");
  if (PLAIN) consume_several_even<PLAIN ? BITS : 4, N, FFN_EVEN>(s, lanes, x, x_stride, sums, 2 * width);
  else if (bits == 2) consume_several<2, N>(s, lanes, x, x_stride, sums, 2 * width);
  else if (bits == 4) consume_several<4, N>(s, lanes, x, x_stride, sums, 2 * width);
  else consume_several<8, N>(s, lanes, x, x_stride, sums, 2 * width);
  hold<N, PLAIN>(down, place, false, held);
  __syncthreads();

  // Sixteen threads have the rows of a row block and column.
#pragma unroll 1
  for (int i = threadIdx.x; i < width * N; i += THREADS) {
    const int column = i / 16 % N, local = i / (16 * N) * 16 + i % 16;
    int value = 0;
    if (PLAIN || local < rows) {
      const int correction = own.code_sums[column] << (bits - 1);
      // Row blocks of gate and up take turns.
      const int* at = sums + column * 2 * width + local + local / 16 * 16;
      const float g = (float)(at[0] - correction) * multipliers[local], u = (float)(at[16] - correction) * multipliers[width + local];
      if (PLAIN) {
        const int code = clamped(quotient(g, gate.output)), second = clamped(quotient(u, p.up));
        value = clamped(quotient(gelu[code + 128] * ((float)second * p.up.value), p.next));
      } else {
        const int code = quantise(g, gate.output), second = quantise(u, p.up);
        value = quantise(gelu[code + 128] * ((float)second * p.up.value), p.next);
      }
    }
    values[column * width + local] = (int8_t)value;
  }
  __syncthreads();
  stamp(p.stamps, HAS_SUMS);
  if (PLAIN) multiply_down_of_several<PLAIN ? BITS : 4, N, PLAIN>(p, place, held, values, width);
  else if (down.bits == 2) multiply_down_of_several<2, N, false>(p, place, held, values, width);
  else multiply_down_of_several<4, N, false>(p, place, held, values, width);
  stamp(p.stamps, ENDS);
}

// As many registers as layer_ffn has, beside which one block of a stage lies on a multiprocessor.
extern "C" __global__ void __maxnreg__(88) ffn_2(__grid_constant__ const Linear p) { ffn_of_several<2, 0>(p); }
extern "C" __global__ void __maxnreg__(88) ffn_4(__grid_constant__ const Linear p) { ffn_of_several<4, 0>(p); }
extern "C" __global__ void __maxnreg__(88) ffn_8(__grid_constant__ const Linear p) { ffn_of_several<8, 0>(p); }
#ifndef NO_CLUSTERS
extern "C" __global__ void __maxnreg__(88) ffn_2_at_2(__grid_constant__ const Linear p) { ffn_of_several<2, 2>(p); }
extern "C" __global__ void __maxnreg__(88) ffn_2_at_4(__grid_constant__ const Linear p) { ffn_of_several<2, 4>(p); }
extern "C" __global__ void __maxnreg__(88) ffn_4_at_2(__grid_constant__ const Linear p) { ffn_of_several<4, 2>(p); }
extern "C" __global__ void __maxnreg__(88) ffn_4_at_4(__grid_constant__ const Linear p) { ffn_of_several<4, 4>(p); }
#endif
