// A layer's attention of 2 to 4 neighbouring columns of one sequence as one kernel: layer_attention.cu for a verification.
//
// The blocks of a cluster do what they do there for all columns at once: weights, keys and values are read once. What differs:
//
// - Each block enters one column and puts its codes to others (several.cuh).
// - Columns see windows that begin and end up to N - 1 keys apart, so the keys of all of them may touch two blocks of keys more than the cluster has blocks. A buffer has N - 1 rows more:
//   a block's own keys lie N - 1 rows further down, those of the block of keys that lies `SIZE` blocks behind come before them. Windows are SIZE blocks of keys then, so the second
//   block's keys of all columns are at most N - 1 more than the rows that the first block's window has left.
// - A partial result goes to the one block that merges its column and values, which puts codes to all: SIZE / N blocks merge a column, each a part of the head.
//
// Who writes what to whom: codes of the entry; codes of q, k and v; partial results with their largest scores and sums of weights; merged codes with their sums. Each has a place and a
// counter of its own and is written once, so puts need nothing but what they carry: a sender has it from what was put to it before, and a receiver reads behind the counter. One place
// serves twice: partial results come where the entry's codes were, if every block has rows of q, since whoever sends one has this block's codes of q, which come behind a barrier that
// follows the last product with the entry's codes. Codes of q, k and v give theirs to scores and weights behind the barrier that follows their last use; nobody puts to them again.
#include "layer_attention.cuh"
#include "several_layer_attention.cuh"

#define SEVERAL_SIZE 8
#define SCORE_PITCH 72

// At the start of shared memory.
struct SeveralAttentionControl {
  Runs vectors, weights, entries, codes, partials, merged, output_weights;
  int fill[2];
  int scratch[32];
  int code_sums[4], output_code_sums[4];
};
static_assert(sizeof(SeveralAttentionControl) <= CONTROL_BYTES, "the plan counts as many");

// Arguments are those of one column; `count` columns from the first one on, whose sums lie `hidden` apart.
//
// A DIM that is not 0 says that everything is as E2B has it (plan/layer_attention.rs asks for it): heads of that many values, those of 256 in windows, those of 512 not; a stream that
// enters plainly (enter.cuh); linears of 4 bits, a head a part of the output projection's K. See layer_attention.cu.
template <int FORMAT, int N, int DIM>
static __device__ __forceinline__ void attend_layer_of_several(const LayerAttention& p, int count) {
  extern __shared__ __align__(128) char memory[];
  SeveralAttentionControl& control = *(SeveralAttentionControl*)memory;
  stamp(p.stamps, STARTED);
  constexpr bool PLAIN = DIM != 0;
  constexpr int SIZE = SEVERAL_SIZE, SHARES = SIZE / N;
  const int rank = cluster_rank(), head = cluster_id(), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int dim = PLAIN ? DIM : p.dim, hidden = PLAIN ? 4 * THREADS : p.enter.hidden, kv_head = divided(head, p.of_group);
  const int window = PLAIN && DIM == 512 ? 0 : p.window;
  const bool own = p.own;

  // Rows of q, k and v, and of the output projection; the part of its K that the head lies in.
  const int most_row_blocks = PLAIN ? DIM / 16 / SIZE : p.row_blocks;
  const int row_block = rank * most_row_blocks, row_blocks = PLAIN ? most_row_blocks : max(0, min(most_row_blocks, dim / 16 - row_block)), rows = row_blocks * 16;
  const int q_units = PLAIN ? 4 * THREADS / 64 : p.q.split_k, q_bits = PLAIN ? 4 : p.q.bits, o_bits = PLAIN ? 4 : p.o.bits;
  const int q_block = head * (dim / 16) + row_block, kv_block = kv_head * (dim / 16) + row_block;
  const int spans = own ? 3 : 1, all_rows = most_row_blocks * spans * 16, units = row_blocks * spans * q_units;
  const int x_size = q_units * inputs_of_unit(q_bits), x_stride = several_stride(x_size, q_bits);
  const int output_all = PLAIN ? 4 * THREADS / 16 : (p.o.rows + 15) / 16, most_output_blocks = PLAIN ? output_all / SIZE : p.output_blocks, o_units = PLAIN ? DIM / 64 : p.o.split_k;
  const int output_block = rank * most_output_blocks, output_blocks = PLAIN ? most_output_blocks : max(0, min(most_output_blocks, output_all - output_block));
  const int part_inputs = o_units * inputs_of_unit(o_bits), part = PLAIN ? head : divided(head, p.of_part), in_part = PLAIN ? 0 : head * dim - part * part_inputs;
  const int output_stride = several_stride(part_inputs, o_bits);
  const uint4* output_codes = p.o.codes + (size_t)(part * output_all + output_block) * o_units * 32;

  // Keys of all columns: rows `shift + lo .. shift + hi` are keys from `base` on, rows up to `second` those from `further` on.
  const unsigned long long base_address = p.columns->kv;
  const int position = p.columns->position, last = position + count - 1, shift = PLAIN ? (DIM == 256 ? N - 1 : 0) : window > 0 ? N - 1 : 0;
  const int first = first_seen(position, window), first_block = first / KEY_BLOCK, blocks = last / KEY_BLOCK - first_block + 1;
  const int base = (first_block + rank) * KEY_BLOCK, further = base + SIZE * KEY_BLOCK;
  const bool reads = rank < blocks;
  const int lo = reads ? max(first - base, 0) : 0, hi = reads ? min(last + 1 - base, KEY_BLOCK) : 0;
  // Without a window there are no more blocks of keys than blocks.
  const int second = !(PLAIN && DIM == 512) && rank + SIZE < blocks ? min(last + 1 - further, KEY_BLOCK) : 0, readers = min(blocks, SIZE);
  const int bytes = value_bytes<FORMAT>() * dim, stride = bytes + 64, first_slot = kv_head * p.slots;
  // A ring has more slots than a window, so `further` is at most once around.
  const int in_ring = p.ring ? base - divided(base, p.of_slots) * p.slots : base, after = in_ring + SIZE * KEY_BLOCK;
  const int slot = first_slot + in_ring, further_slot = first_slot + (p.ring && after >= p.slots ? after - p.slots : after);
  // The columns whose own keys are this block's are neighbours.
  auto key_block_of = [&](int c) { return (position + c) / KEY_BLOCK - first_block; };
  auto holder_of = [&](int c) { return key_block_of(c) % SIZE; };
  int held = 0, held_first = 0;
#pragma unroll
  for (int c = N - 1; c >= 0; --c)
    if (c < count && holder_of(c) == rank) ++held, held_first = c;
  auto row_of = [&](int c) { return (position + c) % KEY_BLOCK + (key_block_of(c) < SIZE ? shift : 0); };
  auto slot_of = [&](int c) { return (size_t)((key_block_of(c) < SIZE ? slot : further_slot) + (position + c) % KEY_BLOCK); };

  // What this block merges: a part of the values of a column, and the blocks of keys that the column sees.
  const int merged_column = rank / SHARES, part_dim = dim / SHARES, merged_from = rank % SHARES * part_dim, merged_warps = (part_dim + 31) / 32;
  const int part_shift = (dim == 512 ? 9 : dim == 256 ? 8 : dim == 128 ? 7 : dim == 64 ? 6 : 5) - (SHARES == 2 ? 1 : 2);
  const int merged_position = position + merged_column, merged_first = first_seen(merged_position, window) / KEY_BLOCK - first_block;
  const int merged_blocks = merged_column < count ? merged_position / KEY_BLOCK - first_block - merged_first + 1 : 0;

  char* weights = memory + CONTROL_BYTES;
  char* output_weights = memory + p.at_output;
  char* keys = memory + p.at_keys;
  char* values = memory + p.at_values;
  const EnterRoom entry = enter_room(memory + p.at_entry, hidden, 1);
  // What comes where codes of the entry were: see above.
  int8_t* x = (int8_t*)(memory + p.at_partials);
  float* partials = (float*)(x + (PLAIN || p.row_blocks * SIZE == dim / 16 ? 0 : N * x_stride));
  float* query = (float*)(memory + p.at_rest);
  float* q_norm = query + N * dim;
  float* of_warp = q_norm + dim + warp * 32;
  float* key_scales = q_norm + dim + WARPS * 32;
  float* value_scales = key_scales + SCORE_PITCH;
  float2* tops = (float2*)(value_scales + SCORE_PITCH);  // of the blocks of keys: largest score, sum of weights
  float* own_tops = (float*)(tops + 16);                 // largest scores of this block's keys, and of the further ones
  float* multipliers = own_tops + 2 * N;
  int* sums = (int*)(multipliers + all_rows);
  int* parts = sums + N * all_rows;
  int* merged_parts = parts + N * WARPS;                 // a column's sums of merged codes, by warps
  int8_t* output_x = (int8_t*)(merged_parts + N * 16);
  float* rope = (float*)(output_x + N * output_stride);
  const int rope_pitch = (2 * p.pairs + 3) / 4 * 4;
  float* k_norm = rope + N * rope_pitch;
  int8_t* codes = (int8_t*)(k_norm + (own ? dim : 0));   // [q, k, v][column][dim], then:
  float* scores = (float*)codes;
  float* of_keys = scores + N * SCORE_PITCH;             // weights: [fold][column][KEY_BLOCK]

  // Where row `j` lies, or nowhere: not a key of this block, or one of the pass's own.
  auto row_slot = [&](int j) {
    if (j < second) return further + j >= position ? -1 : further_slot + j;
    const int k = j - shift;
    return k >= lo && k < hi && base + k < position ? slot + k : -1;
  };
  const int pieces = bytes / 16;
  auto fetch_row = [&](char* to, unsigned long long from, int j, size_t at) {
#pragma unroll(PLAIN ? 2 : 1)
    for (int i = lane; i < pieces; i += 32) copy16(to + j * stride + i * 16, (const char*)from + at * bytes + i * 16);
  };
  auto fetch_rows = [&](bool with_keys, bool with_values) {
#pragma unroll 1
    for (int j = warp; j < KEY_BLOCK + shift; j += WARPS) {
      const int at = row_slot(j);
      if (at < 0) continue;
      if (with_keys) fetch_row(keys, base_address + p.keys, j, at);
      if (with_values) fetch_row(values, base_address + p.values_at, j, at);
    }
  };

  // Everything that no earlier kernel of the list writes.
  if (threadIdx.x == 0) {
    const unsigned span = row_blocks * q_units * 512;
    runs_begin(&control.vectors, enter_bytes(p.enter));
    runs_begin(&control.weights, span * spans);
    runs_begin(&control.output_weights, output_blocks * o_units * 512);
    runs_begin(&control.entries, handed_bytes<N>(hidden));
    runs_begin(&control.merged, count * (dim + 4 * SHARES * merged_warps));
    enter_prefetch(p.enter, entry, &control.vectors);
    if (row_blocks > 0) {
      run(&control.weights, weights, p.q.codes + (size_t)q_block * q_units * 32, span, streaming());
      if (own) {
        // Other clusters read them, too.
        run(&control.weights, weights + span, p.k.codes + (size_t)kv_block * q_units * 32, span, staying());
        run(&control.weights, weights + 2 * span, p.v.codes + (size_t)kv_block * q_units * 32, span, staying());
      }
    }
    // What comes to its place once that is free waits in the second-level cache.
    if (output_blocks > 0) prefetch(output_codes, output_blocks * o_units * 512, streaming());
    // From here on the position has to be there.
    runs_begin(&control.codes, reads ? (count + (own ? 2 * held : 0)) * dim : 0);
    runs_begin(&control.partials, merged_blocks * (4 * part_dim + 8));
    if (reads && p.late) {
      const unsigned block = KEY_BLOCK * bytes;
#pragma unroll 1
      for (int i = second > 0 ? 1 : 0; i >= 0; --i) {
        const size_t at = (size_t)(i ? further_slot : slot) * bytes;
        if (p.late == 2) prefetch((const char*)(base_address + p.keys) + at, block, staying());
        prefetch((const char*)(base_address + p.values_at) + at, block, staying());
      }
    }
  }
  cluster_arrive();
  if (threadIdx.x < dim / 4) {
    copy16(q_norm + 4 * threadIdx.x, p.q_norm + 4 * threadIdx.x);
    if (own) copy16(k_norm + 4 * threadIdx.x, p.k_norm + 4 * threadIdx.x);
  }
  if (threadIdx.x < rows / 4) {
    copy16(multipliers + 4 * threadIdx.x, p.q.multipliers + q_block * 16 + 4 * threadIdx.x);
    if (own) {
      copy16(multipliers + rows + 4 * threadIdx.x, p.k.multipliers + kv_block * 16 + 4 * threadIdx.x);
      copy16(multipliers + 2 * rows + 4 * threadIdx.x, p.v.multipliers + kv_block * 16 + 4 * threadIdx.x);
    }
  }
#pragma unroll 1
  for (int c = 0; c < count; ++c)
#pragma unroll 1
    for (int i = threadIdx.x; i < 2 * p.pairs; i += THREADS) copy4(rope + c * rope_pitch + i, p.rope + (size_t)(position + c) * p.rope_stride + i);
  copies_commit();
  fetch_rows(p.late < 2, p.late < 1);
  if (FORMAT == I8 && threadIdx.x < KEY_BLOCK + shift) {
    const int at = row_slot(threadIdx.x);
    if (at >= 0) {
      copy4(key_scales + threadIdx.x, (const float*)(base_address + p.key_scales) + at);
      copy4(value_scales + threadIdx.x, (const float*)(base_address + p.value_scales) + at);
    }
  }
  copies_commit();
#pragma unroll 1
  for (int i = threadIdx.x; i < N * all_rows; i += THREADS) sums[i] = 0;
  // What nobody puts: sums of warps that do not merge, inputs of other heads. Columns that are not there have none of either.
  if (threadIdx.x < N * 16) {
    const int column = threadIdx.x / 16, w = threadIdx.x % (16 / SHARES);
    if (column >= count || w >= merged_warps) merged_parts[threadIdx.x] = 0;
  }
#pragma unroll 1
  for (int i = 4 * threadIdx.x; i < part_inputs; i += 4 * THREADS) {
    const bool others = i < in_part || i >= in_part + dim;
#pragma unroll
    for (int c = 0; c < N; ++c)
      if (others || c >= count) *(int*)(output_x + c * output_stride + i) = 0;
  }
  if (!PLAIN) clear_behind<N>(hidden, x, x_size, x_stride);
  Stream s;
  s.k_count = q_units;
  share_batches(s, units);
  s.block = PLAIN ? s.first / q_units : divided(s.first, p.of_split), s.k = s.first - s.block * s.k_count;
  // Which four codes a thread makes: of a column's q, k or v; four threads have those of a row block, which each of them puts to every fourth receiver.
  const int item = PLAIN ? threadIdx.x / (4 * (PLAIN ? DIM / 16 / SIZE : 1)) : divided(threadIdx.x, p.of_words), word = threadIdx.x - item * 4 * most_row_blocks;
  const int which = own ? item % 3 : 0, column = own ? item / 3 : item;
  const bool makes = word < 4 * row_blocks && column < count;
  const Scale made = which == 0 ? p.q.output : which == 1 ? p.k.output : p.v.output;
  const int holder = makes ? holder_of(column) : 0;
  int8_t* const code_place = codes + (makes ? (which * N + column) * dim + (row_block + word / 4) * 16 : 0);
  read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out), read_now(p.enter.join.inverse);
  read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse), read_now(p.sums), read_now(p.zero);
  read_now(p.o.input.inverse), read_now(p.q.output.inverse);
  copies_wait<1>();
  __syncthreads();
  runs_await(&control.vectors);
  {
    const EnterVectors vectors = enter_vectors(p.enter, entry, team_of(1));
    const Handing<N> to = handing<N, SIZE>(hidden, x, x_stride, parts, &control.entries);
    const EnterPlaces places = column_places<N, true, SIZE>(p.enter, entry, to.column, blockIdx.x < SIZE, control.scratch);
    cluster_wait();
    const unsigned code = column_codes<PLAIN, false, true>(p.enter, entry, vectors, places, [&] { stamp(p.stamps, COULD_START); }, [] {});
    hand_on<N>(to, code, hidden);
  }
  const bool q_fast = PLAIN || (q_bits == 4 && q_units % 4 == 0);
  FourUnits units_of_q;
  runs_await(&control.weights);
  if (q_fast) load_four(units_of_q, (const uint4*)weights + s.first * 32 + lane, s.first < s.last);
  puts_await(&control.entries);
  add_parts<N>(parts, control.code_sums);
  stamp(p.stamps, HAS_INPUT);
  const uint4* const units_at = (const uint4*)weights + lane;
  if (q_fast) consume_fours_of_several<N>(s, units_of_q, units_at, x, x_stride, sums, all_rows);
  else if (q_bits == 4) consume_several<4, N>(s, units_at, x, x_stride, sums, all_rows);
  else if (q_bits == 2) consume_several<2, N>(s, units_at, x, x_stride, sums, all_rows);
  else consume_several<8, N>(s, units_at, x, x_stride, sums, all_rows);
  __syncthreads();

  if (warp * 32 < N * spans * most_row_blocks * 4) {
    unsigned code = 0;
    if (makes) {
      const int4 sum = *(const int4*)(sums + column * all_rows + which * rows + 4 * word);
      const float4 row_scales = *(const float4*)(multipliers + which * rows + 4 * word);
      const int correction = control.code_sums[column] << (q_bits - 1);
      code = quantise_four(make_float4((float)(sum.x - correction) * row_scales.x, (float)(sum.y - correction) * row_scales.y,
                                       (float)(sum.z - correction) * row_scales.z, (float)(sum.w - correction) * row_scales.w),
                           made);
    }
    unsigned four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = __shfl_sync(ALL, code, lane / 4 * 4 + i);
    const float4 all = make_float4(__uint_as_float(four[0]), __uint_as_float(four[1]), __uint_as_float(four[2]), __uint_as_float(four[3]));
#pragma unroll
    for (int i = 0; i < SIZE / 4; ++i) {
      const int to = lane % 4 + 4 * i;
      if (makes && (which == 0 ? to < readers : to == holder)) put(remote(code_place, to), all, remote(&control.codes, to));
    }
  }

  // The next kernel starts from here on: it is ready long before this one ends.
  release_next();
  // What comes where the weights of q, k and v and the entry were, and what the entry need not wait for.
  if (p.late) fetch_rows(p.late == 2, true);
  if (warp == WARPS - 1) {
    if (!own) {
      // Rows of the pass's own positions, which an earlier layer stored.
#pragma unroll 1
      for (int c = held_first; c < held_first + held; ++c) {
        const size_t at = slot_of(c);
        fetch_row(keys, base_address + p.keys, row_of(c), at);
        fetch_row(values, base_address + p.values_at, row_of(c), at);
        if (FORMAT == I8 && lane < 2)
          copy4((lane == 0 ? key_scales : value_scales) + row_of(c), (const float*)(base_address + (lane == 0 ? p.key_scales : p.value_scales)) + at);
      }
    }
    if (lane == 0 && output_blocks > 0)
      run(&control.output_weights, output_weights, output_codes, output_blocks * o_units * 512, streaming());
    const int from = blockIdx.x * 32 + lane, step = gridDim.x * 32;
#pragma unroll 1
    for (int i = from; i < p.zero_count; i += step) p.zero[i] = 0;
#pragma unroll 1
    for (int i = from; i < p.zero_too_count; i += step) p.zero_too[i] = 0;
  }
  copies_commit();

  if (reads) {
    // Queries, then this block's own keys and values: some warps each, but one where a row's scale is the whole row's.
    const int deep = dim == 512 ? 2 : dim == 256 ? 1 : 0, teams = WARPS >> deep, index = (warp & ((1 << deep) - 1)) * 32 + lane;
    const int jobs = count + (own && FORMAT != I8 ? 2 * held : 0);
    const bool keeps = head == kv_head * p.group;
    auto kind_of = [&](int job) { return job < count ? 0 : job < count + held ? 1 : 2; };
    auto column_of = [&](int job) { return job < count ? job : held_first + (job - count) % max(held, 1); };
    auto begin = [&](int job) {
      const int kind = kind_of(job), c = column_of(job);
      return head_work(codes + (kind * N + c) * dim, index, kind == 0 ? p.q.output.value : kind == 1 ? p.k.output.value : p.v.output.value, kind == 2,
                       kind == 1 ? k_norm : q_norm, rope + c * rope_pitch, p.pairs, dim);
    };
    int job = warp >> deep;
    HeadWork work;
    if (job < jobs) work = begin(job);
    puts_await(&control.codes);
#pragma unroll 1
    while (job < jobs) {
      const int kind = kind_of(job), c = column_of(job);
      const HeadPairs here = head_pairs(work, kind == 2, dim, p.count);
      if (work.has) {
        if (kind == 0) {
          store_pairs<F32>(here, index, dim, (char*)(query + c * dim));
        } else {
          store_pairs<FORMAT>(here, index, dim, (kind == 1 ? keys : values) + row_of(c) * stride);
          if (keeps) store_pairs<FORMAT>(here, index, dim, (char*)(base_address + (kind == 1 ? p.keys : p.values_at)) + slot_of(c) * bytes);
        }
      }
      job += teams;
      if (job < jobs) work = begin(job);
    }
    if (FORMAT == I8 && own) {
#pragma unroll 1
      for (int j = warp; j < 2 * held; j += WARPS) {
        const bool is_value = j >= held;
        const int c = held_first + (is_value ? j - held : j);
        const HeadValues here = head_values(codes + ((is_value ? 2 : 1) * N + c) * dim, is_value ? p.v.output.value : p.k.output.value, is_value, k_norm,
                                            rope + c * rope_pitch, p.pairs, dim, p.count);
        store_head<FORMAT>(here, dim, (is_value ? values : keys) + row_of(c) * stride, (is_value ? value_scales : key_scales) + row_of(c));
        if (keeps)
          store_head<FORMAT>(here, dim, (char*)(base_address + (is_value ? p.values_at : p.keys)) + slot_of(c) * bytes,
                             (float*)(base_address + (is_value ? p.value_scales : p.key_scales)) + slot_of(c));
      }
    }
    copies_wait<0>();
    __syncthreads();

    // Scores: eight threads have two keys, four of the 32 lanes each, and all columns.
    const int key_rows = second > 0 ? KEY_BLOCK + shift : shift + hi;
    if (8 * warp < key_rows && 8 * warp + 8 > (second > 0 ? 0 : shift + lo)) {
      const int u = lane / 2 % 8, j = 8 * warp + lane % 2 + lane / 16 * 2, top = KEY_BLOCK + shift - 1;
      // Rows that nobody loaded give scores that nobody reads.
      const int a = min(j, top), b = min(j + 4, top);
      KeyLanes<N> lanes;
      add_keys<FORMAT, N>(lanes, keep_shared(keys + a * stride + 4 * u * value_bytes<FORMAT>()), keep_shared(keys + b * stride + 4 * u * value_bytes<FORMAT>()),
                          FORMAT == I8 ? key_scales[a] : 0.0f, FORMAT == I8 ? key_scales[b] : 0.0f, keep_shared(query + 4 * u), dim);
      int sum;
      const float score = meet_keys<N>(lanes, sum);
      const int row = j + (sum >= N ? 4 : 0);
      if (row <= top) scores[sum % N * SCORE_PITCH + row] = score;
    }
    __syncthreads();

    // Weights: a warp has those of a column and a block of keys; keys that the column does not see weigh 0.
    auto from_of = [&](int c, int fold) { return max(first_seen(position + c, window) - (fold ? further : base), 0); };
    auto until_of = [&](int c, int fold) { return min(position + c + 1 - (fold ? further : base), KEY_BLOCK); };
    const int folds = second > 0 ? 2 : 1;
    if (warp < folds * N) {
      const int fold = warp / N, c = warp % N, from = from_of(c, fold), until = until_of(c, fold);
      const float* of_column = scores + c * SCORE_PITCH + (fold ? 0 : shift);
      const float a = lane >= from && lane < until ? of_column[lane] : -INFINITY;
      const float b = lane + 32 >= from && lane + 32 < until ? of_column[lane + 32] : -INFINITY;
      const float top = warp_largest(fmaxf(a, b));
      float* to = of_keys + (fold * N + c) * KEY_BLOCK;
      to[lane] = exp_or_zero(a - top), to[lane + 32] = exp_or_zero(b - top);
      if (lane == 0) own_tops[fold * N + c] = top;
    }
    __syncthreads();

    // Values: the last eight warps have two columns and two values a thread; a warp of the others has a column's sum of weights.
    const int SUMMERS = 4, halves = dim / 2, each = max(halves, 32);
    if (warp < SUMMERS) {
      if (warp < count) {
#pragma unroll 1
        for (int fold = folds - 1; fold >= 0; --fold) {
          const int c = warp, from = from_of(c, fold), until = until_of(c, fold), block = rank + fold * SIZE;
          if (from >= until) continue;
          const float4* of_column = (const float4*)(of_keys + (fold * N + c) * KEY_BLOCK);
          float l = 0.0f;
#pragma unroll 2
          for (int j = from / 4; 4 * j < until; ++j) {
            const float4 w = of_column[j];
            l = l + w.x, l = l + w.y, l = l + w.z, l = l + w.w;
          }
          if (lane < SHARES)
            put(remote(tops + block, c * SHARES + lane), make_float2(own_tops[fold * N + c], l), remote(&control.partials, c * SHARES + lane));
        }
      }
    } else {
#pragma unroll 1
      for (int i = threadIdx.x - 32 * SUMMERS; i < N / 2 * each; i += 32 * (WARPS - SUMMERS)) {
        const int pair = N > 2 && i >= each ? 1 : 0, c = 2 * pair, of_pair = i - pair * each;
        const bool there = of_pair < halves;
        const int d = there ? 2 * of_pair : 0;
        if (c >= count) continue;
#pragma unroll 1
        for (int fold = folds - 1; fold >= 0; --fold) {
          const int from = from_of(c, fold), until = until_of(min(c + 1, count - 1), fold), block = rank + fold * SIZE, row = fold ? 0 : shift;
          if (from >= until) continue;
          const char* of_value = values + row * stride + d * value_bytes<FORMAT>();
          const float4* of_column = (const float4*)(of_keys + (fold * N + c) * KEY_BLOCK);
          float2 a = make_float2(0.0f, 0.0f), b = a;
          // The next eight keys are read while eight are added.
          EightPairs<FORMAT> here, next;
          int j = from & ~7;
          load_pairs<FORMAT>(here, of_value, stride, value_scales + row, j, from, until);
#pragma unroll 1
          for (; j < until; j += 8) {
            const float4 w = of_column[j / 4], v = of_column[j / 4 + 1], y = of_column[KEY_BLOCK / 4 + j / 4], z = of_column[KEY_BLOCK / 4 + j / 4 + 1];
            if (j + 8 < until) load_pairs<FORMAT>(next, of_value, stride, value_scales + row, j + 8, from, until);
            const float weight[8] = {w.x, w.y, w.z, w.w, v.x, v.y, v.z, v.w}, other[8] = {y.x, y.y, y.z, y.w, z.x, z.y, z.z, z.w};
#pragma unroll
            for (int k = 0; k < 8; ++k) {
              const float2 value = pair_of<FORMAT>(here, k);
              a.x = __fmaf_rn(weight[k], value.x, a.x), a.y = __fmaf_rn(weight[k], value.y, a.y);
              b.x = __fmaf_rn(other[k], value.x, b.x), b.y = __fmaf_rn(other[k], value.y, b.y);
            }
            here = next;
          }
          // Of two neighbours' four values the even lane puts the first column's, the odd one the second's.
          const bool odd = lane % 2;
          const float2 give = odd ? a : b;
          const float2 got = make_float2(__shfl_xor_sync(ALL, give.x, 1), __shfl_xor_sync(ALL, give.y, 1));
          const float4 four = odd ? make_float4(got.x, got.y, b.x, b.y) : make_float4(a.x, a.y, got.x, got.y);
          const int mine = c + (odd ? 1 : 0), at = odd ? d - 2 : d;
          if (there && mine < count && from_of(mine, fold) < until_of(mine, fold)) {
            const int share = at >> part_shift, to = mine * SHARES + share;
            put(remote(partials + block * part_dim + at - share * part_dim, to), four, remote(&control.partials, to));
          }
        }
      }
    }
  } else {
    __syncthreads();  // the run of output weights has begun
  }

  // Weights of the first units of the output projection.
  const uint4* output_units = (const uint4*)output_weights;
  const bool output_fast = PLAIN || (o_bits == 4 && p.o.split_k % 4 == 0);
  FourUnits output;
  runs_await(&control.output_weights);
  if (output_fast) load_four(output, output_units + warp * o_units * 32 + lane, warp < output_blocks);

  // The merge of rule 8, a value a thread; factors are made by every warp for itself: those of block j in half a warp's lane j, and at j - 1 in shared memory.
  puts_await(&control.partials);
  if (warp < merged_warps && merged_column < count) {
    const float2* of_block = tops + merged_first;
    if (merged_blocks > 1) {
      const int j = lane & 15;
      const float mine = j < merged_blocks ? of_block[j].x : -INFINITY;
      float after = mine;
#pragma unroll
      for (int step = 1; step < 16; step *= 2) {
        const float other = __shfl_up_sync(ALL, after, step);
        if (j >= step) after = fmaxf(after, other);
      }
      const float previous = __shfl_up_sync(ALL, after, 1), factor = exp_or_zero((lane < 16 ? previous : mine) - after);
      if (j > 0) of_warp[lane - 1] = factor;
      __syncwarp();
    }
    const int d = threadIdx.x;
    const bool there = d < part_dim;
    const float* value_of = partials + merged_first * part_dim + (there ? d : 0);
    float a = value_of[0], l = of_block[0].y;
    const float4* factors = (const float4*)of_warp;
#pragma unroll 1
    for (int j = 1; j < merged_blocks; j += 4) {
      const float4 keeps = factors[j / 4], takes = factors[j / 4 + 4];
      const float keep[4] = {keeps.x, keeps.y, keeps.z, keeps.w}, take[4] = {takes.x, takes.y, takes.z, takes.w};
      float value[4], sum[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        value[i] = j + i < merged_blocks ? value_of[(j + i) * part_dim] : 0.0f;
        sum[i] = j + i < merged_blocks ? of_block[j + i].y : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float next_l = __fmaf_rn(l, keep[i], sum[i] * take[i]), next_a = __fmaf_rn(a, keep[i], value[i] * take[i]);
        if (j + i < merged_blocks) l = next_l, a = next_a;
      }
    }
    const int code = there ? quantise(__fdiv_rn(a, l), p.o.input) : 0;
    unsigned word_of_codes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) word_of_codes |= (unsigned)(__shfl_sync(ALL, code, lane / 4 * 4 + i) & 255) << (8 * i);
    const int8_t* to_codes = output_x + merged_column * output_stride + in_part + merged_from + (there ? d / 4 * 4 : 0);
#pragma unroll
    for (int i = 0; i < SIZE / 4; ++i) {
      const int to = lane % 4 + 4 * i;
      if (there) put(remote(to_codes, to), word_of_codes, remote(&control.merged, to));
    }
    const int sum = warp_sum(code);
    if (lane < SIZE) put(remote(merged_parts + merged_column * 16 + rank % SHARES * (16 / SHARES) + warp, lane), (unsigned)sum, remote(&control.merged, lane));
  }
  puts_await(&control.merged);
  stamp(p.stamps, HAS_SUMS);
  // Sums of a column's codes: lane t's column where columns share a fragment.
  auto sum_of_codes = [&](int c) {
    const int4* from = (const int4*)(merged_parts + c * 16);
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += (from[i].x + from[i].y) + (from[i].z + from[i].w);
    return sum;
  };
  if (output_fast) {
    const int correction = sum_of_codes(min(lane % 4, N - 1)) << 3;
    if (PLAIN) add_output_plain_of_several<N, PLAIN ? DIM : 256>(output, output_units + lane, output_block, output_x, output_stride, correction, p.sums, count);
    else add_output_fours_of_several<N>(p.o, output, output_units + lane, output_block, output_blocks, output_x, output_stride, correction, p.sums, hidden, count);
  } else {
    if (threadIdx.x < N) control.output_code_sums[threadIdx.x] = sum_of_codes(threadIdx.x);
    __syncthreads();
    const int* all = control.output_code_sums;
    if (o_bits == 4) add_output_of_several<4, N>(p.o, output_units, output_block, output_blocks, output_x, output_stride, all, p.sums, hidden, count);
    else if (o_bits == 2) add_output_of_several<2, N>(p.o, output_units, output_block, output_blocks, output_x, output_stride, all, p.sums, hidden, count);
    else add_output_of_several<8, N>(p.o, output_units, output_block, output_blocks, output_x, output_stride, all, p.sums, hidden, count);
  }
  stamp(p.stamps, ENDS);
}

#ifndef NO_CLUSTERS
#define ATTEND_LAYER_OF_SEVERAL(name, format, columns)                                                                       \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) name(__grid_constant__ const LayerAttention p, int count) {       \
    attend_layer_of_several<format, columns, 0>(p, count);                                                                   \
  }
ATTEND_LAYER_OF_SEVERAL(layer_attention_2_f32, F32, 2)
ATTEND_LAYER_OF_SEVERAL(layer_attention_2_f16, F16, 2)
ATTEND_LAYER_OF_SEVERAL(layer_attention_2_i8, I8, 2)
ATTEND_LAYER_OF_SEVERAL(layer_attention_4_f32, F32, 4)
ATTEND_LAYER_OF_SEVERAL(layer_attention_4_f16, F16, 4)
ATTEND_LAYER_OF_SEVERAL(layer_attention_4_i8, I8, 4)

#define ATTEND_PLAIN_LAYER_OF_SEVERAL(columns, dim)                                                                                                                \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) layer_attention_##columns##_of_##dim(__grid_constant__ const LayerAttention p, int count) { \
    attend_layer_of_several<F16, columns, dim>(p, count);                                                                                                          \
  }
ATTEND_PLAIN_LAYER_OF_SEVERAL(2, 256)
ATTEND_PLAIN_LAYER_OF_SEVERAL(2, 512)
ATTEND_PLAIN_LAYER_OF_SEVERAL(4, 256)
ATTEND_PLAIN_LAYER_OF_SEVERAL(4, 512)
#endif
