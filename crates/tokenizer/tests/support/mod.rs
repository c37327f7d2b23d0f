//! Shared by the tests and the examples: where the tokenizers are, text of every kind from a seed, and the comparison with
//! the `tokenizers` library.
#![allow(dead_code)] // Each test binary uses a part.

use std::path::PathBuf;

use rawloop_tokenizer::{EncodeBuffers, SpecialText, SpecialTokens, StreamDecoder, Tokenizer, bake};

/// `tokenizer.json` of the shipped tiny model.
pub fn tiny_json() -> Vec<u8> {
    let path = root().join("models/tiny/checkpoint/tokenizer.json");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The 262,144-token vocabulary, if it has been fetched.
pub fn real_json() -> Option<Vec<u8>> {
    std::fs::read(root().join("target/test-data/tokenizer-gemma4.json")).ok()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Ours and the library's, from one file.
pub struct Both {
    pub ours: Tokenizer,
    pub theirs: tokenizers::Tokenizer,
    /// The library with special tokens in the text left as text.
    pub theirs_text: tokenizers::Tokenizer,
}

impl Both {
    pub fn new(json: &[u8]) -> Both {
        let ours = Tokenizer::load(bake(json).expect("bake")).expect("load");
        let theirs = tokenizers::Tokenizer::from_bytes(json).expect("tokenizers reads the file");
        let mut theirs_text = theirs.clone();
        theirs_text.set_encode_special_tokens(true);
        Both { ours, theirs, theirs_text }
    }

    /// Ids of the library.
    pub fn reference(&self, text: &str, special: SpecialTokens) -> Vec<u32> {
        let theirs = match special {
            SpecialTokens::Parse => &self.theirs,
            SpecialTokens::Text => &self.theirs_text,
        };
        theirs.encode_fast(text, false).expect("encode").get_ids().to_vec()
    }

    /// Asserts that both encode the text alike in both readings of special tokens, and decode the result alike.
    pub fn assert_equal(&self, text: &str, buffers: &mut EncodeBuffers) {
        for special in [SpecialTokens::Text, SpecialTokens::Parse] {
            let mut ids = Vec::new();
            self.ours.encode_into(text, special, buffers, &mut ids);
            let reference = self.reference(text, special);
            if ids != reference {
                let at = ids.iter().zip(&reference).take_while(|(a, b)| a == b).count();
                let end = at + 8;
                panic!(
                    "{special:?}: id {at} differs: ours {:?}, reference {:?}, text {text:?}",
                    &ids[at.min(ids.len())..end.min(ids.len())],
                    &reference[at.min(reference.len())..end.min(reference.len())],
                );
            }
            self.assert_decodes_equal(&ids);
        }
    }

    /// Asserts that both decode the ids alike, at once and as a stream.
    pub fn assert_decodes_equal(&self, ids: &[u32]) {
        for (special, skip) in [(SpecialText::Keep, false), (SpecialText::Drop, true)] {
            let text = self.ours.decode(ids, special).expect("known ids");
            assert_eq!(text, self.theirs.decode(ids, skip).expect("decode"), "{ids:?}");
            let mut stream = StreamDecoder::new(special);
            let mut streamed = String::new();
            for &id in ids {
                stream.push(&self.ours, id, &mut streamed).expect("known id");
            }
            stream.finish(&mut streamed);
            assert_eq!(streamed, text, "{ids:?}");
        }
    }
}

/// SplitMix64: small, seeded, good enough to choose texts.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

const WORDS: &[&str] = &[
    "the",
    "of",
    "Linus",
    "Schröder",
    "Hannes",
    "photosynthesis",
    "unbelievable",
    "don't",
    "I'll",
    "e-mail",
    "naïve",
    "Straße",
    "Größe",
    "déjà",
    "œuvre",
    "ça",
    "niño",
    "œil",
    "Łódź",
    "żółć",
    "řeka",
    "İstanbul",
    "ığdır",
    "Việt",
    "Nguyễn",
    "thế",
    "мир",
    "Привет",
    "здравствуйте",
    "Київ",
    "ёлка",
    "γειά",
    "κόσμος",
    "שלום",
    "עולם",
    "مرحبا",
    "العالم",
    "فارسی",
    "हिन्दी",
    "नमस्ते",
    "বাংলা",
    "தமிழ்",
    "తెలుగు",
    "ಕನ್ನಡ",
    "മലയാളം",
    "ไทย",
    "สวัสดีครับ",
    "ລາວ",
    "မြန်မာ",
    "ខ្មែរ",
    "ქართული",
    "հայերեն",
    "አማርኛ",
    "日本語",
    "こんにちは",
    "カタカナ",
    "世界",
    "中文测试",
    "漢字",
    "한국어",
    "안녕하세요",
    "ᏣᎳᎩ",
    "ᓀᐦᐃᔭᐍᐏᐣ",
    "𐍈𐌰𐌹𐍂𐌹",
    "𒀀𒁀",
    "ℵ₀",
    "ﬁne",
    "ｆｕｌｌ",
    "x²+y²",
    "½",
    "№5",
    "™",
];

const MARKS: &[&str] = &[
    ".", ",", ";", ":", "!", "?", "...", "…", "-", "--", "—", "(", ")", "[", "]", "{", "}", "\"", "'", "“",
    "”", "«", "»", "/", "\\", "@", "#", "$", "%", "^", "&", "*", "+", "=", "<", ">", "|", "~", "`", "```",
    "//", "/*", "*/", "->", "=>", "::", "==", "!=", "<=", "&&", "||", "</", "/>", "<!--", "。", "、", "「",
    "」", "！", "؟", "।", "،",
];

const CODE: &[&str] = &[
    "fn main() {\n    println!(\"{}\", x);\n}\n",
    "for (int i = 0; i < n; ++i) a[i] += b[i] * 0x1F;\n",
    "def f(x, *args, **kw):\n\treturn {'a': [1, 2.5e-3, None]}\n",
    "SELECT * FROM t WHERE id IN (1,2,3);\n",
    "<div class=\"a\"><table><tr><td>1</td></tr></table></div>\n",
    "{\"k\": [true, null, -1.0E+5], \"s\": \"\\u00e9\\n\"}",
    "https://example.org/a?b=c&d=%20#e",
    "\r\n\r\n\t\tif x:\r\n\t\t\tpass\r\n",
    "C:\\tmp\\x.txt",
    "$$\\frac{a}{b}$$",
];

const SYMBOLS: &[&str] = &[
    "😀",
    "😊",
    "👍🏽",
    "👨‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🇩🇪🇫🇷",
    "1️⃣",
    "❤️",
    "☃",
    "✓",
    "→",
    "∑",
    "√",
    "╔═╗",
    "█",
    "▁",
    "▁▁",
    "▁▁▁x",
    "\u{301}",
    "e\u{301}",
    "a\u{308}\u{323}",
    "n\u{303}o",
    "\u{200b}",
    "\u{200d}",
    "\u{feff}",
    "\u{ad}",
    "\u{a0}",
    "\u{2003}",
    "\u{3000}",
    "\u{2028}",
    "\u{0}",
    "\u{1}",
    "\u{7f}",
    "\u{85}",
    "\u{fffd}",
    "\u{fffe}",
    "\u{10ffff}",
    "\u{e000}",
    "\u{f8ff}",
    "𝔘𝔫𝔦",
    "𠜎𠜱",
    "\u{1f9ff}\u{1faff}",
];

const SPELLED: &[&str] = &[
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "<mask>",
    "<|turn>",
    "<turn|>",
    "<|tool>",
    "<tool|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_response>",
    "<tool_response|>",
    "<|\"|>",
    "<|think|>",
    "<|channel>",
    "<channel|>",
    "<|image>",
    "<image|>",
    "<|image|>",
    "<|video|>",
    "<unused1>",
    "<unused24>",
    "<unused6241>",
    "[multimodal]",
    "<0x41>",
    "<0x0A>",
    "<0xff>",
    "</s>",
    "<s>",
    "<h1>",
    "</h6>",
    "<|tur",
    "turn|>",
    "<|",
    "|>",
    "<|turn>user\n",
    "<<|turn>>",
    "<bos",
    "<unused",
    "<tool_",
    "<start_of_turn>",
];

/// One ingredient of a text.
fn ingredient(random: &mut Random, text: &mut String) {
    match random.below(24) {
        0..=6 => {
            text.push_str(random.pick(WORDS));
            text.push(' ');
        }
        7 | 8 => text.push_str(random.pick(WORDS)),
        9 | 10 => text.push_str(random.pick(MARKS)),
        11 => text.push_str(random.pick(CODE)),
        12 => text.push_str(random.pick(SYMBOLS)),
        13 => text.push_str(random.pick(SPELLED)),
        14 => (0..random.below(12)).for_each(|_| text.push(char::from(b'0' + random.below(10) as u8))),
        15 => {
            let run = random.pick(&[" ", "\n", "\t", "\r\n", "▁", "-", "=", "a", "\u{3000}", " \n"]);
            let most = if random.below(10) == 0 { 200 } else { 12 };
            text.push_str(&run.repeat(random.below(most)));
        }
        16 => (0..random.below(9)).for_each(|_| text.push(char::from(b' ' + random.below(95) as u8))),
        17 => (0..random.below(6)).for_each(|_| text.extend(char::from_u32(random.below(0x3000) as u32))),
        18 => (0..random.below(4)).for_each(|_| text.extend(char::from_u32(random.below(0x11_0000) as u32))),
        19 => (0..random.below(30))
            .for_each(|_| text.extend(char::from_u32(0x4e00 + random.below(0x5000) as u32))),
        20 => (0..random.below(10)).for_each(|_| text.push(char::from(b'a' + random.below(26) as u8))),
        21 => {
            (0..random.below(8)).for_each(|_| text.push_str(random.pick(&["a", "b", "ab", "ba", " a", "\n"])))
        }
        22 => text.push_str(&random.pick(WORDS).to_uppercase()),
        _ => text.push_str(random.pick(&["\n", "\n\n", " ", ". ", ", "])),
    }
}

/// A text of up to `most` ingredients.
pub fn random_text(random: &mut Random, most: usize) -> String {
    let mut text = String::new();
    for _ in 0..random.below(most + 1) {
        ingredient(random, &mut text);
    }
    text
}

/// A text of about `bytes` bytes with everything in it.
pub fn long_text(seed: u64, bytes: usize) -> String {
    let mut random = Random(seed);
    let mut text = String::with_capacity(bytes + 1024);
    while text.len() < bytes {
        ingredient(&mut random, &mut text);
    }
    text
}

/// Ids with many byte tokens, special tokens and added tokens among ordinary ones.
pub fn random_ids(random: &mut Random, tokenizer: &Tokenizer, most: usize) -> Vec<u32> {
    let special: Vec<u32> = tokenizer.special_ids().collect();
    let byte = |value: usize| tokenizer.token_id(&format!("<0x{value:02X}>")).expect("byte token");
    let mut ids = Vec::new();
    for _ in 0..random.below(most + 1) {
        match random.below(8) {
            0 => ids.push(byte(random.below(256))),
            1 => ids.extend("é€😀".as_bytes()[..random.below(10)].iter().map(|&value| byte(value.into()))),
            2 => ids.push(byte(0x80 + random.below(128))),
            3 => ids.push(special[random.below(special.len())]),
            _ => ids.push(random.below(tokenizer.vocab_size() as usize) as u32),
        }
    }
    ids
}
