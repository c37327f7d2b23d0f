//! Markers in text that comes in pieces.
//!
//! What may still become a marker is held back: from the last `<` on, if the text ends in the middle of a spelling.

/// A control token that means something in an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    ChannelOpen,
    ChannelClose,
    CallOpen,
    CallClose,
    ResponseOpen,
    ResponseClose,
    Delimiter,
    /// A turn's end, a new turn or the end of the sequence.
    End,
}

impl Marker {
    /// How the marker is shown where it turns out to be text.
    pub fn spelling(self) -> &'static str {
        match self {
            Marker::ChannelOpen => "<|channel>",
            Marker::ChannelClose => "<channel|>",
            Marker::CallOpen => "<|tool_call>",
            Marker::CallClose => "<tool_call|>",
            Marker::ResponseOpen => "<|tool_response>",
            Marker::ResponseClose => "<tool_response|>",
            Marker::Delimiter => "\"",
            Marker::End => "",
        }
    }
}

const SPELLINGS: [(&str, Marker); 9] = [
    ("<|channel>", Marker::ChannelOpen),
    ("<channel|>", Marker::ChannelClose),
    ("<|tool_call>", Marker::CallOpen),
    ("<tool_call|>", Marker::CallClose),
    ("<|tool_response>", Marker::ResponseOpen),
    ("<tool_response|>", Marker::ResponseClose),
    ("<|\"|>", Marker::Delimiter),
    ("<turn|>", Marker::End),
    ("<|turn>", Marker::End),
];

/// A piece of an output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    Text(&'t str),
    Marker(Marker),
}

/// Finds markers across piece boundaries.
#[derive(Debug, Clone, Default)]
pub(super) struct Scanner {
    held: String,
}

impl Scanner {
    /// Takes more text and hands on what is certain.
    pub fn push(&mut self, text: &str, sink: &mut dyn FnMut(Piece)) {
        self.held.push_str(text);
        let held = std::mem::take(&mut self.held);
        let mut shown = 0;
        let mut at = 0;
        while let Some(found) = held[at..].find('<') {
            at += found;
            let rest = &held[at..];
            if let Some(&(spelling, marker)) =
                SPELLINGS.iter().find(|(spelling, _)| rest.starts_with(spelling))
            {
                text_piece(&held[shown..at], sink);
                sink(Piece::Marker(marker));
                at += spelling.len();
                shown = at;
            } else if SPELLINGS.iter().any(|(spelling, _)| spelling.starts_with(rest)) {
                text_piece(&held[shown..at], sink);
                self.held = rest.to_owned();
                return;
            } else {
                at += 1;
            }
        }
        text_piece(&held[shown..], sink);
    }

    /// Hands on what was held back: it is text.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Piece)) {
        text_piece(&std::mem::take(&mut self.held), sink);
    }
}

fn text_piece(text: &str, sink: &mut dyn FnMut(Piece)) {
    if !text.is_empty() {
        sink(Piece::Text(text));
    }
}
