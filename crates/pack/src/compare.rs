//! Two packs side by side: which tensors differ, and by how much.
//!
//! Tensors are grouped into families (`layers.3.q.codes` belongs to `layers.N.q.codes`), because a defect of a converter
//! shows in a family and not in a layer.

use std::collections::{BTreeMap, BTreeSet};

use rawloop_spec::{Bits, Format, contract};
use serde::Serialize;

use crate::manifest::TensorEntry;
use crate::pack::{Pack, Tensor};

/// The tensors of one family.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FamilyReport {
    /// Tensors with the same bytes.
    pub equal: usize,
    /// Tensors of the same shape and format with other bytes.
    pub differing: usize,
    /// Values that differ, over all of them.
    pub differing_values: u64,
    /// Largest difference of two values: in code units for weight codes, else in units of the values. Infinite (null in
    /// JSON) where one side is not a number.
    pub largest_difference: f64,
    /// Tensors whose shape or format differ.
    pub incomparable: Vec<String>,
}

/// Two packs compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompareReport {
    /// By family.
    pub families: BTreeMap<String, FamilyReport>,
    /// Tensors only the first has.
    pub only_first: Vec<String>,
    /// Tensors only the second has.
    pub only_second: Vec<String>,
    /// Blobs that differ or that one of them lacks.
    pub blobs: Vec<String>,
    /// Parts of the manifest that differ: `model`, `geometry`, `drafter`, `generation`, `provenance`.
    pub manifest: Vec<&'static str>,
}

impl CompareReport {
    /// Whether all tensors have the same bytes.
    pub fn tensors_equal(&self) -> bool {
        let same = |family: &FamilyReport| family.differing == 0 && family.incomparable.is_empty();
        self.families.values().all(same) && self.only_first.is_empty() && self.only_second.is_empty()
    }

    /// Whether everything is equal.
    pub fn equal(&self) -> bool {
        self.tensors_equal() && self.blobs.is_empty() && self.manifest.is_empty()
    }
}

/// Compares the stored bytes, not the hashes, so that a damaged pack can be compared with a good one.
pub fn compare(a: &Pack, b: &Pack) -> CompareReport {
    let mut families = BTreeMap::<String, FamilyReport>::new();
    let mut only_first = Vec::new();
    for first in a.tensors() {
        let name = &first.entry.name;
        let Ok(second) = b.tensor(name) else {
            only_first.push(name.clone());
            continue;
        };
        let family = families.entry(family_of(name)).or_default();
        if !same_shape(first.entry, second.entry) {
            family.incomparable.push(name.clone());
        } else if first.bytes == second.bytes {
            family.equal += 1;
        } else {
            let (count, largest) = difference(&first, &second);
            family.differing += 1;
            family.differing_values += count;
            family.largest_difference = family.largest_difference.max(largest);
        }
    }
    let only_second = b.tensors().filter(|second| a.tensor(&second.entry.name).is_err());
    let only_second = only_second.map(|second| second.entry.name.clone()).collect();
    CompareReport { families, only_first, only_second, blobs: blobs(a, b), manifest: manifest(a, b) }
}

/// The name with its layer number replaced by `N`.
fn family_of(name: &str) -> String {
    let part = |part: &str| {
        let number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if number { "N".to_string() } else { part.to_string() }
    };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

fn same_shape(a: &TensorEntry, b: &TensorEntry) -> bool {
    (a.format, a.rows, a.columns) == (b.format, b.rows, b.columns)
}

/// Count of differing values and the largest difference, of two tensors of the same shape and format.
fn difference(a: &Tensor, b: &Tensor) -> (u64, f64) {
    match a.entry.format {
        Format::F32 => numbers::<4>(a, b, |bytes| f64::from(f32::from_le_bytes(bytes))),
        Format::Bf16 => {
            numbers::<2>(a, b, |bytes| f64::from(contract::bf16_to_f32(u16::from_le_bytes(bytes))))
        }
        Format::U32 => numbers::<4>(a, b, |bytes| f64::from(u32::from_le_bytes(bytes))),
        Format::Tiles(bits) | Format::Rows(bits) => codes(a.bytes, b.bytes, bits),
    }
}

fn numbers<const N: usize>(a: &Tensor, b: &Tensor, value: impl Fn([u8; N]) -> f64) -> (u64, f64) {
    let (mut count, mut largest) = (0, 0f64);
    for (x, y) in a.bytes.as_chunks::<N>().0.iter().zip(b.bytes.as_chunks::<N>().0) {
        if x != y {
            count += 1;
            let distance = (value(*x) - value(*y)).abs();
            largest = if distance.is_nan() { f64::INFINITY } else { largest.max(distance) };
        }
    }
    (count, largest)
}

/// Both layouts put code `(row, column)` at the same place on both sides, so bytes are compared plane by plane.
fn codes(a: &[u8], b: &[u8], bits: Bits) -> (u64, f64) {
    let width = bits.width();
    let mask = (0xff_u16 >> (8 - width)) as u8;
    let (mut count, mut largest) = (0, 0);
    for (&x, &y) in a.iter().zip(b).filter(|(x, y)| x != y) {
        for plane in 0..bits.per_byte() {
            let code = |byte: u8| (byte >> (plane * width)) & mask;
            let distance = code(x).abs_diff(code(y));
            count += u64::from(distance != 0);
            largest = largest.max(distance);
        }
    }
    (count, f64::from(largest))
}

fn blobs(a: &Pack, b: &Pack) -> Vec<String> {
    let names =
        |pack: &Pack| pack.manifest().blobs.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>();
    let all: BTreeSet<String> = names(a).into_iter().chain(names(b)).collect();
    all.into_iter().filter(|name| a.blob(name) != b.blob(name)).collect()
}

fn manifest(a: &Pack, b: &Pack) -> Vec<&'static str> {
    let (a, b) = (a.manifest(), b.manifest());
    let parts = [
        ("model", a.model == b.model),
        ("geometry", a.geometry == b.geometry),
        ("drafter", a.drafter == b.drafter),
        ("generation", a.generation == b.generation),
        ("provenance", a.provenance == b.provenance),
    ];
    parts.into_iter().filter(|(_, same)| !same).map(|(part, _)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_drop_the_layer_number_only() {
        assert_eq!(family_of("layers.13.ple_gate.codes"), "layers.N.ple_gate.codes");
        assert_eq!(family_of("drafter.layers.0.q"), "drafter.layers.N.q");
        assert_eq!(family_of("head.scales"), "head.scales");
    }

    #[test]
    fn codes_differ_in_code_units() {
        assert_eq!(codes(&[0b11_00_01_10], &[0b00_00_10_10], Bits::Two), (2, 3.0));
        assert_eq!(codes(&[0xf0], &[0x05], Bits::Four), (2, 15.0));
        assert_eq!(codes(&[0], &[255], Bits::Eight), (1, 255.0));
        assert_eq!(codes(&[7, 9], &[7, 9], Bits::Four), (0, 0.0));
    }
}
