//! From the first token of an answer to the last one nothing is allocated: not by the loop, not by the sampler, not by the
//! text.

mod support;

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use rawloop_engine::fake::FakeBackend;
use rawloop_engine::speculate::DEEPEST;
use rawloop_engine::{Draft, Event, GenerateOptions, SamplingOptions, Session};
use rawloop_testkit::allocations::{self, Counting};
use support::tiny;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_token_path_does_not_allocate() {
    let sampled = SamplingOptions { temperature: 1.0, top_k: 64, top_p: 0.95, ..SamplingOptions::greedy() };
    let cases = [
        ("greedy", SamplingOptions::greedy()),
        ("sampled", sampled.clone()),
        ("passages", SamplingOptions { dry: 0.8, ..sampled.clone() }),
        ("whole vocabulary", SamplingOptions { top_k: 0, ..sampled.clone() }),
        ("penalties", SamplingOptions { repetition: 1.2, presence: 0.3, ..sampled.clone() }),
        ("typical and min-p", SamplingOptions { typical: 0.9, min_p: 0.01, ..sampled.clone() }),
        ("log-probabilities", SamplingOptions { log_probabilities: Some(5), ..sampled }),
    ];
    let drafts = [Draft::Off, Draft::Fixed(3), Draft::Auto, Draft::Lookup];
    for ((name, sampling), draft) in cases.iter().flat_map(|case| drafts.map(|draft| (case, draft))) {
        let (backend, _) = FakeBackend::new(4096, 400, 64, FakeBackend::hashed(4096, 106, 1 << 40));
        // Right at every other position.
        let right = FakeBackend::hashed(4096, 106, 1 << 40);
        let backend =
            backend.drafting(Box::new(move |ids| if ids.len().is_multiple_of(2) { right(ids) } else { 7 }));
        let mut session = Session::new(tiny(), Box::new(backend)).unwrap();
        let options = GenerateOptions {
            sampling: sampling.clone(),
            thinking_budget: Some(10),
            draft,
            stop_strings: vec!["no such text".into()],
            ignore_eos: true,
            ..GenerateOptions::greedy(300)
        };
        let prompt: Vec<u32> = (200..250).collect();
        let never = AtomicBool::new(false);
        // How deep `Auto` drafts, and when, depends on measured times; the room for the widest step is made here.
        let widest = GenerateOptions { draft: Draft::Fixed(DEEPEST), ..options.clone() };
        session.generate(&prompt, &widest, &never, &mut |_| ControlFlow::Continue(())).unwrap();
        let mut at_token = [0; 300];
        let mut tokens = 0;
        session
            .generate(&prompt, &options, &never, &mut |event| {
                if let Event::Token { .. } = event {
                    at_token[tokens] = allocations::here();
                    tokens += 1;
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(tokens, 300, "{name}, {draft:?}");
        // Buffers may grow during the first few tokens.
        assert_eq!(at_token[299] - at_token[40], 0, "{name}, {draft:?}");
    }
}
