//! Compares this crate with the `tokenizers` library on many random texts.
//!
//! `cargo run --release -p rawloop-tokenizer --example fuzz_equal -- 1000000 [seed]`
//!
//! Both vocabularies take part, the large one if `scripts/get-test-tokenizer.sh` has fetched it. Ends with the first
//! difference, or with a line that says how much was compared.

#[path = "../tests/support/mod.rs"]
mod support;

use rawloop_tokenizer::EncodeBuffers;
use support::{Both, Random, random_ids, random_text, real_json, tiny_json};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let count = arguments.next().unwrap_or(20_000);
    let seed = arguments.next().unwrap_or(1);
    let large = real_json();
    if large.is_none() {
        eprintln!("only the tiny vocabulary: run scripts/get-test-tokenizer.sh for the large one");
    }
    let vocabularies: Vec<Both> =
        [Some(tiny_json()), large].iter().flatten().map(|json| Both::new(json)).collect();

    let mut random = Random(seed);
    let mut buffers = EncodeBuffers::default();
    let mut bytes = 0;
    for _ in 0..count {
        let text = random_text(&mut random, 12);
        bytes += text.len();
        for both in &vocabularies {
            both.assert_equal(&text, &mut buffers);
        }
    }
    for _ in 0..count / 4 {
        for both in &vocabularies {
            both.assert_decodes_equal(&random_ids(&mut random, &both.ours, 12));
        }
    }
    let vocabularies = vocabularies.len();
    println!(
        "{count} texts ({bytes} bytes) and {} lists of ids, {vocabularies} vocabularies: all equal",
        count / 4
    );
}
