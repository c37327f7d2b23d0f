//! Calls under a grammar: whatever allowed tokens are picked, the parser of calls reads them without repair, and their
//! arguments are valid under the tool's schema.

mod guided_support;

use std::sync::Arc;

use guided_support::schemas::object;
use guided_support::{Random, allowed, decode, encode, environment, walk};
use rawloop_engine::chat::{Output, OutputOptions, OutputParser, RenderOptions, Tool, render};
use rawloop_engine::guided::{AnswerPlan, Constraint, GuidedError, Thinking};
use rawloop_engine::tools::{PlanOptions, ToolChoice, call_grammar, declare, plan};
use serde_json::{Value, json};

fn tool(name: &str, parameters: Value) -> Tool {
    serde_json::from_value(
        json!({ "type": "function", "function": { "name": name, "parameters": parameters, "strict": true } }),
    )
    .unwrap()
}

fn relaxed(name: &str, parameters: Value) -> Tool {
    let mut tool = tool(name, parameters);
    tool.function.strict = None;
    tool
}

/// What the parser of outputs makes of tokens.
fn parsed(ids: &[u32], tools: &[Tool]) -> Output {
    let environment = environment();
    let mut parser = OutputParser::new(OutputOptions { in_thought: false, tools: tools.to_vec() });
    let mut output = Output::default();
    for &id in ids {
        parser
            .push_token(environment.tokenizer(), environment.control(), id, &mut |event| output.add(event))
            .unwrap();
    }
    parser.finish(&mut |event| output.add(event));
    output
}

/// The ids of a text in which control tokens are spelled.
fn control(text: &str) -> Vec<u32> {
    environment().tokenizer().encode(text, rawloop_tokenizer::SpecialTokens::Parse)
}

fn required(tools: &[Tool]) -> AnswerPlan {
    plan(&environment(), tools, &ToolChoice::Required, PlanOptions::default())
        .unwrap_or_else(|error| panic!("{error}\n{tools:#?}"))
}

/// Whether a whole answer, control tokens spelled, is allowed.
fn allows(answer: &AnswerPlan, text: &str) -> bool {
    let mut constraint = answer.begin(&environment());
    control(text).into_iter().all(|id| constraint.accept(id).is_ok()) && constraint.can_stop().unwrap()
}

#[test]
fn random_calls_of_300_random_tools_parse_and_are_valid() {
    let mut random = Random(0xca11);
    for place in 0..300 {
        let definitions = random.below(3);
        let mut parameters = object(&mut random, 4, definitions);
        let named = (0..definitions).map(|place| (format!("d {place}"), object(&mut random, 2, definitions)));
        parameters["$defs"] = named.collect();
        let validator = jsonschema::validator_for(&parameters).unwrap();
        let first = tool("first.tool", parameters.clone());
        let second = tool("first.tool:b", json!({ "type": "object", "properties": {} }));
        let tools = declare(&[first, second]);
        let answer = required(&tools);
        for length in [6, 50] {
            let walk = walk(&mut answer.begin(&environment()), &mut random, length);
            let text = decode(&walk.ids);
            let output = parsed(&walk.ids, &tools);
            assert!(output.warnings.is_empty() && output.text.is_empty(), "{output:?}\n{text}");
            assert_eq!(output.calls.len(), text.matches("<tool_call|>").count(), "{text}");
            for call in output.calls {
                let arguments = Value::Object(call.arguments);
                match call.name.as_str() {
                    "first.tool:b" => assert_eq!(arguments, json!({})),
                    "first.tool" => {
                        let keys = arguments.as_object().into_iter().flat_map(|fields| fields.keys());
                        let declared =
                            keys.filter(|key| parameters["properties"].get(key.as_str()).is_some());
                        assert!(declared.is_sorted_by_key(|key| key.to_lowercase()), "{arguments}");
                        if let Err(error) = validator.validate(&arguments) {
                            panic!("tool {place}: {error}\n{parameters}\n{text}\n{arguments}");
                        }
                    }
                    other => panic!("{other} was not declared: {text}"),
                }
            }
        }
    }
}

/// Whatever a model samples, a call that was let through is in the notation that the chat format writes.
#[test]
fn calls_look_as_the_chat_format_writes_them() {
    let parameters = json!({
        "type": "object", "required": ["city", "days"],
        "properties": {
            "unit": { "enum": ["c", "f"] }, "city": { "type": "string" }, "days": { "type": "integer" }, "Alt": { "type": "boolean" },
            "opts": { "type": "object", "properties": { "x": { "type": ["null", "number"] }, "l": { "type": "array", "items": {} } } },
        },
    });
    let answer = required(&declare(&[tool("get_weather", parameters)]));
    for text in [
        r#"<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>,days:3}<tool_call|>"#,
        r#"<|tool_call>call:get_weather{Alt:true,city:<|"|>a "b", {c}: [d]<|"|>,days:-12,opts:{l:[1,2.5,<|"|>q"<|"|>,[null,{k:1e-07}]],x:null},unit:<|"|>c<|"|>}<tool_call|>"#,
        r#"<|tool_call>call:get_weather{city:<|"|><|"|>,days:0}<tool_call|><|tool_call>call:get_weather{city:<|"|>B<|"|>,days:1,opts:{}}<tool_call|>"#,
    ] {
        assert!(allows(&answer, text), "{text}");
    }
    for text in [
        "",
        "It is raining.",
        r#"<|tool_call>call:get_weather{days:3,city:<|"|>Oslo<|"|>}<tool_call|>"#,
        r#"<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>}<tool_call|>"#,
        r#"<|tool_call>call:get_weather{city:"Oslo",days:3}<tool_call|>"#,
        r#"<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>, days:3}<tool_call|>"#,
        r#"<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>,days:<|"|>3<|"|>}<tool_call|>"#,
        r#"<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>,days:3,more:1}<tool_call|>"#,
        r#"<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>,days:3,unit:<|"|>k<|"|>}<tool_call|>"#,
        r#"<|tool_call>call:get_weather(city=<|"|>Oslo<|"|>,days=3)<tool_call|>"#,
        r#"<|tool_call>call:weather{city:<|"|>Oslo<|"|>,days:3}<tool_call|>"#,
        r#"<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>,days:3}"#,
        r#"<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>,days:3}<tool_call|>It rains."#,
    ] {
        assert!(!allows(&answer, text), "{text}");
    }
}

/// Case 30: the shell of a Python call cannot come out of a constrained answer, required or not.
#[test]
fn a_python_style_call_shell_is_not_let_through() {
    let tools = declare(&[tool(
        "add",
        json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] }),
    )]);
    let auto = plan(&environment(), &tools, &ToolChoice::Auto, PlanOptions::default()).unwrap();
    for answer in [auto, required(&tools)] {
        assert!(!allows(&answer, "<|tool_call>call:add(a=2)<tool_call|>"));
        assert!(allows(&answer, "<|tool_call>call:add{a:2}<tool_call|>"));
    }
}

fn two_tools() -> Vec<Tool> {
    let one =
        |name: &str| tool(name, json!({ "type": "object", "properties": { "text": { "type": "string" } } }));
    declare(&[one("cal:list"), one("cal.list")])
}

/// Case 34: required always calls.
#[test]
fn tool_choice_required_always_calls() {
    let tools = two_tools();
    let mut constraint = required(&tools).begin(&environment());
    let call_open = environment().control().call_open;
    assert!(!constraint.can_stop().unwrap());
    assert_eq!(allowed(constraint.mask().unwrap()), [call_open]);
    let forced = decode(constraint.forced().unwrap());
    assert!(forced.starts_with("<|tool_call>call:"), "what the tools have in common is forced: {forced}");
    let mut random = Random(34);
    for length in 0..20 {
        let walk = walk(&mut required(&tools).begin(&environment()), &mut random, length);
        let output = parsed(&walk.ids, &tools);
        assert!(!output.calls.is_empty() && output.text.is_empty() && output.warnings.is_empty());
    }
    let error = plan(&environment(), &[], &ToolChoice::Required, PlanOptions::default()).unwrap_err();
    assert!(error.to_string().contains("no tool is declared"), "{error}");
}

/// Case 34: none never calls, and shows no markers.
#[test]
fn tool_choice_none_never_calls_and_has_no_markers() {
    let answer = plan(&environment(), &two_tools(), &ToolChoice::None, PlanOptions::default()).unwrap();
    let mut random = Random(35);
    let tokenizer = environment().tokenizer().clone();
    for length in 0..20 {
        let walk = walk(&mut answer.begin(&environment()), &mut random, length);
        assert!(walk.ids.iter().all(|&id| !tokenizer.is_special(id)));
        assert!(parsed(&walk.ids, &two_tools()).calls.is_empty());
    }
    assert!(answer.begin(&environment()).accept(environment().control().call_open).is_err());
    assert!(allows(&answer, "Hello."));
}

/// Case 34: a named tool, and only that one.
#[test]
fn tool_choice_of_a_named_tool_calls_that_tool_only() {
    let tools = two_tools();
    for name in ["cal:list", "cal.list"] {
        let choice = ToolChoice::Named(name.into());
        let answer = plan(&environment(), &tools, &choice, PlanOptions::default()).unwrap();
        let walk = walk(&mut answer.begin(&environment()), &mut Random(36), 10);
        let output = parsed(&walk.ids, &tools);
        assert!(!output.calls.is_empty() && output.calls.iter().all(|call| call.name == name), "{output:?}");
    }
    let choice = ToolChoice::Named("cal".into());
    let error = plan(&environment(), &tools, &choice, PlanOptions::default()).unwrap_err();
    assert!(error.to_string().contains("`cal`"), "{error}");
}

/// Case 34: auto leaves it to the model; text comes first, calls end the answer.
#[test]
fn tool_choice_auto_allows_text_then_calls() {
    let answer = plan(&environment(), &two_tools(), &ToolChoice::Auto, PlanOptions::default()).unwrap();
    assert!(allows(&answer, "Just an answer."));
    assert!(allows(&answer, "One moment.<|tool_call>call:cal:list{}<tool_call|>"));
    assert!(allows(
        &answer,
        "<|tool_call>call:cal.list{}<tool_call|><|tool_call>call:cal:list{}<tool_call|>"
    ));
    assert!(!allows(&answer, "<|tool_call>call:cal.list{}<tool_call|>And?"));
    assert!(!allows(&answer, "A marker <tool_call|> alone"));
    let thinking = answer.thinking(Thinking::Allowed);
    assert!(allows(
        &thinking,
        "<|channel>thought\nA call?\n<channel|><|tool_call>call:cal.list{}<tool_call|>"
    ));
    assert!(!allows(&thinking, "<|channel>thought\nA call? <|tool_call>call:cal.list{}<tool_call|>"));
    let stops = environment().control().response_open;
    let mut constraint = thinking.stops(&[stops]).begin(&environment());
    control("<|tool_call>call:cal.list{}<tool_call|>").iter().for_each(|&id| constraint.accept(id).unwrap());
    constraint.accept(stops).unwrap();
}

#[test]
fn parallel_calls_can_be_turned_off() {
    let tools = two_tools();
    let one = "<|tool_call>call:cal.list{}<tool_call|>";
    for (most_calls, calls, expected) in [(1, 1, true), (1, 2, false), (2, 2, true), (2, 3, false)] {
        let answer = plan(&environment(), &tools, &ToolChoice::Required, PlanOptions { most_calls }).unwrap();
        assert_eq!(allows(&answer, &one.repeat(calls)), expected, "{calls} of {most_calls}");
    }
    let answer = plan(&environment(), &tools, &ToolChoice::Required, PlanOptions { most_calls: 1 }).unwrap();
    let mut constraint = answer.begin(&environment());
    control(one).iter().for_each(|&id| constraint.accept(id).unwrap());
    assert!(constraint.is_complete().unwrap(), "nothing but the end can follow the only call");
}

/// Case 35: keys are the schema's, required ones are present, in the order of the alphabet; most of a call needs no model.
#[test]
fn parameter_names_come_from_the_schema() {
    let parameters = json!({ "type": "object", "required": ["absolutePath"],
        "properties": { "limit": { "type": "integer", "minimum": 1, "maximum": 2000 }, "absolutePath": { "type": "string" } } });
    let tools = declare(&[tool("read_file", parameters)]);
    let mut constraint = required(&tools).begin(&environment());
    let forced = constraint.forced().unwrap().to_vec();
    assert_eq!(decode(&forced), "<|tool_call>call:read_file{absolutePath:<|\"|>");
    let mut random = Random(37);
    for length in 0..10 {
        let walk = walk(&mut required(&tools).begin(&environment()), &mut random, length);
        for call in parsed(&walk.ids, &tools).calls {
            let keys: Vec<&String> = call.arguments.keys().collect();
            assert!(keys == ["absolutePath"] || keys == ["absolutePath", "limit"], "{keys:?}");
        }
    }
}

/// Case 36: no arguments are `{}`, null is a value.
#[test]
fn calls_without_arguments_and_null_values() {
    let mut now = tool("now", Value::Null);
    now.function.parameters = None;
    let set = tool(
        "set",
        json!({ "type": "object", "properties": { "label": { "type": ["string", "null"] } }, "required": ["label"] }),
    );
    for (tools, text, arguments) in [
        (vec![now], "<|tool_call>call:now{}<tool_call|>", json!({})),
        (vec![set], "<|tool_call>call:set{label:null}<tool_call|>", json!({ "label": null })),
    ] {
        let tools = declare(&tools);
        assert!(allows(&required(&tools), text), "{text}");
        let output = parsed(&control(text), &tools);
        assert_eq!(Value::Object(output.calls[0].arguments.clone()), arguments);
    }
}

fn declaration(tools: &[Tool]) -> String {
    let options = RenderOptions { tools, ..RenderOptions::default() };
    render(&options, &[]).unwrap().to_string().replace("<|\"|>", "¦")
}

/// Case 7: properties that are named like keywords are declared, and can be called with.
#[test]
fn properties_that_share_a_name_with_keywords() {
    let text = || json!({ "type": "string" });
    let parameters = json!({ "type": "object", "required": ["type", "description", "Zed", "abc"],
        "properties": { "type": text(), "description": text(), "Zed": text(), "abc": text() } });
    let tools = declare(&[tool("f", parameters)]);
    let declared = declaration(&tools);
    assert!(declared.contains("properties:{abc:{type:¦STRING¦},description:{type:¦STRING¦},type:{type:¦STRING¦},Zed:{type:¦STRING¦}}"), "{declared}");
    let call = r#"<|tool_call>call:f{abc:<|"|>1<|"|>,description:<|"|>2<|"|>,type:<|"|>3<|"|>,Zed:<|"|>4<|"|>}<tool_call|>"#;
    assert!(allows(&required(&tools), call));
    assert_eq!(
        Value::Object(parsed(&control(call), &tools).calls[0].arguments.clone()),
        json!({ "abc": "1", "description": "2", "type": "3", "Zed": "4" })
    );
}

/// Case 8: unions, references and missing types are declared with one type, and calls may use every variant.
#[test]
fn unions_references_and_missing_types() {
    let parameters = json!({
        "type": "object",
        "properties": {
            "a": { "type": ["string", "null"] },
            "b": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
            "c": { "$ref": "#/$defs/point" },
            "d": { "description": "anything" },
            "e": { "oneOf": [{ "type": "integer" }, { "$ref": "#/$defs/point" }] },
        },
        "$defs": { "point": { "type": "object", "properties": { "x": { "type": "number" }, "next": { "$ref": "#/$defs/point" } }, "required": ["x"] } },
    });
    let tools = declare(&[tool("f", parameters)]);
    let declared = declaration(&tools);
    for part in [
        "a:{nullable:true,type:¦STRING¦}",
        "b:{nullable:true,type:¦STRING¦}",
        "d:{description:¦anything¦,type:¦STRING¦}",
        "e:{type:¦INTEGER¦}",
    ] {
        assert!(declared.contains(part), "{declared}");
    }
    assert!(declared.contains("c:{properties:{next:{"), "{declared}");
    let answer = required(&tools);
    for (call, arguments) in [
        (
            r#"{a:null,b:<|"|>t<|"|>,c:{next:{x:1},x:-2.5},d:<|"|>x<|"|>,e:3}"#,
            json!({ "a": null, "b": "t", "c": { "next": { "x": 1 }, "x": -2.5 }, "d": "x", "e": 3 }),
        ),
        (
            r#"{b:null,d:[1,{k:true}],e:{x:0}}"#,
            json!({ "b": null, "d": [1, { "k": true }], "e": { "x": 0 } }),
        ),
    ] {
        let text = format!("<|tool_call>call:f{call}<tool_call|>");
        assert!(allows(&answer, &text), "{text}");
        assert_eq!(Value::Object(parsed(&control(&text), &tools).calls[0].arguments.clone()), arguments);
    }
    assert!(!allows(&answer, "<|tool_call>call:f{c:{next:{}}}<tool_call|>"), "x is required");
}

#[test]
fn keys_that_cannot_be_bare_stand_between_delimiters() {
    let names = [
        "a:b",
        "x,y",
        " padded ",
        "quote\"d",
        "'single",
        "br{ace",
        "new\nline",
        "größe",
        "with space",
        "<b>",
    ];
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.to_string(), json!({ "type": "integer" }))).collect();
    let tools =
        declare(&[tool("f", json!({ "type": "object", "properties": properties, "required": names }))]);
    let walk = walk(&mut required(&tools).begin(&environment()), &mut Random(40), 0);
    let output = parsed(&walk.ids, &tools);
    assert!(output.warnings.is_empty(), "{output:?}");
    assert!(names.iter().all(|name| output.calls[0].arguments[*name].is_i64()), "{output:?}");
    let text = decode(&walk.ids);
    assert!(
        text.contains(",größe:") && text.contains(",with space:") && text.contains("<|\"|>a:b<|\"|>:"),
        "{text}"
    );
}

#[test]
fn text_may_hold_everything_but_control_tokens() {
    let tools = declare(&[tool(
        "run",
        json!({ "type": "object", "properties": { "cmd": { "type": "string" } }, "required": ["cmd"] }),
    )]);
    for cmd in ["echo \"a, b\" > C:\\tmp\\x.txt", "},{]\n\"\"\"", "x:<b>, y:1}", "日本 😀 \u{7f}"] {
        let mut ids = control("<|tool_call>call:run{cmd:<|\"|>");
        ids.extend(encode(cmd));
        ids.extend(control("<|\"|>}<tool_call|>"));
        let mut constraint = required(&tools).begin(&environment());
        ids.iter().for_each(|&id| constraint.accept(id).unwrap());
        assert_eq!(parsed(&ids, &tools).calls[0].arguments["cmd"], cmd);
    }
}

#[test]
fn values_without_a_schema_parse_whatever_they_are() {
    let parameters = json!({ "type": "object", "properties": { "any": {}, "map": { "type": "object" }, "list": { "type": "array" },
        "numbers": { "type": "object", "additionalProperties": { "type": "integer" } } }, "required": ["any", "map", "list", "numbers"] });
    let tools = declare(&[tool("f", parameters.clone())]);
    let answer = required(&tools);
    let mut random = Random(41);
    for length in 0..60 {
        let walk = walk(&mut answer.begin(&environment()), &mut random, length);
        let output = parsed(&walk.ids, &tools);
        assert!(output.warnings.is_empty() && output.text.is_empty(), "{}\n{output:?}", decode(&walk.ids));
        for call in output.calls {
            let arguments = Value::Object(call.arguments);
            assert!(jsonschema::is_valid(&parameters, &arguments), "{}\n{arguments}", decode(&walk.ids));
        }
    }
}

#[test]
fn a_strict_tool_says_no_more_than_a_grammar_can() {
    let control = environment().control().clone();
    for (schema, keyword) in [
        (json!({ "type": "array", "uniqueItems": true }), "`uniqueItems` at #/properties/p"),
        (json!({ "not": {} }), "`not`"),
        (json!({ "type": "string", "pattern": "(?=x)" }), "`pattern`"),
        (json!({ "type": "string", "pattern": "^a|b" }), "`pattern`"),
        (json!({ "$ref": "https://example.org" }), "`$ref`"),
        (json!({ "allOf": [{ "type": "string" }, { "type": "integer" }] }), "`allOf`"),
        (json!({ "type": "object", "minProperties": 1 }), "`minProperties`"),
    ] {
        let parameters = json!({ "type": "object", "properties": { "p": schema } });
        let error = call_grammar(&[&declare(&[tool("f", parameters.clone())])[0]], &control, 1)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("tool `f`: ") && error.contains(keyword), "{error}");
        let grammar = call_grammar(&[&declare(&[relaxed("f", parameters)])[0]], &control, 1).unwrap();
        assert!(grammar.left_out().iter().any(|left| left.contains(keyword)), "{:?}", grammar.left_out());
        environment().compile(grammar.grammar()).unwrap();
    }
    let impossible = json!({ "type": "object", "properties": { "p": { "type": "string", "minLength": 3, "maxLength": 1 } } });
    assert!(call_grammar(&[&tool("f", impossible)], &control, 1).is_err());
}

#[test]
fn names_that_a_call_cannot_have_are_refused() {
    let control = environment().control().clone();
    for name in ["", "two words", "a{b", "a(b", "x\"y", "a,b", "<turn|>", "new\nline", &"n".repeat(129)] {
        let error = call_grammar(&[&tool(name, Value::Null)], &control, 1).unwrap_err();
        assert!(matches!(error, GuidedError::Tool { .. }), "{name:?}: {error}");
    }
    assert!(call_grammar(&[], &control, 1).is_err());
}

#[test]
fn many_tools_and_recursive_ones_stay_small() {
    let parameters = json!({
        "$ref": "#/$defs/node",
        "$defs": { "node": { "type": "object", "properties": { "left": { "$ref": "#/$defs/node" }, "right": { "$ref": "#/$defs/node" }, "v": { "type": "integer" } }, "required": ["v"] } },
    });
    let tools: Vec<Tool> = (0..100).map(|place| tool(&format!("tool_{place}"), parameters.clone())).collect();
    let tools = declare(&tools);
    let answer = required(&tools);
    let call = "<|tool_call>call:tool_57{left:{right:{v:1},v:2},v:3}<tool_call|>";
    assert!(allows(&answer, call));
    assert_eq!(parsed(&control(call), &tools).calls[0].name, "tool_57");
}

#[test]
fn calls_can_stand_beside_a_grammar() {
    let schema = Arc::new(environment().compile(&rawloop_engine::guided::Grammar::json_schema(&json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"], "additionalProperties": false })).unwrap()).unwrap());
    let tools = two_tools();
    let names: Vec<&Tool> = tools.iter().collect();
    let calls = call_grammar(&names, environment().control(), 2).unwrap();
    let answer = AnswerPlan::grammar(schema).or_calls(environment().compile(calls.grammar()).unwrap());
    assert!(allows(&answer, "{\"a\":1}") && allows(&answer, "<|tool_call>call:cal.list{}<tool_call|>"));
    assert!(!allows(&answer, "{\"a\":1}<|tool_call>call:cal.list{}<tool_call|>"));
    let mut constraint: Constraint = answer.begin(&environment());
    assert!(constraint.forced().unwrap().is_empty(), "two ways to begin");
}

#[test]
fn a_call_is_taken_back_like_any_text() {
    let answer = plan(&environment(), &two_tools(), &ToolChoice::Auto, PlanOptions::default()).unwrap();
    let mut constraint = answer.begin(&environment());
    let text = control("One moment.");
    let call = control("<|tool_call>call:cal:list{text:<|\"|>x");
    text.iter().chain(&call).for_each(|&id| constraint.accept(id).unwrap());
    constraint.rollback(call.len()).unwrap();
    assert!(constraint.can_stop().unwrap());
    let other = control("<|tool_call>call:cal.list{}<tool_call|>");
    other.iter().for_each(|&id| constraint.accept(id).unwrap());
    constraint.rollback(other.len() - 3).unwrap();
    let again: Vec<u32> = other[3..].to_vec();
    assert_eq!(constraint.agrees(&again).unwrap(), again.len());
    assert_eq!(constraint.position(), text.len() + 3);
}
