//! The control tokens of the chat format, looked up in the tokenizer.
//!
//! Ids are never assumed: a tokenizer without one of these tokens is not Gemma 4's, and sending it a prompt without turn
//! markers, or with those of another model, gives text that looks like an answer.

use rawloop_tokenizer::{SpecialTokens, Tokenizer};

use super::ChatError;

/// Ids of the control tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the tokens.
pub struct ControlTokens {
    pub bos: u32,
    pub eos: u32,
    pub turn_open: u32,
    pub turn_close: u32,
    pub think: u32,
    pub channel_open: u32,
    pub channel_close: u32,
    pub tool_open: u32,
    pub tool_close: u32,
    pub call_open: u32,
    pub call_close: u32,
    pub response_open: u32,
    pub response_close: u32,
    pub delimiter: u32,
}

impl ControlTokens {
    /// Finds the tokens.
    ///
    /// # Errors
    /// The first one that the tokenizer does not have as a special token.
    pub fn find(tokenizer: &Tokenizer) -> Result<ControlTokens, ChatError> {
        let find = |spelling: &'static str| {
            let id = tokenizer.token_id(spelling).filter(|&id| tokenizer.is_special(id));
            id.ok_or(ChatError::MissingControlToken(spelling))
        };
        Ok(ControlTokens {
            bos: find("<bos>")?,
            eos: find("<eos>")?,
            turn_open: find("<|turn>")?,
            turn_close: find("<turn|>")?,
            think: find("<|think|>")?,
            channel_open: find("<|channel>")?,
            channel_close: find("<channel|>")?,
            tool_open: find("<|tool>")?,
            tool_close: find("<tool|>")?,
            call_open: find("<|tool_call>")?,
            call_close: find("<tool_call|>")?,
            response_open: find("<|tool_response>")?,
            response_close: find("<tool_response|>")?,
            delimiter: find("<|\"|>")?,
        })
    }

    /// The ids of a prompt that is completed as it stands, without a chat template: exactly one `<bos>` at the start, whether
    /// or not the text begins with one.
    pub fn raw_prompt(&self, tokenizer: &Tokenizer, text: &str, special: SpecialTokens) -> Vec<u32> {
        let text = match special {
            SpecialTokens::Parse => text.strip_prefix("<bos>").unwrap_or(text),
            SpecialTokens::Text => text,
        };
        let mut ids = vec![self.bos];
        ids.extend(tokenizer.encode(text, special));
        ids
    }
}
