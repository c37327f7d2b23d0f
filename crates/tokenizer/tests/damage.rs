//! Damaged tables: cut short, bits turned over, lying counts. Each is a typed error; none is a panic or a large allocation.

mod support;

use rawloop_tokenizer::{LoadError, SpecialText, SpecialTokens, Tokenizer, bake};
use support::{Random, tiny_json};

fn table() -> Vec<u8> {
    bake(&tiny_json()).unwrap()
}

/// Makes the length and the checksum fit again, so that only the checks behind them can object.
fn repair(table: &mut [u8]) {
    let length = (table.len() as u64).to_le_bytes();
    table[16..24].copy_from_slice(&length);
    let checksum = crc32fast::hash(&table[16..]).to_le_bytes();
    table[12..16].copy_from_slice(&checksum);
}

#[test]
fn a_table_cut_short_anywhere_is_refused() {
    let table = table();
    for length in (0..600).chain((600..table.len()).step_by(997)).chain([table.len() - 1]) {
        match Tokenizer::load(table[..length].to_vec()).unwrap_err() {
            LoadError::Truncated { found, .. } => assert!(length < 64 && found == length as u64),
            LoadError::Length { expected, found } => {
                assert_eq!((expected, found), (table.len() as u64, length as u64));
            }
            other => panic!("{length}: {other}"),
        }
    }
}

#[test]
fn bytes_behind_the_end_are_refused() {
    let mut table = table();
    table.push(0);
    assert!(matches!(Tokenizer::load(table), Err(LoadError::Length { .. })));
}

#[test]
fn every_turned_bit_is_noticed() {
    let table = table();
    let mut random = Random(1);
    let header = (0..64 * 8).map(|bit| (bit / 8, bit % 8));
    let rest: Vec<_> = (0..600).map(|_| (random.below(table.len()), random.below(8))).collect();
    for (byte, bit) in header.chain(rest) {
        let mut damaged = table.clone();
        damaged[byte] ^= 1 << bit;
        assert!(Tokenizer::load(damaged).is_err(), "bit {bit} of byte {byte}");
    }
}

#[test]
fn foreign_files_and_versions_are_named() {
    assert!(matches!(Tokenizer::load(tiny_json()), Err(LoadError::Magic { .. })));
    let mut table = table();
    table[8] = 9;
    let error = Tokenizer::load(table).unwrap_err();
    assert_eq!(error, LoadError::Version { expected: 1, found: 9 });
    assert_eq!(
        error.to_string(),
        "tokenizer table: version 9, this build reads 1; bake it again from tokenizer.json"
    );
}

/// The checksum is no signature: with one that fits, a lying table is refused or works, and never panics.
#[test]
fn a_lying_table_with_a_good_checksum_does_not_panic() {
    let table = table();
    let mut random = Random(2);
    let mut loaded = 0;
    for round in 0..3_000 {
        let mut damaged = table.clone();
        // The counts, then anywhere.
        let from = if round % 3 == 0 { 24 } else { 64 };
        let to = if round % 3 == 0 { 64 } else { table.len() };
        for _ in 0..=random.below(3) {
            let at = from + random.below(to - from);
            damaged[at] = random.next() as u8;
        }
        repair(&mut damaged);
        let Ok(tokenizer) = Tokenizer::load(damaged) else { continue };
        loaded += 1;
        let ids =
            tokenizer.encode("<bos><|turn>user\nWhat is 84 + 38? Ça va, 日本? \n\n", SpecialTokens::Parse);
        tokenizer.decode(&ids, SpecialText::Keep).unwrap();
    }
    assert!(loaded > 100, "only {loaded} tables got past the checks; the test does not reach the readers");
}

/// Counts that ask for gigabytes are compared with the file's length before anything is made of them.
#[test]
fn absurd_counts_are_refused_before_anything_is_allocated() {
    for field in [28, 32, 36, 40, 44, 52] {
        let mut damaged = table();
        damaged[field..field + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        repair(&mut damaged);
        let error = Tokenizer::load(damaged).unwrap_err();
        assert!(matches!(error, LoadError::Length { .. } | LoadError::Invalid { .. }), "{error}");
    }
}

#[test]
fn a_full_merge_table_is_refused() {
    let mut table = table();
    let slots = u32::from_le_bytes(table[44..48].try_into().unwrap());
    let strings = u32::from_le_bytes(table[52..56].try_into().unwrap()) as usize;
    let end = table.len() - strings;
    for slot in table[end - 16 * slots as usize..end].chunks_exact_mut(16) {
        slot.fill(0);
    }
    table[48..52].copy_from_slice(&slots.to_le_bytes());
    repair(&mut table);
    let error = Tokenizer::load(table).unwrap_err();
    assert!(matches!(error, LoadError::Invalid { section: "merges", .. }), "{error}");
}
