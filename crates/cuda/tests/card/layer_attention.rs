//! A layer's attention as one kernel of clusters gives the reference's bits: every format, clusters of each size, windows whose first and last block of keys
//! lie in one buffer, contexts short, behind a window, and behind what full layers take that way.

use rawloop_cuda::{CudaBackend, CudaOptions, KvFormat, Trial};

use crate::models::{
    CONTEXT, Fixture, NARROW_E2B, TINY, TINY_E4B, WIDE_HEADS, WIDE_WINDOW, assert_same_kv, assert_token_ways,
    card, run_and_step,
};

/// A run of `count` tokens behind `before` and a step behind it, in clusters of each of the sizes; an FFN is one kernel by turns.
pub fn same_in_clusters(fixture: &Fixture, kv: KvFormat, sizes: &[usize], before: usize, count: usize) {
    let mut reference = fixture.reference(kv);
    let prompt = fixture.tokens(before, 23);
    let (truth, expected, expected_after) = run_and_step(&mut reference, &prompt, count);
    for (turn, &size) in sizes.iter().enumerate() {
        let trial = Trial { cluster: Some(size), ffn_apart: turn.is_multiple_of(2), ..Trial::default() };
        let options = CudaOptions { kv, context: CONTEXT, trial: trial.clone(), ..CudaOptions::default() };
        let mut backend = CudaBackend::open(&fixture.pack, &options).unwrap();
        assert_token_ways(fixture, &mut backend, &trial, before + count);
        let (sequence, ids, after) = run_and_step(&mut backend, &prompt, count);
        assert_eq!((ids, after), (expected.clone(), expected_after.clone()), "clusters of {size}");
        assert_same_kv(fixture, (&backend, sequence), (&reference, truth), "clusters");
    }
}

#[test]
fn short_clusters() {
    let Some(_turn) = card() else { return };
    // A window of 128 keys in clusters of 2: three blocks of keys, of which the first and the last are one block's.
    same_in_clusters(&TINY, KvFormat::F16, &[2], 191, 4);
    same_in_clusters(&TINY_E4B, KvFormat::I8, &[8], 70, 3);
    // A sequence's first position is one column of its own.
    same_in_clusters(&TINY_E4B, KvFormat::F16, &[8], 1, 2);
}

/// Heads of 256 and 512 values, and a window of 512 keys in clusters of 8: nine blocks of keys.
#[test]
fn clusters_of_wide_heads_are_the_reference() {
    let Some(_turn) = card() else { return };
    for kv in [KvFormat::F16, KvFormat::I8] {
        same_in_clusters(&WIDE_HEADS, kv, &[8], 20, 2);
    }
    // Nine blocks of keys, then eight, then nine again; a full layer takes eight.
    same_in_clusters(&WIDE_WINDOW, KvFormat::F16, &[8], 500, 12);
    same_in_clusters(&WIDE_WINDOW, KvFormat::F16, &[8], 571, 8);
}

/// Streams as wide as E2B's and E4B's: keys and values come where weights were, and an entry is not short.
#[test]
fn clusters_of_wide_streams_are_the_reference() {
    let Some(_turn) = card() else { return };
    for (hidden, kv) in
        [(768, KvFormat::F16), (1536, KvFormat::F16), (1536, KvFormat::F32), (2560, KvFormat::F16)]
    {
        let fixture = Fixture::wide_heads("hidden_size", 128, hidden);
        same_in_clusters(&fixture, kv, &[8], 70, 3);
        same_in_clusters(&fixture, kv, &[8], 71, 2);
    }
}

#[test]
fn clusters_are_the_reference() {
    let Some(_turn) = card() else { return };
    for kv in [KvFormat::F16, KvFormat::F32, KvFormat::I8] {
        same_in_clusters(&TINY, kv, &[2, 4, 8], 3, 6);
        same_in_clusters(&TINY, kv, &[2, 4, 8], 126, 8);
        same_in_clusters(&TINY_E4B, kv, &[2, 8], 60, 8);
        same_in_clusters(&NARROW_E2B, kv, &[2, 8], 60, 8);
    }
    // Over the end of a window, block by block of its ring, and over the reach of full layers.
    same_in_clusters(&TINY, KvFormat::F16, &[2, 8], 180, 90);
    same_in_clusters(&TINY, KvFormat::F16, &[8], 505, 12);
}
