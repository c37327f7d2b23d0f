//! The mirror of one KV cache: which ids it holds, and how to get it to hold others with the least work.
//!
//! A follow-up turn repeats the conversation so far. [`Sequence::reuse`] finds how much of a prompt the cache holds already
//! and rewinds to there: by truncating where the sliding layers still reach back far enough, else from a snapshot of their
//! rings, else by starting over. Re-running one window of tokens would not be exact, because a layer's K/V depend on one
//! window for each sliding layer below it, so it is never done.
//!
//! Invariants: after every call, failed or not, [`Sequence::ids`] are the ids whose K/V the backend holds, in order; the token
//! generated last is not among them until it has been stepped. A snapshot is restored only where the ids before it have the
//! hash that they had when it was taken: sequences are forked and share snapshots, and one of another branch would give
//! wrong keys and values without a word.
//!
//! Next: `pool.rs` keeps several sequences and chooses among them.

mod pool;

use std::sync::Arc;

use crate::backend::{Backend, BackendError, Draw, SequenceId, Snapshot, StepOutput, Wanted, Work};

pub use pool::{
    POOL_BUDGET, PoolCounters, PoolGuard, PoolOptions, PoolSummary, PrefixPool, SharedPool, usual_budget,
};

/// Bytes of snapshots a sequence keeps where nothing else is said: ten or so of Gemma 4 E2B.
pub const SNAPSHOT_BUDGET: usize = 64 << 20;

/// One sequence of a backend and the ids it holds. The backend is passed to each call, because one backend serves many
/// sequences; it has to be the same one every time.
#[derive(Debug)]
pub struct Sequence {
    id: SequenceId,
    ids: Vec<u32>,
    /// Where the last prompt ended: what stands behind it is an answer.
    prompt_end: usize,
    /// Ascending by position, each position once, none beyond `ids`.
    snapshots: Vec<Arc<Kept>>,
    budget: usize,
}

/// A snapshot and the ids that it was taken of.
#[derive(Debug)]
struct Kept {
    snapshot: Snapshot,
    /// Hash of the ids before its position.
    chain: u64,
}

impl Kept {
    fn position(&self) -> usize {
        self.snapshot.position
    }

    fn bytes(&self) -> usize {
        self.snapshot.bytes.len()
    }
}

/// Hash of ids in their order.
fn chain(ids: &[u32]) -> u64 {
    ids.iter().fold(0x243f_6a88_85a3_08d3, |hash, &id| {
        (hash ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

impl Sequence {
    /// A new, empty sequence. It keeps at most `snapshot_budget` bytes of snapshots; 0 keeps none.
    ///
    /// # Errors
    /// The backend has no memory for it.
    pub fn create(backend: &mut dyn Backend, snapshot_budget: usize) -> Result<Sequence, BackendError> {
        let id = backend.create()?;
        Ok(Sequence { id, ids: Vec::new(), prompt_end: 0, snapshots: Vec::new(), budget: snapshot_budget })
    }

    /// Stands where there is none.
    pub(crate) fn nowhere() -> Sequence {
        let id = SequenceId(u32::MAX);
        Sequence { id, ids: Vec::new(), prompt_end: 0, snapshots: Vec::new(), budget: 0 }
    }

    /// A second sequence with the same content. The two share the snapshots taken so far.
    ///
    /// # Errors
    /// The backend has no memory for it.
    pub fn fork(&self, backend: &mut dyn Backend) -> Result<Sequence, BackendError> {
        let id = backend.fork(self.id)?;
        let (ids, snapshots) = (self.ids.clone(), self.snapshots.clone());
        Ok(Sequence { id, ids, prompt_end: self.prompt_end, snapshots, budget: self.budget })
    }

    /// Its name in the backend.
    pub fn id(&self) -> SequenceId {
        self.id
    }

    /// The ids whose K/V the cache holds.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Makes room for so many ids in all, so that none of the later calls allocates.
    pub fn reserve(&mut self, positions: usize) {
        self.ids.reserve(positions.saturating_sub(self.ids.len()));
    }

    /// Positions of the snapshots that are kept, ascending.
    pub fn snapshot_positions(&self) -> impl Iterator<Item = usize> + '_ {
        self.snapshots.iter().map(|kept| kept.position())
    }

    /// How many ids at the beginning of a prompt are held.
    pub fn common(&self, prompt: &[u32]) -> usize {
        self.ids.iter().zip(prompt).take_while(|(held, wanted)| held == wanted).count()
    }

    /// Gives the cache's memory back.
    pub fn free(self, backend: &mut dyn Backend) {
        backend.free(self.id);
    }

    /// Rewinds to the longest prefix of `prompt` that can be had without running a token, short of the whole prompt: the
    /// last token is always run again, because its output is what the caller wants. Returns the positions kept.
    ///
    /// # Errors
    /// The backend cannot even start over.
    pub fn reuse(&mut self, backend: &mut dyn Backend, prompt: &[u32]) -> Result<usize, BackendError> {
        self.settle(backend)?;
        let kept = self.rewind(backend, self.common(prompt).min(prompt.len().saturating_sub(1)))?;
        self.prompt_end = prompt.len();
        Ok(kept)
    }

    /// Forgets everything from `position` on, and more where the sliding layers force it. Returns the positions kept.
    ///
    /// # Errors
    /// The backend cannot even start over.
    pub fn rewind(&mut self, backend: &mut dyn Backend, position: usize) -> Result<usize, BackendError> {
        if position >= self.ids.len() {
            return Ok(self.ids.len());
        }
        if backend.truncate(self.id, position).is_ok() {
            return Ok(self.cut(position));
        }
        self.snapshots.retain(|kept| kept.position() <= position);
        while let Some(kept) = self.snapshots.last() {
            let position = kept.position();
            let fits = kept.chain == chain(&self.ids[..position]);
            if fits && backend.restore(self.id, &kept.snapshot).is_ok() {
                return Ok(self.cut(position));
            }
            // Of another branch or shape, or damaged: of no use later either.
            self.snapshots.pop();
        }
        if backend.truncate(self.id, 0).is_err() {
            self.replace(backend)?;
        }
        Ok(self.cut(0))
    }

    /// Appends tokens: one step of the backend with nothing else in it.
    ///
    /// # Errors
    /// As [`Backend::step`]; the sequence has not changed then.
    pub fn append(
        &mut self,
        backend: &mut dyn Backend,
        tokens: &[u32],
        wanted: Wanted,
        output: &mut StepOutput,
    ) -> Result<(), BackendError> {
        let step = backend.step(&[Work { sequence: self.id, tokens, wanted }], output);
        match step {
            Ok(()) => self.ids.extend_from_slice(tokens),
            // The error of the step says more than one of the settling.
            Err(_) => drop(self.settle(backend)),
        }
        step
    }

    /// Greedy tokens behind `token`, as [`Backend::decode`].
    ///
    /// # Errors
    /// As [`Backend::decode`]; what was emitted before stays.
    pub fn decode(
        &mut self,
        backend: &mut dyn Backend,
        token: u32,
        limit: usize,
        stops: &[u32],
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), BackendError> {
        self.follow(backend, token, limit, emit, |backend, id, emit| {
            backend.decode(id, token, limit, stops, emit).map(|()| true)
        })
        .map(|_| ())
    }

    /// Drawn tokens behind `token`, as [`Backend::decode_drawn`]: false where this backend does not draw them.
    ///
    /// # Errors
    /// As [`Backend::decode_drawn`]; what was emitted before stays.
    pub fn decode_drawn(
        &mut self,
        backend: &mut dyn Backend,
        token: u32,
        limit: usize,
        stops: &[u32],
        draw: &Draw<'_>,
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<bool, BackendError> {
        self.follow(backend, token, limit, emit, |backend, id, emit| {
            backend.decode_drawn(id, token, limit, stops, draw, emit)
        })
    }

    /// A run of the backend behind `token`, with the ids that join the sequence taken into the mirror. False where it was none.
    fn follow(
        &mut self,
        backend: &mut dyn Backend,
        token: u32,
        limit: usize,
        emit: &mut dyn FnMut(u32) -> bool,
        run: impl FnOnce(&mut dyn Backend, SequenceId, &mut dyn FnMut(u32) -> bool) -> Result<bool, BackendError>,
    ) -> Result<bool, BackendError> {
        if limit == 0 {
            return Ok(true);
        }
        let ids = &mut self.ids;
        // A token joins the sequence when the one behind it is computed.
        let mut joins = token;
        let decoded = run(backend, self.id, &mut |next| {
            ids.push(joins);
            joins = next;
            emit(next)
        });
        if decoded == Ok(false) {
            return decoded;
        }
        // Where the run failed the token that was to join may be in the cache; the backend's count decides.
        let settled = self.settle(backend);
        decoded.and_then(|run| settled.map(|()| run))
    }

    /// Keeps a snapshot of the present position, so that a later turn can come back to it. Where the budget is exceeded the
    /// snapshot goes whose loss costs the fewest tokens to run again; the newest one stays. A backend that cannot make one
    /// is not an error: it costs time later.
    pub fn keep_snapshot(&mut self, backend: &dyn Backend) {
        self.keep_snapshot_at(backend, self.ids.len());
    }

    /// The same for a position that has been gone past, where the backend still tells of it ([`Backend::snapshot_at`]).
    pub fn keep_snapshot_at(&mut self, backend: &dyn Backend, position: usize) {
        let Some(ids) = self.ids.get(..position) else { return };
        let Err(place) = self.snapshots.binary_search_by_key(&position, |kept| kept.position()) else {
            return;
        };
        if self.budget == 0 || position == 0 {
            return;
        }
        let Ok(snapshot) = backend.snapshot_at(self.id, position) else { return };
        if snapshot.position != position || snapshot.bytes.len() > self.budget {
            return;
        }
        self.snapshots.insert(place, Arc::new(Kept { snapshot, chain: chain(ids) }));
        self.thin(self.budget);
    }

    /// Drops snapshots until they are within so many bytes, or only the newest is left.
    fn thin(&mut self, budget: usize) {
        while self.snapshots.iter().map(|kept| kept.bytes()).sum::<usize>() > budget {
            let before = |index: usize| if index == 0 { 0 } else { self.snapshots[index - 1].position() };
            let older = 0..self.snapshots.len().saturating_sub(1);
            let Some(cheapest) = older.min_by_key(|&index| self.snapshots[index].position() - before(index))
            else {
                return;
            };
            self.snapshots.remove(cheapest);
        }
    }

    /// Makes mirror and backend agree: the backend's count decides, and what it holds beyond the mirror is cut off.
    fn settle(&mut self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        match backend.position(self.id) {
            Ok(held) if held > self.ids.len() => {
                if backend.truncate(self.id, self.ids.len()).is_err() {
                    self.replace(backend)?;
                    self.cut(0);
                }
            }
            Ok(held) => {
                self.cut(held);
            }
            Err(_) => {
                self.replace(backend)?;
                self.cut(0);
            }
        }
        Ok(())
    }

    /// A new cache in place of one that cannot be used.
    fn replace(&mut self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        backend.free(self.id);
        // Whatever happens next, nothing is held.
        self.ids.clear();
        self.snapshots.clear();
        self.id = backend.create()?;
        Ok(())
    }

    fn cut(&mut self, position: usize) -> usize {
        self.ids.truncate(position);
        self.snapshots.retain(|kept| kept.position() <= position);
        self.ids.len()
    }
}
