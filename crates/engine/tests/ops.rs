//! Operations over a session whose model is a function: what it is asked, piece by piece, and what becomes of its answers.

mod support;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rawloop_engine::Session;
use rawloop_engine::ops::{self, OPS, OpAnswer, OpError, OpEvent, OpOptions, UNSUPPORTED};
use rawloop_tokenizer::{SpecialText, SpecialTokens};
use serde_json::json;
use support::{root, scripted, tiny};

/// A session whose model answers a user's message with a function of it, and what it was asked.
fn answering(
    context: usize,
    answer: impl Fn(&str) -> String + Send + 'static,
) -> (Session, Arc<Mutex<Vec<String>>>) {
    let model = tiny();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let last = Mutex::new(String::new());
    let script = move |ids: &[u32]| {
        let tokenizer = model.tokenizer();
        let all = tokenizer.decode(ids, SpecialText::Keep).unwrap();
        // While a prompt is not complete nobody asks for what follows.
        let Some((prompt, so_far)) = all.rsplit_once("<|turn>model\n") else { return 106 };
        let message = prompt.rsplit_once("<|turn>user\n").unwrap().1.trim_end().trim_end_matches("<turn|>");
        // Tokens that a grammar forces are not asked for, so the first question need not be about the first token.
        let mut last = last.lock().unwrap();
        if so_far.is_empty() || *last != prompt {
            log.lock().unwrap().push(message.to_owned());
            *last = prompt.to_owned();
        }
        let wanted = answer(message);
        let rest = wanted.strip_prefix(so_far).unwrap_or_default();
        tokenizer.encode(rest, SpecialTokens::Text).first().copied().unwrap_or(106)
    };
    (scripted(context, 64, Box::new(script)).0, asked)
}

/// The text of a message: what stands behind the instructions.
fn text_of(message: &str) -> &str {
    message.split_once("\n\n").unwrap().1
}

fn run(
    session: &mut Session,
    name: &str,
    texts: &[&str],
    options: &OpOptions,
) -> Result<(OpAnswer, String, usize), OpError> {
    let (mut shown, mut pieces) = (String::new(), 0);
    let never = AtomicBool::new(false);
    let answer = ops::run(session, ops::find(name)?, texts, options, &never, &mut |event| {
        match event {
            OpEvent::Text(text) => shown.push_str(text),
            OpEvent::Piece { .. } => pieces += 1,
            OpEvent::Prefill { .. } => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok((answer, shown, pieces))
}

fn with(name: &str, value: &str) -> OpOptions {
    OpOptions::new().with(name, value)
}

fn limits(piece_tokens: Option<usize>, answer_tokens: Option<usize>) -> OpOptions {
    let mut options = OpOptions::new();
    options.piece_tokens = piece_tokens;
    options.answer_tokens = answer_tokens;
    options
}

/// Paragraphs of several sentences, so many.
fn paragraphs(count: usize) -> String {
    let names = ["Ana", "Ben", "Cara", "Dan", "Eva", "Finn", "Gina", "Hugo"];
    let one = |index: usize| {
        let name = names[index % names.len()];
        format!("{name} lives in Rome. {name} is {index} years old. {name} works as a baker.")
    };
    (0..count).map(one).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn every_operation_of_the_list_can_be_found_and_says_what_it_does() {
    let mut names: Vec<&str> = OPS.iter().map(|op| op.name).collect();
    names.extend(UNSUPPORTED.iter().map(|other| other.name));
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!((names.len(), distinct.len()), (28, 28));
    for op in OPS {
        assert_eq!(ops::find(op.name).unwrap().name, op.name);
        assert!(
            op.about.contains(" -> ") && op.prompts.iter().any(|prompt| prompt.when.is_none()),
            "{}",
            op.name
        );
        for prompt in op.prompts {
            assert_eq!(prompt.text.contains("{other}"), op.inputs == 2, "{}", op.name);
            let (head, text) = prompt.text.split_once("\n\n").unwrap();
            assert!(text.contains("{text}") && !head.contains("{text}"), "{}", op.name);
            for place in head.split('{').skip(1).filter_map(|rest| rest.split_once('}')) {
                assert!(op.option(place.0).is_some(), "{}: {}", op.name, place.0);
            }
        }
    }
    let error = ops::find("upscale").unwrap_err().to_string();
    assert_eq!(error, "`upscale` is not supported by a text decoder: it needs a model of images");
    assert!(ops::find("sumarize").unwrap_err().to_string().contains("known are summarize, extract"));
}

/// The embedded model is trained on the prompts of the table. `RAWLOOP_UPDATE=1` writes the copy that training reads.
#[test]
fn training_reads_the_prompts_of_the_table() {
    let mut all = serde_json::Map::new();
    for op in OPS {
        let prompts: Vec<_> =
            op.prompts.iter().map(|prompt| json!({ "when": prompt.when, "text": prompt.text })).collect();
        let mut values = serde_json::Map::new();
        for option in op.options.iter().filter(|option| !option.values.is_empty()) {
            let words =
                option.values.iter().map(|(value, words)| ((*value).to_owned(), json!(words))).collect();
            values.insert(option.name.into(), serde_json::Value::Object(words));
        }
        all.insert(op.name.into(), json!({ "prompts": prompts, "values": values }));
    }
    let written = format!("{}\n", serde_json::to_string_pretty(&all).unwrap());
    let path = root().join("training/ops.json");
    if std::env::var_os("RAWLOOP_UPDATE").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == written,
        "training/ops.json is not the table: RAWLOOP_UPDATE=1 writes it"
    );
}

#[test]
fn no_piece_of_a_long_text_exceeds_its_budget_and_nothing_is_lost() {
    let model = tiny();
    let tokenizer = model.tokenizer();
    let mixed =
        "A sentence. Another one!  \u{4f60}\u{597d}\u{3002}\n\nNo end here \u{1f600}\u{1f600} and e\u{301}"
            .repeat(20);
    let solid = "\u{1f600}x".repeat(300);
    for text in [paragraphs(30), mixed, solid, " \n\n".into(), "short".into()] {
        for budget in [1, 7, 40, 300, 100_000] {
            let pieces = ops::split(tokenizer, &text, budget);
            let mut end = 0;
            for piece in &pieces {
                assert_eq!((piece.before.start, piece.before.end), (end, piece.text.start));
                assert!(text[piece.before.clone()].trim().is_empty());
                let part = &text[piece.text.clone()];
                assert_eq!(part.trim(), part);
                let tokens = tokenizer.encode(part, SpecialTokens::Text).len();
                // One character alone may be more than a tiny budget.
                assert!(
                    !part.is_empty() && (tokens <= budget || part.chars().count() == 1),
                    "{budget}: {part:?}"
                );
                end = piece.text.end;
            }
            assert!(text[end..].trim().is_empty());
        }
    }
    // With room for it, pieces end where paragraphs do.
    let text = paragraphs(30);
    let pieces = ops::split(tokenizer, &text, 300);
    assert!(pieces.len() > 1);
    assert!(pieces.iter().skip(1).all(|piece| &text[piece.before.clone()] == "\n\n"));
}

#[test]
fn pieces_are_joined_with_what_stood_between_them() {
    let (mut session, asked) = answering(512, |message| text_of(message).replace("Rome", "Oslo"));
    let text = paragraphs(30);
    let (answer, shown, pieces) = run(&mut session, "proofread", &[&text], &OpOptions::new()).unwrap();
    assert_eq!(answer.text, text.replace("Rome", "Oslo"));
    assert_eq!(shown, answer.text);
    assert!(pieces > 3 && answer.pieces == pieces && answer.whole, "{pieces}");
    assert_eq!(answer.stats.prompts, asked.lock().unwrap().len());
    let (answer, _, pieces) = run(&mut session, "translate", &["Rome\n"], &with("to", "French")).unwrap();
    assert_eq!((answer.text.as_str(), pieces, answer.pieces), ("Oslo", 0, 1));
    assert!(asked.lock().unwrap().last().unwrap().starts_with("Translate the text to French. "));
}

#[test]
fn a_text_of_three_contexts_is_summarized_in_rounds() {
    let (mut session, asked) = answering(512, |message| {
        let last = text_of(message).rsplit("\n\n").next().unwrap();
        last.split(". ").next().unwrap().trim_end_matches('.').to_owned() + "."
    });
    let text = paragraphs(100);
    let model = tiny();
    let tokens = |text: &str| model.tokenizer().encode(text, SpecialTokens::Text).len();
    assert!(tokens(&text) > 3 * 512);
    let (answer, shown, pieces) =
        run(&mut session, "summarize", &[&text], &with("style", "one-line")).unwrap();
    // The last paragraph's first sentence, through every round; only the last answer is shown.
    assert_eq!(answer.text, "Dan lives in Rome.");
    assert_eq!(shown, answer.text);
    let asked = asked.lock().unwrap();
    assert!(pieces >= 6 && asked.len() == pieces + 1, "{pieces} {}", asked.len());
    for message in asked.iter() {
        assert!(message.starts_with("Summarize the text in one sentence. "));
        assert!(tokens(message) < 512);
    }
    drop(asked);
    // A title is made of one-line summaries.
    let (mut session, asked) = answering(512, |_| "Short.".into());
    run(&mut session, "title", &[&text], &OpOptions::new()).unwrap();
    let asked = asked.lock().unwrap();
    assert!(asked[0].starts_with("Summarize the text in one sentence. "));
    let last = asked.last().unwrap();
    assert!(
        last.starts_with("Write a short title") && text_of(last).starts_with("Short.\n\nShort."),
        "{last}"
    );
}

#[test]
fn fields_of_pieces_are_merged_and_what_nobody_says_is_null() {
    let (mut session, asked) = answering(512, |message| {
        let text = text_of(message);
        let email = if text.contains("ana@rome.com") { json!("ana@rome.com") } else { json!(null) };
        let name = if text.contains("Ana") { json!("Ana") } else { json!(null) };
        json!({ "name": name, "email": email, "city": null, "tags": [name] }).to_string()
    });
    let text = format!("{}\n\nWrite to ana@rome.com.", paragraphs(20));
    let (answer, ..) =
        run(&mut session, "extract", &[&text], &with("fields", "name, email : string, city, tags:list"))
            .unwrap();
    let value = answer.value.unwrap();
    assert_eq!((&value["name"], &value["email"]), (&json!("Ana"), &json!("ana@rome.com")));
    assert_eq!((&value["city"], value["tags"][0].as_str()), (&json!(null), Some("Ana")));
    assert!(answer.pieces > 1);
    assert!(asked.lock().unwrap()[0].starts_with("Extract name, email, city, tags from the text"));
    let schema = r#"{ "type": "array", "items": { "type": "integer" } }"#;
    let (mut session, asked) = answering(2048, |_| "[1, 2]".into());
    let (answer, ..) = run(&mut session, "extract", &["1 and 2"], &with("schema", schema)).unwrap();
    assert_eq!(answer.text, "[1,2]");
    assert!(
        asked.lock().unwrap()[0].contains("Schema: {\"type\":\"array\",\"items\":{\"type\":\"integer\"}}\n")
    );
}

#[test]
fn labels_are_voted_on_and_the_first_answer_counts() {
    let label = |message: &str| if text_of(message).contains("Hugo") { "yes" } else { "no" }.to_owned();
    let (mut session, asked) = answering(512, label);
    let each = "Hugo lives in Rome and works there as a baker.";
    let mut options = with("labels", "no, yes");
    options.piece_tokens = Some(16);
    for (hugos, expected) in [(3, "yes"), (2, "no")] {
        let text: Vec<String> = (0..5)
            .map(|index| if index < hugos { each.to_owned() } else { each.replace("Hugo", "Emma") })
            .collect();
        let (answer, shown, pieces) = run(&mut session, "classify", &[&text.join("\n\n")], &options).unwrap();
        assert_eq!((pieces, shown.as_str(), answer.text.as_str()), (5, "", expected), "{:?}", asked.lock());
    }
    let (mut session, asked) = answering(512, |message| {
        let found = text_of(message).contains("Ben is 9 years");
        if found { "Ben is 9 years old." } else { "not in the text" }.to_owned()
    });
    let question = with("question", "How old is Ben {text}?");
    let (answer, shown, _) = run(&mut session, "answer", &[&paragraphs(40)], &question).unwrap();
    assert_eq!((answer.text.as_str(), shown.as_str()), ("Ben is 9 years old.", "Ben is 9 years old."));
    let asked = asked.lock().unwrap().len();
    assert!(asked < answer.pieces, "{asked} of {}", answer.pieces);
    assert_eq!(run(&mut session, "answer", &["Nothing."], &question).unwrap().0.text, "Not in the text.");
}

#[test]
fn what_is_taken_out_stands_in_the_text() {
    let found = r#"{"person": ["Ana", "Nobody"], "city": ["Rome", "Ana Rossi"]}"#;
    let (mut session, _) = answering(1024, move |_| found.into());
    let text = "Ana Rossi met Anabel in Rome. Ana left.";
    let labels = with("labels", "person,  city");
    let (answer, shown, _) = run(&mut session, "redact", &[text], &labels).unwrap();
    assert_eq!(answer.text, "[CITY] met Anabel in [CITY]. [PERSON] left.");
    assert_eq!((shown, answer.dropped), (answer.text, 1));
    for span in answer.value.unwrap().as_array().unwrap() {
        let (start, end) = (span["start"].as_u64().unwrap() as usize, span["end"].as_u64().unwrap() as usize);
        assert_eq!(&text[start..end], span["text"].as_str().unwrap());
    }
    let (answer, ..) = run(&mut session, "entities", &[text], &labels).unwrap();
    assert_eq!(answer.value.unwrap(), json!({ "person": ["Ana"], "city": ["Rome", "Ana Rossi"] }));
    let (mut session, _) = answering(1024, |_| r#"["b", "a"]"#.into());
    let (answer, ..) = run(&mut session, "keywords", &[text], &with("count", "2")).unwrap();
    assert_eq!(answer.text, r#"["b","a"]"#);
}

#[test]
fn a_text_is_not_called_redacted_where_nothing_of_it_could_be_found() {
    let (mut session, _) = answering(1024, |_| r#"{"person": ["Annabel Rossi"], "city": []}"#.into());
    let labels = with("labels", "person, city");
    let error = run(&mut session, "redact", &["Ana Rossi left."], &labels).unwrap_err();
    assert!(matches!(error, OpError::NotInText { op: "redact", named: 1 }), "{error}");
    let (answer, ..) = run(&mut session, "entities", &["Ana Rossi left."], &labels).unwrap();
    assert_eq!((answer.text.as_str(), answer.dropped), (r#"{"person":[],"city":[]}"#, 1));
    let (answer, ..) = run(&mut session, "redact", &["ANNABEL\nROSSI left."], &labels).unwrap();
    assert_eq!((answer.text.as_str(), answer.dropped), ("[PERSON] left.", 0));
    let (mut session, _) = answering(1024, |_| r#"{"person": [], "city": []}"#.into());
    assert_eq!(run(&mut session, "redact", &["Nobody."], &labels).unwrap().0.text, "Nobody.");
}

#[test]
fn a_summary_made_of_cut_ones_is_not_whole() {
    let long = "Ana lives in Rome. ".repeat(60);
    let (mut session, _) =
        answering(512, move |message| if message.contains("Ben") { long.clone() } else { "Short.".into() });
    let text = paragraphs(40);
    let (answer, ..) = run(&mut session, "summarize", &[&text], &with("style", "one-line")).unwrap();
    assert_eq!((answer.text.as_str(), answer.whole), ("Short.", false));
    let (answer, ..) =
        run(&mut session, "summarize", &[&text.replace("Ben", "Bea")], &with("style", "one-line")).unwrap();
    assert_eq!((answer.text.as_str(), answer.whole), ("Short.", true));
}

#[test]
fn what_pieces_give_together_fits_the_schema_of_the_caller() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "cities"],
        "properties": {
            "name": { "type": "string" }, "mail": { "type": "string" },
            "cities": { "type": "array", "items": { "type": "string" }, "maxItems": 2 },
        },
    });
    let (mut session, asked) = answering(512, |message| {
        let cities = if message.contains("Ana") { ["Rome", "Oslo"] } else { ["Paris", "Lima"] };
        json!({ "name": "Ana", "cities": cities }).to_string()
    });
    let text = format!("{}\n\n{}", "Ana met us. ".repeat(60), "Ben met us. ".repeat(60));
    let options = with("schema", &schema.to_string());
    let (answer, ..) = run(&mut session, "extract", &[&text], &options).unwrap();
    assert!(asked.lock().unwrap().len() > 1 && answer.pieces > 1);
    assert_eq!(answer.text, r#"{"name":"Ana","cities":["Rome","Oslo"]}"#);
    assert!(jsonschema::is_valid(&schema, &answer.value.unwrap()));
}

#[test]
fn two_texts_are_compared_and_long_ones_are_summarized_first() {
    let (mut session, asked) = answering(1024, |message| {
        let point = r#"{"points": [{"one": "One.", "two": "Two.", "same": false}]}"#;
        if message.starts_with("Compare") { point } else { "Short." }.to_owned()
    });
    let (answer, ..) = run(&mut session, "compare", &["One.", "Two."], &OpOptions::new()).unwrap();
    assert_eq!(answer.text, r#"{"same":[],"different":[{"one":"One.","two":"Two."}]}"#);
    assert!(asked.lock().unwrap()[0].ends_with("Text 1:\nOne.\n\nText 2:\nTwo."));
    let long = paragraphs(40);
    let (_, _, pieces) = run(&mut session, "compare", &[&long, "Two."], &OpOptions::new()).unwrap();
    assert!(pieces > 0 && asked.lock().unwrap().last().unwrap().contains("Text 1:\nShort."));
    let error = run(&mut session, "compare", &["One."], &OpOptions::new()).unwrap_err().to_string();
    assert_eq!(error, "`compare` takes 2 text(s), 1 given");
}

#[test]
fn what_makes_no_sense_is_refused_before_the_model_runs() {
    let (mut session, asked) = answering(512, |_| "x".into());
    let mut refused = |name: &str, options: OpOptions, words: &str| {
        let error = run(&mut session, name, &["text"], &options).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused("translate", OpOptions::new(), "`translate` needs `to`: the language");
    refused("extract", OpOptions::new(), "`extract` needs `fields` or `schema`");
    refused("classify", with("labels", "a, ,b"), "one of them is empty");
    refused("classify", with("labels", "a,a"), "there twice");
    refused("summarize", with("style", "long"), "expected one-line, concise, bullets");
    refused("summarize", with("colour", "red"), "`summarize` has no option `colour`: it has `style`");
    refused("sentiment", with("style", "x"), "it has none");
    refused("rewrite", with("style", " "), "it is empty");
    refused("keywords", with("count", "0"), "expected a whole number above 0");
    refused("extract", with("fields", "a:date"), "`date` is no type");
    refused("extract", with("schema", "{"), "it is no JSON");
    refused(
        "extract",
        with("schema", r#"{"type":"object","patternProperties":{"a":7}}"#),
        "patternProperties",
    );
    let least = limits(Some(3), None);
    refused(
        "summarize",
        least,
        "`3` is not possible for `piece-tokens` of `summarize`: a piece has at least 16 tokens",
    );
    let error = run(&mut session, "summarize", &[" \n"], &OpOptions::new()).unwrap_err().to_string();
    assert_eq!(error, "text 1 for `summarize` is empty: there is nothing to work on");
    assert!(asked.lock().unwrap().is_empty());
    let (mut small, _) = answering(48, |_| "x".into());
    let error = run(&mut small, "extract", &["text"], &with("fields", "a")).unwrap_err();
    assert!(matches!(error, OpError::NoRoom { context: 48, .. }), "{error}");
}

#[test]
fn an_answer_that_would_leave_its_form_is_held_to_it() {
    let (mut session, _) = answering(512, |_| "I cannot tell".into());
    let (answer, ..) = run(&mut session, "sentiment", &["text"], &OpOptions::new()).unwrap();
    assert!(["positive", "negative", "neutral"].contains(&answer.text.as_str()), "{answer:?}");
    let (answer, ..) = run(&mut session, "extract", &["text"], &with("fields", "a:boolean")).unwrap();
    assert!(answer.value.unwrap()["a"].is_boolean() || answer.text == r#"{"a":null}"#);
    // One that does not end is none.
    let (mut session, _) = answering(512, |_| format!("[{}", "\"again\", ".repeat(200)));
    let short = limits(None, Some(20));
    let error = run(&mut session, "keywords", &["text"], &short.with("count", "100")).unwrap_err();
    assert!(matches!(error, OpError::Cut { op: "keywords", tokens: 20 }), "{error}");
}

#[test]
fn an_empty_answer_is_asked_for_once_more() {
    let (mut session, _) = answering(512, |_| String::new());
    let (answer, ..) = run(&mut session, "tidy-transcript", &["um uh"], &OpOptions::new()).unwrap();
    assert_eq!((answer.stats.prompts, answer.stats.retried), (2, 1));
}

#[test]
fn a_run_can_be_cancelled_anywhere_and_the_session_goes_on() {
    let (mut session, asked) = answering(512, |message| text_of(message).to_lowercase());
    let text = paragraphs(12);
    let op = ops::find("proofread").unwrap();
    let whole = run(&mut session, "proofread", &[&text], &OpOptions::new()).unwrap().0;
    for patience in [0, 1, 2, 40, 150] {
        let cancel = AtomicBool::new(false);
        let mut events = 0;
        let by_flag = patience % 2 == 0;
        let cancelled = ops::run(&mut session, op, &[&text], &OpOptions::new(), &cancel, &mut |_| {
            events += 1;
            let over = events > patience;
            cancel.store(over && by_flag, Ordering::Relaxed);
            if over && !by_flag { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(cancelled, Err(OpError::Cancelled)), "{patience}: {cancelled:?}");
    }
    let again = run(&mut session, "proofread", &[&text], &OpOptions::new()).unwrap().0;
    assert_eq!(again.text, whole.text);
    assert!(asked.lock().unwrap().len() > 6);
}
