// What the host hands to kernels. Every struct has a twin in crates/cuda/src/params.rs with the same fields in the same order;
// pointers come first in each, so neither side pads.
#pragma once
#include "contract.cuh"

// Copies of down's sums that the blocks of layer_ffn.cu share, where they do not all add to the same.
#define FFN_COPIES 4

// One token of a pass.
struct Column {
  unsigned long long kv;  // base of its sequence's K/V
  unsigned token;
  int position;
};

// What the token chain of a decode run keeps on the device.
struct Chain {
  unsigned* emitted;  // host memory: ids in the order in which they were picked
  unsigned long long best;  // the head's best row so far: ordered logit, complement of its id
  int count;                // ids emitted
  int done;                 // a stop id was emitted; what follows changes nothing
  int arrived;              // blocks of the head whose best rows are in
  int stop_count;
  unsigned stops[32];       // the whole is a multiple of 16 bytes
};

// A quantised matrix, repacked for mma (repack.cu): [parts of K][row blocks of 16][split_k][32 lanes][16 bytes], so that the units of some row
// blocks and one part are neighbours. Gate and up of a layer are one matrix, whose row blocks take turns.
struct Matrix {
  const uint4* codes;
  const float* multipliers;  // [rows]
  int rows, split_k, splits, bits;
  Scale input, output;
};

// The residual stream at the entry of a stage: a linear's sums join it, a norm and a quantisation follow.
struct Enter {
  int* sums;                 // [columns x hidden] of the linear whose norm joins; null where nothing joins
  const float* multipliers;  // its row multipliers
  const float* join_norm;    // norm weights of what joins
  const float* hidden_in;    // [columns x hidden]
  float* hidden_out;         // where the new stream goes; null where nothing joins
  const float* norm;         // norm before the quantisation; null where there is none
  int8_t* tap_joined;        // codes of what joins, for taps
  Scale join;                // output scale of what joins
  Scale count;               // the width
  Scale input;               // of the stage's linears; value 0 where floats are wanted
  float scalar;              // factor of the stream after joining
  int hidden;
  int clear, fill;           // whether the sums are 0 afterwards; `fill` is padding
};

// Attention partials at the entry of the output projection.
struct Merge {
  const float* values;   // [columns x heads x blocks x head_dim]
  const float* largest;  // [columns x heads x blocks]
  const float* sums;     // likewise
  const Column* columns;
  float* tap;            // attention results, for taps
  Scale input;
  int heads, head_dim, window, blocks;  // window 0: all positions
};

struct Linear {
  Matrix m[3];
  Enter enter;
  Merge merge;
  const int8_t* input;  // [columns x input_stride] codes
  int8_t* out[3];       // codes out
  int* sums;            // int32 out
  const float* gelu;
  const float* up_multipliers;
  const float* ple;     // per-layer inputs
  int* zero;            // sums of a later stage, cleared here
  int8_t* tap_input;
  int8_t* tap_a;
  int8_t* tap_b;
  unsigned long long* stamps;  // of a build with STAMPS
  Scale up, next;
  int block_end[3];     // blocks of the grid that serve matrix 0, 1, 2
  int row_blocks;       // row blocks (of gate and up: pairs) of a block of the grid
  int input_stride, out_stride, sums_stride, ple_stride, zero_count, columns, matrices;
  int input_kind, output_kind;  // stages.cu
  int inputs;                   // bulk_linear.cu: inputs of the matrices
  int ring;                     // units of a warp's ring; 0: all units of a block come at once
  int late;                     // layer_ffn.cu: blocks from this one on may start late; 0: none
};

struct Attention {
  const Column* columns;
  const int8_t* q;        // [columns x q_stride] codes
  const int8_t* k;        // codes of a layer that stores its own here; null elsewhere
  const int8_t* v;
  const float* q_float;   // the drafter's queries; null for the target
  const float* q_norm;
  const float* k_norm;
  const float* rope;      // [positions x rope_stride]: cosines, then sines
  float* values;
  float* largest;
  float* sums;
  float* tap_query;
  const Chain* chain;
  unsigned long long keys, values_at, key_scales, value_scales;  // byte offsets from a column's base
  float q_scale, k_scale, v_scale;
  int rope_stride, pairs, slots, ring, dim, heads, kv_heads, window, blocks, q_stride, kv_stride;
  int early;              // earlier positions were stored before this pass
  int past;               // 1: the column's own position is not cached and not visible (drafter)
  int one_buffer;         // keys and values take turns in one buffer
};
