//! What is set for one run of an operation, checked against the table.

use serde_json::Value;

use super::table::{Op, Shape};
use super::{OpError, schema};

/// Tokens that a piece needs at least to be worth asking about.
pub(super) const LEAST_PIECE: usize = 16;

/// Values by option, and how the model is run. Checked when it is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpOptions {
    values: Vec<(String, String)>,
    /// Tokens of a piece at most, 16 or more; what the operation and the context allow where nothing is said.
    pub piece_tokens: Option<usize>,
    /// Tokens of an answer to a piece at most; what the operation says where nothing is said.
    pub answer_tokens: Option<usize>,
    /// Prompt tokens per step; none takes what the backend says of itself.
    pub chunk: Option<usize>,
}

impl OpOptions {
    /// Nothing set.
    pub fn new() -> OpOptions {
        OpOptions::default()
    }

    /// Sets an option; the last value counts.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> OpOptions {
        let name = name.into();
        self.values.retain(|(other, _)| *other != name);
        self.values.push((name, value.into()));
        self
    }

    /// What was set for an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// An option of an operation: what was set, or its default.
    pub(super) fn value<'a>(&'a self, op: &'static Op, name: &str) -> Option<&'a str> {
        self.get(name).or_else(|| op.option(name).and_then(|option| option.default))
    }

    /// Compares with what the operation knows, before there is a model to run it.
    ///
    /// # Errors
    /// An option that it does not have, a value that it cannot take, one that is missing.
    pub fn check(&self, op: &'static Op) -> Result<(), OpError> {
        for (name, value) in &self.values {
            let Some(option) = op.option(name) else {
                let names: Vec<String> =
                    op.options.iter().map(|option| format!("`{}`", option.name)).collect();
                let known = if names.is_empty() {
                    "it has none".into()
                } else {
                    format!("it has {}", names.join(" and "))
                };
                return Err(OpError::Option { op: op.name, name: name.clone(), known });
            };
            let listed = option.values.iter().any(|(known, _)| known == value);
            let known: Vec<&str> = option.values.iter().map(|(known, _)| *known).collect();
            let problem = match () {
                () if value.trim().is_empty() => "it is empty".to_owned(),
                () if !listed && !option.open => format!("expected {}", known.join(", ")),
                () => continue,
            };
            let (option, value) = (name.clone(), value.clone());
            return Err(OpError::Value { op: op.name, option, value, problem });
        }
        if let Some(tokens) = self.piece_tokens.filter(|&tokens| tokens < LEAST_PIECE) {
            let problem = format!("a piece has at least {LEAST_PIECE} tokens");
            let (option, value) = ("piece-tokens".into(), tokens.to_string());
            return Err(OpError::Value { op: op.name, option, value, problem });
        }
        let missing = |option, about| Err(OpError::Missing { op: op.name, option, about });
        match op.shape {
            Shape::Fields if self.get("fields").is_none() && self.get("schema").is_none() => {
                return missing("fields` or `schema", "what to extract");
            }
            Shape::Fields => return Ok(()),
            _ => {}
        }
        for option in op.options {
            if self.value(op, option.name).is_none() {
                return missing(option.name, option.about);
            }
        }
        Ok(())
    }

    /// The labels, or other things between commas, of an option.
    pub(super) fn list(&self, op: &'static Op, name: &str) -> Result<Vec<String>, OpError> {
        let text = self.value(op, name).unwrap_or_default();
        let listed: Vec<String> =
            text.split(',').map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let twice = listed.iter().enumerate().any(|(at, label)| listed[..at].contains(label));
        let problem = match () {
            () if listed.iter().any(String::is_empty) => "one of them is empty",
            () if twice => "one of them is there twice",
            () => return Ok(listed),
        };
        Err(self.refused(op, name, problem))
    }

    /// A number above 0.
    pub(super) fn number(&self, op: &'static Op, name: &str) -> Result<usize, OpError> {
        match self.value(op, name).map(str::parse::<usize>) {
            Some(Ok(number)) if number > 0 => Ok(number),
            _ => Err(self.refused(op, name, "expected a whole number above 0")),
        }
    }

    /// The schema of an extraction and the words that stand for it in the prompt.
    pub(super) fn schema(&self, op: &'static Op) -> Result<(Value, String), OpError> {
        let Some(schema) = self.get("schema") else {
            let fields = self.list(op, "fields")?;
            let (schema, names) =
                schema::of_fields(&fields).map_err(|problem| self.refused(op, "fields", problem))?;
            return Ok((schema, names.join(", ")));
        };
        let parsed: Value = serde_json::from_str(schema)
            .map_err(|error| self.refused(op, "schema", format!("it is no JSON: {error}")))?;
        let compact = parsed.to_string();
        Ok((parsed, compact))
    }

    fn refused(&self, op: &'static Op, name: &str, problem: impl Into<String>) -> OpError {
        let (value, problem) = (self.value(op, name).unwrap_or_default().to_owned(), problem.into());
        OpError::Value { op: op.name, option: name.to_owned(), value, problem }
    }
}
