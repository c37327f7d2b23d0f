// The output projection of one column that merges the blocks of attention itself (rule 8): each workgroup does, the first one keeps the result.
// Which of two maxima is larger depends on the maxima alone, so the exponentials of all blocks are taken at once.
// Constants: HEADS, DIM, MERGED (blocks at most); EARLY, with which loads do not wait for each other.
@group(0) @binding(8) var<storage, read> columns: array<Column>;
@group(0) @binding(9) var<storage, read> tops: array<vec2<f32>>;
@group(0) @binding(10) var<storage, read> partial: array<vec4<f32>>;
// Both for taps.
@group(0) @binding(11) var<storage, read_write> attention: array<vec4<f32>>;
@group(0) @binding(12) var<storage, read_write> input_codes: array<u32>;

// What a block's sums and the sums before it are multiplied with.
var<workgroup> factors: array<vec2<f32>, HEADS * MERGED>;
var<workgroup> weights: array<f32, HEADS>;
// All of `tops`, which every item reads several of.
var<workgroup> known: array<vec2<f32>, HEADS * MERGED>;
var<workgroup> merged: array<u32, HEADS * DIM / 4u>;

const BATCH = 1u + 7u * EARLY;

// Sums of a block, or of the last one.
fn sums_of(block: u32, blocks: u32, item: u32) -> vec4<f32> { return partial[min(block, blocks - 1u) * (HEADS * DIM / 4u) + item]; }

fn take_input(writes: bool, local: u32) {
  let last = columns[0].position;
  var begin = 0u;
  if (params.window != 0u && last + 1u > params.window) { begin = last + 1u - params.window; }
  let blocks = last / 64u - begin / 64u + 1u;
  for (var item = local; item < HEADS * blocks; item += THREADS) { known[item] = tops[item]; }
  workgroupBarrier();
  for (var item = local; item < HEADS * blocks; item += THREADS) {
    let head = item % HEADS;
    let block = item / HEADS;
    var top = known[head].x;
    for (var b = 1u; b < block; b++) { top = max(top, known[b * HEADS + head].x); }
    let other = known[item].x;
    let m = max(top, other);
    // One of the two differences is 0, whose exponential is 1.
    let e = exponential(keep(min(top, other) - m));
    factors[item] = vec2<f32>(select(1.0, e, top < m), select(1.0, e, other < m));
  }
  workgroupBarrier();
  if (local < HEADS) {
    var sum = known[local].y;
    for (var b = 1u; b < blocks; b++) {
      let at = b * HEADS + local;
      sum = fused(sum, factors[at].x, keep(known[at].y * factors[at].y));
    }
    weights[local] = sum;
  }
  workgroupBarrier();
  for (var item = local; item < HEADS * DIM / 4u; item += THREADS) {
    let head = item / (DIM / 4u);
    var a = partial[item];
    for (var base = 1u; base < blocks; base += BATCH) {
      var more: array<vec4<f32>, 8>;
      // Written out, because loads in a loop may wait for each other.
      more[0] = sums_of(base, blocks, item);
      if (EARLY == 1u) {
        more[1] = sums_of(base + 1u, blocks, item);
        more[2] = sums_of(base + 2u, blocks, item);
        more[3] = sums_of(base + 3u, blocks, item);
        more[4] = sums_of(base + 4u, blocks, item);
        more[5] = sums_of(base + 5u, blocks, item);
        more[6] = sums_of(base + 6u, blocks, item);
        more[7] = sums_of(base + 7u, blocks, item);
      }
      for (var i = 0u; i < BATCH; i++) {
        if (base + i < blocks) {
          let f = factors[(base + i) * HEADS + head];
          a = fused4(a, vec4<f32>(f.x), keep4(more[i] * f.y));
        }
      }
    }
    let y = divide4(a, weights[head]);
    let word = quantise4(y, params.input_scale);
    merged[item] = word;
    if (writes) {
      attention[item] = y;
      input_codes[item] = word;
    }
  }
  workgroupBarrier();
}

fn input_at(column: u32, index: u32) -> u32 { return merged[index]; }
