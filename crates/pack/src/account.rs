//! What a decoded token reads, by class: the number that bounds the speed of decoding.

use std::collections::BTreeMap;

use rawloop_spec::Class;
use serde::Serialize;

use crate::manifest::Manifest;

/// The tensors of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassAccount {
    /// Tensors.
    pub tensors: usize,
    /// Bytes in the file.
    pub stored_bytes: u64,
    /// Bytes a decoded token reads.
    pub token_bytes: u64,
}

/// The account of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BytesPerToken {
    /// By class, in the order of [`Class`].
    pub classes: BTreeMap<Class, ClassAccount>,
    /// Bytes of all tensors.
    pub stored_bytes: u64,
    /// Bytes a decoded token reads.
    pub token_bytes: u64,
    /// Weight codes alone, with the per-layer model projection counted at 8 bits as the published mobile runtime stores
    /// it: 776.6 MB for E2B. The figure to compare with other runtimes of the same mix.
    pub quantised_words: u64,
    /// Bytes one draft reads; 0 without a drafter.
    pub draft_bytes: u64,
}

/// Adds up a manifest.
pub fn account(manifest: &Manifest) -> BytesPerToken {
    let mut classes = BTreeMap::<Class, ClassAccount>::new();
    for entry in &manifest.tensors {
        let line = classes.entry(entry.class).or_default();
        line.tensors += 1;
        line.stored_bytes += entry.bytes;
        line.token_bytes += entry.spec().bytes_per_token() as u64;
    }
    let token = |class| classes.get(&class).map_or(0, |line: &ClassAccount| line.token_bytes);
    let words = [Class::Attention, Class::Ffn, Class::Ple, Class::Head].map(token).iter().sum::<u64>()
        + token(Class::PleModelProjection) / 2;
    BytesPerToken {
        stored_bytes: classes.values().map(|line| line.stored_bytes).sum(),
        token_bytes: classes.values().map(|line| line.token_bytes).sum(),
        quantised_words: words,
        draft_bytes: draft_bytes(manifest),
        classes,
    }
}

/// All of the drafter but its token table, of which a clustered head reads the rows of the chosen clusters.
fn draft_bytes(manifest: &Manifest) -> u64 {
    let Some(drafter) = &manifest.drafter else { return 0 };
    let scored = |bytes: u64| match drafter.ordered {
        // Whole rows in whole clusters: the vocabulary is a multiple of the clusters.
        Some(head) => bytes / head.centroids as u64 * head.top_k as u64,
        None => bytes,
    };
    let entries = manifest.tensors.iter().filter(|entry| entry.class == Class::Drafter);
    entries
        .map(|entry| match entry.name.as_str() {
            "drafter.embed" | "drafter.token_ordering" => scored(entry.bytes),
            _ => entry.bytes,
        })
        .sum()
}
