//! The team and what each of its threads works in.
//!
//! [`Crew::run`] is the only way in which stages use threads: it hands out the chunks of a job, each once, with the part of
//! the results that belongs to it and the scratch of the thread that took it. Scratch is allocated once for the widest pass.
//!
//! Sums of codes that several chunks contribute to (the FFN product's, the attention result's) gather in each thread's
//! scratch and are added up by [`Crew::take_sums`]; they are integers, so their order is free.

use crate::kernels::{AttentionState, Best, Shared};
use crate::parts::Parts;
use crate::stages::head::HEAD_TOKENS;
use crate::team::Team;
use crate::topology;

/// What one thread works in; on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Scratch {
    /// Accumulators `[tokens x rows of a chunk]`.
    pub acc: Vec<i32>,
    /// Codes `[tokens x rows of a chunk]`.
    pub gate: Vec<i8>,
    /// Codes `[tokens x rows of a chunk]`.
    pub up: Vec<i8>,
    /// Query heads of one token.
    pub query: Vec<f32>,
    /// Attention result of the same heads; also any other row of floats.
    pub row: Vec<f32>,
    /// Softmax in progress.
    pub state: AttentionState,
    /// Room for one block of it.
    pub block: AttentionState,
    /// Sums of codes, one for each token of the pass.
    pub sums: Vec<i32>,
    /// Best row of the head so far, one for each column of its run.
    pub best: Vec<Best>,
}

/// Sizes of a scratch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScratchSizes {
    /// Accumulators.
    pub acc: usize,
    /// Codes of a chunk.
    pub codes: usize,
    /// Values of all query heads of a token, or of any other row.
    pub row: usize,
    /// Query heads and the largest head.
    pub heads: (usize, usize),
    /// Tokens of a pass.
    pub tokens: usize,
}

impl Scratch {
    fn new(sizes: ScratchSizes) -> Scratch {
        let mut scratch = Scratch {
            acc: vec![0; sizes.acc],
            gate: vec![0; sizes.codes],
            up: vec![0; sizes.codes],
            query: vec![0.0; sizes.row],
            row: vec![0.0; sizes.row],
            sums: vec![0; sizes.tokens],
            best: vec![Best::NONE; HEAD_TOKENS],
            ..Scratch::default()
        };
        let (heads, dim) = sizes.heads;
        scratch.state.reset(heads, dim);
        scratch.block.reset(heads, dim);
        scratch
    }
}

/// Threads with their scratch.
pub(crate) struct Crew {
    team: Team,
    scratch: Vec<Scratch>,
}

impl Crew {
    /// A crew of `threads`, the caller included. Thread `i` stays on `cpus[i]`, round and round, where there are any.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(threads: usize, cpus: &[usize], sizes: ScratchSizes) -> std::io::Result<Crew> {
        let cpus = cpus.to_vec();
        let team = Team::with_start(threads, move |worker| {
            if !cpus.is_empty() {
                // A system that refuses leaves the thread where it is, which changes no result.
                let _ = topology::pin(cpus[worker % cpus.len()]);
            }
        })?;
        let scratch = (0..team.threads()).map(|_| Scratch::new(sizes)).collect();
        Ok(Crew { team, scratch })
    }

    /// Threads taking part.
    pub fn threads(&self) -> usize {
        self.scratch.len()
    }

    /// Runs `work(scratch, chunk, part)` for every chunk of `parts` and returns when all are done.
    pub fn run<'p, P: Parts>(
        &mut self,
        parts: &'p P,
        work: impl Fn(&mut Scratch, usize, P::Part<'p>) + Sync,
    ) {
        let count = parts.count();
        if count <= 1 {
            for chunk in 0..count {
                // SAFETY: the only chunk.
                work(&mut self.scratch[0], chunk, unsafe { parts.part(chunk) });
            }
            return;
        }
        let scratch = Shared::new(&mut self.scratch);
        self.team.run(count, &|worker, chunk| {
            // SAFETY: a worker is one thread, so nobody else holds its scratch; the team hands every chunk out once.
            let (scratch, part) = unsafe { (&mut scratch.range(worker..worker + 1)[0], parts.part(chunk)) };
            work(scratch, chunk, part);
        });
    }

    /// Adds up what the threads gathered for the tokens of `sums` and starts anew.
    pub fn take_sums(&mut self, sums: &mut [i32]) {
        sums.fill(0);
        for scratch in &mut self.scratch {
            for (sum, part) in sums.iter_mut().zip(&mut scratch.sums) {
                *sum += std::mem::take(part);
            }
        }
    }

    /// The best rows that the threads found for the tokens of `best`; starts anew.
    pub fn take_best(&mut self, best: &mut [Best]) {
        best.fill(Best::NONE);
        for scratch in &mut self.scratch {
            for (best, part) in best.iter_mut().zip(&mut scratch.best) {
                *best = best.better(std::mem::replace(part, Best::NONE));
            }
        }
    }

    /// Values that a scratch row holds.
    pub fn row_len(&self) -> usize {
        self.scratch[0].row.len()
    }
}
