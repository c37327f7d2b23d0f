// A layer's attention of one column as one kernel: entry, q, k and v, head norms, rope, scores and values, merge, output projection.
//
// A cluster of blocks has one query head, so nothing leaves the cluster before the sums of the output projection, which meet in global memory as integers (a value has as many
// adders as there are heads). Where three kernels hand on codes and partial results through the second-level cache, at an edge each, the blocks of a cluster put them into each
// other's shared memory: a put arrives by itself and is counted by the receiver (ptx.cuh), so two waits take the place of two edges and of two barriers of the cluster.
//
// Who has what, of a cluster of `size` blocks: the entry every block; rows of q, and of k and v in a layer that owns them (every cluster makes the K/V head for itself), an equal
// part a block; blocks of 64 keys in turns; the merge every block; rows of the output projection an equal part a block, its K the head's. A window of 64 * size keys that
// is not aligned has one block of keys more than the cluster, and its first and last block have 64 keys together, in different rows: block 0 has both in one buffer.
// More keys than that, taps, more columns or too little shared memory: the three kernels do the same (plan/layer_attention.rs decides).
//
// What is read before the wait, and what behind it, is attention.cu's: K/V of earlier positions early, the row of this position behind the wait where an earlier layer stored it.
// The sums that the output projection adds to were cleared by this kernel of the layer before, the first layer's with the embedding; here those of the next layer are, whose readers have
// finished. Reading order: what lies where (rows, keys, shared memory); what comes before the wait; entry and products; codes to their readers; scores and values; merge and output.
// In clocks the part from the entry to the sums ends where the merged codes are there.
#include "enter.cuh"
#include "linear.cuh"

struct LayerAttention {
  Matrix q, k, v, o;  // k and v: of a layer that stores its own
  Enter enter;
  const Column* columns;
  const float* q_norm;
  const float* k_norm;
  const float* rope;  // [positions x rope_stride]: cosines, then sines
  const Chain* chain;
  int* sums;          // of the output projection
  int* zero;          // those of the next layer, cleared here
  int* zero_too;      // what the next kernel adds to, where it wants that cleared
  unsigned long long* stamps;
  unsigned long long keys, values_at, key_scales, value_scales;  // byte offsets from a column's base
  int rope_stride, pairs, slots, ring, dim, group, window, own;
  int row_blocks;     // of q, and of k and v, a block of the cluster at most
  int output_blocks;  // of the output projection, likewise
  int zero_count, zero_too_count;
  // Divisors, as `divided` has them: 2^32 / n, rounded up.
  unsigned of_group, of_part, of_slots, of_words, of_split;  // query heads of a K/V head, heads of a part of K, slots, words of `row_blocks`, units of K
  Scale count;        // of a head's values
  int late;           // 1: values take the place of what was used; 2: keys, too
  int at_keys, at_values, at_entry, at_output, at_partials, at_rest;  // bytes into shared memory
};

// At the start of shared memory.
struct LayerAttentionControl {
  Runs vectors, weights, codes, partials, output_weights;
  int fill[6];
  int scratch[32];
  float root;
  int code_sum, output_code_sum;
};
#define CONTROL_BYTES 256

// A quotient by a number that the host knows; 1 has no inverse.
static __device__ __forceinline__ int divided(int x, unsigned inverse) { return inverse == 0 ? x : (int)__umulhi(x, inverse); }

// `unit_inputs` without a quotient.
static __device__ __forceinline__ int inputs_of_unit(int bits) { return bits == 4 ? 64 : bits == 2 ? 128 : 32; }

// The product of a block's rows of the output projection with the head's codes, added to `sums`: a warp has whole row blocks, so its sums need no shared memory.
template <int BITS>
static __device__ __forceinline__ void add_output(const Matrix& m, const uint4* weights, int row_block, int row_blocks, const int8_t* x, int code_sum,
                                                  int* sums) {
  const int PLANES = 8 / BITS, lane = threadIdx.x % 32, t = lane % 4;
  const int8_t* column = x + t * 4 * PLANES + lane / 4 % PLANES * 4;
  const int correction = t == 0 ? (code_sum << (BITS - 1)) : 0;
#pragma unroll 1
  for (int block = threadIdx.x / 32; block < row_blocks; block += WARPS) {
    ColumnSums<BITS> c;
    clear(c);
    const uint4* units = weights + block * m.split_k * 32 + lane;
    const unsigned* at = (const unsigned*)column;
#pragma unroll 2
    for (int k = 0; k < m.split_k; k += 2) {
      UnitPair pair;
      load_pair<BITS>(pair, units + k * 32, at + k * (64 / BITS), m.split_k - k);
      add_pair(c, pair, m.split_k - k);
    }
    if (2 * t >= PLANES) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int sum = -correction;
#pragma unroll
      for (int p = 0; p < PLANES; ++p) {
        const int from = 2 * half + p % 2, plane = c.c[p][from] - (p > 0 ? c.c[p > 0 ? p - 1 : 0][from] : 0);
        if (p / 2 == t) sum += plane >> (p * BITS);
      }
      const int row = (row_block + block) * 16 + lane / 4 + half * 8;
      if (row < m.rows) atomicAdd(sums + row, sum);
    }
  }
}

// A head by a warp, in registers: lane l has words l + 32 i of four values.
struct HeadValues {
  float4 word[4];
};

// Rules 6 and 7 on the codes of a head of 32, 64, ... 512 values; without weight and rope where they are values. (No null in place of either: the compiler would lose sight
// of where they lie.)
static __device__ __forceinline__ HeadValues head_values(const int8_t* codes, float scale, bool are_values, const float* weight, const float* rope,
                                                         int pairs, int dim, const Scale& count) {
  const int lane = threadIdx.x % 32;
  HeadValues head;
  int squares = 0, word[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = lane + 32 * i < dim / 4 ? ((const int*)codes)[lane + 32 * i] : 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) squares = __dp4a(word[i], word[i], squares);
  squares = warp_sum(squares);
  const float r = reciprocal_root_here((float)squares * (scale * scale), count);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const char4 c = *(const char4*)&word[i];
    float4 y = make_float4(((float)c.x * scale) * r, ((float)c.y * scale) * r, ((float)c.z * scale) * r, ((float)c.w * scale) * r);
    if (!are_values && lane + 32 * i < dim / 4) {
      const float4 w = ((const float4*)weight)[lane + 32 * i];
      y.x = y.x * w.x, y.y = y.y * w.y, y.z = y.z * w.z, y.w = y.w * w.w;
    }
    head.word[i] = y;
  }
  if (are_values) return head;
  if (dim == 512) {
    turn_words(head.word[0], head.word[2], rope, pairs, 4 * lane);
    turn_words(head.word[1], head.word[3], rope, pairs, 4 * lane + 128);
  } else if (dim == 256) {
    turn_words(head.word[0], head.word[1], rope, pairs, 4 * lane);
  } else {
    const int half = dim / 8;
    float4 own = head.word[0], other;
    other.x = __shfl_xor_sync(ALL, own.x, half), other.y = __shfl_xor_sync(ALL, own.y, half);
    other.z = __shfl_xor_sync(ALL, own.z, half), other.w = __shfl_xor_sync(ALL, own.w, half);
    if (lane & half) turn_words(other, own, rope, pairs, 4 * (lane & (half - 1)));
    else turn_words(own, other, rope, pairs, 4 * (lane & (half - 1)));
    head.word[0] = own;
  }
  return head;
}

struct __align__(8) FourHalves {
  __half x, y, z, w;
};

// Rule 12: a head as it is stored at `row`; the scale of an i8 row at `scale`.
template <int FORMAT>
static __device__ __forceinline__ void store_head(const HeadValues& head, int dim, char* row, float* scale) {
  const int lane = threadIdx.x % 32;
  float unit = 0.0f;
  if (FORMAT == I8) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (lane + 32 * i < dim / 4)
        largest = fmaxf(fmaxf(fmaxf(largest, fabsf(head.word[i].x)), fmaxf(fabsf(head.word[i].y), fabsf(head.word[i].z))), fabsf(head.word[i].w));
#pragma unroll
    for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, s));
    unit = __fdiv_rn(largest, 127.0f);
    if (lane == 0) *scale = unit;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = lane + 32 * i;
    if (at >= dim / 4) break;
    const float4 v = head.word[i];
    if (FORMAT == F32) ((float4*)row)[at] = v;
    else if (FORMAT == F16) ((FourHalves*)row)[at] = {to_f16(v.x), to_f16(v.y), to_f16(v.z), to_f16(v.w)};
    else ((unsigned*)row)[at] = unit == 0.0f ? 0 : quantise_four_any(v, unit);
  }
}

template <int FORMAT>
static __device__ __forceinline__ void attend_layer(const LayerAttention& p) {
  extern __shared__ __align__(128) char memory[];
  LayerAttentionControl& control = *(LayerAttentionControl*)memory;
  stamp(p.stamps, STARTED);
  const int size = cluster_size(), rank = cluster_rank(), head = cluster_id(), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int dim = p.dim, hidden = p.enter.hidden, kv_head = divided(head, p.of_group);
  const bool own = p.own;

  // Rows of q, k and v, and of the output projection; the part of its K that the head lies in.
  const int row_block = rank * p.row_blocks, row_blocks = max(0, min(p.row_blocks, dim / 16 - row_block)), rows = row_blocks * 16;
  const int q_block = head * (dim / 16) + row_block, kv_block = kv_head * (dim / 16) + row_block;
  const int spans = own ? 3 : 1, units = row_blocks * spans * p.q.split_k, x_size = p.q.split_k * inputs_of_unit(p.q.bits);
  const int output_block = rank * p.output_blocks, output_all = (p.o.rows + 15) / 16;
  const int output_blocks = max(0, min(p.output_blocks, output_all - output_block));
  const int part_inputs = p.o.split_k * inputs_of_unit(p.o.bits), part = divided(head, p.of_part), in_part = head * dim - part * part_inputs;

  const uint4* output_codes = p.o.codes + (size_t)(part * output_all + output_block) * p.o.split_k * 32;

  // Rows `lo .. hi` are keys from `base` on; rows up to `second` are those of the block that lies `size` blocks further.
  const unsigned long long base_address = p.columns->kv;
  const int position = p.columns->position, done = p.chain->done;
  const int first = first_seen(position, p.window), first_block = first / KEY_BLOCK, blocks = position / KEY_BLOCK - first_block + 1;
  const int base = (first_block + rank) * KEY_BLOCK, further = base + size * KEY_BLOCK;
  const bool reads = rank < blocks;
  const int lo = reads ? max(first - base, 0) : 0, hi = reads ? min(position + 1 - base, KEY_BLOCK) : 0;
  const int second = rank + size < blocks ? min(position + 1 - further, KEY_BLOCK) : 0;
  const int holder = blocks > size ? 0 : blocks - 1, now = position % KEY_BLOCK, readers = min(blocks, size);
  const bool holds = rank == holder;
  const int bytes = value_bytes<FORMAT>() * dim, stride = bytes + 64, first_slot = kv_head * p.slots;
  // A ring has more slots than a window, so `further` is at most once around.
  const int in_ring = p.ring ? base - divided(base, p.of_slots) * p.slots : base, after = in_ring + size * KEY_BLOCK;
  const int slot = first_slot + in_ring, further_slot = first_slot + (p.ring && after >= p.slots ? after - p.slots : after);
  const size_t current_slot = (second > 0 ? further_slot : slot) + now;  // where `holds`

  char* weights = memory + CONTROL_BYTES;
  char* output_weights = memory + p.at_output;
  char* keys = memory + p.at_keys;
  char* values = memory + p.at_values;
  EnterRoom entry = enter_room(memory + p.at_entry, hidden, 1);
  float* partials = (float*)(memory + p.at_partials);
  float* query = (float*)(memory + p.at_rest);
  float* q_norm = query + dim;
  float* of_warp = q_norm + dim + warp * KEY_BLOCK;
  float* scores = q_norm + dim + WARPS * KEY_BLOCK;
  float* key_scales = scores + KEY_BLOCK;
  float* value_scales = key_scales + KEY_BLOCK;
  float2* tops = (float2*)(value_scales + KEY_BLOCK);  // of the blocks of keys: largest score, sum of weights
  float* multipliers = (float*)(tops + 16);
  int* sums = (int*)(multipliers + p.row_blocks * spans * 16);
  int8_t* codes = (int8_t*)(sums + p.row_blocks * spans * 16);
  int8_t* x = codes + spans * dim;
  int8_t* output_x = x + x_size;
  float* rope = (float*)(output_x + part_inputs);
  float* k_norm = rope + (2 * p.pairs + 3) / 4 * 4;

  // Where row `j` lies, or nowhere: not a key of this block, or this position's.
  auto row_slot = [&](int j) {
    if (j < second) return further + j == position ? -1 : further_slot + j;
    return j >= lo && j < hi && base + j != position ? slot + j : -1;
  };
  const int pieces = bytes / 16;
  auto fetch_row = [&](char* to, unsigned long long from, int j, int at) {
#pragma unroll 1
    for (int i = lane; i < pieces; i += 32) copy16(to + j * stride + i * 16, (const char*)from + (size_t)at * bytes + i * 16);
  };
  // A warp a row.
  auto fetch_rows = [&](bool with_keys, bool with_values) {
#pragma unroll 1
    for (int j = warp; j < KEY_BLOCK; j += WARPS) {
      const int at = row_slot(j);
      if (at < 0) continue;
      if (with_keys) fetch_row(keys, base_address + p.keys, j, at);
      if (with_values) fetch_row(values, base_address + p.values_at, j, at);
    }
  };

  // Everything that no earlier kernel of the list writes.
  if (threadIdx.x == 0) {
    const unsigned span = row_blocks * p.q.split_k * 512;
    runs_begin(&control.vectors, enter_bytes(p.enter));
    runs_begin(&control.weights, span * spans);
    runs_begin(&control.output_weights, output_blocks * p.o.split_k * 512);
    control.code_sum = control.output_code_sum = 0;
    enter_prefetch(p.enter, entry, &control.vectors);
    if (row_blocks > 0) {
      run(&control.weights, weights, p.q.codes + (size_t)q_block * p.q.split_k * 32, span, streaming());
      if (own) {
        // Other clusters read them, too.
        run(&control.weights, weights + span, p.k.codes + (size_t)kv_block * p.q.split_k * 32, span, staying());
        run(&control.weights, weights + 2 * span, p.v.codes + (size_t)kv_block * p.q.split_k * 32, span, staying());
      }
    }
    // What comes to its place once that is free waits in the second-level cache.
    if (output_blocks > 0) {
      prefetch(output_codes, output_blocks * p.o.split_k * 512, streaming());
    }
    // From here on the position has to be there.
    runs_begin(&control.codes, reads ? (own && holds ? 3 : 1) * dim : 0);
    runs_begin(&control.partials, blocks * (4 * dim + 8));
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
  for (int i = threadIdx.x; i < 2 * p.pairs; i += THREADS) copy4(rope + i, p.rope + (size_t)position * p.rope_stride + i);
  copies_commit();
  fetch_rows(p.late < 2, p.late < 1);
  if (FORMAT == I8 && threadIdx.x < KEY_BLOCK) {
    const int at = row_slot(threadIdx.x);
    if (at >= 0) {
      copy4(key_scales + threadIdx.x, (const float*)(base_address + p.key_scales) + at);
      copy4(value_scales + threadIdx.x, (const float*)(base_address + p.value_scales) + at);
    }
  }
  copies_commit();
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * spans; i += THREADS) sums[i] = 0;
#pragma unroll 1
  for (int i = 4 * threadIdx.x; i < part_inputs; i += 4 * THREADS) *(int*)(output_x + i) = 0;
  Stream s;
  s.k_count = p.q.split_k;
  share_batches(s, units);
  s.block = divided(s.first, p.of_split), s.k = s.first - s.block * s.k_count;
  // Which four codes a thread sends to whom: those of q to every block that has keys, those of k and v to the one that has this position's.
  const int item = divided(threadIdx.x, p.of_words), word = threadIdx.x - item * 4 * p.row_blocks;
  const int which = item < readers ? 0 : item - readers + 1, to = which == 0 ? item : holder;
  const bool sends = word < 4 * row_blocks && which < spans;
  read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out), read_now(p.enter.join.inverse);
  read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse), read_now(p.sums), read_now(p.zero);
  read_now(p.o.input.inverse), read_now(p.q.output.inverse);
  copies_wait<1>();
  __syncthreads();
  cluster_wait();
  runs_await(&control.vectors);
  const Team team = team_of(1);
  const bool is_short = enter_is_short(p.enter, team);
  EnterVectors vectors;
  if (is_short) vectors = enter_vectors(p.enter, entry, team);
  const EnterPlaces places = enter_places(p.enter, entry, blockIdx.x == 0, x, x_size, control.scratch);

  unsigned own_codes = 0;
  const auto begun = [&] { stamp(p.stamps, COULD_START); };
  if (places.plain || is_short) {
    own_codes = enter_short(p.enter, entry, vectors, places, x_size, begun, [] {});
  } else {
    await_previous();
    release_next();
    begun();
    enter(p.enter, entry, team, 0, blockIdx.x == 0, x, x_size, nullptr, control.scratch, &control.root, &control.code_sum);
  }
  __syncthreads();
  add_codes(own_codes, &control.code_sum);
  stamp(p.stamps, HAS_INPUT);
  runs_await(&control.weights);
  consume_any<1, 0>(p.q.bits, s, (uint4*)weights + lane, x, x_size, sums);
  __syncthreads();

  // What comes where the weights of q, k and v were, and what the entry need not wait for.
  if (p.late) fetch_rows(p.late == 2, true);
  if (warp == WARPS - 1) {
    if (!own && holds) {
      // The row of this position, which an earlier layer stored.
      fetch_row(keys, base_address + p.keys, now, current_slot);
      fetch_row(values, base_address + p.values_at, now, current_slot);
      if (FORMAT == I8 && lane < 2)
        copy4((lane == 0 ? key_scales : value_scales) + now,
              (const float*)(base_address + (lane == 0 ? p.key_scales : p.value_scales)) + current_slot);
    }
    if (lane == 0 && output_blocks > 0)
      run(&control.output_weights, output_weights, output_codes, output_blocks * p.o.split_k * 512, streaming());
    const int from = blockIdx.x * 32 + lane, step = gridDim.x * 32;
#pragma unroll 1
    for (int i = from; i < p.zero_count; i += step) p.zero[i] = 0;
#pragma unroll 1
    for (int i = from; i < p.zero_too_count; i += step) p.zero_too[i] = 0;
  }
  copies_commit();
  if (sends) {
    const int4 sum = ((const int4*)(sums + which * rows))[word];
    const float4 m = ((const float4*)(multipliers + which * rows))[word];
    const Matrix& matrix = which == 0 ? p.q : which == 1 ? p.k : p.v;
    const Scale scale = matrix.output;
    const int correction = control.code_sum << (p.q.bits - 1);
    const unsigned code = quantise_four(make_float4((float)(sum.x - correction) * m.x, (float)(sum.y - correction) * m.y,
                                                    (float)(sum.z - correction) * m.z, (float)(sum.w - correction) * m.w),
                                        scale);
    put(remote(codes + which * dim + row_block * 16 + word * 4, to), code, remote(&control.codes, to));
  }

  if (reads) {
    puts_await(&control.codes);
    // A warp each: the query, and the key and the value of this position.
    if (warp < (own && holds ? 3 : 1)) {
      const bool is_query = warp == 0, is_key = warp == 1;
      const float scale = is_query ? p.q.output.value : is_key ? p.k.output.value : p.v.output.value;
      const HeadValues values_here = head_values(codes + warp * dim, scale, warp == 2, is_key ? k_norm : q_norm, rope, p.pairs, dim, p.count);
      if (is_query) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (lane + 32 * i < dim / 4) ((float4*)query)[lane + 32 * i] = values_here.word[i];
      } else {
        store_head<FORMAT>(values_here, dim, (is_key ? keys : values) + now * stride, (is_key ? key_scales : value_scales) + now);
        if (head == kv_head * p.group && !done)
          store_head<FORMAT>(values_here, dim, (char*)(base_address + (is_key ? p.keys : p.values_at)) + current_slot * bytes,
                             (float*)(base_address + (is_key ? p.key_scales : p.value_scales)) + current_slot);
      }
    }
    copies_wait<0>();
    __syncthreads();

    // Scores, as in attention.cu: thread (key, u) has lanes 8 u .. 8 u + 7.
    if (threadIdx.x < 4 * KEY_BLOCK) {
      const int j = threadIdx.x / 4, u = threadIdx.x % 4;
      const bool seen = j < second || (j >= lo && j < hi);
      float found[1];
      score<FORMAT, 1, 4>(seen, keys + j * stride + u * 8 * value_bytes<FORMAT>(), FORMAT == I8 && seen ? key_scales[j] : 0.0f, query + u * 8, dim, found);
      if (seen && u == 0) scores[j] = found[0];
    }
    __syncthreads();

    // Values: a thread has two, and its warp makes the weights for itself.
    const int d = 2 * threadIdx.x;
    if (64 * warp < dim) {
#pragma unroll 1
      for (int fold = second > 0 ? 1 : 0; fold >= 0; --fold) {
        const int from = fold ? 0 : lo, until = fold ? second : hi;
        const float a = lane >= from && lane < until ? scores[lane] : -INFINITY;
        const float b = lane + 32 >= from && lane + 32 < until ? scores[lane + 32] : -INFINITY;
        float top = fmaxf(a, b);
#pragma unroll
        for (int s = 16; s > 0; s /= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, s));
        __syncwarp();
        of_warp[lane] = contract_exp(a - top);
        of_warp[lane + 32] = contract_exp(b - top);
        __syncwarp();
        if (d >= dim) continue;
        const char* column = values + d * value_bytes<FORMAT>();
        float a0 = 0.0f, a1 = 0.0f, l = 0.0f;
        int j = from;
        weigh<FORMAT, 16>(j, until, of_warp, column, stride, value_scales, a0, a1, l);
        weigh<FORMAT, 4>(j, until, of_warp, column, stride, value_scales, a0, a1, l);
        weigh<FORMAT, 1>(j, until, of_warp, column, stride, value_scales, a0, a1, l);
        const int block = rank + fold * size;
#pragma unroll 1
        for (int other = 0; other < size; ++other) {
          const Remote arrivals = remote(&control.partials, other);
          put(remote(partials + block * dim + d, other), make_float2(a0, a1), arrivals);
          if (d == 0) put(remote(tops + block, other), make_float2(top, l), arrivals);
        }
      }
    }
  }

  // The merge of rule 8, as in merge.cuh; factors are made by every warp for itself.
  puts_await(&control.partials);
  int code_sum = 0;
  if (warp * 32 < dim) {
    const float2 mine = lane < blocks ? tops[lane & 15] : make_float2(-INFINITY, 0.0f);
    float after = mine.x;
#pragma unroll
    for (int s = 1; s < 16; s *= 2) {
      float other = __shfl_up_sync(ALL, after, s);
      if (lane >= s) after = fmaxf(after, other);
    }
    float previous = __shfl_up_sync(ALL, after, 1);
    if (lane == 0) previous = -INFINITY;
    __syncwarp();
    if (lane < 16) {
      of_warp[lane] = contract_exp(previous - after);
      of_warp[16 + lane] = contract_exp(mine.x - after);
      of_warp[32 + lane] = mine.y;
    }
    __syncwarp();
#pragma unroll 1
    for (int d = threadIdx.x; d < dim; d += THREADS) {
      float a = 0.0f, l = 0.0f;
      const float4* factors = (const float4*)of_warp;
#pragma unroll
      for (int j = 0; j < 16; j += 4) {
        if (j >= blocks) break;
        const float4 keeps = factors[j / 4], takes = factors[(16 + j) / 4], parts = factors[(32 + j) / 4];
        const float keep[4] = {keeps.x, keeps.y, keeps.z, keeps.w}, take[4] = {takes.x, takes.y, takes.z, takes.w};
        const float part[4] = {parts.x, parts.y, parts.z, parts.w};
        float value[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] = j + i < blocks ? partials[(j + i) * dim + d] : 0.0f;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float next_l = __fmaf_rn(l, keep[i], part[i] * take[i]), next_a = __fmaf_rn(a, keep[i], value[i] * take[i]);
          if (i == 0 && j == 0) next_l = part[0], next_a = value[0];
          if (j + i < blocks) l = next_l, a = next_a;
        }
      }
      const int code = quantise(__fdiv_rn(a, l), p.o.input);
      output_x[in_part + d] = (int8_t)code;
      code_sum += code;
    }
    code_sum = warp_sum(code_sum);
    if (lane == 0) shared_add(&control.output_code_sum, code_sum);
  }
  __syncthreads();
  stamp(p.stamps, HAS_SUMS);
  runs_await(&control.output_weights);
  const uint4* output_units = (const uint4*)output_weights;
  code_sum = control.output_code_sum;
  if (p.o.bits == 4) add_output<4>(p.o, output_units, output_block, output_blocks, output_x, code_sum, p.sums);
  else if (p.o.bits == 2) add_output<2>(p.o, output_units, output_block, output_blocks, output_x, code_sum, p.sums);
  else add_output<8>(p.o, output_units, output_block, output_blocks, output_x, code_sum, p.sums);
  stamp(p.stamps, ENDS);
}

// With registers for two blocks a multiprocessor, so that the next kernel's stands beside this one's, where that spills nothing.
#define ATTEND_LAYER(name, format, blocks)                                                                             \
  extern "C" __global__ void __launch_bounds__(THREADS, blocks) name(__grid_constant__ const LayerAttention p) {       \
    attend_layer<format>(p);                                                                                           \
  }
ATTEND_LAYER(layer_attention_f32, F32, 1)
ATTEND_LAYER(layer_attention_f16, F16, 2)
ATTEND_LAYER(layer_attention_i8, I8, 1)

// `embed` of one column that also clears the sums of the first layer's output projection, which no kernel before that layer's would.
extern "C" __global__ void __launch_bounds__(256)
    embed_clearing(__grid_constant__ const Table t, const Column* columns, float* hidden, int* zero, int zero_count) {
  release_next();
  unsigned token = columns->token;
  const uint8_t* row = t.codes + (size_t)token * (t.columns * t.bits / 8);
  for (int i = threadIdx.x; i < t.columns; i += blockDim.x) hidden[i] = table_value(t, row, t.scales + token, i);
  for (int i = threadIdx.x; i < zero_count; i += blockDim.x) zero[i] = 0;
}
