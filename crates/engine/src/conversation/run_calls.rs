//! The calls of one answer: asked about, run, and their results made to fit.
//!
//! Whoever approves is asked about every call, one after the other, before the first one runs. Then they run in their order;
//! neighbours whose tools say that they may ([`ToolFunction::is_concurrent`](crate::tools::ToolFunction::is_concurrent)) run
//! at once, each on a thread of its own. Results are in the order of the calls in either case.
//!
//! A result can be longer than what is left of the context, and the command that gave it has run: the turn cannot be taken
//! back. So results are cut until the answer has room, and say how much was cut.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::thread;

use serde_json::Value;

use super::tool_turn::{Approval, CANCELLED, Watch};
use super::turn::{ChatOptions, Prompt};
use crate::EngineError;
use crate::chat::{Content, Message};
use crate::model::Model;
use crate::tools::{PendingCall, ToolError, Toolbox};

/// The share of the context that results leave to the answer, where it may be as long.
const ANSWER: usize = 8;
/// Bytes a position that no text has, as far as results are concerned: what is longer is cut without counting its tokens.
const WIDEST: usize = 16;

type Outcome = Result<Value, ToolError>;

/// Runs calls, as far as they may. The results are in their order.
pub(super) fn run(calls: &[PendingCall], toolbox: &Toolbox, watch: &mut Watch<'_>) -> Vec<Outcome> {
    let cancelled = || ToolError::Failed(CANCELLED.into());
    let mut results: Vec<Option<Outcome>> = Vec::with_capacity(calls.len());
    for call in calls {
        let refused = if watch.cancel.load(Ordering::Relaxed) {
            Some(cancelled())
        } else {
            match (watch.approve)(call) {
                Approval::Run => None,
                Approval::Refuse(reason) => Some(ToolError::Failed(reason)),
            }
        };
        results.push(refused.map(Err));
    }
    let mut next = 0;
    while next < calls.len() {
        let batch = batch(calls, &results, toolbox, next);
        let waiting: Vec<usize> = batch.clone().filter(|&index| results[index].is_none()).collect();
        next = batch.end;
        if watch.cancel.load(Ordering::Relaxed) {
            waiting.iter().for_each(|&index| results[index] = Some(Err(cancelled())));
            continue;
        }
        let outcomes = at_once(&waiting, |index| call(toolbox, &calls[index]));
        for (index, outcome) in waiting.into_iter().zip(outcomes) {
            results[index] = Some(outcome);
        }
    }
    // Each one has a result: it was refused, cancelled or in one of the batches.
    results.into_iter().map(|result| result.unwrap_or_else(|| Err(cancelled()))).collect()
}

/// From a call on, as many as may run at the same time: one, or neighbours that all allow it. Refused ones are in nobody's way.
fn batch(
    calls: &[PendingCall],
    results: &[Option<Outcome>],
    toolbox: &Toolbox,
    start: usize,
) -> std::ops::Range<usize> {
    let alone = |&index: &usize| results[index].is_none() && !toolbox.is_concurrent(&calls[index].name);
    if alone(&start) {
        return start..start + 1;
    }
    start..(start + 1..calls.len()).find(alone).unwrap_or(calls.len())
}

/// Does something for each index, on threads where there are several.
fn at_once(indices: &[usize], work: impl Fn(usize) -> Outcome + Sync) -> Vec<Outcome> {
    if let [only] = indices {
        return vec![work(*only)];
    }
    let work = &work;
    thread::scope(|scope| {
        let started: Vec<_> = indices
            .iter()
            .map(|&index| thread::Builder::new().name("tool".into()).spawn_scoped(scope, move || work(index)))
            .collect();
        let wait =
            |(thread, &index): (std::io::Result<thread::ScopedJoinHandle<'_, Outcome>>, &usize)| match thread
            {
                Ok(thread) => thread.join().unwrap_or_else(|_| Err(panicked())),
                // The system gives no more threads.
                Err(_) => work(index),
            };
        started.into_iter().zip(indices).map(wait).collect()
    })
}

fn call(toolbox: &Toolbox, call: &PendingCall) -> Outcome {
    // A tool is not the engine's code, and the conversation is not the tool's to end.
    catch_unwind(AssertUnwindSafe(|| toolbox.call(&call.name, call.arguments.clone())))
        .unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> ToolError {
    ToolError::Failed("the tool failed: it panicked".into())
}

/// Cuts results so that the prompt behind them leaves room for an answer: the longest first, all to the same length. What
/// cannot be made to fit is cut to nothing but its note.
///
/// # Errors
/// Messages that cannot be rendered.
pub(super) fn fit(
    model: &Model,
    options: &ChatOptions,
    history: &[Message],
    results: &mut [Message],
    context: usize,
) -> Result<(), EngineError> {
    let answer = options.generate.max_tokens.clamp(1, (context / ANSWER).max(1));
    let fits = |results: &[Message]| {
        let all: Vec<Message> = history.iter().chain(results).cloned().collect();
        Ok::<_, EngineError>(Prompt::render(model, options, &all)?.ids.len() + answer <= context)
    };
    let longest = results.iter().map(|result| text(result).len()).max().unwrap_or(0);
    if longest <= WIDEST * context && fits(results)? {
        return Ok(());
    }
    let cut_to = |most: usize| results.iter().map(|result| cut(result, most)).collect::<Vec<_>>();
    let (mut low, mut high) = (0, longest.min(WIDEST * context));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(&cut_to(middle))? {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let cut = cut_to(low);
    results.clone_from_slice(&cut);
    Ok(())
}

fn text(result: &Message) -> &str {
    match &result.content {
        Some(Content::Text(text)) => text,
        _ => "",
    }
}

/// A result of at most so many bytes, and a note where it was longer.
fn cut(result: &Message, most: usize) -> Message {
    let whole = text(result);
    if whole.len() <= most {
        return result.clone();
    }
    let kept = &whole[..whole.floor_char_boundary(most)];
    let (cut, all) = (whole.len() - kept.len(), whole.len());
    let note = format!("[{cut} of {all} bytes were cut off: the context is nearly full]");
    let text = if kept.is_empty() { note } else { format!("{kept}\n{note}") };
    Message { content: Some(Content::Text(text)), ..result.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Role;
    use crate::tools::{concurrent, function};
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    fn calls(names: &[&str]) -> Vec<PendingCall> {
        let call = |(index, name): (usize, &&str)| PendingCall {
            index,
            id: None,
            name: (*name).into(),
            arguments: serde_json::Map::new(),
        };
        names.iter().enumerate().map(call).collect()
    }

    fn run_all(
        names: &[&str],
        toolbox: &Toolbox,
        approve: &mut dyn FnMut(&PendingCall) -> Approval,
    ) -> Vec<String> {
        let cancel = AtomicBool::new(false);
        let mut on_event = |_: crate::ChatEvent<'_>| ControlFlow::Continue(());
        let mut watch = Watch { cancel: &cancel, approve, on_event: &mut on_event };
        let say =
            |outcome: Outcome| outcome.map_or_else(|error| error.to_string(), |value| value.to_string());
        run(&calls(names), toolbox, &mut watch).into_iter().map(say).collect()
    }

    /// Two tools of which each waits for the other.
    fn pair() -> (impl crate::tools::ToolFunction, impl crate::tools::ToolFunction) {
        let (to_a, from_b) = channel();
        let (to_b, from_a) = channel();
        let meet = |name: &str, to: Sender<()>, from: std::sync::mpsc::Receiver<()>| {
            let ends = Mutex::new((to, from));
            concurrent(function(name, "", move |(): ()| {
                let (to, from) = &*ends.lock().map_err(|_| "poisoned")?;
                to.send(()).map_err(|_| "gone")?;
                // A minute without the other is no slow machine.
                from.recv_timeout(Duration::from_secs(60)).map(|()| "met").map_err(|_| "alone")
            }))
        };
        (meet("a", to_b, from_b), meet("b", to_a, from_a))
    }

    #[test]
    fn tools_that_may_run_at_once_and_their_results_keep_their_order() {
        let (a, b) = pair();
        let asked = Mutex::new(Vec::new());
        let toolbox = Toolbox::new()
            .with(a)
            .with(b)
            .with(concurrent(function("c", "", |(): ()| Ok::<_, String>("never asked for"))));
        let results = run_all(&["a", "c", "b"], &toolbox, &mut |call| {
            asked.lock().unwrap().push(call.name.clone());
            if call.name == "c" { Approval::Refuse("no".into()) } else { Approval::Run }
        });
        assert_eq!(results, ["\"met\"", "no", "\"met\""]);
        assert_eq!(asked.into_inner().unwrap(), ["a", "c", "b"], "one after the other");
    }

    #[test]
    fn other_tools_have_the_machine_to_themselves_and_everybody_is_asked_first() {
        let (running, approved) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tool = |name: &str| {
            let (running, approved) = (Arc::clone(&running), Arc::clone(&approved));
            function(name, "", move |(): ()| {
                let others = running.fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, String>((others, approved.load(Ordering::SeqCst)))
            })
        };
        let toolbox = Toolbox::new().with(tool("alone")).with(concurrent(tool("any")));
        let results = run_all(&["any", "alone", "alone", "any"], &toolbox, &mut |_| {
            approved.fetch_add(1, Ordering::SeqCst);
            Approval::Run
        });
        assert_eq!(results, ["[0,4]"; 4]);
    }

    #[test]
    fn a_tool_that_panics_is_a_call_that_failed() {
        let broken = |name: &str| {
            function(name, "", |(): ()| -> Result<(), String> {
                std::panic::resume_unwind(Box::new("broken"));
            })
        };
        let toolbox = Toolbox::new().with(broken("one")).with(concurrent(broken("any")));
        let results = run_all(&["one", "any", "any", "none"], &toolbox, &mut |_| Approval::Run);
        assert!(results[..3].iter().all(|result| result.contains("panicked")), "{results:?}");
        assert!(results[3].contains("there is no tool `none`"), "{results:?}");
    }

    #[test]
    fn a_cut_result_says_how_much_is_missing() {
        let mut result = Message::new(Role::Tool, "ab\u{e9}cd");
        result.tool_call_id = Some("x".into());
        assert_eq!(cut(&result, 6), result);
        let short = cut(&result, 3);
        assert_eq!(
            text(&short),
            "ab\n[4 of 6 bytes were cut off: the context is nearly full]",
            "no half character"
        );
        assert_eq!(short.tool_call_id, result.tool_call_id);
        assert!(text(&cut(&result, 0)).starts_with("[6 of 6"));
    }
}
