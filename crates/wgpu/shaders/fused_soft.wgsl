// a * b + c, rounded once, in 64-bit integers of two words, for adapters whose fma rounds twice.
//
// The product of two 24-bit factors has bits 60 .. 62, the addend bit 61; the smaller of the two is shifted right with its lost bits
// kept as one. A cancellation of more than a bit happens only where nothing was lost.

struct Wide { high: u32, low: u32 }

// Bits that fall off stay as the lowest one.
fn shift_right(w: Wide, by: u32) -> Wide {
  var d = by;
  var lost = 0u;
  var out = w;
  for (var i = 0; i < 2 && d >= 32u; i++) {
    lost |= out.low;
    out = Wide(0u, out.high);
    d -= 32u;
  }
  if (d >= 32u) {
    lost |= out.low;
    out = Wide(0u, 0u);
  } else if (d > 0u) {
    lost |= out.low << (32u - d);
    out = Wide(out.high >> d, (out.low >> d) | (out.high << (32u - d)));
  }
  return Wide(out.high, out.low | select(0u, 1u, lost != 0u));
}

fn fused(a: f32, b: f32, c: f32) -> f32 {
  let x = bitcast<u32>(a);
  let y = bitcast<u32>(b);
  let z = bitcast<u32>(c);
  let ex = (x >> 23u) & 255u;
  let ey = (y >> 23u) & 255u;
  let ez = (z >> 23u) & 255u;
  if (ex == 0u || ey == 0u || ex == 255u || ey == 255u || ez == 255u) { return keep(keep(a * b) + c); }
  let mx = (x & 0x7fffffu) | 0x800000u;
  let my = (y & 0x7fffffu) | 0x800000u;
  let low = (mx & 0xfffu) * (my & 0xfffu);
  let middle = (mx >> 12u) * (my & 0xfffu) + (mx & 0xfffu) * (my >> 12u);
  let high = (mx >> 12u) * (my >> 12u);
  let sum = low + (middle << 12u);
  let total = sum + (high << 24u);
  let above = (high >> 8u) + (middle >> 20u) + select(0u, 1u, sum < low) + select(0u, 1u, total < sum);
  var product = Wide((above << 14u) | (total >> 18u), total << 14u);
  var addend = Wide(0u, 0u);
  var e = i32(ex + ey) - 314;
  if (ez != 0u) {
    addend = Wide(((z & 0x7fffffu) | 0x800000u) << 6u, 0u);
    let d = e - (i32(ez) - 188);
    if (d >= 0) {
      addend = shift_right(addend, u32(d));
    } else {
      product = shift_right(product, u32(-d));
      e = i32(ez) - 188;
    }
  }
  var sign = (x ^ y) & 0x80000000u;
  let other = z & 0x80000000u;
  var r: Wide;
  if (sign == other) {
    let l = product.low + addend.low;
    r = Wide(product.high + addend.high + select(0u, 1u, l < product.low), l);
  } else {
    let swap = product.high < addend.high || (product.high == addend.high && product.low < addend.low);
    var larger = product;
    var smaller = addend;
    if (swap) {
      larger = addend;
      smaller = product;
      sign = other;
    }
    r = Wide(larger.high - smaller.high - select(0u, 1u, larger.low < smaller.low), larger.low - smaller.low);
    if ((r.high | r.low) == 0u) { return 0.0; }
  }
  let zeros = select(countLeadingZeros(r.high), 32u + countLeadingZeros(r.low), r.high == 0u);
  if (zeros >= 32u) {
    r = Wide(r.low << (zeros - 32u), 0u);
  } else if (zeros > 0u) {
    r = Wide((r.high << zeros) | (r.low >> (32u - zeros)), r.low << zeros);
  }
  e += 190 - i32(zeros);
  if (e <= 0) {
    r = shift_right(r, u32(1 - e));
    e = 0;
  }
  let m = r.high >> 8u;
  let up = (r.high & 0x80u) != 0u && ((r.high & 0x7fu) != 0u || r.low != 0u || (m & 1u) != 0u);
  let bits = m + (u32(max(e - 1, 0)) << 23u) + select(0u, 1u, up);
  return bitcast<f32>(sign | min(bits, 0x7f800000u));
}

// A loop, so that a compiler sees the code once: some of them take minutes for what is written four times.
fn fused4(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>) -> vec4<f32> {
  var out = c;
  for (var i = 0; i < 4; i++) { out[i] = fused(a[i], b[i], c[i]); }
  return out;
}
