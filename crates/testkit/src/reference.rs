//! The reference behind the engine's backend trait.
//!
//! It keeps every position, so any rewind works and a snapshot is only its position.

use std::collections::BTreeMap;
use std::sync::Arc;

use rawloop_backend::{
    Backend, BackendError, BackendInfo, CacheCost, DRAFT_REWIND, PROMPT_STEP, SequenceId, Snapshot,
    StepOutput, Wanted, Work,
};
use rawloop_pack::Pack;
use rawloop_ref::{Drafter, KvCache, KvFormat, Model, ModelError};
use rawloop_spec::TapSink;
use rawloop_spec::tap::NoTap;

struct Sequence {
    cache: KvCache,
    /// Final norms of the last tokens whose output was wanted, one after the other without a gap.
    hidden: Vec<Vec<f32>>,
}

impl Sequence {
    fn keep_hidden(&mut self, row: Vec<f32>) {
        if self.hidden.len() > DRAFT_REWIND {
            self.hidden.remove(0);
        }
        self.hidden.push(row);
    }
}

/// The reference as a backend.
pub struct RefBackend {
    model: Arc<Model>,
    drafter: Option<Arc<Drafter>>,
    format: KvFormat,
    context: usize,
    next: u32,
    sequences: BTreeMap<SequenceId, Sequence>,
}

impl RefBackend {
    /// The reference over a pack.
    ///
    /// # Errors
    /// A tensor cannot be read.
    pub fn open(pack: &Pack, format: KvFormat, context: usize) -> Result<RefBackend, ModelError> {
        let drafter = match pack.manifest().drafter {
            Some(_) => Some(Arc::new(Drafter::load(pack)?)),
            None => None,
        };
        Ok(RefBackend::from_model(Arc::new(Model::load(pack)?), drafter, format, context))
    }

    /// The reference over an unpacked model, which several backends may share.
    pub fn from_model(
        model: Arc<Model>,
        drafter: Option<Arc<Drafter>>,
        format: KvFormat,
        context: usize,
    ) -> RefBackend {
        RefBackend { model, drafter, format, context, next: 0, sequences: BTreeMap::new() }
    }

    fn sequence(&self, id: SequenceId) -> Result<&Sequence, BackendError> {
        self.sequences.get(&id).ok_or(BackendError::UnknownSequence(id))
    }

    fn sequence_mut(&mut self, id: SequenceId) -> Result<&mut Sequence, BackendError> {
        self.sequences.get_mut(&id).ok_or(BackendError::UnknownSequence(id))
    }

    fn check(&self, work: &[Work<'_>]) -> Result<(), BackendError> {
        for piece in work {
            let needed = self.sequence(piece.sequence)?.cache.len() + piece.tokens.len();
            if needed > self.context {
                return Err(BackendError::ContextFull { needed, limit: self.context });
            }
            let vocab = self.model.geometry.vocab;
            if let Some(&token) = piece.tokens.iter().find(|&&token| token as usize >= vocab) {
                return Err(BackendError::Token { token, vocab });
            }
        }
        Ok(())
    }

    fn insert(&mut self, sequence: Sequence) -> SequenceId {
        let id = SequenceId(self.next);
        self.next += 1;
        self.sequences.insert(id, sequence);
        id
    }
}

fn failed(error: ModelError) -> BackendError {
    BackendError::Failed(error.to_string())
}

impl Backend for RefBackend {
    fn info(&self) -> BackendInfo {
        let geometry = &self.model.geometry;
        let heads = |dim| geometry.kv_heads * self.format.head_bytes(dim);
        let rows: usize =
            geometry.layers[..geometry.own_layers()].iter().map(|layer| heads(layer.head_dim)).sum();
        BackendInfo {
            name: "ref",
            kernels: "plain loops".into(),
            threads: 1,
            kv: match self.format {
                KvFormat::F32 => "f32",
                KvFormat::F16 => "f16",
                KvFormat::I8 => "i8",
            },
            context: self.context,
            has_drafter: self.drafter.is_some(),
            // Nothing is a ring here, and every hidden state is kept.
            cost: CacheCost { fixed: 0, position: 2 * rows + size_of::<f32>() * geometry.hidden },
            prompt_step: PROMPT_STEP,
            takes_last_along: false,
        }
    }

    fn vocab(&self) -> usize {
        self.model.geometry.vocab
    }

    fn create(&mut self) -> Result<SequenceId, BackendError> {
        let cache = KvCache::new(&self.model.geometry, self.format);
        Ok(self.insert(Sequence { cache, hidden: Vec::new() }))
    }

    fn free(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, BackendError> {
        let Sequence { cache, hidden } = self.sequence(sequence)?;
        let copy = Sequence { cache: cache.clone(), hidden: hidden.clone() };
        Ok(self.insert(copy))
    }

    fn position(&self, sequence: SequenceId) -> Result<usize, BackendError> {
        Ok(self.sequence(sequence)?.cache.len())
    }

    fn truncate(&mut self, sequence: SequenceId, position: usize) -> Result<(), BackendError> {
        let sequence = self.sequence_mut(sequence)?;
        let held = sequence.cache.len();
        if position < held {
            sequence.cache.truncate(position);
            sequence.hidden.truncate(sequence.hidden.len().saturating_sub(held - position));
        }
        Ok(())
    }

    fn snapshot(&self, sequence: SequenceId) -> Result<Snapshot, BackendError> {
        Ok(Snapshot { position: self.sequence(sequence)?.cache.len(), bytes: Vec::new() })
    }

    fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<(), BackendError> {
        let held = self.position(sequence)?;
        if snapshot.position > held {
            let message =
                format!("it was taken at position {}, the sequence holds {held}", snapshot.position);
            return Err(BackendError::Snapshot(message));
        }
        self.truncate(sequence, snapshot.position)
    }

    fn step(&mut self, work: &[Work<'_>], output: &mut StepOutput) -> Result<(), BackendError> {
        self.check(work)?;
        output.picks.clear();
        output.logits.clear();
        let model = self.model.clone();
        for piece in work {
            let sequence = self.sequence_mut(piece.sequence)?;
            for (index, &token) in piece.tokens.iter().enumerate() {
                let last = index + 1 == piece.tokens.len();
                let wanted = match piece.wanted {
                    Wanted::Nothing => false,
                    Wanted::LastPick | Wanted::LastLogits => last,
                    Wanted::Picks | Wanted::Logits => true,
                };
                if !wanted {
                    model.prefill(&mut sequence.cache, token).map_err(failed)?;
                    sequence.hidden.clear();
                    continue;
                }
                let state = model.forward(&mut sequence.cache, token, &mut NoTap).map_err(failed)?;
                if piece.wanted.is_logits() {
                    output.logits.extend_from_slice(&state.logits);
                } else {
                    output.picks.push(state.picked);
                }
                sequence.keep_hidden(state.final_norm);
            }
        }
        Ok(())
    }

    fn draft(
        &mut self,
        sequence: SequenceId,
        token: u32,
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), BackendError> {
        drafts.clear();
        let drafter = self.drafter.clone().ok_or(BackendError::NoDrafter)?;
        let vocab = self.model.geometry.vocab;
        if token as usize >= vocab {
            return Err(BackendError::Token { token, vocab });
        }
        let sequence = self.sequence(sequence)?;
        let Some(hidden) = sequence.hidden.last() else {
            return Err(BackendError::Failed(
                "no output was wanted of the last token, so there is nothing to draft from".into(),
            ));
        };
        let drafted = drafter.draft(&self.model, &sequence.cache, token, hidden, depth);
        drafts.extend(drafted.iter().map(|draft| draft.token));
        Ok(())
    }

    fn step_tapped(
        &mut self,
        sequence: SequenceId,
        tokens: &[u32],
        taps: &mut dyn TapSink,
    ) -> Result<(), BackendError> {
        self.check(&[Work { sequence, tokens, wanted: Wanted::Picks }])?;
        let model = self.model.clone();
        let sequence = self.sequence_mut(sequence)?;
        for &token in tokens {
            let state = model.forward(&mut sequence.cache, token, taps).map_err(failed)?;
            sequence.keep_hidden(state.final_norm);
        }
        Ok(())
    }

    fn kv_row(
        &self,
        sequence: SequenceId,
        layer: usize,
        position: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), BackendError> {
        let layers = &self.sequence(sequence)?.cache.layers;
        let rows = layers.get(layer).and_then(|kv| Some((kv.keys.get(position)?, kv.values.get(position)?)));
        match rows {
            Some((key, value)) => Ok((key.clone(), value.clone())),
            None => Err(BackendError::Failed(format!("layer {layer} holds no K/V at position {position}"))),
        }
    }
}
