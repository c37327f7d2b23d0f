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
// finished. A list's first layer (`begins`) stands behind `embed_project` and `combine` and needs nothing of them but cleared sums: it waits where it adds. Reading order: what lies where (rows, keys, shared memory); what comes before the wait; entry and products; codes to their readers; scores and values; merge and output.
// In clocks the part from the entry to the sums ends where the merged codes are there.
// Parts that stand alone are in layer_attention.cuh. Before each wait stands what does not need what comes: addresses, norm weights, rope, the first units of weights. The next kernel is
// released behind the puts of codes: it is ready long before this one ends, and gets so on other multiprocessors (plan/layer_attention.rs, `alone`).
#include "enter.cuh"
#include "layer_attention.cuh"
#include "linear.cuh"

struct LayerAttention {
  Matrix q, k, v, o;  // k and v: of a layer that stores its own
  Enter enter;
  Table embed;        // where the layer `begins`: the stream is the token's row; without codes it is at `enter.hidden_in`
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
  int begins, fill;   // the list's first layer, behind `embed_project` and `combine`
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

// A thread's four values of the stream that a list begins with. Whoever wrote them ended before the list began.
static __device__ __forceinline__ float4 first_stream(const LayerAttention& p) {
  const int at = min(4 * (int)threadIdx.x, p.enter.hidden - 4);
  if (!p.embed.codes) return __ldcg((const float4*)(p.enter.hidden_in + at));
  const unsigned token = __ldcg(&p.columns->token);
  return table_four(p.embed, table_row(p.embed, token), p.embed.scales[token], at);
}

// A DIM that is not 0 says that everything is as E2B has it: heads of that many values in clusters of 8, a stream that enters plainly (enter.cuh), linears of 4 bits; of
// the list's first layer where it BEGINS. The code is less than half as long then, and what a block runs lies together: each jump over what it does not run is a wait for instructions of 60 cycles.
template <int FORMAT, int DIM, bool BEGINS = false>
static __device__ __forceinline__ void attend_layer(const LayerAttention& p) {
  constexpr bool PLAIN = DIM != 0;
  constexpr int SIZE = 8;
  extern __shared__ __align__(128) char memory[];
  LayerAttentionControl& control = *(LayerAttentionControl*)memory;
  stamp(p.stamps, STARTED);
  const int size = PLAIN ? SIZE : cluster_size(), rank = cluster_rank(), head = cluster_id(), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int dim = PLAIN ? DIM : p.dim, hidden = PLAIN ? 4 * THREADS : p.enter.hidden, kv_head = divided(head, p.of_group);
  const bool own = p.own;

  // Rows of q, k and v, and of the output projection; the part of its K that the head lies in.
  const int most_row_blocks = PLAIN ? DIM / 16 / SIZE : p.row_blocks;
  const int row_block = rank * most_row_blocks, row_blocks = PLAIN ? most_row_blocks : max(0, min(most_row_blocks, dim / 16 - row_block)), rows = row_blocks * 16;
  const int q_units = PLAIN ? 4 * THREADS / 64 : p.q.split_k, q_bits = PLAIN ? 4 : p.q.bits, o_bits = PLAIN ? 4 : p.o.bits;
  const int q_block = head * (dim / 16) + row_block, kv_block = kv_head * (dim / 16) + row_block;
  const int spans = own ? 3 : 1, units = row_blocks * spans * q_units, x_size = q_units * inputs_of_unit(q_bits);
  const int output_block = rank * p.output_blocks, output_all = (p.o.rows + 15) / 16;
  const int output_blocks = max(0, min(p.output_blocks, output_all - output_block));
  const int part_inputs = p.o.split_k * inputs_of_unit(o_bits), part = divided(head, p.of_part), in_part = head * dim - part * part_inputs;

  const uint4* output_codes = p.o.codes + (size_t)(part * output_all + output_block) * p.o.split_k * 32;

  // Rows `lo .. hi` are keys from `base` on; rows up to `second` are those of the block that lies `size` blocks further.
  // Straight behind the token before, a line of the first-level cache may be older than what that one wrote.
  const bool begins = PLAIN ? BEGINS : p.begins;
  const unsigned long long base_address = p.columns->kv;
  const int position = begins ? __ldcg(&p.columns->position) : p.columns->position, done = begins ? __ldcg(&p.chain->done) : p.chain->done;
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
  int* sums = (int*)(multipliers + most_row_blocks * spans * 16);
  int8_t* codes = (int8_t*)(sums + most_row_blocks * spans * 16);
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
    const unsigned span = row_blocks * q_units * 512;
    runs_begin(&control.vectors, enter_bytes(p.enter));
    runs_begin(&control.weights, span * spans);
    runs_begin(&control.output_weights, output_blocks * p.o.split_k * 512);
    control.code_sum = control.output_code_sum = 0;
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
  s.k_count = q_units;
  share_batches(s, units);
  s.block = PLAIN ? s.first / q_units : divided(s.first, p.of_split), s.k = s.first - s.block * s.k_count;
  // Which four codes a thread sends to whom: those of q to every block that has keys, those of k and v to the one that has this position's.
  const int item = PLAIN ? threadIdx.x / (4 * (PLAIN ? DIM / 16 / SIZE : 1)) : divided(threadIdx.x, p.of_words), word = threadIdx.x - item * 4 * most_row_blocks;
  const int which = item < readers ? 0 : item - readers + 1, to = which == 0 ? item : holder;
  const bool sends = word < 4 * row_blocks && which < spans;
  const Scale sent = which == 0 ? p.q.output : which == 1 ? p.k.output : p.v.output;
  const Remote arrival = remote(&control.codes, sends ? to : rank), there = remote(codes + (sends ? which * dim + row_block * 16 + word * 4 : 0), sends ? to : rank);
  read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out), read_now(p.enter.join.inverse);
  read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse), read_now(p.sums), read_now(p.zero);
  read_now(p.o.input.inverse), read_now(p.q.output.inverse);
  float4 stream = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (begins) stream = first_stream(p);
  copies_wait<1>();
  __syncthreads();
  cluster_wait();
  runs_await(&control.vectors);
  const Team team = team_of(1);
  const bool is_short = PLAIN || enter_is_short(p.enter, team);
  EnterVectors vectors;
  if (is_short) vectors = enter_vectors(p.enter, entry, team);
  const EnterPlaces places = enter_places(p.enter, entry, !(PLAIN && BEGINS) && blockIdx.x == 0, x, x_size, control.scratch);

  read_now(sent.value), read_now(sent.inverse);
  const Shared row_scales_at = keep_shared(multipliers + (sends ? which * rows + 4 * word : 0));

  unsigned own_codes = 0;
  const auto begun = [&] { stamp(p.stamps, COULD_START); };
  if (PLAIN) {
    float4 h;
    if (BEGINS) begun(), h = norm_plain(p.enter, vectors, places, stream, [] {});
    else h = enter_values_plain<1, false, true>(p.enter, vectors, places, begun, [] {});
    own_codes = quantise_four_here(h, p.enter.input);
    shared_store(places.x, 0, own_codes);
  } else if (begins) {
    begun();
    own_codes = codes_of(p.enter, places, norm_values(p.enter, entry, vectors, places, stream));
    place_codes(p.enter, places, x_size, own_codes);
  } else if (places.plain || is_short) {
    own_codes = enter_short<1, false>(p.enter, entry, vectors, places, x_size, begun, [] {});
  } else {
    await_previous();
    begun();
    enter(p.enter, entry, team, 0, blockIdx.x == 0, x, x_size, nullptr, control.scratch, &control.root, &control.code_sum);
  }
  const bool q_fast = PLAIN || (q_bits == 4 && q_units % 4 == 0);
  FourUnits units_of_q;
  runs_await(&control.weights);
  if (q_fast) load_four(units_of_q, (const uint4*)weights + s.first * 32 + lane, s.first < s.last);
  __syncthreads();
  add_codes(own_codes, &control.code_sum);
  stamp(p.stamps, HAS_INPUT);
  if (q_fast) consume_fours(s, units_of_q, (const uint4*)weights + lane, x, sums);
  else consume_any<1, 0>(q_bits, s, (uint4*)weights + lane, x, x_size, sums);
  __syncthreads();

  if (sends) {
    int4 sum;
    int correction;
    float4 row_scales;
    shared_load(row_scales_at, 64 * most_row_blocks * spans, sum);
    shared_load(row_scales_at, 0, row_scales);
    shared_load(places.scratch, (unsigned)((char*)&control.code_sum - (char*)control.scratch), correction);
    correction <<= q_bits - 1;
    const unsigned code =
        quantise_four(make_float4((float)(sum.x - correction) * row_scales.x, (float)(sum.y - correction) * row_scales.y,
                                  (float)(sum.z - correction) * row_scales.z, (float)(sum.w - correction) * row_scales.w),
                      sent);
    put(there, code, arrival);
  }

  // The next kernel starts from here on: it is ready long before this one ends.
  release_next();
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

  if (reads) {
    // The query, and the key and the value of this position: some warps each, but one where a row's scale is the whole row's.
    const bool fresh = own && holds, keeps = head == kv_head * p.group && !done;
    const int shift = dim == 512 ? 2 : dim == 256 ? 1 : 0, job = FORMAT == I8 ? max(0, warp + 1 - (1 << shift)) : warp >> shift;
    const int index = (warp - (job << shift)) * 32 + lane;
    const bool works = job < (fresh ? 3 : 1);
    const float scale = job == 0 ? p.q.output.value : job == 1 ? p.k.output.value : p.v.output.value;
    const int8_t* job_codes = codes + (works ? job : 0) * dim;
    HeadWork work;
    if (works && (FORMAT != I8 || job == 0)) work = head_work(job_codes, index, scale, job == 2, job == 1 ? k_norm : q_norm, rope, p.pairs, dim);
    const int u = lane / 2 % 8, key_here = lane % 2 + lane / 16 * 2;
    const Shared row_at = keep_shared(keys + (4 * warp + key_here) * stride + 4 * u * value_bytes<FORMAT>()), query_at = keep_shared(query + 4 * u);
    char* const stored = (job == 1 ? keys : values) + now * stride;
    char* kept = (char*)(base_address + (job == 1 ? p.keys : p.values_at)) + current_slot * bytes;
    puts_await(&control.codes);
    if (works && FORMAT == I8 && job > 0) {
      const HeadValues here = head_values(job_codes, scale, job == 2, k_norm, rope, p.pairs, dim, p.count);
      store_head<FORMAT>(here, dim, stored, (job == 1 ? key_scales : value_scales) + now);
      if (keeps) store_head<FORMAT>(here, dim, kept, (float*)(base_address + (job == 1 ? p.key_scales : p.value_scales)) + current_slot);
    } else if (works) {
      const HeadPairs here = head_pairs(work, job == 2, dim, p.count);
      if (work.has) {
        if (job == 0) store_pairs<F32>(here, index, dim, (char*)query);
        else store_pairs<FORMAT>(here, index, dim, stored);
        if (job > 0 && keeps) store_pairs<FORMAT>(here, index, dim, kept);
      }
    }
    copies_wait<0>();
    __syncthreads();

    // Scores: eight threads a key have four of the 32 lanes each, which meet in the order of the tree. Neighbouring lanes of a warp read the same of the query.
#pragma unroll 1
    for (int four = 4 * warp; four < KEY_BLOCK; four += 4 * WARPS) {
      if (four >= second && (four >= hi || four + 4 <= lo)) continue;
      const int j = four + key_here;
      const bool seen = j < second || (j >= lo && j < hi);
      float4 lanes = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (seen) {
        Shared row = row_at;
        row.at += (four - 4 * warp) * stride;
        const float scale = FORMAT == I8 ? key_scales[j] : 0.0f;
        int d = 0;
#pragma unroll 1
        for (; d + 256 <= dim; d += 256) add_score<FORMAT, 8>(row, scale, query_at, d, lanes);
#pragma unroll 1
        for (; d < dim; d += 32) add_score<FORMAT, 1>(row, scale, query_at, d, lanes);
      }
#pragma unroll
      for (int step = 8; step > 1; step /= 2) {
        const float x = __shfl_xor_sync(ALL, lanes.x, step), y = __shfl_xor_sync(ALL, lanes.y, step);
        const float z = __shfl_xor_sync(ALL, lanes.z, step), w = __shfl_xor_sync(ALL, lanes.w, step);
        lanes.x += x, lanes.y += y, lanes.z += z, lanes.w += w;
      }
      if (seen && u == 0) scores[j] = (lanes.x + lanes.z) + (lanes.y + lanes.w);
    }
    __syncthreads();

    // Values: a thread has two; the last warp has the sum of weights. Each of these warps makes the weights for itself.
    const bool has_values = 64 * warp < dim, has_sum = warp == WARPS - 1;
    if (has_values || has_sum) {
#pragma unroll 1
      for (int fold = second > 0 ? 1 : 0; fold >= 0; --fold) {
        const int from = fold ? 0 : lo, until = fold ? second : hi, block = rank + fold * size;
        const float a = lane >= from && lane < until ? scores[lane] : -INFINITY;
        const float b = lane + 32 >= from && lane + 32 < until ? scores[lane + 32] : -INFINITY;
        const float top = warp_largest(fmaxf(a, b));
        __syncwarp();
        of_warp[lane] = exp_or_zero(a - top);
        of_warp[lane + 32] = exp_or_zero(b - top);
        __syncwarp();
        const float4* of_keys = (const float4*)of_warp;
        if (has_values) {
          const int d = 2 * threadIdx.x;
          const char* column = values + (d < dim ? d : 0) * value_bytes<FORMAT>();
          float a0 = 0.0f, a1 = 0.0f;
          // The next eight keys are read while eight are added. A key outside weighs 0, which changes no sum.
          EightPairs<FORMAT> here, next;
          int j = from & ~7;
          load_pairs<FORMAT>(here, column, stride, value_scales, j, from, until);
#pragma unroll 1
          for (; j < until; j += 8) {
            const float4 w = of_keys[j / 4], v = of_keys[j / 4 + 1];
            if (j + 8 < until) load_pairs<FORMAT>(next, column, stride, value_scales, j + 8, from, until);
            const float weight[8] = {w.x, w.y, w.z, w.w, v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 8; ++i) {
              const float2 value = pair_of<FORMAT>(here, i);
              a0 = __fmaf_rn(weight[i], value.x, a0);
              a1 = __fmaf_rn(weight[i], value.y, a1);
            }
            here = next;
          }
          // Two neighbours have four values together, and every other block each to put them to.
          const float b0 = __shfl_xor_sync(ALL, a0, 1), b1 = __shfl_xor_sync(ALL, a1, 1);
          const float4 both = lane % 2 == 0 ? make_float4(a0, a1, b0, b1) : make_float4(b0, b1, a0, a1);
          const float* row = partials + block * dim + d / 4 * 4;
          if (d < dim) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const int other = lane % 2 + 2 * i;
              if (other < size) put(remote(row, other), both, remote(&control.partials, other));
            }
          }
        }
        if (has_sum) {
          float l = 0.0f;
#pragma unroll 2
          for (int j = from / 4; 4 * j < until; ++j) {
            const float4 w = of_keys[j];
            l = l + w.x, l = l + w.y, l = l + w.z, l = l + w.w;
          }
          if (lane < size) put(remote(tops + block, lane), make_float2(top, l), remote(&control.partials, lane));
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
  if (output_fast) load_four(output, output_units + warp * p.o.split_k * 32 + lane, warp < output_blocks);

  // The merge of rule 8, as in merge.cuh; factors are made by every warp for itself: those of block j in half a warp's lane j, and at j - 1 in shared memory.
  puts_await(&control.partials);
  int code_sum = 0;
  if (warp * 32 < dim) {
    if (blocks > 1) {
      const int j = lane & 15;
      const float mine = j < blocks ? tops[j].x : -INFINITY;
      float after = mine;
#pragma unroll
      for (int s = 1; s < 16; s *= 2) {
        const float other = __shfl_up_sync(ALL, after, s);
        if (j >= s) after = fmaxf(after, other);
      }
      const float previous = __shfl_up_sync(ALL, after, 1), factor = exp_or_zero((lane < 16 ? previous : mine) - after);
      __syncwarp();
      if (j > 0) of_warp[lane - 1] = factor;
      __syncwarp();
    }
#pragma unroll 1
    for (int d = threadIdx.x; d < dim; d += THREADS) {
      float a = partials[d], l = tops[0].y;
      const float4* factors = (const float4*)of_warp;
#pragma unroll 1
      for (int j = 1; j < blocks; j += 4) {
        const float4 keeps = factors[j / 4], takes = factors[j / 4 + 4];
        const float keep[4] = {keeps.x, keeps.y, keeps.z, keeps.w}, take[4] = {takes.x, takes.y, takes.z, takes.w};
        float value[4], part[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i] = j + i < blocks ? partials[(j + i) * dim + d] : 0.0f, part[i] = j + i < blocks ? tops[j + i].y : 0.0f;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float next_l = __fmaf_rn(l, keep[i], part[i] * take[i]), next_a = __fmaf_rn(a, keep[i], value[i] * take[i]);
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
  // What is added to was cleared by the list's first kernel.
  if (begins) await_previous();
  __syncthreads();
  stamp(p.stamps, HAS_SUMS);
  code_sum = control.output_code_sum;
  if (output_fast) add_output_fours(p.o, output, output_units + lane, output_block, output_blocks, output_x, code_sum, p.sums);
  else if (o_bits == 4) add_output<4>(p.o, output_units, output_block, output_blocks, output_x, code_sum, p.sums);
  else if (o_bits == 2) add_output<2>(p.o, output_units, output_block, output_blocks, output_x, code_sum, p.sums);
  else add_output<8>(p.o, output_units, output_block, output_blocks, output_x, code_sum, p.sums);
  stamp(p.stamps, ENDS);
}

#ifndef NO_CLUSTERS
// With registers for two blocks a multiprocessor, where that spills nothing.
#define ATTEND_LAYER(name, format, blocks)                                                                             \
  extern "C" __global__ void __launch_bounds__(THREADS, blocks) name(__grid_constant__ const LayerAttention p) {       \
    attend_layer<format, 0>(p);                                                                                        \
  }
ATTEND_LAYER(layer_attention_f32, F32, 1)
ATTEND_LAYER(layer_attention_f16, F16, 2)
ATTEND_LAYER(layer_attention_i8, I8, 1)

// At most 88 registers: one of its blocks lies beside one of per_layer_plain (80). The first layer's has 72, with which it lies beside one of embed_project.
extern "C" __global__ void __maxnreg__(88) layer_attention_256(__grid_constant__ const LayerAttention p) { attend_layer<F16, 256>(p); }
extern "C" __global__ void __maxnreg__(88) layer_attention_512(__grid_constant__ const LayerAttention p) { attend_layer<F16, 512>(p); }
extern "C" __global__ void __maxnreg__(88) layer_attention_first(__grid_constant__ const LayerAttention p) { attend_layer<F16, 256, true>(p); }
#endif

// `embed` that also clears each column's sums of the first layer's output projection, which no kernel before that layer's would.
extern "C" __global__ void __launch_bounds__(256)
    embed_clearing(__grid_constant__ const Table t, const Column* columns, float* hidden, int* zero, int zero_count) {
  release_next();
  unsigned token = columns[blockIdx.x].token;
  const uint8_t* row = t.codes + (size_t)token * (t.columns * t.bits / 8);
  hidden += (size_t)blockIdx.x * t.columns, zero += (size_t)blockIdx.x * zero_count;
  for (int i = threadIdx.x; i < t.columns; i += blockDim.x) hidden[i] = table_value(t, row, t.scales + token, i);
  for (int i = threadIdx.x; i < zero_count; i += blockDim.x) zero[i] = 0;
}
