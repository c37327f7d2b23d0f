// Attention of a few columns that also stores their keys and values (attention.cu has it for one column, and a kernel apart that stores for many).
//
// A block of the grid has one head, two neighbouring columns and every gridDim.x-th block of 64 keys, so a verification reads keys and values half as often. Rows of the pass's own
// columns are made, or where another layer owns them read, behind the wait; all others come before it. Columns of different sequences take turns.
#include "contract.cuh"
#include "merge.cuh"
#include "shapes.cuh"

#define SEVERAL_QUERIES 2
#define MOST_SEVERAL 8

template <int FORMAT>
static __device__ __forceinline__ void attend_of_several(const Attention& p, int count) {
  const int QUERIES = SEVERAL_QUERIES, JOBS = ATTENTION_THREADS / 32;
  extern __shared__ __align__(128) char memory[];
  __shared__ float key_scales[KEY_BLOCK], value_scales[KEY_BLOCK], largest[QUERIES];
  __shared__ Column columns[MOST_SEVERAL];
  const int stride = value_bytes<FORMAT>() * p.dim + 64;
  char* keys = memory;
  char* values = keys + KEY_BLOCK * stride;
  float* query = (float*)(values + KEY_BLOCK * stride);
  float* weights = query + QUERIES * p.dim;
  float* rows = weights + QUERIES * KEY_BLOCK;  // a row of each warp
  float* q_norm = rows + JOBS * p.dim;
  float* k_norm = q_norm + p.dim;
  float* rope = k_norm + p.dim;
  release_next();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = p.heads / p.kv_heads, head = blockIdx.y, kv_head = head / group;
  const int first_column = blockIdx.z * QUERIES, behind = min(first_column + QUERIES, count);
  const bool own = p.k != nullptr;
  if ((int)threadIdx.x < count) columns[threadIdx.x] = p.columns[threadIdx.x];
#pragma unroll 1
  for (int i = threadIdx.x; i < p.dim / 4; i += ATTENTION_THREADS) {
    copy16(q_norm + i * 4, p.q_norm + i * 4);
    if (own) copy16(k_norm + i * 4, p.k_norm + i * 4);
  }
  __syncthreads();
#pragma unroll 1
  for (int c = own ? 0 : first_column; c < (own ? count : behind); ++c)
    for (int i = threadIdx.x; i < 2 * p.pairs; i += ATTENTION_THREADS)
      copy4(rope + c * 2 * p.pairs + i, p.rope + (size_t)columns[c].position * p.rope_stride + i);
  copies_commit();
  const Scale dim = count_of(p.dim);

  bool once = true;
#pragma unroll 1
  for (int begin = first_column; begin < behind;) {
    // The columns `begin .. end` of this block that share a sequence; the rest take their turn afterwards.
    const unsigned long long kv = columns[begin].kv;
    int end = begin, first = 0x7fffffff, last = 0;
    for (; end < behind && columns[end].kv == kv; ++end) {
      first = min(first, first_seen(columns[end].position, p.window));
      last = max(last, columns[end].position + 1);
    }
    bool fresh = true;
#pragma unroll 1
    for (int block = first / KEY_BLOCK + blockIdx.x; block * KEY_BLOCK < last; block += gridDim.x) {
      const int base = block * KEY_BLOCK, lo = max(first - base, 0), hi = min(last - base, KEY_BLOCK);
      // A block of aligned positions never wraps.
      const int slot = kv_head * p.slots + (p.ring ? base % p.slots : base);
      unsigned long long now = 0;
      for (int c = 0; c < count; ++c) {
        const int j = columns[c].position - base;
        if (columns[c].kv == kv && j >= lo && j < hi) now |= 1ull << j;
      }
      if (!once) __syncthreads();
      fetch<FORMAT>(p, kv + p.keys, kv + p.key_scales, slot, lo, hi, now, keys, key_scales);
      fetch<FORMAT>(p, kv + p.values_at, kv + p.value_scales, slot, lo, hi, now, values, value_scales);
      copies_commit();
      if (once) {
        copies_wait<1>();
        __syncthreads();
        await_previous();
        once = false;
      }
      // A warp a job: every column's key in this block, queries, where they are not there yet, then values, which take least. The next job's codes are under way.
      const int queries = fresh ? end - begin : 0, jobs = queries + 2 * count;
      fresh = false;
      auto is_query = [&](int job) { return job >= count && job < count + queries; };
      auto is_key = [&](int job) { return job < count; };
      auto column_of = [&](int job) { return job < count ? job : job < count + queries ? begin + job - count : job - count - queries; };
      auto is_here = [&](int job) {
        const int j = columns[column_of(job)].position - base;
        return is_query(job) || (columns[column_of(job)].kv == kv && j >= lo && j < hi);
      };
      auto next_job = [&](int job) {
        while (job < jobs && !is_here(job)) job += JOBS;
        return job;
      };
      auto words_of = [&](int job) {
        const int c = column_of(job);
        return head_words(is_query(job) ? p.q + (size_t)c * p.q_stride + (size_t)head * p.dim
                                        : (is_key(job) ? p.k : p.v) + (size_t)c * p.kv_stride + (size_t)kv_head * p.dim,
                          p.dim);
      };
      HeadWords words;
      int job = next_job(warp);
      if (job < jobs && (own || is_query(job))) words = words_of(job);
#pragma unroll 1
      while (job < jobs) {
        const HeadWords now_words = words;
        const int behind_it = next_job(job + JOBS), c = column_of(job), j = columns[c].position - base;
        if (behind_it < jobs && (own || is_query(behind_it))) words = words_of(behind_it);
        const bool query_job = is_query(job), key_job = is_key(job);
        job = behind_it;
        if (query_job) {
          float* out = query + (c - begin) * p.dim;
          norm_words(now_words, p.q_scale, q_norm, p.dim, dim, out);
          turn(out, rope + c * 2 * p.pairs, p.pairs, p.dim);
          continue;
        }
        char* to = (key_job ? keys : values) + j * stride;
        float* scale = (key_job ? key_scales : value_scales) + j;
        const int bytes = value_bytes<FORMAT>() * p.dim;
        char* stored = (char*)(kv + (key_job ? p.keys : p.values_at)) + (size_t)(slot + j) * bytes;
        float* stored_scale = (float*)(kv + (key_job ? p.key_scales : p.value_scales)) + slot + j;
        if (own) {
          float* out = rows + warp * p.dim;
          norm_words(now_words, key_job ? p.k_scale : p.v_scale, key_job ? k_norm : nullptr, p.dim, dim, out);
          if (key_job) turn(out, rope + c * 2 * p.pairs, p.pairs, p.dim);
          store_row<FORMAT>(out, p.dim, to, scale);
          // One block of the grid stores a column's row.
          if (c >= begin && c < end && head % group == 0) {
#pragma unroll 1
            for (int i = lane; i < bytes / 16; i += 32) ((uint4*)stored)[i] = ((const uint4*)to)[i];
            if (FORMAT == I8 && lane == 0) *stored_scale = *scale;
          }
        } else {
#pragma unroll 1
          for (int i = lane; i < bytes / 16; i += 32) copy16(to + i * 16, stored + i * 16);
          if (FORMAT == I8 && lane == 0) *scale = *stored_scale;
        }
      }
      copies_commit();
      copies_wait<0>();
      __syncthreads();

      // Scores: thread (key, u) has lanes 8 u .. 8 u + 7 of every column.
      {
        const int j = threadIdx.x / 4, u = threadIdx.x % 4;
        const bool seen = j >= lo && j < hi;
        float scores[QUERIES];
        score<FORMAT, QUERIES, 2>(seen, keys + j * stride + u * 8 * value_bytes<FORMAT>(), FORMAT == I8 && seen ? key_scales[j] : 0.0f, query + u * 8, p.dim,
                                  scores);
#pragma unroll
        for (int h = 0; h < QUERIES; ++h)
          if (seen && u == 0) weights[h * KEY_BLOCK + j] = scores[h];
      }
      __syncthreads();
      // Each column sees a part of the keys, perhaps none.
      if (warp < end - begin) {
        const int position = columns[begin + warp].position;
        const float top = weights_of(weights + warp * KEY_BLOCK, first_seen(position, p.window) - base, position + 1 - base);
        if (lane == 0) largest[warp] = top;
      }
      __syncthreads();

      // Values: a thread has two values of a column.
      const int pairs = p.dim / 2;
#pragma unroll 1
      for (int item = threadIdx.x; item < pairs * (end - begin); item += ATTENTION_THREADS) {
        const int h = item < pairs ? 0 : 1, c = begin + h, d = (item - h * pairs) * 2, position = columns[c].position;
        const int from = first_seen(position, p.window);
        int j = max(from - base, 0);
        const int to = min(position + 1 - base, KEY_BLOCK);
        if (j >= to) continue;
        const float* w = weights + h * KEY_BLOCK;
        const char* column_of = values + d * value_bytes<FORMAT>();
        float a0 = 0.0f, a1 = 0.0f, l = 0.0f;
        weigh<FORMAT, 16>(j, to, w, column_of, stride, value_scales, a0, a1, l);
        weigh<FORMAT, 4>(j, to, w, column_of, stride, value_scales, a0, a1, l);
        weigh<FORMAT, 1>(j, to, w, column_of, stride, value_scales, a0, a1, l);
        const size_t at = ((size_t)c * p.heads + head) * p.blocks + (block - from / KEY_BLOCK);
        *(float2*)(p.values + at * p.dim + d) = make_float2(a0, a1);
        if (d == 0) {
          p.largest[at] = largest[h];
          p.sums[at] = l;
        }
      }
    }
    begin = end;
  }
}

#define ATTEND_SEVERAL(name, format)                                                                                         \
  extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS) name(__grid_constant__ const Attention p, int count) {     \
    attend_of_several<format>(p, count);                                                                                     \
  }
ATTEND_SEVERAL(attend_several_f32, F32)
ATTEND_SEVERAL(attend_several_f16, F16)
ATTEND_SEVERAL(attend_several_i8, I8)

// The merge of a few columns, behind at most MERGE_CHUNK blocks of keys, as a kernel of its own: in the output projection's entry sixteen blocks of the grid would merge the same head of
// all columns, from many times as much memory. A block of the grid has 64 values of a head of a column, a thread one; its warps need nothing of each other. Inputs behind the heads' up to
// `padded` become 0.
#define MERGE_FEW_THREADS 64
extern "C" __global__ void __launch_bounds__(MERGE_FEW_THREADS) merge_few(__grid_constant__ const Merge m, int8_t* codes, int stride, int padded) {
  __shared__ __align__(16) float factors[MERGE_FEW_THREADS / 32][3 * MERGE_CHUNK];
  release_next();
  const int column = blockIdx.z, head = blockIdx.y, d = blockIdx.x * MERGE_FEW_THREADS + threadIdx.x, lane = threadIdx.x % 32;
  const int position = m.columns[column].position, blocks = position / KEY_BLOCK - first_visible(position, m.window) / KEY_BLOCK + 1;
  const size_t at = ((size_t)column * m.heads + head) * m.blocks;
  const float* values = m.values + at * m.head_dim + min(d, m.head_dim - 1);
  float* own = factors[threadIdx.x / 32];
  int8_t* out = codes + (size_t)column * stride;
  read_now(m.largest), read_now(m.sums), read_now(m.input.inverse);
  await_previous();
  float value[MERGE_CHUNK];
#pragma unroll
  for (int j = 0; j < MERGE_CHUNK; ++j) value[j] = j < blocks ? __ldcg(values + j * m.head_dim) : 0.0f;
  const BlockScale scale = block_scale<MERGE_CHUNK>(m, at, 0, blocks);
  if (lane < MERGE_CHUNK) own[lane] = scale.keep, own[MERGE_CHUNK + lane] = scale.take, own[2 * MERGE_CHUNK + lane] = scale.part;
  __syncwarp();
  float a = value[0], l = own[2 * MERGE_CHUNK];
#pragma unroll
  for (int j = 1; j < MERGE_CHUNK; ++j) {
    const float keep = own[j], take = own[MERGE_CHUNK + j], part = own[2 * MERGE_CHUNK + j];
    const float next_l = __fmaf_rn(l, keep, part * take), next_a = __fmaf_rn(a, keep, value[j] * take);
    if (j < blocks) l = next_l, a = next_a;
  }
  if (d < m.head_dim) out[head * m.head_dim + d] = (int8_t)quantise(__fdiv_rn(a, l), m.input);
  if (head > 0) return;
  for (int i = m.heads * m.head_dim + d; i < padded; i += gridDim.x * MERGE_FEW_THREADS) out[i] = 0;
}
