//! GBNF, the grammar notation of llama.cpp, turned into Lark.
//!
//! `parse.rs` reads it. A rule that leads back to itself only at its end (`ws ::= ([ \t] ws)?`) is a repetition and is
//! rewritten as one; a rule that then leads to no recursion becomes a terminal, the others become rules. What this means: a
//! terminal takes the longest text it can, as always in Lark, while GBNF tries every split. So every answer is one of the
//! GBNF grammar's, but of a grammar such as `root ::= "(" word root ")" | word "b"` with `word ::= [a-z]+` not every one is
//! reached. A grammar without recursion is a single terminal, where there is no difference.
//!
//! Refused by name: tokens (`<name>`, `<[12]>`), which have no place in an answer.

mod emit;
mod parse;

use std::collections::HashMap;

use super::GuidedError;
use super::grammar::syntax;

/// A piece of a rule.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    /// One character that is, or is not, in the ranges.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// Any character.
    Any,
    /// The rule of this number.
    Rule(usize),
    Sequence(Vec<Node>),
    Either(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
}

/// A rule: its name and what it stands for.
#[derive(Clone, Debug)]
struct Rule {
    name: String,
    body: Node,
}

/// A grammar; the rule `root` is at `root`.
#[derive(Debug)]
struct Rules {
    rules: Vec<Rule>,
    root: usize,
}

/// The grammar in Lark.
pub(super) fn to_lark(source: &str) -> Result<String, GuidedError> {
    super::schema::limit("characters of a grammar", source.len(), 1 << 18)?;
    let mut rules = parse::parse(source)?;
    for place in 0..rules.rules.len() {
        if let Some(repetition) = without_tail_recursion(place, &rules.rules[place].body) {
            rules.rules[place].body = repetition;
        }
    }
    emit::emit(&rules)
}

/// `a a ... a b` for a rule `self ::= a self | b`, or nothing where the rule has no such form.
fn without_tail_recursion(this: usize, body: &Node) -> Option<Node> {
    let mut again = Vec::new();
    let mut last = Vec::new();
    for variant in variants(body) {
        let mut parts = match variant {
            Node::Sequence(parts) => parts,
            other => vec![other],
        };
        let recursive = parts.last() == Some(&Node::Rule(this));
        if recursive {
            parts.pop();
        }
        if parts.iter().any(|part| mentions(part, this)) {
            return None;
        }
        if recursive { again.push(Node::Sequence(parts)) } else { last.push(Node::Sequence(parts)) }
    }
    if again.is_empty() {
        return None;
    }
    let repeated = Node::Repeat(Box::new(Node::Either(again)), 0, None);
    Some(Node::Sequence(vec![repeated, Node::Either(last)]))
}

/// The alternatives of a body; an optional body has an empty one.
fn variants(body: &Node) -> Vec<Node> {
    match body {
        Node::Either(variants) => variants.iter().flat_map(self::variants).collect(),
        Node::Sequence(parts) if parts.len() == 1 => variants(&parts[0]),
        Node::Repeat(inner, 0, Some(1)) => {
            let mut all = variants(inner);
            all.push(Node::Sequence(Vec::new()));
            all
        }
        other => vec![other.clone()],
    }
}

fn mentions(node: &Node, rule: usize) -> bool {
    match node {
        Node::Rule(other) => *other == rule,
        Node::Sequence(parts) | Node::Either(parts) => parts.iter().any(|part| mentions(part, rule)),
        Node::Repeat(inner, ..) => mentions(inner, rule),
        Node::Text(_) | Node::Class { .. } | Node::Any => false,
    }
}

/// Calls `visit` with each rule that a node names.
fn each_rule(node: &Node, visit: &mut dyn FnMut(usize)) {
    match node {
        Node::Rule(rule) => visit(*rule),
        Node::Sequence(parts) | Node::Either(parts) => parts.iter().for_each(|part| each_rule(part, visit)),
        Node::Repeat(inner, ..) => each_rule(inner, visit),
        Node::Text(_) | Node::Class { .. } | Node::Any => {}
    }
}

/// Numbers for names, in the order of their first mention.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, usize>,
}

impl Names {
    fn number(&mut self, name: &str) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(name.to_owned()).or_insert(next)
    }
}

fn error(line: usize, problem: impl std::fmt::Display) -> GuidedError {
    syntax("gbnf", format!("line {line}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursion_at_the_end_is_a_repetition() {
        let lark = to_lark("root ::= \"(\" ws \")\"\nws ::= ([ \\t] ws)?").unwrap();
        assert!(!lark.contains("\nr1"), "ws is a terminal: {lark}");
        let lark = to_lark("root ::= item root | item\nitem ::= \"- \" [^\\n]+ \"\\n\"").unwrap();
        assert!(lark.starts_with("start: R0\n"), "the whole is one terminal: {lark}");
    }

    #[test]
    fn recursion_elsewhere_is_a_rule() {
        let lark = to_lark("root ::= \"(\" root \")\" | \"x\"").unwrap();
        assert!(lark.starts_with("start: r0\nr0: "), "{lark}");
        let lark = to_lark("root ::= a\na ::= \"x\" b\nb ::= \"y\" a | \"z\"").unwrap();
        assert!(lark.contains("r1: ") && lark.contains("r2: "), "{lark}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (source, problem) in [
            ("", "no rule `root`"),
            ("a ::= \"x\"", "no rule `root`"),
            ("root ::= other", "`other` is not defined"),
            ("root ::= \"x\"\n\nroot ::= \"y\"", "line 3: `root` is defined twice"),
            ("root ::= \"x", "line 1: the text does not end"),
            ("root ::= [a-z", "line 1: the class does not end"),
            ("root ::= [z-a]", "line 1: the range"),
            ("root ::= (\"a\"", "line 1: `)` expected"),
            ("root ::= \"a\" )", "line 1: a rule or the end of the line expected"),
            ("root = \"a\"", "line 1: `::=` expected"),
            ("root ::= \"\\q\"", "line 1: unknown escape"),
            ("root ::= \"\\x4\"", "line 1: a code point"),
            ("root ::= \"\\uD800\"", "line 1: a code point"),
            ("root ::= \"a\"{3,1}", "line 1: the repetition"),
            ("root ::= *", "line 1: nothing to repeat"),
            ("root ::= <think> \"x\"", "line 1: tokens"),
            ("root ::= !<[3]>", "line 1: tokens"),
            ("root ::= \"a\"{99999999999}", "line 1: the repetition"),
        ] {
            let error = to_lark(source).unwrap_err().to_string();
            assert!(error.starts_with("gbnf: ") && error.contains(problem), "{source:?}: {error}");
        }
        let deep = format!("root ::= {}\"a\"{}", "(".repeat(5000), ")".repeat(5000));
        assert!(to_lark(&deep).unwrap_err().to_string().contains("nested"));
    }
}
