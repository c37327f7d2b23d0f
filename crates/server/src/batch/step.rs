//! The steps that wait, and the one that is made of them.
//!
//! Work with an output (answers, verifications) goes in as a whole. Work without one is a chunk of a prompt, and goes in as far
//! as there is room: `prompt_share` tokens beside answers, `prompt_most` alone, first come first served. A chunk that is left
//! over stays at its place and goes on with the next step; a caller has its reply when all of it has run.
//!
//! Invariant: what is refused is refused before anything of it ran ([`Waiting::check`]), so a chunk that is run in parts fails
//! as a whole or not at all.

use std::collections::VecDeque;

use rawloop_engine::backend::{Backend, BackendError, SequenceId, StepOutput, Wanted, Work};

use super::line::{Ask, Call, Line, Owed, OwnedDraw, Reply};
use super::{BatchOptions, PROMPT_MOST};

/// Sequences in a step at most. More wait for the next one.
pub(super) const MOST: usize = 64;

/// A call that waits for a step.
pub(super) struct Waiting {
    pub owed: Owed,
    pub sequence: SequenceId,
    /// What is run: the tokens of a step, or the one of a decode.
    tokens: Vec<u32>,
    wanted: Wanted,
    /// Tokens of it that have run.
    done: usize,
    output: StepOutput,
    /// Of a decode: how many tokens it may give, and which of them end it.
    pub decode: Option<(usize, Vec<u32>)>,
    /// Of a decode whose tokens the backend draws. It has the backend to itself, or does not run: in a step there are argmaxes and logits.
    pub draw: Option<OwnedDraw>,
}

impl Waiting {
    /// A call that is a step.
    pub fn new(call: Call, spare: &mut Vec<Vec<u32>>) -> Option<Waiting> {
        let owed = call.owed;
        match call.ask {
            Ask::Step { sequence, tokens, wanted, output } => {
                Some(Waiting { owed, sequence, tokens, wanted, done: 0, output, decode: None, draw: None })
            }
            Ask::Decode { sequence, token, limit, stops, draw } => {
                let mut tokens = spare.pop().unwrap_or_default();
                tokens.clear();
                tokens.push(token);
                let (wanted, output) = (Wanted::LastPick, StepOutput::default());
                let decode = Some((limit, stops));
                Some(Waiting { owed, sequence, tokens, wanted, done: 0, output, decode, draw })
            }
            _ => None,
        }
    }

    /// The token that a decode begins with.
    pub fn token(&self) -> u32 {
        self.tokens[0]
    }

    fn is_prompt(&self) -> bool {
        self.wanted == Wanted::Nothing
    }

    fn left(&self) -> usize {
        self.tokens.len() - self.done
    }

    /// Whether it can run at all.
    fn check(&self, backend: &dyn Backend, context: usize) -> Result<(), BackendError> {
        let vocab = backend.vocab();
        if let Some(&token) = self.tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(BackendError::Token { token, vocab });
        }
        let needed = backend.position(self.sequence)? + self.left();
        if needed > context {
            return Err(BackendError::ContextFull { needed, limit: context });
        }
        Ok(())
    }

    /// Hands out the token that a step gave to a decode. True where the decode goes on with it, in the next step and without its
    /// caller having to ask.
    pub fn go_on(&mut self) -> bool {
        let (Some((limit, stops)), Some(&pick)) = (&mut self.decode, self.output.picks.first()) else {
            return false;
        };
        *limit -= 1;
        let ends = *limit == 0 || stops.contains(&pick);
        self.tokens[0] = pick;
        self.done = 0;
        self.owed.desk().is_some_and(|desk| desk.offer(pick)) && !ends
    }

    /// Says that the backend does not draw as it was asked to.
    pub fn refuse(self, spare: &mut Vec<Vec<u32>>) {
        if let Some((_, stops)) = self.decode {
            spare.push(self.tokens);
            self.owed.pay(Reply::Decode { result: Ok(false), stops });
        }
    }

    /// Hands the result to the caller.
    pub fn reply(self, result: Result<(), BackendError>, spare: &mut Vec<Vec<u32>>) {
        match self.decode {
            None => self.owed.pay(Reply::Step { result, tokens: self.tokens, output: self.output }),
            Some((_, stops)) => {
                spare.push(self.tokens);
                self.owed.pay(Reply::Decode { result: result.map(|()| true), stops });
            }
        }
    }
}

/// What a step was made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Joined {
    pub sequences: usize,
    pub prompt_tokens: usize,
    pub columns: usize,
}

/// Steps that wait, in their order.
#[derive(Default)]
pub(super) struct Steps {
    pub waiting: VecDeque<Waiting>,
    /// Tokens of each, from the front, that the step takes.
    shares: Vec<usize>,
    output: StepOutput,
    /// Buffers of decodes.
    pub spare: Vec<Vec<u32>>,
}

impl Steps {
    /// Takes a call in, or refuses it.
    pub fn add(&mut self, call: Call, backend: &dyn Backend, context: usize) {
        let Some(waiting) = Waiting::new(call, &mut self.spare) else { return };
        if waiting.tokens.is_empty() {
            let known = backend.position(waiting.sequence).map(drop);
            waiting.reply(known, &mut self.spare);
        } else {
            self.again(waiting, backend, context);
        }
    }

    /// Decides what goes into the next step.
    fn share(&mut self, options: &BatchOptions) -> Joined {
        let answers = self.waiting.iter().any(|waiting| !waiting.is_prompt());
        let mut room =
            if answers { options.prompt_share } else { options.prompt_most.unwrap_or(PROMPT_MOST) }.max(1);
        let mut joined = Joined::default();
        self.shares.clear();
        for waiting in &self.waiting {
            let share = match waiting.is_prompt() {
                _ if joined.sequences == MOST => 0,
                true => waiting.left().min(room),
                false => waiting.left(),
            };
            if waiting.is_prompt() {
                room -= share;
                joined.prompt_tokens += share;
            } else {
                // What has one output has one column that asks for it; a prompt may stand before.
                let before = match waiting.wanted {
                    Wanted::LastPick | Wanted::LastLogits => share.saturating_sub(1),
                    _ => 0,
                };
                joined.prompt_tokens += before;
                joined.columns += share - before;
            }
            joined.sequences += usize::from(share > 0);
            self.shares.push(share);
        }
        joined
    }

    /// Runs one step over what waits. Afterwards `over` tells of each, from the front, whether it is done.
    pub fn run(
        &mut self,
        backend: &mut dyn Backend,
        options: &BatchOptions,
        over: &mut Vec<Option<Result<(), BackendError>>>,
    ) -> Joined {
        let joined = self.share(options);
        let Steps { waiting, shares, output, .. } = self;
        over.clear();
        over.resize(waiting.len(), None);
        // A reply of one piece needs no copy: the step writes where it is read.
        let only = shares.iter().position(|&share| share > 0).filter(|_| joined.sequences == 1);
        if let Some(only) = only {
            std::mem::swap(output, &mut waiting[only].output);
        }
        let nothing = Work { sequence: SequenceId(0), tokens: &[], wanted: Wanted::Nothing };
        let mut work = [nothing; MOST];
        let pieces = waiting.iter().zip(&*shares).filter(|(_, share)| **share > 0);
        for (work, (waiting, &share)) in work.iter_mut().zip(pieces) {
            let tokens = &waiting.tokens[waiting.done..waiting.done + share];
            *work = Work { sequence: waiting.sequence, tokens, wanted: waiting.wanted };
        }
        let result = backend.step(&work[..joined.sequences], output);
        if let Some(only) = only {
            std::mem::swap(output, &mut waiting[only].output);
        }
        match result {
            Ok(()) if only.is_none() => self.hand_out(backend.vocab()),
            Ok(()) => {}
            Err(error) if joined.sequences == 1 => {
                over[only.unwrap_or(0)] = Some(Err(error));
                return joined;
            }
            // One of them is to blame, and none has changed: each for itself.
            Err(_) => {
                self.run_apart(backend, over);
                return joined;
            }
        }
        self.advance(over);
        joined
    }

    fn run_apart(&mut self, backend: &mut dyn Backend, over: &mut [Option<Result<(), BackendError>>]) {
        for (index, (waiting, share)) in self.waiting.iter_mut().zip(&mut self.shares).enumerate() {
            if *share == 0 {
                continue;
            }
            let tokens = &waiting.tokens[waiting.done..waiting.done + *share];
            let work = Work { sequence: waiting.sequence, tokens, wanted: waiting.wanted };
            if let Err(error) = backend.step(&[work], &mut waiting.output) {
                *share = 0;
                over[index] = Some(Err(error));
            }
        }
        self.advance(over);
    }

    /// Sends those away that only run alone, without a token: they go on with steps.
    pub fn send_away(&mut self, line: &Line) {
        for _ in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.pop_front() else { return };
            if waiting.draw.is_some() {
                line.expect(waiting.owed.desk().into_iter());
                waiting.reply(Ok(()), &mut self.spare);
            } else {
                self.waiting.push_back(waiting);
            }
        }
    }

    /// Whether a prompt waits.
    pub fn has_prompt(&self) -> bool {
        self.waiting.iter().any(Waiting::is_prompt)
    }

    /// Takes in again what goes on, or refuses it.
    pub fn again(&mut self, waiting: Waiting, backend: &dyn Backend, context: usize) {
        match waiting.check(backend, context) {
            Ok(()) => self.waiting.push_back(waiting),
            Err(error) => waiting.reply(Err(error), &mut self.spare),
        }
    }

    /// Counts what has run.
    fn advance(&mut self, over: &mut [Option<Result<(), BackendError>>]) {
        for ((waiting, &share), over) in self.waiting.iter_mut().zip(&self.shares).zip(over) {
            waiting.done += share;
            if share > 0 && waiting.left() == 0 {
                *over = Some(Ok(()));
            }
        }
    }

    /// Gives each its rows of the output, in the order of the work.
    fn hand_out(&mut self, vocab: usize) {
        let Steps { waiting, shares, output, .. } = self;
        let (mut picks, mut logits) = (&output.picks[..], &output.logits[..]);
        for (waiting, _) in waiting.iter_mut().zip(&*shares).filter(|(_, share)| **share > 0) {
            let rows = waiting.wanted.rows(waiting.tokens.len());
            let own = &mut waiting.output;
            if waiting.wanted.is_logits() {
                let (mine, rest) = logits.split_at(rows * vocab);
                own.logits.resize(mine.len(), 0.0);
                own.logits.copy_from_slice(mine);
                logits = rest;
            } else {
                let (mine, rest) = picks.split_at(rows);
                own.picks.clear();
                own.picks.extend_from_slice(mine);
                picks = rest;
            }
        }
    }
}
