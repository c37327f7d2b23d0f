//! What `bake` makes of a `tokenizer.json`: what it refuses and with which words, and the merges it leaves out.

mod support;

use rawloop_tokenizer::{BakeError, EncodeBuffers, SpecialText, SpecialTokens, Tokenizer, bake};
use serde_json::{Value, json};
use support::Both;

/// A file with the byte tokens, the given tokens from id 256 on and the given merges.
fn file(tokens: &[&str], merges: &[[&str; 2]]) -> Value {
    let mut vocab = serde_json::Map::new();
    for byte in 0..256 {
        vocab.insert(format!("<0x{byte:02X}>"), json!(byte));
    }
    for (place, token) in tokens.iter().enumerate() {
        vocab.insert((*token).into(), json!(256 + place));
    }
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": { "type": "Replace", "pattern": { "String": " " }, "content": "\u{2581}" },
        "pre_tokenizer": {
            "type": "Split", "pattern": { "String": " " }, "behavior": "MergedWithPrevious", "invert": false
        },
        "post_processor": null,
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "\u{2581}" }, "content": " " },
            { "type": "ByteFallback" }, { "type": "Fuse" }
        ] },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocab, "merges": merges,
        },
    })
}

fn added(id: u32, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": special,
    })
}

fn load(file: &Value) -> Tokenizer {
    Tokenizer::load(bake(file.to_string().as_bytes()).unwrap()).unwrap()
}

fn encode(file: &Value, text: &str) -> Vec<u32> {
    load(file).encode(text, SpecialTokens::Text)
}

/// The message of the refusal.
fn refusal(file: &Value) -> String {
    bake(file.to_string().as_bytes()).expect_err("must be refused").to_string()
}

#[test]
fn what_is_not_implemented_is_refused_by_name() {
    let base = file(&["a", "b", "ab"], &[["a", "b"]]);
    let cases = [
        ("/truncation", json!({ "max_length": 4 }), "truncation"),
        ("/padding", json!({ "strategy": "BatchLongest" }), "padding"),
        ("/normalizer", json!({ "type": "NFC" }), "the normalizer {\"type\":\"NFC\"}"),
        ("/normalizer", Value::Null, "the normalizer null"),
        ("/normalizer/content", json!("_"), "the normalizer"),
        ("/pre_tokenizer", json!({ "type": "Whitespace" }), "the pre_tokenizer {\"type\":\"Whitespace\"}"),
        ("/post_processor", json!({ "type": "ByteLevel" }), "the post_processor {\"type\":\"ByteLevel\"}"),
        ("/decoder", json!({ "type": "ByteLevel" }), "the decoder {\"type\":\"ByteLevel\"}"),
        ("/decoder/decoders/1", json!({ "type": "Strip" }), "the decoder"),
        ("/model/type", json!("Unigram"), "the model Unigram"),
        ("/model/dropout", json!(0.1), "model.dropout"),
        ("/model/continuing_subword_prefix", json!("##"), "model.continuing_subword_prefix"),
        ("/model/end_of_word_suffix", json!("</w>"), "model.end_of_word_suffix"),
        ("/model/ignore_merges", json!(true), "model.ignore_merges"),
        ("/model/byte_fallback", json!(false), "a model without byte_fallback"),
    ];
    for (path, value, expected) in cases {
        let mut changed = base.clone();
        *changed.pointer_mut(path).unwrap() = value;
        let message = refusal(&changed);
        assert!(message.contains(expected), "{path}: {message}");
    }
    for flag in ["single_word", "lstrip", "rstrip", "normalized"] {
        let mut changed = base.clone();
        changed["added_tokens"] = json!([added(259, "<x>", true)]);
        changed["added_tokens"][0][flag] = json!(true);
        let message = refusal(&changed);
        assert!(message.contains(&format!("{flag} of added token 259 `<x>`")), "{message}");
    }
    let mut changed = base.clone();
    changed["model"]["new_option"] = json!(1);
    assert!(refusal(&changed).contains("unknown field `new_option`"));
    let mut changed = base;
    changed["new_part"] = json!(1);
    assert!(refusal(&changed).contains("unknown field `new_part`"));
}

#[test]
fn contradictions_are_refused_by_name() {
    let base = file(&["a", "b", "ab"], &[["a", "b"]]);
    let change = |edit: &dyn Fn(&mut Value)| {
        let mut changed = base.clone();
        edit(&mut changed);
        refusal(&changed)
    };
    let message = change(&|file| file["model"]["vocab"]["a"] = json!(900));
    assert!(message.contains("token `a` has id 900, but there are only 259 tokens"), "{message}");
    let message = change(&|file| file["model"]["vocab"]["a"] = json!(257));
    assert!(message.contains("have the same id 257"), "{message}");
    let message = change(&|file| file["model"]["merges"] = json!([["a", "z"]]));
    assert!(message.contains("merge 0 (`a`, `z`): `z` is not in the vocabulary"), "{message}");
    let message = change(&|file| file["model"]["merges"] = json!(["a b c"]));
    assert!(message.contains("one string with one space"), "{message}");
    let message = change(&|file| file["added_tokens"] = json!([added(3, "a", true)]));
    assert!(message.contains("added token `a` has id 3, in vocab 256"), "{message}");
    let message = change(&|file| file["added_tokens"] = json!([added(300, "<x>", true)]));
    assert!(
        message.contains("added token `<x>` has id 300, in the order of the file its id is 259"),
        "{message}"
    );
    let message =
        change(&|file| file["added_tokens"] = json!([added(259, "<x>", true), added(259, "<x>", true)]));
    assert!(message.contains("`<x>` is listed twice"), "{message}");
    assert!(matches!(bake(b"{"), Err(BakeError::Json(_))));
    assert!(matches!(bake(b""), Err(BakeError::Json(_))));
}

#[test]
fn missing_or_doubtful_byte_tokens_are_refused() {
    let mut changed = file(&["a"], &[]);
    let vocab = changed["model"]["vocab"].as_object_mut().unwrap();
    vocab.remove("<0x41>");
    vocab.insert("z".into(), json!(0x41));
    assert!(refusal(&changed).contains("byte_fallback without the token <0x41>"));
    assert!(refusal(&file(&["<0xff>"], &[])).contains("`<0xff>` as a second spelling of a byte token"));
    assert!(refusal(&file(&["<0x+1>"], &[])).contains("`<0x+1>` as a second spelling"));
    let merge = file(&["a", "<0x41>a"], &[["<0x41>", "a"]]);
    assert!(refusal(&merge).contains("merge 0 (`<0x41>`, `a`) of a byte token"));
}

/// Case 16: a rule whose product is no token must not take part, or the word ends as a piece without an id.
#[test]
fn case_16_a_merge_without_a_token_is_left_out() {
    let tokens = ["L", "i", "n", "u", "s", "Li", "us", "Lin"];
    // `n` + `us` has the best rank of those that would catch the word, and no token.
    let merges = [["u", "s"], ["n", "us"], ["L", "i"], ["Li", "n"]];
    let with = file(&tokens, &merges);
    let without = file(&tokens, &[merges[0], merges[2], merges[3]]);
    assert_eq!(encode(&with, "Linus"), [263, 262]);
    assert_eq!(
        encode(&with, "Linus"),
        Both::new(without.to_string().as_bytes()).reference("Linus", SpecialTokens::Text)
    );
}

#[test]
fn a_merge_cannot_spell_a_special_token() {
    let mut with = file(&["<", "x", ">", "<x", "<x>"], &[["<", "x"], ["<x", ">"]]);
    with["added_tokens"] = json!([added(260, "<x>", true)]);
    assert_eq!(encode(&with, "<x>"), [259, 258]);
    assert_eq!(load(&with).encode("<x>", SpecialTokens::Parse), [260]);
    // Nor can a special token of one character be met in text.
    let mut single = file(&["x", "¤"], &[]);
    single["added_tokens"] = json!([added(257, "¤", true)]);
    assert_eq!(encode(&single, "x¤"), [256, 0xc2, 0xa4]);
    assert_eq!(load(&single).encode("x¤", SpecialTokens::Parse), [256, 257]);
}

/// Ranks decide, then places; and a pair listed twice has its later rank.
#[test]
fn ranks_and_repeated_rules_are_as_in_the_library() {
    let tokens = ["a", "b", "c", "ab", "bc", "aa", "aaa", "abc"];
    for merges in [
        vec![["a", "b"], ["b", "c"]],
        vec![["b", "c"], ["a", "b"]],
        vec![["a", "b"], ["b", "c"], ["a", "b"]],
        vec![["a", "a"], ["aa", "a"], ["a", "aa"]],
        vec![["a", "bc"], ["ab", "c"], ["b", "c"], ["a", "b"]],
    ] {
        let both = Both::new(file(&tokens, &merges).to_string().as_bytes());
        let mut buffers = EncodeBuffers::default();
        // Every text of up to seven letters, and some long enough for the heap.
        for code in 0..3usize.pow(7) {
            let letter = |place: u32| ["a", "b", "c"][code / 3usize.pow(place) % 3];
            let text: String = (0..1 + code as u32 % 7).map(letter).collect();
            both.assert_equal(&text, &mut buffers);
            if code % 16 == 0 {
                both.assert_equal(&text.repeat(13), &mut buffers);
            }
        }
    }
}

#[test]
fn added_tokens_beyond_the_vocabulary_and_overlapping_ones() {
    let mut with = file(&["<", "a", "b", ">", "<a", "ab"], &[["<", "a"], ["a", "b"]]);
    with["added_tokens"] = json!([
        added(262, "<a>", false),
        added(263, "<ab>", true),
        added(260, "<a", false),
        added(264, "b>b>", true)
    ]);
    let both = Both::new(with.to_string().as_bytes());
    let mut buffers = EncodeBuffers::default();
    for text in ["<a>", "<ab>", "<ab", "<a<a>", "<ab>b>b>", "b>b>b>", "<<ab>>", "a<ab>b", "", "<", "b>b"] {
        both.assert_equal(text, &mut buffers);
    }
    assert_eq!(both.ours.vocab_size(), 265);
    assert_eq!(both.ours.encode("<ab><a>", SpecialTokens::Parse), [263, 262]);
    assert_eq!(both.ours.decode(&[263, 262], SpecialText::Drop).unwrap(), "<a>");
}

/// Older files write a merge as one string.
#[test]
fn merges_written_as_one_string_are_the_same() {
    let pairs = file(&["a", "b", "ab"], &[["a", "b"]]);
    let mut strings = pairs.clone();
    strings["model"]["merges"] = json!(["a b"]);
    strings["post_processor"] = json!({ "type": "TemplateProcessing" });
    strings["pre_tokenizer"] = Value::Null;
    assert_eq!(bake(pairs.to_string().as_bytes()).unwrap(), bake(strings.to_string().as_bytes()).unwrap());
}
