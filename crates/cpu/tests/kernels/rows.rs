//! Rules 1, 3, 5, 6, 7, 10, 11 and 12 on rows of every length.

use rawloop_cpu::kernels::{Block, BlockMut, Kernels};
use rawloop_spec::{Bits, contract, tile};

use crate::noise::{LENGTHS, Noise, bits};
use crate::oracle;

fn sum(codes: &[i8]) -> i32 {
    codes.iter().map(|&code| code as i32).sum()
}

/// Values whose quotients hit halves, limits and nothing sensible at all.
fn awkward(noise: &mut Noise, len: usize) -> Vec<f32> {
    let special =
        [0.5, -0.5, 1.5, 2.5, -127.5, -128.5, 127.5, 1e30, -1e30, 0.0, -0.0, f32::NAN, f32::INFINITY];
    (0..len)
        .map(|_| match noise.next() % 3 {
            0 => special[noise.next() as usize % special.len()],
            1 => (noise.next() % 600) as f32 * 0.5 - 150.0,
            _ => noise.unit() * 140.0,
        })
        .collect()
}

#[test]
fn quantise_divides_rounds_to_even_and_clamps() {
    let mut noise = Noise::new(10);
    for len in LENGTHS {
        for scale in [1.0, 0.5, 0.037_918_3, 1e-9, 3e20, 0.0] {
            let x: Vec<f32> = awkward(&mut noise, len).iter().map(|x| x * scale).collect();
            let expected: Vec<i8> = x.iter().map(|&x| contract::quantise(x, scale)).collect();
            for table in Kernels::available() {
                let mut out = vec![99; len];
                assert_eq!(table.quantise(&x, scale, &mut out), sum(&expected), "{} sum", table.name());
                assert_eq!(out, expected, "{} {len} {scale}", table.name());
            }
        }
    }
}

#[test]
fn requantise_is_the_multiplier_then_a_true_division() {
    let mut noise = Noise::new(11);
    for len in LENGTHS {
        let (tokens, stride) = (3, len + 2);
        let acc: Vec<i32> =
            (0..tokens * stride).map(|_| noise.next() as i32 >> (noise.next() % 31)).collect();
        let multipliers: Vec<f32> = (0..len).map(|_| (noise.unit() + 1.0) * 1e-3).collect();
        for scale in [0.02, 1e-7, 5.0] {
            for table in Kernels::available() {
                let mut out = vec![77; tokens * stride];
                table.requantise(
                    Block::new(&acc, tokens, len, stride),
                    &multipliers,
                    scale,
                    BlockMut::new(&mut out, tokens, len, stride),
                );
                for (i, &code) in out.iter().enumerate() {
                    let (token, row) = (i / stride, i % stride);
                    let expected = match multipliers.get(row) {
                        Some(&m) => oracle::requantise(acc[token * stride + row], m, scale),
                        None => 77,
                    };
                    assert_eq!(code, expected, "{} token {token} row {row} of {len}", table.name());
                }
            }
        }
    }
}

#[test]
fn gates_look_up_multiply_and_quantise() {
    let mut noise = Noise::new(12);
    let table_of_gelu = contract::gelu_table(0.05);
    for len in LENGTHS {
        let (gate, up) = (noise.codes(len), noise.codes(len));
        let values = noise.floats(len, 3.0);
        let gelu = |i: usize| table_of_gelu[(gate[i] as i32 + 128) as usize];
        let from_codes: Vec<i8> =
            (0..len).map(|i| contract::quantise(gelu(i) * (up[i] as f32 * 0.031), 0.017)).collect();
        let from_values: Vec<i8> = (0..len).map(|i| contract::quantise(gelu(i) * values[i], 0.017)).collect();
        for table in Kernels::available() {
            let mut out = vec![0; len];
            let total = table.gate_codes(&gate, &table_of_gelu, &up, 0.031, 0.017, &mut out);
            assert_eq!((total, &out), (sum(&from_codes), &from_codes), "{} {len}", table.name());
            let total = table.gate_values(&gate, &table_of_gelu, &values, 0.017, &mut out);
            assert_eq!((total, &out), (sum(&from_values), &from_values), "{} {len}", table.name());
        }
    }
}

#[test]
fn norms_follow_the_rule_from_codes_and_from_floats() {
    let mut noise = Noise::new(13);
    for len in LENGTHS {
        let (codes, x) = (noise.codes(len), noise.floats(len, 7.0));
        let (weight, residual) = (noise.floats(len, 2.0), noise.floats(len, 5.0));
        let scale = 0.043;
        let values: Vec<f32> = codes.iter().map(|&code| code as f32 * scale).collect();
        for weight in [Some(&weight[..]), None] {
            let from_codes = oracle::norm(&values, oracle::mean_square_of_codes(&codes, scale), weight);
            let from_floats = oracle::norm(&x, oracle::mean_square(&x), weight);
            let quantised: Vec<i8> = from_floats.iter().map(|&y| contract::quantise(y, 0.02)).collect();
            for table in Kernels::available() {
                let what = format!("{} {len}", table.name());
                let mut out = vec![0.0; len];
                table.norm_codes(&codes, scale, weight, &mut out);
                assert_eq!(bits(&out), bits(&from_codes), "{what} from codes");
                table.norm(&x, weight, &mut out);
                assert_eq!(bits(&out), bits(&from_floats), "{what} from floats");
                let mut out = vec![0; len];
                assert_eq!(table.norm_quantise(&x, weight, 0.02, &mut out), sum(&quantised), "{what}");
                assert_eq!(out, quantised, "{what} quantised");
                for factor in [1.0, 0.37] {
                    let mut out = residual.clone();
                    table.norm_codes_add(&codes, scale, weight, factor, &mut out);
                    let expected: Vec<f32> =
                        residual.iter().zip(&from_codes).map(|(h, y)| (h + y) * factor).collect();
                    assert_eq!(bits(&out), bits(&expected), "{what} added");
                }
            }
        }
    }
}

#[test]
fn norms_of_all_zero_rows_are_zero() {
    for table in Kernels::available() {
        let mut out = [1.0; 64];
        table.norm_codes(&[0; 64], 0.1, None, &mut out);
        assert_eq!(out, [0.0; 64], "{}", table.name());
        let mut out = [1; 64];
        assert_eq!(table.norm_quantise(&[0.0; 64], None, 0.1, &mut out), 0);
        assert_eq!(out, [0; 64], "{}", table.name());
    }
}

#[test]
fn sums_have_32_lanes_and_additions_one_rounding_each() {
    let mut noise = Noise::new(14);
    for len in LENGTHS.into_iter().chain([0, 2560, 12_288]) {
        let (a, b) = (noise.floats(len, 3.0), noise.floats(len, 3.0));
        // Products that underflow leave -0 in a lane, and an absent element must not change it.
        let tiny = vec![-1e-30; len];
        for table in Kernels::available() {
            let expected = contract::lane_sum(len, |i| (a[i], b[i]));
            assert_eq!(table.dot(&a, &b).to_bits(), expected.to_bits(), "{} {len}", table.name());
            let positive: Vec<f32> = tiny.iter().map(|x: &f32| -x).collect();
            let expected = contract::lane_sum(len, |i| (tiny[i], positive[i]));
            assert_eq!(table.dot(&tiny, &positive).to_bits(), expected.to_bits(), "{} {len}", table.name());
            let mut out = a.clone();
            table.add_scaled(&mut out, &b, 0.707_106_77);
            let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| (a + b) * 0.707_106_77).collect();
            assert_eq!(bits(&out), bits(&expected), "{} {len}", table.name());
        }
    }
}

#[test]
fn rope_turns_pairs_and_passes_the_rest() {
    let mut noise = Noise::new(15);
    for (dim, frequencies) in [(256, 128), (512, 64), (64, 32), (128, 20), (32, 0), (30, 15)] {
        let x = noise.floats(3 * dim, 4.0);
        let inverse = contract::inverse_frequencies(10_000.0, dim, frequencies);
        let (mut c, mut s) = (vec![0.0; frequencies], vec![0.0; frequencies]);
        contract::rope_row(4321, &inverse, &mut c, &mut s);
        let mut expected = x.clone();
        for head in 0..3 {
            for i in 0..frequencies {
                let (first, second) = (head * dim + i, head * dim + dim / 2 + i);
                expected[first] = c[i] * x[first] - s[i] * x[second];
                expected[second] = s[i] * x[first] + c[i] * x[second];
            }
        }
        for table in Kernels::available() {
            let mut out = x.clone();
            table.rope(&mut out, dim, &c, &s);
            assert_eq!(bits(&out), bits(&expected), "{} {dim} {frequencies}", table.name());
        }
    }
}

#[test]
fn the_bf16_projection_is_a_lane_sum_times_a_constant() {
    let mut noise = Noise::new(16);
    for (rows, columns, tokens) in [(1, 32, 1), (5, 96, 3), (4, 1536, 1), (7, 256, 9), (3, 40, 5), (2, 64, 4)]
    {
        let weights: Vec<u16> =
            noise.floats(rows * columns, 1.0).iter().map(|w| (w.to_bits() >> 16) as u16).collect();
        let x = noise.floats(tokens * columns, 2.0);
        let factor = 0.025_515_518;
        for table in Kernels::available() {
            let mut out = vec![0.0; tokens * rows];
            table.project(
                &weights,
                Block::new(&x, tokens, columns, columns),
                factor,
                BlockMut::new(&mut out, tokens, rows, rows),
            );
            for token in 0..tokens {
                for row in 0..rows {
                    let w = |k: usize| contract::bf16_to_f32(weights[row * columns + k]);
                    let expected = contract::lane_sum(columns, |k| (x[token * columns + k], w(k))) * factor;
                    let got = out[token * rows + row];
                    assert_eq!(got.to_bits(), expected.to_bits(), "{} token {token} row {row}", table.name());
                }
            }
        }
    }
}

#[test]
fn rows_of_tables_are_scaled_in_two_steps() {
    let mut noise = Noise::new(17);
    for width in [Bits::Two, Bits::Four, Bits::Eight] {
        for len in [32, 96, 256, 1536] {
            let row = noise.bytes(width.bytes(len));
            let expected: Vec<f32> = (0..len)
                .map(|i| {
                    (tile::row_code(&row, width, i) as i32 - width.zero_point()) as f32 * 0.013 * 39.191_837
                })
                .collect();
            for table in Kernels::available() {
                let mut out = vec![0.0; len];
                table.expand_row(&row, width, 0.013, 39.191_837, &mut out);
                assert_eq!(bits(&out), bits(&expected), "{} {width:?} {len}", table.name());
            }
        }
    }
}

#[test]
fn the_cache_formats_round_to_even_and_saturate() {
    let mut noise = Noise::new(18);
    let special =
        [65_504.0, 65_519.9, 65_520.0, 1e9, -1e9, f32::NEG_INFINITY, 6e-8, 2.9e-8, 1e-7, -3e-5, 0.0, -0.0];
    for len in LENGTHS {
        let mut x = noise.floats(len, 40.0);
        for (i, value) in special.into_iter().enumerate() {
            if let Some(x) = x.get_mut(i * 3) {
                *x = value;
            }
        }
        let halves: Vec<u16> = x.iter().map(|&x| contract::f32_to_f16(x)).collect();
        let finite: Vec<f32> = x.iter().map(|x| x.clamp(-900.0, 900.0)).collect();
        let scale = finite.iter().fold(0f32, |largest, x| largest.max(x.abs())) / 127.0;
        let codes: Vec<i8> = finite.iter().map(|&x| contract::quantise(x, scale)).collect();
        for table in Kernels::available() {
            let mut out = vec![0; len];
            table.store_f16(&x, &mut out);
            assert_eq!(out, halves, "{} {len}", table.name());
            let mut out = vec![0; len];
            assert_eq!(table.store_i8(&finite, &mut out).to_bits(), scale.to_bits(), "{}", table.name());
            assert_eq!(out, codes, "{} {len}", table.name());
            let mut out = vec![1; len];
            assert_eq!(table.store_i8(&vec![-0.0; len], &mut out), 0.0, "{}", table.name());
            assert_eq!(out, vec![0; len], "{} zeros", table.name());
        }
    }
}

#[test]
fn every_half_and_its_neighbours_store_alike() {
    let x: Vec<f32> = (0..=0x7bffu16)
        .flat_map(|half| {
            let bits = contract::f16_to_f32(half).to_bits();
            [bits, bits + 1, bits + 0xfff, bits + 0x1000, bits + 0x1001].map(f32::from_bits)
        })
        .flat_map(|x| [x, -x])
        .collect();
    let expected: Vec<u16> = x.iter().map(|&x| contract::f32_to_f16(x)).collect();
    for table in Kernels::available() {
        let mut out = vec![0; x.len()];
        table.store_f16(&x, &mut out);
        assert!(out == expected, "{}", table.name());
    }
}
