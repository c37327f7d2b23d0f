//! Greedy generation, one token after the other.

use rawloop_spec::TapSink;
use rawloop_spec::tap::NoTap;

use crate::kv::{KvCache, KvFormat};
use crate::weights::{Model, ModelError};

/// Outcome of a greedy run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greedy {
    /// Generated ids, a stop id included as the last one.
    pub ids: Vec<u32>,
    /// Whether a stop id ended it.
    pub stopped: bool,
}

/// Continues `prompt` by up to `limit` tokens; `emit` sees each and returns false to end the run.
///
/// # Errors
/// A prompt id outside of the vocabulary.
pub fn greedy(
    model: &Model,
    format: KvFormat,
    prompt: &[u32],
    limit: usize,
    stops: &[u32],
    mut emit: impl FnMut(u32) -> bool,
) -> Result<Greedy, ModelError> {
    let mut cache = KvCache::new(&model.geometry, format);
    let mut out = Greedy { ids: Vec::new(), stopped: false };
    let Some((&last, before)) = prompt.split_last() else { return Ok(out) };
    let sink: &mut dyn TapSink = &mut NoTap;
    for &token in before {
        model.prefill(&mut cache, token)?;
    }
    let mut token = last;
    while out.ids.len() < limit {
        token = model.forward(&mut cache, token, sink)?.picked;
        out.ids.push(token);
        out.stopped = stops.contains(&token);
        if !emit(token) || out.stopped {
            break;
        }
    }
    Ok(out)
}
