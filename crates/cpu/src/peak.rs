//! The arithmetic limit: how much a backend's threads multiply and add in a second when nothing waits for memory.
//!
//! Beside the plain read of `stream.rs` this is the other wall that a program runs against: decode against memory, prefill
//! against the multipliers. The loops are in `kernels/peak.rs`; the team, the number of threads and the way in which chunks
//! are handed out are those of every stage, so whatever a neighbour takes away is taken from both sides of a ratio.

use std::time::Instant;

use crate::executor::Executor;
use crate::kernels::PeakLoop;

/// Chunks of a measurement for each thread: a thread that comes late takes fewer.
const CHUNKS_OF_A_THREAD: u64 = 16;

impl Executor {
    /// About `count` products of a code and an activation; products per second.
    pub(crate) fn int8_macs_per_second(&mut self, count: u64) -> Option<f64> {
        self.kernels.int8_peak().map(|peak| self.rate(peak, count))
    }

    /// About `count` fused multiply-adds; multiply-adds per second.
    pub(crate) fn f32_fmas_per_second(&mut self, count: u64) -> Option<f64> {
        self.kernels.f32_peak().map(|peak| self.rate(peak, count))
    }

    fn rate(&mut self, peak: PeakLoop, count: u64) -> f64 {
        let chunks = CHUNKS_OF_A_THREAD * self.crew.threads() as u64;
        let steps = (count / (chunks * peak.operations)).max(1);
        // The first run wakes threads and registers.
        self.crew.run(&(chunks as usize), |_, _, ()| peak.run(steps.div_ceil(16)));
        let start = Instant::now();
        self.crew.run(&(chunks as usize), |_, _, ()| peak.run(steps));
        // A clock that did not move is no reason to divide by zero.
        let seconds = start.elapsed().as_secs_f64().max(1e-9);
        (chunks * steps * peak.operations) as f64 / seconds
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use crate::kernels::Kernels;
    use crate::{CpuBackend, CpuOptions};

    #[test]
    fn every_table_has_a_rate_with_any_number_of_threads() {
        let pack = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny/tiny.rlp");
        let pack = Arc::new(rawloop_pack::Pack::open(&pack).unwrap());
        for table in Kernels::available() {
            for threads in [1, 3] {
                let kernels = Some(table.name().to_string());
                let options = CpuOptions { threads: Some(threads), kernels, ..CpuOptions::default() };
                let mut backend = CpuBackend::open(pack.clone(), &options).unwrap();
                for rate in [backend.int8_macs_per_second(1 << 20), backend.f32_fmas_per_second(1 << 16)] {
                    assert!(rate.is_some_and(|rate| rate.is_finite() && rate > 0.0), "{}", table.name());
                }
            }
        }
    }
}
