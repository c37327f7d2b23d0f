//! A backend without a model, for tests of everything above one.
//!
//! The next token is a function of all ids a sequence holds, so a session that holds other ids than it believes gives other
//! answers at once. What makes real backends awkward is kept: the ring of the sliding layers can be rewound by a few
//! positions only, a snapshot fits only the prefix it was taken of, the context ends, and a step can be told to fail.
//! [`FakeLog`] sees every call from outside, because a session owns its backend. With [`FakeBackend::drafting`] it has a drafter,
//! which can draft only where a real one could; with [`FakeBackend::drawing`] it draws tokens by itself; with
//! [`FakeBackend::taking_along`] it tells snapshots of positions that it has just gone past.
//!
//! A step does not allocate once its buffers have grown, so that tests can count what a session allocates.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rawloop_spec::TapSink;

use crate::backend::{
    Backend, BackendError, BackendInfo, CacheCost, DRAFT_REWIND, Draw, PROMPT_STEP, SequenceId, Snapshot,
    StepOutput, Wanted, Work,
};
use crate::sample::{Sampler, SamplingOptions};

/// The token behind the ids that a sequence holds.
pub type Script = Box<dyn Fn(&[u32]) -> u32 + Send>;

/// What was asked of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are the arguments
pub enum Call {
    Step { position: usize, tokens: usize },
    Truncate { to: usize },
    TruncateRefused { to: usize },
    Snapshot { position: usize },
    Restore { position: usize },
    RestoreRefused { position: usize },
    Draft { position: usize, depth: usize },
    Drawn,
    Create,
    Free,
}

/// Calls so far, shared with the backend.
#[derive(Clone, Debug, Default)]
pub struct FakeLog(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    calls: Vec<Call>,
    steps: usize,
    fail_at: Option<usize>,
}

impl FakeLog {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls since the last time.
    pub fn take(&self) -> Vec<Call> {
        let mut log = self.lock();
        let calls = log.calls.clone();
        log.calls.clear();
        calls
    }

    /// Lets the step fail that comes after `steps` more; `usize::MAX` lets none.
    pub fn fail_after(&self, steps: usize) {
        let mut log = self.lock();
        log.fail_at = Some(log.steps.saturating_add(steps));
    }

    fn push(&self, call: Call) {
        self.lock().calls.push(call);
    }

    /// Counts a step; false where it has to fail.
    fn step(&self) -> bool {
        let mut log = self.lock();
        let fails = log.fail_at == Some(log.steps);
        log.steps += 1;
        !fails
    }
}

#[derive(Clone, Debug, Default)]
struct Fake {
    ids: Vec<u32>,
    /// The furthest position since the rings were last whole: they reach back `slack` from here.
    furthest: usize,
    /// Positions whose output was wanted and whose hidden state is held.
    hidden: Range<usize>,
}

impl Fake {
    fn keep_hidden(&mut self, position: usize) {
        let first = if self.hidden.end == position { self.hidden.start } else { position };
        self.hidden = first.max(position.saturating_sub(DRAFT_REWIND))..position + 1;
    }

    fn cut(&mut self, position: usize) {
        self.ids.truncate(position);
        self.hidden.end = self.hidden.end.min(position);
        self.hidden.start = self.hidden.start.min(self.hidden.end);
    }
}

/// The backend. See the module documentation.
pub struct FakeBackend {
    vocab: usize,
    context: usize,
    slack: usize,
    script: Script,
    drafter: Option<Script>,
    /// Whether it draws by itself, and the cap of its logits.
    draws: Option<Option<f32>>,
    prompt_step: usize,
    takes_last_along: bool,
    /// How many steps may have been made while it does so.
    along_until: usize,
    log: FakeLog,
    next: u32,
    sequences: BTreeMap<SequenceId, Fake>,
}

impl FakeBackend {
    /// A backend whose tokens follow `script`. Its sequences can be rewound by `slack` positions.
    pub fn new(vocab: usize, context: usize, slack: usize, script: Script) -> (FakeBackend, FakeLog) {
        let log = FakeLog::default();
        log.lock().calls.reserve(1 << 12);
        let sequences = BTreeMap::new();
        let (drafter, draws) = (None, None);
        let backend = FakeBackend {
            vocab,
            context,
            slack,
            script,
            drafter,
            draws,
            prompt_step: PROMPT_STEP,
            takes_last_along: false,
            along_until: usize::MAX,
            log: log.clone(),
            next: 0,
            sequences,
        };
        (backend, log)
    }

    /// The same with a drafter, whose tokens follow a script of their own.
    pub fn drafting(mut self, drafter: Script) -> FakeBackend {
        self.drafter = Some(drafter);
        self
    }

    /// The same, drawing by itself from logits capped at `cap`: no more than three tokens a run, and one in five it cannot pick.
    pub fn drawing(mut self, cap: Option<f32>) -> FakeBackend {
        self.draws = Some(cap);
        self
    }

    /// The same, saying that so many tokens of a prompt suit a step.
    pub fn stepping(mut self, tokens: usize) -> FakeBackend {
        self.prompt_step = tokens;
        self
    }

    /// The same, taking the last token of a prompt along with those before it.
    pub fn taking_along(mut self) -> FakeBackend {
        self.takes_last_along = true;
        self
    }

    /// The same, but no longer once so many steps were made, as a shared backend does when somebody else comes.
    pub fn taking_along_until(mut self, steps: usize) -> FakeBackend {
        self.along_until = steps;
        self.taking_along()
    }

    /// A script whose tokens are spread over `0..vocab` by a hash of all ids; one in `stop_every` is `stop`.
    pub fn hashed(vocab: usize, stop: u32, stop_every: u64) -> Script {
        Box::new(move |ids| {
            let mut hash = fold(ids);
            hash ^= hash >> 29;
            if hash.is_multiple_of(stop_every) { stop } else { ((hash >> 8) % vocab as u64) as u32 }
        })
    }

    fn of(&self, sequence: SequenceId) -> Result<&Fake, BackendError> {
        self.sequences.get(&sequence).ok_or(BackendError::UnknownSequence(sequence))
    }

    fn check(&self, work: &[Work<'_>]) -> Result<(), BackendError> {
        for piece in work {
            let needed = self.of(piece.sequence)?.ids.len() + piece.tokens.len();
            if needed > self.context {
                return Err(BackendError::ContextFull { needed, limit: self.context });
            }
            if let Some(&token) = piece.tokens.iter().find(|&&token| token as usize >= self.vocab) {
                return Err(BackendError::Token { token, vocab: self.vocab });
            }
        }
        Ok(())
    }

    fn told(&self, fake: &Fake, position: usize, furthest: usize) -> Snapshot {
        let mut bytes = fold(&fake.ids[..position]).to_le_bytes().to_vec();
        bytes.extend((furthest as u64).to_le_bytes());
        self.log.push(Call::Snapshot { position });
        Snapshot { position, bytes }
    }

    /// Appends a row for the ids held so far.
    fn row(&self, ids: &[u32], logits: bool, output: &mut StepOutput) {
        let pick = (self.script)(ids);
        if !logits {
            output.picks.push(pick);
            return;
        }
        let hash = fold(ids);
        let start = output.logits.len();
        // Noise between -8 and 8 that depends on all ids, and a peak.
        output.logits.extend((0..self.vocab as u64).map(|id| {
            let mixed = (hash ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> 40) as f32 / (1 << 20) as f32 - 8.0
        }));
        output.logits[start + pick as usize] = 9.0;
    }
}

fn fold(ids: &[u32]) -> u64 {
    ids.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &id| {
        (hash ^ u64::from(id)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    })
}

impl Backend for FakeBackend {
    fn info(&self) -> BackendInfo {
        BackendInfo {
            name: "fake",
            kernels: "a script".into(),
            threads: 1,
            kv: "ids",
            context: self.context,
            has_drafter: self.drafter.is_some(),
            cost: CacheCost { fixed: 0, position: size_of::<u32>() },
            prompt_step: self.prompt_step,
            takes_last_along: self.takes_last_along && self.log.lock().steps < self.along_until,
        }
    }

    fn vocab(&self) -> usize {
        self.vocab
    }

    fn create(&mut self) -> Result<SequenceId, BackendError> {
        let id = SequenceId(self.next);
        self.next += 1;
        let ids = Vec::with_capacity(self.context);
        self.sequences.insert(id, Fake { ids, ..Fake::default() });
        self.log.push(Call::Create);
        Ok(id)
    }

    fn free(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
        self.log.push(Call::Free);
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, BackendError> {
        let copy = self.of(sequence)?.clone();
        let id = self.create()?;
        self.sequences.insert(id, copy);
        Ok(id)
    }

    fn position(&self, sequence: SequenceId) -> Result<usize, BackendError> {
        Ok(self.of(sequence)?.ids.len())
    }

    fn truncate(&mut self, sequence: SequenceId, position: usize) -> Result<(), BackendError> {
        let slack = self.slack;
        let from = self.position(sequence)?;
        let Some(fake) = self.sequences.get_mut(&sequence) else { return Ok(()) };
        if position >= from {
            return Ok(());
        }
        let lowest = fake.furthest.saturating_sub(slack);
        if position < lowest && position > 0 {
            self.log.push(Call::TruncateRefused { to: position });
            return Err(BackendError::RewindTooFar { from, to: position, lowest });
        }
        fake.cut(position);
        if position == 0 {
            fake.furthest = 0;
        }
        self.log.push(Call::Truncate { to: position });
        Ok(())
    }

    fn snapshot(&self, sequence: SequenceId) -> Result<Snapshot, BackendError> {
        let fake = self.of(sequence)?;
        Ok(self.told(fake, fake.ids.len(), fake.furthest))
    }

    fn snapshot_at(&self, sequence: SequenceId, position: usize) -> Result<Snapshot, BackendError> {
        let fake = self.of(sequence)?;
        let from = fake.ids.len();
        // Its rows reach no further back than a token at the position reads.
        let lowest = if self.takes_last_along { fake.furthest.saturating_sub(self.slack) } else { from };
        match position {
            _ if position == from => self.snapshot(sequence),
            _ if (lowest..from).contains(&position) => Ok(self.told(fake, position, position + self.slack)),
            _ => Err(BackendError::RewindTooFar { from, to: position, lowest }),
        }
    }

    fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<(), BackendError> {
        let position = snapshot.position;
        let prefix = self.of(sequence)?.ids.get(..position).map(fold);
        let words = snapshot.bytes.as_chunks::<8>().0;
        let (Some(prefix), [hash, furthest]) = (prefix, words) else {
            self.log.push(Call::RestoreRefused { position });
            return Err(BackendError::Snapshot("it lies ahead of the sequence".into()));
        };
        if prefix != u64::from_le_bytes(*hash) {
            self.log.push(Call::RestoreRefused { position });
            return Err(BackendError::Snapshot("it was taken of other tokens".into()));
        }
        if let Some(fake) = self.sequences.get_mut(&sequence) {
            fake.cut(position);
            fake.furthest = u64::from_le_bytes(*furthest) as usize;
        }
        self.log.push(Call::Restore { position });
        Ok(())
    }

    fn step(&mut self, work: &[Work<'_>], output: &mut StepOutput) -> Result<(), BackendError> {
        self.check(work)?;
        if !self.log.step() {
            return Err(BackendError::Failed("the fake was told to fail".into()));
        }
        output.picks.clear();
        output.logits.clear();
        for piece in work {
            let Some(mut fake) = self.sequences.remove(&piece.sequence) else { continue };
            self.log.push(Call::Step { position: fake.ids.len(), tokens: piece.tokens.len() });
            let rows = piece.wanted.rows(piece.tokens.len());
            for (place, &token) in piece.tokens.iter().enumerate() {
                fake.ids.push(token);
                if place + rows >= piece.tokens.len() {
                    self.row(&fake.ids, piece.wanted.is_logits(), output);
                    fake.keep_hidden(fake.ids.len() - 1);
                }
            }
            fake.furthest = fake.furthest.max(fake.ids.len());
            self.sequences.insert(piece.sequence, fake);
        }
        Ok(())
    }

    fn decode_drawn(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: &[u32],
        draw: &Draw<'_>,
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<bool, BackendError> {
        let Some(cap) = self.draws else { return Ok(false) };
        let options = SamplingOptions {
            temperature: draw.temperature,
            top_k: draw.top_k,
            top_p: draw.top_p,
            min_p: draw.min_p,
            seed: draw.seed,
            suppress: draw.suppress.to_vec(),
            ..SamplingOptions::greedy()
        };
        let failed = |why: String| BackendError::Failed(why);
        let mut sampler =
            Sampler::new(options, self.vocab, cap).map_err(|error| failed(error.to_string()))?;
        let (mut token, mut output) = (token, StepOutput::default());
        for _ in 0..limit.min(3) {
            let held = &self.of(sequence)?.ids;
            if (fold(held) ^ u64::from(token)).is_multiple_of(5) {
                break;
            }
            let position = held.len() + 1;
            self.step(&[Work { sequence, tokens: &[token], wanted: Wanted::LastLogits }], &mut output)?;
            token = sampler
                .pick(&mut output.logits, position, None)
                .map_err(|error| failed(error.to_string()))?;
            if !emit(token) || stops.contains(&token) {
                break;
            }
        }
        self.log.push(Call::Drawn);
        Ok(true)
    }

    fn draft(
        &mut self,
        sequence: SequenceId,
        token: u32,
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), BackendError> {
        drafts.clear();
        let Some(drafter) = &self.drafter else { return Err(BackendError::NoDrafter) };
        let fake = self.sequences.get_mut(&sequence).ok_or(BackendError::UnknownSequence(sequence))?;
        let position = fake.ids.len();
        if fake.hidden.end != position || fake.hidden.is_empty() {
            return Err(BackendError::Failed(format!("no output was wanted of the token before {position}")));
        }
        // What it would hold if the drafts were right, for as long as it drafts.
        fake.ids.push(token);
        for _ in 0..depth {
            let draft = drafter(&fake.ids);
            drafts.push(draft);
            fake.ids.push(draft);
        }
        fake.ids.truncate(position);
        self.log.push(Call::Draft { position, depth });
        Ok(())
    }

    fn step_tapped(
        &mut self,
        sequence: SequenceId,
        tokens: &[u32],
        _: &mut dyn TapSink,
    ) -> Result<(), BackendError> {
        let work = Work { sequence, tokens, wanted: Wanted::Nothing };
        self.step(&[work], &mut StepOutput::default())
    }

    fn kv_row(
        &self,
        sequence: SequenceId,
        layer: usize,
        position: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), BackendError> {
        let held = self.of(sequence)?.ids.get(..=position);
        let held = held.ok_or_else(|| BackendError::Failed(format!("position {position} is not held")))?;
        Ok((fold(held).to_le_bytes().to_vec(), layer.to_le_bytes().to_vec()))
    }
}
