//! A grammar as somebody stated it: what can be stored and stated again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Grammar, GuidedError, Spacing};

/// What a [`Grammar`] was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Statement {
    /// [`Grammar::json_schema_spaced`].
    JsonSchema {
        /// The schema, as it was given.
        schema: Value,
        /// White space between elements.
        spacing: Spacing,
    },
    /// [`Grammar::regex`].
    Regex(String),
    /// [`Grammar::lark`].
    Lark(String),
    /// [`Grammar::gbnf`].
    Gbnf(String),
    /// [`Grammar::choice`].
    Choice(Vec<String>),
}

impl Statement {
    /// The grammar.
    ///
    /// # Errors
    /// As the function of [`Grammar`] that makes one of its kind.
    pub fn grammar(&self) -> Result<Grammar, GuidedError> {
        match self {
            Statement::JsonSchema { schema, spacing } => Grammar::json_schema_spaced(schema, *spacing),
            Statement::Regex(pattern) => Grammar::regex(pattern),
            Statement::Lark(source) => Grammar::lark(source),
            Statement::Gbnf(source) => Grammar::gbnf(source),
            Statement::Choice(texts) => Grammar::choice(texts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_stored_states_the_same_again() {
        let schema =
            json!({ "type": "object", "properties": { "b": { "type": "string" }, "a": { "type": "null" } } });
        let grammars = [
            Grammar::json_schema(&schema).unwrap(),
            Grammar::json_schema_spaced(&schema, Spacing::Compact).unwrap(),
            Grammar::regex("a|b+").unwrap(),
            Grammar::lark("start: \"x\" | \"y\"").unwrap(),
            Grammar::gbnf("root ::= \"x\" | \"y\"").unwrap(),
            Grammar::choice(&["one", "two"]).unwrap(),
        ];
        for grammar in grammars {
            let stated = grammar.stated().unwrap();
            let stored = serde_json::to_string(stated).unwrap();
            let read: Statement = serde_json::from_str(&stored).unwrap();
            assert_eq!(read.grammar().unwrap().stated(), Some(stated), "{stored}");
            assert_eq!(serde_json::to_string(&read).unwrap(), stored, "keys keep their order");
        }
        assert_eq!(Grammar::internal("start: \"x\"".into()).stated(), None);
    }
}
