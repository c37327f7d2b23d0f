//! The drafter of a pack on the card: bf16 matrices in chunks of 256 inputs, as the projection to the per-layer inputs has them.

use rawloop_pack::Pack;
use rawloop_spec::DrafterGeometry;

use crate::options::CudaError;
use crate::weights::Arena;

/// A bf16 matrix `[rows x width]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves {
    pub address: u64,
    pub rows: usize,
    pub width: usize,
    /// Chunks of a row.
    pub chunks: usize,
}

/// One layer.
#[derive(Clone, Debug)]
pub(crate) struct DrafterLayerWeights {
    pub input_norm: u64,
    pub q: Halves,
    pub q_norm: u64,
    pub o: Halves,
    pub post_attention_norm: u64,
    pub pre_ffn_norm: u64,
    pub gate: Halves,
    pub up: Halves,
    pub down: Halves,
    pub post_ffn_norm: u64,
    pub layer_scalar: f32,
}

/// The drafter.
#[derive(Clone, Debug)]
pub(crate) struct DrafterWeights {
    pub geometry: DrafterGeometry,
    pub pre_projection: Halves,
    pub post_projection: Halves,
    pub layers: Vec<DrafterLayerWeights>,
    pub final_norm: u64,
    pub embed: Halves,
    /// Rows of the clusters and the tokens of each, where the head is clustered.
    pub clusters: Option<(Halves, u64)>,
    /// Inverse frequencies, sliding and full.
    pub frequencies: [Vec<f32>; 2],
}

impl DrafterWeights {
    /// Copies the drafter of a pack to the card; none where it has none.
    ///
    /// # Errors
    /// A tensor that the registry promises cannot be read, or there is not enough memory.
    pub fn load(pack: &Pack, arena: &mut Arena) -> Result<Option<DrafterWeights>, CudaError> {
        let Some(geometry) = pack.manifest().drafter.clone() else { return Ok(None) };
        let (hidden, ffn) = (geometry.hidden, geometry.ffn);
        let (backbone, vocab) = (pack.geometry().hidden, pack.geometry().vocab);
        let mut halves = |name: &str, rows: usize, width: usize| -> Result<Halves, CudaError> {
            let (address, chunks) = arena.halves(pack.bf16(&format!("drafter.{name}"))?, rows, width)?;
            Ok(Halves { address, rows, width, chunks })
        };
        let mut matrices = Vec::new();
        for (index, layer) in geometry.layers.iter().enumerate() {
            let queries = geometry.heads * layer.head_dim;
            let mut of = |part: &str, rows, width| halves(&format!("layers.{index}.{part}"), rows, width);
            matrices.push((
                of("q", queries, hidden)?,
                of("o", hidden, queries)?,
                of("gate", ffn, hidden)?,
                of("up", ffn, hidden)?,
                of("down", hidden, ffn)?,
            ));
        }
        let pre_projection = halves("pre_projection", hidden, 2 * backbone)?;
        let post_projection = halves("post_projection", backbone, hidden)?;
        let embed = halves("embed", vocab, hidden)?;
        let centroids =
            geometry.ordered.map(|head| halves("centroids", head.centroids, hidden)).transpose()?;
        let mut floats =
            |name: &str| -> Result<u64, CudaError> { Ok(arena.copy(pack.f32(&format!("drafter.{name}"))?)?) };
        let mut layers = Vec::new();
        for (index, (q, o, gate, up, down)) in matrices.into_iter().enumerate() {
            let name = |part: &str| format!("layers.{index}.{part}");
            let scalar = pack.f32(&format!("drafter.{}", name("layer_scalar")))?;
            layers.push(DrafterLayerWeights {
                input_norm: floats(&name("input_norm"))?,
                q,
                q_norm: floats(&name("q_norm"))?,
                o,
                post_attention_norm: floats(&name("post_attention_norm"))?,
                pre_ffn_norm: floats(&name("pre_ffn_norm"))?,
                gate,
                up,
                down,
                post_ffn_norm: floats(&name("post_ffn_norm"))?,
                layer_scalar: scalar.first().copied().unwrap_or_default(),
            });
        }
        let final_norm = floats("final_norm")?;
        let clusters = match centroids {
            Some(centroids) => Some((centroids, arena.copy(pack.u32("drafter.token_ordering")?)?)),
            None => None,
        };
        let frequencies =
            [pack.f32("drafter.rope.sliding")?.to_vec(), pack.f32("drafter.rope.full")?.to_vec()];
        arena.settle();
        Ok(Some(DrafterWeights {
            pre_projection,
            post_projection,
            layers,
            final_norm,
            embed,
            clusters,
            frequencies,
            geometry,
        }))
    }
}
