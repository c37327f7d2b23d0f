//! A plain read of everything a decoded token reads, over the same team: the speed limit that decode is measured against.

use std::hint::black_box;

use crate::executor::Executor;

/// Bytes that a thread reads at a time.
const CHUNK_BYTES: usize = 128 * 1024;

impl Executor {
    /// Reads the weights of one token in the order in which the full program reads them; returns the bytes.
    pub(crate) fn read_weights(&mut self) -> u64 {
        let Executor { weights, kernels, crew, .. } = self;
        let mapping = weights.mapping();
        let mut bytes = 0;
        let mut read = |part: &[u8]| {
            bytes += part.len() as u64;
            crew.run(&part.len().div_ceil(CHUNK_BYTES), |_, chunk, ()| {
                let end = ((chunk + 1) * CHUNK_BYTES).min(part.len());
                black_box(kernels.read(&part[chunk * CHUNK_BYTES..end]));
            });
        };
        read(bytemuck::cast_slice(mapping.halves(weights.model_projection)));
        for layer in &weights.layers {
            let own = layer.kv.iter().flat_map(|kv| [&kv.k, &kv.v]);
            let rest =
                [&layer.o, &layer.gate, &layer.up, &layer.down, &layer.ple_gate, &layer.ple_projection];
            for linear in std::iter::once(&layer.q).chain(own).chain(rest) {
                read(mapping.bytes(&linear.matrix));
            }
        }
        read(mapping.bytes(&weights.head));
        bytes
    }
}
