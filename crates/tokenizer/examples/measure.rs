//! Load time and speed on the large vocabulary, beside the `tokenizers` library in the same run.
//!
//! `cargo run --release -p rawloop-tokenizer --example measure`

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use bytes::Bytes;
use rawloop_tokenizer::{EncodeBuffers, SpecialText, SpecialTokens, Tokenizer, bake};
use support::{long_text, real_json};

const ROUNDS: usize = 9;

/// Median seconds of some rounds.
fn median<T>(mut work: impl FnMut() -> T) -> f64 {
    let mut seconds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(work());
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[ROUNDS / 2]
}

fn main() {
    let json = real_json().expect("run scripts/get-test-tokenizer.sh first");
    let start = Instant::now();
    let table = Bytes::from(bake(&json).expect("bake"));
    println!("bake {:.2} s, table {:.1} MB", start.elapsed().as_secs_f64(), table.len() as f64 / 1e6);
    println!("load {:.2} ms", median(|| Tokenizer::load(table.clone()).expect("load")) * 1e3);
    let start = Instant::now();
    let theirs = tokenizers::Tokenizer::from_bytes(&json).expect("tokenizers reads the file");
    println!("tokenizers reads tokenizer.json in {:.2} s", start.elapsed().as_secs_f64());

    let ours = Tokenizer::load(table).expect("load");
    let prose =
        "The quick brown fox jumps over the lazy dog, and nobody was surprised when it happened again.\n";
    let chinese = "敏捷的棕色狐狸跳过了懒狗，当它再次发生时没有人感到惊讶。";
    let code = "    for (index, value) in values.iter().enumerate() {\n        total += weights[index] * value;\n    }\n";
    for (name, text) in [
        ("mixed", long_text(1, 1_000_000)),
        ("prose", prose.repeat(1_000_000 / prose.len())),
        ("chinese", chinese.repeat(1_000_000 / chinese.len())),
        ("code", code.repeat(1_000_000 / code.len())),
        ("spaces", " ".repeat(1_000_000)),
        ("newlines", "\n".repeat(1_000_000)),
    ] {
        let megabytes = text.len() as f64 / 1e6;
        let (mut buffers, mut ids) = (EncodeBuffers::default(), Vec::new());
        let encode = median(|| {
            ids.clear();
            ours.encode_into(&text, SpecialTokens::Text, &mut buffers, &mut ids);
        });
        let decode = median(|| ours.decode(&ids, SpecialText::Keep).expect("known ids"));
        let library = median(|| theirs.encode_fast(text.as_str(), false).expect("encode"));
        println!(
            "{name}: encode {:.1} MB/s (tokenizers {:.1}), decode {:.1} MB/s, {:.2} bytes a token",
            megabytes / encode,
            megabytes / library,
            megabytes / decode,
            text.len() as f64 / ids.len() as f64
        );
    }
    let prompt = "<bos><|turn>user\nWhy is the sky blue?<turn|>\n<|turn>model\n";
    let (mut buffers, mut ids) = (EncodeBuffers::default(), Vec::new());
    let each = median(|| {
        for _ in 0..1000 {
            ids.clear();
            ours.encode_into(prompt, SpecialTokens::Parse, &mut buffers, &mut ids);
        }
    });
    println!("a prompt of {} tokens: {:.2} us", ids.len(), each * 1e3);
}
