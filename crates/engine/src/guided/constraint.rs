//! One answer under constraints, token by token.
//!
//! The parts of an answer are in `phase.rs`; each part says what it allows, and this puts the parts and the stops together.
//! Every accepted token is remembered with the part before it, so that any number of tokens can be taken back: also across
//! the end of a thought or the begin of a call, which drafts may well contain.
//!
//! A token is accepted exactly if the mask shows it.

use super::follower::Follower;
use super::phase::{AnswerPlan, Phase, Text, Thinking};
use super::{Environment, GuidedError};
use crate::sample::Mask;
use rawloop_tokenizer::Tokenizer;

/// Ids that mean something to an answer.
#[derive(Clone, Copy, Debug)]
struct Marks {
    channel_open: u32,
    channel_close: u32,
    call_open: u32,
}

/// Who has consumed a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consumer {
    Nobody,
    Text,
    Calls,
}

/// The state of one answer. See [`crate::guided`] for how a loop uses it.
#[derive(Clone)]
pub struct Constraint {
    tokenizer: Tokenizer,
    marks: Marks,
    /// A thought has to come first.
    thought_required: bool,
    free: bool,
    text: Option<Follower>,
    calls: Option<Follower>,
    stops: Vec<u32>,
    phase: Phase,
    /// The phase before each accepted token, and who took it.
    history: Vec<(Phase, Consumer)>,
    /// What free text allows, stops and calls included.
    free_mask: Vec<u32>,
    thought_mask: Vec<u32>,
    mask: Vec<u32>,
}

impl Constraint {
    pub(super) fn new(answer: &AnswerPlan, environment: &Environment) -> Constraint {
        let control = environment.control();
        let marks = Marks {
            channel_open: control.channel_open,
            channel_close: control.channel_close,
            call_open: control.call_open,
        };
        let vocab = environment.tokenizer().vocab_size();
        let mut stops: Vec<u32> = answer.stops.iter().copied().filter(|&stop| stop < vocab).collect();
        if stops.is_empty() {
            stops = vec![control.eos, control.turn_close];
        }
        let text = &environment.text().as_slice()[..(vocab as usize).div_ceil(32)];
        let mut free_mask = text.to_vec();
        stops.iter().for_each(|&stop| allow(&mut free_mask, stop));
        if answer.calls.is_some() {
            allow(&mut free_mask, marks.call_open);
        }
        let mut thought_mask = text.to_vec();
        allow(&mut thought_mask, marks.channel_close);
        let phase = match answer.thinking {
            Thinking::Off => Phase::Start { thought: false },
            Thinking::Allowed | Thinking::Required => Phase::Start { thought: true },
            Thinking::Open => Phase::Thought,
        };
        Constraint {
            tokenizer: environment.tokenizer().clone(),
            marks,
            thought_required: answer.thinking == Thinking::Required,
            free: matches!(answer.text, Text::Free),
            text: if let Text::Grammar(grammar) = &answer.text { Some(grammar.follow()) } else { None },
            calls: answer.calls.as_ref().map(|calls| calls.follow()),
            stops,
            phase,
            history: Vec::with_capacity(1024),
            mask: vec![0; text.len()],
            free_mask,
            thought_mask,
        }
    }

    /// The tokens that can follow, stops included where the answer may end.
    ///
    /// # Errors
    /// The answer has ended, or the grammar cannot be followed any more.
    pub fn mask(&mut self) -> Result<Mask<'_>, GuidedError> {
        let may_stop = match self.phase {
            Phase::Ended => return Err(GuidedError::Ended),
            Phase::Thought => return Ok(Mask(&self.thought_mask)),
            Phase::Free => return Ok(Mask(&self.free_mask)),
            Phase::Start { thought } => {
                self.mask.fill(0);
                if thought {
                    allow(&mut self.mask, self.marks.channel_open);
                }
                self.add_parts(thought)?
            }
            Phase::Grammar => copy(&mut self.mask, &mut self.text)?,
            Phase::Calls => copy(&mut self.mask, &mut self.calls)?,
        };
        if may_stop {
            self.stops.iter().for_each(|&stop| allow(&mut self.mask, stop));
        }
        Ok(Mask(&self.mask))
    }

    /// At the start: adds what can begin. Says whether the answer may end at once.
    fn add_parts(&mut self, thought: bool) -> Result<bool, GuidedError> {
        if thought && self.thought_required {
            return Ok(false);
        }
        if self.free {
            merge(&mut self.mask, &self.free_mask);
        }
        if let Some(calls) = &mut self.calls {
            merge(&mut self.mask, calls.mask()?);
        }
        let Some(text) = &mut self.text else { return Ok(self.free) };
        merge(&mut self.mask, text.mask()?);
        text.may_stop()
    }

    /// Tokens that must follow, without asking the model: append them to the sequence and accept each. None where there is a
    /// choice.
    ///
    /// # Errors
    /// As [`Constraint::mask`].
    pub fn forced(&mut self) -> Result<&[u32], GuidedError> {
        let follower = match self.phase {
            Phase::Ended => return Err(GuidedError::Ended),
            Phase::Thought | Phase::Free => None,
            Phase::Grammar => self.text.as_mut(),
            Phase::Calls => self.calls.as_mut(),
            Phase::Start { thought: true } if self.thought_required => {
                return Ok(std::slice::from_ref(&self.marks.channel_open));
            }
            Phase::Start { thought: true } => None,
            Phase::Start { thought: false } => match (self.free, &mut self.text, &mut self.calls) {
                (false, Some(only), None) | (false, None, Some(only)) => Some(only),
                _ => None,
            },
        };
        follower.map_or(Ok(&[]), Follower::forced)
    }

    /// Goes on by a token.
    ///
    /// # Errors
    /// [`GuidedError::Refused`] where the mask does not show the token: nothing has changed. Otherwise as
    /// [`Constraint::mask`].
    pub fn accept(&mut self, token: u32) -> Result<(), GuidedError> {
        let before = self.phase;
        if before == Phase::Ended {
            return Err(GuidedError::Ended);
        }
        let (after, consumer) = if self.stops.contains(&token) && self.can_stop()? {
            (Phase::Ended, Consumer::Nobody)
        } else {
            self.step(token)?.ok_or_else(|| self.refused(token))?
        };
        self.history.push((before, consumer));
        self.phase = after;
        Ok(())
    }

    /// Where a token that is no stop leads, or nothing where it is not allowed.
    fn step(&mut self, token: u32) -> Result<Option<(Phase, Consumer)>, GuidedError> {
        let Marks { channel_open, channel_close, call_open } = self.marks;
        let unless_refused = |accepted: bool, phase, consumer| accepted.then_some((phase, consumer));
        Ok(match self.phase {
            Phase::Ended => None,
            Phase::Thought if token == channel_close => {
                Some((Phase::Start { thought: false }, Consumer::Nobody))
            }
            Phase::Thought => {
                unless_refused(Mask(&self.thought_mask).allows(token), Phase::Thought, Consumer::Nobody)
            }
            Phase::Start { thought: true } if token == channel_open => {
                Some((Phase::Thought, Consumer::Nobody))
            }
            Phase::Start { thought: true } if self.thought_required => None,
            Phase::Start { .. } | Phase::Free if token == call_open => {
                unless_refused(take(&mut self.calls, token)?, Phase::Calls, Consumer::Calls)
            }
            Phase::Start { .. } if self.text.is_some() => {
                unless_refused(take(&mut self.text, token)?, Phase::Grammar, Consumer::Text)
            }
            Phase::Start { .. } | Phase::Free => {
                let allowed = self.free && Mask(&self.free_mask).allows(token);
                unless_refused(allowed, Phase::Free, Consumer::Nobody)
            }
            Phase::Grammar => unless_refused(take(&mut self.text, token)?, Phase::Grammar, Consumer::Text),
            Phase::Calls => unless_refused(take(&mut self.calls, token)?, Phase::Calls, Consumer::Calls),
        })
    }

    /// Whether the answer may end here.
    ///
    /// # Errors
    /// As [`Constraint::mask`], except that an answer that has ended may end.
    pub fn can_stop(&mut self) -> Result<bool, GuidedError> {
        match self.phase {
            Phase::Ended | Phase::Free => Ok(true),
            Phase::Thought => Ok(false),
            Phase::Start { thought: true } if self.thought_required => Ok(false),
            Phase::Start { .. } | Phase::Grammar => match &mut self.text {
                Some(text) => text.may_stop(),
                None => Ok(self.free),
            },
            Phase::Calls => self.calls.as_mut().map_or(Ok(true), Follower::may_stop),
        }
    }

    /// Whether nothing but a stop can follow: the answer can be ended without asking the model for it.
    ///
    /// # Errors
    /// As [`Constraint::mask`], except that an answer that has ended is complete.
    pub fn is_complete(&mut self) -> Result<bool, GuidedError> {
        match self.phase {
            Phase::Ended => Ok(true),
            Phase::Grammar => self.text.as_mut().map_or(Ok(true), Follower::is_complete),
            Phase::Calls => self.calls.as_mut().map_or(Ok(true), Follower::is_complete),
            Phase::Start { .. } | Phase::Thought | Phase::Free => Ok(false),
        }
    }

    /// The same as far as it can be told without finding a mask, which takes longer. What is complete without being known to be
    /// is told by [`Constraint::is_complete`].
    ///
    /// # Errors
    /// As [`Constraint::is_complete`].
    pub fn is_known_complete(&mut self) -> Result<bool, GuidedError> {
        match self.phase {
            Phase::Grammar => self.text.as_mut().map_or(Ok(true), Follower::is_known_complete),
            Phase::Calls => self.calls.as_mut().map_or(Ok(true), Follower::is_known_complete),
            _ => self.is_complete(),
        }
    }

    /// Whether the mask takes no work: it is there already, or always the same.
    pub fn is_ready(&self) -> bool {
        let is_ready = |part: &Option<Follower>| part.as_ref().is_none_or(Follower::is_ready);
        match self.phase {
            Phase::Ended | Phase::Thought | Phase::Free => true,
            Phase::Start { .. } => is_ready(&self.text) && is_ready(&self.calls),
            Phase::Grammar => is_ready(&self.text),
            Phase::Calls => is_ready(&self.calls),
        }
    }

    /// Whether a stop has been accepted.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether the answer is inside a thought.
    pub fn in_thought(&self) -> bool {
        self.phase == Phase::Thought
    }

    /// Tokens accepted and not taken back.
    pub fn position(&self) -> usize {
        self.history.len()
    }

    /// Takes back the last tokens.
    ///
    /// # Errors
    /// More than have been accepted; nothing has changed then.
    pub fn rollback(&mut self, tokens: usize) -> Result<(), GuidedError> {
        let held = self.history.len();
        let Some(left) = held.checked_sub(tokens) else {
            return Err(GuidedError::Rollback { wanted: tokens, held });
        };
        let Some(&(phase, _)) = self.history.get(left) else { return Ok(()) };
        let taken = |by| self.history[left..].iter().filter(|(_, consumer)| *consumer == by).count();
        let (of_text, of_calls) = (taken(Consumer::Text), taken(Consumer::Calls));
        if let Some(text) = &mut self.text {
            text.rollback(of_text)?;
        }
        if let Some(calls) = &mut self.calls {
            calls.rollback(of_calls)?;
        }
        self.history.truncate(left);
        self.phase = phase;
        Ok(())
    }

    /// How many of some drafts could follow, one after the other. The constraint is as it was.
    ///
    /// # Errors
    /// As [`Constraint::mask`].
    pub fn agrees(&mut self, drafts: &[u32]) -> Result<usize, GuidedError> {
        let mut agreed = 0;
        for &draft in drafts {
            if self.has_ended() {
                break;
            }
            match self.accept(draft) {
                Ok(()) => agreed += 1,
                Err(GuidedError::Refused { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        self.rollback(agreed)?;
        Ok(agreed)
    }

    /// A second constraint in the same place. The two go on independently; keep them on one thread, they share caches.
    pub fn fork(&self) -> Constraint {
        self.clone()
    }

    fn refused(&self, token: u32) -> GuidedError {
        let spelling = self.tokenizer.spelling(token).unwrap_or("?").to_owned();
        GuidedError::Refused { token, spelling, position: self.history.len() }
    }
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Constraint")
            .field("phase", &self.phase)
            .field("position", &self.history.len())
            .finish_non_exhaustive()
    }
}

fn allow(mask: &mut [u32], token: u32) {
    if let Some(word) = mask.get_mut(token as usize / 32) {
        *word |= 1 << (token % 32);
    }
}

fn merge(mask: &mut [u32], other: &[u32]) {
    mask.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
}

/// Copies a part's mask; says whether the part may end.
fn copy(mask: &mut [u32], part: &mut Option<Follower>) -> Result<bool, GuidedError> {
    let Some(part) = part else { return Err(GuidedError::Ended) };
    mask.copy_from_slice(part.mask()?);
    part.may_stop()
}

/// Lets a part take a token. False where it refuses, or is not there.
fn take(part: &mut Option<Follower>, token: u32) -> Result<bool, GuidedError> {
    part.as_mut().map_or(Ok(false), |part| part.accept(token))
}
