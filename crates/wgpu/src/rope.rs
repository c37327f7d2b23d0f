//! Rope rows on the device (contract rule 7): cosines and sines of every position, made on the host in the order in which they are needed.
//!
//! One table for sliding and one for full layers. Rows are the contract's bits; kernels only read them.

use rawloop_spec::contract::rope_row;
use wgpu::Buffer;

use crate::gpu::Gpu;

/// Rows made at once.
const STEP: usize = 64;

/// Both tables.
pub(crate) struct RopeTables {
    tables: [(Vec<f32>, Buffer); 2],
    made: usize,
    context: usize,
    row: Vec<f32>,
}

impl RopeTables {
    /// Empty tables for `context` positions.
    pub fn new(gpu: &Gpu, frequencies: [Vec<f32>; 2], context: usize) -> RopeTables {
        let tables = frequencies.map(|set| {
            let buffer = gpu.storage(8 * set.len() * context);
            (set, buffer)
        });
        RopeTables { tables, made: 0, context, row: Vec::new() }
    }

    /// The table of sliding (0) or full (1) layers.
    pub fn buffer(&self, set: usize) -> &Buffer {
        &self.tables[set].1
    }

    /// Pairs that turn.
    pub fn pairs(&self, set: usize) -> usize {
        self.tables[set].0.len()
    }

    /// Makes the rows of all positions below `end`.
    pub fn reach(&mut self, gpu: &Gpu, end: usize) {
        let end = end.min(self.context);
        if end <= self.made {
            return;
        }
        let end = end.next_multiple_of(STEP).min(self.context);
        for (set, buffer) in &self.tables {
            let pairs = set.len();
            if pairs == 0 {
                continue;
            }
            self.row.clear();
            self.row.resize((end - self.made) * 2 * pairs, 0.0);
            for (index, row) in self.row.chunks_exact_mut(2 * pairs).enumerate() {
                let (cosine, sine) = row.split_at_mut(pairs);
                rope_row(self.made + index, set, cosine, sine);
            }
            gpu.write(buffer, self.made * 8 * pairs, bytemuck::cast_slice(&self.row));
        }
        self.made = end;
    }
}
