//! The registry: every tensor a pack of a given geometry holds, in the order in which a token reads them.
//!
//! Names are the same in packs, listings and kernels. A reader that meets a pack checks its manifest against this list;
//! a writer walks it. Shapes are `[rows x columns]`, vectors have one row.

use crate::drafter::DrafterGeometry;
use crate::geometry::{AttentionKind, Geometry, LinearKind};
use crate::{Bits, tile};

/// How a tensor's values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Format {
    /// IEEE single.
    F32,
    /// The upper half of an IEEE single.
    Bf16,
    /// Unsigned 32-bit integers.
    U32,
    /// Weight codes in tiles ([`tile`]).
    Tiles(Bits),
    /// Weight codes row after row ([`tile`]).
    Rows(Bits),
}

impl Format {
    /// Bytes of a `[rows x columns]` tensor.
    pub fn bytes(self, rows: usize, columns: usize) -> usize {
        match self {
            Format::F32 | Format::U32 => rows * columns * 4,
            Format::Bf16 => rows * columns * 2,
            Format::Tiles(bits) => tile::matrix_bytes(bits, rows, columns),
            Format::Rows(bits) => rows * bits.bytes(columns),
        }
    }

    /// Short name for listings.
    pub fn name(self) -> String {
        match self {
            Format::F32 => "f32".into(),
            Format::Bf16 => "bf16".into(),
            Format::U32 => "u32".into(),
            Format::Tiles(bits) => format!("int{} tiles", bits.width()),
            Format::Rows(bits) => format!("int{} rows", bits.width()),
        }
    }
}

/// What a tensor is to a decoded token; the classes of the bytes-per-token account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Class {
    /// Codes of attention projections.
    Attention,
    /// Codes of the FFN.
    Ffn,
    /// Codes of the per-layer-embedding gate and projection.
    Ple,
    /// The projection from the embedding to all per-layer inputs.
    PleModelProjection,
    /// Codes of the output head.
    Head,
    /// f32 row multipliers and activation scales, read with the codes.
    Scales,
    /// Norm weights and layer scalars.
    Norms,
    /// Tables derived from weights alone: GELU, rope frequencies.
    Tables,
    /// Tables of which a token reads one row.
    Gathered,
    /// Kept for tools; no token reads it.
    Unread,
    /// The drafter's weights, read per draft.
    Drafter,
}

/// One tensor of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name.
    pub name: String,
    /// Storage.
    pub format: Format,
    /// Rows, 1 for a vector.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Class.
    pub class: Class,
}

impl TensorSpec {
    fn new(name: impl Into<String>, format: Format, rows: usize, columns: usize, class: Class) -> Self {
        TensorSpec { name: name.into(), format, rows, columns, class }
    }

    /// Stored bytes.
    pub fn bytes(&self) -> usize {
        self.format.bytes(self.rows, self.columns)
    }

    /// Bytes a decoded token reads of it: all, one row of a gathered table, or none.
    pub fn bytes_per_token(&self) -> usize {
        match self.class {
            Class::Gathered => self.format.bytes(1, self.columns),
            Class::Unread | Class::Drafter => 0,
            _ => self.bytes(),
        }
    }
}

/// The class of a linear's codes.
pub fn class_of(kind: LinearKind) -> Class {
    match kind {
        LinearKind::Q | LinearKind::K | LinearKind::V | LinearKind::O => Class::Attention,
        LinearKind::Gate | LinearKind::Up | LinearKind::Down => Class::Ffn,
        LinearKind::PleGate | LinearKind::PleProjection => Class::Ple,
    }
}

/// Every tensor of the target model.
pub fn target(geometry: &Geometry) -> Vec<TensorSpec> {
    let Geometry { vocab, hidden, ple_width, .. } = *geometry;
    let layers = geometry.layers.len();
    let vector = |name: &str, length: usize, class| TensorSpec::new(name, Format::F32, 1, length, class);
    let mut out = vec![
        TensorSpec::new("embed.codes", Format::Rows(geometry.embed_bits), vocab, hidden, Class::Gathered),
        TensorSpec::new("embed.scales", Format::F32, vocab, 1, Class::Gathered),
        TensorSpec::new(
            "ple.codes",
            Format::Rows(geometry.ple_bits),
            vocab,
            layers * ple_width,
            Class::Gathered,
        ),
        TensorSpec::new("ple.scales", Format::F32, vocab, layers, Class::Gathered),
        TensorSpec::new(
            "ple.model_projection",
            Format::Bf16,
            layers * ple_width,
            hidden,
            Class::PleModelProjection,
        ),
        vector("ple.norm", ple_width, Class::Norms),
        vector("rope.sliding", geometry.rope(AttentionKind::Sliding).pairs, Class::Tables),
        vector("rope.full", geometry.rope(AttentionKind::Full).pairs, Class::Tables),
    ];
    for index in 0..layers {
        let layer = &geometry.layers[index];
        let name = |part: &str| format!("layers.{index}.{part}");
        let norm = |part: &str, length| vector(&name(part), length, Class::Norms);
        let linear = |out: &mut Vec<TensorSpec>, kind: LinearKind| {
            let (rows, columns) = geometry.linear_shape(index, kind);
            let part = |suffix: &str| name(&format!("{}.{suffix}", kind.name()));
            let codes = Format::Tiles(layer.bits.get(kind));
            out.push(TensorSpec::new(part("codes"), codes, rows, columns, class_of(kind)));
            out.push(TensorSpec::new(part("multipliers"), Format::F32, rows, 1, Class::Scales));
            out.push(TensorSpec::new(part("activation_scales"), Format::F32, 1, 2, Class::Scales));
            out.push(TensorSpec::new(part("weight_scales"), Format::F32, rows, 1, Class::Unread));
        };
        out.push(norm("input_norm", hidden));
        linear(&mut out, LinearKind::Q);
        out.push(norm("q_norm", layer.head_dim));
        if geometry.owns_kv(index) {
            linear(&mut out, LinearKind::K);
            out.push(norm("k_norm", layer.head_dim));
            linear(&mut out, LinearKind::V);
            out.push(vector(&name("kv_cache_scales"), 2, Class::Unread));
        }
        linear(&mut out, LinearKind::O);
        out.push(norm("post_attention_norm", hidden));
        out.push(norm("pre_ffn_norm", hidden));
        linear(&mut out, LinearKind::Gate);
        linear(&mut out, LinearKind::Up);
        out.push(vector(&name("gelu"), 256, Class::Tables));
        linear(&mut out, LinearKind::Down);
        out.push(norm("post_ffn_norm", hidden));
        linear(&mut out, LinearKind::PleGate);
        out.push(vector(&name("ple_gelu"), 256, Class::Tables));
        linear(&mut out, LinearKind::PleProjection);
        out.push(norm("post_ple_norm", hidden));
        out.push(norm("layer_scalar", 1));
    }
    out.push(vector("final_norm", hidden, Class::Norms));
    out.push(TensorSpec::new("head.codes", Format::Tiles(geometry.head_bits), vocab, hidden, Class::Head));
    out.push(TensorSpec::new("head.scales", Format::F32, vocab, 1, Class::Scales));
    out
}

/// Every tensor of the drafter of a target with `vocab` tokens and `backbone` hidden width.
pub fn drafter(drafter: &DrafterGeometry, vocab: usize, backbone: usize) -> Vec<TensorSpec> {
    let hidden = drafter.hidden;
    let matrix =
        |name: String, rows, columns| TensorSpec::new(name, Format::Bf16, rows, columns, Class::Drafter);
    let vector = |name: String, length| TensorSpec::new(name, Format::F32, 1, length, Class::Drafter);
    let mut out = vec![
        matrix("drafter.pre_projection".into(), hidden, 2 * backbone),
        vector("drafter.rope.sliding".into(), drafter.rope_sliding.pairs),
        vector("drafter.rope.full".into(), drafter.rope_full.pairs),
    ];
    for (index, layer) in drafter.layers.iter().enumerate() {
        let name = |part: &str| format!("drafter.layers.{index}.{part}");
        let queries = drafter.heads * layer.head_dim;
        out.extend([
            vector(name("input_norm"), hidden),
            matrix(name("q"), queries, hidden),
            vector(name("q_norm"), layer.head_dim),
            matrix(name("o"), hidden, queries),
            vector(name("post_attention_norm"), hidden),
            vector(name("pre_ffn_norm"), hidden),
            matrix(name("gate"), drafter.ffn, hidden),
            matrix(name("up"), drafter.ffn, hidden),
            matrix(name("down"), hidden, drafter.ffn),
            vector(name("post_ffn_norm"), hidden),
            vector(name("layer_scalar"), 1),
        ]);
    }
    out.push(vector("drafter.final_norm".into(), hidden));
    out.push(matrix("drafter.post_projection".into(), backbone, hidden));
    out.push(matrix("drafter.embed".into(), vocab, hidden));
    if let Some(head) = drafter.ordered {
        out.push(matrix("drafter.centroids".into(), head.centroids, hidden));
        out.push(TensorSpec::new("drafter.token_ordering", Format::U32, 1, vocab, Class::Drafter));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    fn sum(geometry: &Geometry, classes: &[Class]) -> usize {
        target(geometry).iter().filter(|t| classes.contains(&t.class)).map(TensorSpec::bytes_per_token).sum()
    }

    #[test]
    fn e2b_reads_the_known_bytes_per_token() {
        let geometry = presets::by_name("e2b").unwrap().geometry();
        let codes = sum(&geometry, &[Class::Attention, Class::Ffn, Class::Ple, Class::Head]);
        let projection = sum(&geometry, &[Class::PleModelProjection]);
        // The mobile mix stores the projection in 8 bits, we in bf16.
        let mobile = (codes + projection / 2) as f64 / 1e6;
        assert!((mobile / 776.6 - 1.0).abs() < 1e-3, "{mobile} MB");
        assert_eq!(sum(&geometry, &[Class::Gathered]), 384 + 4 + 4480 + 140);
    }

    #[test]
    fn names_are_unique() {
        for preset in presets::all() {
            let geometry = preset.geometry();
            let mut names: Vec<String> = target(&geometry).into_iter().map(|t| t.name).collect();
            names.extend(
                drafter(&preset.drafter(true), geometry.vocab, geometry.hidden).into_iter().map(|t| t.name),
            );
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
