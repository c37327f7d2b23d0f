//! Rope rows on the card (contract rule 7): cosines and sines of every position, made on the host in the order in which they are needed.
//!
//! A row has the target's sliding and full frequencies, then the drafter's. Rows are the contract's bits; the card only reads them.

use std::sync::Arc;

use rawloop_spec::contract::rope_row;

use crate::driver::Device;
use crate::memory::DeviceBytes;
use crate::options::DriverError;

/// Rows made at once.
const STEP: usize = 64;

/// Floats of a set of some frequencies: cosines, sines, and what is left up to 16 bytes, so that every set of every row may be read four values at a time.
fn floats(frequencies: &[f32]) -> usize {
    (2 * frequencies.len()).next_multiple_of(4)
}

/// The table.
pub(crate) struct RopeTable {
    frequencies: Vec<Vec<f32>>,
    memory: DeviceBytes,
    /// Floats of a row.
    stride: usize,
    made: usize,
    context: usize,
}

impl RopeTable {
    /// An empty table for `context` positions and one past them.
    pub fn new(
        device: &Arc<Device>,
        frequencies: Vec<Vec<f32>>,
        context: usize,
    ) -> Result<RopeTable, DriverError> {
        let stride = frequencies.iter().map(|f| floats(f)).sum::<usize>().max(1);
        let memory = DeviceBytes::zeroed(device, (context + 1) * stride * 4)?;
        Ok(RopeTable { frequencies, memory, stride, made: 0, context: context + 1 })
    }

    /// Address of position 0 of one set of frequencies.
    pub fn address(&self, set: usize) -> u64 {
        let before: usize = self.frequencies[..set].iter().map(|f| floats(f)).sum();
        self.memory.address() + 4 * before as u64
    }

    /// Pairs of one set.
    pub fn pairs(&self, set: usize) -> usize {
        self.frequencies[set].len()
    }

    /// Floats from a position to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Makes the rows of all positions below `end`.
    pub fn reach(&mut self, end: usize) -> Result<(), DriverError> {
        let end = end.min(self.context);
        if end <= self.made {
            return Ok(());
        }
        let end = end.next_multiple_of(STEP).min(self.context);
        let mut rows = vec![0f32; (end - self.made) * self.stride];
        for (index, row) in rows.chunks_exact_mut(self.stride).enumerate() {
            let mut rest = row;
            for frequencies in &self.frequencies {
                let (set, behind) = rest.split_at_mut(floats(frequencies));
                let (cosine, sine) = set.split_at_mut(frequencies.len());
                rope_row(self.made + index, frequencies, cosine, &mut sine[..frequencies.len()]);
                rest = behind;
            }
        }
        self.memory.write(self.made * self.stride * 4, &rows)?;
        self.made = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::floats;

    #[test]
    fn sets_begin_at_16_bytes() {
        for (pairs, expected) in [(0, 0), (1, 4), (2, 4), (64, 128), (85, 172), (128, 256)] {
            assert_eq!(floats(&vec![0.0; pairs]), expected, "{pairs} pairs");
        }
    }
}
