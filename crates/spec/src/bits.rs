//! Widths of weight codes.
//!
//! A code is stored unsigned, offset by `2^(bits-1)`; its value is `code - zero_point`. Two's complement on disk (8-bit
//! tensors of the checkpoint) is turned into this form by the converter, so that one rule serves all widths.

/// Width of one weight code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "u8", into = "u8")
)]
pub enum Bits {
    /// Codes 0..=3, values -2..=1.
    Two,
    /// Codes 0..=15, values -8..=7.
    Four,
    /// Codes 0..=255, values -128..=127.
    Eight,
}

impl Bits {
    /// Bits of one code.
    pub const fn width(self) -> usize {
        match self {
            Bits::Two => 2,
            Bits::Four => 4,
            Bits::Eight => 8,
        }
    }

    /// Codes in one byte.
    pub const fn per_byte(self) -> usize {
        8 / self.width()
    }

    /// The stored code whose value is 0.
    pub const fn zero_point(self) -> i32 {
        1 << (self.width() - 1)
    }

    /// Bytes of `count` codes; `count` is a multiple of [`Bits::per_byte`].
    pub const fn bytes(self, count: usize) -> usize {
        count / self.per_byte()
    }
}

impl TryFrom<u8> for Bits {
    type Error = String;

    fn try_from(width: u8) -> Result<Self, String> {
        match width {
            2 => Ok(Bits::Two),
            4 => Ok(Bits::Four),
            8 => Ok(Bits::Eight),
            other => Err(format!("a code width of {other} bits is not supported, only 2, 4 and 8")),
        }
    }
}

impl From<Bits> for u8 {
    fn from(bits: Bits) -> u8 {
        bits.width() as u8
    }
}
