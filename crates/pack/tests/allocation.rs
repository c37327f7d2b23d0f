//! No file makes the reader ask for much more memory than the file has bytes, whatever it claims.
//!
//! One test in a binary of its own: the counter sees every allocation of the process.

mod common;

use peak_alloc::PeakAlloc;
use rawloop_pack::Pack;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[test]
fn memory_stays_in_proportion_to_the_file() {
    let bytes = common::bytes();
    let text = String::from_utf8(bytes[common::manifest_range(&bytes)].to_vec()).unwrap();
    let huge = u64::MAX.to_string();
    let mut claims = vec![text.clone()];
    for field in
        ["\"vocab\":72", "\"hidden\":64", "\"ffn\":96", "\"window\":64", "\"pairs\":16", "\"centroids\":12"]
    {
        assert!(text.contains(field), "{field}");
        let (name, _) = field.split_once(':').unwrap();
        // The largest the geometry admits, and beyond.
        claims.push(text.replace(field, &format!("{name}:1048576")));
        claims.push(text.replace(field, &format!("{name}:16384")));
        claims.push(text.replace(field, &format!("{name}:{huge}")));
    }
    claims.push(text.replace("\"bytes\":", &format!("\"bytes\":{huge}")));
    // Many small objects: the parsed form of JSON is larger than its text, but not by more than this.
    claims.push(text.replace("\"eos\":[1", &format!("\"eos\":[1{}", ",1".repeat(500_000))));
    claims.push(text.replace("\"blobs\":[", &format!("\"blobs\":[{}", "0,".repeat(500_000))));
    for claim in claims {
        let file = common::with_manifest(&bytes, claim.as_bytes());
        let length = file.len();
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        // The file itself is handed over; what counts is what comes on top.
        let opened = Pack::from_vec(file, "claim.rlp").is_ok();
        let used = MEMORY.peak_usage() - before;
        assert!(used < 4 * length + (64 << 10), "{used} bytes for a file of {length}, opened: {opened}");
    }
}
