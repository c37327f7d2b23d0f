//! What callers do with a conversation: one turn at a time, streams that are dropped, edits, forks, files; each of it held
//! against a fresh conversation with the same history.

mod support;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_engine::chat::{Content, Message, Role};
use rawloop_engine::conversation::{SavedChat, SessionFileError, StreamEvent, turns};
use rawloop_engine::fake::{FakeBackend, FakeLog, Script};
use rawloop_engine::{
    ChatOptions, ChatSession, EngineError, Finish, GenerateOptions, ModelSource, SamplingOptions, Session,
    Turn,
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

/// Sampled answers that are hashes of everything before them.
fn chat(seed: u64) -> (ChatSession, FakeLog) {
    let (session, log) = scripted(2048, 8, hashed());
    let mut options = options(24);
    options.generate.sampling =
        SamplingOptions { temperature: 1.0, top_k: 8, seed, ..SamplingOptions::greedy() };
    (ChatSession::new(session, options), log)
}

fn hashed() -> Script {
    FakeBackend::hashed(4096, 106, 9)
}

/// Answers every prompt with the same text and a closed turn.
fn saying(text: &str) -> ChatSession {
    let ids = tiny().tokenizer().encode(text, SpecialTokens::Parse);
    let script = move |held: &[u32]| {
        let begun = held.iter().rposition(|&id| id == 105).map_or(0, |at| at + 3);
        ids.get(held.len() - begun).copied().unwrap_or(106)
    };
    ChatSession::new(scripted(2048, 8, Box::new(script)).0, options(200))
}

fn respond(chat: &ChatSession, text: &str) -> Turn {
    chat.respond(text, &AtomicBool::new(false), &mut |_| ControlFlow::Continue(())).unwrap()
}

/// A conversation with the same history that has never done anything else.
fn fresh(chat: &ChatSession) -> ChatSession {
    let session = scripted(2048, 8, hashed()).0;
    let other = ChatSession::new(session, chat.options());
    other.set_messages(chat.messages()).unwrap();
    other
}

fn text(message: &Message) -> &str {
    match &message.content {
        Some(Content::Text(text)) => text,
        _ => panic!("no text"),
    }
}

/// F-89: the first turn is not disturbed.
#[test]
fn a_second_turn_is_refused_while_one_is_running() {
    let chat = saying("One two three.");
    let mut refused = 0;
    let turn = chat
        .respond("Count", &AtomicBool::new(false), &mut |_| {
            let second = chat.respond("Again", &AtomicBool::new(false), &mut |_| ControlFlow::Continue(()));
            assert!(matches!(second, Err(EngineError::Busy)));
            assert!(matches!(chat.set_messages(Vec::new()), Err(EngineError::Busy)));
            assert!(matches!(chat.with_session(|_| ()), Err(EngineError::Busy)));
            // A conversation on the same backend would wait for this very thread.
            let other = chat.fork();
            let nested = other.respond("Again", &AtomicBool::new(false), &mut |_| ControlFlow::Continue(()));
            assert!(matches!(nested, Err(EngineError::Busy)));
            assert!(chat.messages().is_empty(), "as it was before the turn");
            refused += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(turn.output.text, "One two three.");
    assert!(refused > 3);
    assert_eq!(chat.messages().len(), 2);
}

/// F-86: the deltas are the answer, the events come in their order.
#[test]
fn a_stream_yields_what_the_turn_holds() {
    let chat = saying("<|channel>thought\nHm.\n<channel|>It is 4.<|tool_call>call:now{}<tool_call|>");
    let (mut thought, mut text, mut calls, mut stats, mut done) = (String::new(), String::new(), 0, 0, None);
    for event in chat.stream_response("2 + 2?").unwrap() {
        assert!(done.is_none(), "done is the last");
        match event.unwrap() {
            StreamEvent::Prefill { done, total } => assert!(done <= total),
            StreamEvent::ThinkingDelta(more) => thought.push_str(&more),
            StreamEvent::Delta(more) => text.push_str(&more),
            StreamEvent::ToolCall(_) => calls += 1,
            StreamEvent::ToolResult { .. } => panic!("nobody runs calls here"),
            StreamEvent::Stats(timings) => stats = timings.tokens,
            StreamEvent::Done(turn) => done = Some(turn),
        }
    }
    let turn = done.unwrap();
    assert_eq!((turn.output.reasoning.as_str(), turn.output.text.as_str()), ("Hm.", "It is 4."));
    assert_eq!((thought, text, calls), (turn.output.reasoning, turn.output.text, turn.output.calls.len()));
    assert_eq!(stats, turn.ids.len());
    assert!(matches!(
        chat.stream_response(&"word ".repeat(4000)).unwrap().last(),
        Some(Err(EngineError::Context { .. }))
    ));
    assert_eq!(chat.messages().len(), 2);
}

/// Cases 88 and 89, F-88: dropped at any moment, the next question waits for the end of the old answer and is answered as in a
/// conversation that never saw it; nothing hangs.
#[test]
fn a_dropped_stream_is_over_and_the_next_answer_right() {
    let mut random = Random(1);
    for round in 0..60 {
        let (chat, _) = chat(round);
        chat.change_options(|options| options.generate.chunk = Some(4)).unwrap();
        let mut stream = chat.stream_response("How are you?").unwrap();
        for _ in 0..random.below(40) {
            if stream.next().is_none() {
                break;
            }
        }
        drop(stream);
        let next = respond(&chat, "And now?");
        let messages = chat.messages();
        let history = messages[..messages.len() - 2].to_vec();
        let uninterrupted = fresh(&chat);
        uninterrupted.set_messages(history).unwrap();
        assert_eq!(respond(&uninterrupted, "And now?").output, next.output, "round {round}");
        assert_eq!(uninterrupted.messages(), messages);
    }
}

/// Case 91: two conversations whose turns alternate, from two threads, are each answered from their own history and keep their
/// own cache.
#[test]
fn interleaved_conversations_keep_their_answers_and_their_caches() {
    let (one, _) = chat(3);
    let other = one.beside(ChatOptions {
        system: Some("Quite another system prompt, longer than the first.".into()),
        ..one.options()
    });
    let ask = |chat: &ChatSession| {
        (0..6)
            .map(|turn| {
                let answer = respond(chat, &format!("question {turn} with some words to fill the prompt"));
                if turn > 0 {
                    assert!(answer.timings.reused_tokens > 16, "{:?}", answer.timings);
                }
                answer.output
            })
            .collect::<Vec<_>>()
    };
    let (mine, theirs) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| ask(&other));
        (ask(&one), theirs.join().unwrap())
    });
    for (shared, outputs) in [(&one, mine), (&other, theirs)] {
        let alone = fresh(shared);
        alone.set_messages(Vec::new()).unwrap();
        assert_eq!(ask(&alone), outputs);
    }
    assert_eq!(one.totals().turns, 6);
    assert!(one.totals().reused_tokens > one.totals().prefilled_tokens());
}

#[test]
fn turns_can_be_taken_back_removed_and_edited() {
    let (chat, _) = chat(5);
    for turn in 0..4 {
        respond(&chat, &format!("question {turn}"));
    }
    let all = chat.messages();
    assert_eq!(turns(&all).len(), 4);
    let taken = chat.rewind(3).unwrap();
    assert_eq!((text(&taken[0]), taken.len(), chat.messages().len()), ("question 3", 2, 6));
    let removed = chat.remove_turn(1).unwrap();
    assert_eq!(text(&removed[0]), "question 1");
    assert_eq!(text(&chat.messages()[2]), "question 2");
    assert!(chat.edit_message(0, "another question").unwrap());
    assert!(!chat.edit_message(10, "nowhere").unwrap());
    assert!(matches!(chat.rewind(2), Err(EngineError::NoSuchTurn { turn: 2, turns: 2 })));
    let expected = respond(&fresh(&chat), "next");
    assert_eq!(respond(&chat, "next").output, expected.output);
}

#[test]
fn a_fork_goes_its_own_way_with_the_same_past() {
    let (chat, log) = chat(6);
    respond(&chat, "What is common to both, and long enough to be worth keeping in a cache?");
    let fork = chat.fork();
    log.take();
    let mine = respond(&chat, "this way");
    let theirs = respond(&fork, "that way");
    assert!(theirs.timings.reused_tokens > 16, "{:?}", theirs.timings);
    assert_eq!(chat.messages()[..2], fork.messages()[..2]);
    for (chat, answer, question) in [(&chat, mine, "this way"), (&fork, theirs, "that way")] {
        let alone = fresh(chat);
        alone.rewind(1).unwrap();
        assert_eq!(respond(&alone, question).output, answer.output);
    }
}

/// F-90: one turn with other options leaves no trace in the options, only in the history.
#[test]
fn options_can_be_given_for_one_turn() {
    let (chat, _) = chat(7);
    let before = chat.options().generate;
    let short = ChatOptions { generate: GenerateOptions::greedy(1), ..chat.options() };
    let never = AtomicBool::new(false);
    let question = vec![Message::new(Role::User, "Hello")];
    let turn = chat.send_with(question, &short, &never, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(turn.ids.len() <= 1);
    assert_eq!(chat.options().generate, before);
}

#[test]
fn token_counts_are_those_of_the_prompts() {
    let (chat, _) = chat(8);
    respond(&chat, "Hello");
    let counts = chat.token_counts().unwrap();
    let cost = chat.cost("What is it?").unwrap();
    let turn = respond(&chat, "What is it?");
    assert_eq!(turn.timings.prompt_tokens, counts.history + cost);
    assert!(counts.system < counts.history && counts.history < counts.prompt);
    assert_eq!((counts.context, counts.free()), (2048, 2048 - counts.history));
    assert!(chat.cost(&"word ".repeat(100)).unwrap() > 100);
}

/// Cases 10 and 50: thoughts of earlier turns are in no prompt, and what they displaced is the only thing prefilled anew.
#[test]
fn thoughts_are_never_replayed_and_cost_no_more_than_their_answer() {
    let chat = saying("<|channel>thought\nSECRET musings that nobody sees again.\n<channel|>It is 4.");
    chat.change_options(|options| options.thinking = true).unwrap();
    let first = respond(&chat, "2 + 2?");
    assert!(first.output.reasoning.contains("SECRET"));
    for turn in 1..3 {
        let next = respond(&chat, "And 3 + 3?");
        let model = tiny();
        let held = chat.with_session(|session| session.sequence().ids().to_vec()).unwrap();
        let earlier = model
            .tokenizer()
            .decode(&held[..next.timings.prompt_tokens], rawloop_tokenizer::SpecialText::Keep)
            .unwrap();
        assert!(!earlier.contains("SECRET"), "{earlier}");
        let new = next.timings.prefill_tokens();
        assert!(new < 25, "turn {turn}: {:?}", next.timings);
    }
}

/// Case 53: a stored conversation goes on as one that never stopped, at any seed and after any number of turns.
#[test]
fn a_restored_conversation_goes_on_as_if_it_had_never_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.json");
    let (live, _) = chat(9);
    live.change_options(|options| options.thinking = true).unwrap();
    for turn in 0..5 {
        live.save(&file).unwrap();
        let session = scripted(2048, 200, hashed()).0;
        let other = ChatSession::new(session, options(1));
        other.load(&file).unwrap();
        assert_eq!(other.messages(), live.messages());
        assert_eq!(other.saved(), live.saved());
        let question = format!("question {turn}: \"quoted\" <|turn> \u{1f600}");
        let (mine, theirs) = (respond(&live, &question), respond(&other, &question));
        assert_eq!((mine.ids, mine.output), (theirs.ids, theirs.output));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside the file");
}

/// The form of the answers and the bound on thoughts are part of a conversation.
#[test]
fn a_restored_conversation_keeps_its_form_and_its_budget() {
    use rawloop_engine::guided::Grammar;
    let (live, _) = chat(12);
    live.change_options(|options| {
        options.generate.thinking_budget = Some(7);
        options.generate.constraint = Some(Grammar::choice(&["yes", "no"]).unwrap().into());
    })
    .unwrap();
    let other = ChatSession::new(scripted(2048, 8, hashed()).0, options(1));
    other.restore(live.saved()).unwrap();
    assert_eq!(other.options().generate.thinking_budget, Some(7));
    assert_eq!(other.saved(), live.saved());
    let answer = respond(&other, "Is it?");
    assert!(["yes", "no"].contains(&answer.output.text.as_str()), "{answer:?}");
    assert_eq!(answer.ids, respond(&live, "Is it?").ids);
    live.change_options(|options| options.generate.constraint = None).unwrap();
    other.restore(live.saved()).unwrap();
    assert_eq!(other.options().generate.constraint, None, "it is gone on with as it was");
}

#[test]
fn a_file_that_is_no_whole_conversation_is_refused_with_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.json");
    let (chat, _) = chat(10);
    respond(&chat, "Hello");
    chat.save(&file).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let before = chat.messages();
    let refuse = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        let error = chat.load(&file).unwrap_err();
        assert_eq!(chat.messages(), before);
        match error {
            EngineError::SessionFile(error) => error,
            other => panic!("{other}"),
        }
    };
    for length in 0..whole.len() {
        let error = refuse(&whole[..length]);
        let header = whole.iter().position(|&byte| byte == b'\n').unwrap();
        let expected = if length <= header { "holds no conversation" } else { "was cut off" };
        assert!(error.to_string().contains(expected), "{length}: {error}");
    }
    let mut longer = whole.clone();
    longer.push(b'x');
    assert!(matches!(refuse(&longer), SessionFileError::Length { .. }));
    for place in (100..whole.len()).step_by(37) {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        assert!(matches!(
            refuse(&damaged),
            SessionFileError::Checksum { .. } | SessionFileError::NoConversation { .. }
        ));
    }
    let newer = String::from_utf8(whole.clone()).unwrap().replacen("chat 1 ", "chat 2 ", 1);
    assert!(matches!(refuse(newer.as_bytes()), SessionFileError::Version { .. }));
    assert!(matches!(SavedChat::read(Path::new("no such file")), Err(SessionFileError::Io { .. })));
    assert!(
        chat.save(Path::new("no/such/folder/file")).unwrap_err().to_string().contains("no/such/folder/file")
    );
}

#[test]
fn a_conversation_of_another_model_has_to_be_adopted() {
    let (chat, _) = chat(11);
    respond(&chat, "Hello");
    let mut saved = chat.saved();
    saved.model.manifest_sha256 = "0123456789abcdef".into();
    let error = chat.restore(saved.clone()).unwrap_err().to_string();
    assert!(error.contains("tiny (01234567)"), "{error}");
    saved.adopt(&tiny());
    chat.restore(saved).unwrap();
}

#[test]
fn a_model_is_opened_from_a_file_from_the_program_or_by_an_id() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.rlp");
    std::fs::write(&file, tiny().pack().bytes()).unwrap();
    let bytes: &'static [u8] = Box::leak(tiny().pack().bytes().to_vec().into_boxed_slice());
    let backend = |pack: &Arc<rawloop_pack::Pack>| {
        let (backend, _) = FakeBackend::new(pack.geometry().vocab, 64, 8, Box::new(|_| 106));
        Ok::<_, EngineError>(Box::new(backend) as Box<dyn rawloop_engine::backend::Backend>)
    };
    let catalog = |id: &str| (id == "tiny").then(|| file.clone());
    for source in [
        ModelSource::Path(file.clone()),
        ModelSource::Embedded(bytes, "embedded"),
        ModelSource::Id("tiny".into()),
    ] {
        let chat = ChatSession::open(&source, catalog, backend, 8).unwrap();
        assert_eq!(respond(&chat, "Hi").finish, Finish::Stop);
    }
    let unknown = ChatSession::open(&ModelSource::Id("huge".into()), catalog, backend, 8).unwrap_err();
    assert!(unknown.to_string().contains("no model `huge`"), "{unknown}");
    let missing = ChatSession::open(&ModelSource::Path("none.rlp".into()), catalog, backend, 8).unwrap_err();
    assert!(matches!(missing, EngineError::Pack(_)), "{missing}");
}

/// Case 54: a full context ends the answer, the next question is refused with a type, and a shorter history goes on.
#[test]
fn a_full_context_ends_the_answer_and_refuses_the_next() {
    let model = tiny();
    let (backend, _) = FakeBackend::new(model.pack().geometry().vocab, 120, 8, Box::new(|_| 1000));
    let chat = ChatSession::new(Session::new(model, Box::new(backend)).unwrap(), options(1000));
    let turn = respond(&chat, "Write a very long program.");
    assert_eq!(turn.finish, Finish::Context);
    let never = AtomicBool::new(false);
    let refused = chat.respond("And now?", &never, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(EngineError::Context { limit: 120, .. })), "{refused:?}");
    chat.rewind(0).unwrap();
    assert!(!respond(&chat, "Short.").ids.is_empty());
}

/// A cancelled wait for a busy backend is a cancelled turn.
#[test]
fn a_turn_that_waits_for_the_backend_can_be_cancelled() {
    let chat = saying("One two three.");
    let other = chat.fork();
    let cancel = AtomicBool::new(false);
    let waiting = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let first = chat.respond("Count", &AtomicBool::new(false), &mut |_| {
            if !waiting.swap(true, Ordering::Relaxed) {
                let waiter =
                    scope.spawn(|| other.respond("Count", &cancel, &mut |_| ControlFlow::Continue(())));
                cancel.store(true, Ordering::Relaxed);
                assert_eq!(waiter.join().unwrap().unwrap().finish, Finish::Cancelled);
            }
            ControlFlow::Continue(())
        });
        assert_eq!(first.unwrap().output.text, "One two three.");
    });
    assert!(other.messages().is_empty());
}
