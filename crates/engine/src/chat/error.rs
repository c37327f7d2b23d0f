//! Why a conversation cannot be rendered.
//!
//! Every message says which message of the conversation is meant, so that a server can answer a client with it.

/// A conversation, a tool declaration, a template or a tokenizer that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// A content part that is no text.
    #[error("messages[{message}].content[{part}]: parts of type `{kind}` are not supported, only `text`")]
    UnsupportedPart {
        /// Index of the message.
        message: usize,
        /// Index of the part.
        part: usize,
        /// The part's type.
        kind: String,
    },
    /// A text part without a text.
    #[error("messages[{message}].content[{part}]: a `text` part needs a `text` string")]
    PartWithoutText {
        /// Index of the message.
        message: usize,
        /// Index of the part.
        part: usize,
    },
    /// The arguments of a call in the history are not an object, nor a string that holds one.
    #[error(
        "messages[{message}].tool_calls[{call}].function.arguments: {problem}; send a JSON object or a string holding one"
    )]
    Arguments {
        /// Index of the message.
        message: usize,
        /// Index of the call in the message.
        call: usize,
        /// What was found.
        problem: String,
    },
    /// A tool result that answers no call.
    #[error("messages[{message}]: a `tool` message must follow an assistant message with tool_calls")]
    ResultWithoutCall {
        /// Index of the message.
        message: usize,
    },
    /// Calls in a message of another role.
    #[error("messages[{message}]: only assistant messages can have tool_calls or tool_responses")]
    CallOutsideAssistant {
        /// Index of the message.
        message: usize,
    },
    /// The chat template of the checkpoint does not parse or does not render.
    #[error("chat template: {0}")]
    Template(String),
    /// The tokenizer lacks a control token of the chat format.
    #[error(
        "the tokenizer has no token `{0}`; it is not a Gemma 4 tokenizer, and a prompt without turn markers is never sent"
    )]
    MissingControlToken(&'static str),
}
