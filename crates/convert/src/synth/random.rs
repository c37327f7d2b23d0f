//! Random numbers by counter: word `i` of a stream needs no other word.
//!
//! SplitMix64 of a key plus a multiple of its increment. Statistical quality is that of SplitMix64, which is more than
//! weights need; a word takes about a nanosecond, so that a full model is limited by the disk.

const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The stream of one tensor.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// The stream of the tensor `name` under `seed`.
    pub fn new(seed: u64, name: &str) -> Stream {
        // FNV-1a of the name, then mixed, so that neighbouring seeds and names have nothing in common.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Stream { key: mix(mix(seed.wrapping_add(INCREMENT)) ^ hash) }
    }

    /// Word `index`.
    #[inline]
    pub fn word(self, index: u64) -> u64 {
        mix(self.key.wrapping_add(index.wrapping_mul(INCREMENT)))
    }

    /// A number from -1 to below 1, with 24 bits.
    #[inline]
    pub fn symmetric(self, index: u64) -> f32 {
        let signed = (self.word(index) as i64) >> 40;
        signed as f32 / (1 << 23) as f32
    }
}

#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_uniform_and_apart() {
        let (a, b) = (Stream::new(1, "a"), Stream::new(1, "b"));
        let (mut mean, mut square, mut product) = (0.0, 0.0, 0.0);
        let count = 100_000;
        for index in 0..count {
            let (x, y) = (f64::from(a.symmetric(index)), f64::from(b.symmetric(index)));
            mean += x;
            square += x * x;
            product += x * y;
        }
        let count = count as f64;
        assert!((mean / count).abs() < 0.01);
        assert!((square / count - 1.0 / 3.0).abs() < 0.01);
        assert!((product / count).abs() < 0.01);
        assert_ne!(Stream::new(1, "a").word(0), Stream::new(2, "a").word(0));
        assert_eq!(Stream::new(7, "x").word(3), Stream::new(7, "x").word(3));
    }
}
