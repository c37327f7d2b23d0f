//! Rule 2: every width, shape and number of tokens; and the plain read.

use rawloop_cpu::kernels::{Activations, BlockMut, Kernels, Tiles, TilesError};
use rawloop_spec::{Bits, tile};

use crate::noise::Noise;
use crate::oracle;

const WIDTHS: [Bits; 3] = [Bits::Two, Bits::Four, Bits::Eight];

struct Case {
    bits: Bits,
    rows: usize,
    columns: usize,
    matrix: Vec<u8>,
}

impl Case {
    fn new(bits: Bits, tiles: usize, columns: usize, noise: &mut Noise) -> Self {
        // The last tile is not full.
        let rows = tiles * tile::rows(bits) - 3;
        Case { bits, rows, columns, matrix: noise.bytes(tile::matrix_bytes(bits, rows, columns)) }
    }

    fn tiles(&self) -> Tiles<'_> {
        Tiles::new(self.bits, self.rows, self.columns, &self.matrix).expect("a well-formed matrix")
    }

    /// Compares a range of tiles for all tokens; `offset` moves the activations off any alignment.
    fn check(&self, codes: &[i8], stride: usize, tokens: usize, range: std::ops::Range<usize>) {
        let height = tile::rows(self.bits);
        let x = |token: usize| &codes[token * stride..][..self.columns];
        let sums: Vec<i32> = (0..tokens).map(|t| x(t).iter().map(|&c| c as i32).sum()).collect();
        let width = range.len() * height;
        let expected: Vec<Vec<i32>> = (0..tokens)
            .map(|t| {
                let rows = range.start * height..range.end * height;
                rows.map(|r| oracle::linear(&self.matrix, self.bits, self.columns, r, x(t))).collect()
            })
            .collect();
        for table in Kernels::available() {
            let what = format!("{} {:?} {} columns {tokens} tokens", table.name(), self.bits, self.columns);
            let out_stride = width + 5;
            let mut out = vec![i32::MIN; tokens * out_stride];
            let activations = Activations::new(codes, stride, self.columns, &sums);
            let block = BlockMut::new(&mut out, tokens, width, out_stride);
            table.matmul(self.tiles(), range.clone(), activations, block);
            for token in 0..tokens {
                let row = &out[token * out_stride..][..out_stride];
                assert_eq!(row[..width], expected[token], "{what}, matmul token {token}");
                assert!(
                    row[width..].iter().all(|&beyond| beyond == i32::MIN),
                    "{what} wrote beyond its rows"
                );
            }
            let mut one = vec![0; width];
            table.matvec(self.tiles(), range.clone(), x(0), sums[0], &mut one);
            assert_eq!(one, expected[0], "{what}, matvec");
        }
    }
}

#[test]
fn dots_are_exact_for_every_width_shape_and_number_of_tokens() {
    let mut noise = Noise::new(1);
    for bits in WIDTHS {
        for (tiles, columns) in [(1, 32), (3, 64), (2, 96), (2, 160), (1, 1536)] {
            let case = Case::new(bits, tiles, columns, &mut noise);
            for tokens in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 26] {
                let stride = columns + 7;
                let codes = noise.codes(tokens * stride + 3);
                case.check(&codes[3..], stride, tokens, 0..tiles);
            }
        }
    }
}

#[test]
fn long_rows_and_many_tokens_are_exact() {
    let mut noise = Noise::new(2);
    for bits in WIDTHS {
        let case = Case::new(bits, 1, 12_288, &mut noise);
        for tokens in [1, 5] {
            let codes = noise.codes(tokens * 12_288);
            case.check(&codes, 12_288, tokens, 0..1);
        }
        let case = Case::new(bits, 2, 192, &mut noise);
        let codes = noise.codes(64 * 192);
        case.check(&codes, 192, 64, 0..2);
    }
}

#[test]
fn extreme_codes_do_not_saturate() {
    for bits in WIDTHS {
        let columns = 1536;
        for byte in [0x00, 0xff, 0xaa, 0x55] {
            let rows = tile::rows(bits);
            let matrix = vec![byte; tile::matrix_bytes(bits, rows, columns)];
            let case = Case { bits, rows, columns, matrix };
            for code in [-128, 127] {
                for tokens in [1, 3, 6] {
                    case.check(&vec![code; tokens * columns], columns, tokens, 0..1);
                }
            }
        }
    }
}

#[test]
fn the_longest_rows_allowed_do_not_overflow() {
    for bits in WIDTHS {
        let columns = 65_536;
        let rows = tile::rows(bits);
        let case = Case { bits, rows, columns, matrix: vec![0xff; tile::matrix_bytes(bits, rows, columns)] };
        let codes = vec![-128; 2 * columns];
        let expected = columns as i32 * -128 * (bits.zero_point() - 1);
        for table in Kernels::available() {
            let sum = -128 * columns as i32;
            let mut out = vec![0; rows];
            table.matvec(case.tiles(), 0..1, &codes[..columns], sum, &mut out);
            assert!(out.iter().all(|&acc| acc == expected), "{} {bits:?} matvec", table.name());
            let mut out = vec![0; 2 * rows];
            let sums = [sum, sum];
            let x = Activations::new(&codes, columns, columns, &sums);
            table.matmul(case.tiles(), 0..1, x, BlockMut::new(&mut out, 2, rows, rows));
            assert!(out.iter().all(|&acc| acc == expected), "{} {bits:?} matmul", table.name());
        }
    }
}

#[test]
fn a_range_of_tiles_gives_its_own_rows() {
    let mut noise = Noise::new(3);
    for bits in WIDTHS {
        let case = Case::new(bits, 5, 64, &mut noise);
        let codes = noise.codes(3 * 64);
        for range in [0..1, 1..3, 4..5, 0..5, 2..2] {
            case.check(&codes, 64, 3, range);
        }
    }
}

#[test]
fn rows_that_fill_up_a_tile_give_zero() {
    let (bits, columns) = (Bits::Four, 64);
    let mut tile_bytes = vec![0; tile::tile_bytes(bits, columns)];
    let source = Noise::new(4).bytes(30 * bits.bytes(columns));
    tile::write_tile(&source, bits, columns, &mut tile_bytes);
    let matrix = Tiles::new(bits, 30, columns, &tile_bytes).expect("one tile");
    let codes = Noise::new(5).codes(columns);
    let sum = codes.iter().map(|&c| c as i32).sum();
    for table in Kernels::available() {
        let mut out = [1; 32];
        table.matvec(matrix, 0..1, &codes, sum, &mut out);
        assert_eq!(out[30..], [0, 0], "{}", table.name());
    }
}

#[test]
fn a_matrix_of_another_size_is_refused_with_the_reason() {
    let error = Tiles::new(Bits::Two, 64, 33, &[0; 8]).expect_err("33 inputs");
    assert_eq!(error, TilesError::Columns { columns: 33 });
    let error = Tiles::new(Bits::Two, 64, 32, &[0; 8]).expect_err("8 bytes");
    assert_eq!(error, TilesError::Bytes { rows: 64, columns: 32, bits: 2, expected: 512, found: 8 });
    assert!(Tiles::new(Bits::Eight, usize::MAX / 2, 65_536, &[]).is_err());
}

#[test]
fn reading_sees_every_byte() {
    let mut noise = Noise::new(6);
    for len in [0, 1, 7, 8, 63, 64, 127, 255, 256, 257, 1000] {
        let bytes = noise.bytes(len);
        let expected =
            bytes.iter().enumerate().fold(0u64, |all, (i, &byte)| all ^ ((byte as u64) << (i % 8 * 8)));
        for table in Kernels::available() {
            assert_eq!(table.read(&bytes), expected, "{} {len}", table.name());
        }
    }
}
