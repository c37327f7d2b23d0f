//! Ctrl-C at 200 moments of conversations, in prompts and in answers: what is said next is what a conversation with the same
//! history says that was never interrupted.

mod support;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::{ChatOptions, ChatSession, Finish, GenerateOptions, Session, Turn};
use support::{Random, tiny};

const QUESTIONS: [&str; 5] = [
    "What is the capital of France?",
    "Tell me a short story.",
    "What is 20 + 31?",
    "Sort these words: pear, apple, fig",
    "Summarize in one sentence: The fox went to the well every day, and every day the well had water for it.",
];
/// Longer than the window, shorter than the context.
const MESSAGES: usize = 16;

fn chat() -> ChatSession {
    let model = tiny();
    let options = CpuOptions { threads: Some(2), context: 2048, ..CpuOptions::default() };
    let backend = CpuBackend::open(Arc::clone(model.pack()), &options).unwrap();
    let mut generate = GenerateOptions::greedy(24);
    generate.chunk = Some(8);
    let options =
        ChatOptions { system: None, thinking: false, tools: Vec::new(), special_tokens: false, generate };
    ChatSession::new(Session::new(model, Box::new(backend)).unwrap(), options)
}

/// Answers, and interrupts at event number `moment`: a chunk of the prompt, a token, or a piece of text.
fn respond(chat: &ChatSession, question: &str, moment: usize) -> Turn {
    let cancel = AtomicBool::new(moment == 0);
    let mut events = 0;
    let answered = chat.respond(question, &cancel, &mut |_| {
        events += 1;
        cancel.store(events >= moment, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    answered.unwrap()
}

#[test]
fn after_200_interrupts_conversations_go_on_as_if_there_had_been_none() {
    let mut random = Random(3);
    let chat = chat();
    let (mut in_prompts, mut in_answers, mut turns) = (0, 0, 0);
    while in_prompts + in_answers < 200 {
        turns += 1;
        assert!(turns < 1000, "{in_prompts} {in_answers}");
        if chat.messages().len() > MESSAGES {
            chat.set_messages(Vec::new()).unwrap();
        }
        let [question, next] = [0; 2].map(|_| QUESTIONS[random.below(QUESTIONS.len())]);
        let interrupted = respond(&chat, question, random.below(30));
        if interrupted.finish != Finish::Cancelled {
            continue;
        }
        *(if interrupted.ids.is_empty() { &mut in_prompts } else { &mut in_answers }) += 1;
        let history = chat.messages().to_vec();
        let said = respond(&chat, next, usize::MAX);
        let uninterrupted = self::chat();
        uninterrupted.set_messages(history).unwrap();
        let expected = respond(&uninterrupted, next, usize::MAX);
        assert_eq!((said.ids, said.output), (expected.ids, expected.output), "turn {turns}: {next}");
        assert_eq!(chat.messages(), uninterrupted.messages(), "turn {turns}");
    }
    assert!(in_prompts > 30 && in_answers > 30, "{in_prompts} in prompts, {in_answers} in answers");
}
