//! The long check: every hash, the numbers that opening leaves out, what follows from other tensors, and that nothing hides
//! between the parts.
//!
//! Opening proves that a pack can be read without harm; verifying proves that it is, byte for byte, what was written.

use sha2::{Digest, Sha256};

use rawloop_spec::Format;

use crate::error::PackError;
use crate::layout::HEADER_BYTES;
use crate::pack::Pack;
use crate::{hash, values};

/// Bytes between two calls of the progress function.
const STEP: usize = 4 << 20;

/// What a full check went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct VerifyReport {
    /// Tensors whose hash was checked.
    pub tensors: usize,
    /// Blobs whose hash was checked.
    pub blobs: usize,
    /// Bytes hashed.
    pub bytes: u64,
    /// Scales, norms, tables and bf16 weights whose value was checked.
    pub values: u64,
    /// Weight scales that are 0: rows that contribute nothing.
    pub zero_scales: u64,
}

impl Pack {
    /// Checks every hash, every value with a bound, every derived tensor, and that all bytes between the parts are zero.
    /// `progress` is given the bytes hashed so far, of [`Pack::content_bytes`].
    ///
    /// # Errors
    /// The first part that is not what was written, with tensor, row and column for values.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<VerifyReport, PackError> {
        let mut report = VerifyReport::default();
        let mut cursor = HEADER_BYTES as u64;
        for tensor in self.tensors() {
            let entry = tensor.entry;
            self.check_gap(cursor, entry.offset, &entry.name)?;
            self.check_hash("tensor", &entry.name, tensor.bytes, &entry.sha256, report.bytes, &mut progress)?;
            cursor = entry.offset + entry.bytes;
            report.bytes += entry.bytes;
            report.tensors += 1;
            if let Some((bound, _)) = values::bound(&tensor) {
                values::check(&tensor, bound, self.label())?;
                report.values += (entry.rows * entry.columns) as u64;
            }
            if entry.format == Format::F32 && is_weight_scale(&entry.name) {
                let zeros = tensor.as_f32(self.label())?.iter().filter(|&&scale| scale == 0.0).count();
                report.zero_scales += zeros as u64;
            }
        }
        for entry in &self.manifest().blobs {
            self.check_gap(cursor, entry.offset, &entry.name)?;
            let bytes = self.range(entry.offset, entry.bytes);
            self.check_hash("blob", &entry.name, bytes, &entry.sha256, report.bytes, &mut progress)?;
            cursor = entry.offset + entry.bytes;
            report.bytes += entry.bytes;
            report.blobs += 1;
        }
        self.check_derived()?;
        let header = self.header();
        self.check_gap(cursor, header.manifest_offset, "the manifest")?;
        self.check_gap(
            header.manifest_offset + header.manifest_bytes,
            header.file_bytes,
            "the end of the file",
        )?;
        Ok(report)
    }

    /// Bytes of all tensors and blobs: what [`Pack::verify`] hashes.
    pub fn content_bytes(&self) -> u64 {
        let tensors = self.manifest().tensors.iter().map(|entry| entry.bytes);
        let blobs = self.manifest().blobs.iter().map(|entry| entry.bytes);
        tensors.chain(blobs).sum()
    }

    fn check_hash(
        &self,
        kind: &str,
        name: &str,
        bytes: &[u8],
        expected: &str,
        before: u64,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), PackError> {
        let mut state = Sha256::new();
        let mut done = before;
        for step in bytes.chunks(STEP) {
            state.update(step);
            done += step.len() as u64;
            progress(done);
        }
        let found = hash::hex(&state.finalize());
        if found == expected {
            return Ok(());
        }
        let part = format!("{kind} {name}");
        Err(PackError::Hash { file: self.label().into(), part, found, expected: expected.into() })
    }

    /// Bytes from the end of one part to the start of the next are zero.
    fn check_gap(&self, start: u64, end: u64, next: &str) -> Result<(), PackError> {
        match self.range(start, end - start).iter().position(|&byte| byte != 0) {
            Some(index) => Err(PackError::Padding {
                file: self.label().into(),
                next: next.into(),
                offset: start + index as u64,
            }),
            None => Ok(()),
        }
    }
}

/// Whether a tensor holds one scale per row (or row and layer) of weight codes.
fn is_weight_scale(name: &str) -> bool {
    name.ends_with(".weight_scales") || matches!(name, "embed.scales" | "ple.scales" | "head.scales")
}
