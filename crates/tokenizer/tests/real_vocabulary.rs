//! The 262,144-token vocabulary against the `tokenizers` library and against ids that are known from elsewhere.
//!
//! The file is too large for the repository: `scripts/get-test-tokenizer.sh` fetches it. Without it these tests say so
//! and prove nothing.

mod support;

use std::io::Write;
use std::sync::LazyLock;

use rawloop_tokenizer::{EncodeBuffers, SpecialText, SpecialTokens};
use support::{Both, Random, long_text, random_ids, random_text, real_json};

static BOTH: LazyLock<Option<Both>> = LazyLock::new(|| real_json().map(|json| Both::new(&json)));

/// The tokenizers, or a line on the terminal. Written past the test harness, which would swallow it.
fn both(test: &str) -> Option<&'static Both> {
    if BOTH.is_none() {
        let reason = "target/test-data/tokenizer-gemma4.json is not there; run scripts/get-test-tokenizer.sh";
        let mut terminal = std::io::stderr();
        writeln!(terminal, "SKIPPED {test}: {reason}").unwrap();
    }
    BOTH.as_ref()
}

fn ids(both: &Both, text: &str) -> Vec<u32> {
    both.ours.encode(text, SpecialTokens::Parse)
}

#[test]
fn random_texts_are_equal() {
    let Some(both) = both("random_texts_are_equal") else { return };
    let mut random = Random(11);
    let mut buffers = EncodeBuffers::default();
    for _ in 0..20_000 {
        both.assert_equal(&random_text(&mut random, 12), &mut buffers);
    }
}

#[test]
fn a_long_text_is_equal() {
    let Some(both) = both("a_long_text_is_equal") else { return };
    both.assert_equal(&long_text(12, 1_000_000), &mut EncodeBuffers::default());
}

#[test]
fn random_ids_decode_equally() {
    let Some(both) = both("random_ids_decode_equally") else { return };
    let mut random = Random(13);
    for _ in 0..5_000 {
        both.assert_decodes_equal(&random_ids(&mut random, &both.ours, 12));
    }
}

/// Every token's own text, alone and after a letter: it uses every merge that can be last.
#[test]
fn the_text_of_every_token_is_equal() {
    let Some(both) = both("the_text_of_every_token_is_equal") else { return };
    let mut buffers = EncodeBuffers::default();
    for id in 0..both.ours.vocab_size() {
        let spelling = both.ours.spelling(id).unwrap();
        assert_eq!(Some(spelling), both.theirs.id_to_token(id).as_deref());
        assert_eq!(both.ours.token_id(spelling), Some(id));
        if id % 4 == 0 {
            both.assert_equal(&spelling.replace('\u{2581}', " "), &mut buffers);
        }
    }
}

/// Prompts whose ids are known from Gemma 4 itself.
#[test]
fn known_prompts_have_the_known_ids() {
    let Some(both) = both("known_prompts_have_the_known_ids") else { return };
    assert_eq!(ids(both, "Why is the sky blue?"), [11355, 563, 506, 7217, 3730, 236881]);
    assert_eq!(ids(both, "What is the capital of France?"), [3689, 563, 506, 5279, 529, 7001, 236881]);
    assert_eq!(
        ids(both, "Explain photosynthesis in one sentence."),
        [155122, 93036, 528, 886, 13315, 236761]
    );
    assert_eq!(
        ids(both, "<bos><|turn>user\nWhy is the sky blue?<turn|>\n<|turn>model\n"),
        [2, 105, 2364, 107, 11355, 563, 506, 7217, 3730, 236881, 106, 107, 105, 4368, 107]
    );
    assert_eq!(ids(both, "thought"), [45518]);
    for (text, id) in
        [("call", 6639), (":", 236787), ("{", 236782), ("}", 236783), ("_", 236779), ("\n", 107)]
    {
        assert_eq!(ids(both, text), [id], "{text:?}");
    }
    assert_eq!(
        ids(both, "Hello world! Café déjà vu — 123 😊"),
        [9259, 1902, 236888, 62367, 29234, 11042, 2192, 236743, 236770, 236778, 236800, 103453]
    );
}

#[test]
fn case_14_a_closing_tag_is_an_ordinary_piece() {
    let Some(both) = both("case_14_a_closing_tag_is_an_ordinary_piece") else { return };
    let text = "<s>old price</s> new price";
    let encoded = both.ours.encode(text, SpecialTokens::Text);
    assert!(encoded.contains(&212), "{encoded:?}");
    assert!(!both.ours.is_special(212));
    assert_eq!(both.ours.decode(&encoded, SpecialText::Drop).unwrap(), text);
}

#[test]
fn case_15_control_tokens_are_single_ids() {
    let Some(both) = both("case_15_control_tokens_are_single_ids") else { return };
    let markers = [
        (2, "<bos>"),
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
    let mut prompt = String::new();
    for (id, marker) in markers {
        assert_eq!(ids(both, marker), [id]);
        assert!(both.ours.is_special(id));
        prompt += &format!("{marker}x{marker}");
    }
    let encoded = ids(both, &prompt);
    for (id, marker) in markers {
        assert_eq!(encoded.iter().filter(|&&other| other == id).count(), prompt.matches(marker).count());
    }
}

#[test]
fn case_16_plain_names_do_not_fall_to_bytes() {
    let Some(both) = both("case_16_plain_names_do_not_fall_to_bytes") else { return };
    assert_eq!(ids(both, " Linus"), [9684, 605]);
    for name in [" Linus", " Hannes", " Schröder"] {
        assert!(ids(both, name).iter().all(|&id| !both.ours.is_byte(id)), "{name}");
    }
}

#[test]
fn case_17_newlines_spaces_digits_accents() {
    let Some(both) = both("case_17_newlines_spaces_digits_accents") else { return };
    let mut buffers = EncodeBuffers::default();
    for count in 1..=70 {
        for unit in ["\n", " ", "\t", "\r\n", "▁", "\n ", " \n"] {
            let run = unit.repeat(count);
            both.assert_equal(&run, &mut buffers);
            both.assert_equal(&format!("a{run}b"), &mut buffers);
        }
    }
    assert_eq!(ids(both, "\n\n"), [108]);
    assert_eq!(ids(both, &"\n".repeat(7)), [113]);
    assert_eq!(ids(both, &" ".repeat(12)), [148]);
    // Digits stand alone.
    assert_eq!(ids(both, "12345"), [236770, 236778, 236800, 236812, 236810]);
    for text in ["naïve café", "e\u{301}le\u{300}ve", "mixed Смесь 混合 مزيج", "\tif x:\n\t\tpass\n"]
    {
        both.assert_equal(text, &mut buffers);
    }
}

/// Byte tokens follow each other from id 238.
#[test]
fn bytes_are_238_and_up() {
    let Some(both) = both("bytes_are_238_and_up") else { return };
    let text = "\u{2058c}";
    let expected: Vec<u32> = text.bytes().map(|byte| 238 + u32::from(byte)).collect();
    assert_eq!(ids(both, text), expected);
    assert_eq!(both.ours.token_bytes(238 + 0xe2).unwrap().as_ref(), [0xe2]);
    assert_eq!(both.ours.vocab_size(), 262_144);
}
