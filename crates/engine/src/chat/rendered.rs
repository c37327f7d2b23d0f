//! A rendered prompt: text in segments that remember where they came from.
//!
//! A template writes control tokens as text (`<|turn>`), and a user can write the same text. What decides is the origin:
//! special tokens are parsed in control segments only. For the merges of the tokenizer the prompt is nevertheless one text:
//! a user's newline and the template's newline may be one token.

use std::fmt;

use rawloop_tokenizer::{SpecialTokens, Tokenizer};

/// Where a segment came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The chat format; the special tokens in it are meant.
    Control,
    /// A message, a tool declaration or a result; special tokens in it are text.
    User,
}

/// A prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    text: String,
    /// Ends of the segments, ascending; neighbours have different origins.
    ends: Vec<(usize, Origin)>,
}

impl Rendered {
    /// The segments in order.
    pub fn segments(&self) -> impl Iterator<Item = (&str, Origin)> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, origin)| {
            let text = &self.text[start..end];
            start = end;
            (text, origin)
        })
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The ids of the prompt.
    pub fn to_ids(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        tokenizer.encode_segments(self.segments().map(|(text, origin)| match origin {
            Origin::Control => (text, SpecialTokens::Parse),
            Origin::User => (text, SpecialTokens::Text),
        }))
    }

    /// The same text with all of it the format's: special tokens are parsed wherever they stand.
    pub fn with_special_tokens(mut self) -> Rendered {
        self.ends.clear();
        if !self.text.is_empty() {
            self.ends.push((self.text.len(), Origin::Control));
        }
        self
    }

    /// Whether the model will continue inside a thought that the prompt has opened.
    pub fn opens_thought(&self) -> bool {
        let Some(body) = self.text.strip_suffix("<|channel>thought\n") else { return false };
        // The origin of the marker decides, wherever the segment ends.
        let marker = self.ends.iter().find(|&&(end, _)| end > body.len());
        marker.is_some_and(|&(_, origin)| origin == Origin::Control)
    }

    pub(super) fn control(&mut self, text: &str) {
        self.push(text, Origin::Control);
    }

    pub(super) fn user(&mut self, text: &str) {
        self.push(text, Origin::User);
    }

    pub(super) fn push(&mut self, text: &str, origin: Origin) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        match self.ends.last_mut() {
            Some((end, last)) if *last == origin => *end = self.text.len(),
            _ => self.ends.push((self.text.len(), origin)),
        }
    }
}

impl fmt::Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}
