//! The baked table: its bytes, and how they are checked and read.
//!
//! Parsing Gemma's 33 MB `tokenizer.json` takes a second or two, longer than loading the model. The table holds the same
//! facts laid out for use, so that loading is a checksum and a few linear checks over mapped memory and allocates nothing.
//!
//! All numbers are little endian; nothing needs alignment. Sections follow each other without gaps, in this order:
//!
//! | section | bytes | content |
//! | --- | --- | --- |
//! | header | 64 | below |
//! | offsets | 4 x (tokens + 1) | u32: where token i's spelling begins in `strings`; the last is its length |
//! | sorted | 4 x tokens | u32: all ids, ascending by the bytes of their spelling |
//! | flags | tokens | u8: 1 byte token `<0xNN>`, 2 added token, 4 special token (an added token too) |
//! | bytes | 1024 | u32: the id of the byte token of each byte value |
//! | added | 4 x added | u32: ids of the added tokens, ascending by spelling |
//! | page numbers | 2 x 8704 | u16: for each 128 code points, 0 or the page's number counted from 1 |
//! | pages | 512 x pages | 128 u32 each: the id of the one-character token, or `ffff_ffff` |
//! | joins | 2^joins / 8 | bit set of character pairs, least significant bit first, see [`Table::joins`] |
//! | merges | 16 x slots | u32 left, right, rank, product; an empty slot has left `ffff_ffff` |
//! | strings | strings | UTF-8: the spellings as in the file, one after the other |
//!
//! Header: 0 magic `RLTOKEN\n`; 8 u32 version (1); 12 u32 CRC-32 (IEEE) of everything from byte 16 on; 16 u64 length of
//! the table; 24 u32 normaliser (1: every space becomes U+2581); 28 u32 tokens; 32 u32 added; 36 u32 pages; 40 u32 joins
//! (log2 of the number of bits); 44 u32 slots; 48 u32 merges in the slots; 52 u32 strings; 56 u64 zero.
//!
//! A merge is looked up by open addressing: slot `(hash(left, right) >> 32) * slots >> 32`, then the next one, round at
//! the end, until the pair or an empty slot. `hash(a, b)` is `(a * 2^32 + b) * 9e37_79b9_7f4a_7c15` modulo 2^64.
//!
//! Invariants after `Table::load`: every id in a section is below `tokens`, every spelling is UTF-8, the merge table has an
//! empty slot. So nothing below panics, whatever the bytes were.
//!
//! Next: `bake.rs` writes it, `encode.rs` and `decode.rs` use it.

use std::ops::Range;

use bytes::Bytes;

use crate::LoadError;

pub(crate) const MAGIC: [u8; 8] = *b"RLTOKEN\n";
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER: usize = 64;
/// The checksum covers everything behind itself.
pub(crate) const CHECKED_FROM: usize = 16;
pub(crate) const NORMALISER_SPACES: u32 = 1;
/// No id, no slot.
pub(crate) const NONE: u32 = u32::MAX;
pub(crate) const PAGE_CHARS: usize = 128;
pub(crate) const PAGE_NUMBERS: usize = 0x11_0000 / PAGE_CHARS;

pub(crate) const BYTE: u8 = 1;
pub(crate) const ADDED: u8 = 2;
pub(crate) const SPECIAL: u8 = 4;

/// Fibonacci hashing: one multiplication, and the upper bits are well mixed.
#[inline]
pub(crate) fn hash(a: u32, b: u32) -> u64 {
    (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// First slot to try for a pair among `slots`.
#[inline]
pub(crate) fn slot_of(left: u32, right: u32, slots: usize) -> usize {
    (((hash(left, right) >> 32) * slots as u64) >> 32) as usize
}

/// Bit of a character pair among `2^log2`.
#[inline]
pub(crate) fn join_bit(left: char, right: char, log2: u32) -> usize {
    (hash(left as u32, right as u32) >> (64 - log2)) as usize
}

/// Element counts of the sections, as the header has them.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub tokens: u32,
    pub added: u32,
    pub pages: u32,
    pub joins_log2: u32,
    pub slots: u32,
    pub merges: u32,
    pub strings: u32,
}

/// A checked table over bytes that someone else owns.
#[derive(Clone)]
pub(crate) struct Table {
    blob: Bytes,
    counts: Counts,
    offsets: Range<usize>,
    sorted: Range<usize>,
    flags: Range<usize>,
    bytes: Range<usize>,
    added: Range<usize>,
    page_numbers: Range<usize>,
    pages: Range<usize>,
    joins: Range<usize>,
    merges: Range<usize>,
    strings: Range<usize>,
}

impl Table {
    /// Checks the bytes against the description above. Allocates nothing.
    pub fn load(blob: Bytes) -> Result<Table, LoadError> {
        let found = blob.len() as u64;
        if found < HEADER as u64 {
            return Err(LoadError::Truncated { expected: HEADER as u64, found });
        }
        let (words, _) = blob[..HEADER].as_chunks::<4>();
        let word = |index: usize| u32::from_le_bytes(words[index]);
        let magic = std::array::from_fn(|i| blob[i]);
        if magic != MAGIC {
            return Err(LoadError::Magic { found: magic });
        }
        if word(2) != VERSION {
            return Err(LoadError::Version { expected: VERSION, found: word(2) });
        }
        let length = u64::from(word(4)) | u64::from(word(5)) << 32;
        if length != found {
            return Err(LoadError::Length { expected: length, found });
        }
        let checksum = crc32fast::hash(&blob[CHECKED_FROM..]);
        if checksum != word(3) {
            return Err(LoadError::Checksum { expected: word(3), found: checksum });
        }
        if word(6) != NORMALISER_SPACES || word(14) != 0 || word(15) != 0 {
            return Err(invalid("header", "an unknown normaliser, or a reserved field is not zero"));
        }
        let counts = Counts {
            tokens: word(7),
            added: word(8),
            pages: word(9),
            joins_log2: word(10),
            slots: word(11),
            merges: word(12),
            strings: word(13),
        };
        let table = Table::lay_out(blob, counts)?;
        table.check()?;
        Ok(table)
    }

    /// Turns counts into ranges; they must fill the blob exactly.
    fn lay_out(blob: Bytes, counts: Counts) -> Result<Table, LoadError> {
        if !(6..=32).contains(&counts.joins_log2) {
            return Err(invalid("header", "the join filter has an impossible size"));
        }
        let tokens = u64::from(counts.tokens);
        let sizes = [
            4 * (tokens + 1),
            4 * tokens,
            tokens,
            4 * 256,
            4 * u64::from(counts.added),
            2 * PAGE_NUMBERS as u64,
            4 * PAGE_CHARS as u64 * u64::from(counts.pages),
            (1 << counts.joins_log2) / 8,
            16 * u64::from(counts.slots),
            u64::from(counts.strings),
        ];
        // At most 2^36 bytes a section, so that the sum cannot overflow.
        let expected = HEADER as u64 + sizes.iter().sum::<u64>();
        if expected != blob.len() as u64 {
            return Err(LoadError::Length { expected, found: blob.len() as u64 });
        }
        let mut end = HEADER;
        let ranges = sizes.map(|size| {
            let start = end;
            end += size as usize;
            start..end
        });
        let [offsets, sorted, flags, bytes, added, page_numbers, pages, joins, merges, strings] = ranges;
        Ok(Table {
            blob,
            counts,
            offsets,
            sorted,
            flags,
            bytes,
            added,
            page_numbers,
            pages,
            joins,
            merges,
            strings,
        })
    }

    /// The rules that the readers below rely on.
    fn check(&self) -> Result<(), LoadError> {
        let tokens = self.counts.tokens;
        let text = std::str::from_utf8(&self.blob[self.strings.clone()])
            .map_err(|_| invalid("strings", "not UTF-8"))?;
        let offsets = self.words(&self.offsets);
        let mut last = 0;
        for offset in offsets {
            let offset = u32::from_le_bytes(*offset) as usize;
            if offset < last || !text.is_char_boundary(offset) {
                return Err(invalid("offsets", "not ascending, or inside a character, or past the strings"));
            }
            last = offset;
        }
        if offsets[0] != [0; 4] || last != text.len() {
            return Err(invalid("offsets", "the spellings do not fill the strings"));
        }
        let known = |words: &[[u8; 4]]| words.iter().all(|word| u32::from_le_bytes(*word) < tokens);
        if !known(self.words(&self.sorted)) {
            return Err(invalid("sorted", "an id outside the vocabulary"));
        }
        if !known(self.words(&self.bytes)) {
            return Err(invalid("bytes", "an id outside the vocabulary"));
        }
        if !known(self.words(&self.added)) || self.added_ids().any(|id| self.spelling(id).is_empty()) {
            return Err(invalid("added", "an id outside the vocabulary, or an empty spelling"));
        }
        let (numbers, _) = self.blob[self.page_numbers.clone()].as_chunks::<2>();
        if numbers.iter().any(|number| u32::from(u16::from_le_bytes(*number)) > self.counts.pages) {
            return Err(invalid("page numbers", "a page that is not there"));
        }
        let mut ids = self.words(&self.pages).iter().map(|word| u32::from_le_bytes(*word));
        if !ids.all(|id| id < tokens || id == NONE) {
            return Err(invalid("pages", "an id outside the vocabulary"));
        }
        let mut full = 0u32;
        let mut all_known = true;
        for slot in self.slots() {
            let [left, _, _, product] = slot_words(slot);
            let used = left != NONE;
            full += u32::from(used);
            all_known &= !used | (product < tokens);
        }
        if !all_known {
            return Err(invalid("merges", "a product outside the vocabulary"));
        }
        if full != self.counts.merges || full >= self.counts.slots {
            return Err(invalid("merges", "not as many as the header says, or no slot is empty"));
        }
        Ok(())
    }

    fn words(&self, range: &Range<usize>) -> &[[u8; 4]] {
        self.blob[range.clone()].as_chunks().0
    }

    fn slots(&self) -> &[[u8; 16]] {
        self.blob[self.merges.clone()].as_chunks().0
    }

    pub fn tokens(&self) -> u32 {
        self.counts.tokens
    }

    pub fn flags(&self, id: u32) -> u8 {
        self.blob[self.flags.clone()].get(id as usize).copied().unwrap_or(0)
    }

    /// The token as `tokenizer.json` spells it; empty for an unknown id.
    pub fn spelling(&self, id: u32) -> &[u8] {
        let offsets = self.words(&self.offsets);
        match (offsets.get(id as usize), offsets.get(id as usize + 1)) {
            (Some(start), Some(end)) => {
                let [start, end] = [start, end].map(|word| u32::from_le_bytes(*word) as usize);
                &self.blob[self.strings.clone()][start..end]
            }
            _ => &[],
        }
    }

    /// The id with that spelling.
    pub fn find(&self, spelling: &[u8]) -> Option<u32> {
        let sorted = self.words(&self.sorted);
        let at =
            sorted.binary_search_by(|word| self.spelling(u32::from_le_bytes(*word)).cmp(spelling)).ok()?;
        Some(u32::from_le_bytes(sorted[at]))
    }

    /// Ids of the added tokens, ascending by spelling.
    pub fn added_ids(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.words(&self.added).iter().map(|word| u32::from_le_bytes(*word))
    }

    /// The added token at a place of that order.
    pub fn added_id(&self, place: usize) -> Option<u32> {
        self.words(&self.added).get(place).map(|word| u32::from_le_bytes(*word))
    }

    /// Id of the byte token `<0xNN>`.
    pub fn byte_id(&self, byte: u8) -> u32 {
        u32::from_le_bytes(self.words(&self.bytes)[usize::from(byte)])
    }

    /// Id of the token that is this one character, or `NONE`.
    pub fn char_id(&self, character: char) -> u32 {
        let point = character as usize;
        let (numbers, _) = self.blob[self.page_numbers.clone()].as_chunks::<2>();
        let number = usize::from(u16::from_le_bytes(numbers[point / PAGE_CHARS]));
        match number.checked_sub(1) {
            Some(page) => u32::from_le_bytes(self.words(&self.pages)[page * PAGE_CHARS + point % PAGE_CHARS]),
            None => NONE,
        }
    }

    /// The part that encoding a piece of text needs, with every range resolved once.
    pub fn rules(&self) -> Rules<'_> {
        let joins = &self.blob[self.joins.clone()];
        Rules { slots: self.slots(), joins, joins_log2: self.counts.joins_log2 }
    }
}

/// Merge rules of a table.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'t> {
    slots: &'t [[u8; 16]],
    joins: &'t [u8],
    joins_log2: u32,
}

impl Rules<'_> {
    /// Rank and product of a pair.
    #[inline]
    pub fn merge(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let mut at = slot_of(left, right, self.slots.len());
        loop {
            let [l, r, rank, product] = slot_words(&self.slots[at]);
            if l == left && r == right {
                return Some((rank, product));
            }
            if l == NONE {
                return None;
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    /// Whether some merge can join text that ends in `left` with text that begins with `right`.
    ///
    /// The bit set holds, for every merge, the last character of its left part and the first of its right part. No merge
    /// crosses a boundary whose pair is missing, so the text may be cut there and the parts encoded one by one: exact,
    /// and words instead of documents go through the merge loop. A hash collision only leaves two parts in one piece.
    #[inline]
    pub fn joins(&self, left: char, right: char) -> bool {
        let bit = join_bit(left, right, self.joins_log2);
        self.joins[bit / 8] >> (bit % 8) & 1 == 1
    }
}

#[inline]
fn slot_words(slot: &[u8; 16]) -> [u32; 4] {
    let (words, _) = slot.as_chunks::<4>();
    [words[0], words[1], words[2], words[3]].map(u32::from_le_bytes)
}

fn invalid(section: &'static str, problem: &'static str) -> LoadError {
    LoadError::Invalid { section, problem }
}
