//! Writes the inputs that fuzzing starts from: `cargo run --manifest-path fuzz/Cargo.toml --example seeds`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/pack_open");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("small.rlp"), &*rawloop_fuzz::SMALL)
}
