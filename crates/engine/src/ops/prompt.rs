//! From a template of the table to a user's message.

use super::OpOptions;
use super::table::{Op, Prompt};

/// The template that the options select.
pub fn template(op: &'static Op, options: &OpOptions) -> &'static str {
    let selected = |prompt: &&Prompt| prompt.when.is_none_or(|option| options.get(option).is_some());
    op.prompts.iter().find(selected).map_or("", |prompt| prompt.text)
}

/// Puts values in the places of a template, in one pass: what a value or a text holds is never taken for a place.
pub fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        filled.push_str(&rest[..open]);
        rest = &rest[open..];
        let place = rest.find('}').and_then(|close| value(&rest[1..close]).map(|value| (close, value)));
        match place {
            Some((close, value)) => {
                filled.push_str(&value);
                rest = &rest[close + 1..];
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled + rest
}

/// The words that a value stands for in a prompt.
pub fn wording(op: &'static Op, name: &str, value: &str) -> String {
    let listed = op.option(name).and_then(|option| option.values.iter().find(|(known, _)| *known == value));
    listed.map_or(value, |(_, words)| words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_looked_into() {
        let value = |name: &str| match name {
            "a" => Some("{b}".to_owned()),
            "b" => Some("x".to_owned()),
            _ => None,
        };
        assert_eq!(fill("{a} {b} {c} {", value), "{b} x {c} {");
        assert_eq!(fill("{{a}}", value), "{{b}}");
    }
}
