//! Any geometry the engine accepts can be written and read; any bytes can be refused.

mod common;

use proptest::prelude::*;
use rawloop_pack::{Head, Header, Pack, PackWriter};
use rawloop_spec::{AttentionKind, Bits, Format, Geometry, TensorSpec, tensor};

/// Geometries of every kind of pattern: owners first, then layers that share.
fn geometry() -> impl Strategy<Value = Geometry> {
    let bits = || prop_oneof![Just(Bits::Two), Just(Bits::Four), Just(Bits::Eight)];
    let layers = (proptest::collection::vec(any::<bool>(), 1..5), 0..3usize);
    let widths = (1..200usize, 1..4usize, 1..3usize, 1..4usize, 1..5usize);
    let heads = (1..3usize, 1..3usize);
    (layers, widths, heads, (bits(), bits(), bits()), proptest::option::of(0.5..60f32)).prop_map(
        |(
            (full, shared),
            (vocab, hidden, ple, ffn, dim),
            (kv_heads, group),
            (embed, ple_bits, linear),
            cap,
        )| {
            let mut geometry = common::geometry();
            let template = geometry.layers[0];
            let kind = |full| if full { AttentionKind::Full } else { AttentionKind::Sliding };
            let mut layers = Vec::new();
            for (index, &is_full) in full.iter().enumerate() {
                let mut layer = template;
                (layer.attention, layer.producer) = (kind(is_full), index);
                (layer.head_dim, layer.ffn) = (32 * dim * if is_full { 2 } else { 1 }, 32 * ffn);
                layer.bits.q = linear;
                layer.bits.down = embed;
                layers.push(layer);
            }
            for index in 0..shared.min(full.len()) {
                layers.push(layers[index]);
            }
            geometry.layers = layers;
            geometry.rope_sliding.pairs = 16 * dim;
            geometry.rope_full.pairs = 8 * dim;
            (geometry.vocab, geometry.hidden, geometry.ple_width) = (vocab.max(2), 32 * hidden, 32 * ple);
            (geometry.heads, geometry.kv_heads) = (kv_heads * group, kv_heads);
            (geometry.embed_bits, geometry.ple_bits, geometry.soft_cap) = (embed, ple_bits, cap);
            geometry
        },
    )
}

/// Bytes within every bound: ones, or noise where every byte is valid.
fn plain(spec: &TensorSpec, seed: u64) -> Vec<u8> {
    let count = spec.rows * spec.columns;
    match spec.format {
        Format::F32 => 1f32.to_le_bytes().repeat(count),
        Format::U32 => (0..count as u32).flat_map(u32::to_le_bytes).collect(),
        Format::Bf16 => vec![0; spec.bytes()],
        Format::Tiles(_) | Format::Rows(_) => {
            let mut noise = common::Noise(seed ^ spec.name.len() as u64);
            (0..spec.bytes()).map(|_| noise.next() as u8).collect()
        }
    }
}

/// Writes a pack of that geometry, each tensor in pieces of `piece` bytes.
fn write(path: &std::path::Path, geometry: &Geometry, seed: u64, piece: usize, blobs: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = PackWriter::create(path).unwrap();
    for spec in tensor::target(geometry) {
        writer.begin(&spec).unwrap();
        for bytes in plain(&spec, seed).chunks(piece) {
            writer.write(bytes).unwrap();
        }
        writer.end().unwrap();
    }
    for (index, blob) in blobs.iter().enumerate() {
        writer.blob(&format!("blob {index}"), blob).unwrap();
    }
    let mut head = Head { geometry: geometry.clone(), drafter: None, ..common::head() };
    (head.generation.eos, head.generation.bos, head.generation.suppress) = (vec![1], None, Vec::new());
    writer.finish(head).unwrap();
    std::fs::read(path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_geometry_comes_back(
        geometry in geometry(),
        seed: u64,
        piece in 1..5000usize,
        blobs in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20_000), 0..4),
    ) {
        prop_assert_eq!(geometry.validate(), Ok(()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.rlp");
        let bytes = write(&path, &geometry, seed, piece, &blobs);
        let pack = Pack::open(&path).unwrap();
        prop_assert_eq!(pack.geometry(), &geometry);
        for spec in tensor::target(&geometry) {
            prop_assert!(pack.tensor(&spec.name).unwrap().bytes == plain(&spec, seed), "{}", spec.name);
        }
        for (index, blob) in blobs.iter().enumerate() {
            prop_assert_eq!(pack.blob(&format!("blob {index}")), Some(blob.as_slice()));
        }
        // The size of the pieces leaves no trace.
        prop_assert!(bytes == write(&path, &geometry, seed, usize::MAX, &blobs));
    }

    #[test]
    fn a_header_comes_back(pages in 2..1u64 << 40, start in 64..100u64, length in 1..8192u64, hash: [u8; 32]) {
        let header = Header {
            file_bytes: pages * 16384,
            manifest_offset: start * 256,
            manifest_bytes: length.min(pages * 16384 - start * 256),
            manifest_sha256: hash,
        };
        prop_assert_eq!(Header::decode(&header.encode(), header.file_bytes, "any").unwrap(), header);
    }

    #[test]
    fn any_bytes_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), magic: bool) {
        if magic && bytes.len() > 12 {
            bytes[..12].copy_from_slice(b"RAWLOOP\0\x01\0\0\0");
        }
        prop_assert!(Pack::from_vec(bytes, "any").is_err());
    }
}
