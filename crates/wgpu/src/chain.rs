//! A decode run: many tokens under way at once, each made from the one before without the host.
//!
//! A submission has several tokens; the last kernel of a token writes the next one's id and position where its first kernel reads them, and
//! notes the id. Submissions follow each other without waiting; the host maps the notes of the oldest, stops at a stop id (which the device
//! knows too: a chain that has ended stays where it is), at the limit, or when the caller has enough. What ran beyond that is forgotten.

use std::collections::VecDeque;

use rawloop_backend::BackendError;
use wgpu::{Buffer, BufferUsages, SubmissionIndex};

use crate::backend::{WgpuBackend, failed};
use crate::gpu::Gpu;
use crate::options::GpuError;
use crate::params::Column;
use crate::room::{CHAIN_HEADER, EMITTED};
use crate::runner::{Run, Shape};
use crate::wait::Signal;

/// Tokens of a submission at most.
const TOGETHER: usize = 4;
/// Submissions under way at most. Both together stay well below the rings' slack of 64.
const UNDER_WAY: usize = 3;

/// A submission under way.
struct Flight {
    slot: usize,
    tokens: usize,
    index: SubmissionIndex,
    mapped: Signal,
}

/// What a run of a chain needs on the host, kept for its memory.
pub(crate) struct Chain {
    slots: Vec<Buffer>,
    flights: VecDeque<Flight>,
}

impl Chain {
    /// Buffers for the notes of all submissions under way.
    pub fn new(gpu: &Gpu) -> Chain {
        let slot = || gpu.buffer(4 * TOGETHER, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        Chain { slots: (0..UNDER_WAY).map(|_| slot()).collect(), flights: VecDeque::with_capacity(UNDER_WAY) }
    }
}

impl WgpuBackend {
    /// One run of at most [`EMITTED`] tokens from `token` at the end of a sequence; returns the last id where the run may go on.
    pub(crate) fn run_chain(
        &mut self,
        index: usize,
        token: u32,
        limit: usize,
        stops: &[u32],
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<Option<u32>, BackendError> {
        let first = self.sequences.list[index].cache.position();
        let mut started = 0;
        let mut emitted = 0;
        let mut last = token;
        self.chain.flights.clear();
        self.runner.reset_chain(stops);
        // A table on the host needs each token before its work is submitted.
        let together = if self.runner.weights.ple.is_some() { TOGETHER } else { 1 };
        let under_way = if together == 1 { 1 } else { UNDER_WAY };
        let limit = limit.min(EMITTED);
        let mut result = Ok(None);
        'run: loop {
            while started < limit && self.chain.flights.len() < under_way {
                // The first token comes alone, so that it comes soon.
                let tokens = if started == 0 { 1 } else { together.min(limit - started) };
                if let Err(error) = self.fly(index, first, started, tokens, last) {
                    result = Err(failed(error));
                    break 'run;
                }
                started += tokens;
            }
            let Some(flight) = self.chain.flights.pop_front() else { break };
            let mut ids = [0u32; TOGETHER];
            if let Err(error) = self.land(&flight, &mut ids) {
                result = Err(failed(error));
                break;
            }
            for &id in &ids[..flight.tokens] {
                last = id;
                emitted += 1;
                if !emit(id) || stops.contains(&id) {
                    break 'run;
                }
            }
            if emitted == limit {
                result = Ok(Some(last));
                break;
            }
        }
        let waited = self.runner.gpu.wait();
        while let Some(flight) = self.chain.flights.pop_front() {
            self.chain.slots[flight.slot].unmap();
        }
        let cache = &mut self.sequences.list[index].cache;
        cache.advance(first + emitted);
        cache.touched(first + started);
        waited.map_err(failed)?;
        result
    }

    /// Submits `tokens` tokens behind the `started` ones.
    fn fly(
        &mut self,
        index: usize,
        first: usize,
        started: usize,
        tokens: usize,
        token: u32,
    ) -> Result<(), GpuError> {
        let runner = &mut self.runner;
        if started == 0 || runner.weights.ple.is_none() {
            runner.columns.clear();
            runner.columns.push(Column { token, position: (first + started) as u32 });
            runner.send(tokens)?;
        } else {
            runner.rope.reach(&runner.gpu, first + started + tokens);
        }
        let used = self.chain.flights.back().map_or(0, |flight| (flight.slot + 1) % UNDER_WAY);
        let slot = &self.chain.slots[used];
        let kv = &self.sequences.list[index].cache.groups;
        let plan = runner.plan(1);
        let mut encoder = runner.gpu.encoder();
        for ahead in 0..tokens {
            let runs = [Run { kv, first: 0, position: first + started + ahead, count: 1 }];
            let shape = Shape { columns: 1, runs: &runs, full: true };
            let steps = runner.body(&shape).chain(&plan.head).chain([&plan.pick_chain]);
            runner.encode(&mut encoder, steps, &shape);
        }
        let from = (4 * (CHAIN_HEADER + started)) as u64;
        encoder.copy_buffer_to_buffer(&runner.room.chain, from, slot, 0, (4 * tokens) as u64);
        let submitted = runner.gpu.queue.submit([encoder.finish()]);
        let mapped = runner.gpu.map(slot);
        self.chain.flights.push_back(Flight { slot: used, tokens, index: submitted, mapped });
        runner.gpu.check()
    }

    /// Waits for a submission and reads its ids.
    fn land(&self, flight: &Flight, ids: &mut [u32; 4]) -> Result<(), GpuError> {
        let gpu = &self.runner.gpu;
        let waited = gpu.until(&flight.mapped, Some(flight.index.clone()));
        gpu.check()?;
        waited?;
        gpu.mapped(&self.chain.slots[flight.slot], bytemuck::bytes_of_mut(ids))
    }
}
