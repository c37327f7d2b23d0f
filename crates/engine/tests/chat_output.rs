//! The way back: thoughts, answers and calls out of what a model generates, streamed in pieces of any size and by token. Named after
//! the cases that other runtimes got wrong.

mod chat_support;

use chat_support::{
    Random, TOKENIZER, messages, prompt_with, random_object, random_text, thinking, tools, user,
};
use rawloop_engine::chat::{
    CallError, ControlTokens, Message, Output, OutputOptions, OutputParser, ParsedCall, RenderOptions, Tool,
    parse_call, parse_output, render,
};
use rawloop_tokenizer::SpecialTokens;
use serde_json::{Value, json};

/// `¦` for the delimiter token.
fn spell(text: &str) -> String {
    text.replace('¦', "<|\"|>")
}

/// Parses as a whole, in pieces of 1 to 40 characters and by token; all have to agree.
fn parse(text: &str, options: OutputOptions) -> Output {
    let text = spell(text);
    let whole = parse_output(&text, options.clone());
    let characters: Vec<char> = text.chars().collect();
    for size in 1..=40 {
        let mut parser = OutputParser::new(options.clone());
        let mut output = Output::default();
        for piece in characters.chunks(size) {
            parser.push_text(&piece.iter().collect::<String>(), &mut |event| output.add(event));
        }
        parser.finish(&mut |event| output.add(event));
        assert_eq!(output, whole, "pieces of {size}");
    }
    assert_eq!(parse_tokens(&text, options), whole, "by token");
    whole
}

fn parse_tokens(text: &str, options: OutputOptions) -> Output {
    let control = ControlTokens::find(&TOKENIZER).unwrap();
    let mut parser = OutputParser::new(options);
    let mut output = Output::default();
    for id in TOKENIZER.encode(text, SpecialTokens::Parse) {
        parser.push_token(&TOKENIZER, &control, id, &mut |event| output.add(event)).unwrap();
    }
    parser.finish(&mut |event| output.add(event));
    output
}

fn plain(text: &str) -> Output {
    parse(text, OutputOptions::default())
}

/// The arguments of a call with this text between its markers, however it is fed.
fn arguments_with(tools: Vec<Tool>, call: &str) -> Value {
    let output = parse(
        &format!("<|tool_call>{call}<tool_call|>"),
        OutputOptions { tools, ..OutputOptions::default() },
    );
    assert_eq!(output.warnings, [], "{call}");
    assert_eq!(output.text, "");
    let [call] = &output.calls[..] else { panic!("{} calls", output.calls.len()) };
    Value::Object(call.arguments.clone())
}

fn arguments(braces: &str) -> Value {
    arguments_with(Vec::new(), &format!("call:f{braces}"))
}

fn tool(name: &str, properties: Value) -> Vec<Tool> {
    tools(json!([{ "type": "function", "function": {
        "name": name, "parameters": { "type": "object", "properties": properties },
    } }]))
}

fn name_of(declared: &[&str], called: &str) -> String {
    let declared = declared.iter().flat_map(|name| tool(name, json!({}))).collect::<Vec<_>>();
    parse_call(&format!("call:{called}{{}}"), &declared).unwrap().name
}

// Answers and thoughts.

#[test]
fn an_answer_is_an_answer() {
    assert_eq!(
        plain("Hello <b>world</b> < 3 |> \"x\" é 日本").text,
        "Hello <b>world</b> < 3 |> \"x\" é 日本"
    );
    assert_eq!(plain("    indented\n\n  code\n\n").text, "    indented\n\n  code");
    assert_eq!(plain(""), Output::default());
    assert_eq!(plain("a < b and <|tool"), Output { text: "a < b and <|tool".into(), ..Output::default() });
}

#[test]
fn a_thought_comes_before_its_answer() {
    let output = plain("<|channel>thought\nTwo and two\n\nis four.\n<channel|>4");
    assert_eq!(output.reasoning, "Two and two\n\nis four.");
    assert_eq!(output.text, "4");
    assert_eq!(plain("<|channel>no header<channel|>4").reasoning, "no header");
    assert_eq!(plain("<|channel>thoughtful<channel|>4").reasoning, "thoughtful");
    let output = plain("\n<|channel>thought\na\n<channel|>\nx\n<|channel>thought\nb\n<channel|>y");
    assert_eq!((output.reasoning.as_str(), output.text.as_str()), ("a\nb", "\nxy"));
}

/// What is parsed goes back into the history as it was generated.
#[test]
fn a_thought_round_trips() {
    for thought in ["R", "two\nlines", "ends\n", " spaced "] {
        let mut message = Message::new(rawloop_engine::chat::Role::Assistant, "a");
        message.reasoning = Some(thought.into());
        let silent = RenderOptions { add_generation_prompt: false, ..RenderOptions::default() };
        let rendered = render(&silent, &[message]).unwrap().to_string();
        let generated = rendered.strip_prefix("<bos><|turn>model\n").unwrap();
        let output = plain(generated);
        assert_eq!((output.reasoning.as_str(), output.text.as_str()), (thought, "a"));
    }
}

#[test]
fn an_output_can_begin_inside_a_thought() {
    let options = OutputOptions { in_thought: true, ..OutputOptions::default() };
    let output = parse("the result is 42\n<channel|>It is 42.", options.clone());
    assert_eq!((output.reasoning.as_str(), output.text.as_str()), ("the result is 42", "It is 42."));
    // The prompt has written the header: this one is the thought's own word.
    assert_eq!(parse("thought\nx<channel|>", options).reasoning, "thought\nx");
}

#[test]
fn the_turn_ends_the_output() {
    assert_eq!(plain("Four<turn|>\n<|turn>user\nmore").text, "Four");
    let control = ControlTokens::find(&TOKENIZER).unwrap();
    let mut parser = OutputParser::new(OutputOptions::default());
    parser.push_text("Four", &mut |_| {});
    assert!(!parser.is_done());
    parser.push_token(&TOKENIZER, &control, control.turn_close, &mut |_| {}).unwrap();
    assert!(parser.is_done());
    let mut parser = OutputParser::new(OutputOptions::default());
    parser.push_token(&TOKENIZER, &control, control.eos, &mut |_| {}).unwrap();
    assert!(parser.is_done());
    assert!(parser.push_token(&TOKENIZER, &control, 1_000_000, &mut |_| {}).is_err());
}

/// With tokens a marker is a token. A text that spells one is text, reserved tokens are not shown.
#[test]
fn spelled_markers_are_text_where_there_are_tokens() {
    let control = ControlTokens::find(&TOKENIZER).unwrap();
    let text = "the <|channel> marker, <turn|> and <|tool_call>call:f{}<tool_call|>";
    let mut ids = TOKENIZER.encode(text, SpecialTokens::Text);
    ids.insert(1, control.bos);
    ids.insert(1, TOKENIZER.token_id("<pad>").unwrap());
    let mut parser = OutputParser::new(OutputOptions::default());
    let mut output = Output::default();
    for id in ids {
        parser.push_token(&TOKENIZER, &control, id, &mut |event| output.add(event)).unwrap();
    }
    parser.finish(&mut |event| output.add(event));
    assert_eq!(output, Output { text: text.into(), ..Output::default() });
}

#[test]
fn case_13_nothing_behind_a_call_is_invented() {
    let output = plain(
        "<|tool_call>call:clock{}<tool_call|><|tool_response>response:clock{value:¦12:00¦}<tool_response|>It is noon.",
    );
    assert_eq!(output.calls.len(), 1);
    assert_eq!(output.text, "");
    let output = plain("<|tool_call>call:clock{}<tool_call|><tool_call|>\n<tool_call|><|tool_response>");
    assert_eq!((output.calls.len(), output.text.as_str()), (1, ""));
    let mut parser = OutputParser::new(OutputOptions::default());
    parser.push_text("<|tool_call>call:clock{}<tool_call|>", &mut |_| {});
    assert!(!parser.is_done());
    parser.push_text("<|tool_response>", &mut |_| {});
    assert!(parser.is_done());
    // The end mark of the call may be missing.
    assert_eq!(plain("<|tool_call>call:clock{}<|tool_response>response").calls.len(), 1);
    assert_eq!(plain("<|tool_call>call:clock{}<turn|>").calls.len(), 1);
}

#[test]
fn case_32_two_calls_in_a_stream() {
    let output = plain(
        "I look.<|tool_call>call:a{city:¦New York¦,n:1e-3,ok:true,x:null}<tool_call|>\
         <|tool_call>call:b{list:[1,{k:¦v¦}],neg:-7}<tool_call|><|tool_response>",
    );
    assert_eq!(output.text, "I look.");
    assert_eq!(output.warnings, []);
    let calls: Vec<_> = output.calls.iter().map(|call| (call.name.as_str(), json!(call.arguments))).collect();
    assert_eq!(
        calls,
        [
            ("a", json!({ "city": "New York", "n": 1e-3, "ok": true, "x": null })),
            ("b", json!({ "list": [1, { "k": "v" }], "neg": -7 })),
        ]
    );
}

#[test]
fn case_38_a_thought_that_uses_the_budget() {
    let output = plain("<|channel>thought\nLet me see, first");
    assert_eq!((output.reasoning.as_str(), output.text.as_str()), ("Let me see, first", ""));
    assert_eq!(plain("<|channel>thou"), Output::default());
}

#[test]
fn case_39_the_header_is_never_shown() {
    for text in [
        // Closed before, within and behind the header; the rest of it comes afterwards.
        "<|channel><channel|>thought\nFour.",
        "<|channel>thought<channel|>\nFour.",
        "<|channel>thou<channel|>thought\nFour.",
        "<|channel>thought\n<channel|>Four.",
    ] {
        let output = plain(text);
        assert_eq!((output.reasoning.as_str(), output.text.trim_start()), ("", "Four."), "{text}");
    }
    let output = plain("<|channel>thought\nSome<channel|>Four.");
    assert_eq!((output.reasoning.as_str(), output.text.as_str()), ("Some", "Four."));
    // An answer that begins with the word is an answer.
    assert_eq!(plain("<|channel><channel|>thoughts differ").text, "thoughts differ");
    assert_eq!(plain("<|channel>thought\n<channel|>thought\nx").text, "thought\nx");
    // A caller that forces the end of a thought can see whether one is open.
    let mut parser = OutputParser::new(OutputOptions::default());
    parser.push_text("<|channel>thought\nlong", &mut |_| {});
    assert!(parser.in_thought());
    let control = ControlTokens::find(&TOKENIZER).unwrap();
    parser.push_token(&TOKENIZER, &control, control.channel_close, &mut |_| {}).unwrap();
    assert!(!parser.in_thought());
}

#[test]
fn case_40_no_marker_is_shown_although_thinking_is_off() {
    let output = plain("<|channel>thought\n<channel|>Four.");
    assert_eq!(output, Output { text: "Four.".into(), ..Output::default() });
    let output = plain("<|channel>thought\nHm.\n<channel|>Four.<channel|>");
    assert_eq!((output.reasoning.as_str(), output.text.as_str()), ("Hm.", "Four."));
}

#[test]
fn case_41_white_space_before_a_thought_is_not_content() {
    let output = plain(" \n<|channel>thought\nx\n<channel|>{\"a\":1,\"b\":2}\n<turn|>");
    assert_eq!(serde_json::from_str::<Value>(&output.text).unwrap(), json!({ "a": 1, "b": 2 }));
    assert_eq!(output.text, "{\"a\":1,\"b\":2}");
}

// Calls.

#[test]
fn case_6_arguments_are_whole() {
    assert_eq!(arguments("{code:¦KTV-5508¦,t:-12.5}"), json!({ "code": "KTV-5508", "t": -12.5 }));
}

#[test]
fn case_21_plain_quotes_inside_a_string() {
    let value = arguments("{cmd:¦echo \"a, b\" > C:\\tmp\\x.txt¦}");
    assert_eq!(value["cmd"], "echo \"a, b\" > C:\\tmp\\x.txt");
    assert_eq!(value.to_string(), r#"{"cmd":"echo \"a, b\" > C:\\tmp\\x.txt"}"#);
    assert_eq!(arguments("{a:¦{\"k\": [1, 2]}, x: 3¦,b:1}"), json!({ "a": "{\"k\": [1, 2]}, x: 3", "b": 1 }));
}

#[test]
fn case_22_the_delimiter_as_a_quote_inside() {
    assert_eq!(
        arguments("{code:¦def f():\n  ¦¦¦doc¦¦¦\n  return 1¦,ids:[1,2]}"),
        json!({ "code": "def f():\n  \"\"\"doc\"\"\"\n  return 1", "ids": [1, 2] })
    );
    assert_eq!(arguments("{say:¦he said ¦hi¦, then left¦}"), json!({ "say": "he said \"hi\", then left" }));
    assert_eq!(arguments("{code:¦x = {¦a¦: [¦b¦]}; y¦}"), json!({ "code": "x = {\"a\": [\"b\"]}; y" }));
}

#[test]
fn case_23_json_and_python_literals() {
    assert_eq!(arguments("{ids:[\"k1\",\"k2\"]}"), json!({ "ids": ["k1", "k2"] }));
    assert_eq!(arguments("{ids:['k1']}"), json!({ "ids": ["k1"] }));
    assert_eq!(arguments("{opts:{\"mode\":\"fast\"}}"), json!({ "opts": { "mode": "fast" } }));
    assert_eq!(arguments("{a:1,b=\"x\"}"), json!({ "a": 1, "b": "x" }));
    assert_eq!(
        arguments(
            "{\"a\": 1, \"b\": [true, False, None, 2.5, -3e2], \"c\": \"q\\\"\\n\\u00e9\\ud83d\\ude00\\\\\"}"
        ),
        json!({ "a": 1, "b": [true, false, null, 2.5, -3e2], "c": "q\"\n\u{e9}\u{1f600}\\" })
    );
    assert_eq!(arguments("{¦k¦:¦v¦}"), json!({ "k": "v" }));
    assert_eq!(
        arguments("{a:\"it's \"quoted\" here\",b:'don't'}"),
        json!({ "a": "it's \"quoted\" here", "b": "don't" })
    );
}

#[test]
fn case_24_the_opening_delimiter_is_missing() {
    let expected = json!({ "query": "weather in Porto, Portugal", "limit": 5 });
    let declared = tool("f", json!({ "query": { "type": "string" }, "limit": { "type": "integer" } }));
    let text = "{query:weather in Porto, Portugal¦,limit:5}";
    assert_eq!(arguments(text), expected);
    assert_eq!(arguments_with(declared.clone(), &format!("call:f{text}")), expected);
    // Neither delimiter; the schema says which word is a key.
    let text = "call:f{query:Porto, Portugal: today,limit:5}";
    assert_eq!(arguments_with(declared, text), json!({ "query": "Porto, Portugal: today", "limit": 5 }));
    // Arrays that end unbalanced.
    assert_eq!(arguments("{ids:[1,2}"), json!({ "ids": [1, 2] }));
    assert_eq!(arguments("{ids:[¦a¦,¦b¦"), json!({ "ids": ["a", "b"] }));
    assert_eq!(arguments("{ids:[a, b],n:1}"), json!({ "ids": ["a", "b"], "n": 1 }));
}

#[test]
fn case_25_the_closing_delimiter_is_missing() {
    assert_eq!(
        arguments("{old:¦if (x) { y }],path:¦notes.txt¦}"),
        json!({ "old": "if (x) { y }]", "path": "notes.txt" })
    );
    assert_eq!(arguments("{path:¦notes.txt}"), json!({ "path": "notes.txt" }));
    assert_eq!(arguments("{l:[¦a¦,{k:¦open}]}"), json!({ "l": ["a", { "k": "open" }] }));
}

#[test]
fn case_27_names_with_colons_and_dots() {
    let declared = ["cal:list", "cal.list", "other"];
    assert_eq!(name_of(&declared, "cal:list"), "cal:list");
    assert_eq!(name_of(&declared, "cal.list"), "cal.list");
    assert_eq!(name_of(&declared, "google:mcp:cal:list"), "cal:list");
    assert_eq!(name_of(&declared, "google:mcp:cal:remove"), "google:mcp:cal:remove");
    // Two fit: none is chosen.
    assert_eq!(name_of(&["cal:list", "list"], "x:cal:list"), "x:cal:list");
    assert_eq!(name_of(&[], "a:b"), "a:b");
    let output = plain("<|tool_call>call:cal:list{}<tool_call|><|tool_call>call:cal.list{}<tool_call|>");
    assert_eq!(
        output.calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(),
        ["cal:list", "cal.list"]
    );
}

#[test]
fn case_28_a_nested_object_then_another_argument() {
    assert_eq!(
        arguments("{edits:[{new:¦b¦,old:¦a¦}],path:¦p¦}"),
        json!({ "edits": [{ "new": "b", "old": "a" }], "path": "p" })
    );
    assert_eq!(
        arguments("{a:{b:{c:[]},d:{}},e:[[1],[2]]}"),
        json!({ "a": { "b": { "c": [] }, "d": {} }, "e": [[1], [2]] })
    );
}

#[test]
fn case_29_text_that_mentions_the_marker() {
    for text in [
        "A call begins with <|tool_call> and ends with <tool_call|>, like this.",
        "Write <|tool_call>call: then a name.",
        "<|tool_call>",
        "<|tool_call>call:",
        "The marker is `<|tool_call>`.\nThe result is in <|tool_response>...<tool_response|>.",
    ] {
        assert_eq!(plain(text), Output { text: text.into(), ..Output::default() });
    }
    let output = plain("<|channel>thought\nI could use <|tool_call> here.\n<channel|>No.");
    assert_eq!(output.reasoning, "I could use <|tool_call> here.");
    let output = plain("It is <|tool_call> and now <|tool_call>call:f{a:1}<tool_call|>");
    assert_eq!((output.text.as_str(), output.calls.len()), ("It is <|tool_call> and now", 1));
}

#[test]
fn case_30_a_python_call() {
    assert_eq!(arguments_with(Vec::new(), "call:add(a=2, note=¦x, y¦)"), json!({ "a": 2, "note": "x, y" }));
    assert_eq!(
        arguments_with(Vec::new(), "call:add(a=2, note=\"x, y\", l=[1, (2)], b=True)"),
        json!({ "a": 2, "note": "x, y", "l": [1, "(2)"], "b": true })
    );
}

/// The text is shown and a warning says why: never an empty success.
#[test]
fn case_31_a_call_that_cannot_be_read() {
    let output = plain("<|tool_call>call:write{BEGIN_ARG path END_ARG BEGIN_ARG x.txt END_ARG}<tool_call|>");
    assert_eq!(output.calls, []);
    assert_eq!(output.text, "call:write{BEGIN_ARG path END_ARG BEGIN_ARG x.txt END_ARG}");
    assert!(matches!(output.warnings[..], [CallError::Key { .. }]), "{:?}", output.warnings);
    // Cut by the length limit: not half a call.
    let output = plain("<|tool_call>call:delete{path:¦/tmp/a");
    assert_eq!((output.calls.len(), output.text.as_str()), (0, "call:delete{path:\"/tmp/a"));
    assert_eq!(output.warnings, [CallError::Incomplete]);
    let output = plain("<|tool_call>call:f{a:1} and more<tool_call|>");
    assert!(matches!(output.warnings[..], [CallError::Trailing { at: 12 }]), "{:?}", output.warnings);
    for error in ["call:f", "f{}", "call:{}", "", "call:f{a}", "call:f{:1}", "call:f{a:"] {
        assert!(parse_call(error, &[]).is_err(), "{error}");
    }
}

#[test]
fn case_36_no_arguments_and_null() {
    assert_eq!(arguments_with(Vec::new(), "call:now{}").to_string(), "{}");
    assert_eq!(arguments_with(Vec::new(), "call:set{label:null}").to_string(), "{\"label\":null}");
    assert_eq!(arguments("{label:}"), json!({ "label": null }));
}

#[test]
fn a_declared_string_stays_a_string() {
    let declared = tool("f", json!({ "id": { "type": "STRING" }, "n": { "type": "integer" } }));
    assert_eq!(arguments_with(declared, "call:f{id:0042,n:42}"), json!({ "id": "0042", "n": 42 }));
    assert_eq!(arguments("{n:42,id:0042x}"), json!({ "n": 42, "id": "0042x" }));
}

/// Of a schema as it is.
fn tool_of(parameters: Value) -> Vec<Tool> {
    tools(json!([{ "type": "function", "function": { "name": "f", "parameters": parameters } }]))
}

#[test]
fn a_bare_value_ends_before_a_key_wherever_the_key_is_declared() {
    let more = json!({
        "properties": { "query": { "type": "string" } }, "allOf": [{ "$ref": "#/$defs/m%20ore" }],
        "$defs": { "m ore": { "properties": { "limit": { "type": "integer" } } } },
    });
    assert_eq!(
        arguments_with(tool_of(more), "call:f{query:weather in Porto, Portugal,limit:5}"),
        json!({ "query": "weather in Porto, Portugal", "limit": 5 })
    );
    let open = json!({ "properties": { "a": { "type": "string" } }, "patternProperties": { "^z": {} } });
    assert_eq!(arguments_with(tool_of(open), "call:f{a:x,zz:2}"), json!({ "a": "x", "zz": 2 }));
    let closed = json!({ "properties": { "a": { "type": "integer" }, "q": { "type": "string" } } });
    // A number is over at a key that nobody declared, a text is not.
    assert_eq!(arguments_with(tool_of(closed.clone()), "call:f{a:1,b:2}"), json!({ "a": 1, "b": 2 }));
    assert_eq!(
        arguments_with(tool_of(closed), "call:f{q:5,b:2 was the score}"),
        json!({ "q": "5,b:2 was the score" })
    );
}

#[test]
fn the_elements_of_a_tuple_have_their_own_types() {
    let tuple = json!({ "properties": { "t": { "type": "array",
        "prefixItems": [{ "type": "integer" }, { "type": "string" }], "items": { "type": "string" } } } });
    assert_eq!(arguments_with(tool_of(tuple), "call:f{t:[5,007,12]}"), json!({ "t": [5, "007", "12"] }));
}

/// What the renderer writes the parser reads, for any arguments.
#[test]
fn calls_round_trip() {
    let mut random = Random(1);
    for round in 0..3_000 {
        let mut arguments = random_object(&mut random, 1);
        arguments.insert("text".into(), json!(random_text(&mut random)));
        // Keys are bare, so those of the format are never like that; strings may hold anything but what ends them.
        let json = json!(arguments).to_string().replace("k<|\\\"|>", "k").replace("<|\\\"|>", "<'>");
        let arguments: Value = serde_json::from_str(&json).unwrap();
        let conversation = json!([user("q"), chat_support::call("1", "f", arguments.clone())]);
        let text = prompt_with(thinking(), conversation);
        let call = text.split_once("<|tool_call>").unwrap().1.rsplit_once("<tool_call|>").unwrap().0;
        let parsed = parse_call(call, &[]).unwrap();
        assert_eq!(
            parsed,
            ParsedCall { name: "f".into(), arguments: arguments.as_object().unwrap().clone() },
            "{round}: {call}"
        );
    }
    assert!(messages(json!([])).is_empty());
}

/// Anything at all: parsing ends, and its result does not depend on the pieces.
#[test]
fn random_outputs_are_the_same_in_any_pieces() {
    const PIECES: &[&str] = &[
        "<|channel>",
        "<channel|>",
        "<|tool_call>",
        "<tool_call|>",
        "<|tool_response>",
        "<tool_response|>",
        "¦",
        "¦",
        "call:",
        "call:f{",
        "thought\n",
        "thought",
        "a:",
        "b=",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ",",
        ":",
        "\"",
        "'",
        "\\",
        "\n",
        " ",
        "x",
        "12",
        "true",
        "null",
        "é",
        "日本",
        "<",
        "|>",
        "word, word",
        "<turn|>",
        "\\u12",
    ];
    let mut random = Random(2);
    for round in 0..6_000 {
        let mut text = String::new();
        if random.chance(50) {
            text.push_str("<|tool_call>call:f{");
        }
        for _ in 0..random.below(24) {
            // The end of the turn is rare, so that most texts go on.
            let piece = random.pick(PIECES);
            text.push_str(if piece == "<turn|>" && random.chance(80) { "y" } else { piece });
        }
        let text = spell(&text);
        let tools =
            if random.chance(50) { tool("f", json!({ "a": { "type": "string" } })) } else { Vec::new() };
        let options = OutputOptions { in_thought: random.chance(20), tools };
        let whole = parse_output(&text, options.clone());
        let mut parser = OutputParser::new(options.clone());
        let mut output = Output::default();
        let mut rest = text.as_str();
        while let Some(last) = rest.chars().last() {
            let cut = (1 + random.below(7)).min(rest.len());
            let cut = (cut..=rest.len()).find(|&at| rest.is_char_boundary(at)).unwrap_or(last.len_utf8());
            parser.push_text(&rest[..cut], &mut |event| output.add(event));
            rest = &rest[cut..];
        }
        parser.finish(&mut |event| output.add(event));
        assert_eq!(output, whole, "{round}: {text:?}");
        assert_eq!(parse_tokens(&text, options), whole, "{round}: {text:?}");
    }
}

/// Hostile calls end too, in bounded time: each of these would take hours if repairs were tried in every combination.
#[test]
fn long_and_deep_calls_end() {
    for unit in [
        "[", "{a:", "['a,", "a:¦,b:", "¦,", "¦", "\"", "a:1,", "a,b:¦x", "]", "x, y: ", "(", "a:'b\\", "a:x,",
    ] {
        let text = spell(&format!("call:f{{k:{}", unit.repeat(20_000)));
        // Which of the two is no matter; an error says so.
        if let Err(error) = parse_call(&text, &[]) {
            assert!(!error.to_string().is_empty());
        }
    }
    assert_eq!(parse_call(&format!("call:f{{k:{}", "[".repeat(100)), &[]), Err(CallError::TooComplex));
    let long = "x".repeat(200_000);
    let call = parse_call(&spell(&format!("call:f{{k:¦{long}¦}}")), &[]).unwrap();
    assert_eq!(call.arguments["k"], long.as_str());
}
