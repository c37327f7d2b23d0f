// Sums of rule 2 over tiles, exact in i32, whatever the adapter makes of dot4I8Packed.
//
// A workgroup has 16 rows: four threads side by side have four rows each and read 64 neighbouring bytes of codes, the SLICES such fours
// share the inputs. Codes are taken without their zero point; each thread also adds up its input codes, so that the zero point
// is taken off once. 8-bit codes become signed by one xor instead.
// Constants: SLICES (a power of 4), COLUMNS (at once).


const THREADS = 4u * SLICES;
const ONES = 0x01010101u;

fn tile_vectors(bits: u32) -> u32 { return 8u / bits; }

// Words of 4 codes: the first of the 4 rows' 16 bytes at a row block, without the group.
fn tile_start(bits: u32, row_block: u32, quad: u32) -> u32 {
  let vectors = tile_vectors(bits);
  let groups = params.inputs * bits / 32u;
  return (row_block / vectors) * groups * vectors * 4u + (row_block % vectors) * 4u + quad;
}

fn plane(w: vec4<u32>, bits: u32, index: u32) -> vec4<u32> {
  if (bits == 8u) { return w ^ vec4<u32>(0x80808080u); }
  if (bits == 4u) { return (w >> vec4<u32>(4u * index)) & vec4<u32>(0x0f0f0f0fu); }
  return (w >> vec4<u32>(2u * index)) & vec4<u32>(0x03030303u);
}

fn dots(w: vec4<u32>, x: u32) -> vec4<i32> {
  return vec4<i32>(dot4I8Packed(w.x, x), dot4I8Packed(w.y, x), dot4I8Packed(w.z, x), dot4I8Packed(w.w, x));
}
