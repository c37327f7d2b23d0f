//! Deterministic inputs: a small generator, codes with the extremes over-represented, floats with awkward values.

pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.next() >> 8) as u8).collect()
    }

    /// Codes; one in four is -128 or 127.
    pub fn codes(&mut self, count: usize) -> Vec<i8> {
        (0..count)
            .map(|_| match self.next() % 8 {
                0 => -128,
                1 => 127,
                _ => (self.next() >> 8) as i8,
            })
            .collect()
    }

    /// In -1 .. 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() & 0xff_ffff) as f32 / 8_388_608.0 - 1.0
    }

    pub fn floats(&mut self, count: usize, size: f32) -> Vec<f32> {
        (0..count).map(|_| self.unit() * size).collect()
    }
}

/// Lengths around the width of a vector, and a hidden size.
pub const LENGTHS: [usize; 12] = [1, 7, 15, 16, 17, 31, 32, 33, 64, 95, 128, 1536];

/// The bits, so that -0 differs from 0 and NaN equals itself.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
