//! What we read from a Hugging Face `tokenizer.json`, and what we refuse.
//!
//! A tokenizer that is nearly right is worse than none: ids shift by one and the model still talks. So every field of the
//! file is either implemented exactly, known to have no influence, or refused by name. Unknown fields are refused by serde.
//!
//! No influence: `post_processor` (it only adds tokens that `encode` is asked to add; the chat template writes `<bos>`
//! itself), the `Split` on a space (the normaliser has replaced every space before it runs), `unk_token` and `fuse_unk`
//! (with all 256 byte tokens present no text is unknown).
//!
//! Next: `bake.rs` turns the result into a table.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::{Value, json};

use crate::BakeError;

/// The parts of the file that the table is made of.
pub(crate) struct Source {
    pub vocab: HashMap<String, u32>,
    pub merges: Vec<Merge>,
    pub added: Vec<AddedToken>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[allow(dead_code)] // "1.0" in every file; the fields themselves decide.
    version: Option<Value>,
    truncation: Option<Value>,
    padding: Option<Value>,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    decoder: Option<Value>,
    model: Model,
}

/// An entry of `added_tokens`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddedToken {
    pub id: u32,
    pub content: String,
    pub single_word: bool,
    pub lstrip: bool,
    pub rstrip: bool,
    pub normalized: bool,
    pub special: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    dropout: Option<f32>,
    #[allow(dead_code)] // No text is unknown to a vocabulary with all byte tokens.
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[allow(dead_code)] // As unk_token.
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    vocab: HashMap<String, u32>,
    merges: Vec<Merge>,
}

/// A merge rule. Written as a pair of strings, in older files as one string with a space between the two.
pub(crate) struct Merge(pub String, pub String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair;
        impl<'de> Visitor<'de> for Pair {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a merge: two strings, or one string with one space")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Merge, E> {
                match text.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => Ok(Merge(left.into(), right.into())),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Merge, A::Error> {
                let left = parts.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let right = parts.next_element()?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
                match parts.next_element::<de::IgnoredAny>()? {
                    None => Ok(Merge(left, right)),
                    Some(_) => Err(de::Error::invalid_length(3, &self)),
                }
            }
        }
        deserializer.deserialize_any(Pair)
    }
}

/// Reads the file and refuses, by name, what the table cannot express.
pub(crate) fn read(bytes: &[u8]) -> Result<Source, BakeError> {
    let file: File = serde_json::from_slice(bytes)?;
    let space = json!({ "String": " " });

    refuse_unless(file.truncation.is_none(), || "truncation".into())?;
    refuse_unless(file.padding.is_none(), || "padding".into())?;

    let replace = json!({ "type": "Replace", "pattern": space, "content": "\u{2581}" });
    let normalizer = file.normalizer.unwrap_or(Value::Null);
    refuse_unless(normalizer == replace, || format!("the normalizer {}", kind_of(&normalizer)))?;

    let split =
        json!({ "type": "Split", "pattern": space, "behavior": "MergedWithPrevious", "invert": false });
    let pre_tokenizer = file.pre_tokenizer.unwrap_or(Value::Null);
    refuse_unless(pre_tokenizer.is_null() || pre_tokenizer == split, || {
        format!("the pre_tokenizer {}", kind_of(&pre_tokenizer))
    })?;

    let post_processor = file.post_processor.unwrap_or(Value::Null);
    refuse_unless(post_processor.is_null() || post_processor["type"] == "TemplateProcessing", || {
        format!("the post_processor {}", kind_of(&post_processor))
    })?;

    let steps = json!([
        { "type": "Replace", "pattern": { "String": "\u{2581}" }, "content": " " },
        { "type": "ByteFallback" },
        { "type": "Fuse" },
    ]);
    let decoder = file.decoder.unwrap_or(Value::Null);
    refuse_unless(decoder == json!({ "type": "Sequence", "decoders": steps }), || {
        format!("the decoder {}", kind_of(&decoder))
    })?;

    let model = file.model;
    let kind = model.kind.as_deref().unwrap_or("BPE");
    refuse_unless(kind == "BPE", || format!("the model {kind}"))?;
    refuse_unless(model.dropout.unwrap_or(0.0) == 0.0, || "model.dropout".into())?;
    let absent = |affix: &Option<String>| affix.as_deref().unwrap_or("").is_empty();
    refuse_unless(absent(&model.continuing_subword_prefix), || "model.continuing_subword_prefix".into())?;
    refuse_unless(absent(&model.end_of_word_suffix), || "model.end_of_word_suffix".into())?;
    refuse_unless(!model.ignore_merges, || "model.ignore_merges".into())?;
    refuse_unless(model.byte_fallback, || "a model without byte_fallback".into())?;

    for token in &file.added_tokens {
        let name = || format!("added token {} `{}`", token.id, token.content);
        refuse_unless(!token.single_word, || format!("single_word of {}", name()))?;
        refuse_unless(!token.lstrip, || format!("lstrip of {}", name()))?;
        refuse_unless(!token.rstrip, || format!("rstrip of {}", name()))?;
        refuse_unless(!token.normalized, || format!("normalized of {}", name()))?;
        refuse_unless(!token.content.is_empty(), || format!("the empty content of {}", name()))?;
    }
    Ok(Source { vocab: model.vocab, merges: model.merges, added: file.added_tokens })
}

fn refuse_unless(condition: bool, what: impl FnOnce() -> String) -> Result<(), BakeError> {
    if condition { Ok(()) } else { Err(BakeError::Unsupported(what())) }
}

/// A component as it stands in the file, short enough for a message.
fn kind_of(component: &Value) -> String {
    let text = component.to_string();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
