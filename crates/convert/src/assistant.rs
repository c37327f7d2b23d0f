//! config.json of an assistant (the MTP drafter).

use rawloop_spec::{AttentionKind, DrafterGeometry, DrafterLayer, Geometry, OrderedHead};

use crate::config::text_config;
use crate::error::ConvertError;
use crate::fields::{Document, Fields};

/// Reads an assistant's configuration for a target. Each of its layers reads the K/V of the target's last own layer of its
/// kind.
///
/// # Errors
/// Names the field that is missing, not supported, or does not fit the target.
pub fn read(document: &Document, target: &Geometry) -> Result<DrafterGeometry, ConvertError> {
    let root = document.root()?;
    if root.text("model_type")? != Some("gemma4_assistant") {
        return Err(root.wrong("model_type", "\"gemma4_assistant\""));
    }
    let fits = |fields: &Fields, name: &str, expected: usize, what: &str| match fields.count(name)? {
        Some(found) if found == expected => Ok(()),
        _ => Err(fields.wrong(name, &format!("{expected}, {what}"))),
    };
    fits(&root, "backbone_hidden_size", target.hidden, "the target's hidden_size")?;
    let fields = root.required("text_config", "an object", root.object("text_config"))?;
    fits(&fields, "vocab_size", target.vocab, "the target's vocab_size")?;
    fits(&fields, "hidden_size_per_layer_input", 0, "as a drafter has no per-layer embeddings")?;
    // What is absent is as in a target; the notes of the pack are about the target.
    let text = text_config(&fields, &mut Vec::new())?;
    let unsupported = |source| ConvertError::Unsupported { file: document.file.clone(), source };
    text.refuse_unsupported().map_err(unsupported)?;
    if text.use_double_wide_mlp {
        return Err(fields.wrong("use_double_wide_mlp", "false"));
    }
    if ![0, text.num_hidden_layers].contains(&text.num_kv_shared_layers) {
        return Err(fields.wrong("num_kv_shared_layers", "all layers: a drafter has no K/V of its own"));
    }
    let kinds = text.attention_kinds().map_err(unsupported)?;
    let mut layers = Vec::with_capacity(kinds.len());
    for (index, &attention) in kinds.iter().enumerate() {
        let producer = (0..target.own_layers()).rfind(|&layer| target.layers[layer].attention == attention);
        let Some(producer) = producer else {
            return Err(fields.wrong("layer_types", "kinds of layers that the target has"));
        };
        layers.push(DrafterLayer { attention, head_dim: text.head_dim_of(index, attention), producer });
    }
    let rope = |kind| {
        let head_dim = layers.iter().find(|layer| layer.attention == kind).map_or(0, |layer| layer.head_dim);
        text.rope_of(kind, head_dim)
    };
    let ordered = match root.flag("use_ordered_embeddings")? {
        Some(true) => Some(OrderedHead {
            centroids: root.count("num_centroids")?.unwrap_or(2048),
            top_k: root.count("centroid_intermediate_top_k")?.unwrap_or(32),
        }),
        _ => None,
    };
    let drafter = DrafterGeometry {
        hidden: text.hidden_size,
        heads: text.num_attention_heads,
        kv_heads: text.num_key_value_heads,
        ffn: text.intermediate_size,
        window: text.sliding_window,
        rope_sliding: rope(AttentionKind::Sliding),
        rope_full: rope(AttentionKind::Full),
        ordered,
        layers,
    };
    drafter.validate(target).map_err(unsupported)?;
    Ok(drafter)
}
