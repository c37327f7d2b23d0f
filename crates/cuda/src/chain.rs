//! A decode run: many tokens under way at once, each made from the one before without the host.
//!
//! The host starts graphs of some tokens while earlier ones run, reads ids as the card writes them into host memory, and stops the run at a stop id
//! (which the card knows too), at the limit, or when the caller has enough. What ran beyond that is taken back.

use std::time::{Duration, Instant};

use rawloop_backend::BackendError;

use crate::backend::{CudaBackend, failed};
use crate::draw::NOT_DRAWN;
use crate::form::{End, Form, Part, Reach};
use crate::options::DriverError;
use crate::params::{Column, Draw};
use crate::runner::{EMITTED, NO_TOKEN};

/// Tokens under way at most. A rewind takes back no more than the rings' slack of 64.
const AHEAD: usize = 12;
/// Tokens that are started together, where so many are left: between graphs a card waits for 2 us.
const TOGETHER: usize = 4;
/// How often the card is asked whether it still runs while nothing comes.
const ASK: Duration = Duration::from_millis(20);

/// How many tokens from `position` on are started together, where `left` are wanted: those of one reach.
fn together(position: usize, left: usize) -> usize {
    let last = position + TOGETHER - 1;
    if left >= TOGETHER && Reach::of(position) == Reach::of(last) { TOGETHER } else { 1 }
}

impl CudaBackend {
    /// One run of at most [`EMITTED`] tokens from `token` at the end of a sequence, greedy or drawn; returns the last id where the run may
    /// go on.
    pub(crate) fn run_chain(
        &mut self,
        index: usize,
        token: u32,
        limit: usize,
        (stops, draw): (&[u32], Option<Draw>),
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<Option<u32>, BackendError> {
        let limit = limit.min(EMITTED);
        let first = self.sequences.list[index].cache.position();
        let mut started = 0;
        let mut tokens = Vec::with_capacity(limit.min(64) + 1);
        tokens.push(token);
        self.begin_chain(index, token, stops).map_err(failed)?;
        let end = if draw.is_some() { End::Draw } else { End::Pick };
        if let Some(draw) = draw {
            self.runner.set_draw(draw).map_err(failed)?;
        }
        let result = loop {
            while started < limit {
                let count = together(first + started, limit - started);
                if started + count > tokens.len() - 1 + AHEAD {
                    break;
                }
                self.start_tokens(first + started, count, end).map_err(failed)?;
                started += count;
            }
            let picked = self.await_token(tokens.len() - 1).map_err(failed)?;
            if picked == NOT_DRAWN {
                // There was no candidate: the caller, who has the logits looked at, says why.
                break None;
            }
            tokens.push(picked);
            let more = emit(picked) && !stops.contains(&picked);
            if !more {
                break None;
            }
            if tokens.len() > limit {
                break Some(picked);
            }
        };
        let held = first + tokens.len() - 1;
        self.runner.device.synchronize().map_err(failed)?;
        let sequence = &mut self.sequences.list[index];
        sequence.cache.advance(held);
        if started > tokens.len() - 1 {
            // Tokens ran that nobody wanted: their rows lie behind what is held, their final norm is not the last token's.
            sequence.cache.touched(first + started);
            if let [.., last, _] = tokens[..] {
                self.run_again(index, last)?;
            }
        } else {
            sequence.hidden.keep(&self.runner.room.last, 0, held - 1, 1).map_err(failed)?;
        }
        Ok(result)
    }

    fn begin_chain(&mut self, index: usize, token: u32, stops: &[u32]) -> Result<(), DriverError> {
        self.runner.device.synchronize()?;
        self.runner.reset_chain(stops)?;
        let cache = &self.sequences.list[index].cache;
        let column = Column { kv: cache.address(), token, position: cache.position() as i32 };
        self.runner.send(std::iter::once(column))
    }

    fn start_tokens(&mut self, position: usize, count: usize, end: End) -> Result<(), DriverError> {
        self.runner.rope.reach(position + count)?;
        let form = Form { columns: 1, part: Part::Whole, end, reach: Reach::of(position), neighbours: false };
        self.runner.start_tokens(form, count)
    }

    /// Waits for the id at `index` of the run.
    fn await_token(&mut self, index: usize) -> Result<u32, DriverError> {
        let mut asked = Instant::now();
        loop {
            for _ in 0..256 {
                let token = self.runner.emitted.peek(index);
                if token != NO_TOKEN {
                    return Ok(token);
                }
                std::hint::spin_loop();
            }
            if asked.elapsed() > ASK {
                asked = Instant::now();
                if self.runner.device.idle()? && self.runner.emitted.peek(index) == NO_TOKEN {
                    let why = "the card finished without an id".to_string();
                    return Err(DriverError { what: "decoding".into(), why });
                }
            }
        }
    }

    /// Runs the last held token once more, for its final norm.
    fn run_again(&mut self, index: usize, token: u32) -> Result<(), BackendError> {
        let position = self.sequences.list[index].cache.position() - 1;
        self.runner.reset_chain(&[]).map_err(failed)?;
        let column =
            Column { kv: self.sequences.list[index].cache.address(), token, position: position as i32 };
        let form = Form {
            columns: 1,
            part: Part::Whole,
            end: End::Open,
            reach: Reach::of(position),
            neighbours: false,
        };
        let runner = &mut self.runner;
        runner.send(std::iter::once(column)).and_then(|()| runner.start(form)).map_err(failed)?;
        let sequence = &mut self.sequences.list[index];
        sequence.hidden.keep(&runner.room.last, 0, position, 1).map_err(failed)?;
        runner.device.synchronize().map_err(failed)
    }
}
