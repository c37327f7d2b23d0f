// Rule 8 between blocks, and the quantisation of the result for the output projection: a workgroup a head and column.
// Constants: DIM; EARLY, with which the sums of eight blocks are under way at once.
@group(0) @binding(1) var<storage, read> columns: array<Column>;
@group(0) @binding(2) var<storage, read> tops: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> partial: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> attention: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> codes: array<u32>;

// With EARLY 0 a batch is one block; its array is of eight all the same, so that one text serves both.
const BATCH = 1u + 7u * EARLY;

// Of a block's sums, or of the last block's.
fn place(head: u32, block: u32, blocks: u32) -> u32 { return head + min(block, blocks - 1u) * params.heads; }

@compute @workgroup_size(DIM / 4u)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let column = first.column + group.y;
  let last = columns[column].position;
  var begin = 0u;
  if (params.window != 0u && last + 1u > params.window) { begin = last + 1u - params.window; }
  let blocks = last / 64u - begin / 64u + 1u;
  let slot = group.y * params.partials;
  let head = slot * params.heads + group.x;
  var top = tops[head].x;
  var sum = tops[head].y;
  var a = partial[head * (DIM / 4u) + local];
  for (var base = 1u; base < blocks; base += BATCH) {
    var others: array<vec2<f32>, 8>;
    var more: array<vec4<f32>, 8>;
    // Written out, because loads in a loop may wait for each other.
    let p0 = place(head, base, blocks);
    others[0] = tops[p0];
    more[0] = partial[p0 * (DIM / 4u) + local];
    if (EARLY == 1u) {
      let p1 = place(head, base + 1u, blocks);
      let p2 = place(head, base + 2u, blocks);
      let p3 = place(head, base + 3u, blocks);
      let p4 = place(head, base + 4u, blocks);
      let p5 = place(head, base + 5u, blocks);
      let p6 = place(head, base + 6u, blocks);
      let p7 = place(head, base + 7u, blocks);
      others[1] = tops[p1];
      others[2] = tops[p2];
      others[3] = tops[p3];
      others[4] = tops[p4];
      others[5] = tops[p5];
      others[6] = tops[p6];
      others[7] = tops[p7];
      more[1] = partial[p1 * (DIM / 4u) + local];
      more[2] = partial[p2 * (DIM / 4u) + local];
      more[3] = partial[p3 * (DIM / 4u) + local];
      more[4] = partial[p4 * (DIM / 4u) + local];
      more[5] = partial[p5 * (DIM / 4u) + local];
      more[6] = partial[p6 * (DIM / 4u) + local];
      more[7] = partial[p7 * (DIM / 4u) + local];
    }
    for (var i = 0u; i < BATCH; i++) {
      if (base + i < blocks) {
        let other = others[i];
        let m = max(top, other.x);
        // One of the two differences is 0, whose exponential is 1.
        let e = exponential(keep(min(top, other.x) - m));
        let c = select(1.0, e, top < m);
        let d = select(1.0, e, other.x < m);
        sum = fused(sum, c, keep(other.y * d));
        a = fused4(a, vec4<f32>(c), keep4(more[i] * d));
        top = m;
      }
    }
  }
  let y = divide4(a, sum);
  attention[column * (params.in_stride / 4u) + group.x * (DIM / 4u) + local] = y;
  codes[column * params.out_stride + group.x * (DIM / 4u) + local] = quantise4(y, params.input_scale);
}
