//! Several cached prefixes, and which of them answers a prompt.
//!
//! One cache holds one conversation. Somebody who goes back and forth between two, edits a question, or starts anew behind the
//! same instructions would have the first prompt prefilled again and again; so sequences stay in memory up to a budget of bytes, and
//! a prompt goes to the one that shares most with it.
//!
//! The one rule: **what was a prompt may be asked for again, what was an answer will not be.** A prompt that goes on where a
//! sequence stands, or that leaves only answer tokens behind (thoughts are never replayed), takes the sequence over. One that
//! would cut into the prompt of a sequence gets a fork of it, and the original stays for whoever comes back to it. Where the
//! common part is short a new sequence is cheaper than a fork.
//!
//! Invariants: the current sequence is the last in the list and is never evicted; the others are within the budget after
//! every call of [`PrefixPool::choose`], and the one used longest ago goes first. Which sequence answers changes the time and
//! nothing else.

use super::{SNAPSHOT_BUDGET, Sequence};
use crate::backend::{Backend, BackendError};

/// Bytes of other conversations that are kept where nothing else is said: twenty or so of Gemma 4 E2B.
pub const POOL_BUDGET: usize = 256 << 20;

/// Tokens that are worth a fork, or that may be lost without one.
const WORTH: usize = 16;

/// What the cache of a sequence takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCost {
    /// Bytes at any length: the rings of the sliding layers.
    pub fixed: usize,
    /// Bytes of each position in the full layers.
    pub position: usize,
}

/// What a pool may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Bytes of snapshots of each sequence; 0 keeps none.
    pub snapshots: usize,
    /// Bytes of all sequences but the current one, snapshots included; 0 keeps none.
    pub budget: usize,
    /// What a cache takes.
    pub cost: CacheCost,
}

impl PoolOptions {
    /// The usual budgets.
    pub fn new(cost: CacheCost) -> PoolOptions {
        PoolOptions { snapshots: SNAPSHOT_BUDGET, budget: POOL_BUDGET, cost }
    }
}

/// What a pool has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Prompts that went on in a sequence as it was.
    pub extended: usize,
    /// Prompts that got a fork of a sequence.
    pub forked: usize,
    /// Prompts that began a new sequence.
    pub begun: usize,
    /// Sequences that were given up for room.
    pub evicted: usize,
}

/// The sequences of one backend. The backend is passed to each call; it has to be the same one every time.
#[derive(Debug)]
pub struct PrefixPool {
    /// By last use, the current one last. Never empty.
    sequences: Vec<Sequence>,
    options: PoolOptions,
    counters: PoolCounters,
}

impl PrefixPool {
    /// A pool with one empty sequence.
    ///
    /// # Errors
    /// The backend has no memory for it.
    pub fn create(backend: &mut dyn Backend, options: PoolOptions) -> Result<PrefixPool, BackendError> {
        let first = Sequence::create(backend, options.snapshots)?;
        Ok(PrefixPool { sequences: vec![first], options, counters: PoolCounters::default() })
    }

    /// The sequence that was used last.
    pub fn current(&self) -> &Sequence {
        &self.sequences[self.sequences.len() - 1]
    }

    /// All sequences, the current one last.
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// What it may keep.
    pub fn options(&self) -> PoolOptions {
        self.options
    }

    /// What it has done.
    pub fn counters(&self) -> PoolCounters {
        self.counters
    }

    /// Bytes of the sequences that wait, snapshots included.
    pub fn bytes(&self) -> usize {
        self.sequences[..self.sequences.len() - 1].iter().map(|sequence| self.bytes_of(sequence)).sum()
    }

    /// Forgets everything but one empty sequence.
    ///
    /// # Errors
    /// The backend cannot start over.
    pub fn clear(&mut self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        self.sequences.drain(..self.sequences.len() - 1).for_each(|sequence| sequence.free(backend));
        self.sequences[0].rewind(backend, 0)?;
        Ok(())
    }

    /// Makes the sequence current that answers `prompt` with the least work. [`Sequence::reuse`] then rewinds it to what it
    /// shares with the prompt.
    ///
    /// # Errors
    /// None of its own: a backend that has no room for another sequence answers with one that is there.
    pub fn choose(
        &mut self,
        backend: &mut dyn Backend,
        prompt: &[u32],
    ) -> Result<&mut Sequence, BackendError> {
        let last = self.sequences.len() - 1;
        // Of equal ones the last used.
        let best = (0..=last).max_by_key(|&index| self.sequences[index].common(prompt)).unwrap_or(last);
        let common = self.sequences[best].common(prompt);
        let sequence = self.sequences.remove(best);
        let prompt_part = sequence.prompt_end.min(sequence.ids.len());
        if prompt_part <= common + WORTH {
            self.counters.extended += 1;
            self.sequences.push(sequence);
        } else {
            self.branch(backend, sequence, common);
        }
        self.evict(backend, self.options.budget);
        let last = self.sequences.len() - 1;
        Ok(&mut self.sequences[last])
    }

    /// Keeps a sequence for later and puts a fork of it, or a new one, in its place; or takes it over where there is no room
    /// for both.
    fn branch(&mut self, backend: &mut dyn Backend, mut original: Sequence, common: usize) {
        // Nobody answers with it soon: the way back to its newest turn is what counts.
        original.thin(self.options.snapshots / 4);
        if self.bytes_of(&original) > self.options.budget {
            self.counters.extended += 1;
            self.sequences.push(original);
            return;
        }
        let forked = common >= WORTH;
        let other =
            if forked { original.fork(backend) } else { Sequence::create(backend, self.options.snapshots) };
        self.sequences.push(original);
        match other {
            Ok(other) => {
                *(if forked { &mut self.counters.forked } else { &mut self.counters.begun }) += 1;
                self.sequences.push(other);
            }
            // No memory: the original is taken over after all.
            Err(_) => self.counters.extended += 1,
        }
    }

    /// Gives up sequences until those that wait are within so many bytes.
    fn evict(&mut self, backend: &mut dyn Backend, budget: usize) {
        while self.bytes() > budget {
            self.sequences.remove(0).free(backend);
            self.counters.evicted += 1;
        }
    }

    fn bytes_of(&self, sequence: &Sequence) -> usize {
        let CacheCost { fixed, position } = self.options.cost;
        let snapshots: usize = sequence.snapshots.iter().map(|kept| kept.bytes()).sum();
        fixed + position * sequence.ids.len() + snapshots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{StepOutput, Wanted};
    use crate::fake::{FakeBackend, FakeLog};

    fn pool(budget: usize) -> (Box<dyn Backend>, PrefixPool, FakeLog) {
        let (backend, log) = FakeBackend::new(1000, 4096, 8, Box::new(|_| 7));
        let mut backend: Box<dyn Backend> = Box::new(backend);
        let cost = CacheCost { fixed: 100, position: 1 };
        let options = PoolOptions { snapshots: 1 << 10, budget, cost };
        let pool = PrefixPool::create(backend.as_mut(), options).unwrap();
        (backend, pool, log)
    }

    /// Prefills a prompt and answers with three tokens; says what was reused.
    fn ask(backend: &mut dyn Backend, pool: &mut PrefixPool, prompt: &[u32]) -> usize {
        let sequence = pool.choose(backend, prompt).unwrap();
        let reused = sequence.reuse(backend, prompt).unwrap();
        let (end, mut output) = (prompt.len() - 1, StepOutput::default());
        sequence.append(backend, &prompt[reused..end], Wanted::Nothing, &mut output).unwrap();
        sequence.keep_snapshot(backend);
        sequence.append(backend, &[prompt[end], 7, 7, 7], Wanted::LastPick, &mut output).unwrap();
        assert_eq!(backend.position(sequence.id()).unwrap(), sequence.ids().len());
        reused
    }

    fn prompt(conversation: u32, length: u32) -> Vec<u32> {
        (0..length).map(|at| if at < 20 { at } else { (at + 100 * conversation) % 1000 }).collect()
    }

    #[test]
    fn conversations_that_alternate_keep_their_own_cache() {
        let (mut backend, mut pool, _) = pool(1 << 20);
        let backend = backend.as_mut();
        assert_eq!(ask(backend, &mut pool, &prompt(1, 200)), 0);
        // The first 20 are common, but the rings reach back 8 only and no snapshot stands there.
        assert_eq!(ask(backend, &mut pool, &prompt(2, 200)), 0);
        for length in [210, 220, 230] {
            for conversation in [1, 2] {
                let reused = ask(backend, &mut pool, &prompt(conversation, length));
                assert_eq!(reused, length as usize - 10, "all that was asked before");
            }
        }
        assert_eq!(pool.counters(), PoolCounters { extended: 7, forked: 1, begun: 0, evicted: 0 });
    }

    #[test]
    fn an_edited_question_leaves_the_old_branch_for_later() {
        let (mut backend, mut pool, _) = pool(1 << 20);
        let backend = backend.as_mut();
        let system = prompt(0, 100);
        let one: Vec<u32> = system.iter().copied().chain(300..400).collect();
        let other: Vec<u32> = system.iter().copied().chain(500..600).collect();
        ask(backend, &mut pool, &system);
        ask(backend, &mut pool, &one);
        assert_eq!(
            ask(backend, &mut pool, &other),
            99,
            "through the snapshot at the end of the first prompt"
        );
        assert_eq!(ask(backend, &mut pool, &one), 199, "it was kept");
        assert_eq!(ask(backend, &mut pool, &other), 199);
        assert_eq!(pool.sequences().len(), 2);
    }

    #[test]
    fn thoughts_that_are_not_replayed_leave_no_branch_behind() {
        let (mut backend, mut pool, _) = pool(1 << 20);
        let backend = backend.as_mut();
        let first = prompt(1, 100);
        ask(backend, &mut pool, &first);
        let follow_up: Vec<u32> = first.iter().copied().chain(800..850).collect();
        assert_eq!(ask(backend, &mut pool, &follow_up), 100);
        assert_eq!(pool.sequences().len(), 1);
    }

    #[test]
    fn the_budget_is_of_bytes_and_the_longest_unused_goes_first() {
        // A sequence of 200 takes about 320 bytes: two can wait.
        let (mut backend, mut pool, log) = pool(700);
        let backend = backend.as_mut();
        for conversation in [1, 2, 3, 4] {
            ask(backend, &mut pool, &prompt(conversation, 200));
            assert!(pool.bytes() <= 700);
        }
        assert_eq!((pool.sequences().len(), pool.counters().evicted), (3, 1));
        assert_eq!(ask(backend, &mut pool, &prompt(1, 200)), 0, "it was the first to go");
        assert_eq!(ask(backend, &mut pool, &prompt(4, 200)), 199);
        let frees = log.take().iter().filter(|call| **call == crate::fake::Call::Free).count();
        assert_eq!(frees, pool.counters().evicted);
        pool.clear(backend).unwrap();
        assert_eq!((pool.sequences().len(), pool.current().ids().len()), (1, 0));
    }

    #[test]
    fn without_a_budget_there_is_one_sequence() {
        let (mut backend, mut pool, _) = pool(0);
        let backend = backend.as_mut();
        for conversation in [1, 2, 1] {
            ask(backend, &mut pool, &prompt(conversation, 200));
            assert_eq!(pool.sequences().len(), 1);
        }
        assert_eq!(pool.counters().extended, 3);
    }

    /// Case 52: a snapshot of another branch at the same position is not taken for one's own.
    #[test]
    fn a_snapshot_of_another_branch_is_never_restored() {
        let (mut backend, mut pool, log) = pool(1 << 20);
        let backend = backend.as_mut();
        ask(backend, &mut pool, &prompt(1, 200));
        let foreign = pool.current().snapshots.clone();
        ask(backend, &mut pool, &prompt(2, 200));
        let current = pool.sequences.len() - 1;
        let sequence = &mut pool.sequences[current];
        sequence.snapshots = foreign;
        log.take();
        assert_eq!(sequence.rewind(backend, 199).unwrap(), 199, "the rings reach there");
        assert_eq!(sequence.rewind(backend, 150).unwrap(), 0);
        assert!(!log.take().iter().any(|call| matches!(call, crate::fake::Call::Restore { .. })));
    }
}
