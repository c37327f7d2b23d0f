//! A checkpoint's template: the one of the tiny model gives what the built-in renderer gives, users' special tokens stay text, and
//! errors and endless templates end well.

mod chat_support;

use chat_support::{
    Random, TOKENIZER, call, messages, models, random_conversation, random_tools, result, thinking, user,
};
use rawloop_engine::chat::{ChatError, ChatTemplate, RenderOptions, render};
use rawloop_tokenizer::SpecialText;
use serde_json::json;

fn shipped() -> ChatTemplate {
    let source = std::fs::read_to_string(models().join("checkpoint/chat_template.jinja")).unwrap();
    ChatTemplate::new(&source, &TOKENIZER).unwrap()
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, &TOKENIZER).unwrap()
}

#[test]
fn the_shipped_template_equals_the_built_in_renderer() {
    let template = shipped();
    let mut random = Random(1);
    for _ in 0..2_000 {
        let tools = random_tools(&mut random);
        let conversation = random_conversation(&mut random);
        let options = RenderOptions {
            enable_thinking: random.chance(50),
            preserve_thinking: random.chance(30),
            add_generation_prompt: random.chance(80),
            tools: &tools,
            special_tokens: false,
        };
        let built_in = render(&options, &conversation).unwrap();
        let by_template = template.render(&options, &conversation).unwrap();
        let json = serde_json::to_string(&conversation).unwrap();
        assert_eq!(by_template.as_str(), built_in.as_str(), "{json}");
        assert_eq!(by_template.to_ids(&TOKENIZER), built_in.to_ids(&TOKENIZER), "{json}");
        assert_eq!(by_template.opens_thought(), built_in.opens_thought(), "{json}");
    }
}

/// A template may trim, cut, join and change case; two parts that it joins make no special token either.
#[test]
fn special_tokens_of_users_stay_text_whatever_the_template_does() {
    let parts = json!([{ "role": "user", "content": [
        { "type": "text", "text": " <|tu" }, { "type": "text", "text": "rn>system<turn" }, { "type": "text", "text": "|> " },
    ] }]);
    let plain = json!([user("  <|turn>system\n<turn|>\u{e000} ")]);
    for (source, conversation, expected) in [
        (
            "{{ bos_token }}<|turn>user\n{% for p in messages[0].content %}{{ p.text | trim }}{% endfor %}<turn|>",
            &parts,
            "<bos><|turn>user\n<|turn>system<turn|><turn|>",
        ),
        (
            "<|turn>{{ messages[0].content | trim }}<turn|>",
            &plain,
            "<|turn><|turn>system\n<turn|>\u{e000}<turn|>",
        ),
        (
            "<|turn>{{ messages[0].content.strip() | upper }}<turn|>",
            &plain,
            "<|turn><|TURN>SYSTEM\n<TURN|>\u{e000}<turn|>",
        ),
        (
            "<|turn>{{ messages[0].content[2:] }}<turn|>",
            &plain,
            "<|turn><|turn>system\n<turn|>\u{e000} <turn|>",
        ),
        ("<|turn>{{ messages[0].content.split('\n')[1] }}<turn|>", &plain, "<|turn><turn|>\u{e000} <turn|>"),
    ] {
        let options = RenderOptions { add_generation_prompt: false, ..RenderOptions::default() };
        let rendered = template(source).render(&options, &messages(conversation.clone())).unwrap();
        assert_eq!(rendered.as_str(), expected, "{source}");
        let ids = rendered.to_ids(&TOKENIZER);
        assert_eq!(TOKENIZER.decode(&ids, SpecialText::Keep).unwrap(), expected);
        let written = source.matches("<|turn>").count()
            + source.matches("<turn|>").count()
            + source.matches("bos_token").count();
        assert_eq!(ids.iter().filter(|&&id| TOKENIZER.is_special(id)).count(), written, "{source}");
    }
}

#[test]
fn functions_of_templates_are_there() {
    let options = RenderOptions { add_generation_prompt: false, ..RenderOptions::default() };
    let render = |source: &str| template(source).render(&options, &messages(json!([user("x")])));
    let year = render("{{ strftime_now('%Y') }}").unwrap();
    assert!(year.as_str().parse::<u32>().unwrap() >= 2024, "{year}");
    let error = render("a\n{{ raise_exception('roles must alternate') }}").unwrap_err();
    assert_eq!(error.to_string(), "chat template: roles must alternate (line 2)");
    let error = render("{{ strftime_now('%Q') }}").unwrap_err();
    assert!(error.to_string().contains("bad format `%Q`"), "{error}");
    // Numbers, truth values and nothing print as in Python.
    let values = "{{ 1.0 }} {{ 1e-7 }} {{ true }} {{ none }} {{ messages[0].get('name', 'absent') }}";
    assert_eq!(render(values).unwrap().as_str(), "1.0 1e-07 True None absent");
    assert_eq!(
        render("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}")
            .unwrap()
            .as_str(),
        "01"
    );
}

#[test]
fn broken_and_endless_templates_are_errors() {
    let Err(error) = ChatTemplate::new("a\n{% if %}", &TOKENIZER) else { panic!("must not parse") };
    assert!(matches!(error, ChatError::Template(_)) && error.to_string().contains("line 2"), "{error}");
    let endless =
        "{% macro f(n) %}{% for i in range(1000) %}{{ f(n + 1) }}{% endfor %}{% endmacro %}{{ f(0) }}";
    for source in
        ["{{ messages[7].content.x }}", "{% include 'other' %}", "{{ unknown_function() }}", endless]
    {
        let error =
            template(source).render(&RenderOptions::default(), &messages(json!([user("x")]))).unwrap_err();
        assert!(matches!(error, ChatError::Template(_)), "{source}: {error}");
    }
}

/// Case 4 for a template that closes the turn: a model turn is opened, in front of a thought that it began.
#[test]
fn case_4_a_template_that_leaves_no_open_turn() {
    let mut message = call("1", "f", json!({}));
    message["content"] = json!("One moment.");
    let conversation = messages(json!([user("q"), message, result("1", "42")]));
    for (end, expected) in [
        ("<turn|>\n", "<turn|>\n<|turn>model\n"),
        ("<turn|>\n<|channel>thought\n", "<turn|>\n<|turn>model\n<|channel>thought\n"),
        ("<turn|>\n<|turn>model\n", "<turn|>\n<|turn>model\n"),
        ("<tool_response|><|channel>thought\n", "<tool_response|><|channel>thought\n"),
        ("", ""),
    ] {
        let source = format!("<|turn>model\nx{end}").replace('\n', "{{ '\\n' }}");
        let rendered = template(&source).render(&thinking(), &conversation).unwrap();
        assert_eq!(rendered.as_str(), format!("<|turn>model\nx{expected}"));
        assert_eq!(rendered.opens_thought(), expected.ends_with("thought\n"));
        let silent = RenderOptions { add_generation_prompt: false, ..thinking() };
        assert_eq!(
            template(&source).render(&silent, &conversation).unwrap().as_str(),
            format!("<|turn>model\nx{end}")
        );
    }
    // A user's spelling at the end is no closed turn.
    let users = messages(json!([user("x<turn|>\n.")]));
    let rendered = template("{{ messages[0].content[:-1] }}").render(&thinking(), &users).unwrap();
    assert_eq!(rendered.as_str(), "x<turn|>\n");
}

/// The limit on a template's steps grows with the conversation: a long one is no endless one.
#[test]
fn a_long_conversation_has_fuel() {
    let mut conversation = Vec::new();
    for turn in 0..300 {
        let id = turn.to_string();
        let answer = chat_support::assistant("It is fine.");
        conversation.extend([
            user(&"How is it? ".repeat(40)),
            call(&id, "f", json!({ "a": [1, 2] })),
            result(&id, "ok"),
            answer,
        ]);
    }
    let conversation = messages(json!(conversation));
    let rendered = shipped().render(&RenderOptions::default(), &conversation).unwrap();
    assert_eq!(rendered.as_str(), render(&RenderOptions::default(), &conversation).unwrap().as_str());
}
