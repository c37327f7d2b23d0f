//! Headers of weight files. The input is a file length (8 bytes) and a header's JSON; the same bytes are also tried as a
//! whole file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rawloop_convert::safetensors::{HEADER_CAP, Header};

fuzz_target!(|bytes: &[u8]| {
    whole_file(bytes);
    if let Some((length, json)) = bytes.split_first_chunk() {
        check(json, u64::from_le_bytes(*length));
        // A length that fits the last tensor, so that the checks behind it are met as well.
        if let Some(end) = last_offset(json) {
            check(json, 8 + json.len() as u64 + end);
        }
        whole_file(json);
    }
});

fn whole_file(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first_chunk() else { return };
    let Ok(length) = Header::length(*first, bytes.len() as u64) else { return };
    assert!(length <= HEADER_CAP && length <= rest.len() as u64);
    check(&rest[..length as usize], bytes.len() as u64);
}

/// The largest end of a tensor that the JSON claims, where it is JSON.
fn last_offset(json: &[u8]) -> Option<u64> {
    let header: serde_json::Value = serde_json::from_slice(json).ok()?;
    let ends = header.as_object()?.values().filter_map(|info| info["data_offsets"][1].as_u64());
    ends.filter(|&end| end < 1 << 50).max()
}

/// A header that is accepted covers the file's data bytes exactly, each byte once.
fn check(json: &[u8], file_bytes: u64) {
    let Ok(header) = Header::parse(json, file_bytes) else { return };
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for (description, offset) in header.tensors.values() {
        let elements = description.shape.iter().map(|&size| size as u128).product::<u128>();
        assert_eq!(elements * description.dtype.bitsize() as u128, u128::from(description.bytes) * 8);
        spans.push((*offset, offset + description.bytes));
    }
    spans.sort_unstable();
    let mut end = 8 + json.len() as u64;
    for (from, to) in spans {
        assert_eq!(from, end);
        end = to;
    }
    assert_eq!(end, file_bytes.max(8 + json.len() as u64));
}
