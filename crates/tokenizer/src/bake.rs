//! Turns a `tokenizer.json` into the table of `table.rs`.
//!
//! Done once, by the converter. The same file gives the same bytes: nothing depends on the order of a hash map. Everything
//! that decoding or encoding would otherwise have to guess is decided here: which spellings are bytes, which character pairs
//! a merge can join, which merges can apply at all.
//!
//! Two kinds of merge are left out. One whose product is no token can never end in an id; leaving it in gives pieces without
//! an id and a word that falls to bytes. One whose product is a special token would let plain text spell that token; where
//! special tokens are wanted they are found before any merge runs. Ranks stay those of the file.
//!
//! Next: `table.rs`, the layout.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::BakeError;
use crate::json::{self, AddedToken, Merge};
use crate::table::{
    ADDED, BYTE, CHECKED_FROM, HEADER, MAGIC, NONE, NORMALISER_SPACES, PAGE_CHARS, PAGE_NUMBERS, SPECIAL,
    VERSION, join_bit, slot_of,
};

/// Bakes a Hugging Face `tokenizer.json` into one binary table for [`Tokenizer::load`](crate::Tokenizer::load).
///
/// # Errors
/// Anything in the file that this crate does not do exactly as the `tokenizers` library does is refused by name.
pub fn bake(tokenizer_json: &[u8]) -> Result<Vec<u8>, BakeError> {
    let source = json::read(tokenizer_json)?;
    let spellings = spellings(&source.vocab, &source.added)?;
    let tokens = u32::try_from(spellings.len()).ok().filter(|&tokens| tokens < NONE);
    let tokens = tokens.ok_or_else(|| inconsistent("more tokens than 32 bits can number"))?;

    let mut flags = vec![0u8; spellings.len()];
    for token in &source.added {
        flags[token.id as usize] |= if token.special { ADDED | SPECIAL } else { ADDED };
    }
    let byte_ids = byte_ids(&spellings, &mut flags)?;
    let merges = merges(&source.merges, &source.vocab, &flags)?;

    let by_spelling = |ids: &mut Vec<u32>| ids.sort_unstable_by_key(|&id| spellings[id as usize].as_bytes());
    let mut sorted: Vec<u32> = (0..tokens).collect();
    by_spelling(&mut sorted);
    let mut added: Vec<u32> = source.added.iter().map(|token| token.id).collect();
    by_spelling(&mut added);

    let (page_numbers, pages) = character_pages(&source.vocab, &flags);
    let (joins_log2, joins) = join_filter(&merges, &spellings);
    let slots = merge_slots(&merges);

    let strings: usize = spellings.iter().map(|spelling| spelling.len()).sum();
    let strings = u32::try_from(strings).map_err(|_| inconsistent("4 GiB of spellings"))?;

    let mut blob = Vec::new();
    blob.extend_from_slice(&MAGIC);
    words(&mut blob, [VERSION, 0, 0, 0, NORMALISER_SPACES, tokens, added.len() as u32]);
    words(&mut blob, [pages.len() as u32, joins_log2, slots.len() as u32, merges.len() as u32]);
    words(&mut blob, [strings, 0, 0]);
    debug_assert_eq!(blob.len(), HEADER);

    let mut offset = 0;
    words(&mut blob, [0]);
    for spelling in &spellings {
        offset += spelling.len() as u32;
        words(&mut blob, [offset]);
    }
    words(&mut blob, sorted);
    blob.extend_from_slice(&flags);
    words(&mut blob, byte_ids);
    words(&mut blob, added);
    blob.extend(page_numbers.iter().flat_map(|number| number.to_le_bytes()));
    words(&mut blob, pages.into_iter().flatten());
    blob.extend_from_slice(&joins);
    words(&mut blob, slots.into_iter().flatten());
    for spelling in &spellings {
        blob.extend_from_slice(spelling.as_bytes());
    }

    let length = blob.len() as u64;
    blob[16..24].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32fast::hash(&blob[CHECKED_FROM..]);
    blob[12..16].copy_from_slice(&checksum.to_le_bytes());
    Ok(blob)
}

fn words(blob: &mut Vec<u8>, values: impl IntoIterator<Item = u32>) {
    blob.extend(values.into_iter().flat_map(u32::to_le_bytes));
}

fn inconsistent(what: impl Into<String>) -> BakeError {
    BakeError::Inconsistent(what.into())
}

/// Spelling by id: the vocabulary, then the added tokens that are not in it. Ids leave no gap.
fn spellings<'s>(
    vocab: &'s HashMap<String, u32>,
    added: &'s [AddedToken],
) -> Result<Vec<&'s str>, BakeError> {
    let mut spellings = vec![None; vocab.len()];
    for (spelling, &id) in vocab {
        let place = spellings.get_mut(id as usize).ok_or_else(|| {
            let count = vocab.len();
            inconsistent(format!("token `{spelling}` has id {id}, but there are only {count} tokens"))
        })?;
        if let Some(other) = place.replace(spelling.as_str()) {
            return Err(inconsistent(format!("tokens `{other}` and `{spelling}` have the same id {id}")));
        }
    }
    // As many ids as places and none twice: every place is taken.
    let mut spellings: Vec<&str> = spellings.into_iter().flatten().collect();

    let mut seen = HashSet::new();
    let mut beyond: Vec<&AddedToken> = Vec::new();
    for token in added {
        if !seen.insert(token.content.as_str()) {
            return Err(inconsistent(format!("added token `{}` is listed twice", token.content)));
        }
        match vocab.get(&token.content) {
            None => beyond.push(token),
            Some(&id) if id == token.id => {}
            Some(id) => {
                let AddedToken { id: listed, content, .. } = token;
                return Err(inconsistent(format!("added token `{content}` has id {listed}, in vocab {id}")));
            }
        }
    }
    // The library numbers them in file order, whatever the file says; here the two have to agree.
    for token in beyond {
        if token.id as usize != spellings.len() {
            let (id, next) = (token.id, spellings.len());
            return Err(inconsistent(format!(
                "added token `{}` has id {id}, in the order of the file its id is {next}",
                token.content
            )));
        }
        spellings.push(&token.content);
    }
    Ok(spellings)
}

/// Finds the 256 byte tokens and marks them.
fn byte_ids(spellings: &[&str], flags: &mut [u8]) -> Result<[u32; 256], BakeError> {
    let mut ids = [NONE; 256];
    for (id, spelling) in spellings.iter().enumerate() {
        let Some(digits) = spelling.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>')) else {
            continue;
        };
        if digits.len() != 2 {
            continue;
        }
        // The decoder takes any spelling that parses for a byte, the encoder only writes upper case.
        let Ok(byte) = u8::from_str_radix(digits, 16) else { continue };
        if format!("{byte:02X}") != digits {
            return Err(BakeError::Unsupported(format!("`{spelling}` as a second spelling of a byte token")));
        }
        ids[usize::from(byte)] = id as u32;
        flags[id] |= BYTE;
    }
    match ids.iter().position(|&id| id == NONE) {
        Some(byte) => Err(BakeError::Unsupported(format!("byte_fallback without the token <0x{byte:02X}>"))),
        None => Ok(ids),
    }
}

/// A merge that can apply: `[left, right, rank, product]`.
type Rule = [u32; 4];

fn merges(merges: &[Merge], vocab: &HashMap<String, u32>, flags: &[u8]) -> Result<Vec<Rule>, BakeError> {
    let mut rules = HashMap::with_capacity(merges.len());
    let mut product = String::new();
    for (rank, Merge(left, right)) in merges.iter().enumerate() {
        let rank = u32::try_from(rank).map_err(|_| inconsistent("more merges than 32 bits can number"))?;
        let id = |part: &String| {
            let unknown = || format!("merge {rank} (`{left}`, `{right}`): `{part}` is not in the vocabulary");
            vocab.get(part).copied().ok_or_else(|| inconsistent(unknown()))
        };
        let (left_id, right_id) = (id(left)?, id(right)?);
        if left.is_empty() || right.is_empty() {
            return Err(inconsistent(format!("merge {rank} (`{left}`, `{right}`) has an empty part")));
        }
        product.clear();
        product.push_str(left);
        product.push_str(right);
        let Some(&product_id) = vocab.get(&product) else { continue };
        if [left_id, right_id, product_id].iter().any(|&id| flags[id as usize] & BYTE != 0) {
            return Err(BakeError::Unsupported(format!(
                "merge {rank} (`{left}`, `{right}`) of a byte token"
            )));
        }
        if flags[product_id as usize] & SPECIAL != 0 {
            continue;
        }
        // A pair listed twice has the later rank, as in a map that is filled in file order.
        rules.insert((left_id, right_id), (rank, product_id));
    }
    let mut rules: Vec<Rule> = rules.into_iter().map(|((l, r), (rank, p))| [l, r, rank, p]).collect();
    rules.sort_unstable_by_key(|rule| rule[2]);
    Ok(rules)
}

/// Ids of the one-character tokens, in pages of `PAGE_CHARS` code points.
///
/// Only the model's own vocabulary counts; an added token outside it is matched as a whole. A special token of one
/// character is left out for the same reason as the merge that makes a special token.
fn character_pages(vocab: &HashMap<String, u32>, flags: &[u8]) -> (Vec<u16>, Vec<[u32; PAGE_CHARS]>) {
    let mut characters: Vec<(usize, u32)> = Vec::new();
    for (spelling, &id) in vocab {
        let mut rest = spelling.chars();
        if let (Some(character), None) = (rest.next(), rest.next())
            && flags[id as usize] & SPECIAL == 0
        {
            characters.push((character as usize, id));
        }
    }
    characters.sort_unstable();
    let mut numbers = vec![0u16; PAGE_NUMBERS];
    let mut pages: Vec<[u32; PAGE_CHARS]> = Vec::new();
    for (point, id) in characters {
        let number = &mut numbers[point / PAGE_CHARS];
        if *number == 0 {
            pages.push([NONE; PAGE_CHARS]);
            // At most PAGE_NUMBERS pages, which is below 2^16.
            *number = pages.len() as u16;
        }
        pages[usize::from(*number) - 1][point % PAGE_CHARS] = id;
    }
    (numbers, pages)
}

/// The bit set of character pairs that some merge joins, with about eight bits a pair.
fn join_filter(rules: &[Rule], spellings: &[&str]) -> (u32, Vec<u8>) {
    let mut pairs = BTreeSet::new();
    for &[left, right, ..] in rules {
        let left = spellings[left as usize].chars().next_back();
        let right = spellings[right as usize].chars().next();
        pairs.extend(left.zip(right));
    }
    let log2 = (8 * pairs.len().max(8)).next_power_of_two().ilog2();
    let mut bits = vec![0u8; (1 << log2) / 8];
    for (left, right) in pairs {
        let bit = join_bit(left, right, log2);
        bits[bit / 8] |= 1 << (bit % 8);
    }
    (log2, bits)
}

/// The open-addressing table, five eighths full: 3 to 4 neighbouring slots are read to find that a pair is not there.
fn merge_slots(rules: &[Rule]) -> Vec<Rule> {
    let slots = rules.len() * 8 / 5 + 1;
    let mut table = vec![[NONE; 4]; slots];
    for &rule in rules {
        let mut at = slot_of(rule[0], rule[1], slots);
        while table[at][0] != NONE {
            at = (at + 1) % slots;
        }
        table[at] = rule;
    }
    table
}
