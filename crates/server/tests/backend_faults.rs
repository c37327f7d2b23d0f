//! A backend that panics, and sessions that do: nobody is left waiting, and nothing is left behind.

mod support;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::thread;

use rawloop_engine::backend::{Backend, BackendError, StepOutput, Wanted, Work};
use rawloop_engine::fake::Call;
use rawloop_engine::guided::SharedEnvironment;
use rawloop_engine::sequence::{PoolOptions, PrefixPool, SharedPool};
use rawloop_engine::{Draft, Event, GenerateOptions, Session};
use rawloop_server::batch::{Batch, BatchOptions};
use serde_json::json;
use support::watched::{Asked, Watched, endless};
use support::{Running, tiny};

#[test]
fn a_backend_that_panics_leaves_no_caller_waiting() {
    for at in [Asked::Create, Asked::Fork, Asked::Step, Asked::Decode, Asked::Draft] {
        let times = if at == Asked::Create { 5 } else { 20 };
        let batch = Batch::start(Watched::panicking(at, times), BatchOptions::default()).unwrap();
        assert!(!batch.has_ended());
        // A run of tokens is the backend's own where nobody else is there.
        let callers = if at == Asked::Decode { 1 } else { 4 };
        thread::scope(|scope| {
            for _ in 0..callers {
                let seat = batch.seat();
                // Each goes on until it is refused: with a step, a run of tokens, or whatever else is to panic.
                scope.spawn(move || {
                    let mut backend = seat.backend();
                    let mut round = || {
                        let sequence = backend.create()?;
                        let mut output = StepOutput::default();
                        backend.step(
                            &[Work { sequence, tokens: &[5, 6], wanted: Wanted::LastPick }],
                            &mut output,
                        )?;
                        match at {
                            Asked::Fork => drop(backend.fork(sequence)?),
                            Asked::Decode => backend.decode(sequence, 7, 3, &[], &mut |_| true)?,
                            // That this fake has no drafter is an answer too.
                            Asked::Draft => drop(backend.draft(sequence, 7, 2, &mut Vec::new())),
                            Asked::Create | Asked::Step => {}
                        }
                        backend.free(sequence);
                        Ok::<_, BackendError>(())
                    };
                    while round().is_ok() {}
                });
            }
        });
        // Its callers are told while the panic is still on its way.
        while !batch.has_ended() {
            thread::yield_now();
        }
        assert!(batch.seat().backend().create().is_err());
    }
}

#[tokio::test]
async fn a_server_whose_backend_panics_says_so_to_everybody() {
    for (at, parallel) in [(Asked::Create, 2), (Asked::Step, 4), (Asked::Decode, 1)] {
        let times = if at == Asked::Create { 2 } else { 30 };
        let server = Running::with(Watched::panicking(at, times), |options| {
            (options.parallel, options.waiting, options.draft) = (parallel, 16, Draft::Off);
        });
        assert_eq!(server.get("/health").await.0, 200);
        let ask = |number: usize, stream: bool| {
            let url = server.url("/v1/chat/completions");
            let messages = json!([{ "role": "user", "content": format!("{number}") }]);
            let body = json!({ "messages": messages, "max_completion_tokens": 1_000_000, "stream": stream });
            tokio::spawn(async move {
                let response = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
                (response.status().as_u16(), response.text().await.expect("an answer ends as it should"))
            })
        };
        let asked: Vec<_> = (0..8).map(|number| ask(number, number % 2 == 0)).collect();
        for asked in asked {
            let (status, text) = asked.await.unwrap();
            assert!(matches!(status, 200 | 500 | 503), "{at:?}: {status} {text}");
            assert!(text.contains("has failed") && !text.contains("[DONE]"), "{at:?}: {status} {text}");
        }
        server.until(|app| app.core.batch.has_ended()).await;
        let (status, health) = server.get("/health").await;
        assert_eq!((status, health["status"].as_str()), (503, Some("failed")));
        let (status, text) = ask(9, false).await.unwrap();
        assert!(status == 503 && text.contains("model_failed"), "{status} {text}");
        server.idle().await;
    }
}

/// A session that a panic has ended gives back what it held: others live on with the backend.
#[test]
fn a_session_that_panics_leaves_no_sequence_behind() {
    let model = tiny();
    let (backend, log) = Watched::boxed(4096, endless(), |_| {});
    let batch = Batch::start(backend, BatchOptions::default()).unwrap();
    let environment = SharedEnvironment::new(model.tokenizer().clone());
    let pool = SharedPool::new(PrefixPool::new(PoolOptions::new(batch.seat().backend().info().cost)));
    let seat = batch.seat();
    for draft in [Draft::Off, Draft::Lookup] {
        let mut session =
            Session::on(model.clone(), Box::new(seat.backend()), pool.another(), environment.clone());
        let options = GenerateOptions { draft, ..GenerateOptions::greedy(100) };
        let answer = catch_unwind(AssertUnwindSafe(|| {
            let never = AtomicBool::new(false);
            let mut seen = 0;
            let _ = session.generate(&[2, 50, 60], &options, &never, &mut |event| {
                seen += usize::from(matches!(event, Event::Token { .. }));
                assert!(seen < 10, "the test wants a panic in an answer");
                ControlFlow::Continue(())
            });
        }));
        assert!(answer.is_err());
        drop(session);
        let calls = log.take();
        let count = |wanted: Call| calls.iter().filter(|call| **call == wanted).count();
        assert_eq!((count(Call::Create), count(Call::Free)), (1, 1));
        assert!(!batch.has_ended());
    }
}
