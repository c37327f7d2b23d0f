//! The account of bytes per token and the comparison of two packs.

mod common;

use rawloop_pack::{Manifest, Pack, TensorEntry, account, compare};
use rawloop_spec::{Class, DrafterGeometry, Geometry, TensorSpec, presets, tensor};

/// A manifest without a file, for shapes too large to write.
fn manifest(geometry: Geometry, drafter: Option<DrafterGeometry>) -> Manifest {
    let mut specs = tensor::target(&geometry);
    specs.extend(drafter.iter().flat_map(|d| tensor::drafter(d, geometry.vocab, geometry.hidden)));
    let entry = |spec: TensorSpec| TensorEntry {
        bytes: spec.bytes() as u64,
        name: spec.name,
        format: spec.format,
        rows: spec.rows,
        columns: spec.columns,
        class: spec.class,
        offset: 0,
        sha256: String::new(),
    };
    let head = common::head();
    Manifest {
        format_version: 1,
        model: head.model,
        geometry,
        drafter,
        generation: head.generation,
        provenance: head.provenance,
        tensors: specs.into_iter().map(entry).collect(),
        blobs: Vec::new(),
    }
}

#[test]
fn e2b_reads_the_published_words_per_token() {
    let preset = presets::by_name("e2b").unwrap();
    let report = account(&manifest(preset.geometry(), Some(preset.drafter(true))));
    let megabytes = |bytes: u64| (bytes as f64 / 1e5).round() / 10.0;
    assert_eq!(megabytes(report.quantised_words), 776.6);
    // The projection in bf16, scales, norms and tables on top.
    assert_eq!(megabytes(report.token_bytes), 796.4);
    let classes: u64 = report.classes.values().map(|line| line.token_bytes).sum();
    assert_eq!(classes, report.token_bytes);
    let projection = report.classes[&Class::PleModelProjection];
    assert_eq!((projection.tensors, projection.token_bytes), (1, 8960 * 1536 * 2));
    let gathered = report.classes[&Class::Gathered];
    assert_eq!((gathered.tensors, gathered.token_bytes), (4, 384 + 4 + 4480 + 140));
    assert!(gathered.stored_bytes > 1_300_000_000);
    assert_eq!(report.classes[&Class::Unread].token_bytes, 0);
}

#[test]
fn a_draft_reads_the_rows_of_the_chosen_clusters() {
    let preset = presets::by_name("e2b").unwrap();
    let draft = |ordered| account(&manifest(preset.geometry(), Some(preset.drafter(ordered)))).draft_bytes;
    let (all, some) = (draft(false), draft(true));
    // All rows of 256 bf16 values; or 32 clusters of 128 tokens, their ids, and 2048 centroids.
    assert_eq!(all - 262_144 * 512, some - (4096 * (512 + 4) + 2048 * 512));
    assert_eq!(account(&manifest(preset.geometry(), None)).draft_bytes, 0);
}

#[test]
fn the_account_is_plain_json() {
    let preset = presets::by_name("tiny").unwrap();
    let json = serde_json::to_value(account(&manifest(preset.geometry(), None))).unwrap();
    assert!(json["classes"]["ple_model_projection"]["token_bytes"].as_u64().unwrap() > 0);
    assert!(json["quantised_words"].as_u64().unwrap() > 0);
}

/// The small pack, changed.
fn pack(change: impl FnMut(&TensorSpec, &mut Vec<u8>)) -> Pack {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.rlp");
    common::write_with(&path, common::head(), change).unwrap();
    Pack::from_vec(std::fs::read(path).unwrap(), "small").unwrap()
}

#[test]
fn equal_packs_are_equal() {
    let report = compare(&pack(|_, _| {}), &pack(|_, _| {}));
    assert!(report.equal() && report.tensors_equal());
    assert_eq!(report.families["layers.N.q.codes"].equal, 4);
    assert_eq!(report.families["layers.N.k.codes"].equal, 2);
    assert_eq!(report.families["drafter.layers.N.gate"].equal, 2);
    assert_eq!(report.families["head.codes"].equal, 1);
}

#[test]
fn differences_are_counted_and_measured_by_family() {
    let good = pack(|_, _| {});
    let other = pack(|spec, bytes| match spec.name.as_str() {
        // One code of four bits by 15 or 1, depending on what it was; the low plane of one byte.
        "layers.1.q.codes" => bytes[10] ^= 0x0f,
        "layers.3.q.codes" => bytes[10] ^= 0x01,
        "layers.0.k_norm" => bytes[..4].copy_from_slice(&100f32.to_le_bytes()),
        "embed.scales" => bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes()),
        "drafter.token_ordering" => bytes.as_chunks_mut::<4>().0.swap(0, 2),
        "ple.model_projection" => bytes[1] ^= 0x80,
        _ => {}
    });
    let report = compare(&good, &other);
    assert!(!report.tensors_equal());
    let family = |name: &str| report.families[name].clone();
    let q = family("layers.N.q.codes");
    assert_eq!((q.equal, q.differing, q.differing_values), (2, 2, 2));
    let low = good.codes("layers.1.q.codes").unwrap()[10] & 15;
    assert_eq!(q.largest_difference, f64::from(low.abs_diff(low ^ 15)));
    let norm = family("layers.N.k_norm");
    let old = good.f32("layers.0.k_norm").unwrap()[0];
    assert_eq!(norm.largest_difference, f64::from(100.0 - old));
    assert_eq!(family("embed.scales").largest_difference, f64::INFINITY);
    let ordering = family("drafter.token_ordering");
    assert_eq!((ordering.differing_values, ordering.largest_difference), (2, 10.0));
    // A flipped sign is a difference of twice the value.
    let value = rawloop_spec::contract::bf16_to_f32(good.bf16("ple.model_projection").unwrap()[0]);
    assert_eq!(family("ple.model_projection").largest_difference, f64::from(value.abs()) * 2.0);
    assert_eq!(report.families.values().filter(|f| f.differing > 0).count(), 5);
}

#[test]
fn packs_of_other_shapes_list_what_only_one_has() {
    let small = pack(|_, _| {});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.rlp");
    // The same model with other names of things, without a drafter and without blobs.
    let mut head = common::head();
    head.drafter = None;
    head.generation.top_k = 1;
    let mut writer = rawloop_pack::PackWriter::create(&path).unwrap();
    for spec in common::registry().iter().filter(|spec| spec.class != Class::Drafter) {
        writer.begin(spec).unwrap();
        writer.write(&common::content(spec)).unwrap();
        writer.end().unwrap();
    }
    writer.finish(head).unwrap();
    let other = Pack::open(&path).unwrap();
    let report = compare(&small, &other);
    assert_eq!(report.manifest, ["drafter", "generation"]);
    assert_eq!(report.blobs, ["ballast", "chat_template", "tokenizer"]);
    assert!(report.only_first.iter().all(|name| name.starts_with("drafter.")));
    assert!(report.only_second.is_empty() && !report.only_first.is_empty());
    assert!(report.families.values().all(|family| family.differing == 0));
    assert_eq!(compare(&other, &small).only_second, report.only_first);
}
