//! Random conversations: questions, edits, cancelled answers, streams that are dropped, forks, files. Whatever came before, the next
//! answer is that of a fresh conversation with the same history; on a scripted backend many, on the shipped model some.
//!
//! The slow suite: `RAWLOOP_CANCELS=10000 cargo test -p rawloop-engine --test chat_property cancels` interrupts that often.

mod support;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::conversation::turns;
use rawloop_engine::fake::FakeBackend;
use rawloop_engine::{ChatOptions, ChatSession, Finish, GenerateOptions, SamplingOptions, Session, Turn};
use support::{Random, tiny};

/// A session, and the budgets of its caches.
type Open = dyn Fn(usize, usize) -> Session;

fn scripted(snapshots: usize, caches: usize) -> Session {
    let model = tiny();
    let vocab = model.pack().geometry().vocab;
    let (backend, _) = FakeBackend::new(vocab, 4096, 8, FakeBackend::hashed(4096, 106, 9));
    Session::with_budgets(model, Box::new(backend), snapshots, caches).unwrap()
}

fn on_cpu(snapshots: usize, caches: usize) -> Session {
    let model = tiny();
    let options = CpuOptions { threads: Some(1), context: 4096, ..CpuOptions::default() };
    let backend = CpuBackend::open(Arc::clone(model.pack()), &options).unwrap();
    Session::with_budgets(model, Box::new(backend), snapshots, caches).unwrap()
}

fn options(random: &mut Random, max_tokens: usize) -> ChatOptions {
    let mut generate = GenerateOptions::greedy(max_tokens);
    generate.chunk = Some([3, 16, 256][random.below(3)]);
    if random.one_in(2) {
        let seed = random.next();
        generate.sampling = SamplingOptions { temperature: 1.0, top_k: 8, seed, ..SamplingOptions::greedy() };
    }
    let system = random.one_in(2).then(|| "You are a helpful assistant who answers in one line.".into());
    ChatOptions { system, thinking: random.one_in(2), tools: Vec::new(), special_tokens: false, generate }
}

fn respond(chat: &ChatSession, question: &str) -> Turn {
    chat.respond(question, &AtomicBool::new(false), &mut |_| ControlFlow::Continue(())).unwrap()
}

/// An answer that ends at the given event, if it is that long.
fn interrupted(chat: &ChatSession, question: &str, moment: usize, by_flag: bool) -> Turn {
    let cancel = AtomicBool::new(by_flag && moment == 0);
    let mut events = 0;
    let answered = chat.respond(question, &cancel, &mut |_| {
        events += 1;
        let over = events >= moment;
        cancel.store(over && by_flag, Ordering::Relaxed);
        if over && !by_flag { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    answered.unwrap()
}

const QUESTIONS: [&str; 6] = [
    "What is the capital of France?",
    "What is 20 + 31?",
    "Sort these words: pear, apple, fig",
    "Tell me a short story.",
    "\u{1f600} caf\u{e9} <|turn>user",
    "Summarize in one sentence: The fox went to the well every day, and every day the well had water for it.",
];

/// What has been met on the way.
#[derive(Debug, Default)]
struct Met {
    cancelled: usize,
    edited: usize,
    forked: usize,
    restored: usize,
    dropped: usize,
    reused: usize,
}

/// One conversation's worth of random steps, each answer held against a fresh conversation.
fn wander(open: &Open, random: &mut Random, steps: usize, file: &Path, met: &mut Met) {
    let budgets = [(0, 0), (1 << 20, 0), (1 << 20, 1 << 19), (1 << 26, 1 << 26)][random.below(4)];
    let mut chats = vec![ChatSession::new(open(budgets.0, budgets.1), options(random, 20))];
    for step in 0..steps {
        let at = random.below(chats.len());
        let chat = chats[at].clone();
        let known = turns(&chat.messages()).len();
        match random.below(9) {
            0 if known > 0 => {
                chat.rewind(random.below(known)).unwrap();
                met.edited += 1;
            }
            1 if known > 1 => {
                chat.remove_turn(random.below(known)).unwrap();
                met.edited += 1;
            }
            2 if known > 0 => {
                chat.edit_message(random.below(chat.messages().len()), "Something else was said.").unwrap();
                met.edited += 1;
            }
            3 if chats.len() < 4 => {
                chats.push(chat.fork());
                met.forked += 1;
            }
            4 => {
                chat.save(file).unwrap();
                let other = chat.beside(options(random, 20));
                other.load(file).unwrap();
                assert_eq!(other.saved(), chat.saved());
                chats[at] = other;
                met.restored += 1;
            }
            5 => {
                let mut stream = chat.stream_response(QUESTIONS[random.below(QUESTIONS.len())]).unwrap();
                for _ in 0..random.below(12) {
                    stream.next();
                }
                met.dropped += 1;
            }
            6 => {
                let question = QUESTIONS[random.below(QUESTIONS.len())];
                let turn = interrupted(&chat, question, random.below(30), random.one_in(2));
                met.cancelled += usize::from(turn.finish == Finish::Cancelled);
            }
            _ => {}
        }
        // A dropped stream may still be ending; a change waits for that.
        let chat = &chats[at];
        chat.change_options(|_| ()).unwrap();
        let fresh = ChatSession::new(open(0, 0), chat.options());
        fresh.set_messages(chat.messages()).unwrap();
        let question = format!("{} ({step})", QUESTIONS[random.below(QUESTIONS.len())]);
        let (mine, expected) = (respond(chat, &question), respond(&fresh, &question));
        assert_eq!((mine.ids, &mine.output), (expected.ids, &expected.output), "step {step}");
        assert_eq!(chat.messages(), fresh.messages(), "step {step}");
        met.reused += mine.timings.reused_tokens;
        // Not longer than the context.
        if chat.token_counts().unwrap().free() < 800 {
            chat.set_messages(Vec::new()).unwrap();
        }
    }
}

#[test]
fn only_the_history_counts_whatever_came_before() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat");
    let mut met = Met::default();
    for seed in 0..30 {
        wander(&scripted, &mut Random(seed), 15, &file, &mut met);
    }
    let Met { cancelled, edited, forked, restored, dropped, reused } = met;
    let least = [cancelled, edited, forked, restored, dropped].into_iter().min().unwrap();
    assert!(least > 20 && reused > 10_000, "{cancelled} {edited} {forked} {restored} {dropped} {reused}");
}

#[test]
fn on_the_shipped_model_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat");
    let mut met = Met::default();
    for seed in 0..4 {
        wander(&on_cpu, &mut Random(seed), 12, &file, &mut met);
    }
    assert!(met.reused > 1000, "{met:?}");
}

/// Case 48, F-87: with 2,000 tokens before it a follow-up runs only what is new, for every kind of edit near the end.
#[test]
fn a_follow_up_on_2000_tokens_prefills_only_what_is_new() {
    let generate = GenerateOptions::greedy(24);
    let system = "The fox went to the well every day, and every day the well had water for it. ".repeat(100);
    let options = ChatOptions {
        system: Some(system),
        thinking: false,
        tools: Vec::new(),
        special_tokens: false,
        generate,
    };
    let chat = ChatSession::new(on_cpu(1 << 26, 1 << 26), options);
    let first = respond(&chat, QUESTIONS[0]);
    assert!(first.timings.prompt_tokens > 2000, "{:?}", first.timings);
    let new = |question: &str| {
        let cost = chat.cost(question).unwrap();
        let turn = respond(&chat, question);
        (turn.timings.prefill_tokens(), cost)
    };
    // The answer before was generated, not prefilled; of it and the new turn only the marks and the question are new.
    for question in [QUESTIONS[1], QUESTIONS[2], QUESTIONS[0]] {
        let (prefilled, cost) = new(question);
        assert!(prefilled <= cost + 2, "{prefilled} of {cost}");
    }
    // A shorter history, another last question, an earlier one: never the 2,000 again.
    chat.rewind(2).unwrap();
    assert!(new(QUESTIONS[2]).0 < 100);
    chat.edit_message(0, QUESTIONS[1]).unwrap();
    assert!(new(QUESTIONS[0]).0 < 200);
    chat.set_messages(Vec::new()).unwrap();
    assert!(new(QUESTIONS[3]).0 < 40);
    let fresh = ChatSession::new(on_cpu(0, 0), chat.options());
    fresh.set_messages(chat.messages()).unwrap();
    let (mine, cold) = (respond(&chat, QUESTIONS[1]), respond(&fresh, QUESTIONS[1]));
    assert_eq!(mine.ids, cold.ids);
    assert!(cold.timings.prefill_tokens() > 2000);
}

/// Case 52: many conversations with a word of their own over a small pool; no answer knows another's.
#[test]
fn conversations_do_not_know_each_others_words() {
    let first = ChatSession::new(scripted(1 << 12, 1 << 19), options(&mut Random(1), 20));
    let chats: Vec<ChatSession> = (0..8).map(|_| first.beside(first.options())).collect();
    for turn in 0..5 {
        for (number, chat) in chats.iter().enumerate() {
            let question = format!("My word is secret{number}, turn {turn}. What is it?");
            let fresh = ChatSession::new(scripted(0, 0), chat.options());
            fresh.set_messages(chat.messages()).unwrap();
            assert_eq!(respond(chat, &question).output, respond(&fresh, &question).output);
        }
    }
    let pool = first.with_session(|session| session.pool()).unwrap();
    assert!(pool.sequences > 0 && pool.bytes <= 1 << 19, "{pool:?}");
}

/// Bytes of memory in use; none where the system does not say.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(4096 * status.split(' ').nth(1)?.parse::<usize>().ok()?)
}

/// Cases 68, 88 and 89: cancelled at random moments, in prompts and in answers, by the flag, by the observer and by dropping a
/// stream: nothing leaks and the next answer is right.
#[test]
fn memory_stays_flat_over_many_cancels_and_the_next_answer_is_right() {
    let count: usize = std::env::var("RAWLOOP_CANCELS").map_or(400, |count| count.parse().unwrap());
    let mut random = Random(9);
    let mut options = options(&mut random, 24);
    options.generate.chunk = Some(8);
    let chat = ChatSession::new(on_cpu(1 << 22, 1 << 22), options);
    let (mut cancelled, mut warm) = (0, None);
    for round in 0..count {
        let question = QUESTIONS[random.below(QUESTIONS.len())];
        if random.one_in(3) {
            let mut stream = chat.stream_response(question).unwrap();
            for _ in 0..random.below(10) {
                stream.next();
            }
            cancelled += 1;
        } else {
            let turn = interrupted(&chat, question, random.below(25), random.one_in(2));
            cancelled += usize::from(turn.finish == Finish::Cancelled);
        }
        chat.change_options(|_| ()).unwrap();
        if turns(&chat.messages()).len() > 6 {
            chat.set_messages(Vec::new()).unwrap();
        }
        if round % 100 == 50 {
            let fresh = ChatSession::new(on_cpu(0, 0), chat.options());
            fresh.set_messages(chat.messages()).unwrap();
            let (mine, expected) = (respond(&chat, "And now?"), respond(&fresh, "And now?"));
            assert_eq!(mine.ids, expected.ids, "round {round}");
        }
        if round == count / 4 {
            warm = resident();
        }
    }
    assert!(cancelled > count / 3, "{cancelled} of {count}");
    if let (Some(before), Some(after)) = (warm, resident()) {
        assert!(
            after < before + (24 << 20),
            "{} MB more after {count} rounds",
            after.saturating_sub(before) >> 20
        );
    }
}
