// What the adapter's arithmetic is: for each triple of inputs, eight results for the host to check.
@group(0) @binding(1) var<storage, read> triples: array<f32>;
@group(0) @binding(2) var<storage, read_write> results: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= params.count) { return; }
  let a = triples[3u * i];
  let b = triples[3u * i + 1u];
  let c = triples[3u * i + 2u];
  results[8u * i] = bitcast<u32>(fma(a, b, c));
  results[8u * i + 1u] = bitcast<u32>(fused(a, b, c));
  results[8u * i + 2u] = bitcast<u32>(keep(keep(a * b) + c));
  results[8u * i + 3u] = bitcast<u32>(divide(a, b));
  results[8u * i + 4u] = bitcast<u32>(square_root(abs(a)));
  results[8u * i + 5u] = bitcast<u32>(exponential(-abs(a)));
  results[8u * i + 6u] = bitcast<u32>(int_to_float(bitcast<i32>(a))) ^ to_half(a);
  results[8u * i + 7u] = bitcast<u32>(unpack2x16float(i * 9u + 1u).x) ^ bitcast<u32>(quantise(a, abs(b)));
}
