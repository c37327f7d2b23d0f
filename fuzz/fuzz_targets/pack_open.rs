//! Whole files. Each input is tried as it is and, where it starts like a pack, with its checksum and hash made right, so
//! that damage reaches the code behind them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rawloop_pack::{Header, layout};
use sha2::{Digest, Sha256};

fuzz_target!(|bytes: &[u8]| {
    rawloop_fuzz::open_and_use(bytes.to_vec());
    if let Some(sealed) = sealed(bytes) {
        rawloop_fuzz::open_and_use(sealed);
    }
});

/// The same file with header and manifest hash recomputed for the fields that it has.
fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = bytes.first_chunk::<{ layout::HEADER_BYTES }>()?;
    let number = |at: usize| Some(u64::from_le_bytes(*header[at..].first_chunk()?));
    let (manifest_offset, manifest_bytes) = (number(24)?, number(32)?);
    let range = usize::try_from(manifest_offset).ok()?
        ..usize::try_from(manifest_offset.checked_add(manifest_bytes)?).ok()?;
    let manifest_sha256 = bytes.get(range).map_or([0; 32], |text| Sha256::digest(text).into());
    // A wrong length has its own check, which the input as it is goes through; here it would hide the others.
    let file_bytes = bytes.len().next_multiple_of(layout::PAGE as usize);
    let mut out = bytes.to_vec();
    out.resize(file_bytes, 0);
    let header = Header { file_bytes: file_bytes as u64, manifest_offset, manifest_bytes, manifest_sha256 };
    out[..layout::HEADER_BYTES].copy_from_slice(&header.encode());
    Some(out)
}
