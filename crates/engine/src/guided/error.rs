//! Why a grammar cannot be used, or a token cannot follow.

/// A grammar, a schema or a token that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuidedError {
    /// A keyword of JSON schema that cannot be turned into a grammar.
    #[error("the schema keyword `{keyword}` at {path} is not supported: {reason}")]
    Unsupported {
        /// The keyword.
        keyword: String,
        /// JSON pointer to the schema that holds it; `#` is the whole.
        path: String,
        /// What to do instead.
        reason: String,
    },
    /// A schema that makes no sense.
    #[error("the schema at {path} is not valid: {problem}")]
    Schema {
        /// JSON pointer to the place.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A grammar that does not parse, or that uses something that is not supported; the problem has the position.
    #[error("{language}: {problem}")]
    Syntax {
        /// `regex`, `lark`, `gbnf` or `choice`.
        language: &'static str,
        /// What is wrong, where.
        problem: String,
    },
    /// A grammar that is larger than any that is meant.
    #[error("{what}: {found}, at most {limit} are possible")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// No text at all follows the grammar.
    #[error("no text can follow this grammar: {0}")]
    Nothing(String),
    /// A tool whose calls cannot be written.
    #[error("tool `{tool}`: {problem}")]
    Tool {
        /// The tool's name.
        tool: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A token that the constraint does not allow here. The constraint is as it was.
    #[error("token {token} ({spelling:?}) is not allowed at position {position} of the constrained answer")]
    Refused {
        /// The token.
        token: u32,
        /// What it stands for.
        spelling: String,
        /// Tokens accepted before it.
        position: usize,
    },
    /// More tokens were to be taken back than had been accepted.
    #[error("cannot take back {wanted} tokens: {held} have been accepted")]
    Rollback {
        /// Tokens to take back.
        wanted: usize,
        /// Tokens that there are.
        held: usize,
    },
    /// The answer has ended; nothing can follow.
    #[error("the constrained answer has ended, nothing can follow")]
    Ended,
    /// The grammar became too complex for its limits, or the library that follows it failed. This request is lost, the process
    /// is not.
    #[error("the grammar cannot be followed: {0}")]
    Failed(String),
    /// The tokenizer is not one that answers can be constrained with.
    #[error("constrained output: {0}")]
    Tokenizer(String),
}

impl GuidedError {
    /// An error of the library, without the marks it puts around messages.
    pub(super) fn text(error: &impl ToString) -> String {
        let text = error.to_string();
        let text = text.split("\n<").next().unwrap_or_default();
        text.trim_end().to_owned()
    }
}
