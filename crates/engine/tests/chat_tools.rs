//! Turns with tools on the shipped model: calls are run until there is an answer, whatever the choice, the user and the tools do.

mod support;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::chat::{Content, Message, Role};
use rawloop_engine::conversation::{Approval, StreamEvent, ToolSettings, ToolTurn, Watch};
use rawloop_engine::tools::{PendingCall, PlanOptions, ToolChoice, Toolbox, function};
use rawloop_engine::{ChatEvent, ChatOptions, ChatSession, EngineError, Finish, GenerateOptions, Session};
use rawloop_tokenizer::SpecialTokens;
use serde::Deserialize;
use support::{scripted, tiny};

/// The tools that the shipped model was trained with.
#[derive(Deserialize, schemars::JsonSchema)]
struct Add {
    /// First number.
    a: f64,
    /// Second number.
    b: f64,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Weather {
    /// The city.
    city: String,
}

fn toolbox() -> Toolbox {
    Toolbox::new().with(function("add", "Adds two numbers.", |sum: Add| Ok::<_, String>(sum.a + sum.b))).with(
        function("get_weather", "Gets the weather in a city.", |at: Weather| match at.city.as_str() {
            "Oslo" => Ok("rainy, 7 degrees"),
            "Madrid" => Ok("sunny, 30 degrees"),
            _ => Err("no such city"),
        }),
    )
}

fn chat() -> ChatSession {
    let model = tiny();
    let options = CpuOptions { threads: Some(1), context: 2048, ..CpuOptions::default() };
    let backend = CpuBackend::open(Arc::clone(model.pack()), &options).unwrap();
    let generate = GenerateOptions::greedy(120);
    let options =
        ChatOptions { system: None, thinking: false, tools: Vec::new(), special_tokens: false, generate };
    ChatSession::new(Session::new(model, Box::new(backend)).unwrap(), options)
}

fn ask(chat: &ChatSession, question: &str, settings: &ToolSettings) -> ToolTurn {
    let mut approve = |_: &PendingCall| Approval::Run;
    let mut on_event = |_: ChatEvent<'_>| ControlFlow::Continue(());
    let cancel = AtomicBool::new(false);
    let mut watch = Watch { cancel: &cancel, approve: &mut approve, on_event: &mut on_event };
    chat.respond_with_tools(question, &toolbox(), settings, &mut watch).unwrap()
}

fn text(message: &Message) -> &str {
    match &message.content {
        Some(Content::Text(text)) => text,
        _ => panic!("no text"),
    }
}

/// F-97 and case 5: the result comes back into the turn and the answer uses it.
#[test]
fn a_call_is_run_and_its_result_answered() {
    let chat = chat();
    let done = ask(&chat, "Use the tool to add 412 and 99.", &ToolSettings::default());
    assert_eq!(done.turns.len(), 2);
    assert_eq!((done.results[0].0.name.as_str(), done.results[0].1.as_str()), ("add", "511.0"));
    assert!(done.last().unwrap().output.text.contains("511"), "{:?}", done.last());
    assert!(done.last().unwrap().timings.reused_tokens > 50, "the prompt is not run again");
    assert_eq!(done.finish(), Finish::Stop);
    let roles: Vec<Role> = chat.messages().iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
    assert!(chat.options().tools.is_empty(), "the tools were of this turn");
}

/// Case 32: two calls in one answer, results in their order.
#[test]
fn parallel_calls_are_answered_in_their_order() {
    let chat = chat();
    let done = ask(&chat, "What is the weather in Oslo and in Madrid?", &ToolSettings::default());
    let results: Vec<&str> = done.results.iter().map(|(_, result)| result.as_str()).collect();
    assert_eq!(results, ["rainy, 7 degrees", "sunny, 30 degrees"], "{done:?}");
    let answer = &done.last().unwrap().output.text;
    assert!(answer.contains("rainy") && answer.contains("30"), "{answer}");
    let one = ToolSettings { plan: PlanOptions { most_calls: 1 }, ..ToolSettings::default() };
    let done = ask(&self::chat(), "What is the weather in Oslo and in Madrid?", &one);
    assert!(done.turns.iter().all(|turn| turn.output.calls.len() <= 1), "{done:?}");
}

/// Case 34: none, required and a name are kept to, against what the model would do.
#[test]
fn the_choice_is_kept_to() {
    let of = |choice| ToolSettings { choice, ..ToolSettings::default() };
    let weather = "What is the weather in Madrid?";
    let none = ask(&chat(), weather, &of(ToolChoice::None));
    assert!(none.results.is_empty() && none.turns.len() == 1);
    assert!(!none.turns[0].output.text.contains("<|"), "{none:?}");
    let required = ask(&chat(), "Hello, how are you?", &of(ToolChoice::Required));
    assert!(!required.results.is_empty() && required.turns.len() > 1);
    let named = ask(&chat(), weather, &of(ToolChoice::Named("add".into())));
    assert!(named.turns[0].output.calls.iter().all(|call| call.name == "add"), "{named:?}");
    assert!(named.turns[0].output.warnings.is_empty());
}

#[test]
fn a_refused_call_is_told_to_the_model() {
    let chat = chat();
    let mut asked = Vec::new();
    let mut approve = |call: &PendingCall| {
        asked.push(call.name.clone());
        Approval::Refuse("the user did not allow the call".into())
    };
    let mut shown = Vec::new();
    let mut on_event = |event: ChatEvent<'_>| {
        if let ChatEvent::Result { result, .. } = event {
            shown.push(result.to_owned());
        }
        ControlFlow::Continue(())
    };
    let cancel = AtomicBool::new(false);
    let mut watch = Watch { cancel: &cancel, approve: &mut approve, on_event: &mut on_event };
    let settings = ToolSettings { rounds: 2, ..ToolSettings::default() };
    let done =
        chat.respond_with_tools("Use the tool to add 1 and 2.", &toolbox(), &settings, &mut watch).unwrap();
    assert_eq!(asked[0], "add");
    assert_eq!(shown[0], r#"{"error":"the user did not allow the call"}"#);
    assert_eq!(done.results[0].1, shown[0]);
}

/// The model asks again and again; after the last round it has to answer in text.
#[test]
fn the_rounds_are_limited() {
    let chat = chat();
    let settings = ToolSettings { choice: ToolChoice::Required, rounds: 0, ..ToolSettings::default() };
    let done = ask(&chat, "Use the tool to add 5 and 6.", &settings);
    assert!(done.limited && done.turns.len() == 2, "{done:?}");
    assert!(done.results[0].1.contains("limit of 0 rounds"), "{done:?}");
    assert!(done.turns[1].output.calls.is_empty());
}

/// Cancelled while a call runs: its result is kept, the other calls say that they were not run, and the conversation goes on.
#[test]
fn a_cancelled_turn_leaves_no_open_call() {
    let chat = chat();
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    let toolbox =
        toolbox().with(function("get_weather", "Gets the weather in a city.", move |_: Weather| {
            flag.store(true, Ordering::Relaxed);
            Ok::<_, String>("rainy, 7 degrees")
        }));
    let mut approve = |_: &PendingCall| Approval::Run;
    let mut on_event = |_: ChatEvent<'_>| ControlFlow::Continue(());
    let mut watch = Watch { cancel: &cancel, approve: &mut approve, on_event: &mut on_event };
    let question = "What is the weather in Oslo and in Madrid?";
    let done = chat.respond_with_tools(question, &toolbox, &ToolSettings::default(), &mut watch).unwrap();
    assert_eq!(done.finish(), Finish::Cancelled);
    let messages = chat.messages();
    let results: Vec<&str> = messages.iter().filter(|message| message.role == Role::Tool).map(text).collect();
    assert_eq!(results[0], "rainy, 7 degrees");
    assert!(results[1].contains("cancelled before it was run"), "{results:?}");
    let next = ask(&chat, "Use the tool to add 412 and 99.", &ToolSettings::default());
    assert_eq!(next.finish(), Finish::Stop);
}

/// A conversation whose every answer begins with a call of `look`, on so many positions.
fn calling(context: usize) -> ChatSession {
    let ids = tiny().tokenizer().encode("<|tool_call>call:look{}<tool_call|>", SpecialTokens::Parse);
    let script = move |held: &[u32]| {
        let begun = held.iter().rposition(|&id| id == 105).map_or(0, |at| at + 3);
        ids.get(held.len() - begun).copied().unwrap_or(106)
    };
    let generate = GenerateOptions::greedy(100);
    let options =
        ChatOptions { system: None, thinking: false, tools: Vec::new(), special_tokens: false, generate };
    ChatSession::new(scripted(context, 8, Box::new(script)).0, options)
}

fn look(chat: &ChatSession, found: String) -> Result<ToolTurn, EngineError> {
    let toolbox =
        Toolbox::new().with(function("look", "Looks.", move |(): ()| Ok::<_, String>(found.clone())));
    let mut approve = |_: &PendingCall| Approval::Run;
    let mut on_event = |_: ChatEvent<'_>| ControlFlow::Continue(());
    let cancel = AtomicBool::new(false);
    let mut watch = Watch { cancel: &cancel, approve: &mut approve, on_event: &mut on_event };
    chat.respond_with_tools("Look around.", &toolbox, &ToolSettings::default(), &mut watch)
}

/// A result that is longer than the context is cut so that the answer fits, and says so; what fits is not touched.
#[test]
fn a_result_that_overfills_the_context_is_cut() {
    let line = "seen: stone, \"grass\" and sky\n";
    for times in [1, 4, 30, 3000, 300_000] {
        let chat = calling(512);
        let found = line.repeat(times);
        let done = look(&chat, found.clone()).unwrap();
        assert_eq!((done.turns.len(), done.finish()), (2, Finish::Stop), "{times}");
        let messages = chat.messages();
        let told = text(&messages[2]);
        assert_eq!((messages.len(), told), (4, done.results[0].1.as_str()));
        let used = done.turns[1].timings.prompt_tokens;
        if times <= 4 {
            assert_eq!(told, found);
        } else {
            let (kept, note) = told.rsplit_once('\n').unwrap();
            assert!(found.starts_with(kept), "{kept}");
            let missing = found.len() - kept.len();
            assert_eq!(
                note,
                format!("[{missing} of {} bytes were cut off: the context is nearly full]", found.len())
            );
            assert!(used > 512 - 512 / 8 - 16, "no more is cut than has to be: {used}");
        }
        assert!(used <= 512 - 512 / 8, "the answer has its share: {used}");
    }
}

/// Once a call was run it is part of the history, whatever fails behind it.
#[test]
fn a_turn_that_fails_behind_a_call_keeps_what_was_run() {
    let chat = calling(512);
    let filled = ["word "; 410].concat();
    let room = chat.cost(&filled).unwrap();
    // As full as can be with the call still fitting.
    chat.set_messages(vec![Message::new(Role::User, &*filled), Message::new(Role::Assistant, "Yes.")])
        .unwrap();
    let counts = chat.token_counts().unwrap();
    assert!(counts.free() < 100 && room > 400, "{counts:?}");
    let error = look(&chat, "stone ".repeat(100)).unwrap_err();
    assert!(matches!(error, EngineError::Context { .. }), "{error}");
    let messages = chat.messages();
    let roles: Vec<Role> = messages[2..].iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool]);
    assert!(text(&messages[4]).contains("[600 of 600 bytes were cut off"), "{}", text(&messages[4]));
    // It can be taken back, and then the conversation goes on.
    chat.rewind(1).unwrap();
    assert_eq!(chat.messages().len(), 2);
    // Where nothing was run nothing stays.
    let before = chat.messages();
    chat.edit_message(0, &"word ".repeat(600)).unwrap();
    assert!(matches!(look(&chat, String::new()), Err(EngineError::Context { .. })));
    assert_eq!(chat.messages().len(), before.len());
}

/// Calls and results come through a stream too, in their order.
#[test]
fn a_stream_runs_calls() {
    let chat = chat();
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let stream = chat
        .stream_with_tools(
            "Use the tool to add 412 and 99.",
            Arc::new(toolbox()),
            ToolSettings::default(),
            move |call| {
                seen.lock().unwrap().push(call.name.clone());
                Approval::Run
            },
        )
        .unwrap();
    let events: Vec<StreamEvent> = stream.map(Result::unwrap).collect();
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::ToolCall(call) => Some(call.name.as_str()),
            StreamEvent::ToolResult { call, result } if call.name == "add" => Some(result.as_str()),
            StreamEvent::Stats(_) => Some("stats"),
            StreamEvent::Done(_) => Some("done"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["add", "511.0", "stats", "done"]);
    let Some(StreamEvent::Done(last)) = events.last() else { panic!("{events:?}") };
    let text: String = events
        .iter()
        .filter_map(|event| if let StreamEvent::Delta(text) = event { Some(text.as_str()) } else { None })
        .collect();
    assert!(last.output.text.contains("511") && text.ends_with(&last.output.text), "{last:?}");
    assert_eq!(*asked.lock().unwrap(), ["add"]);
    assert_eq!(chat.messages().len(), 4);
    // Dropped while a call is asked about: the turn ends, and the next one is answered.
    let stream = chat.stream_with_tools(
        "Use the tool to add 1 and 2.",
        Arc::new(toolbox()),
        ToolSettings::default(),
        {
            let asked = Arc::clone(&asked);
            move |call| {
                asked.lock().unwrap().push(call.name.clone());
                Approval::Run
            }
        },
    );
    drop(stream.unwrap());
    let next = ask(&chat, "Use the tool to add 412 and 99.", &ToolSettings::default());
    assert_eq!(next.finish(), Finish::Stop);
}

/// A call that a caller never answered does not make the model invent its result.
#[test]
fn an_open_call_is_closed_before_the_next_question() {
    let chat = chat();
    chat.change_options(|options| options.tools = toolbox().declarations()).unwrap();
    let never = AtomicBool::new(false);
    let mut quiet = |_: ChatEvent<'_>| ControlFlow::Continue(());
    let turn = chat.respond("Use the tool to add 1 and 2.", &never, &mut quiet).unwrap();
    assert_eq!(turn.output.calls.len(), 1);
    chat.respond("What is the capital of France?", &never, &mut quiet).unwrap();
    let messages = chat.messages();
    assert_eq!(messages[2].role, Role::Tool);
    assert!(text(&messages[2]).contains("the call was not run"));
}
