//! Every tensor of a checkpoint, by what it is to the model.
//!
//! One list serves three readers: the inventory checks a checkpoint against it, the plan finds the sources of each pack
//! tensor in it, and the generator of synthetic weights makes its tensors from it.

use rawloop_spec::config::Module;
use rawloop_spec::{Bits, DrafterGeometry, Geometry, LinearKind};
use safetensors::tensor::Dtype;

use crate::names::Names;
use crate::source::Description;

/// How a tensor's elements are stored in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Packed codes: U8 with 2 or 4 bits, I8 with 8.
    Codes(Bits),
    /// F32.
    Single,
    /// BF16 or F32.
    Float,
    /// BF16.
    Half,
    /// I64 or I32.
    Integer,
}

impl Stored {
    /// Accepted element types, the one that is written first.
    pub const fn dtypes(self) -> &'static [Dtype] {
        match self {
            Stored::Codes(Bits::Eight) => &[Dtype::I8],
            Stored::Codes(_) => &[Dtype::U8],
            Stored::Single => &[Dtype::F32],
            Stored::Float => &[Dtype::BF16, Dtype::F32],
            Stored::Half => &[Dtype::BF16],
            Stored::Integer => &[Dtype::I64, Dtype::I32],
        }
    }

    /// Description of a tensor of `shape` elements.
    pub fn describe(self, shape: &[usize]) -> Description {
        let mut shape = shape.to_vec();
        if let (Stored::Codes(bits), Some(inputs)) = (self, shape.last_mut()) {
            *inputs = bits.bytes(*inputs);
        }
        let dtype = self.dtypes()[0];
        let bytes = shape.iter().product::<usize>() as u64 * dtype.bitsize() as u64 / 8;
        Description { dtype, shape, bytes }
    }
}

/// A norm of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say where they stand
pub enum NormKind {
    Input,
    Query,
    Key,
    PostAttention,
    PreFfn,
    PostFfn,
    PostPle,
}

impl NormKind {
    /// Name in the checkpoint, inside its layer.
    pub const fn source(self) -> &'static str {
        match self {
            NormKind::Input => "input_layernorm.weight",
            NormKind::Query => "self_attn.q_norm.weight",
            NormKind::Key => "self_attn.k_norm.weight",
            NormKind::PostAttention => "post_attention_layernorm.weight",
            NormKind::PreFfn => "pre_feedforward_layernorm.weight",
            NormKind::PostFfn => "post_feedforward_layernorm.weight",
            NormKind::PostPle => "post_per_layer_input_norm.weight",
        }
    }

    /// Name in the pack, inside its layer.
    pub const fn packed(self) -> &'static str {
        match self {
            NormKind::Input => "input_norm",
            NormKind::Query => "q_norm",
            NormKind::Key => "k_norm",
            NormKind::PostAttention => "post_attention_norm",
            NormKind::PreFfn => "pre_ffn_norm",
            NormKind::PostFfn => "post_ffn_norm",
            NormKind::PostPle => "post_ple_norm",
        }
    }
}

/// A matrix of a drafter's layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // as in the target
pub enum DrafterMatrix {
    Q,
    O,
    Gate,
    Up,
    Down,
}

impl DrafterMatrix {
    /// All of them.
    pub const ALL: [DrafterMatrix; 5] =
        [DrafterMatrix::Q, DrafterMatrix::O, DrafterMatrix::Gate, DrafterMatrix::Up, DrafterMatrix::Down];

    /// Name in the pack, inside its layer.
    pub const fn packed(self) -> &'static str {
        match self {
            DrafterMatrix::Q => "q",
            DrafterMatrix::O => "o",
            DrafterMatrix::Gate => "gate",
            DrafterMatrix::Up => "up",
            DrafterMatrix::Down => "down",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            DrafterMatrix::Q => "self_attn.q_proj.weight",
            DrafterMatrix::O => "self_attn.o_proj.weight",
            DrafterMatrix::Gate => "mlp.gate_proj.weight",
            DrafterMatrix::Up => "mlp.up_proj.weight",
            DrafterMatrix::Down => "mlp.down_proj.weight",
        }
    }
}

/// One tensor of a target's or an assistant's checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // variants are named after the tensors
pub enum Part {
    Codes(ModuleKey),
    WeightScale(ModuleKey),
    InputScale(ModuleKey),
    OutputScale(ModuleKey),
    ModelProjection,
    PleNorm,
    Norm(usize, NormKind),
    LayerScalar(usize),
    KeyCacheScale(usize),
    ValueCacheScale(usize),
    FinalNorm,
    DrafterPreProjection,
    DrafterPostProjection,
    DrafterEmbed,
    DrafterNorm(usize, NormKind),
    DrafterMatrix(usize, DrafterMatrix),
    DrafterLayerScalar(usize),
    DrafterFinalNorm,
    DrafterCentroids,
    DrafterTokenOrdering,
}

/// A module with quantised weights, as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // as in `Module`
pub enum ModuleKey {
    Embed,
    Ple,
    Head,
    /// Layer and index in [`LinearKind::ALL`].
    Linear(usize, usize),
}

impl ModuleKey {
    /// Key of a layer's linear.
    pub fn linear(layer: usize, kind: LinearKind) -> ModuleKey {
        ModuleKey::Linear(layer, LinearKind::ALL.iter().position(|&other| other == kind).unwrap_or_default())
    }

    /// The module.
    pub fn module(self) -> Module {
        match self {
            ModuleKey::Embed => Module::Embed,
            ModuleKey::Ple => Module::Ple,
            ModuleKey::Head => Module::Head,
            ModuleKey::Linear(layer, kind) => Module::Linear(layer, LinearKind::ALL[kind]),
        }
    }

    /// Shape `[rows x columns]` and code width.
    pub fn shape(self, geometry: &Geometry) -> (usize, usize, Bits) {
        let Geometry { vocab, hidden, ple_width, .. } = *geometry;
        match self.module() {
            Module::Embed => (vocab, hidden, geometry.embed_bits),
            Module::Ple => (vocab, geometry.layers.len() * ple_width, geometry.ple_bits),
            Module::Head => (vocab, hidden, geometry.head_bits),
            Module::Linear(layer, kind) => {
                let (rows, columns) = geometry.linear_shape(layer, kind);
                (rows, columns, geometry.layers[layer].bits.get(kind))
            }
        }
    }
}

impl Part {
    /// Every tensor that a checkpoint of the target may hold and the converter knows; [`Part::optional`] says which may be
    /// absent.
    pub fn target(geometry: &Geometry) -> Vec<Part> {
        let quantised = |module| [Part::Codes(module), Part::WeightScale(module)];
        let calibrated = |module| [Part::InputScale(module), Part::OutputScale(module)];
        let mut parts = Vec::new();
        parts.extend(quantised(ModuleKey::Embed));
        parts.extend(quantised(ModuleKey::Ple));
        parts.extend([Part::ModelProjection, Part::PleNorm]);
        for layer in 0..geometry.layers.len() {
            for kind in geometry.linears(layer) {
                let module = ModuleKey::linear(layer, kind);
                parts.extend(quantised(module));
                parts.extend(calibrated(module));
            }
            let norms = [NormKind::Input, NormKind::Query, NormKind::PostAttention, NormKind::PreFfn];
            parts.extend(norms.map(|norm| Part::Norm(layer, norm)));
            parts.extend([NormKind::PostFfn, NormKind::PostPle].map(|norm| Part::Norm(layer, norm)));
            if geometry.owns_kv(layer) {
                parts.push(Part::Norm(layer, NormKind::Key));
                parts.extend([Part::KeyCacheScale(layer), Part::ValueCacheScale(layer)]);
            }
            parts.push(Part::LayerScalar(layer));
        }
        parts.push(Part::FinalNorm);
        parts.extend(quantised(ModuleKey::Head));
        parts.extend(calibrated(ModuleKey::Head));
        parts
    }

    /// Every tensor of an assistant's checkpoint.
    pub fn drafter(drafter: &DrafterGeometry) -> Vec<Part> {
        let mut parts = vec![Part::DrafterPreProjection];
        for layer in 0..drafter.layers.len() {
            let norms = [NormKind::Input, NormKind::Query, NormKind::PostAttention, NormKind::PreFfn];
            parts.extend(norms.map(|norm| Part::DrafterNorm(layer, norm)));
            parts.push(Part::DrafterNorm(layer, NormKind::PostFfn));
            parts.extend(DrafterMatrix::ALL.map(|matrix| Part::DrafterMatrix(layer, matrix)));
            parts.push(Part::DrafterLayerScalar(layer));
        }
        parts.extend([Part::DrafterFinalNorm, Part::DrafterPostProjection, Part::DrafterEmbed]);
        if drafter.ordered.is_some() {
            parts.extend([Part::DrafterCentroids, Part::DrafterTokenOrdering]);
        }
        parts
    }

    /// Whether a checkpoint may lack it: nothing on the exact path reads these.
    pub fn optional(self) -> bool {
        matches!(
            self,
            Part::KeyCacheScale(_)
                | Part::ValueCacheScale(_)
                | Part::InputScale(ModuleKey::Head)
                | Part::OutputScale(ModuleKey::Head)
        )
    }

    /// Name in the checkpoint.
    pub fn name(self, names: &Names) -> String {
        let table = |module| matches!(module, ModuleKey::Embed | ModuleKey::Ple);
        let of = |module: ModuleKey, rest: &str| format!("{}.{rest}", names.module(module.module()));
        let drafter_layer = |layer: usize, rest: &str| format!("model.layers.{layer}.{rest}");
        match self {
            Part::Codes(module) if table(module) => of(module, "embedding_quantized"),
            Part::Codes(module) => of(module, "weight"),
            Part::WeightScale(module) if table(module) => of(module, "embedding_scale"),
            Part::WeightScale(module) => of(module, "weight_scale"),
            Part::InputScale(module) => of(module, "input_activation_scale"),
            Part::OutputScale(module) => of(module, "output_activation_scale"),
            Part::ModelProjection => names.text("per_layer_model_projection.weight"),
            Part::PleNorm => names.text("per_layer_projection_norm.weight"),
            Part::Norm(layer, norm) => names.layer(layer, norm.source()),
            Part::LayerScalar(layer) => names.layer(layer, "layer_scalar"),
            Part::KeyCacheScale(layer) => names.layer(layer, "self_attn.k_cache_scale"),
            Part::ValueCacheScale(layer) => names.layer(layer, "self_attn.v_cache_scale"),
            Part::FinalNorm => names.text("norm.weight"),
            Part::DrafterPreProjection => "pre_projection.weight".into(),
            Part::DrafterPostProjection => "post_projection.weight".into(),
            Part::DrafterEmbed => "model.embed_tokens.weight".into(),
            Part::DrafterNorm(layer, norm) => drafter_layer(layer, norm.source()),
            Part::DrafterMatrix(layer, matrix) => drafter_layer(layer, matrix.source()),
            Part::DrafterLayerScalar(layer) => drafter_layer(layer, "layer_scalar"),
            Part::DrafterFinalNorm => "model.norm.weight".into(),
            Part::DrafterCentroids => "masked_embedding.centroids.weight".into(),
            Part::DrafterTokenOrdering => "masked_embedding.token_ordering".into(),
        }
    }

    /// Storage and shape in elements of one of the target's tensors; `None` for a drafter's.
    pub fn target_layout(self, geometry: &Geometry) -> Option<(Stored, Vec<usize>)> {
        let Geometry { vocab, hidden, ple_width, .. } = *geometry;
        let layers = geometry.layers.len();
        Some(match self {
            Part::Codes(module) => {
                let (rows, columns, bits) = module.shape(geometry);
                (Stored::Codes(bits), vec![rows, columns])
            }
            // One scale a row; the per-layer table has one for each layer's part of a row.
            Part::WeightScale(ModuleKey::Ple) => (Stored::Single, vec![vocab, layers]),
            Part::WeightScale(module) => (Stored::Single, vec![module.shape(geometry).0, 1]),
            Part::InputScale(_) | Part::OutputScale(_) => (Stored::Single, vec![]),
            Part::KeyCacheScale(_) | Part::ValueCacheScale(_) => (Stored::Single, vec![]),
            Part::ModelProjection => (Stored::Half, vec![layers * ple_width, hidden]),
            Part::PleNorm => (Stored::Float, vec![ple_width]),
            Part::Norm(layer, NormKind::Query | NormKind::Key) => {
                (Stored::Float, vec![geometry.layers[layer].head_dim])
            }
            Part::Norm(..) | Part::FinalNorm => (Stored::Float, vec![hidden]),
            Part::LayerScalar(_) => (Stored::Float, vec![1]),
            _ => return None,
        })
    }

    /// Storage and shape in elements of one of a drafter's tensors; `None` for the target's.
    pub fn drafter_layout(
        self,
        drafter: &DrafterGeometry,
        target: &Geometry,
    ) -> Option<(Stored, Vec<usize>)> {
        let DrafterGeometry { hidden, heads, ffn, .. } = *drafter;
        let queries = |layer: usize| heads * drafter.layers[layer].head_dim;
        Some(match self {
            Part::DrafterPreProjection => (Stored::Half, vec![hidden, 2 * target.hidden]),
            Part::DrafterPostProjection => (Stored::Half, vec![target.hidden, hidden]),
            Part::DrafterEmbed => (Stored::Half, vec![target.vocab, hidden]),
            Part::DrafterNorm(layer, NormKind::Query) => {
                (Stored::Float, vec![drafter.layers[layer].head_dim])
            }
            Part::DrafterNorm(..) | Part::DrafterFinalNorm => (Stored::Float, vec![hidden]),
            Part::DrafterLayerScalar(_) => (Stored::Float, vec![1]),
            Part::DrafterMatrix(layer, matrix) => {
                let shape = match matrix {
                    DrafterMatrix::Q => vec![queries(layer), hidden],
                    DrafterMatrix::O => vec![hidden, queries(layer)],
                    DrafterMatrix::Gate | DrafterMatrix::Up => vec![ffn, hidden],
                    DrafterMatrix::Down => vec![hidden, ffn],
                };
                (Stored::Half, shape)
            }
            Part::DrafterCentroids => (Stored::Half, vec![drafter.ordered?.centroids, hidden]),
            Part::DrafterTokenOrdering => (Stored::Integer, vec![target.vocab]),
            _ => return None,
        })
    }
}
