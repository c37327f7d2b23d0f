//! Tokens to text as they come, up to a stop string.
//!
//! Text that could be the beginning of a stop string is held back until it is clear that it is not one. What has been handed
//! out is never taken back, never ends inside a character, and is together the text before the first stop string.

use rawloop_tokenizer::{DecodeError, SpecialText, StreamDecoder, Tokenizer};

/// Cuts a stream of text off before the first of some strings.
#[derive(Debug)]
pub struct StopFilter {
    stops: Vec<String>,
    /// Not handed out yet.
    pending: String,
    /// Bytes of `pending` that were handed out with the last call.
    taken: usize,
    stopped: bool,
}

impl StopFilter {
    /// A stream that ends before the first of `stops`; empty ones are ignored.
    pub fn new(stops: &[String]) -> StopFilter {
        StopFilter {
            stops: stops.iter().filter(|stop| !stop.is_empty()).cloned().collect(),
            pending: String::with_capacity(1024),
            taken: 0,
            stopped: false,
        }
    }

    /// Takes more text and hands out what is certain now, which may be nothing.
    pub fn push(&mut self, text: &str) -> &str {
        self.drop_taken();
        if !self.stopped {
            self.pending.push_str(text);
        }
        self.hand_out(false)
    }

    /// Takes the last text and hands out all that is left.
    pub fn finish(&mut self, text: &str) -> &str {
        self.drop_taken();
        if !self.stopped {
            self.pending.push_str(text);
        }
        self.hand_out(true)
    }

    /// Whether a stop string has been met.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    fn drop_taken(&mut self) {
        self.pending.drain(..self.taken);
        self.taken = 0;
    }

    fn hand_out(&mut self, over: bool) -> &str {
        if !self.stopped {
            let found = self.stops.iter().filter_map(|stop| self.pending.find(stop.as_str())).min();
            if let Some(at) = found {
                self.pending.truncate(at);
                self.stopped = true;
            }
        }
        let held = if self.stopped || over { 0 } else { self.held_back() };
        self.taken = self.pending.len() - held;
        &self.pending[..self.taken]
    }

    /// Bytes at the end that begin a stop string. A stop string begins with a whole character, so the cut is one too.
    fn held_back(&self) -> usize {
        let longest = |stop: &String| {
            let lengths = (1..stop.len()).rev().filter(|&length| stop.is_char_boundary(length));
            lengths.into_iter().find(|&length| self.pending.ends_with(&stop[..length]))
        };
        self.stops.iter().filter_map(longest).max().unwrap_or(0)
    }
}

/// Text of one answer.
#[derive(Debug)]
pub struct TextStream {
    decoder: StreamDecoder,
    decoded: String,
    filter: StopFilter,
}

impl TextStream {
    /// A stream that ends before the first of `stops`; empty ones are ignored.
    pub fn new(special: SpecialText, stops: &[String]) -> TextStream {
        let decoded = String::with_capacity(1024);
        TextStream { decoder: StreamDecoder::new(special), decoded, filter: StopFilter::new(stops) }
    }

    /// Takes the next token and hands out the text that it makes certain, which may be none.
    ///
    /// # Errors
    /// An id outside of the vocabulary.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Result<&str, DecodeError> {
        self.decoded.clear();
        self.decoder.push(tokenizer, id, &mut self.decoded)?;
        Ok(self.filter.push(&self.decoded))
    }

    /// Hands out what was held back: the answer is over.
    pub fn finish(&mut self) -> &str {
        self.decoded.clear();
        self.decoder.finish(&mut self.decoded);
        self.filter.finish(&self.decoded)
    }

    /// Whether a stop string has been met.
    pub fn stopped(&self) -> bool {
        self.filter.stopped()
    }
}
