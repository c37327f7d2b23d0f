//! A pack small enough to be damaged thousands of times: four layers of every kind, a drafter with a clustered head.
//!
//! Contents are noise within the bounds of each tensor, from a counter, so that any tensor can be made by itself.
#![allow(dead_code)] // every test file uses its share

use std::path::Path;

use rawloop_pack::{
    CHAT_TEMPLATE, Generation, Head, Header, Manifest, ModelInfo, Pack, PackError, PackWriter, Provenance,
    SourceFile, TOKENIZER, layout,
};
use rawloop_spec::drafter::{DrafterGeometry, DrafterLayer, OrderedHead};
use rawloop_spec::{AttentionKind, Class, Format, Geometry, TensorSpec, contract, presets, tensor, tile};
use sha2::{Digest, Sha256};

/// Numbers without a pattern (splitmix64).
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// A preset's pattern, cut down to two owners and two layers that share.
pub fn geometry() -> Geometry {
    let mut geometry = presets::by_name("tiny-e4b").unwrap().geometry();
    let kinds = [
        (AttentionKind::Sliding, 0),
        (AttentionKind::Full, 1),
        (AttentionKind::Sliding, 0),
        (AttentionKind::Full, 1),
    ];
    let layers = kinds.map(|(kind, producer)| {
        let mut layer = *geometry.layers.iter().find(|layer| layer.attention == kind).unwrap();
        layer.producer = producer;
        layer.ffn = 96;
        layer
    });
    geometry.layers = layers.to_vec();
    (geometry.vocab, geometry.hidden) = (72, 64);
    geometry
}

pub fn drafter(geometry: &Geometry) -> DrafterGeometry {
    let layer = |producer: usize| {
        let from = geometry.layers[producer];
        DrafterLayer { attention: from.attention, head_dim: from.head_dim, producer }
    };
    DrafterGeometry {
        hidden: 32,
        heads: 4,
        kv_heads: geometry.kv_heads,
        ffn: 64,
        window: geometry.window,
        rope_sliding: geometry.rope_sliding,
        rope_full: geometry.rope_full,
        ordered: Some(OrderedHead { centroids: 12, top_k: 3 }),
        layers: vec![layer(0), layer(1)],
    }
}

pub fn head() -> Head {
    let geometry = geometry();
    Head {
        model: ModelInfo {
            name: "synthetic-small".into(),
            synthetic: true,
            profile: "mobile".into(),
            arithmetic: "exact".into(),
        },
        drafter: Some(drafter(&geometry)),
        geometry,
        generation: Generation {
            bos: Some(2),
            pad: Some(0),
            eos: vec![1, 50],
            do_sample: true,
            temperature: 1.0,
            top_k: 64,
            top_p: 0.95,
            suppress: vec![70],
        },
        provenance: Provenance {
            source: "made up".into(),
            revision: None,
            license: "Apache-2.0 OR MIT".into(),
            credit: "nobody".into(),
            converter: "test 0".into(),
            files: vec![SourceFile { name: "config.json".into(), bytes: 3, sha256: "ab".repeat(32) }],
            skipped: [("vision".to_string(), 7)].into(),
            zero_scales: 0,
            notes: vec!["über".into()],
        },
    }
}

pub fn registry() -> Vec<TensorSpec> {
    let Head { geometry, drafter, .. } = head();
    let mut specs = tensor::target(&geometry);
    specs.extend(drafter.iter().flat_map(|d| tensor::drafter(d, geometry.vocab, geometry.hidden)));
    specs
}

/// Valid bytes for a tensor. Those that follow from others (multipliers, tables) are made from them.
pub fn content(spec: &TensorSpec) -> Vec<u8> {
    let mut noise = noise_of(&spec.name);
    let count = spec.rows * spec.columns;
    match spec.format {
        Format::F32 => floats(spec).into_iter().flat_map(f32::to_le_bytes).collect(),
        // Exponents around 1, so that every pattern is finite.
        Format::Bf16 => {
            (0..count).flat_map(|_| (0x3e00 | (noise.next() & 0x81ff) as u16).to_le_bytes()).collect()
        }
        // 5 and 72 have no common divisor, so this meets every id once.
        Format::U32 => (0..count).flat_map(|i| ((i * 5 % count) as u32).to_le_bytes()).collect(),
        Format::Rows(_) => (0..spec.bytes()).map(|_| noise.next() as u8).collect(),
        Format::Tiles(bits) => {
            let row_bytes = bits.bytes(spec.columns);
            let rows: Vec<u8> = (0..spec.rows * row_bytes).map(|_| noise.next() as u8).collect();
            let mut tiles = vec![0; spec.bytes()];
            let sources = rows.chunks(tile::rows(bits) * row_bytes);
            for (source, tile) in sources.zip(tiles.chunks_exact_mut(tile::tile_bytes(bits, spec.columns))) {
                tile::write_tile(source, bits, spec.columns, tile);
            }
            tiles
        }
    }
}

/// Values of an f32 tensor.
fn floats(spec: &TensorSpec) -> Vec<f32> {
    let geometry = geometry();
    let frequencies = |kind: AttentionKind| {
        let layer = geometry.layers.iter().find(|layer| layer.attention == kind).unwrap();
        let rope = geometry.rope(kind);
        contract::inverse_frequencies(rope.theta, layer.head_dim, rope.pairs)
    };
    let (stem, part) = spec.name.rsplit_once('.').unwrap_or_default();
    match part {
        "sliding" => frequencies(AttentionKind::Sliding),
        "full" => frequencies(AttentionKind::Full),
        "gelu" => contract::gelu_table(activation_scales(&format!("{stem}.gate"))[1]).to_vec(),
        "ple_gelu" => contract::gelu_table(activation_scales(&format!("{stem}.ple_gate"))[1]).to_vec(),
        "activation_scales" => activation_scales(stem).to_vec(),
        "multipliers" => {
            let input = activation_scales(stem)[0];
            scales(&format!("{stem}.weight_scales"), spec.rows).iter().map(|scale| input * scale).collect()
        }
        _ if matches!(spec.class, Class::Norms | Class::Drafter) => {
            scales(&spec.name, spec.columns).iter().map(|scale| 0.5 + scale * 16.0).collect()
        }
        _ => scales(&spec.name, spec.rows * spec.columns),
    }
}

fn noise_of(name: &str) -> Noise {
    Noise(name.bytes().fold(7u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into())))
}

fn scales(name: &str, count: usize) -> Vec<f32> {
    let mut noise = noise_of(name);
    (0..count).map(|_| (1 + noise.below(4000)) as f32 / 65536.0).collect()
}

/// Input and output scale of a linear; q, k and v share the input, gate and up too (contract rule 4).
fn activation_scales(linear: &str) -> [f32; 2] {
    let (layer, kind) = linear.rsplit_once('.').unwrap();
    let shared = match kind {
        "k" | "v" => "q",
        "up" => "gate",
        other => other,
    };
    [scales(&format!("{layer}.{shared}.input"), 1)[0], scales(&format!("{linear}.output"), 1)[0]]
}

/// Writes the small pack, each tensor's bytes changed by `change`.
pub fn write_with(
    target: &Path,
    head: Head,
    mut change: impl FnMut(&TensorSpec, &mut Vec<u8>),
) -> Result<Manifest, PackError> {
    let mut writer = PackWriter::create(target)?;
    for spec in registry() {
        let mut bytes = content(&spec);
        change(&spec, &mut bytes);
        writer.begin(&spec)?;
        // In two pieces, as a converter would.
        let (front, back) = bytes.split_at(bytes.len() / 3);
        writer.write(front)?;
        writer.write(back)?;
        writer.end()?;
    }
    writer.blob(TOKENIZER, &[1, 2, 3])?;
    writer.blob(CHAT_TEMPLATE, "{{ bos_token }}".as_bytes())?;
    // Larger than a page, so that it starts on one.
    writer.blob("ballast", &vec![9; 20_000])?;
    writer.finish(head)
}

pub fn write(target: &Path) -> Manifest {
    write_with(target, head(), |_, _| {}).unwrap()
}

/// The bytes of the small pack.
pub fn bytes() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.rlp");
    write(&path);
    std::fs::read(path).unwrap()
}

/// The bytes of a pack a fifth as large: the two owners, one head, no drafter.
pub fn smallest() -> Vec<u8> {
    let mut head = head();
    head.drafter = None;
    let geometry = &mut head.geometry;
    geometry.layers.truncate(2);
    geometry.layers.iter_mut().for_each(|layer| layer.ffn = 32);
    (geometry.vocab, geometry.hidden, geometry.heads, geometry.kv_heads) = (72, 32, 1, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("smallest.rlp");
    let mut writer = PackWriter::create(&path).unwrap();
    for spec in tensor::target(&head.geometry) {
        writer.begin(&spec).unwrap();
        writer.write(&content(&spec)).unwrap();
        writer.end().unwrap();
    }
    writer.blob(TOKENIZER, &[1, 2, 3]).unwrap();
    writer.finish(head).unwrap();
    std::fs::read(path).unwrap()
}

/// Where the manifest lies, from the header.
pub fn manifest_range(bytes: &[u8]) -> std::ops::Range<usize> {
    let header = Header::decode(bytes, bytes.len() as u64, "test").unwrap();
    let start = header.manifest_offset as usize;
    start..start + header.manifest_bytes as usize
}

/// The pack with another manifest in place of its own, sealed with a right hash and length.
pub fn with_manifest(bytes: &[u8], text: &[u8]) -> Vec<u8> {
    let start = manifest_range(bytes).start;
    let mut out = bytes[..start].to_vec();
    out.extend_from_slice(text);
    out.resize(out.len().next_multiple_of(layout::PAGE as usize), 0);
    let header = Header {
        file_bytes: out.len() as u64,
        manifest_offset: start as u64,
        manifest_bytes: text.len() as u64,
        manifest_sha256: Sha256::digest(text).into(),
    };
    out[..layout::HEADER_BYTES].copy_from_slice(&header.encode());
    out
}

/// What an opened pack promises: every tensor can be read as what its entry says, and only as that.
pub fn exercise(pack: &Pack) {
    for tensor in pack.tensors() {
        let name = tensor.entry.name.as_str();
        let found = [
            pack.f32(name).is_ok(),
            pack.bf16(name).is_ok(),
            pack.u32(name).is_ok(),
            pack.codes(name).is_ok(),
        ];
        assert_eq!(found.into_iter().filter(|&ok| ok).count(), 1, "{name}");
        assert_eq!(tensor.bytes.len() as u64, tensor.entry.bytes);
    }
    for entry in &pack.manifest().blobs {
        assert_eq!(pack.blob(&entry.name).map(|bytes| bytes.len() as u64), Some(entry.bytes));
    }
}
