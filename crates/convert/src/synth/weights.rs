//! The generator: tensors of a synthetic checkpoint, each byte from seed, name and position.
//!
//! The scales follow from the variance of a random dot: with `K` inputs of mean square `r^2` and codes of deviation `sigma`
//! around 0, an output has deviation `r * sqrt(K) * sigma * scale`; every weight scale is chosen so that this is 1. An
//! activation scale puts code 127 at 4.5 deviations, so that about one value in 10^5 saturates and codes have a deviation
//! near 28. Products of two normals have a longer tail: there 127 stands at 7. What the inputs' `r` are:
//!
//! | input of | mean square from | r |
//! | --- | --- | --- |
//! | q, k, v, gate, up, head | a norm with weights near 1 | 1 |
//! | o | values of mean square 1, averaged over a few positions | 0.6 |
//! | down | `gelu(g) * u` of unit normals: `E[gelu(g)^2]` is 0.42 | 0.65 |
//! | PLE gate | the residual stream, which is not normed | 1.35 |
//! | PLE projection | `gelu(g)` times a unit per-layer input | 0.65 |
//!
//! The residual stream has a fixed point: each of three additions per layer ends in a norm of weight 0.5 (a quarter of
//! mean square), the layer's scalar is 0.8, so `V = (V + 0.75) * 0.64` gives `V` = 1.33, whatever the depth. Query and key
//! norms are `sqrt(2) * dim^-1/4`, so that scores have a deviation of 2 and attention is neither flat nor a pick of one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawloop_spec::{Bits, DrafterGeometry, Geometry, LinearKind};
use safetensors::tensor::Dtype;

use super::random::Stream;
use crate::error::ConvertError;
use crate::names::Names;
use crate::part::{DrafterMatrix, ModuleKey, NormKind, Part};
use crate::source::{Description, TensorSource};

/// Deviations at which an 8-bit activation saturates.
const PEAK: f32 = 4.5;
const PEAK_OF_PRODUCTS: f32 = 7.0;
/// Mean squares' roots of the table above.
const ATTENTION_RMS: f32 = 0.6;
const GATED_RMS: f32 = 0.65;
const RESIDUAL_RMS: f32 = 1.35;
/// Weight of the norms that end an addition to the residual stream, and the layer scalar.
const ADDED: f32 = 0.5;
const LAYER_SCALAR: f32 = 0.8;
/// Deviation of a logit before the soft cap.
const LOGIT_RMS: f32 = 4.0;
/// Root of 3: the amplitude of a uniform number of deviation 1.
const UNIFORM: f32 = 1.732_050_8;

/// How the elements of a tensor are made.
#[derive(Clone, Copy, Debug)]
enum Fill {
    /// Packed codes around 0.
    Codes(Bits),
    /// `center * (1 + spread * u)` with `u` from -1 to 1.
    Around { center: f32, spread: f32 },
    /// One number.
    Constant(f32),
    /// Uniform from `-amplitude` to `amplitude`.
    Uniform(f32),
    /// `(multiplier * i + offset) mod count`, a permutation.
    Permutation { multiplier: u64, offset: u64, count: u64 },
}

struct Made {
    description: Description,
    fill: Fill,
    stream: Stream,
}

/// A checkpoint that is made up while it is read.
pub struct Synthetic {
    label: PathBuf,
    tensors: BTreeMap<String, Made>,
}

impl Synthetic {
    /// A target.
    pub fn target(geometry: &Geometry, names: &Names, seed: u64) -> Synthetic {
        let tensors = Part::target(geometry).into_iter().filter_map(|part| {
            let (stored, shape) = part.target_layout(geometry)?;
            let name = part.name(names);
            let stream = Stream::new(seed, &name);
            let fill = target_fill(part, geometry, seed, stream)?;
            Some((name, Made { description: stored.describe(&shape), fill, stream }))
        });
        Synthetic { label: "synthetic model".into(), tensors: tensors.collect() }
    }

    /// Its assistant.
    pub fn drafter(drafter: &DrafterGeometry, target: &Geometry, seed: u64) -> Synthetic {
        let tensors = Part::drafter(drafter).into_iter().filter_map(|part| {
            let (stored, shape) = part.drafter_layout(drafter, target)?;
            let name = part.name(&Names::text_only());
            // Names of an assistant and of a text-only target overlap.
            let stream = Stream::new(seed, &format!("assistant/{name}"));
            let fill = drafter_fill(part, drafter, target, stream)?;
            Some((name, Made { description: stored.describe(&shape), fill, stream }))
        });
        Synthetic { label: "synthetic assistant".into(), tensors: tensors.collect() }
    }
}

/// Deviation of random codes of a width.
fn sigma(bits: Bits) -> f32 {
    match bits {
        Bits::Two => 1.0,
        Bits::Four => 4.6,
        Bits::Eight => 73.9,
    }
}

/// Activation scale of values whose mean square is `rms^2`, a little different for every stream.
fn activation_scale(peak: f32, rms: f32, stream: Stream) -> Fill {
    Fill::Constant(peak * rms / 127.0 * (1.0 + 0.1 * stream.symmetric(0)))
}

fn query_key_norm(head_dim: usize) -> f32 {
    (2.0 / (head_dim as f32).sqrt()).sqrt()
}

fn target_fill(part: Part, geometry: &Geometry, seed: u64, stream: Stream) -> Option<Fill> {
    let row_scale = |rms: f32, wanted: f32, columns: usize, bits: Bits| {
        let center = wanted / (rms * (columns as f32).sqrt() * sigma(bits));
        Fill::Around { center, spread: 0.25 }
    };
    Some(match part {
        Part::Codes(module) => Fill::Codes(module.shape(geometry).2),
        Part::WeightScale(module) => {
            let (_, columns, bits) = module.shape(geometry);
            match module {
                // Rows are multiplied by sqrt(width) when they are read, so this makes them of mean square 1.
                ModuleKey::Embed => row_scale(1.0, 1.0, columns, bits),
                ModuleKey::Ple => row_scale(1.0, 1.0, geometry.ple_width, bits),
                ModuleKey::Head => row_scale(1.0, LOGIT_RMS, columns, bits),
                ModuleKey::Linear(_, kind) => row_scale(input_rms(LinearKind::ALL[kind]), 1.0, columns, bits),
            }
        }
        // As in the released checkpoints: the head's input is not quantised.
        Part::InputScale(ModuleKey::Head) | Part::OutputScale(ModuleKey::Head) => Fill::Constant(0.0),
        Part::InputScale(ModuleKey::Linear(layer, kind)) => {
            let kind = LinearKind::ALL[kind];
            // Linears that share an input share its scale (contract rule 4).
            let input = match kind {
                LinearKind::Q | LinearKind::K | LinearKind::V => "attention input",
                LinearKind::Gate | LinearKind::Up => "ffn input",
                LinearKind::O => "attention output",
                LinearKind::Down => "ffn hidden",
                LinearKind::PleGate => "residual",
                LinearKind::PleProjection => "ple hidden",
            };
            let peak = match kind {
                LinearKind::Down | LinearKind::PleProjection => PEAK_OF_PRODUCTS,
                _ => PEAK,
            };
            activation_scale(peak, input_rms(kind), Stream::new(seed, &format!("layer {layer} {input}")))
        }
        Part::OutputScale(ModuleKey::Linear(..)) => activation_scale(PEAK, 1.0, stream),
        Part::InputScale(_) | Part::OutputScale(_) => return None,
        Part::ModelProjection => Fill::Uniform(UNIFORM),
        Part::Norm(layer, NormKind::Query | NormKind::Key) => {
            Fill::Around { center: query_key_norm(geometry.layers[layer].head_dim), spread: 0.25 }
        }
        Part::Norm(_, NormKind::PostAttention | NormKind::PostFfn | NormKind::PostPle) => {
            Fill::Around { center: ADDED, spread: 0.25 }
        }
        Part::Norm(..) | Part::PleNorm | Part::FinalNorm => Fill::Around { center: 1.0, spread: 0.25 },
        Part::LayerScalar(_) => Fill::Around { center: LAYER_SCALAR, spread: 0.1 },
        Part::KeyCacheScale(layer) => {
            Fill::Constant(6.0 * query_key_norm(geometry.layers[layer].head_dim) / 127.0)
        }
        Part::ValueCacheScale(_) => Fill::Constant(6.0 / 127.0),
        _ => return None,
    })
}

fn input_rms(kind: LinearKind) -> f32 {
    match kind {
        LinearKind::Q | LinearKind::K | LinearKind::V | LinearKind::Gate | LinearKind::Up => 1.0,
        LinearKind::O => ATTENTION_RMS,
        LinearKind::Down | LinearKind::PleProjection => GATED_RMS,
        LinearKind::PleGate => RESIDUAL_RMS,
    }
}

fn drafter_fill(part: Part, drafter: &DrafterGeometry, target: &Geometry, stream: Stream) -> Option<Fill> {
    let dense = |rms: f32, wanted: f32, columns: usize| {
        Fill::Uniform(UNIFORM * wanted / (rms * (columns as f32).sqrt()))
    };
    let hidden = drafter.hidden;
    Some(match part {
        Part::DrafterPreProjection => dense(1.0, 1.0, 2 * target.hidden),
        Part::DrafterPostProjection => dense(1.0, 1.0, hidden),
        Part::DrafterEmbed | Part::DrafterCentroids => dense(1.0, LOGIT_RMS, hidden),
        Part::DrafterNorm(layer, NormKind::Query) => {
            Fill::Around { center: query_key_norm(drafter.layers[layer].head_dim), spread: 0.25 }
        }
        Part::DrafterNorm(_, NormKind::PostAttention | NormKind::PostFfn) => {
            Fill::Around { center: ADDED, spread: 0.25 }
        }
        Part::DrafterNorm(..) | Part::DrafterFinalNorm => Fill::Around { center: 1.0, spread: 0.25 },
        Part::DrafterLayerScalar(_) => Fill::Around { center: LAYER_SCALAR, spread: 0.1 },
        Part::DrafterMatrix(layer, matrix) => match matrix {
            DrafterMatrix::O => dense(ATTENTION_RMS, 1.0, drafter.heads * drafter.layers[layer].head_dim),
            DrafterMatrix::Down => dense(GATED_RMS, 1.0, drafter.ffn),
            _ => dense(1.0, 1.0, hidden),
        },
        Part::DrafterTokenOrdering => {
            let count = target.vocab as u64;
            // The first odd-looking multiplier from a random start that shares no factor with the count.
            let start = stream.word(0) % count;
            let multiplier = (start..).find(|&candidate| coprime(candidate, count))?;
            Fill::Permutation { multiplier, offset: stream.word(1) % count, count }
        }
        _ => return None,
    })
}

fn coprime(mut a: u64, mut b: u64) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

impl TensorSource for Synthetic {
    fn label(&self) -> &Path {
        &self.label
    }

    fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn describe(&self, name: &str) -> Option<Description> {
        self.tensors.get(name).map(|made| made.description.clone())
    }

    fn file_of(&self, _: &str) -> &Path {
        &self.label
    }

    fn read(&self, name: &str, first_byte: u64, target: &mut [u8]) -> Result<(), ConvertError> {
        let Some(made) = self.tensors.get(name) else {
            return Err(ConvertError::Missing { folder: self.label.clone(), count: 1, names: name.into() });
        };
        let end = first_byte + target.len() as u64;
        if end > made.description.bytes {
            let (expected, found) = (format!("{end} bytes"), made.description.bytes.to_string());
            return Err(ConvertError::tensor(&self.label, name, expected, found));
        }
        made.fill(first_byte, target);
        Ok(())
    }
}

impl Made {
    fn fill(&self, first_byte: u64, target: &mut [u8]) {
        match (self.fill, self.description.dtype) {
            (Fill::Codes(bits), _) => self.codes(bits, first_byte, target),
            (_, Dtype::BF16) => {
                self.elements(first_byte, target, |index| to_bf16(self.number(index)).to_le_bytes());
            }
            (Fill::Permutation { multiplier, offset, count }, _) => {
                // Below 2^20 each, so the product fits.
                self.elements(first_byte, target, |index| {
                    ((multiplier * index + offset) % count).to_le_bytes()
                });
            }
            _ => self.elements(first_byte, target, |index| self.number(index).to_le_bytes()),
        }
    }

    fn number(&self, index: u64) -> f32 {
        match self.fill {
            Fill::Around { center, spread } => center * (1.0 + spread * self.stream.symmetric(index)),
            Fill::Constant(value) => value,
            Fill::Uniform(amplitude) => amplitude * self.stream.symmetric(index),
            Fill::Codes(_) | Fill::Permutation { .. } => 0.0,
        }
    }

    /// Elements of `N` bytes; `first_byte` is a multiple of `N`.
    fn elements<const N: usize>(&self, first_byte: u64, target: &mut [u8], element: impl Fn(u64) -> [u8; N]) {
        let first = first_byte / N as u64;
        for (index, bytes) in target.chunks_exact_mut(N).enumerate() {
            bytes.copy_from_slice(&element(first + index as u64));
        }
    }

    /// Eight bytes of codes a word. Any byte range can be asked for.
    fn codes(&self, bits: Bits, first_byte: u64, target: &mut [u8]) {
        let word = |index: u64| codes_of(self.stream.word(index), bits).to_le_bytes();
        let skip = (first_byte % 8) as usize;
        let (head, rest) = target.split_at_mut(((8 - skip) % 8).min(target.len()));
        let mut index = first_byte / 8;
        if !head.is_empty() {
            head.copy_from_slice(&word(index)[skip..skip + head.len()]);
            index += 1;
        }
        let mut chunks = rest.chunks_exact_mut(8);
        for bytes in &mut chunks {
            bytes.copy_from_slice(&word(index));
            index += 1;
        }
        let tail = chunks.into_remainder();
        tail.copy_from_slice(&word(index)[..tail.len()]);
    }
}

/// Turns random bits into stored codes whose values average to 0, nearly: plain random codes average to -1/2, which adds up
/// over a dot. All codes still occur.
#[inline]
fn codes_of(word: u64, bits: Bits) -> u64 {
    match bits {
        Bits::Two => {
            // Values -2 and -1 become 1 and 0 half of the time: probabilities 1/8, 1/8, 3/8, 3/8.
            const LOW: u64 = 0x5555_5555_5555_5555;
            let coin = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
            let flip = coin & !(word >> 1) & LOW;
            word ^ flip ^ (flip << 1)
        }
        Bits::Four => {
            // The lowest value becomes the highest half of the time.
            const LOW: u64 = 0x1111_1111_1111_1111;
            let any = word | (word >> 1) | (word >> 2) | (word >> 3);
            let coin = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
            let flip = coin & !any & LOW;
            word | (flip * 15)
        }
        // Two's complement; -1/2 beside a deviation of 74 is nothing.
        Bits::Eight => word,
    }
}

/// The nearest BF16, ties to even.
fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_average_to_zero_and_have_the_stated_deviation() {
        let stream = Stream::new(3, "codes");
        for bits in [Bits::Two, Bits::Four] {
            let (mut count, mut sum, mut square, mut seen) = (0.0, 0.0, 0.0, 0u32);
            for index in 0..40_000 {
                let word = codes_of(stream.word(index), bits);
                for code in 0..64 / bits.width() {
                    let code = (word >> (code * bits.width())) & ((1 << bits.width()) - 1);
                    let value = code as f64 - f64::from(bits.zero_point());
                    (count, sum, square, seen) =
                        (count + 1.0, sum + value, square + value * value, seen | 1 << code);
                }
            }
            let mean: f64 = sum / count;
            let deviation = (square / count).sqrt();
            assert!(mean.abs() < 0.04 * f64::from(sigma(bits)), "{bits:?} mean {mean}");
            assert!(
                (deviation / f64::from(sigma(bits)) - 1.0).abs() < 0.02,
                "{bits:?} deviation {deviation}"
            );
            assert_eq!(seen.count_ones(), 1 << bits.width());
        }
    }

    #[test]
    fn any_range_of_a_tensor_is_part_of_the_whole() {
        let geometry = rawloop_spec::presets::by_name("tiny-e4b").unwrap().geometry();
        let source = Synthetic::target(&geometry, &Names::multimodal(), 5);
        let drafter = rawloop_spec::presets::by_name("tiny-e4b").unwrap().drafter(true);
        let assistant = Synthetic::drafter(&drafter, &geometry, 5);
        for source in [&source, &assistant] {
            for name in source.names() {
                let Description { bytes, dtype, .. } = source.describe(&name).unwrap();
                let mut whole = vec![0; bytes as usize];
                source.read(&name, 0, &mut whole).unwrap();
                let element = dtype.bitsize() / 8;
                for (from, to) in [(1, 2), (3, 5), (1, 13)] {
                    let (from, to) = ((from * element).min(whole.len()), (to * element).min(whole.len()));
                    let mut part = vec![0; to - from];
                    source.read(&name, from as u64, &mut part).unwrap();
                    assert_eq!(part, whole[from..to], "{name}");
                }
            }
        }
    }

    #[test]
    fn bf16_rounds_to_nearest_even() {
        for (value, bits) in
            [(1.0, 0x3f80), (-0.5, 0xbf00), (1.0 + 1.0 / 256.0, 0x3f80), (1.0 + 3.0 / 256.0, 0x3f82)]
        {
            assert_eq!(to_bf16(value), bits, "{value}");
        }
    }
}
