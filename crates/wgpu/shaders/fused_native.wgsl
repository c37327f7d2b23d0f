// a * b + c, rounded once, by the adapter: it was seen to round once when it was opened. No product is left that could be contracted into a
// sum behind it.
fn fused(a: f32, b: f32, c: f32) -> f32 { return fma(a, b, c); }
fn fused4(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>) -> vec4<f32> { return fma(a, b, c); }
