//! From the tensors of a checkpoint to those of a pack: what each pack tensor is made from.
//!
//! The plan follows the registry, which says what a pack of a geometry holds and in which order; the few numbers that are
//! needed early (activation scales, for tables and the checks of contract rule 4) are read here, everything else when its
//! turn comes.

use std::collections::HashMap;

use rawloop_spec::{AttentionKind, DrafterGeometry, Geometry, LinearKind, TensorSpec, contract, tensor};

use crate::error::ConvertError;
use crate::names::Names;
use crate::part::{DrafterMatrix, ModuleKey, NormKind, Part};
use crate::source::TensorSource;
use crate::values::{calibrated, scalar};

/// What a pack tensor is made from. Names are the checkpoint's.
#[derive(Clone, Debug, PartialEq)]
pub enum Recipe {
    /// Packed codes, laid out as the registry's format says.
    Codes(String),
    /// Weight scales as they are.
    WeightScales(String),
    /// `f32(input_scale * weight scale)`, one rounding.
    Multipliers(String, f32),
    /// BF16 or F32 values as f32.
    Floats(String),
    /// BF16 as it is.
    Half(String),
    /// Token ids as u32.
    Ids(String),
    /// Numbers derived from the configuration and activation scales.
    Made(Vec<f32>),
}

/// A pack tensor with its recipe and the source to read it from.
pub struct Planned<'a> {
    /// The registry's entry.
    pub spec: TensorSpec,
    /// How it is made.
    pub recipe: Recipe,
    /// Where its parts are.
    pub source: &'a dyn TensorSource,
}

/// Plans the target's tensors.
///
/// # Errors
/// An activation scale is missing, not usable, or unequal where contract rule 4 wants one.
pub fn plan_target<'a>(
    source: &'a dyn TensorSource,
    geometry: &Geometry,
    names: &Names,
) -> Result<Vec<Planned<'a>>, ConvertError> {
    let name = |part: Part| part.name(names);
    let mut recipes = HashMap::new();
    for (packed, module) in [("embed", ModuleKey::Embed), ("ple", ModuleKey::Ple), ("head", ModuleKey::Head)]
    {
        recipes.insert(format!("{packed}.codes"), Recipe::Codes(name(Part::Codes(module))));
        recipes.insert(format!("{packed}.scales"), Recipe::WeightScales(name(Part::WeightScale(module))));
    }
    for part in [Part::InputScale(ModuleKey::Head), Part::OutputScale(ModuleKey::Head)] {
        // The head takes float activations; its scales are 0 in released checkpoints and nothing uses them.
        if source.describe(&name(part)).is_some() {
            scalar(source, &name(part))?;
        }
    }
    recipes.insert("ple.model_projection".into(), Recipe::Half(name(Part::ModelProjection)));
    recipes.insert("ple.norm".into(), Recipe::Floats(name(Part::PleNorm)));
    recipes.insert("final_norm".into(), Recipe::Floats(name(Part::FinalNorm)));
    for kind in [AttentionKind::Sliding, AttentionKind::Full] {
        let head_dim =
            geometry.layers.iter().find(|layer| layer.attention == kind).map_or(0, |layer| layer.head_dim);
        let rope = geometry.rope(kind);
        let frequencies = contract::inverse_frequencies(rope.theta, head_dim, rope.pairs);
        recipes.insert(format!("rope.{}", kind.name()), Recipe::Made(frequencies));
    }
    for layer in 0..geometry.layers.len() {
        plan_layer(source, geometry, names, layer, &mut recipes)?;
    }
    follow(source, tensor::target(geometry), recipes)
}

fn plan_layer(
    source: &dyn TensorSource,
    geometry: &Geometry,
    names: &Names,
    layer: usize,
    recipes: &mut HashMap<String, Recipe>,
) -> Result<(), ConvertError> {
    let name = |part: Part| part.name(names);
    let packed = |rest: &str| format!("layers.{layer}.{rest}");
    shared_input_scales(source, geometry, names, layer)?;
    for kind in geometry.linears(layer) {
        let module = ModuleKey::linear(layer, kind);
        let input = calibrated(source, &name(Part::InputScale(module)))?;
        let output = calibrated(source, &name(Part::OutputScale(module)))?;
        let part = |rest: &str| packed(&format!("{}.{rest}", kind.name()));
        let scales = name(Part::WeightScale(module));
        recipes.insert(part("codes"), Recipe::Codes(name(Part::Codes(module))));
        recipes.insert(part("multipliers"), Recipe::Multipliers(scales.clone(), input));
        recipes.insert(part("activation_scales"), Recipe::Made(vec![input, output]));
        recipes.insert(part("weight_scales"), Recipe::WeightScales(scales));
        // Rule 5: the tables stand on the codes that these two linears put out.
        match kind {
            LinearKind::Gate => {
                recipes.insert(packed("gelu"), Recipe::Made(contract::gelu_table(output).to_vec()));
            }
            LinearKind::PleGate => {
                recipes.insert(packed("ple_gelu"), Recipe::Made(contract::gelu_table(output).to_vec()));
            }
            _ => {}
        }
    }
    let mut norms = vec![
        NormKind::Input,
        NormKind::Query,
        NormKind::PostAttention,
        NormKind::PreFfn,
        NormKind::PostFfn,
        NormKind::PostPle,
    ];
    if geometry.owns_kv(layer) {
        norms.push(NormKind::Key);
        let cache_scale = |part: Part| match source.describe(&name(part)) {
            Some(_) => scalar(source, &name(part)),
            None => Ok(0.0),
        };
        let scales =
            vec![cache_scale(Part::KeyCacheScale(layer))?, cache_scale(Part::ValueCacheScale(layer))?];
        recipes.insert(packed("kv_cache_scales"), Recipe::Made(scales));
    }
    for norm in norms {
        recipes.insert(packed(norm.packed()), Recipe::Floats(name(Part::Norm(layer, norm))));
    }
    recipes.insert(packed("layer_scalar"), Recipe::Floats(name(Part::LayerScalar(layer))));
    Ok(())
}

/// Contract rule 4: q, k and v read one quantised input, gate and up another. The only place that asks for it; a checkpoint
/// with unequal scales needs a second quantisation in the stage program and a second recipe here.
fn shared_input_scales(
    source: &dyn TensorSource,
    geometry: &Geometry,
    names: &Names,
    layer: usize,
) -> Result<(), ConvertError> {
    let groups: [(&'static str, &[LinearKind]); 2] = [
        ("q, k and v", &[LinearKind::Q, LinearKind::K, LinearKind::V]),
        ("gate and up", &[LinearKind::Gate, LinearKind::Up]),
    ];
    for (who, kinds) in groups {
        let mut scales = Vec::new();
        for kind in geometry.linears(layer).filter(|kind| kinds.contains(kind)) {
            let name = Part::InputScale(ModuleKey::linear(layer, kind)).name(names);
            scales.push((calibrated(source, &name)?, name));
        }
        if scales.iter().any(|(scale, _)| *scale != scales[0].0) {
            let values: Vec<String> =
                scales.iter().map(|(scale, name)| format!("{name} = {scale:?}")).collect();
            let (folder, values) = (source.label().to_path_buf(), values.join(", "));
            return Err(ConvertError::UnequalScales { folder, who, values });
        }
    }
    Ok(())
}

/// Plans the drafter's tensors.
///
/// # Errors
/// None at present: everything is read when its turn comes.
pub fn plan_drafter<'a>(
    source: &'a dyn TensorSource,
    drafter: &DrafterGeometry,
    target: &Geometry,
) -> Result<Vec<Planned<'a>>, ConvertError> {
    // The assistant has one naming, whatever the target's is.
    let names = Names::text_only();
    let mut recipes = HashMap::new();
    for part in Part::drafter(drafter) {
        let name = part.name(&names);
        let (packed, recipe) = match part {
            Part::DrafterPreProjection => ("pre_projection".to_string(), Recipe::Half(name)),
            Part::DrafterPostProjection => ("post_projection".into(), Recipe::Half(name)),
            Part::DrafterEmbed => ("embed".into(), Recipe::Half(name)),
            Part::DrafterNorm(layer, norm) => {
                (format!("layers.{layer}.{}", norm.packed()), Recipe::Floats(name))
            }
            Part::DrafterMatrix(layer, matrix) => {
                (format!("layers.{layer}.{}", DrafterMatrix::packed(matrix)), Recipe::Half(name))
            }
            Part::DrafterLayerScalar(layer) => (format!("layers.{layer}.layer_scalar"), Recipe::Floats(name)),
            Part::DrafterFinalNorm => ("final_norm".into(), Recipe::Floats(name)),
            Part::DrafterCentroids => ("centroids".into(), Recipe::Half(name)),
            Part::DrafterTokenOrdering => ("token_ordering".into(), Recipe::Ids(name)),
            _ => continue,
        };
        recipes.insert(format!("drafter.{packed}"), recipe);
    }
    for kind in [AttentionKind::Sliding, AttentionKind::Full] {
        let head_dim =
            drafter.layers.iter().find(|layer| layer.attention == kind).map_or(0, |layer| layer.head_dim);
        let rope = drafter.rope(kind);
        let frequencies = contract::inverse_frequencies(rope.theta, head_dim, rope.pairs);
        recipes.insert(format!("drafter.rope.{}", kind.name()), Recipe::Made(frequencies));
    }
    follow(source, tensor::drafter(drafter, target.vocab, target.hidden), recipes)
}

/// Puts recipes in the order of the registry.
fn follow<'a>(
    source: &'a dyn TensorSource,
    registry: Vec<TensorSpec>,
    mut recipes: HashMap<String, Recipe>,
) -> Result<Vec<Planned<'a>>, ConvertError> {
    let mut planned = Vec::with_capacity(registry.len());
    let mut without = Vec::new();
    for spec in registry {
        match recipes.remove(&spec.name) {
            Some(recipe) => planned.push(Planned { spec, recipe, source }),
            None => without.push(spec.name),
        }
    }
    if without.is_empty() {
        return Ok(planned);
    }
    let (count, names) = (without.len(), crate::error::listed(&without));
    Err(ConvertError::Missing { folder: source.label().to_path_buf(), count, names })
}
