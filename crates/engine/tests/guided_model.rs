//! Constraints on the shipped model: its own good answers pass them unchanged, a loop over them costs fewer steps of the model,
//! and what it would not have done by itself it does in the right form.

mod support;

use std::sync::{Arc, OnceLock};

use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::backend::{StepOutput, Wanted};
use rawloop_engine::chat::{
    Message, Output, OutputOptions, OutputParser, RenderOptions, Role, Tool, ToolCall,
};
use rawloop_engine::guided::{AnswerPlan, Constraint, Environment, Grammar, Thinking, best_allowed};
use rawloop_engine::sequence::Sequence;
use rawloop_engine::tools::{PlanOptions, ToolChoice, ToolLoop, ToolStep, Toolbox, function, plan};
use rawloop_testkit::goldens::{Transcript, Transcripts, read};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{root, tiny};

fn environment() -> Arc<Environment> {
    static BUILT: OnceLock<Arc<Environment>> = OnceLock::new();
    Arc::clone(BUILT.get_or_init(|| Arc::new(Environment::new(tiny().tokenizer()).unwrap())))
}

fn goldens(tasks: &[&str]) -> Vec<Transcript> {
    let all: Transcripts = read(&root().join("goldens/tiny/transcripts.json")).unwrap();
    all.transcripts.into_iter().filter(|golden| tasks.contains(&golden.task.as_str())).collect()
}

fn backend() -> CpuBackend {
    let options = CpuOptions { threads: Some(1), context: 1024, ..CpuOptions::default() };
    CpuBackend::open(Arc::clone(tiny().pack()), &options).unwrap()
}

/// The arguments of the tools that the shipped model was trained with.
#[derive(Deserialize, schemars::JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Weather {
    /// The city.
    city: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Music {
    /// Song name.
    song: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Alarm {
    /// Hour of day.
    hour: f64,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Command {
    /// The command.
    command: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct File {
    /// The path.
    path: String,
}

fn toolbox() -> Toolbox {
    Toolbox::new()
        .with(function("add", "Adds two numbers.", |sum: Add| Ok::<_, String>(sum.a + sum.b)))
        .with(function("get_weather", "Gets the weather in a city.", |at: Weather| match at.city.as_str() {
            "" => Err("which city?"),
            _ => Ok("18C and sunny"),
        }))
        .with(function("play_music", "Plays music.", |music: Music| Ok::<_, String>(music.song)))
        .with(function("set_alarm", "Sets an alarm.", |alarm: Alarm| Ok::<_, String>(alarm.hour)))
        .with(function("run_command", "Runs a command.", |run: Command| Ok::<_, String>(run.command)))
        .with(function("read_file", "Reads a file.", |file: File| Ok::<_, String>(file.path)))
}

/// Tokens of an answer at most.
const LONGEST: usize = 200;

/// An answer with the likeliest allowed token at each place, and the steps of the model that it took behind the prompt. With
/// `ahead`, forced tokens join the sequence without asking the model.
fn answer(plan: &AnswerPlan, prompt: &[u32], ahead: bool) -> (Vec<u32>, usize) {
    let mut backend = backend();
    let mut sequence = Sequence::create(&mut backend, 0).unwrap();
    let mut output = StepOutput::default();
    let mut constraint: Constraint = plan.begin(&environment());
    let mut ids = Vec::new();
    let mut next: Vec<u32> = prompt.to_vec();
    let mut steps = 0;
    while !constraint.has_ended() && ids.len() < LONGEST {
        let forced = if ahead { constraint.forced().unwrap().to_vec() } else { Vec::new() };
        for &id in &forced {
            constraint.accept(id).unwrap();
        }
        ids.extend_from_slice(&forced);
        next.extend_from_slice(&forced);
        // Where only the end can follow, the model is not asked for it.
        if ahead && constraint.is_complete().unwrap() {
            break;
        }
        if !forced.is_empty() && !constraint.forced().unwrap().is_empty() {
            continue;
        }
        sequence.append(&mut backend, &next, Wanted::LastLogits, &mut output).unwrap();
        steps += 1;
        let id = best_allowed(&output.logits, constraint.mask().unwrap()).unwrap();
        constraint.accept(id).unwrap();
        if !constraint.has_ended() {
            ids.push(id);
        }
        next = vec![id];
    }
    sequence.free(&mut backend);
    (ids, steps)
}

fn text(ids: &[u32]) -> String {
    tiny().tokenizer().decode(ids, rawloop_tokenizer::SpecialText::Keep).unwrap()
}

fn parsed(ids: &[u32], tools: &[Tool]) -> Output {
    let model = tiny();
    let mut parser = OutputParser::new(OutputOptions { in_thought: false, tools: tools.to_vec() });
    let mut output = Output::default();
    for &id in ids {
        parser.push_token(model.tokenizer(), model.control(), id, &mut |event| output.add(event)).unwrap();
    }
    parser.finish(&mut |event| output.add(event));
    output
}

fn prompt(tools: &[Tool], messages: &[Message]) -> Vec<u32> {
    let options = RenderOptions { tools, ..RenderOptions::default() };
    tiny().render(&options, messages).unwrap().to_ids(tiny().tokenizer())
}

#[test]
fn good_answers_of_the_model_pass_every_constraint_that_fits_them() {
    let tools = toolbox().declarations();
    let plan = |choice| plan(&environment(), &tools, &choice, PlanOptions::default()).unwrap();
    let object = Arc::new(environment().compile(&Grammar::json_object().unwrap()).unwrap());
    let plans = [
        (vec!["tool", "two_calls"], plan(ToolChoice::Auto)),
        (vec!["tool", "two_calls"], plan(ToolChoice::Required)),
        (vec!["story", "capital", "translate"], plan(ToolChoice::Auto)),
        (vec!["story", "capital", "summarize"], plan(ToolChoice::None)),
        (vec!["thinking"], AnswerPlan::free().thinking(Thinking::Allowed)),
        (vec!["thinking"], AnswerPlan::free().thinking(Thinking::Required)),
        (vec!["extract_json"], AnswerPlan::grammar(object)),
    ];
    for (tasks, plan) in plans {
        let plan = plan.stops(tiny().stops());
        for golden in goldens(&tasks).iter().filter(|golden| golden.ok) {
            let mut constraint = plan.begin(&environment());
            for &id in &golden.output_ids {
                constraint
                    .accept(id)
                    .unwrap_or_else(|error| panic!("{}: {error}\n{}", golden.task, golden.text));
            }
            assert!(constraint.has_ended(), "{}", golden.text);
        }
    }
}

#[test]
fn a_constraint_that_fits_changes_nothing_and_forced_tokens_save_steps() {
    let tools = toolbox().declarations();
    let required = plan(&environment(), &tools, &ToolChoice::Required, PlanOptions::default()).unwrap();
    let required = required.stops(tiny().stops());
    for golden in goldens(&["tool"]).iter().filter(|golden| golden.ok).take(3) {
        let own = &golden.output_ids[..golden.output_ids.len() - 1];
        let (plain, all_steps) = answer(&required, &golden.prompt_ids, false);
        let (ahead, steps) = answer(&required, &golden.prompt_ids, true);
        assert_eq!(text(&plain), text(own));
        assert_eq!(
            text(&ahead),
            text(own),
            "forced tokens are those that the model would have been left with"
        );
        assert!(steps < all_steps, "{steps} of {all_steps} steps");
    }
}

/// Case 34: small talk with `required` ends in a call; a question for a tool with `none` ends in text.
#[test]
fn choices_hold_against_what_the_model_would_do() {
    let tools = toolbox().declarations();
    let plan = |choice| plan(&environment(), &tools, &choice, PlanOptions { most_calls: 1 }).unwrap();
    let ask = |question: &str| prompt(&tools, &[Message::new(Role::User, question)]);
    let (ids, _) = answer(&plan(ToolChoice::Required), &ask("Hello, how are you?"), true);
    let output = parsed(&ids, &tools);
    assert!(output.calls.len() == 1 && output.text.is_empty() && output.warnings.is_empty(), "{output:?}");
    let weather = "What is the weather in Madrid?";
    // The small model knows no answer without its tool and goes on until it is cut off; what counts is that nothing is called.
    let (ids, _) = answer(&plan(ToolChoice::None), &ask(weather), true);
    let output = parsed(&ids, &tools);
    assert!(output.calls.is_empty() && !output.text.is_empty() && !text(&ids).contains("<|"), "{output:?}");
    let (ids, _) = answer(&plan(ToolChoice::Named("set_alarm".into())), &ask(weather), true);
    assert_eq!(parsed(&ids, &tools).calls[0].name, "set_alarm");
}

/// Case 82 on the model: a schema that it was never shown still gives one valid value.
#[test]
fn an_answer_under_a_schema_is_valid_whatever_was_asked() {
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["mood", "stars", "tags"],
        "properties": { "mood": { "enum": ["good", "bad"] }, "stars": { "type": "integer", "minimum": 1, "maximum": 5 },
            "tags": { "type": "array", "items": { "type": "string", "maxLength": 12 }, "maxItems": 3 } } });
    let compiled = Arc::new(environment().compile(&Grammar::json_schema(&schema).unwrap()).unwrap());
    for question in ["I love this film!", "What is 17 plus 5?"] {
        for thinking in [Thinking::Off, Thinking::Allowed] {
            let plan = AnswerPlan::grammar(Arc::clone(&compiled)).thinking(thinking);
            let (ids, _) = answer(&plan, &prompt(&[], &[Message::new(Role::User, question)]), true);
            let output = parsed(&ids, &[]);
            let value: Value =
                serde_json::from_str(&output.text).unwrap_or_else(|e| panic!("{e}: {}", text(&ids)));
            assert!(jsonschema::is_valid(&schema, &value), "{value}");
        }
    }
}

#[test]
fn a_tool_loop_ends_in_an_answer_that_uses_the_result() {
    let toolbox = toolbox();
    let tools = toolbox.declarations();
    let mut messages = vec![Message::new(Role::User, "What is the weather in Madrid?")];
    let mut rounds = ToolLoop::new(2);
    let mut choice = ToolChoice::Required;
    loop {
        let plan = plan(&environment(), &tools, &choice, PlanOptions::default()).unwrap();
        let (ids, _) = answer(&plan.stops(tiny().stops()), &prompt(&tools, &messages), true);
        let output = parsed(&ids, &tools);
        let mut said = Message::new(Role::Assistant, output.text.as_str());
        for (index, call) in output.calls.iter().enumerate() {
            let call = json!({ "id": format!("call_{index}"), "function": { "name": call.name, "arguments": call.arguments } });
            said.tool_calls.push(serde_json::from_value::<ToolCall>(call).unwrap());
        }
        messages.push(said.clone());
        match rounds.step(&said) {
            ToolStep::Answer => {
                assert!(output.text.contains("18"), "{}", output.text);
                break;
            }
            ToolStep::Run(calls) => {
                assert_eq!(calls[0].arguments, *json!({ "city": "Madrid" }).as_object().unwrap());
                rounds.run(&toolbox);
            }
            ToolStep::Limit => panic!("{messages:?}"),
        }
        messages.extend(rounds.messages().unwrap());
        choice = ToolChoice::Auto;
    }
    assert_eq!(rounds.rounds(), 1);
}
