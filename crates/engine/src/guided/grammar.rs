//! Grammars as a caller states them. Nothing here needs a vocabulary; [`Environment::compile`](super::Environment::compile)
//! joins the two.

use llguidance::api::TopLevelGrammar;
use llguidance::derivre::RegexBuilder;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{explain, limit, rewrite};
use super::{GuidedError, Statement, gbnf, lark};

/// Characters of a regular expression.
const REGEX: usize = 1 << 14;
/// Alternatives of a choice, and their characters.
const CHOICES: usize = 10_000;
const CHOICE_TEXT: usize = 1 << 18;

/// White space between the elements of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// None at all.
    Compact,
    /// At most one space, or one new line and its indentation of at most 16 spaces: a model that writes only white space
    /// comes to an end at once.
    #[default]
    Bounded,
}

impl Spacing {
    fn pattern(self) -> Option<&'static str> {
        match self {
            Spacing::Compact => None,
            Spacing::Bounded => Some(" |\\n {0,16}"),
        }
    }
}

/// The texts that an answer may be.
#[derive(Clone, Debug)]
pub struct Grammar {
    source: TopLevelGrammar,
    language: Language,
    stated: Option<Statement>,
}

#[derive(Clone, Debug)]
enum Language {
    /// With the rewritten schema.
    Json(Value),
    /// Anything else, with its name in messages.
    Other(&'static str),
}

impl Grammar {
    /// JSON values that are valid under a schema.
    ///
    /// # Errors
    /// A keyword that cannot be followed, with its place; a schema that is none; one beyond the limits.
    pub fn json_schema(schema: &Value) -> Result<Grammar, GuidedError> {
        Grammar::json_schema_spaced(schema, Spacing::default())
    }

    /// JSON values that are valid under a schema, spaced as asked for.
    ///
    /// # Errors
    /// As [`Grammar::json_schema`].
    pub fn json_schema_spaced(schema: &Value, spacing: Spacing) -> Result<Grammar, GuidedError> {
        let stated = Some(Statement::JsonSchema { schema: schema.clone(), spacing });
        let schema = rewrite(schema, spacing.pattern())?;
        let source = TopLevelGrammar::from_json_schema(schema.clone());
        Ok(Grammar { source, language: Language::Json(schema), stated })
    }

    /// Any JSON object.
    ///
    /// # Errors
    /// None that depend on the input.
    pub fn json_object() -> Result<Grammar, GuidedError> {
        Grammar::json_schema(&json!({ "type": "object" }))
    }

    /// Texts that a regular expression matches as a whole.
    ///
    /// # Errors
    /// An expression that does not parse; look-around, back-references and word boundaries, which are not regular.
    pub fn regex(pattern: &str) -> Result<Grammar, GuidedError> {
        limit("characters of a regular expression", pattern.len(), REGEX)?;
        if hides_text(pattern) {
            return Err(syntax("regex", "a group cannot be named `stop`"));
        }
        RegexBuilder::new()
            .mk_regex(pattern)
            .map_err(|error| syntax("regex", one_line(&GuidedError::text(&error))))?;
        let stated = Statement::Regex(pattern.into());
        // `//` would begin a comment.
        let pattern = if pattern.is_empty() { "(?:)" } else { pattern };
        Ok(Grammar::other(TopLevelGrammar::from_regex(pattern), "regex", Some(stated)))
    }

    /// A grammar in the library's variant of Lark: rules in lower case, terminals in upper case, `%json { ... }` for schemas.
    ///
    /// # Errors
    /// A grammar that does not parse; special tokens, and the attributes `stop`, `stop_capture`, `temperature` and
    /// `max_tokens`, which have no place in an answer.
    pub fn lark(source: &str) -> Result<Grammar, GuidedError> {
        let stated = Statement::Lark(source.into());
        let source = lark::check(source, Spacing::default().pattern())?;
        Ok(Grammar::other(TopLevelGrammar::from_lark(source), "lark", Some(stated)))
    }

    /// A grammar in GBNF, the notation of llama.cpp.
    ///
    /// # Errors
    /// A grammar that does not parse, names what it does not define, or uses tokens by id.
    pub fn gbnf(source: &str) -> Result<Grammar, GuidedError> {
        let stated = Statement::Gbnf(source.into());
        let source = gbnf::to_lark(source)?;
        Ok(Grammar::other(TopLevelGrammar::from_lark(source), "gbnf", Some(stated)))
    }

    /// One of some texts.
    ///
    /// # Errors
    /// No text at all, or more than a choice can hold.
    pub fn choice<T: AsRef<str>>(texts: &[T]) -> Result<Grammar, GuidedError> {
        if texts.is_empty() {
            return Err(syntax("choice", "at least one text is needed"));
        }
        limit("alternatives", texts.len(), CHOICES)?;
        let characters = texts.iter().map(|text| text.as_ref().len()).sum();
        limit("characters of all alternatives", characters, CHOICE_TEXT)?;
        let stated = Statement::Choice(texts.iter().map(|text| text.as_ref().to_owned()).collect());
        let texts: Vec<String> = texts.iter().map(|text| lark::literal(text.as_ref())).collect();
        let source = format!("start: TEXT\nTEXT: {}", texts.join(" | "));
        Ok(Grammar::other(TopLevelGrammar::from_lark(source), "choice", Some(stated)))
    }

    /// A grammar that this crate wrote; it may have special tokens.
    pub(crate) fn internal(lark: String) -> Grammar {
        Grammar::other(TopLevelGrammar::from_lark(lark), "tools", None)
    }

    fn other(source: TopLevelGrammar, name: &'static str, stated: Option<Statement>) -> Grammar {
        Grammar { source, language: Language::Other(name), stated }
    }

    /// What it was made of, where a caller stated it.
    pub fn stated(&self) -> Option<&Statement> {
        self.stated.as_ref()
    }

    pub(super) fn source(&self) -> &TopLevelGrammar {
        &self.source
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self.language, Language::Json(_))
    }

    /// The library's message as an error of this grammar.
    pub(super) fn explain(&self, problem: String) -> GuidedError {
        match &self.language {
            Language::Json(schema) => explain(schema, problem),
            Language::Other(name) => syntax(name, problem),
        }
    }
}

pub(super) fn syntax(language: &'static str, problem: impl Into<String>) -> GuidedError {
    GuidedError::Syntax { language, problem: problem.into() }
}

/// A group of this name is matched and then taken back by the library, which an answer cannot do.
pub(super) fn hides_text(pattern: &str) -> bool {
    pattern.contains("(?P<stop>") || pattern.contains("(?<stop>")
}

/// The last line of a message of several: the others draw the expression.
pub(super) fn one_line(message: &str) -> String {
    message.lines().last().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_regular_is_named() {
        for (pattern, problem) in [
            (r"a(?=b)", "look-around"),
            (r"(a)\1", "backreferences"),
            ("(a", "unclosed group"),
            (r"\bword\b", "WordUnicode"),
            ("a(?P<stop>b)", "stop"),
        ] {
            let error = Grammar::regex(pattern).unwrap_err().to_string();
            assert!(error.starts_with("regex: ") && error.contains(problem), "{error}");
        }
    }

    #[test]
    fn sizes_are_limited() {
        let long = "a".repeat(REGEX + 1);
        assert!(matches!(Grammar::regex(&long), Err(GuidedError::Limit { .. })));
        assert!(matches!(Grammar::choice(&vec!["a"; CHOICES + 1]), Err(GuidedError::Limit { .. })));
        assert!(Grammar::choice::<&str>(&[]).is_err());
    }
}
