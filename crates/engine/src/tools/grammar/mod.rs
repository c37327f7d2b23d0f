//! Gemma's notation of calls as a grammar: `<|tool_call>call:NAME{key:value,...}<tool_call|>`, held to the tools' schemas.
//!
//! Keys are bare and in the order in which the chat format sorts them; strings stand between delimiter tokens and hold any
//! text but control tokens; numbers, `true`, `false` and `null` are bare; nothing is spaced. A key that the parser could not
//! read bare stands between delimiters too. Properties that the schema does not name are not let through, except in an object
//! that names none.
//!
//! What a schema says and no grammar can: for a tool with `strict: true` it is an error that names the keyword; for others,
//! which agent frameworks declare without knowing of any grammar, the keyword is left to the tool itself and listed in
//! [`CallGrammar::left_out`].
//!
//! Files: `value.rs` writes a value of any schema, `object.rs` and `text.rs` the larger kinds.

mod object;
mod text;
mod value;

use crate::chat::{ControlTokens, Tool};
use crate::guided::{Grammar, GuidedError};
use value::Writer;

/// Longest name of a tool and longest key; the parser reads no longer ones.
const LONGEST_NAME: usize = 128;

/// A grammar of calls.
#[derive(Clone, Debug)]
pub struct CallGrammar {
    grammar: Grammar,
    left_out: Vec<String>,
}

impl CallGrammar {
    /// The grammar, for [`Environment::compile`](crate::guided::Environment::compile). Its answers begin with the mark of a
    /// call, so it goes into [`AnswerPlan::calls`](crate::guided::AnswerPlan::calls) or
    /// [`AnswerPlan::or_calls`](crate::guided::AnswerPlan::or_calls).
    pub fn grammar(&self) -> &Grammar {
        &self.grammar
    }

    /// What the schemas of tools that are not strict say beyond the grammar.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

/// The grammar of one call or more, up to `most_calls`, of these tools. Their schemas should come from
/// [`declare`](super::declare).
///
/// # Errors
/// No tools, a name that a call cannot have, a strict tool whose schema says more than a grammar can, a schema beyond the
/// limits.
pub fn call_grammar(
    tools: &[&Tool],
    control: &ControlTokens,
    most_calls: usize,
) -> Result<CallGrammar, GuidedError> {
    let mut writer = Writer::new(control);
    let mut calls = Vec::new();
    for tool in tools {
        let name = &tool.function.name;
        check_name(name)?;
        let arguments = writer.arguments(&tool.function)?;
        calls.push(format!("{} {arguments}", crate::guided::literal(&format!("call:{name}"))));
    }
    if calls.is_empty() {
        return Err(GuidedError::Tool { tool: String::new(), problem: "at least one tool is needed".into() });
    }
    let more = match most_calls {
        0 | 1 => String::new(),
        most => format!(" call{{0,{}}}", most - 1),
    };
    let (open, close) = (control.call_open, control.call_close);
    let start = format!("start: call{more}\ncall: <[{open}]> ({}) <[{close}]>\n", calls.join(" | "));
    let (rules, left_out) = writer.finish();
    Ok(CallGrammar { grammar: Grammar::internal(start + &rules), left_out })
}

/// A name is read up to its bracket, and a call begins only with a name that has none of these.
fn check_name(name: &str) -> Result<(), GuidedError> {
    let problem = if name.is_empty() {
        "a tool needs a name".to_owned()
    } else if name.chars().count() > LONGEST_NAME {
        format!("a tool's name has at most {LONGEST_NAME} characters")
    } else if let Some(c) =
        name.chars().find(|&c| c.is_whitespace() || c.is_control() || "{}()[]<>\",".contains(c))
    {
        format!("a tool's name cannot contain {c:?}")
    } else {
        return Ok(());
    };
    Err(GuidedError::Tool { tool: name.into(), problem })
}
