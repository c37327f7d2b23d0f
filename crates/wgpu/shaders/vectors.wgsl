// Queries, keys and values of a token from their linears' codes: head norms and rope (rules 6 and 7), and K/V as they are stored (rule 12).
//
// Work is cut into chunks: four neighbouring values of a head and the four half a head behind them, which turn together. VECTORS of these
// heads are under way in a workgroup; first all squares are added up, and behind a barrier any chunk can be made.
// Constants: FORMAT of K/V (0 f32, 1 f16, 2 i8). Needs: VECTORS, and `fresh`, words of stored rows.
@group(0) @binding(8) var<storage, read> qkv: array<u32>;
// Of q, then of k.
@group(0) @binding(9) var<storage, read> norms: array<f32>;
// Cosines and sines, a row a position.
@group(0) @binding(10) var<storage, read> turns: array<f32>;
@group(0) @binding(11) var<storage, read_write> query: array<vec4<f32>>;

const QUERY = 0u;
const KEY = 1u;
const VALUE = 2u;

struct Chunk { a: vec4<f32>, b: vec4<f32> }

var<workgroup> squares: array<atomic<i32>, VECTORS>;
// Bits of the largest magnitude, for i8.
var<workgroup> largest: array<atomic<u32>, VECTORS>;

fn scale_of(kind: u32) -> f32 {
  if (kind == QUERY) { return params.output_scale; }
  return select(params.up_scale, params.next_scale, kind == VALUE);
}

// The first word of a head's codes.
fn codes_of(kind: u32, column: u32, head: u32) -> u32 {
  var at = column * params.in_stride + head * (params.head_dim / 4u);
  if (kind != QUERY) { at += params.other_stride; }
  if (kind == VALUE) { at += params.other_offset; }
  return at;
}

fn add_squares(vector: u32, start: u32, i: u32) {
  let a = qkv[start + i];
  let b = qkv[start + params.head_dim / 8u + i];
  atomicAdd(&squares[vector], dot4I8Packed(a, a) + dot4I8Packed(b, b));
}

fn chunk_of(vector: u32, kind: u32, start: u32, i: u32, position: u32) -> Chunk {
  let dim = params.head_dim;
  let scale = scale_of(kind);
  let total = int_to_float(atomicLoad(&squares[vector]));
  let r = reciprocal_root(divide(keep(total * keep(scale * scale)), f32(dim)));
  var a = keep4(keep4(vec4<f32>(codes4(qkv[start + i])) * scale) * r);
  var b = keep4(keep4(vec4<f32>(codes4(qkv[start + dim / 8u + i])) * scale) * r);
  if (kind == VALUE) { return Chunk(a, b); }
  let norm = select(0u, dim, kind == KEY) + 4u * i;
  let row = position * 2u * params.pairs;
  for (var j = 0u; j < 4u; j++) {
    let x = keep(a[j] * norms[norm + j]);
    let y = keep(b[j] * norms[norm + dim / 2u + j]);
    a[j] = x;
    b[j] = y;
    let pair = 4u * i + j;
    if (pair < params.pairs) {
      let c = turns[row + pair];
      let s = turns[row + params.pairs + pair];
      a[j] = keep(keep(c * x) - keep(s * y));
      b[j] = keep(keep(s * x) + keep(c * y));
    }
  }
  return Chunk(a, b);
}

fn store_query(column: u32, head: u32, i: u32, chunk: Chunk) {
  let at = column * (params.out_stride / 4u) + head * (params.head_dim / 4u) + i;
  query[at] = chunk.a;
  query[at + params.head_dim / 8u] = chunk.b;
}

fn add_largest(vector: u32, chunk: Chunk) {
  let bits = max(bitcast<vec4<u32>>(chunk.a) & vec4<u32>(0x7fffffffu), bitcast<vec4<u32>>(chunk.b) & vec4<u32>(0x7fffffffu));
  atomicMax(&largest[vector], max(max(bits.x, bits.y), max(bits.z, bits.w)));
}

// The scale of a row of i8.
fn unit_of(vector: u32) -> f32 { return divide(bitcast<f32>(atomicLoad(&largest[vector])), 127.0); }

// Words of four values as they are stored, at `at` words of four values into a row.
fn store4(start: u32, at: u32, x: vec4<f32>, unit: f32) {
  if (FORMAT == 0u) {
    let bits = bitcast<vec4<u32>>(x);
    for (var j = 0u; j < 4u; j++) { fresh[start + 4u * at + j] = bits[j]; }
  } else if (FORMAT == 1u) {
    fresh[start + 2u * at] = to_half(x.x) | (to_half(x.y) << 16u);
    fresh[start + 2u * at + 1u] = to_half(x.z) | (to_half(x.w) << 16u);
  } else {
    var word = 0u;
    if (unit != 0.0) { word = quantise4(x, unit); }
    fresh[start + at] = word;
  }
}

fn store_chunk(start: u32, i: u32, chunk: Chunk, unit: f32) {
  store4(start, i, chunk.a, unit);
  store4(start, params.head_dim / 8u + i, chunk.b, unit);
}
