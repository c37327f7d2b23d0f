//! The drafter of a pack, resolved the same way as the target (`weights.rs`).

use rawloop_pack::PackError;
use rawloop_spec::DrafterGeometry;

use crate::weights::{Floats, Halves, Resolver, Words};

/// One layer of the drafter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrafterLayerWeights {
    pub input_norm: Floats,
    pub q: Halves,
    pub q_norm: Floats,
    pub o: Halves,
    pub post_attention_norm: Floats,
    pub pre_ffn_norm: Floats,
    pub gate: Halves,
    pub up: Halves,
    pub down: Halves,
    pub post_ffn_norm: Floats,
    pub layer_scalar: f32,
}

/// The drafter.
#[derive(Clone, Debug)]
pub(crate) struct DrafterWeights {
    pub geometry: DrafterGeometry,
    pub pre_projection: Halves,
    pub post_projection: Halves,
    pub rope_sliding: Floats,
    pub rope_full: Floats,
    pub layers: Vec<DrafterLayerWeights>,
    pub final_norm: Floats,
    pub embed: Halves,
    /// Rows of the clusters and the tokens of each, where the head is clustered.
    pub clusters: Option<(Halves, Words)>,
}

impl DrafterWeights {
    /// Looks the drafter's tensors up.
    ///
    /// # Errors
    /// A tensor that the registry promises cannot be read.
    pub fn load(resolver: Resolver<'_>, geometry: DrafterGeometry) -> Result<DrafterWeights, PackError> {
        let layers =
            (0..geometry.layers.len()).map(|index| load_layer(resolver, index)).collect::<Result<_, _>>()?;
        let clusters = match geometry.ordered {
            Some(_) => {
                Some((resolver.halves("drafter.centroids")?, resolver.words("drafter.token_ordering")?))
            }
            None => None,
        };
        Ok(DrafterWeights {
            pre_projection: resolver.halves("drafter.pre_projection")?,
            post_projection: resolver.halves("drafter.post_projection")?,
            rope_sliding: resolver.floats("drafter.rope.sliding")?,
            rope_full: resolver.floats("drafter.rope.full")?,
            layers,
            final_norm: resolver.floats("drafter.final_norm")?,
            embed: resolver.halves("drafter.embed")?,
            clusters,
            geometry,
        })
    }
}

fn load_layer(resolver: Resolver<'_>, index: usize) -> Result<DrafterLayerWeights, PackError> {
    let name = |part: &str| format!("drafter.layers.{index}.{part}");
    let floats = |part: &str| resolver.floats(&name(part));
    let halves = |part: &str| resolver.halves(&name(part));
    Ok(DrafterLayerWeights {
        input_norm: floats("input_norm")?,
        q: halves("q")?,
        q_norm: floats("q_norm")?,
        o: halves("o")?,
        post_attention_norm: floats("post_attention_norm")?,
        pre_ffn_norm: floats("pre_ffn_norm")?,
        gate: halves("gate")?,
        up: halves("up")?,
        down: halves("down")?,
        post_ffn_norm: floats("post_ffn_norm")?,
        layer_scalar: resolver.scalar(&name("layer_scalar"))?,
    })
}
