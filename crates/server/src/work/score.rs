//! How likely a prompt is: what `echo` with log-probabilities asks for.
//!
//! A sequence of its own runs through all layers with every logit wanted, which no answer needs; it is freed however the
//! scoring ends.

use rawloop_engine::backend::{Backend, BackendError, SequenceId, StepOutput, Wanted, Work};
use rawloop_engine::sample::{LogProbabilities, Sampler, SamplingOptions};
use rawloop_engine::{EngineError, Model};

use super::Task;

/// Ids of a prompt whose logits are looked at in one step.
const SCORED: usize = 16;

/// A sequence that is freed with it.
struct Scratch<'a> {
    backend: &'a mut dyn Backend,
    sequence: SequenceId,
}

impl<'a> Scratch<'a> {
    fn create(backend: &'a mut dyn Backend) -> Result<Scratch<'a>, BackendError> {
        let sequence = backend.create()?;
        Ok(Scratch { backend, sequence })
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        self.backend.free(self.sequence);
    }
}

/// How likely each id of a prompt is behind those before it, with so many alternatives.
///
/// # Errors
/// A prompt that does not fit, or whatever the backend reports.
pub(super) fn scores(
    backend: &mut dyn Backend,
    model: &Model,
    prompt: &[u32],
    top: u32,
    task: &Task,
) -> Result<Vec<LogProbabilities>, EngineError> {
    let vocab = backend.vocab();
    if let Some(&token) = prompt.iter().find(|&&token| token as usize >= vocab) {
        return Err(EngineError::Token { token, vocab });
    }
    let limit = backend.info().context;
    if prompt.len() > limit {
        return Err(EngineError::Context { prompt: prompt.len(), limit });
    }
    let options = SamplingOptions { log_probabilities: Some(top), ..SamplingOptions::greedy() };
    let mut sampler = Sampler::new(options, vocab, model.soft_cap())?;
    let mut scored = Vec::with_capacity(prompt.len());
    let (mut output, mut report) = (StepOutput::default(), LogProbabilities::default());
    let scratch = Scratch::create(backend)?;
    let sequence = scratch.sequence;
    // The last id has nobody behind it.
    for (number, tokens) in prompt[..prompt.len().saturating_sub(1)].chunks(SCORED).enumerate() {
        if task.is_gone() {
            break;
        }
        scratch.backend.step(&[Work { sequence, tokens, wanted: Wanted::Logits }], &mut output)?;
        for (row, logits) in output.logits.chunks(vocab).enumerate() {
            sampler.report(logits, prompt[number * SCORED + row + 1], &mut report);
            scored.push(report.clone());
        }
    }
    Ok(scored)
}
