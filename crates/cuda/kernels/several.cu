// The stages of a layer for a few columns (several.cuh): a verification or a small batch. A linear as in stages.cu and a per-layer embedding as in ple.cu, with all weights of
// a block brought before the input is there, for streams of at most four values a thread. No taps; wider streams and blocks with more weights run as stage_wide.
#include "several.cuh"

// Shared memory, in this order: weights, [entry room | merge scales], [GELU table], multipliers of the block's rows, sums, input codes.
template <int N>
static __device__ __forceinline__ void stage_of_several(const Linear& p) {
  const int input = p.input_kind, output = p.output_kind;
  extern __shared__ __align__(128) char memory[];
  stamp(p.stamps, STARTED);

  // Which matrix, rows and part of K.
  int which = 0, before = 0;
  if (output == CODES_OUT)
    while (which + 1 < p.matrices && (int)blockIdx.x >= p.block_end[which]) before = p.block_end[which++];
  const Matrix& m = p.m[which];
  const int index = blockIdx.x - before, part = blockIdx.y, spans = output == FFN_OUT ? 2 : 1;
  const int row_block = index * p.row_blocks, all = (m.rows + 15) / 16, row_blocks = max(0, min(p.row_blocks, all - row_block));
  const int x_size = m.split_k * (256 / m.bits), x_stride = several_stride(x_size, m.bits);
  const int units = row_blocks * spans * m.split_k, rows = p.row_blocks * 16;
  const bool enters = input == ENTRY, merges = input == MERGED;

  char* room = memory + p.row_blocks * spans * m.split_k * 512;
  float4* scales = (float4*)room;
  const int hidden = p.enter.hidden;
  const EnterRoom entry = enter_room(room, hidden, 1);
  if (enters) room += hidden * 17;
  float4* values = scales + N * p.merge.heads * SEVERAL_CHUNK;
  if (merges) room = (char*)(values + SEVERAL_CHUNK * min(THREADS, x_size / 4 * N));
  float* gelu = (float*)room;
  if (output == FFN_OUT) room += 256 * sizeof(float);
  float* multipliers = (float*)room;
  int* sums = (int*)(multipliers + rows * spans);
  int8_t* x = (int8_t*)(sums + rows * spans * N);
  SeveralRoom<N>& own = *(SeveralRoom<N>*)(x + N * x_stride);

  // Everything that no earlier kernel writes: vectors first, then weights.
  if (runs_starter()) {
    const unsigned kept = output == SUMS_OUT ? 0 : 4 * max(0, min(row_blocks * 16, m.rows - row_block * 16));
    runs_begin(&own.vectors, (enters ? enter_bytes(p.enter) : 0) + (output == FFN_OUT ? 2 * kept + 1024 : kept));
    runs_begin(&own.weights, units * 512);
    if (enters) {
      runs_begin(&own.codes, handed_bytes<N>(hidden));
      enter_prefetch(p.enter, entry, &own.vectors);
    }
    if (kept) run(&own.vectors, multipliers, m.multipliers + row_block * 16, kept, staying());
    if (output == FFN_OUT) {
      run(&own.vectors, multipliers + rows, p.up_multipliers + row_block * 16, kept, staying());
      run(&own.vectors, gelu, p.gelu, 1024, staying());
    }
    if (units > 0) run(&own.weights, memory, m.codes + (size_t)(part * all + row_block) * spans * m.split_k * 32, units * 512, streaming());
  }
  if (enters) cluster_arrive();
  Stream s;
  s.k_count = m.split_k;
  share(s, units);
  if (threadIdx.x < N) {
    own.code_sums[threadIdx.x] = 0;
    if (merges) {
      const int position = (int)threadIdx.x < p.columns ? p.merge.columns[threadIdx.x].position : 0;
      own.blocks[threadIdx.x] = position / KEY_BLOCK - first_visible(position, p.merge.window) / KEY_BLOCK + 1;
    }
  }
  const int merge_from = part * x_size, merge_count = min(x_size, p.merge.heads * p.merge.head_dim - merge_from);
  MergePlace place;
  if (merges) place = merge_place(p.merge, team_of(1), merge_from, merge_count);
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * spans * N; i += THREADS) sums[i] = 0;
  if (enters) {
    clear_behind<N>(hidden, x, x_size, x_stride);
    read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out);
    read_now(p.enter.join.inverse), read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse);
  }
  if (merges)
    read_now(p.merge.values), read_now(p.merge.largest), read_now(p.merge.sums), read_now(p.merge.input.inverse);
  read_now(p.out[which]), read_now(p.sums), read_now(p.zero), read_now(p.next.inverse), read_now(p.up.inverse);
  read_now(p.sums_stride), read_now(p.zero_count), read_now(m.output.inverse);
  __syncthreads();
  runs_await(&own.vectors);

  const auto begun = [&] {
    stamp(p.stamps, COULD_START);
#pragma unroll 1
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < p.zero_count; i += gridDim.x * THREADS) p.zero[i] = 0;
  };
  if (enters) {
    const EnterVectors vectors = enter_vectors(p.enter, entry, team_of(1));
    const Handing<N> to = handing<N>(hidden, x, x_stride, own.parts, &own.codes);
    const EnterPlaces places = column_places<N, true>(p.enter, entry, to.column, cluster_id() == 0, own.scratch);
    cluster_wait();
    const unsigned code = enter_codes<1, true, true>(p.enter, entry, vectors, places, begun, [] {});
    hand_on<N>(to, code, hidden);
    puts_await(&own.codes);
    add_parts<N>(own.parts, own.code_sums);
  } else {
    await_previous();
    release_early<N>();
    begun();
    if (merges) merge_several<N>(p.merge, place, own.blocks, merge_from, merge_count, x_size, x, x_stride, scales, values, own.code_sums);
    else codes_several<N>(p.input + part * x_size, p.input_stride, x, x_size, x_stride, own.code_sums);
    __syncthreads();
  }
  stamp(p.stamps, HAS_INPUT);
  runs_await(&own.weights);
  const uint4* ring = (const uint4*)memory + threadIdx.x % 32;
  if (m.bits == 2) consume_several<2, N>(s, ring, x, x_stride, sums, rows * spans);
  else if (m.bits == 4) consume_several<4, N>(s, ring, x, x_stride, sums, rows * spans);
  else consume_several<8, N>(s, ring, x, x_stride, sums, rows * spans);
  __syncthreads();
  stamp(p.stamps, HAS_SUMS);

  // Sixteen threads have the rows of a row block and column.
#pragma unroll 1
  for (int i = threadIdx.x; i < row_blocks * 16 * N; i += THREADS) {
    const int column = i / 16 % N, local = i / (16 * N) * 16 + i % 16, row = row_block * 16 + local;
    if (row >= m.rows || column >= p.columns) continue;
    const int correction = own.code_sums[column] << (m.bits - 1);
    // Row blocks of gate and up take turns.
    const int* at = sums + column * rows * spans + (spans == 1 ? local : local + local / 16 * 16);
    const int sum = at[0] - correction;
    if (output == SUMS_OUT) {
      int* to = p.sums + (size_t)column * p.sums_stride + row;
      if (m.splits == 1) *to = sum;
      else atomicAdd(to, sum);
      continue;
    }
    const int code = quantise((float)sum * multipliers[local], m.output);
    int8_t* out = p.out[which] + (size_t)column * p.out_stride + row;
    if (output == CODES_OUT) {
      *out = (int8_t)code;
      continue;
    }
    const int second = quantise((float)(at[16] - correction) * multipliers[rows + local], p.up);
    *out = (int8_t)quantise(gelu[code + 128] * ((float)second * p.up.value), p.next);
  }
  stamp(p.stamps, ENDS);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) stage_2(__grid_constant__ const Linear p) { stage_of_several<2>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) stage_4(__grid_constant__ const Linear p) { stage_of_several<4>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) stage_8(__grid_constant__ const Linear p) { stage_of_several<8>(p); }

// Units of the gate of a warp where all have as many.
#define PLE_EVEN (PLE_ROWS / 16 * (4 * THREADS / 32) / WARPS)

// The per-layer embedding, whose blocks share the projection's rows: `p.row_blocks` of them a block, its part of K by x, its rows by y. Shared memory, in this order: the gate's units,
// the projection's, entry room, GELU table, multipliers, sums, input codes.
// PLAIN: as in ple.cu, with two row blocks of the projection a warp.
template <int N, bool PLAIN>
static __device__ __forceinline__ void per_layer_of_several(const Linear& p) {
  extern __shared__ __align__(128) char memory[];
  stamp(p.stamps, STARTED);
  const Matrix &gate = p.m[0], &projection = p.m[1];
  // The last cluster may have more blocks than there are parts: these only enter their columns.
  const int part = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int hidden = PLAIN ? 4 * THREADS : p.enter.hidden, split_k = PLAIN ? 4 * THREADS / 32 : gate.split_k;
  const bool works = part < gate.rows / PLE_ROWS;
  const int units = works ? PLE_ROWS / 16 * split_k : 0, all = (projection.rows + 15) / 16, each = PLAIN ? 2 * WARPS : p.row_blocks ? p.row_blocks : all;
  const int first = blockIdx.y * each, row_blocks = !works ? 0 : PLAIN ? each : min(each, all - first), x_size = split_k * 32, x_stride = several_stride(x_size, 8);

  uint4* ring = (uint4*)memory + lane;
  uint4* second = ring + units * 32;
  char* room = memory + (PLE_ROWS / 16 * split_k + each) * 512;
  const EnterRoom entry = enter_room(room, hidden, 1);
  room += hidden * 17;
  float* gelu = (float*)room;
  float* multipliers = gelu + 256;
  int* sums = (int*)(multipliers + PLE_ROWS);
  int8_t* x = (int8_t*)(sums + PLE_ROWS * N);
  SeveralRoom<N>& own = *(SeveralRoom<N>*)(x + N * x_stride);

  if (runs_starter()) {
    runs_begin(&own.vectors, enter_bytes(p.enter) + (works ? PLE_ROWS * 4 + 1024 : 0));
    runs_begin(&own.weights, units * 512);
    runs_begin(&own.codes, handed_bytes<N>(hidden));
    enter_prefetch(p.enter, entry, &own.vectors);
    if (works) {
      run(&own.vectors, multipliers, gate.multipliers + part * PLE_ROWS, PLE_ROWS * 4, staying());
      run(&own.vectors, gelu, p.gelu, 1024, staying());
      run(&own.weights, memory, gate.codes + (size_t)part * units * 32, units * 512, streaming());
    }
  }
  cluster_arrive();
  // A lane copies what it will use.
  const uint4* from = projection.codes + part * 32 + lane;
#pragma unroll 2
  for (int unit = warp; unit < row_blocks; unit += WARPS)
    copy16(second + unit * 32, from + (size_t)(first + unit) * projection.split_k * 32, streaming());
  copies_commit();
  Stream s;
  s.k_count = split_k;
  if (PLAIN) s.first = warp * PLE_EVEN, s.last = s.first + PLE_EVEN, s.block = s.first / split_k, s.k = s.first % split_k;
  else share(s, units);
  if (threadIdx.x < N) own.code_sums[threadIdx.x] = 0;
  if (threadIdx.x < PLE_ROWS * N) sums[threadIdx.x] = 0;
  if (!PLAIN) clear_behind<N>(hidden, x, x_size, x_stride);
  read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out), read_now(p.enter.join.inverse);
  read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse), read_now(p.ple), read_now(p.sums);
  read_now(p.next.inverse), read_now(gate.output.inverse), read_now(p.ple_stride), read_now(p.sums_stride);
  __syncthreads();
  runs_await(&own.vectors);
  const EnterVectors vectors = enter_vectors(p.enter, entry, team_of(1));
  const Handing<N> to = handing<N>(hidden, x, x_stride, own.parts, &own.codes);
  const EnterPlaces places = column_places<N, false>(p.enter, entry, to.column, cluster_id() + blockIdx.y == 0, own.scratch);
  // A warp has a column's rows of the gate.
  const float* ple_at = p.ple + (size_t)min(warp, p.columns - 1) * p.ple_stride + (works ? part * PLE_ROWS : 0) + lane;
  keep(ple_at);
  cluster_wait();
  float ple = 0.0f;
  const auto begun = [&] { stamp(p.stamps, COULD_START), ple = __ldcg(ple_at); };
  const unsigned code = column_codes<PLAIN, true, false>(p.enter, entry, vectors, places, begun, [] {});
  hand_on<N>(to, code, hidden);
  puts_await(&own.codes);
  add_parts<N>(own.parts, own.code_sums);
  if (!works) return;
  stamp(p.stamps, HAS_INPUT);
  runs_await(&own.weights);
  if (PLAIN) consume_several_even<8, N, PLE_EVEN>(s, ring, x, x_stride, sums, PLE_ROWS);
  else consume_several<8, N>(s, ring, x, x_stride, sums, PLE_ROWS);
  __syncthreads();
  if (warp < N) {
    const float y = (float)(sums[threadIdx.x] - 128 * own.code_sums[warp]) * multipliers[lane];
    const int code = PLAIN ? clamped(quotient(y, gate.output)) : quantise(y, gate.output);
    const float product = gelu[code + 128] * ple;
    own.product[threadIdx.x] = (int8_t)(PLAIN ? clamped(quotient(product, p.next)) : quantise(product, p.next));
  }
  __syncthreads();

  stamp(p.stamps, HAS_SUMS);
  const int* words = (const int*)own.product;
  const int column = min(lane / 4, N - 1) * (PLE_ROWS / 4), mine = lane % 4 * 2;
  const unsigned b0 = words[column + lane % 4], b1 = words[column + 4 + lane % 4];
  // Zero points of the lane's two columns of the fragment.
  int correction[2] = {0, 0};
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const int4* at = (const int4*)(words + min(mine + side, N - 1) * (PLE_ROWS / 4));
#pragma unroll
    for (int i = 0; i < PLE_ROWS / 16; ++i) {
      int4 four = at[i];
      correction[side] = __dp4a(four.x, 0x01010101, correction[side]);
      correction[side] = __dp4a(four.y, 0x01010101, correction[side]);
      correction[side] = __dp4a(four.z, 0x01010101, correction[side]);
      correction[side] = __dp4a(four.w, 0x01010101, correction[side]);
    }
    correction[side] *= 128;
  }
  const int count = min(N, p.columns);
  copies_wait<0>();
#pragma unroll 2
  for (int unit = warp; unit < row_blocks; unit += WARPS) {
    uint4 w = second[unit * 32];
    int c[4] = {0, 0, 0, 0};
    mma(c, w.x, w.y, w.z, w.w, b0, b1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = (first + unit) * 16 + lane / 4 + i / 2 * 8, to = mine + i % 2;
      if (to < count && (PLAIN || row < projection.rows)) atomicAdd(p.sums + (size_t)to * p.sums_stride + row, c[i] - correction[i % 2]);
    }
  }
  stamp(p.stamps, ENDS);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) per_layer_2(__grid_constant__ const Linear p) { per_layer_of_several<2, false>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) per_layer_4(__grid_constant__ const Linear p) { per_layer_of_several<4, false>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) per_layer_8(__grid_constant__ const Linear p) { per_layer_of_several<8, false>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) per_layer_2_plain(__grid_constant__ const Linear p) { per_layer_of_several<2, true>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) per_layer_4_plain(__grid_constant__ const Linear p) { per_layer_of_several<4, true>(p); }

// The projection to the per-layer inputs (inputs.cu) of fewer columns than eight: what is not there costs fma and shared memory as well.
extern "C" __global__ void __launch_bounds__(512) project_2(__grid_constant__ const Project p) { project_rows<2>(p); }
extern "C" __global__ void __launch_bounds__(512) project_4(__grid_constant__ const Project p) { project_rows<4>(p); }
