//! Shared by the tests of constrained output: the tiny tokenizer's environment, a seeded source of numbers, and a walk that
//! takes allowed tokens at random, as a model that knows nothing would.
#![allow(dead_code)] // Each test binary uses a part.

pub mod schemas;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rawloop_engine::guided::{AnswerPlan, CompiledGrammar, Constraint, Environment, Grammar};
use rawloop_engine::sample::Mask;
use rawloop_tokenizer::{SpecialText, SpecialTokens, Tokenizer, bake};

/// The tokenizer in a file below the repository, if it is there.
pub fn tokenizer(path: &str) -> Option<Tokenizer> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let json = std::fs::read(path).ok()?;
    Some(Tokenizer::load(bake(&json).expect("bake")).expect("load"))
}

/// The tiny model's vocabulary, prepared once.
pub fn environment() -> Arc<Environment> {
    static BUILT: OnceLock<Arc<Environment>> = OnceLock::new();
    let build = || {
        let tokenizer =
            tokenizer("models/tiny/checkpoint/tokenizer.json").expect("the tiny model's tokenizer");
        Arc::new(Environment::new(&tokenizer).expect("environment"))
    };
    Arc::clone(BUILT.get_or_init(build))
}

pub fn compile(grammar: &Grammar) -> Arc<CompiledGrammar> {
    Arc::new(environment().compile(grammar).unwrap_or_else(|error| panic!("{grammar:?}: {error}")))
}

pub fn begin(grammar: &Grammar) -> Constraint {
    AnswerPlan::grammar(compile(grammar)).begin(&environment())
}

pub fn encode(text: &str) -> Vec<u32> {
    environment().tokenizer().encode(text, SpecialTokens::Text)
}

pub fn decode(ids: &[u32]) -> String {
    environment().tokenizer().decode(ids, SpecialText::Keep).expect("known ids")
}

/// SplitMix64: small, seeded, good enough to choose.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Every id that a mask shows.
pub fn allowed(mask: Mask<'_>) -> Vec<u32> {
    let bits = |(block, &word): (usize, &u32)| {
        (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| block as u32 * 32 + bit)
    };
    mask.0.iter().enumerate().flat_map(bits).collect()
}

/// An answer of allowed tokens that a stop has ended.
#[derive(Debug)]
pub struct Walk {
    /// Without the stop.
    pub ids: Vec<u32>,
    pub stop: u32,
}

/// Takes random allowed tokens up to a stop. Beyond `length` tokens it stops where it can, and prefers tokens that close
/// something.
pub fn walk(constraint: &mut Constraint, random: &mut Random, length: usize) -> Walk {
    let environment = environment();
    let tokenizer = environment.tokenizer();
    let stops =
        [environment.control().eos, environment.control().turn_close, environment.control().response_open];
    let mut ids = Vec::new();
    loop {
        assert!(ids.len() < length + 2000, "the walk does not end: {:?}", decode(&ids));
        let can_stop = constraint.can_stop().unwrap();
        let candidates = allowed(constraint.mask().unwrap());
        assert!(!candidates.is_empty(), "nothing follows {:?}", decode(&ids));
        let (ends, mut others): (Vec<u32>, Vec<u32>) = candidates.iter().partition(|id| stops.contains(id));
        assert_eq!(!ends.is_empty(), can_stop, "after {:?}", decode(&ids));
        let late = ids.len() >= length;
        if can_stop && (others.is_empty() || late || random.chance(20)) {
            let stop = *random.pick(&ends);
            constraint.accept(stop).unwrap();
            assert!(constraint.has_ended());
            return Walk { ids, stop };
        }
        if late && random.chance(90) {
            let closes = |id: &u32| {
                let text = tokenizer.token_bytes(*id).unwrap();
                tokenizer.is_special(*id) || text.iter().all(|byte| b"\"}])'".contains(byte))
            };
            let mut closing: Vec<u32> = others.iter().copied().filter(closes).collect();
            // Inside a string a bracket closes nothing.
            let quote = |id: &u32| tokenizer.is_special(*id) || tokenizer.spelling(*id) == Ok("\"");
            if closing.iter().any(quote) && random.chance(50) {
                closing.retain(quote);
            }
            if !closing.is_empty() {
                others = closing;
            }
        }
        let id = *random.pick(&others);
        constraint.accept(id).unwrap_or_else(|error| panic!("{error} after {:?}", decode(&ids)));
        ids.push(id);
    }
}
