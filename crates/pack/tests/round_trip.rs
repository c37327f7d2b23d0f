//! What is written is what is read, from a file, from the program and from memory; twice the same bytes.

mod common;

use rawloop_pack::{CHAT_TEMPLATE, LICENSE, Pack, TOKENIZER, layout};
use rawloop_spec::Format;

#[test]
fn every_tensor_and_blob_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.rlp");
    let manifest = common::write(&path);
    let pack = Pack::open(&path).unwrap();
    assert_eq!(pack.manifest(), &manifest);
    assert_eq!(pack.label(), path.display().to_string());
    let head = common::head();
    assert_eq!(pack.geometry(), &head.geometry);
    assert_eq!(manifest.generation, head.generation);
    assert_eq!(manifest.provenance, head.provenance);
    for spec in common::registry() {
        let expected = common::content(&spec);
        let tensor = pack.tensor(&spec.name).unwrap();
        assert_eq!(tensor.bytes, expected, "{}", spec.name);
        assert_eq!(tensor.entry.spec(), spec);
        // The typed accessor of its format works, the others refuse by name.
        let name = spec.name.as_str();
        let typed = [
            pack.f32(name).map(<[f32]>::len),
            pack.bf16(name).map(<[u16]>::len),
            pack.u32(name).map(<[u32]>::len),
            pack.codes(name).map(<[u8]>::len),
        ];
        let right = match spec.format {
            Format::F32 => 0,
            Format::Bf16 => 1,
            Format::U32 => 2,
            Format::Tiles(_) | Format::Rows(_) => 3,
        };
        for (index, answer) in typed.into_iter().enumerate() {
            match answer {
                Ok(length) => {
                    assert_eq!(index, right);
                    let values = if right == 3 { spec.bytes() } else { spec.rows * spec.columns };
                    assert_eq!(length, values);
                }
                Err(error) => {
                    assert_ne!(index, right, "{error}");
                    assert!(error.to_string().contains(name), "{error}");
                }
            }
        }
    }
    assert_eq!(pack.blob(TOKENIZER), Some(&[1, 2, 3][..]));
    assert_eq!(pack.blob(CHAT_TEMPLATE), Some(&b"{{ bos_token }}"[..]));
    assert_eq!(pack.blob("ballast").map(<[u8]>::len), Some(20_000));
    assert_eq!(pack.blob(LICENSE), None);
    assert!(pack.tensor("layers.9.q.codes").unwrap_err().to_string().contains("layers.9.q.codes"));
    pack.advise_gathered();
    pack.advise_weights();
    pack.advise_drafter();
}

#[test]
fn values_are_little_endian() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.rlp");
    common::write(&path);
    let pack = Pack::open(&path).unwrap();
    let bytes = pack.tensor("head.scales").unwrap().bytes;
    let first = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    assert_eq!(pack.f32("head.scales").unwrap()[0], first);
    assert_eq!(pack.u32("drafter.token_ordering").unwrap()[..3], [0, 5, 10]);
}

#[test]
fn places_are_aligned_and_the_gaps_are_zero() {
    let bytes = common::bytes();
    assert!((bytes.len() as u64).is_multiple_of(layout::PAGE));
    let pack = Pack::from_vec(bytes, "memory").unwrap();
    let manifest = pack.manifest();
    let tensors = manifest.tensors.iter().map(|entry| (entry.offset, entry.bytes));
    let blobs = manifest.blobs.iter().map(|entry| (entry.offset, entry.bytes));
    let mut paged = 0;
    for (offset, bytes) in tensors.chain(blobs) {
        let large = bytes >= layout::PAGE;
        paged += usize::from(large);
        assert!(offset.is_multiple_of(if large { layout::PAGE } else { 256 }), "{offset} {bytes}");
    }
    assert!(paged > 0, "no part is large enough to test the rule");
    assert_eq!(manifest.tensors[0].offset, layout::DATA_OFFSET);
    // Verification refuses a gap that is not zero.
    assert!(pack.verify(|_| {}).is_ok());
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    assert!(common::bytes() == common::bytes());
}

#[test]
fn memory_and_program_serve_as_well_as_a_file() {
    let bytes = common::bytes();
    let expected = common::registry();
    // A byte off any alignment, as `include_bytes!` may be.
    let mut shifted = vec![0];
    shifted.extend_from_slice(&bytes);
    let shifted: &'static [u8] = Vec::leak(shifted);
    // Room to move the bytes up instead of copying them.
    let mut roomy = Vec::with_capacity(bytes.len() + 256);
    roomy.extend_from_slice(&bytes);
    let place = roomy.as_ptr().addr();
    let moved = Pack::from_vec(roomy, "memory").unwrap();
    assert!(moved.bytes().as_ptr().addr() - place < 256);
    for pack in [
        moved,
        Pack::from_vec(bytes.clone(), "memory").unwrap(),
        Pack::from_static(&shifted[1..], "program").unwrap(),
        Pack::from_static(Vec::leak(bytes.clone()), "program").unwrap(),
    ] {
        for spec in &expected {
            assert_eq!(pack.tensor(&spec.name).unwrap().bytes, common::content(spec));
            if spec.format == Format::F32 {
                assert_eq!(pack.f32(&spec.name).unwrap().len(), spec.rows * spec.columns);
            }
        }
        pack.advise_weights();
    }
}

#[test]
fn a_pack_without_a_drafter_is_whole() {
    let pack = Pack::from_vec(common::smallest(), "smallest").unwrap();
    assert!(pack.manifest().drafter.is_none());
    assert!(pack.bytes().len() < 100_000, "{}", pack.bytes().len());
    pack.verify(|_| {}).unwrap();
}

#[test]
fn verify_reports_what_it_went_through() {
    let pack = Pack::from_vec(common::bytes(), "memory").unwrap();
    let mut last = 0;
    let mut calls = 0;
    let report = pack
        .verify(|done| {
            assert!(done >= last);
            (last, calls) = (done, calls + 1);
        })
        .unwrap();
    assert_eq!(report.tensors, common::registry().len());
    assert_eq!(report.blobs, 3);
    assert_eq!((report.bytes, last), (pack.content_bytes(), pack.content_bytes()));
    assert_eq!(report.zero_scales, 0);
    assert!(calls >= report.tensors - 2 && report.values > 0);
}

#[test]
fn the_worked_examples_of_the_format_page_hold() {
    use rawloop_spec::{Bits, tile};
    assert_eq!(tile::tile_bytes(Bits::Four, 64), 1024);
    assert_eq!(tile::locate(Bits::Four, 64, 37, 13), (1173, 4));
    assert_eq!(tile::locate(Bits::Two, 64, 37, 13), (149, 6));
    let pack = Pack::from_vec(common::bytes(), "memory").unwrap();
    let entry = serde_json::to_value(&pack.manifest().tensors[0]).unwrap();
    let page = include_str!("../../../docs/pack-format.md");
    let start = page.find("{\"name\": \"embed.codes\"").unwrap();
    let end = start + page[start..].find("```").unwrap();
    assert_eq!(entry, serde_json::from_str::<serde_json::Value>(&page[start..end]).unwrap());
}

/// Every tensor name of the registry stands on the format page, and no other.
#[test]
fn the_format_page_lists_the_registry() {
    let page = include_str!("../../../docs/pack-format.md");
    let tables = &page[page.find("## Tensors").unwrap()..page.find("## Blobs").unwrap()];
    let mut listed = Vec::new();
    for line in tables.lines().filter(|line| line.starts_with("| `") || line.starts_with("| linear")) {
        let names: Vec<&str> = line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2).collect();
        for name in &names {
            // ".up" after "drafter.layers.j.gate" stands for "drafter.layers.j.up".
            let stem = names[0].rsplit_once('.').map_or("", |(stem, _)| stem);
            let full = if name.starts_with('.') { format!("{stem}{name}") } else { (*name).to_string() };
            match line.starts_with("| linear") {
                true => listed.extend(
                    ["codes", "multipliers", "activation_scales", "weight_scales"]
                        .map(|part| format!("{full}.{part}")),
                ),
                false => listed.push(full),
            }
        }
    }
    listed.retain(|name| !name.starts_with("x."));
    // Layers 0, of the target and of the drafter, have every tensor.
    let first = |name: &str| !name.contains("layers.") || name.contains("layers.0.");
    let names = common::registry().into_iter().map(|spec| spec.name).filter(|name| first(name));
    let names: Vec<String> = names
        .map(|name| match name.strip_prefix("drafter.layers.0.") {
            Some(part) => format!("drafter.layers.j.{part}"),
            None => name.replace("layers.0.", "layers.i."),
        })
        .collect();
    assert_eq!(listed, names);
}
