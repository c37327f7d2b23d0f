//! Regular expressions, Lark, GBNF and choices: whatever allowed tokens are picked, the answer is one that the grammar means.

mod guided_support;

use guided_support::{Random, begin, compile, decode, encode, environment, walk};
use rawloop_engine::guided::{AnswerPlan, Grammar, GuidedError};

/// Random answers of a grammar.
fn answers(grammar: &Grammar, count: usize, seed: u64) -> Vec<String> {
    let compiled = compile(grammar);
    let mut random = Random(seed);
    let answer = |_| {
        let mut constraint = AnswerPlan::grammar(compiled.clone()).begin(&environment());
        let length = random.below(30);
        let walk = walk(&mut constraint, &mut random, length);
        assert!(!walk.ids.iter().any(|&id| environment().tokenizer().is_special(id)));
        decode(&walk.ids)
    };
    (0..count).map(answer).collect()
}

/// Whether a text is an answer of the grammar, however it is cut into tokens.
fn accepts(grammar: &Grammar, text: &str) -> bool {
    let mut constraint = begin(grammar);
    encode(text).into_iter().all(|id| constraint.accept(id).is_ok()) && constraint.can_stop().unwrap()
}

#[test]
fn answers_match_their_regular_expression() {
    for pattern in [
        r"(\d{4})-(0[1-9]|1[0-2])-([0-2]\d|3[01])",
        r"[A-Z][a-z]{1,8}( [A-Z][a-z]{1,8}){0,3}[.!?]",
        r"(?i)yes|no",
        r"[^\n]{0,20}",
        r"(?s).{3}",
        r"[äöüß]+|日本|\p{Greek}{2}",
        r"a{2,4}b*c?",
        r#"/path/to/[a-z]+\.txt|"[^"]*""#,
        r"",
        r"^anchored$",
    ] {
        let whole = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        for answer in answers(&Grammar::regex(pattern).unwrap(), 20, 1) {
            assert!(whole.is_match(&answer), "{pattern}: {answer:?}");
        }
    }
}

#[test]
fn a_choice_is_one_of_its_texts() {
    let texts = [
        "yes",
        "no",
        "yes please",
        "",
        "größe \"x\"\n",
        "<|turn>",
        "<unused3>",
        "日本",
        "a\u{7f}b",
        "/ # @ <b>",
    ];
    let grammar = Grammar::choice(&texts).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for answer in answers(&grammar, 300, 2) {
        assert!(texts.contains(&answer.as_str()), "{answer:?}");
        seen.insert(answer);
    }
    assert_eq!(seen.len(), texts.len(), "each can be reached: {seen:?}");
    for text in texts {
        assert!(text == "<unused3>" || accepts(&grammar, text), "{text:?}");
    }
}

#[test]
fn a_single_choice_needs_no_model() {
    let mut constraint = begin(&Grammar::choice(&["the only answer"]).unwrap());
    let forced = constraint.forced().unwrap().to_vec();
    assert_eq!(decode(&forced), "the only answer");
    forced.iter().for_each(|&id| constraint.accept(id).unwrap());
    assert!(constraint.is_complete().unwrap() && constraint.can_stop().unwrap());
}

const SQL: &str = r#"
start: "SELECT " columns " FROM " NAME (" WHERE " condition)? ";"
columns: "*" | NAME ("," NAME)*
condition: NAME OPERATOR VALUE (" AND " condition)?
NAME: /[a-z_][a-z0-9_]{0,12}/
OPERATOR: " = " | " < " | " > "
VALUE: /[0-9]{1,5}/ | /'[a-z ]*'/
"#;

#[test]
fn answers_follow_a_lark_grammar() {
    let name = "[a-z_][a-z0-9_]{0,12}";
    let condition = format!("{name} [=<>] ([0-9]{{1,5}}|'[a-z ]*')");
    let whole =
        format!("^SELECT ([*]|{name}(,{name})*) FROM {name}( WHERE {condition}( AND {condition})*)?;$");
    let whole = regex::Regex::new(&whole).unwrap();
    let grammar = Grammar::lark(SQL).unwrap();
    for answer in answers(&grammar, 60, 3) {
        assert!(whole.is_match(&answer), "{answer:?}");
    }
    assert!(accepts(&grammar, "SELECT id,name FROM users WHERE age > 30 AND city = 'paris';"));
    assert!(!accepts(&grammar, "SELECT id FROM users WHERE age >;"));
}

#[test]
fn a_schema_inside_a_lark_grammar_is_followed() {
    let source = "start: \"result: \" object \".\"\nobject: %json { \"type\": \"object\", \
        \"properties\": { \"n\": { \"type\": \"integer\", \"minimum\": 3, \"maximum\": 12 } }, \
        \"required\": [\"n\"], \"additionalProperties\": false }";
    for answer in answers(&Grammar::lark(source).unwrap(), 20, 4) {
        let inside = answer.strip_prefix("result: ").and_then(|rest| rest.strip_suffix('.')).unwrap();
        let value: serde_json::Value = serde_json::from_str(inside).unwrap();
        assert!((3..=12).contains(&value["n"].as_i64().unwrap()), "{answer}");
    }
}

/// JSON as such grammars are usually written, the white space by recursion.
const JSON: &str = r#"
# any JSON object
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\/bfnrt] | "u" [0-9a-bA-B] [0-9a-fA-F]{3}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]{1,9})? ([eE] [-+]? [0-9]{1,2})? ws
ws ::= ([ \t\n] ws)?
"#;

#[test]
fn answers_follow_a_gbnf_grammar() {
    let grammar = Grammar::gbnf(JSON).unwrap();
    for answer in answers(&grammar, 60, 5) {
        let value: serde_json::Value =
            serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{e}: {answer}"));
        assert!(value.is_object());
    }
    assert!(accepts(&grammar, "{\n \"a\": [1, -2.5e3, {\"b\\n\": null}],\"c\":true }\n"));
    assert!(!accepts(&grammar, "[1]"));
    let list =
        Grammar::gbnf("root ::= item+ \"never\"{0}\nitem ::= \"- \" [^\\r\\n\\x0b]{1,10} \"\\n\"").unwrap();
    let whole = regex::Regex::new("^(- [^\r\n]{1,10}\n)+$").unwrap();
    assert!(answers(&list, 30, 6).iter().all(|answer| whole.is_match(answer)));
    let nested = Grammar::gbnf("root ::= \"(\" root \")\" | [0-9]{2,} |\n \"x\"{0,2} \"y\" | .").unwrap();
    let whole = regex::Regex::new("^[(]*([0-9]{2,}|x{0,2}y|(?s:.))[)]*$").unwrap();
    for answer in answers(&nested, 60, 7) {
        assert!(whole.is_match(&answer), "{answer:?}");
        let count = |c| answer.chars().filter(|&other| other == c).count();
        assert!(count('(').abs_diff(count(')')) <= 1, "{answer:?}");
    }
}

#[test]
fn grammars_that_nothing_follows_are_refused() {
    for grammar in [
        Grammar::lark("start: start").unwrap(),
        Grammar::lark("start: a\na: \"x\" & \"y\"").unwrap_or(Grammar::lark("start: start").unwrap()),
        Grammar::gbnf("root ::= root \"x\"").unwrap(),
        Grammar::regex("[^\\x{0}-\\x{10FFFF}]").unwrap(),
        Grammar::json_schema(&serde_json::json!({ "$ref": "#" })).unwrap(),
        Grammar::json_schema(&serde_json::json!({ "type": "string", "minLength": 3, "maxLength": 1 }))
            .unwrap(),
        Grammar::json_schema(
            &serde_json::json!({ "type": "object", "required": ["a"], "properties": { "a": false } }),
        )
        .unwrap(),
    ] {
        let error = environment().compile(&grammar).unwrap_err();
        assert!(
            matches!(error, GuidedError::Nothing(_) | GuidedError::Syntax { .. }),
            "{grammar:?}: {error}"
        );
    }
}

#[test]
fn mistakes_are_errors_with_their_place() {
    for (source, problem) in [
        ("start: missing", "unknown name: \"missing\""),
        ("start: \"open", "1(13)"),
        ("start: \"a\"\n???", "2("),
        ("begin: \"a\"", "no start rule"),
        ("start: A\nA: A", "circular"),
    ] {
        let grammar = Grammar::lark(source).unwrap();
        let error = environment().compile(&grammar).unwrap_err().to_string();
        assert!(error.starts_with("lark: ") && error.contains(problem), "{source}: {error}");
    }
}
