//! Everything that can go wrong above a backend, in words for the person who asked.

use rawloop_pack::PackError;
use rawloop_tokenizer::{DecodeError, LoadError};

use crate::backend::BackendError;
use crate::chat::ChatError;
use crate::conversation::SessionFileError;
use crate::guided::GuidedError;
use crate::sample::{OptionError, SampleError};

/// Why the engine refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The backend refused or failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A sampling option is out of its range.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// No token can be picked.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A grammar cannot be used, or not be followed any more.
    #[error(transparent)]
    Guided(#[from] GuidedError),
    /// An id that is no token of the vocabulary came out of the model.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The conversation cannot be rendered.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// A second turn while one is running.
    #[error("another turn is running: wait for its end, cancel it, or fork the conversation")]
    Busy,
    /// A turn that is not in the history.
    #[error("there is no turn {turn}: the conversation has {turns}, counted from 0")]
    NoSuchTurn {
        /// The turn asked for.
        turn: usize,
        /// Turns there are.
        turns: usize,
    },
    /// The system gives no thread to answer on.
    #[error("no thread to answer on: {0}")]
    Thread(String),
    /// A stored conversation cannot be used or written.
    #[error(transparent)]
    SessionFile(#[from] SessionFileError),
    /// The pack cannot be used.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// An id that the catalog does not know.
    #[error("there is no model `{id}` here: give the path of a pack (*.rlp), or an id that is installed")]
    UnknownModel {
        /// The id.
        id: String,
    },
    /// A prompt without tokens.
    #[error("the prompt is empty: there is nothing to continue")]
    EmptyPrompt,
    /// Prefill cannot advance.
    #[error("the prefill chunk is 0 tokens: expected at least 1")]
    Chunk,
    /// An id outside of the vocabulary in the prompt.
    #[error("the prompt has token {token}: the vocabulary ends at {vocab}")]
    Token {
        /// The id.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// The prompt leaves no room for an answer.
    #[error(
        "the prompt has {prompt} tokens and the context holds {limit}, one of which the answer needs: shorten the \
         conversation or raise the context (--ctx)"
    )]
    Context {
        /// Tokens of the prompt.
        prompt: usize,
        /// Positions there are.
        limit: usize,
    },
    /// The pack has no tokenizer.
    #[error("{pack} holds no tokenizer: convert the checkpoint again, with its tokenizer.json")]
    NoTokenizer {
        /// The pack.
        pack: String,
    },
    /// The pack's tokenizer cannot be used.
    #[error("the tokenizer of {pack} cannot be used: {source}")]
    Tokenizer {
        /// The pack.
        pack: String,
        /// Why.
        source: LoadError,
    },
    /// Tokenizer and model do not belong together.
    #[error("the tokenizer of {pack} has {tokenizer} tokens, the model {model}: they do not belong together")]
    Vocabulary {
        /// The pack.
        pack: String,
        /// Tokens in the tokenizer.
        tokenizer: usize,
        /// Tokens in the model.
        model: usize,
    },
    /// A control token has another id than Gemma 4 was trained with.
    #[error("the tokenizer of {pack} has {spelling} at {found}: Gemma 4 has it at {expected}")]
    ControlToken {
        /// The pack.
        pack: String,
        /// The control token.
        spelling: &'static str,
        /// The id it has, in words.
        found: String,
        /// The id it should have.
        expected: u32,
    },
    /// The test prompt does not come out as it must.
    #[error(
        "the chat prompt of {pack} is wrong: token {place} of the test prompt {text:?} is {found}, expected {expected}"
    )]
    TestPrompt {
        /// The pack.
        pack: String,
        /// The prompt, rendered.
        text: String,
        /// Which token differs.
        place: usize,
        /// What stands there, in words.
        found: String,
        /// What has to stand there, in words.
        expected: String,
    },
}
