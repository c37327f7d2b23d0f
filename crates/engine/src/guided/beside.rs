//! Masks that are found while the model's step runs.
//!
//! What can follow depends on the tokens accepted so far and on nothing else, so it is known before the step over the last of them
//! has begun. Where that step leaves a core idle (a device computes it, or fewer threads than there are cores) another
//! thread finds the mask meanwhile. Where every core is busy with the step that would only slow it down.
//!
//! Measured with 262,144 tokens on two shared cores: a mask of a JSON schema takes 22 us (0.2 ms at most), one of a Lark grammar
//! of words 1.5 ms (9 ms at most), what must follow 3 us, handing it all over and back 15 us. With steps of 0.4 ms a token of
//! JSON took 0.44 ms in place of 0.48, one of the Lark grammar 1.0 in place of 1.4; with steps of 5 ms 5.07 in place of 5.2,
//! and 5.08 in place of 6.1 (medians).

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::{Constraint, GuidedError};

/// A thread that finds masks. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Beside {
    /// There until it is dropped.
    there: Option<SyncSender<Box<Constraint>>>,
    back: Receiver<Box<Constraint>>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Begins a thread, where steps on `threads` threads leave a core to it and the system gives one.
    pub fn of(threads: usize) -> Option<Beside> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if threads < cores { Beside::start() } else { None }
    }

    fn start() -> Option<Beside> {
        let (there, work) = sync_channel::<Box<Constraint>>(1);
        let (done, back) = sync_channel(1);
        let find = move || {
            while let Ok(mut constraint) = work.recv() {
                // A failure is one of the constraint's and comes out of it again when the mask is asked for.
                let _ = constraint.mask();
                if done.send(constraint).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("mask".into()).spawn(find).ok()?;
        Some(Beside { there: Some(there), back, thread: Some(thread) })
    }

    /// Hands a constraint over; it comes back where nobody takes it.
    pub fn hand_over(&self, constraint: Box<Constraint>) -> Result<(), Box<Constraint>> {
        match &self.there {
            Some(there) => there.send(constraint).map_err(|refused| refused.0),
            None => Err(constraint),
        }
    }

    /// Takes it back, with its mask.
    ///
    /// # Errors
    /// The thread has failed, and the constraint is lost with it.
    pub fn take_back(&self) -> Result<Box<Constraint>, GuidedError> {
        self.back.recv().map_err(|_| GuidedError::Failed("the thread that finds masks has failed".into()))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.there = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::guided::{AnswerPlan, Environment, Grammar};
    use std::sync::Arc;

    #[test]
    fn there_is_one_only_where_a_core_is_left() {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        assert!(Beside::of(cores).is_none() && Beside::of(usize::MAX).is_none());
        assert!(Beside::of(0).is_some());
    }

    /// What comes back has its mask, the one that would have been found here.
    #[test]
    fn a_constraint_comes_back_with_the_mask_that_it_would_have_had() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let json = std::fs::read(root.join("models/tiny/checkpoint/tokenizer.json")).unwrap();
        let tokenizer = rawloop_tokenizer::Tokenizer::load(rawloop_tokenizer::bake(&json).unwrap()).unwrap();
        let environment = Environment::new(&tokenizer).unwrap();
        let grammar = Grammar::regex("[a-c ]+[.] [0-9]{3}").unwrap();
        let compiled = Arc::new(environment.compile(&grammar).unwrap());
        let beside = Beside::start().unwrap();
        let plan = AnswerPlan::grammar(compiled);
        let (mut here, mut there) = (plan.begin(&environment), Box::new(plan.begin(&environment)));
        let mut found = 0;
        for id in tokenizer.encode("a cab. 123", rawloop_tokenizer::SpecialTokens::Text) {
            here.accept(id).unwrap();
            there.accept(id).unwrap();
            // As a loop does: what must follow is asked for first.
            there.forced().unwrap();
            found += usize::from(!there.is_ready());
            beside.hand_over(there).unwrap();
            there = beside.take_back().unwrap();
            assert!(there.is_ready());
            assert_eq!(there.mask().unwrap().0, here.mask().unwrap().0);
            assert_eq!(there.is_complete().unwrap(), here.is_complete().unwrap());
        }
        assert!(found > 3, "most masks are found there: {found}");
        assert!(there.is_complete().unwrap());
    }
}
