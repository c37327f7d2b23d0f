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
//! A sequence that answers is out of the pool until it is put back; so any number of requests can have one each, and share what
//! waits. What many requests have in common while each of them is still running (instructions, one prompt with several answers)
//! is kept as a **base**: a fork that nobody takes over, only forks.
//!
//! Invariants: what waits is within the budget after every call of [`PrefixPool::exchange`] and [`PrefixPool::give_back`], and the
//! one used longest ago goes first. The one used last stays also where it is larger than the whole budget, unless that is 0: a conversation
//! goes on where it stood. Which sequence answers changes the time and nothing else.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{SNAPSHOT_BUDGET, Sequence};
use crate::backend::{Backend, BackendError, CacheCost};

/// Bytes of other conversations that are kept where nothing else is said: twenty or so of Gemma 4 E2B at a thousand positions, where a
/// backend takes memory as a sequence grows. One that takes the whole context at once keeps far fewer; see [`usual_budget`].
pub const POOL_BUDGET: usize = 256 << 20;

/// Sequences of full length, without snapshots, that [`usual_budget`] has room for.
const KEPT: usize = 4;

/// Bytes of sequences that are kept for many conversations where nothing else is said: [`POOL_BUDGET`], or four times `longest` where
/// that is more. `longest` is what a sequence takes that fills its backend's context.
pub const fn usual_budget(longest: usize) -> usize {
    let kept = longest.saturating_mul(KEPT);
    if kept > POOL_BUDGET { kept } else { POOL_BUDGET }
}

/// Tokens that are worth a fork, or that may be lost without one.
const WORTH: usize = 16;
/// Tokens that are worth a base of their own.
const WORTH_A_BASE: usize = 64;

/// What a pool may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Bytes of snapshots of each sequence; 0 keeps none.
    pub snapshots: usize,
    /// Bytes of all sequences that wait, snapshots included; 0 keeps none. One sequence is kept whatever it takes.
    pub budget: usize,
    /// What a sequence takes of its backend.
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
    /// Bases that were kept.
    pub bases: usize,
}

/// What waits in a pool, and what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSummary {
    /// Sequences that wait.
    pub sequences: usize,
    /// Their bytes, snapshots included.
    pub bytes: usize,
    /// What was done so far.
    pub counters: PoolCounters,
}

/// The sequences of one backend that wait for a prompt. The backend is passed to each call; it has to be the same one every
/// time, or another handle to it.
#[derive(Debug)]
pub struct PrefixPool {
    /// By last use, the latest last.
    waiting: Vec<Waiting>,
    options: PoolOptions,
    counters: PoolCounters,
}

#[derive(Debug)]
struct Waiting {
    sequence: Sequence,
    /// It is forked and never taken over.
    base: bool,
}

impl PrefixPool {
    /// An empty pool.
    pub fn new(options: PoolOptions) -> PrefixPool {
        PrefixPool { waiting: Vec::new(), options, counters: PoolCounters::default() }
    }

    /// The sequences that wait, the one used last at the end.
    pub fn sequences(&self) -> impl ExactSizeIterator<Item = &Sequence> {
        self.waiting.iter().map(|waiting| &waiting.sequence)
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
        self.waiting.iter().map(|waiting| self.bytes_of(&waiting.sequence)).sum()
    }

    /// What waits and what was done.
    pub fn summary(&self) -> PoolSummary {
        PoolSummary { sequences: self.waiting.len(), bytes: self.bytes(), counters: self.counters }
    }

    /// Gives every sequence's memory back.
    pub fn clear(&mut self, backend: &mut dyn Backend) {
        self.waiting.drain(..).for_each(|waiting| waiting.sequence.free(backend));
    }

    /// A sequence of no content.
    ///
    /// # Errors
    /// The backend has no memory for it.
    pub fn create(&self, backend: &mut dyn Backend) -> Result<Sequence, BackendError> {
        Sequence::create(backend, self.options.snapshots)
    }

    /// Puts `current` back and takes the sequence out that answers `prompt` with the least work, which may be the same one.
    /// [`Sequence::reuse`] then rewinds it to what it shares with the prompt.
    ///
    /// # Errors
    /// The backend has no memory for a sequence, and none waits that could be taken over.
    pub fn exchange(
        &mut self,
        backend: &mut dyn Backend,
        current: Sequence,
        prompt: &[u32],
    ) -> Result<Sequence, BackendError> {
        self.wait(current, false);
        let taken = self.take(backend, prompt);
        self.evict(backend);
        taken
    }

    /// Takes the sequence out that answers `prompt` with the least work.
    ///
    /// # Errors
    /// As [`PrefixPool::exchange`].
    pub fn take(&mut self, backend: &mut dyn Backend, prompt: &[u32]) -> Result<Sequence, BackendError> {
        // Of equal ones the last used.
        let best = (0..self.waiting.len()).max_by_key(|&index| self.waiting[index].sequence.common(prompt));
        let Some(best) = best else {
            let begun = self.create(backend)?;
            self.counters.begun += 1;
            return Ok(begun);
        };
        let Waiting { sequence, base } = &self.waiting[best];
        let common = sequence.common(prompt);
        let prompt_part = sequence.prompt_end.min(sequence.ids.len());
        if !base && prompt_part <= common + WORTH {
            return Ok(self.take_over(best));
        }
        self.branch(backend, best, common)
    }

    /// Puts a sequence back.
    pub fn give_back(&mut self, backend: &mut dyn Backend, sequence: Sequence) {
        if sequence.ids.is_empty() {
            sequence.free(backend);
            return;
        }
        self.wait(sequence, false);
        self.evict(backend);
    }

    /// Whether prompts that begin with `prefix` are worth a base that is not there yet.
    pub fn lacks_base(&self, prefix: &[u32]) -> bool {
        let bases = || self.waiting.iter().filter(|waiting| waiting.base);
        prefix.len() >= WORTH_A_BASE && !bases().any(|waiting| waiting.sequence.ids == prefix)
    }

    /// Keeps a fork of what a sequence holds for others that begin like it, where the budget has room for it. That the backend
    /// has no memory is no error: it costs time later.
    pub fn keep_base(&mut self, backend: &mut dyn Backend, sequence: &Sequence) {
        if self.bytes_of(sequence) > self.options.budget {
            return;
        }
        if let Ok(mut sequence) = sequence.fork(backend) {
            sequence.thin(self.options.snapshots / 4);
            self.wait(sequence, true);
            self.counters.bases += 1;
            self.evict(backend);
        }
    }

    /// Lets a sequence wait. What it held in reserve for an answer is nothing that waits.
    fn wait(&mut self, mut sequence: Sequence, base: bool) {
        sequence.ids.shrink_to_fit();
        self.waiting.push(Waiting { sequence, base });
    }

    fn take_over(&mut self, index: usize) -> Sequence {
        self.counters.extended += 1;
        self.waiting.remove(index).sequence
    }

    /// Keeps a sequence for later and hands out a fork of it, or a new one; or the sequence itself where there is no room for
    /// both.
    fn branch(
        &mut self,
        backend: &mut dyn Backend,
        index: usize,
        common: usize,
    ) -> Result<Sequence, BackendError> {
        // Nobody answers with it soon: the way back to its newest turn is what counts.
        self.waiting[index].sequence.thin(self.options.snapshots / 4);
        if self.bytes_of(&self.waiting[index].sequence) > self.options.budget {
            return Ok(self.take_over(index));
        }
        let forked = common >= WORTH;
        let other = if forked { self.waiting[index].sequence.fork(backend) } else { self.create(backend) };
        // No memory: the original is taken over after all.
        let Ok(other) = other else { return Ok(self.take_over(index)) };
        if forked {
            self.counters.forked += 1;
            let used = self.waiting.remove(index);
            self.waiting.push(used);
        } else {
            self.counters.begun += 1;
        }
        Ok(other)
    }

    /// Gives up sequences until those that wait are within the budget, or one of them is left.
    fn evict(&mut self, backend: &mut dyn Backend) {
        let spared = usize::from(self.options.budget > 0);
        while self.waiting.len() > spared && self.bytes() > self.options.budget {
            self.waiting.remove(0).sequence.free(backend);
            self.counters.evicted += 1;
        }
    }

    fn bytes_of(&self, sequence: &Sequence) -> usize {
        let snapshots: usize = sequence.snapshots.iter().map(|kept| kept.bytes()).sum();
        self.options.cost.bytes(sequence.ids.len()) + size_of_val(&sequence.ids[..]) + snapshots
    }
}

/// A pool that several sessions use, each through its own clone and its own handle to one backend.
#[derive(Clone, Debug)]
pub struct SharedPool {
    pool: Arc<Shared>,
    keeps_prompts: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Shared {
    pool: Mutex<PrefixPool>,
    /// What whoever held the pool last left in it.
    seen: Mutex<PoolSummary>,
}

/// The pool, for as long as this is held.
pub struct PoolGuard<'a> {
    pool: MutexGuard<'a, PrefixPool>,
    seen: &'a Mutex<PoolSummary>,
}

impl Deref for PoolGuard<'_> {
    type Target = PrefixPool;

    fn deref(&self) -> &PrefixPool {
        &self.pool
    }
}

impl DerefMut for PoolGuard<'_> {
    fn deref_mut(&mut self) -> &mut PrefixPool {
        &mut self.pool
    }
}

impl Drop for PoolGuard<'_> {
    fn drop(&mut self) {
        *lock(self.seen) = self.pool.summary();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of a backend leaves the list as it was before the call, or short of one sequence.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedPool {
    /// Shares a pool.
    pub fn new(pool: PrefixPool) -> SharedPool {
        let (seen, pool) = (Mutex::new(pool.summary()), Mutex::new(pool));
        SharedPool { pool: Arc::new(Shared { pool, seen }), keeps_prompts: Arc::default() }
    }

    /// For one more session.
    pub fn another(&self) -> SharedPool {
        SharedPool { pool: Arc::clone(&self.pool), keeps_prompts: Arc::default() }
    }

    /// The pool. Nobody else can begin or end an answer as long as it is held, which may be for steps of the backend.
    pub fn lock(&self) -> PoolGuard<'_> {
        PoolGuard { pool: lock(&self.pool.pool), seen: &self.pool.seen }
    }

    /// What whoever held the pool last left in it. Waits for nobody.
    pub fn summary(&self) -> PoolSummary {
        *lock(&self.pool.seen)
    }

    /// Whether the session of this clone keeps whole prompts as bases: others are about to ask for the same one.
    pub fn keep_prompts(&self, keep: bool) {
        self.keeps_prompts.store(keep, Ordering::Relaxed);
    }

    pub(crate) fn keeps_prompts(&self) -> bool {
        self.keeps_prompts.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{StepOutput, Wanted};
    use crate::fake::{FakeBackend, FakeLog};

    /// A pool and the sequence that is out of it, as a session has them.
    struct Pooled {
        pool: PrefixPool,
        current: Option<Sequence>,
    }

    impl std::ops::Deref for Pooled {
        type Target = PrefixPool;

        fn deref(&self) -> &PrefixPool {
            &self.pool
        }
    }

    #[test]
    fn a_backend_that_takes_the_whole_context_at_once_has_room_for_four() {
        assert_eq!(usual_budget(0), POOL_BUDGET);
        assert_eq!(usual_budget(POOL_BUDGET / 4), POOL_BUDGET);
        assert_eq!(usual_budget(208_000_000), 832_000_000);
        assert_eq!(usual_budget(usize::MAX), usize::MAX);
    }

    fn pool(budget: usize) -> (Box<dyn Backend>, Pooled, FakeLog) {
        let (backend, log) = FakeBackend::new(1000, 4096, 8, Box::new(|_| 7));
        let mut backend: Box<dyn Backend> = Box::new(backend);
        let cost = CacheCost { fixed: 100, position: 1 };
        let pool = PrefixPool::new(PoolOptions { snapshots: 1 << 10, budget, cost });
        let current = Some(pool.create(backend.as_mut()).unwrap());
        (backend, Pooled { pool, current }, log)
    }

    /// Prefills a prompt and answers with three tokens; says what was reused.
    fn ask(backend: &mut dyn Backend, pooled: &mut Pooled, prompt: &[u32]) -> usize {
        let current = pooled.current.take().unwrap();
        let mut sequence = pooled.pool.exchange(backend, current, prompt).unwrap();
        let reused = run(backend, &mut sequence, prompt);
        pooled.current = Some(sequence);
        reused
    }

    fn run(backend: &mut dyn Backend, sequence: &mut Sequence, prompt: &[u32]) -> usize {
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
        assert_eq!(pool.counters(), PoolCounters { extended: 7, forked: 1, ..PoolCounters::default() });
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
        assert_eq!(pool.sequences().len(), 1, "beside the current one");
    }

    #[test]
    fn thoughts_that_are_not_replayed_leave_no_branch_behind() {
        let (mut backend, mut pool, _) = pool(1 << 20);
        let backend = backend.as_mut();
        let first = prompt(1, 100);
        ask(backend, &mut pool, &first);
        let follow_up: Vec<u32> = first.iter().copied().chain(800..850).collect();
        assert_eq!(ask(backend, &mut pool, &follow_up), 100);
        assert_eq!(pool.sequences().len(), 0);
    }

    #[test]
    fn the_budget_is_of_bytes_and_the_longest_unused_goes_first() {
        // A sequence of 200 takes about 1,120 bytes, four of each position for its id: two can wait.
        let (mut backend, mut pool, log) = pool(2500);
        let backend = backend.as_mut();
        for conversation in [1, 2, 3, 4] {
            ask(backend, &mut pool, &prompt(conversation, 200));
            assert!(pool.bytes() <= 2500);
        }
        assert_eq!((pool.sequences().len(), pool.counters().evicted), (2, 1));
        assert_eq!(ask(backend, &mut pool, &prompt(1, 200)), 0, "it was the first to go");
        assert_eq!(ask(backend, &mut pool, &prompt(4, 200)), 199);
        let frees = log.take().iter().filter(|call| **call == crate::fake::Call::Free).count();
        assert_eq!(frees, pool.counters().evicted);
        pool.pool.clear(backend);
        assert_eq!((pool.sequences().len(), pool.bytes()), (0, 0));
    }

    #[test]
    fn a_conversation_larger_than_the_budget_goes_on_all_the_same() {
        let (mut backend, mut pooled, _) = pool(1);
        let (backend, pool) = (backend.as_mut(), &mut pooled.pool);
        for (conversation, length, reused) in [(1, 200, 0), (1, 210, 200), (2, 200, 0), (2, 210, 200)] {
            let prompt = prompt(conversation, length);
            let mut sequence = pool.take(backend, &prompt).unwrap();
            assert_eq!(run(backend, &mut sequence, &prompt), reused);
            assert!(sequence.ids.capacity() > sequence.ids.len());
            pool.give_back(backend, sequence);
            let waiting = &pool.waiting[0].sequence;
            assert_eq!((pool.waiting.len(), waiting.ids.capacity()), (1, waiting.ids.len()));
            assert!(pool.bytes() > 100 + 5 * waiting.ids.len(), "with its snapshot");
        }
        assert_eq!(pool.counters().evicted, 0);
    }

    #[test]
    fn without_a_budget_there_is_one_sequence() {
        let (mut backend, mut pool, _) = pool(0);
        let backend = backend.as_mut();
        for conversation in [1, 2, 1] {
            ask(backend, &mut pool, &prompt(conversation, 200));
            assert_eq!(pool.sequences().len(), 0);
        }
        assert_eq!(pool.counters().extended, 3);
    }

    /// Case 52: a snapshot of another branch at the same position is not taken for one's own.
    #[test]
    fn a_snapshot_of_another_branch_is_never_restored() {
        let (mut backend, mut pool, log) = pool(1 << 20);
        let backend = backend.as_mut();
        ask(backend, &mut pool, &prompt(1, 200));
        let foreign = pool.current.as_ref().unwrap().snapshots.clone();
        ask(backend, &mut pool, &prompt(2, 200));
        let sequence = pool.current.as_mut().unwrap();
        sequence.snapshots = foreign;
        log.take();
        assert_eq!(sequence.rewind(backend, 199).unwrap(), 199, "the rings reach there");
        assert_eq!(sequence.rewind(backend, 150).unwrap(), 0);
        assert!(!log.take().iter().any(|call| matches!(call, crate::fake::Call::Restore { .. })));
    }

    #[test]
    fn a_pool_is_counted_also_while_somebody_holds_it() {
        let (mut backend, pooled, _) = pool(1 << 20);
        let (backend, pool) = (backend.as_mut(), SharedPool::new(pooled.pool));
        let mut first = pool.lock().take(backend, &prompt(1, 100)).unwrap();
        run(backend, &mut first, &prompt(1, 100));
        let mut held = pool.lock();
        held.give_back(backend, first);
        assert_eq!((pool.another().summary().sequences, held.sequences().len()), (0, 1), "as it was before");
        drop(held);
        assert_eq!(pool.summary(), pool.lock().summary());
        assert_eq!((pool.summary().sequences, pool.summary().counters.begun), (1, 1));
    }

    #[test]
    fn requests_at_the_same_time_share_what_was_kept_as_a_base() {
        let (mut backend, mut pooled, _) = pool(1 << 20);
        let backend = backend.as_mut();
        let pool = &mut pooled.pool;
        let system = prompt(0, 100);
        let ask: Vec<Vec<u32>> = (1..4)
            .map(|user| {
                system.iter().copied().chain(300 * user..300 * user + 50).map(|id| id % 1000).collect()
            })
            .collect();
        let mut first = pool.take(backend, &ask[0]).unwrap();
        assert!(pool.lacks_base(&system) && !pool.lacks_base(&system[..10]));
        let mut output = StepOutput::default();
        first.append(backend, &system, Wanted::Nothing, &mut output).unwrap();
        first.keep_snapshot(backend);
        pool.keep_base(backend, &first);
        assert!(!pool.lacks_base(&system));
        assert_eq!(run(backend, &mut first, &ask[0]), 100);
        // The first is still out.
        let mut others: Vec<Sequence> = ask[1..].iter().map(|ask| pool.take(backend, ask).unwrap()).collect();
        for (sequence, ask) in others.iter_mut().zip(&ask[1..]) {
            assert_eq!(run(backend, sequence, ask), 100);
        }
        for sequence in others.into_iter().chain([first]) {
            pool.give_back(backend, sequence);
        }
        assert_eq!(
            pool.counters(),
            PoolCounters { begun: 1, forked: 2, bases: 1, ..PoolCounters::default() }
        );
        assert_eq!(pool.sequences().len(), 4);
        // A base that is asked for alone is not taken over either.
        let again = pool.take(backend, &system).unwrap();
        pool.give_back(backend, again);
        assert!(!pool.lacks_base(&system));
    }
}
