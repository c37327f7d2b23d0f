//! Writes the rules as Lark: terminals for what is regular, rules for what is recursive.

use std::fmt::Write;

use super::super::{GuidedError, lark};
use super::{Node, Rules, each_rule};

pub(super) fn emit(rules: &Rules) -> Result<String, GuidedError> {
    let recursive = recursive(rules);
    let name = |rule: usize| if recursive[rule] { format!("r{rule}") } else { format!("R{rule}") };
    let mut out = format!("start: {}\n", name(rules.root));
    for rule in reachable(rules) {
        let mut body = String::new();
        write_node(&mut body, &rules.rules[rule].body, Place::Body, &name);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}: {body}", name(rule));
    }
    lark::check(&out, None)
}

/// Which rules lead back to themselves, or to one that does.
fn recursive(rules: &Rules) -> Vec<bool> {
    let count = rules.rules.len();
    let mut uses = vec![0usize; count];
    let mut users = vec![Vec::new(); count];
    for (place, rule) in rules.rules.iter().enumerate() {
        each_rule(&rule.body, &mut |used| {
            uses[place] += 1;
            users[used].push(place);
        });
    }
    // Take out, again and again, what uses nothing that is left.
    let mut done: Vec<usize> = (0..count).filter(|&rule| uses[rule] == 0).collect();
    let mut recursive = vec![true; count];
    while let Some(rule) = done.pop() {
        recursive[rule] = false;
        for &user in &users[rule] {
            uses[user] -= 1;
            if uses[user] == 0 {
                done.push(user);
            }
        }
    }
    recursive
}

/// The rules that the root leads to, in their order.
fn reachable(rules: &Rules) -> Vec<usize> {
    let mut reached = vec![false; rules.rules.len()];
    let mut open = vec![rules.root];
    while let Some(rule) = open.pop() {
        if !std::mem::replace(&mut reached[rule], true) {
            each_rule(&rules.rules[rule].body, &mut |used| open.push(used));
        }
    }
    (0..reached.len()).filter(|&rule| reached[rule]).collect()
}

/// What may be written without brackets around it.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Place {
    /// Alternatives.
    Body,
    /// A sequence.
    Variant,
    /// One thing.
    Part,
}

fn write_node(out: &mut String, node: &Node, place: Place, name: &dyn Fn(usize) -> String) {
    match node {
        Node::Text(text) => out.push_str(&lark::literal(text)),
        Node::Any => out.push_str("/(?s:.)/"),
        Node::Class { negated, ranges } => write_class(out, *negated, ranges),
        Node::Rule(rule) => out.push_str(&name(*rule)),
        Node::Sequence(parts) if parts.is_empty() => out.push_str("\"\""),
        Node::Sequence(parts) => write_parts(out, parts, " ", (place, Place::Part), name),
        Node::Either(parts) => write_parts(out, parts, " | ", (place, Place::Variant), name),
        Node::Repeat(_, _, Some(0)) => out.push_str("\"\""),
        Node::Repeat(inner, least, most) => {
            let counted = |least, most| format!("{{{least},{most}}}");
            let suffixes = match (least, most) {
                (0, None) => vec!["*".into()],
                (1, None) => vec!["+".into()],
                (0, Some(1)) => vec!["?".into()],
                (least, Some(most)) => vec![counted(least, most)],
                (least, None) => vec![counted(least, least), "*".into()],
            };
            for (count, suffix) in suffixes.iter().enumerate() {
                out.push_str(if count == 0 { "(" } else { " (" });
                write_node(out, inner, Place::Body, name);
                out.push(')');
                out.push_str(suffix);
            }
        }
    }
}

fn write_parts(
    out: &mut String,
    parts: &[Node],
    between: &str,
    (place, inside): (Place, Place),
    name: &dyn Fn(usize) -> String,
) {
    // A list may stand where its parts may not, but not the other way round.
    let brackets = place >= inside;
    if brackets {
        out.push('(');
    }
    for (count, part) in parts.iter().enumerate() {
        if count > 0 {
            out.push_str(between);
        }
        write_node(out, part, inside, name);
    }
    if brackets {
        out.push(')');
    }
}

fn write_class(out: &mut String, negated: bool, ranges: &[(char, char)]) {
    if ranges.is_empty() {
        // Nothing is in an empty class, and everything outside of it.
        out.push_str(if negated { "/(?s:.)/" } else { "/[^\\x{0}-\\x{10FFFF}]/" });
        return;
    }
    out.push_str(if negated { "/[^" } else { "/[" });
    for (first, last) in ranges {
        let _ = write!(out, "\\x{{{:X}}}-\\x{{{:X}}}", u32::from(*first), u32::from(*last));
    }
    out.push_str("]/");
}
