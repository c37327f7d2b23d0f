//! What the engine asks of a backend: a coarse, object-safe trait, chosen once at start-up.
//!
//! A backend owns the KV caches of any number of sequences and runs steps over them. There is no tensor operation in here
//! and no text: ids in, ids or logits out. Several sequences may take part in one step; each one's result is the same bytes
//! as if it had run alone (docs/spec.md), whatever the chunk width, batch or thread count.
//!
//! Invariants: positions are absolute and dense; a failed call leaves every sequence as it was; nothing in [`Backend::step`]
//! and [`Backend::decode`] allocates once the buffers have grown to the largest step.

use rawloop_spec::TapSink;

/// Positions by which a sequence can be truncated and still be drafted behind: more than a verification ever rejects.
pub const DRAFT_REWIND: usize = 16;

/// Tokens of a prompt that suit a step where a backend has no reason for another number: a wide enough product for a processor's
/// kernels, and well under a second of E2B.
pub const PROMPT_STEP: usize = 256;

/// A sequence of tokens and its KV cache inside a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u32);

/// Why a backend refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// No such sequence.
    #[error("sequence {0:?} does not exist (was it freed?)")]
    UnknownSequence(SequenceId),
    /// An id outside of the vocabulary.
    #[error("token {token} is outside of the vocabulary of {vocab} tokens")]
    Token {
        /// The id.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// More positions than the context holds.
    #[error(
        "{needed} positions are needed but the context holds {limit}; raise --ctx or shorten the conversation"
    )]
    ContextFull {
        /// Positions wanted.
        needed: usize,
        /// Positions there are.
        limit: usize,
    },
    /// The sliding layers no longer hold what a rewind would need.
    #[error("cannot rewind from position {from} to {to}: the window layers reach back to {lowest} only")]
    RewindTooFar {
        /// Where the sequence is.
        from: usize,
        /// Where it was asked to go.
        to: usize,
        /// The lowest position that can be reached without a snapshot.
        lowest: usize,
    },
    /// A snapshot of something else.
    #[error("the snapshot does not fit: {0}")]
    Snapshot(String),
    /// The pack has no drafter.
    #[error("the model has no drafter")]
    NoDrafter,
    /// Memory, a device or a tensor failed.
    #[error("{0}")]
    Failed(String),
}

/// What a step should hand back for one piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Only the K/V: the step skips every layer behind the last that owns some.
    Nothing,
    /// The greedy pick after the last token.
    LastPick,
    /// The logits after the last token, before the soft cap.
    LastLogits,
    /// The greedy pick after every token (verification of drafts).
    Picks,
    /// The logits after every token.
    Logits,
}

impl Wanted {
    /// Rows of output for `tokens` tokens.
    pub const fn rows(self, tokens: usize) -> usize {
        match self {
            Wanted::Nothing => 0,
            Wanted::LastPick | Wanted::LastLogits => 1,
            Wanted::Picks | Wanted::Logits => tokens,
        }
    }

    /// Whether the rows are logits.
    pub const fn is_logits(self) -> bool {
        matches!(self, Wanted::LastLogits | Wanted::Logits)
    }
}

/// Tokens to append to one sequence. A sequence appears at most once in a step.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The sequence.
    pub sequence: SequenceId,
    /// Tokens that follow what it holds.
    pub tokens: &'a [u32],
    /// What to hand back.
    pub wanted: Wanted,
}

/// What a step handed back, in the order of the work; buffers are reused from step to step.
#[derive(Clone, Debug, Default)]
pub struct StepOutput {
    /// Greedy picks, one for each row of a piece of work that wanted picks.
    pub picks: Vec<u32>,
    /// Logits before the soft cap, `[rows x vocab]`.
    pub logits: Vec<f32>,
}

/// How tokens are drawn (contract rule 13), where nothing but the logits decides: no bias, no penalties, no mask, no typical sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw<'a> {
    /// Above 0.
    pub temperature: f32,
    /// Candidates kept; 0 keeps all.
    pub top_k: u32,
    /// Share of the weights kept, 0 to 1.
    pub top_p: f32,
    /// Least weight kept, as a share of the first one's; 0 keeps all.
    pub min_p: f32,
    /// Key of the random numbers.
    pub seed: u64,
    /// Ids that are never picked, all of them below the size of the vocabulary.
    pub suppress: &'a [u32],
}

/// The state of the sliding layers at one position: what a rewind beyond the ring's slack needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Position at which it was taken.
    pub position: usize,
    /// The rings' bytes, in a form private to the backend.
    pub bytes: Vec<u8>,
}

/// What a sequence takes of the memory that its backend keeps it in. A budget of bytes counts with it, so it is no less than what is
/// taken, whoever has forked or rewound what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCost {
    /// Bytes at any length: rings, hidden states, and whatever is taken for the whole context at once.
    pub fixed: usize,
    /// Bytes that each position adds.
    pub position: usize,
}

impl CacheCost {
    /// Bytes of a sequence of so many positions.
    pub const fn bytes(self, positions: usize) -> usize {
        self.fixed.saturating_add(self.position.saturating_mul(positions))
    }
}

/// What a backend is, for labels and budgets, and what suits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendInfo {
    /// `cpu`, `ref`, ...
    pub name: &'static str,
    /// Kernel table, adapter or device.
    pub kernels: String,
    /// Threads taking part.
    pub threads: usize,
    /// Storage of K/V: `f32`, `f16`, `i8`.
    pub kv: &'static str,
    /// Positions a sequence can hold.
    pub context: usize,
    /// Whether the pack holds a drafter.
    pub has_drafter: bool,
    /// What a sequence takes.
    pub cost: CacheCost,
    /// Tokens of a prompt that suit a step, 1 at least: what a step gets where nobody asks for another number ([`PROMPT_STEP`]).
    pub prompt_step: usize,
    /// Whether the last token of a prompt, the one whose output is wanted, costs less in the step of those before it than in one of its
    /// own. Such a backend makes snapshots of a position that it has just gone past ([`Backend::snapshot_at`]).
    pub takes_last_along: bool,
}

/// Runs a model. See the module documentation.
pub trait Backend: Send {
    /// Labels.
    fn info(&self) -> BackendInfo;

    /// Tokens in the vocabulary.
    fn vocab(&self) -> usize;

    /// A new, empty sequence.
    ///
    /// # Errors
    /// [`BackendError::Failed`] where its cache cannot be had.
    fn create(&mut self) -> Result<SequenceId, BackendError>;

    /// Gives a sequence's memory back. Freeing an unknown sequence does nothing.
    fn free(&mut self, sequence: SequenceId);

    /// A second sequence with the same content.
    ///
    /// # Errors
    /// Unknown sequence, no memory.
    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, BackendError>;

    /// Positions a sequence holds.
    ///
    /// # Errors
    /// Unknown sequence.
    fn position(&self, sequence: SequenceId) -> Result<usize, BackendError>;

    /// Forgets everything from `position` on.
    ///
    /// # Errors
    /// [`BackendError::RewindTooFar`] where the sliding rings have overwritten what would be visible again.
    fn truncate(&mut self, sequence: SequenceId, position: usize) -> Result<(), BackendError>;

    /// The sliding layers' state now, to come back to later with [`Backend::restore`].
    ///
    /// # Errors
    /// Unknown sequence.
    fn snapshot(&self, sequence: SequenceId) -> Result<Snapshot, BackendError>;

    /// The state that the sliding layers had at `position`, as [`Backend::snapshot`] would have told it there: for one that the sequence
    /// can be truncated to, and stays where it is. Every backend can tell the present one, and every one that
    /// [takes the last token along](BackendInfo::takes_last_along) the ones that its rings still hold.
    ///
    /// # Errors
    /// Unknown sequence; [`BackendError::RewindTooFar`] where the position is not one of those.
    fn snapshot_at(&self, sequence: SequenceId, position: usize) -> Result<Snapshot, BackendError> {
        let from = self.position(sequence)?;
        if position == from {
            return self.snapshot(sequence);
        }
        Err(BackendError::RewindTooFar { from, to: position, lowest: from })
    }

    /// Goes back to a snapshot of this sequence (or of the one it was forked from). The tokens before the snapshot's
    /// position must be the ones the sequence still holds.
    ///
    /// # Errors
    /// The snapshot lies ahead of the sequence or is of another shape.
    fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<(), BackendError>;

    /// Appends tokens to sequences and hands back what was wanted.
    ///
    /// # Errors
    /// Unknown sequence, id outside of the vocabulary, context full; no sequence has changed then.
    fn step(&mut self, work: &[Work<'_>], output: &mut StepOutput) -> Result<(), BackendError>;

    /// Greedy tokens behind `token`, which joins the sequence first; `emit` sees each and returns false to end the run. A
    /// stop id is emitted, not appended, and ends the run. However it ended, the sequence then holds `token` and every
    /// emitted token but the last one.
    ///
    /// # Errors
    /// As [`Backend::step`]; what was emitted before stays.
    fn decode(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: &[u32],
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), BackendError> {
        let mut output = StepOutput::default();
        let mut token = token;
        for _ in 0..limit {
            self.step(&[Work { sequence, tokens: &[token], wanted: Wanted::LastPick }], &mut output)?;
            token = output.picks[0];
            if !emit(token) || stops.contains(&token) {
                break;
            }
        }
        Ok(())
    }

    /// As [`Backend::decode`] with every token drawn, by a backend that can do that where the logits are. False, and nothing is done, where this
    /// one cannot, or not this draw. A run may end early: before a token that it cannot pick nothing of that token is kept, and the
    /// caller picks it from its logits.
    ///
    /// # Errors
    /// As [`Backend::decode`].
    fn decode_drawn(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: &[u32],
        draw: &Draw<'_>,
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<bool, BackendError> {
        let _ = (sequence, token, limit, stops, draw, emit);
        Ok(false)
    }

    /// Whether drafts are worth making now. Not where steps are full anyway, because many callers share them.
    fn wants_drafts(&self) -> bool {
        true
    }

    /// Drafts up to `depth` tokens behind `token`, which the sequence does not hold yet. An output must have been wanted of the
    /// last token that it holds; that token may have been followed by up to [`DRAFT_REWIND`] others in the same step which were
    /// truncated since. The drafts are those of a sequence which was brought there token by token.
    ///
    /// # Errors
    /// [`BackendError::NoDrafter`]; [`BackendError::Failed`] where there is nothing to draft from.
    fn draft(
        &mut self,
        sequence: SequenceId,
        token: u32,
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), BackendError>;

    /// Appends tokens one after the other through the full program and shows every stage to `taps`.
    ///
    /// # Errors
    /// As [`Backend::step`].
    fn step_tapped(
        &mut self,
        sequence: SequenceId,
        tokens: &[u32],
        taps: &mut dyn TapSink,
    ) -> Result<(), BackendError>;

    /// The stored key and value rows of an owning layer at a position that is still held.
    ///
    /// # Errors
    /// The layer owns none, or the position is no longer held.
    fn kv_row(
        &self,
        sequence: SequenceId,
        layer: usize,
        position: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), BackendError>;
}
