//! Words that a model found, held against the text they should be from.
//!
//! A model may name what the text does not say. Only strings that stand in the text, as whole words, count; where two overlap
//! the longer one does. A model also writes names as names are written, so case and line ends in the text do not matter.

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

/// A text to find words in, whatever their case and the white space between them.
pub struct Haystack<'a> {
    text: &'a str,
    folded: String,
    /// Where the character begins that a byte of `folded` is from; one more for the end.
    origin: Vec<usize>,
}

impl<'a> Haystack<'a> {
    /// Prepares a text.
    pub fn new(text: &'a str) -> Haystack<'a> {
        let mut folded = String::with_capacity(text.len());
        let mut origin = Vec::with_capacity(text.len() + 1);
        for (at, c) in fold(text) {
            folded.push(c);
            origin.resize(folded.len(), at);
        }
        origin.push(text.len());
        Haystack { text, folded, origin }
    }

    /// Every place where a string stands as a whole word. Case does not matter, with one exception: where a capitalized word
    /// stands as it is, the same word in small letters is another one (`Will` and `will`).
    pub fn places(&self, wanted: &str) -> Vec<Range<usize>> {
        let wanted = wanted.trim();
        let needle: String = fold(wanted).map(|(_, c)| c).collect();
        let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && of_spaced_script(c));
        let ends_in_words = (word(wanted.chars().next()), word(wanted.chars().next_back()));
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) =
            self.folded.get(from..).and_then(|rest| rest.find(&needle)).filter(|_| !needle.is_empty())
        {
            let (start, end) = (from + at, from + at + needle.len());
            let range = self.origin[start]..self.origin[end];
            let inside = ends_in_words.0 && word(self.text[..range.start].chars().next_back())
                || ends_in_words.1 && word(self.text[range.end..].chars().next());
            // One character may be folded to several: a part of it is no match.
            let in_character =
                start > 0 && self.origin[start - 1] == range.start || self.origin[end - 1] == range.end;
            let stands = !inside && !in_character;
            // One character further where it was part of a word.
            from = if stands { end } else { start + needle.chars().next().map_or(1, char::len_utf8) };
            if stands {
                found.push(range);
            }
        }
        let small = |text: &str| text.starts_with(char::is_lowercase);
        let one_word = wanted.chars().all(char::is_alphabetic) && !small(wanted);
        if one_word && found.iter().any(|range| &self.text[range.clone()] == wanted) {
            found.retain(|range| !small(&self.text[range.clone()]));
        }
        found
    }
}

/// The characters of a text without case, each with the byte where its origin begins; white space is one space.
fn fold(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut after_space = false;
    text.char_indices().flat_map(move |(at, c)| {
        let again = c.is_whitespace() && after_space;
        after_space = c.is_whitespace();
        let c = if after_space { ' ' } else { c };
        // By way of capitals, as both forms of the small sigma have the same.
        c.to_uppercase().flat_map(char::to_lowercase).map(move |c| (at, c)).filter(move |_| !again)
    })
}

/// Takes out of an object of lists what does not stand in the text, and writes the rest as the text does; says how many
/// strings were taken out.
pub fn keep_found(lists: &mut Value, text: &Haystack<'_>) -> usize {
    let mut dropped = 0;
    for list in lists.as_object_mut().into_iter().flat_map(|object| object.values_mut()) {
        if let Value::Array(values) = list {
            let mut kept: Vec<Value> = Vec::new();
            for value in values.drain(..) {
                let wanted = value.as_str().unwrap_or_default().trim();
                let places = text.places(wanted);
                let exact = places.iter().find(|place| &text.text[(*place).clone()] == wanted);
                match exact.or(places.first()) {
                    None => dropped += 1,
                    Some(place) => {
                        let own = Value::from(&text.text[place.clone()]);
                        if !kept.contains(&own) {
                            kept.push(own);
                        }
                    }
                }
            }
            *values = kept;
        }
    }
    dropped
}

/// The places of everything in an object of lists, in order, without overlaps: the longest first, then the earliest.
pub fn spans(lists: &Value, text: &Haystack<'_>) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for (label, list) in lists.as_object().into_iter().flatten() {
        for wanted in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let found = text.places(wanted);
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
            Haystack::new(text).places(wanted).into_iter().map(|range| (range.start, range.end)).collect()
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
        let hay = Haystack::new(text);
        assert_eq!(keep_found(&mut lists, &hay), 1);
        let (redacted, list) = redact(text, &spans(&lists, &hay));
        assert_eq!(redacted, "[PERSON] lives in [FIRST]. [PERSON] too.");
        assert_eq!(list[1], json!({ "label": "first", "text": "Ana", "start": 19, "end": 22 }));
    }

    #[test]
    fn case_and_line_ends_hide_nothing() {
        let redacted = |text: &str, lists: Value| {
            let hay = Haystack::new(text);
            let mut lists = lists;
            let dropped = keep_found(&mut lists, &hay);
            (redact(text, &spans(&lists, &hay)).0, dropped, lists)
        };
        let lists = json!({ "email": ["Ana@X.org"], "person": ["Ana Rossi"] });
        let (text, dropped, lists) = redacted("ANA\nROSSI is ana@x.org, not Ana  rossi.", lists);
        assert_eq!((text.as_str(), dropped), ("[PERSON] is [EMAIL], not [PERSON].", 0));
        assert_eq!(
            lists,
            json!({ "email": ["ana@x.org"], "person": ["ANA\nROSSI"] }),
            "as the text has them"
        );
        let person = |name: &str| json!({ "person": [name] });
        assert_eq!(redacted("Will will go. WILL!", person("Will")).0, "[PERSON] will go. [PERSON]!");
        assert_eq!(
            redacted("will of york", person("Will")).0,
            "[PERSON] of york",
            "nothing else has that name"
        );
        assert_eq!(redacted("Willow", person("will")).1, 1);
        // One character that folds to two, and a letter with two small forms.
        assert_eq!(redacted("Stra\u{df}e, STRASSE", person("Strasse")).0, "[PERSON], [PERSON]");
        assert_eq!(redacted("\u{df}", person("s")).1, 1);
        let greek = "\u{39f}\u{394}\u{39f}\u{3a3}";
        assert_eq!(redacted(greek, person("\u{3bf}\u{3b4}\u{3bf}\u{3c2}")).0, "[PERSON]");
    }
}
