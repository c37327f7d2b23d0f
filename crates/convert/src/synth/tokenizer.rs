//! A tokenizer.json for synthetic models: Gemma's special ids and byte tokens, no merges, invented words.
//!
//! Text becomes single characters or bytes; answers of a synthetic model read as nonsense words, so that nobody takes them
//! for more.

use serde_json::{Map, Value, json};

/// The fewest tokens it can have: special tokens and bytes.
pub const FEWEST: usize = 512;
/// Ids of byte tokens start here, as in Gemma's vocabulary.
const FIRST_BYTE: usize = 238;

const SPECIAL: [(usize, &str); 17] = [
    (0, "<pad>"),
    (1, "<eos>"),
    (2, "<bos>"),
    (3, "<unk>"),
    (4, "<mask>"),
    (46, "<|tool>"),
    (47, "<tool|>"),
    (48, "<|tool_call>"),
    (49, "<tool_call|>"),
    (50, "<|tool_response>"),
    (51, "<tool_response|>"),
    (52, "<|\"|>"),
    (98, "<|think|>"),
    (100, "<|channel>"),
    (101, "<channel|>"),
    (105, "<|turn>"),
    (106, "<turn|>"),
];

/// The file for a vocabulary of `vocab` tokens, at least [`FEWEST`].
pub fn json(vocab: usize) -> Vec<u8> {
    // The space comes first: as bytes it would not turn back into one.
    let mut characters = ['\u{2581}'].into_iter().chain((0x21..0x7f).map(char::from));
    let mut pieces = Map::new();
    for id in 0..vocab {
        let special = SPECIAL.iter().find(|(special, _)| *special == id);
        let piece = match (special, id) {
            (Some((_, name)), _) => (*name).to_string(),
            (_, 107) => "\n".into(),
            (_, byte) if (FIRST_BYTE..FIRST_BYTE + 256).contains(&byte) => {
                format!("<0x{:02X}>", byte - FIRST_BYTE)
            }
            (_, unused) if unused < FIRST_BYTE => format!("<unused{unused}>"),
            _ => characters.next().map_or_else(|| word(id), String::from),
        };
        pieces.insert(piece, id.into());
    }
    let added: Vec<Value> = SPECIAL
        .iter()
        .filter(|(id, _)| *id < vocab)
        .map(|(id, name)| {
            json!({
                "id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true
            })
        })
        .collect();
    let file = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": { "type": "Replace", "pattern": { "String": " " }, "content": "\u{2581}" },
        "pre_tokenizer": {
            "type": "Split", "pattern": { "String": " " }, "behavior": "MergedWithPrevious", "invert": false
        },
        "post_processor": null,
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "\u{2581}" }, "content": " " },
            { "type": "ByteFallback" },
            { "type": "Fuse" }
        ] },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": pieces, "merges": []
        }
    });
    // A value made of maps, lists and texts always becomes JSON.
    file.to_string().into_bytes()
}

/// A word with a space before it: three syllables, different for every id up to 512,000.
fn word(id: usize) -> String {
    const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
    const VOWELS: &[u8; 5] = b"aeiou";
    let mut rest = id;
    let mut word = String::from("\u{2581}");
    for _ in 0..4 {
        word.push(char::from(CONSONANTS[rest % 16]));
        word.push(char::from(VOWELS[rest / 16 % 5]));
        rest /= 80;
        if rest == 0 {
            break;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawloop_tokenizer::{SpecialText, SpecialTokens, Tokenizer, bake};

    #[test]
    fn it_bakes_has_every_id_and_round_trips_text() {
        for vocab in [FEWEST, 1024, 4096] {
            let tokenizer = Tokenizer::load(bake(&json(vocab)).unwrap()).unwrap();
            assert_eq!(tokenizer.vocab_size() as usize, vocab);
            assert_eq!(tokenizer.token_id("<|turn>"), Some(105));
            assert_eq!(tokenizer.token_id("<0xFF>"), Some(493));
            let text = "Why is 2 + 2 = 4?\nCaf\u{e9} \u{1f600}";
            let ids = tokenizer.encode(text, SpecialTokens::Text);
            assert_eq!(tokenizer.decode(&ids, SpecialText::Keep).unwrap(), text);
        }
    }
}
