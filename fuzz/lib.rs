//! What the targets share: the small pack of the pack crate's tests and what must hold of any pack that opens.

use std::sync::LazyLock;

use rawloop_pack::{Pack, account, compare};

#[path = "../crates/pack/tests/common/mod.rs"]
pub mod small;

/// The small pack's bytes.
pub static SMALL: LazyLock<Vec<u8>> = LazyLock::new(small::bytes);

/// The small pack, opened.
static REFERENCE: LazyLock<Pack> = LazyLock::new(|| Pack::from_vec(SMALL.clone(), "reference").unwrap());

/// Opens bytes and, where that succeeds, goes through everything a pack offers.
pub fn open_and_use(bytes: Vec<u8>) {
    let length = bytes.len() as u64;
    let Ok(pack) = Pack::from_vec(bytes, "input.rlp") else { return };
    small::exercise(&pack);
    assert_eq!(pack.bytes().len() as u64, length);
    assert!(pack.content_bytes() < length);
    let report = account(pack.manifest());
    assert!(report.token_bytes <= length && report.draft_bytes <= length);
    assert!(compare(&pack, &pack).manifest.is_empty());
    // Never wrong to compare with another shape; what it finds is not the question here.
    let _ = compare(&REFERENCE, &pack).equal();
    let _ = pack.verify(|done| assert!(done <= length));
}
