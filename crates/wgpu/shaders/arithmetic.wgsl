// The contract's scalar arithmetic, from operations that every adapter rounds alike.
//
// WGSL fixes neither division, root, fused multiply-add nor conversions to the last bit, and lets a compiler contract a product into
// a sum. So: a value that passes keep() went through an integer operation with a number from memory and cannot be contracted or
// reassociated; quotients and roots start from the adapter's own and are corrected by an integer remainder, which is exact modulo
// 2^32 because it is small; integers become floats by integer rounding. fused() comes from fused_native.wgsl or fused_soft.wgsl.

fn keep(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ params.zero); }
fn keep4(x: vec4<f32>) -> vec4<f32> { return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) ^ vec4<u32>(params.zero)); }

// A sum of things that are no products: only a compiler that reassociates could change it, as Metal's may.
fn added(x: f32) -> f32 {
  if (REASSOCIATES) { return keep(x); }
  return x;
}
fn added4(x: vec4<f32>) -> vec4<f32> {
  if (REASSOCIATES) { return keep4(x); }
  return x;
}

// 2^e for a normal result.
fn power_of_two(e: i32) -> f32 { return bitcast<f32>(u32(e + 127) << 23u); }

// a / b, rounded once, where the result is a normal number; the adapter's own elsewhere.
fn divide(a: f32, b: f32) -> f32 {
  let x = bitcast<u32>(a);
  let y = bitcast<u32>(b);
  let ex = (x >> 23u) & 255u;
  let ey = (y >> 23u) & 255u;
  let mx = (x & 0x7fffffu) | 0x800000u;
  let my = (y & 0x7fffffu) | 0x800000u;
  let big = mx >= my;
  let shift = select(24u, 23u, big);
  let e = i32(ex) - i32(ey) + 127 - select(1, 0, big);
  if (ex == 0u || ey == 0u || ex == 255u || ey == 255u || e <= 0 || e >= 255) { return a / b; }
  let seed = bitcast<f32>((mx & 0x7fffffu) | 0x3f800000u) / bitcast<f32>((my & 0x7fffffu) | 0x3f800000u);
  var q = u32(seed * power_of_two(i32(shift)));
  var r = i32((mx << shift) - q * my);
  let divisor = i32(my);
  // No quotient of two 24-bit numbers lies halfway between two others, so there is no tie.
  for (var i = 0; i < 64 && r + r > divisor; i++) { q += 1u; r -= divisor; }
  for (var i = 0; i < 64 && r + r < -divisor; i++) { q -= 1u; r += divisor; }
  return bitcast<f32>(((x ^ y) & 0x80000000u) | ((u32(e) << 23u) + (q - 0x800000u)));
}

// The square root of a normal number above 0, rounded once.
fn square_root(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let e = i32(bits >> 23u) - 127;
  let odd = e & 1;
  let m = (bits & 0x7fffffu) | 0x800000u;
  let seed = sqrt(bitcast<f32>((m & 0x7fffffu) | 0x3f800000u) * f32(1 + odd));
  var s = u32(seed * 8388608.0);
  var r = i32((m << u32(23 + odd)) - s * s);
  for (var i = 0; i < 64 && r > i32(s); i++) { r -= i32(s + s + 1u); s += 1u; }
  for (var i = 0; i < 64 && r <= -i32(s); i++) { r += i32(s + s - 1u); s -= 1u; }
  return bitcast<f32>((u32((e - odd) / 2 + 127) << 23u) + (s - 0x800000u));
}

// Rounds m * 2^shift to 24 bits, ties to even; `rest` are the bits below m, of which there are `shift`.
fn round_bits(m: u32, rest: u32, shift: u32) -> f32 {
  let half = 1u << (shift - 1u);
  let up = rest > half || (rest == half && (m & 1u) == 1u);
  return f32(m + select(0u, 1u, up)) * power_of_two(i32(shift));
}

fn int_to_float(i: i32) -> f32 {
  let m = u32(abs(i));
  if (m < 0x1000000u) { return f32(i); }
  let shift = 8u - countLeadingZeros(m);
  let y = round_bits(m >> shift, m & ((1u << shift) - 1u), shift);
  return select(y, -y, i < 0);
}

// high * 256 + low as a float, low from 0 to 255.
fn wide_to_float(high_in: i32, low_in: u32) -> f32 {
  var high = high_in;
  var low = low_in;
  let negative = high < 0;
  if (negative) {
    high = -high - select(0, 1, low > 0u);
    low = (256u - low) & 255u;
  }
  let h = u32(high);
  var y: f32;
  if (h < 0x10000u) {
    y = f32(h * 256u + low);
  } else {
    let shift = 16u - countLeadingZeros(h);
    if (shift <= 8u) {
      y = round_bits((h << (8u - shift)) | (low >> shift), low & ((1u << shift) - 1u), shift);
    } else {
      let lost = shift - 8u;
      y = round_bits(h >> lost, ((h & ((1u << lost) - 1u)) << 8u) | low, shift);
    }
  }
  return select(y, -y, negative);
}

// Rule 1. The adapter's quotient decides wherever it is not close to a boundary; a quotient of at most 130 is far more exact than that.
fn quantise(x: f32, scale: f32) -> i32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) { return 0; }
  let near = x / scale;
  if (near >= 130.0) { return 127; }
  if (near <= -130.0) { return -128; }
  var n = round(near);
  if (abs(abs(near - n) - 0.5) < 0.001) { n = round(divide(x, scale)); }
  return clamp(i32(n), -128, 127);
}

// Loops over components keep the code short: some compilers take minutes for what is written four times.
fn quantise4(x: vec4<f32>, scale: f32) -> u32 {
  var code = vec4<i32>();
  for (var i = 0; i < 4; i++) { code[i] = quantise(x[i], scale); }
  return pack(code.x, code.y, code.z, code.w);
}

fn divide4(a: vec4<f32>, b: f32) -> vec4<f32> {
  var y = vec4<f32>();
  for (var i = 0; i < 4; i++) { y[i] = divide(a[i], b); }
  return y;
}

fn pack(a: i32, b: i32, c: i32, d: i32) -> u32 {
  return (u32(a) & 255u) | ((u32(b) & 255u) << 8u) | ((u32(c) & 255u) << 16u) | (u32(d) << 24u);
}

fn codes4(word: u32) -> vec4<i32> {
  let w = bitcast<i32>(word);
  return vec4<i32>(w << 24u, w << 16u, w << 8u, w) >> vec4<u32>(24u);
}

// Rule 6, of a mean square.
fn reciprocal_root(mean_square: f32) -> f32 { return divide(1.0, square_root(keep(mean_square + 1e-6))); }

// Rule 6: the sum of 32 lanes.
fn tree(a: array<vec4<f32>, 8>) -> f32 {
  let b0 = added4(a[0] + a[4]);
  let b1 = added4(a[1] + a[5]);
  let b2 = added4(a[2] + a[6]);
  let b3 = added4(a[3] + a[7]);
  let c0 = added4(b0 + b2);
  let c1 = added4(b1 + b3);
  let d = added4(c0 + c1);
  return added(added(d.x + d.z) + added(d.y + d.w));
}

const EXP_COEFFICIENTS = array<u32, 7>(
  0x3ab5121au, 0x3c091cf1u, 0x3d2aac79u, 0x3e2aaa49u, 0x3efffffeu, 0x3f800000u, 0x3f800000u);

// Rule 8, for x <= 0.
fn exponential(x: f32) -> f32 {
  if (!(x >= -87.0)) { return 0.0; }
  let n = round(keep(x * bitcast<f32>(0x3fb8aa3bu)));
  let r = fused(n, -bitcast<f32>(0x35bfbe8eu), fused(n, -bitcast<f32>(0x3f317200u), x));
  var p = bitcast<f32>(EXP_COEFFICIENTS[0]);
  for (var i = 1; i < 7; i++) { p = fused(p, r, bitcast<f32>(EXP_COEFFICIENTS[i])); }
  return keep(p * power_of_two(i32(n)));
}

// Rule 12: f32 to f16 bits by integers.
fn to_half(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return sign; }
  if (magnitude >= 0x477fe000u) { return sign | 0x7bffu; }
  if (magnitude < 0x38800000u) {
    // A subnormal of unit 2^-24; below 2^-25 nothing is left, and 2^-25 itself is a tie that goes to 0.
    if (magnitude <= 0x33000000u) { return sign; }
    let shift = 126u - (magnitude >> 23u);
    let m = (magnitude & 0x7fffffu) | 0x800000u;
    let rest = m & ((1u << shift) - 1u);
    let half = 1u << (shift - 1u);
    let units = m >> shift;
    return sign | (units + select(0u, 1u, rest > half || (rest == half && (units & 1u) == 1u)));
  }
  let body = magnitude - 0x38000000u;
  let rounded = body + 0xfffu + ((body >> 13u) & 1u);
  return sign | min(rounded >> 13u, 0x7bffu);
}

fn from_half(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u;
  let e = (h >> 10u) & 31u;
  let f = h & 0x3ffu;
  if (e == 0u) { return bitcast<f32>(bitcast<u32>(f32(f) * bitcast<f32>(0x33800000u)) | sign); }
  return bitcast<f32>(sign | ((e + 112u) << 23u) | (f << 13u));
}

fn halves(word: u32) -> vec2<f32> {
  if (NATIVE_HALF) { return unpack2x16float(word); }
  return vec2<f32>(from_half(word & 0xffffu), from_half(word >> 16u));
}
