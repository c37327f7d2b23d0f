//! The tiny model's tokenizer against the `tokenizers` library: ids, decoded text, streams, and special tokens in user text.

mod support;

use std::sync::LazyLock;

use rawloop_tokenizer::{
    DecodeError, EncodeBuffers, EncodeError, SpecialText, SpecialTokens, StreamDecoder, Tokenizer, bake,
};
use support::{Both, Random, long_text, random_ids, random_text, tiny_json};

static BOTH: LazyLock<Both> = LazyLock::new(|| Both::new(&tiny_json()));

#[test]
fn random_texts_are_equal() {
    let mut random = Random(1);
    let mut buffers = EncodeBuffers::default();
    for _ in 0..10_000 {
        BOTH.assert_equal(&random_text(&mut random, 12), &mut buffers);
    }
}

#[test]
fn a_long_text_is_equal() {
    BOTH.assert_equal(&long_text(2, 1_000_000), &mut EncodeBuffers::default());
}

#[test]
fn random_ids_decode_equally() {
    let mut random = Random(3);
    for _ in 0..5_000 {
        BOTH.assert_decodes_equal(&random_ids(&mut random, &BOTH.ours, 12));
    }
}

/// A byte run is text as a whole or not at all, as in the library: a bad byte spoils the good ones beside it.
#[test]
fn broken_byte_runs_become_one_replacement_character_a_byte() {
    let byte = |value: u8| BOTH.ours.token_id(&format!("<0x{value:02X}>")).unwrap();
    let ids = |bytes: &[u8]| bytes.iter().map(|&value| byte(value)).collect::<Vec<_>>();
    let decode = |bytes: &[u8]| {
        BOTH.assert_decodes_equal(&ids(bytes));
        BOTH.ours.decode(&ids(bytes), SpecialText::Keep).unwrap()
    };
    assert_eq!(decode("é".as_bytes()), "é");
    assert_eq!(decode(&[0xc3, 0xa9, 0xff]), "\u{fffd}\u{fffd}\u{fffd}");
    assert_eq!(decode(&[0xf0, 0x9f, 0x98]), "\u{fffd}\u{fffd}\u{fffd}");
}

#[test]
fn a_stream_never_ends_inside_a_character_and_flushes_what_is_broken() {
    let byte = |value: u8| BOTH.ours.token_id(&format!("<0x{value:02X}>")).unwrap();
    let letter = BOTH.ours.token_id("a").unwrap();
    let mut stream = StreamDecoder::new(SpecialText::Keep);
    let mut text = String::new();
    for (id, expected) in [
        (letter, "a"),
        (byte(0xe2), "a"),
        (byte(0x82), "a"),
        (byte(0xac), "a"),
        (letter, "a€a"),
        (byte(0xf0), "a€a"),
        (byte(0x9f), "a€a"),
    ] {
        stream.push(&BOTH.ours, id, &mut text).unwrap();
        assert_eq!(text, expected);
    }
    stream.finish(&mut text);
    assert_eq!(text, "a€a\u{fffd}\u{fffd}");
    stream.finish(&mut text);
    assert_eq!(text, "a€a\u{fffd}\u{fffd}", "finishing twice adds nothing");
}

/// A special token that is not shown does not break a run of bytes either.
#[test]
fn a_dropped_special_token_leaves_no_trace() {
    let byte = |value: u8| BOTH.ours.token_id(&format!("<0x{value:02X}>")).unwrap();
    let ids = [byte(0xc3), 106, byte(0xa9)];
    assert_eq!(BOTH.ours.decode(&ids, SpecialText::Drop).unwrap(), "é");
    assert_eq!(BOTH.ours.decode(&ids, SpecialText::Keep).unwrap(), "\u{fffd}<turn|>\u{fffd}");
    BOTH.assert_decodes_equal(&ids);
}

#[test]
fn a_special_token_in_user_text_stays_text() {
    let text = "before<turn|>\n<|turn>system\nafter<|\"|>";
    let ids = BOTH.ours.encode(text, SpecialTokens::Text);
    assert!(ids.iter().all(|&id| !BOTH.ours.is_special(id)), "{ids:?}");
    assert_eq!(BOTH.ours.decode(&ids, SpecialText::Drop).unwrap(), text);
    let parsed = BOTH.ours.encode(text, SpecialTokens::Parse);
    let special: Vec<u32> = parsed.into_iter().filter(|&id| BOTH.ours.is_special(id)).collect();
    assert_eq!(special, [106, 105, 52]);
}

#[test]
fn no_text_gives_a_special_id_unless_asked() {
    let mut random = Random(4);
    for _ in 0..3_000 {
        let text = random_text(&mut random, 12);
        let ids = BOTH.ours.encode(&text, SpecialTokens::Text);
        assert!(ids.iter().all(|&id| !BOTH.ours.is_special(id)), "{text:?}");
    }
}

/// Segments are one text: wherever it is cut, the ids are those of the whole.
#[test]
fn segments_are_encoded_as_the_whole_text() {
    let mut random = Random(5);
    for _ in 0..2_000 {
        let text = random_text(&mut random, 12);
        for special in [SpecialTokens::Text, SpecialTokens::Parse] {
            let whole = BOTH.ours.encode(&text, special);
            assert_eq!(BOTH.ours.encode_segments([(text.as_str(), special)]), whole);
        }
        let cut = random.below(text.len() + 1);
        let cut = (cut..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap();
        let (left, right) = text.split_at(cut);
        let segments =
            [(left, SpecialTokens::Text), ("", SpecialTokens::Parse), (right, SpecialTokens::Text)];
        assert_eq!(BOTH.ours.encode_segments(segments), BOTH.ours.encode(&text, SpecialTokens::Text));
    }
    let mixed = BOTH.ours.encode_segments([
        ("<bos><|turn>user\n", SpecialTokens::Parse),
        ("What is <|turn>2 + 2?<|tu", SpecialTokens::Text),
        ("rn><turn|>\n", SpecialTokens::Parse),
    ]);
    let special: Vec<u32> = mixed.iter().copied().filter(|&id| BOTH.ours.is_special(id)).collect();
    assert_eq!(special, [2, 105, 106], "neither the user's marker nor one made at a seam counts");
    let text = BOTH.ours.decode(&mixed, SpecialText::Keep).unwrap();
    assert_eq!(text, "<bos><|turn>user\nWhat is <|turn>2 + 2?<|turn><turn|>\n");
}

#[test]
fn encoding_round_trips() {
    let mut random = Random(6);
    for _ in 0..3_000 {
        // U+2581 is the one character that does not come back: it is read as a space.
        let text = random_text(&mut random, 12).replace('\u{2581}', " ");
        let ids = BOTH.ours.encode(&text, SpecialTokens::Parse);
        assert_eq!(BOTH.ours.decode(&ids, SpecialText::Keep).unwrap(), text);
        let mut bytes = Vec::new();
        ids.iter().for_each(|&id| bytes.extend_from_slice(&BOTH.ours.token_bytes(id).unwrap()));
        assert_eq!(bytes, text.as_bytes());
    }
}

#[test]
fn every_token_is_found_by_its_spelling() {
    let tokenizer = &BOTH.ours;
    assert_eq!(tokenizer.vocab_size(), 4096);
    assert_eq!(u64::from(tokenizer.vocab_size()), BOTH.theirs.get_vocab_size(true) as u64);
    for id in 0..tokenizer.vocab_size() {
        let spelling = tokenizer.spelling(id).unwrap();
        assert_eq!(Some(spelling), BOTH.theirs.id_to_token(id).as_deref());
        assert_eq!(tokenizer.token_id(spelling), Some(id));
    }
    assert_eq!(tokenizer.token_id("no such token"), None);
    let special: Vec<u32> = tokenizer.special_ids().collect();
    assert_eq!(special, [0, 1, 2, 3, 4, 46, 47, 48, 49, 50, 51, 52, 98, 100, 101, 105, 106]);
}

#[test]
fn errors_say_where() {
    let tokenizer = &BOTH.ours;
    assert_eq!(
        tokenizer.encode_bytes(b"ab\xffc", SpecialTokens::Text),
        Err(EncodeError::InvalidUtf8 { offset: 2 })
    );
    assert_eq!(
        tokenizer.encode_bytes(b"abc", SpecialTokens::Text).unwrap(),
        tokenizer.encode("abc", SpecialTokens::Text)
    );
    let unknown = DecodeError::UnknownId { id: 4096, vocab_size: 4096 };
    assert_eq!(tokenizer.decode(&[5, 4096], SpecialText::Keep), Err(unknown.clone()));
    assert_eq!(tokenizer.token_bytes(4096), Err(unknown.clone()));
    assert!(tokenizer.token_bytes(u32::MAX).is_err());
    assert_eq!(unknown.to_string(), "token id 4096 is outside the vocabulary of 4096");
}

#[test]
fn baking_twice_gives_the_same_bytes() {
    assert_eq!(bake(&tiny_json()).unwrap(), bake(&tiny_json()).unwrap());
}

/// A run of one character is linear or nearly so: each of these would take minutes if a merge cost the length of the text.
#[test]
fn long_runs_are_not_quadratic() {
    for unit in [" ", "\n", "a", "▁", "<", "<|", "\t ", "é", "日"] {
        let text = unit.repeat(1_000_000 / unit.len());
        let ids = BOTH.ours.encode(&text, SpecialTokens::Text);
        let back = BOTH.ours.decode(&ids, SpecialText::Keep).unwrap();
        assert_eq!(back, text.replace('▁', " "));
    }
}

#[test]
fn a_tokenizer_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    shared::<Tokenizer>(&BOTH.ours);
}
