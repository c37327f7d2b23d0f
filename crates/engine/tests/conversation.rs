//! Turns: what the history holds after an answer, a cancelled one, a failed one; and that only the history counts.

mod support;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_engine::chat::{Content, Message, Role};
use rawloop_engine::fake::{FakeBackend, FakeLog, Script};
use rawloop_engine::{
    ChatEvent, ChatOptions, ChatSession, EngineError, Finish, GenerateOptions, SamplingOptions, Turn,
};
use rawloop_tokenizer::SpecialTokens;
use support::{Random, scripted, tiny};

fn options(max_tokens: usize) -> ChatOptions {
    let generate = GenerateOptions::greedy(max_tokens);
    ChatOptions {
        system: Some("Answer briefly.".into()),
        thinking: false,
        tools: Vec::new(),
        special_tokens: false,
        generate,
    }
}

fn chat(script: Script, options: ChatOptions) -> (ChatSession, FakeLog) {
    let (session, log) = scripted(1024, 8, script);
    (ChatSession::new(session, options), log)
}

/// Answers every prompt with the same text and a closed turn.
fn saying(text: &str) -> Script {
    let ids = tiny().tokenizer().encode(text, SpecialTokens::Parse);
    Box::new(move |held: &[u32]| {
        // The answer began behind the last turn marker and its two tokens `model` and newline.
        let begun = held.iter().rposition(|&id| id == 105).map_or(0, |at| at + 3);
        ids.get(held.len() - begun).copied().unwrap_or(106)
    })
}

fn respond(chat: &ChatSession, text: &str) -> Turn {
    let never = AtomicBool::new(false);
    chat.respond(text, &never, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn history(chat: &ChatSession) -> Vec<(Role, String)> {
    let text = |message: &Message| match &message.content {
        Some(Content::Text(text)) => text.clone(),
        _ => panic!("no text"),
    };
    chat.messages().iter().map(|message| (message.role, text(message))).collect()
}

#[test]
fn thoughts_are_shown_apart_and_not_kept_in_the_text() {
    let (chat, _) = chat(saying("<|channel>thought\nTwo and two.\n<channel|>It is 4."), options(64));
    let never = AtomicBool::new(false);
    let (mut thought, mut text) = (String::new(), String::new());
    let turn = chat
        .respond("2 + 2?", &never, &mut |event| {
            match event {
                ChatEvent::Reasoning(more) => thought.push_str(more),
                ChatEvent::Text(more) => text.push_str(more),
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((thought.as_str(), text.as_str()), ("Two and two.", "It is 4."));
    assert_eq!((turn.output.reasoning, turn.output.text), (thought, text));
    assert_eq!(turn.finish, Finish::Stop);
    assert_eq!(history(&chat), [(Role::User, "2 + 2?".into()), (Role::Assistant, "It is 4.".into())]);
}

#[test]
fn follow_up_turns_reuse_the_cache_and_a_new_conversation_the_system_prompt() {
    let system = "You are a helper who answers in one short line and never makes anything up. ".repeat(4);
    let mut options = options(16);
    options.system = Some(system);
    let (chat, _) = chat(saying("Yes."), options);
    let first = respond(&chat, "Is it?");
    let second = respond(&chat, "Is it still?");
    assert!(second.timings.reused_tokens > first.timings.prompt_tokens, "{:?}", second.timings);
    chat.set_messages(Vec::new()).unwrap();
    let other = respond(&chat, "Quite another question");
    let kept = other.timings.reused_tokens;
    assert!(kept > 60 && kept < first.timings.prompt_tokens, "{:?}", other.timings);
}

#[test]
fn a_call_waits_for_its_result_and_the_turn_goes_on() {
    let call = "<|tool_call>call:clock{zone:<|\"|>UTC<|\"|>}<tool_call|><|tool_response>";
    let ids = tiny().tokenizer().encode(call, SpecialTokens::Parse);
    let answer = tiny().tokenizer().encode("Noon.", SpecialTokens::Parse);
    let script = move |held: &[u32]| {
        // Behind a result comes the answer, before it the call.
        if let Some(at) = held.iter().rposition(|&id| id == 51) {
            return answer.get(held.len() - at - 1).copied().unwrap_or(106);
        }
        let begun = held.iter().rposition(|&id| id == 105).map_or(0, |at| at + 3);
        ids.get(held.len() - begun).copied().unwrap_or(106)
    };
    let (chat, _) = chat(Box::new(script), options(64));
    let turn = respond(&chat, "What time is it?");
    assert_eq!(turn.output.calls.len(), 1);
    assert_eq!((turn.output.calls[0].name.as_str(), turn.finish), ("clock", Finish::Stop));
    let mut result = Message::new(Role::Tool, "12:00");
    result.tool_call_id = chat.messages()[1].tool_calls[0].id.clone();
    let never = AtomicBool::new(false);
    let turn = chat.send(vec![result], &never, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(turn.output.text, "Noon.");
    assert!(turn.timings.reused_tokens > 20);
    assert_eq!(chat.messages().len(), 4);
}

#[test]
fn stop_strings_apply_to_what_is_shown() {
    let mut options = options(64);
    options.generate.stop_strings = vec!["Two".into(), "four".into()];
    let (chat, _) = chat(saying("<|channel>thought\nTwo.\n<channel|>It is four, of course."), options);
    let turn = respond(&chat, "2 + 2?");
    assert_eq!((turn.output.text.as_str(), turn.finish), ("It is ", Finish::Stop));
    assert_eq!(turn.output.reasoning, "Two.");
}

#[test]
fn a_failed_turn_is_taken_back() {
    let (chat, log) = chat(saying("Yes."), options(16));
    respond(&chat, "Is it?");
    let before = chat.messages().to_vec();
    log.fail_after(2);
    let never = AtomicBool::new(false);
    let failed = chat.respond("Really?", &never, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(failed, Err(EngineError::Backend(_))));
    assert_eq!(chat.messages(), before);
    let too_long = chat.respond(&"word ".repeat(2000), &never, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(too_long, Err(EngineError::Context { .. })));
    assert_eq!(chat.messages(), before);
    assert_eq!(respond(&chat, "Really?").output.text, "Yes.");
}

#[test]
fn a_cancelled_answer_is_kept_as_far_as_it_was_shown() {
    let (chat, _) = chat(saying("One two three four five."), options(64));
    let cancel = AtomicBool::new(true);
    let turn = chat.respond("Count", &cancel, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((turn.finish, chat.messages().len()), (Finish::Cancelled, 0), "nothing was shown");
    cancel.store(false, Ordering::Relaxed);
    let mut shown = String::new();
    let turn = chat
        .respond("Count", &cancel, &mut |event| {
            if let ChatEvent::Text(more) = event {
                shown.push_str(more);
                cancel.store(shown.contains("two"), Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(turn.finish, Finish::Cancelled);
    assert_eq!(history(&chat)[1], (Role::Assistant, shown.clone()));
    assert!(shown.starts_with("One two") && !shown.contains("four"), "{shown}");
}

/// Answers that are hashes of everything before them: any token, control tokens included.
#[test]
fn only_the_history_counts_however_it_came_about() {
    let mut cancelled = 0;
    for seed in 0..25 {
        let mut random = Random(seed);
        let script = || FakeBackend::hashed(4096, 106, 9);
        let mut options = options(24);
        options.thinking = random.one_in(2);
        if random.one_in(2) {
            options.generate.sampling =
                SamplingOptions { temperature: 1.0, top_k: 8, seed, ..SamplingOptions::greedy() };
        }
        let (grown, log) = chat(script(), options.clone());
        for turn in 0..8 {
            let question = format!("question {} of <|turn> {}", turn, random.below(50));
            if random.one_in(4) {
                let kept = random.below(grown.messages().len() + 1);
                let messages = grown.messages()[..kept].to_vec();
                grown.set_messages(messages).unwrap();
            }
            if random.one_in(6) {
                log.fail_after(random.below(8));
            }
            let (rebuilt, _) = chat(script(), options.clone());
            rebuilt.set_messages(grown.messages().to_vec()).unwrap();
            let expected = respond(&rebuilt, &question);
            let patience = if random.one_in(2) { random.below(30) } else { usize::MAX };
            let cancel = AtomicBool::new(false);
            let mut events = 0;
            let answered = grown.respond(&question, &cancel, &mut |_| {
                events += 1;
                cancel.store(events > patience, Ordering::Relaxed);
                ControlFlow::Continue(())
            });
            let Ok(answered) = answered else { continue };
            if answered.finish == Finish::Cancelled {
                cancelled += 1;
                assert!(expected.output.text.starts_with(&answered.output.text), "seed {seed} turn {turn}");
            } else {
                assert_eq!(answered.output, expected.output, "seed {seed} turn {turn}");
                assert_eq!(grown.messages(), rebuilt.messages());
            }
        }
    }
    assert!(cancelled > 20, "{cancelled}");
}

/// Case 40: with thinking off a model may think all the same. Nothing of the marks is shown, the thought has its own field, and
/// a stream says the same.
#[test]
fn marks_are_never_shown_although_thinking_is_off() {
    use rawloop_engine::conversation::StreamEvent;
    for (said, thought) in [
        ("<|channel>thought\n<channel|>It is 4.", ""),
        ("<|channel>thought\nTwo and two.\n<channel|>It is 4.", "Two and two."),
        ("<|channel>thought\nTwo.\n<channel|>It is<|channel>thought\nHm.\n<channel|> 4.", "Two.Hm."),
    ] {
        let chat = chat(saying(said), options(64)).0;
        assert!(!chat.options().thinking);
        let mut shown = String::new();
        let turn = chat
            .respond("2 + 2?", &AtomicBool::new(false), &mut |event| {
                if let ChatEvent::Text(text) = event {
                    shown.push_str(text);
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!((shown.as_str(), turn.output.text.as_str()), ("It is 4.", "It is 4."), "{said}");
        assert_eq!(turn.output.reasoning.replace('\n', ""), thought, "{said}");
        let stream = self::chat(saying(said), options(64)).0.stream_response("2 + 2?").unwrap();
        let (mut text, mut reasoning) = (String::new(), String::new());
        for event in stream {
            match event.unwrap() {
                StreamEvent::Delta(more) => text.push_str(&more),
                StreamEvent::ThinkingDelta(more) => reasoning.push_str(&more),
                _ => {}
            }
        }
        assert_eq!((text, reasoning), (turn.output.text, turn.output.reasoning), "{said}");
        // Nor does anything of it come back in the next prompt.
        assert_eq!(history(&chat).last().map(|(_, text)| text.as_str()), Some("It is 4."), "{said}");
    }
}

/// Cases 12 and 14: an answer ends with the end of its turn, which is not shown, and with nothing that only looks like an end.
#[test]
fn an_answer_ends_with_its_turn_and_not_with_what_looks_like_an_end() {
    let mut stops = tiny().stops().to_vec();
    stops.sort_unstable();
    assert_eq!(stops, [1, 50, 106], "from the checkpoint, not from how a token looks");
    for said in ["four", "<s>old price</s> new price", "</s>", "[INST] <|im_end|> <end_of_turn>"] {
        let turn = respond(&chat(saying(said), options(64)).0, "2 + 2?");
        assert_eq!((turn.output.text.as_str(), turn.finish), (said, Finish::Stop));
    }
}
