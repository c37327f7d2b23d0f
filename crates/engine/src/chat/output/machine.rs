//! The state machine behind [`OutputParser`]: answer, thought, call, done. The rules are in `mod.rs`.

use rawloop_tokenizer::{DecodeError, SpecialText, StreamDecoder, Tokenizer};

use super::call::{Symbol, parse_symbols, shown};
use super::scan::{Marker, Piece, Scanner};
use super::{OutputEvent, OutputOptions};
use crate::chat::ControlTokens;

const HEADER: &str = "thought\n";
/// A name longer than this is none; the text is shown instead of being held back.
const LONGEST_NAME: usize = 256;

/// Splits generated tokens or text into events.
pub struct OutputParser {
    scanner: Scanner,
    decoder: StreamDecoder,
    decoded: String,
    machine: Machine,
}

impl OutputParser {
    /// A parser that has seen nothing.
    pub fn new(options: OutputOptions) -> OutputParser {
        let state = if options.in_thought { State::Thought } else { State::Answer };
        // A prompt that opened a thought has written its header.
        let header = if options.in_thought { Header::Seen } else { Header::None };
        OutputParser {
            scanner: Scanner::default(),
            decoder: StreamDecoder::new(SpecialText::Keep),
            decoded: String::new(),
            machine: Machine { options, state, header, ..Machine::default() },
        }
    }

    /// Takes more text.
    pub fn push_text(&mut self, text: &str, sink: &mut dyn FnMut(OutputEvent)) {
        let machine = &mut self.machine;
        self.scanner.push(text, &mut |piece| machine.push(piece, sink));
    }

    /// Takes the next token.
    ///
    /// # Errors
    /// An id outside the vocabulary.
    pub fn push_token(
        &mut self,
        tokenizer: &Tokenizer,
        control: &ControlTokens,
        id: u32,
        sink: &mut dyn FnMut(OutputEvent),
    ) -> Result<(), DecodeError> {
        self.decoded.clear();
        if tokenizer.is_special(id) {
            self.decoder.finish(&mut self.decoded);
            self.machine.text(&self.decoded, sink);
            // A special token without a meaning here (padding, media, reserved) is not shown.
            if let Some(marker) = marker(control, id) {
                self.machine.push(Piece::Marker(marker), sink);
            }
            return Ok(());
        }
        self.decoder.push(tokenizer, id, &mut self.decoded)?;
        self.machine.text(&self.decoded, sink);
        Ok(())
    }

    /// Ends the output and hands on what was held back. The parser then ignores what follows.
    pub fn finish(&mut self, sink: &mut dyn FnMut(OutputEvent)) {
        let machine = &mut self.machine;
        self.scanner.finish(&mut |piece| machine.push(piece, sink));
        self.decoded.clear();
        self.decoder.finish(&mut self.decoded);
        machine.text(&self.decoded, sink);
        machine.finish(sink);
    }

    /// Whether the output is over, whatever else is generated: the turn has ended, or an invented tool result begins.
    pub fn is_done(&self) -> bool {
        self.machine.state == State::Done
    }

    /// Whether a thought is open. A caller that ends thoughts at a budget then pushes the thought's end token.
    pub fn in_thought(&self) -> bool {
        self.machine.state == State::Thought
    }
}

fn marker(control: &ControlTokens, id: u32) -> Option<Marker> {
    Some(match id {
        id if id == control.channel_open => Marker::ChannelOpen,
        id if id == control.channel_close => Marker::ChannelClose,
        id if id == control.call_open => Marker::CallOpen,
        id if id == control.call_close => Marker::CallClose,
        id if id == control.response_open => Marker::ResponseOpen,
        id if id == control.response_close => Marker::ResponseClose,
        id if id == control.delimiter => Marker::Delimiter,
        id if id == control.turn_open || id == control.turn_close || id == control.eos => Marker::End,
        _ => return None,
    })
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Answer,
    Thought,
    /// Inside call markers; with the state to return to if it is no call.
    Call {
        from_thought: bool,
        /// `call:NAME{` has been seen.
        certain: bool,
    },
    Done,
}

/// The line `thought\n` that opens a thought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Header {
    /// None is expected.
    #[default]
    None,
    /// It may come next.
    Possible,
    /// It has been seen, or the thought began without one.
    Seen,
}

#[derive(Default)]
struct Machine {
    options: OutputOptions,
    state: State,
    header: Header,
    /// The beginning of what may be a header.
    header_text: String,
    /// White space that is shown only if text follows.
    space: String,
    /// Only white space since the last call.
    after_call: bool,
    /// Something of an earlier thought has been shown.
    thought_shown: bool,
    /// The current thought has shown something.
    in_block: bool,
    call: Vec<Symbol>,
}

type Sink<'s> = &'s mut dyn FnMut(OutputEvent);

impl Machine {
    fn push(&mut self, piece: Piece, sink: Sink) {
        match piece {
            Piece::Text(text) => self.text(text, sink),
            Piece::Marker(marker) => self.marker(marker, sink),
        }
    }

    fn text(&mut self, text: &str, sink: Sink) {
        if text.is_empty() {
            return;
        }
        match self.state {
            State::Done => {}
            State::Call { from_thought, certain } => {
                self.call.extend(text.chars().map(Symbol::Char));
                if !certain {
                    self.decide_call(from_thought, sink);
                }
            }
            State::Answer | State::Thought => {
                if self.header != Header::Possible {
                    return self.show(text, sink);
                }
                self.header_text.push_str(text);
                if HEADER.starts_with(&self.header_text) && self.header_text != HEADER {
                    return;
                }
                let header_text = std::mem::take(&mut self.header_text);
                self.header = if self.state == State::Thought { Header::Seen } else { Header::None };
                self.show(header_text.strip_prefix(HEADER).unwrap_or(&header_text), sink);
            }
        }
    }

    /// Text of the answer or of the thought, behind any header.
    fn show(&mut self, text: &str, sink: Sink) {
        if self.state == State::Thought {
            return self.show_thought(text, sink);
        }
        let end = text.trim_end().len();
        if end == 0 {
            return self.space.push_str(text);
        }
        self.after_call = false;
        let mut shown = std::mem::take(&mut self.space);
        shown.push_str(&text[..end]);
        self.space.push_str(&text[end..]);
        sink(OutputEvent::Text(shown));
    }

    /// A thought keeps its white space, except the newline before its end mark.
    fn show_thought(&mut self, text: &str, sink: Sink) {
        let mut shown = std::mem::take(&mut self.space);
        shown.push_str(text);
        if shown.ends_with('\n') {
            shown.pop();
            self.space.push('\n');
        }
        if shown.is_empty() {
            return;
        }
        if !self.in_block && self.thought_shown {
            shown.insert(0, '\n');
        }
        self.in_block = true;
        self.thought_shown = true;
        sink(OutputEvent::Reasoning(shown));
    }

    fn marker(&mut self, marker: Marker, sink: Sink) {
        match self.state {
            State::Done => {}
            State::Answer => self.marker_in_answer(marker, sink),
            State::Thought => self.marker_in_thought(marker, sink),
            State::Call { from_thought, certain } => self.marker_in_call(marker, from_thought, certain, sink),
        }
    }

    fn marker_in_answer(&mut self, marker: Marker, sink: Sink) {
        match marker {
            Marker::ChannelOpen => self.open_thought(),
            // Nothing is open: a repeated end of a thought.
            Marker::ChannelClose => {}
            Marker::CallOpen => {
                self.flush_header(sink);
                self.state = State::Call { from_thought: false, certain: false };
            }
            Marker::CallClose | Marker::ResponseClose if self.after_call => {}
            Marker::ResponseOpen if self.after_call => self.state = State::Done,
            Marker::CallClose | Marker::ResponseClose | Marker::ResponseOpen | Marker::Delimiter => {
                self.flush_header(sink);
                self.show(marker.spelling(), sink);
            }
            Marker::End => self.state = State::Done,
        }
    }

    fn marker_in_thought(&mut self, marker: Marker, sink: Sink) {
        match marker {
            Marker::ChannelOpen => {}
            Marker::ChannelClose => {
                // Closed before its header was complete, as happens at a budget: the rest of it may still come.
                let pending = self.header == Header::Possible;
                self.close_thought();
                if pending {
                    self.header = Header::Possible;
                }
            }
            Marker::CallOpen => {
                self.flush_header(sink);
                self.state = State::Call { from_thought: true, certain: false };
            }
            Marker::CallClose | Marker::ResponseOpen | Marker::ResponseClose | Marker::Delimiter => {
                self.flush_header(sink);
                self.show(marker.spelling(), sink);
            }
            Marker::End => {
                self.close_thought();
                self.state = State::Done;
            }
        }
    }

    fn marker_in_call(&mut self, marker: Marker, from_thought: bool, certain: bool, sink: Sink) {
        if !certain {
            self.no_call(from_thought, sink);
            return self.marker(marker, sink);
        }
        match marker {
            Marker::Delimiter => self.call.push(Symbol::Delimiter),
            Marker::CallClose => self.close_call(true, sink),
            Marker::CallOpen => {
                self.close_call(false, sink);
                self.marker(marker, sink);
            }
            Marker::ResponseOpen | Marker::End => {
                self.close_call(false, sink);
                self.state = State::Done;
            }
            // Part of an argument.
            Marker::ChannelOpen | Marker::ChannelClose | Marker::ResponseClose => {
                self.call.extend(marker.spelling().chars().map(Symbol::Char));
            }
        }
    }

    fn open_thought(&mut self) {
        self.space.clear();
        self.header_text.clear();
        self.header = Header::Possible;
        self.in_block = false;
        self.state = State::Thought;
    }

    fn close_thought(&mut self) {
        self.space.clear();
        self.header_text.clear();
        self.header = Header::None;
        self.state = State::Answer;
    }

    /// What looked like the beginning of a header is text, since something else follows.
    fn flush_header(&mut self, sink: Sink) {
        self.header = Header::None;
        let text = std::mem::take(&mut self.header_text);
        if !text.is_empty() {
            self.show(&text, sink);
        }
    }

    /// Whether what follows a call marker is a call, as soon as that is certain.
    fn decide_call(&mut self, from_thought: bool, sink: Sink) {
        match begins_call(&self.call) {
            Some(true) => {
                if from_thought {
                    self.close_thought();
                }
                self.space.clear();
                self.state = State::Call { from_thought, certain: true };
            }
            Some(false) => self.no_call(from_thought, sink),
            None => {}
        }
    }

    /// Shows a call marker and what followed it as the text it is.
    fn no_call(&mut self, from_thought: bool, sink: Sink) {
        self.state = if from_thought { State::Thought } else { State::Answer };
        let text = shown(&std::mem::take(&mut self.call));
        self.show(Marker::CallOpen.spelling(), sink);
        if !text.is_empty() {
            self.show(&text, sink);
        }
    }

    /// Reads the collected call. Without its end marker it has to be complete by its braces.
    fn close_call(&mut self, closed: bool, sink: Sink) {
        let call = std::mem::take(&mut self.call);
        self.state = State::Answer;
        match parse_symbols(&call, &self.options.tools, !closed) {
            Ok(call) => sink(OutputEvent::Call(call)),
            Err(error) => {
                sink(OutputEvent::Warning(error));
                self.show(&shown(&call), sink);
            }
        }
        self.after_call = true;
        self.space.clear();
    }

    fn finish(&mut self, sink: Sink) {
        match self.state {
            State::Call { certain: true, .. } => self.close_call(false, sink),
            State::Call { from_thought, certain: false } => self.no_call(from_thought, sink),
            _ => {}
        }
        self.space.clear();
        self.header_text.clear();
        self.state = State::Done;
    }
}

/// `Some(true)` for `call:NAME{` or `call:NAME(`, `Some(false)` if it cannot become that, `None` while it may.
fn begins_call(symbols: &[Symbol]) -> Option<bool> {
    let mut keyword = "call:".chars();
    let mut expected = keyword.next();
    let mut name = 0;
    for symbol in symbols {
        let Symbol::Char(c) = *symbol else { return Some(false) };
        match expected {
            Some('c') if c.is_whitespace() => {}
            Some(wanted) if c == wanted => expected = keyword.next(),
            Some(_) => return Some(false),
            None if (c == '{' || c == '(') && name > 0 => return Some(true),
            None if c.is_whitespace() || "{}()[]<>\",".contains(c) || name == LONGEST_NAME => {
                return Some(false);
            }
            None => name += 1,
        }
    }
    None
}
