//! Words that a model found, held against the text they should be from.
//!
//! A model may name what the text does not say. Only strings that stand in the text, as whole words, count; where two overlap
//! the longer one does.

use std::ops::Range;

use serde_json::{Value, json};

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Bytes of the text.
    pub range: Range<usize>,
    /// Under which label it was found.
    pub label: String,
}

/// Whether words of the character's script stand apart: beside Han, kana, Hangul, Thai, Lao, Myanmar or Khmer a name has no space.
fn of_spaced_script(c: char) -> bool {
    !matches!(u32::from(c), 0x0e00..=0x0eff | 0x1000..=0x109f | 0x1100..=0x11ff | 0x1780..=0x17ff | 0x2e80..=0x9fff
        | 0xa960..=0xa97f | 0xac00..=0xd7ff | 0xf900..=0xfaff | 0xff66..=0xff9f | 0x1_aff0..=0x1_b16f | 0x2_0000..=0x3_ffff)
}

/// Every place where a string stands as a whole word.
pub fn places(text: &str, wanted: &str) -> Vec<Range<usize>> {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && of_spaced_script(c));
    let ends_in_words = (word(wanted.chars().next()), word(wanted.chars().next_back()));
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(wanted)).filter(|_| !wanted.is_empty()) {
        let range = from + at..from + at + wanted.len();
        let inside = ends_in_words.0 && word(text[..range.start].chars().next_back())
            || ends_in_words.1 && word(text[range.end..].chars().next());
        // One character further where it was part of a word.
        from = if inside { range.start + wanted.chars().next().map_or(1, char::len_utf8) } else { range.end };
        if !inside {
            found.push(range);
        }
    }
    found
}

/// Takes out of an object of lists what does not stand in the text; says how many strings that were.
pub fn keep_found(lists: &mut Value, text: &str) -> usize {
    let mut dropped = 0;
    for list in lists.as_object_mut().into_iter().flat_map(|object| object.values_mut()) {
        if let Value::Array(values) = list {
            let mut seen: Vec<Value> = Vec::new();
            values.retain(|value| {
                let stands = value.as_str().is_some_and(|wanted| !places(text, wanted.trim()).is_empty());
                let twice = seen.contains(value);
                seen.push(value.clone());
                dropped += usize::from(!stands);
                stands && !twice
            });
        }
    }
    dropped
}

/// The places of everything in an object of lists, in order, without overlaps: the longest first, then the earliest.
pub fn spans(lists: &Value, text: &str) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for (label, list) in lists.as_object().into_iter().flatten() {
        for wanted in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let found = places(text, wanted.trim());
            all.extend(found.into_iter().map(|range| Span { range, label: label.clone() }));
        }
    }
    all.sort_by_key(|span| (std::cmp::Reverse(span.range.len()), span.range.start));
    let mut kept: Vec<Span> = Vec::new();
    for span in all {
        if kept.iter().all(|other| other.range.end <= span.range.start || span.range.end <= other.range.start)
        {
            kept.push(span);
        }
    }
    kept.sort_by_key(|span| span.range.start);
    kept
}

/// The text with `[LABEL]` in place of each span, and the spans as JSON.
pub fn redact(text: &str, spans: &[Span]) -> (String, Value) {
    let mut redacted = String::with_capacity(text.len());
    let mut end = 0;
    for span in spans {
        redacted.push_str(&text[end..span.range.start]);
        redacted.push('[');
        redacted.push_str(&span.label.to_uppercase());
        redacted.push(']');
        end = span.range.end;
    }
    redacted.push_str(&text[end..]);
    let list = spans.iter().map(|span| {
        let Range { start, end } = span.range;
        json!({ "label": span.label, "text": &text[start..end], "start": start, "end": end })
    });
    (redacted, list.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_found_and_parts_of_words_are_not() {
        let ends = |text: &str, wanted: &str| -> Vec<(usize, usize)> {
            places(text, wanted).into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(ends("Ana and Anabel, Ana.", "Ana"), [(0, 3), (16, 19)]);
        assert_eq!(ends("aaa a", "a"), [(4, 5)]);
        assert_eq!(ends("(+1) 555", "(+1)"), [(0, 4)]);
        assert_eq!(ends("\u{e9}Ana \u{e9} Ana", "Ana"), [(9, 12)]);
        assert_eq!(ends("x", ""), []);
        assert_eq!(
            ends("\u{5c71}\u{7530}\u{3055}\u{3093}\u{306f}", "\u{5c71}\u{7530}"),
            [(0, 6)],
            "no spaces there"
        );
        assert_eq!(ends("\u{6771}\u{4eac}Ana\u{3067}", "Ana"), [(6, 9)]);
    }

    #[test]
    fn the_longest_of_overlapping_spans_is_taken_out() {
        let text = "Ana Maria lives in Ana. Maria too.";
        let mut lists = json!({ "first": ["Ana", "Eve"], "person": ["Ana Maria", "Maria", "Maria"] });
        assert_eq!(keep_found(&mut lists, text), 1);
        let (redacted, list) = redact(text, &spans(&lists, text));
        assert_eq!(redacted, "[PERSON] lives in [FIRST]. [PERSON] too.");
        assert_eq!(list[1], json!({ "label": "first", "text": "Ana", "start": 19, "end": 22 }));
    }
}
