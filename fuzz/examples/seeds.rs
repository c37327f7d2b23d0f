//! Writes the inputs that fuzzing starts from: `cargo run --manifest-path fuzz/Cargo.toml --example seeds`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/pack_open");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("smallest.rlp"), rawloop_fuzz::small::smallest())?;

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/safetensors_header");
    std::fs::create_dir_all(&folder)?;
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tiny/assistant/model.safetensors");
    let weights = std::fs::read(weights)?;
    let Some((length, rest)) = weights.split_first_chunk() else { return Ok(()) };
    let json = &rest[..u64::from_le_bytes(*length) as usize];
    let small = br#"{"a":{"dtype":"U8","shape":[2,4],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}"#;
    for (name, json, data) in
        [("tiny", json, weights.len() - 8 - json.len()), ("small", small.as_slice(), 12)]
    {
        let file_bytes = (8 + json.len() + data) as u64;
        std::fs::write(folder.join(name), [&file_bytes.to_le_bytes(), json].concat())?;
    }
    Ok(())
}
