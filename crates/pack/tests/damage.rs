//! Packs cut, flipped and lied about: refused with the part's name, or read right; never a panic.

mod common;

use common::Noise;
use rawloop_pack::{Pack, PackError, layout};
use serde_json::{Value, json};

#[test]
fn a_cut_pack_is_refused_wherever_it_is_cut() {
    let bytes = common::bytes();
    let mut noise = Noise(1);
    let places = (0..1000).map(|_| noise.below(bytes.len()));
    for length in (0..=layout::HEADER_BYTES).chain(places).chain([bytes.len() - 1]) {
        let error = Pack::from_vec(bytes[..length].to_vec(), "cut.rlp").unwrap_err();
        assert!(matches!(error, PackError::Length { .. }), "{length}: {error}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(Pack::from_vec(longer, "long.rlp"), Err(PackError::Length { .. })));
}

#[test]
fn a_file_cut_on_disk_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.rlp");
    let bytes = common::bytes();
    for length in [0, 1, 127, 128, 16384, bytes.len() / 2] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let error = Pack::open(&path).unwrap_err().to_string();
        assert!(error.contains("cut.rlp") && error.contains("expected"), "{error}");
    }
    let missing = Pack::open(&folder.path().join("missing.rlp")).unwrap_err().to_string();
    assert!(missing.contains("missing.rlp"), "{missing}");
    assert!(Pack::open(folder.path()).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn a_flipped_byte_in_header_or_manifest_is_refused() {
    let bytes = common::bytes();
    let manifest = common::manifest_range(&bytes);
    let mut noise = Noise(2);
    for _ in 0..10_000 {
        let place = noise.below(layout::HEADER_BYTES + manifest.len());
        let place =
            if place < layout::HEADER_BYTES { place } else { manifest.start + place - layout::HEADER_BYTES };
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 + noise.below(255) as u8;
        assert!(Pack::from_vec(damaged, "flipped.rlp").is_err(), "byte {place}");
    }
}

#[test]
fn a_flipped_byte_in_a_sealed_manifest_is_refused_or_harmless() {
    let bytes = common::bytes();
    let text = bytes[common::manifest_range(&bytes)].to_vec();
    let mut noise = Noise(3);
    let mut opened = 0;
    for _ in 0..10_000 {
        let mut damaged = text.clone();
        let place = noise.below(damaged.len());
        damaged[place] ^= 1 + noise.below(255) as u8;
        if let Ok(pack) = Pack::from_vec(common::with_manifest(&bytes, &damaged), "sealed.rlp") {
            common::exercise(&pack);
            opened += 1;
        }
    }
    // Hash digits, names and notes may change without harm; most of the rest may not.
    assert!((1..5000).contains(&opened), "{opened} opened");
}

#[test]
fn a_flipped_byte_anywhere_is_found_by_verification() {
    let bytes = common::bytes();
    let mut noise = Noise(4);
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        let place = noise.below(damaged.len());
        damaged[place] ^= 1 << noise.below(8);
        let found = Pack::from_vec(damaged, "flipped.rlp").and_then(|pack| pack.verify(|_| {}));
        assert!(found.is_err(), "byte {place}");
    }
}

/// A change of the manifest and words that the refusal must hold.
type Lie = (&'static str, fn(&mut Value), &'static [&'static str]);

#[test]
fn every_lie_of_a_manifest_is_refused_by_name() {
    let lies: &[Lie] = &[
        (
            "unaligned",
            |m| m["tensors"][1]["offset"] = add(&m["tensors"][1]["offset"], 1),
            &["embed.scales", "offset"],
        ),
        (
            "overlapping",
            |m| m["tensors"][1]["offset"] = m["tensors"][0]["offset"].clone(),
            &["embed.scales", "offset"],
        ),
        ("in the header", |m| m["tensors"][0]["offset"] = json!(0), &["embed.codes", "offset"]),
        ("outside", |m| m["tensors"][1]["offset"] = json!(1u64 << 40), &["embed.scales", "offset"]),
        ("wrapping", |m| m["tensors"][1]["offset"] = json!(u64::MAX - 255), &["embed.scales", "offset"]),
        ("more bytes", |m| m["tensors"][1]["bytes"] = json!(1u64 << 50), &["embed.scales", "bytes"]),
        ("negative bytes", |m| m["tensors"][1]["bytes"] = json!(-4), &["JSON"]),
        ("more rows", |m| m["tensors"][1]["rows"] = json!(73), &["embed.scales", "[73 x 1]", "[72 x 1]"]),
        ("absurd rows", |m| m["tensors"][1]["rows"] = json!(u64::MAX), &["embed.scales", "shape"]),
        (
            "other format",
            |m| m["tensors"][1]["format"] = json!("bf16"),
            &["embed.scales", "format", "bf16", "f32"],
        ),
        (
            "other width",
            |m| m["tensors"][0]["format"] = json!({"rows": 4}),
            &["embed.codes", "format", "int4"],
        ),
        ("no such width", |m| m["tensors"][0]["format"] = json!({"rows": 3}), &["JSON"]),
        ("other class", |m| m["tensors"][1]["class"] = json!("unread"), &["embed.scales", "class"]),
        ("other name", |m| m["tensors"][1]["name"] = json!("embed.scale"), &["embed.scales", "embed.scale"]),
        ("no hash", |m| m["tensors"][1]["sha256"] = json!("ab"), &["embed.scales", "sha256"]),
        ("missing", |m| drop(array(&mut m["tensors"]).remove(2)), &["ple.codes", "ple.scales"]),
        ("cut short", |m| drop(array(&mut m["tensors"]).pop()), &["drafter.token_ordering", "missing"]),
        ("none", |m| array(&mut m["tensors"]).clear(), &["embed.codes", "missing"]),
        (
            "one twice",
            |m| {
                let t = m["tensors"][0].clone();
                array(&mut m["tensors"]).push(t)
            },
            &["embed.codes", "no more than"],
        ),
        ("swapped", |m| array(&mut m["tensors"]).swap(3, 4), &["ple.scales", "ple.model_projection"]),
        ("no layers", |m| array(&mut m["geometry"]["layers"]).clear(), &["num_hidden_layers"]),
        ("fewer layers", |m| drop(array(&mut m["geometry"]["layers"]).pop()), &["ple.codes", "shape"]),
        ("no vocabulary", |m| m["geometry"]["vocab"] = json!(0), &["vocab_size is 0"]),
        ("absurd vocabulary", |m| m["geometry"]["vocab"] = json!(1u64 << 60), &["vocab_size"]),
        ("odd width", |m| m["geometry"]["hidden"] = json!(33), &["hidden_size is 33"]),
        ("producer", |m| m["geometry"]["layers"][2]["producer"] = json!(1), &["K/V producer of layer 2"]),
        (
            "producer outside",
            |m| m["geometry"]["layers"][2]["producer"] = json!(u64::MAX),
            &["K/V producer of layer 2"],
        ),
        ("late owner", |m| m["geometry"]["layers"][3]["producer"] = json!(3), &["K/V producer of layer 3"]),
        ("rope", |m| m["geometry"]["rope_full"]["pairs"] = json!(u64::MAX), &["rope_parameters"]),
        (
            "unused rope",
            |m| {
                for layer in array(&mut m["geometry"]["layers"]) {
                    (layer["attention"], layer["head_dim"], layer["producer"]) =
                        (json!("sliding"), json!(32), json!(0));
                }
                m["geometry"]["rope_full"]["pairs"] = json!(u64::MAX);
                m["drafter"] = Value::Null;
            },
            &["rope_parameters of full layers"],
        ),
        ("soft cap", |m| m["geometry"]["soft_cap"] = json!(0), &["final_logit_softcapping"]),
        ("head width", |m| m["geometry"]["head_bits"] = json!(4), &["lm_head"]),
        ("drafter's producer", |m| m["drafter"]["layers"][0]["producer"] = json!(3), &["assistant layer 0"]),
        ("drafter's clusters", |m| m["drafter"]["ordered"]["centroids"] = json!(7), &["num_centroids is 7"]),
        ("no drafter", |m| m["drafter"] = Value::Null, &["drafter.pre_projection"]),
        ("version", |m| m["format_version"] = json!(2), &["version 2", "version 1"]),
        ("unknown field", |m| m["extra"] = json!(1), &["extra"]),
        ("lacking field", |m| drop(m.as_object_mut().unwrap().remove("blobs")), &["blobs"]),
        ("stop token", |m| m["generation"]["eos"][1] = json!(72), &["generation.eos is 72"]),
        ("suppressed token", |m| m["generation"]["suppress"][0] = json!(u32::MAX), &["generation.suppress"]),
        ("temperature", |m| m["generation"]["temperature"] = json!(-1.0), &["temperature is -1"]),
        (
            "infinite temperature",
            |m| m["generation"]["temperature"] = json!(1e300),
            &["JSON", "out of range"],
        ),
        ("top_p", |m| m["generation"]["top_p"] = json!(1.5), &["top_p is 1.5"]),
        ("file hash", |m| m["provenance"]["files"][0]["sha256"] = json!(""), &["config.json"]),
        ("blob before the tensors", |m| m["blobs"][0]["offset"] = json!(16384), &["tokenizer", "offset"]),
        ("blob outside", |m| m["blobs"][2]["bytes"] = json!(1u64 << 40), &["ballast", "offset"]),
        ("blob twice", |m| m["blobs"][1]["name"] = json!("tokenizer"), &["tokenizer", "there twice"]),
        ("nameless blob", |m| m["blobs"][1]["name"] = json!(""), &["name"]),
        ("endless name", |m| m["blobs"][1]["name"] = json!("x".repeat(100_000)), &["100000 bytes", "..."]),
    ];
    let bytes = common::bytes();
    let manifest: Value = serde_json::from_slice(&bytes[common::manifest_range(&bytes)]).unwrap();
    for (label, lie, words) in lies {
        let mut manifest = manifest.clone();
        lie(&mut manifest);
        let damaged = common::with_manifest(&bytes, &serde_json::to_vec(&manifest).unwrap());
        let error = Pack::from_vec(damaged, "lie.rlp").expect_err(label).to_string();
        for word in words.iter().chain(&["lie.rlp"]) {
            assert!(error.contains(word), "{label}: {error}");
        }
        assert!(error.len() < 500, "{label}: {} bytes", error.len());
    }
    // The same road without a lie leads to an open pack.
    common::exercise(
        &Pack::from_vec(common::with_manifest(&bytes, &serde_json::to_vec(&manifest).unwrap()), "true.rlp")
            .unwrap(),
    );
}

fn array(value: &mut Value) -> &mut Vec<Value> {
    value.as_array_mut().unwrap()
}

fn add(value: &Value, more: u64) -> Value {
    json!(value.as_u64().unwrap() + more)
}

#[test]
fn manifests_that_are_no_json_are_refused() {
    let bytes = common::bytes();
    let deep = "[".repeat(1 << 20);
    let long = format!("{{\"format_version\":1,\"model\":\"{}", "x".repeat(1 << 20));
    for text in ["", "{", "null", "[]", "\u{0}", "{\"tensors\":[]}", &deep, &long] {
        let damaged = common::with_manifest(&bytes, text.as_bytes());
        let error = Pack::from_vec(damaged, "text.rlp").unwrap_err().to_string();
        assert!(error.contains("text.rlp") && error.len() < 500, "{error}");
    }
    assert!(Pack::from_vec(common::with_manifest(&bytes, &[0xff, 0xfe]), "text.rlp").is_err());
    let oversized = vec![b' '; layout::MANIFEST_LIMIT as usize + 1];
    let error =
        Pack::from_vec(common::with_manifest(&bytes, &oversized), "text.rlp").unwrap_err().to_string();
    assert!(error.contains("manifest length"), "{error}");
}

#[test]
fn numbers_that_cannot_be_used_are_refused_when_opened() {
    let bytes = common::bytes();
    let pack = Pack::from_vec(bytes.clone(), "good.rlp").unwrap();
    let nan = f32::NAN;
    let cases: &[(&str, usize, f32, &str)] = &[
        ("layers.1.q.multipliers", 5, nan, "row 5"),
        ("layers.1.q.multipliers", 0, -1.0, "row 0"),
        ("layers.3.down.multipliers", 63, f32::INFINITY, "row 63"),
        ("layers.0.k.activation_scales", 0, 0.0, "at 0"),
        ("layers.0.k.activation_scales", 1, nan, "at 1"),
        ("layers.2.ple_gate.activation_scales", 1, -0.5, "at 1"),
        ("head.scales", 71, f32::NEG_INFINITY, "row 71"),
        ("layers.0.q_norm", 3, nan, "at 3"),
        ("layers.3.layer_scalar", 0, f32::INFINITY, "at 0"),
        ("final_norm", 1, nan, "at 1"),
        ("ple.norm", 1, nan, "at 1"),
        ("layers.2.gelu", 255, nan, "at 255"),
        ("rope.full", 0, f32::INFINITY, "at 0"),
        ("drafter.layers.1.post_ffn_norm", 2, nan, "at 2"),
    ];
    for &(name, index, value, place) in cases {
        let offset = pack.tensor(name).unwrap().entry.offset as usize + index * 4;
        let mut damaged = bytes.clone();
        damaged[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        let error = Pack::from_vec(damaged, "bad.rlp").expect_err(name).to_string();
        assert!(error.contains(name) && error.contains(place), "{error}");
    }
    let ordering = pack.tensor("drafter.token_ordering").unwrap().entry.offset as usize;
    for id in [5u32, 72, u32::MAX] {
        let mut damaged = bytes.clone();
        damaged[ordering..ordering + 4].copy_from_slice(&id.to_le_bytes());
        let error = Pack::from_vec(damaged, "bad.rlp").unwrap_err().to_string();
        assert!(error.contains("drafter.token_ordering"), "{error}");
    }
}

#[test]
fn verification_checks_values_that_have_a_right_hash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.rlp");
    let nan = f32::NAN.to_le_bytes();
    let one = 1f32.to_le_bytes();
    // Tensor, byte offset, bytes, what the refusal says.
    let cases: &[(&str, usize, &[u8], &str)] = &[
        ("embed.scales", 4 * 70, &nan, "row 70"),
        ("ple.scales", 4 * 9, &nan, "row 2, column 1"),
        ("ple.scales", 0, &(-1f32).to_le_bytes(), "row 0"),
        ("layers.0.k.weight_scales", 4, &nan, "row 1"),
        ("layers.1.kv_cache_scales", 4, &nan, "at 1"),
        ("ple.model_projection", 2, &[0x80, 0x7f], "inf"),
        ("drafter.embed", 0, &[0xff, 0x7f], "NaN"),
        ("layers.2.up.multipliers", 8, &one, "derived value"),
        ("layers.1.v.activation_scales", 0, &one, "derived value"),
        ("layers.3.gelu", 0, &one, "derived value"),
        ("layers.0.ple_gelu", 4 * 255, &one, "derived value"),
        ("rope.sliding", 4, &one, "derived value"),
        ("drafter.rope.full", 4, &one, "derived value"),
        ("head.codes", 64 * 16 + 63 * 4, &[0xff], "code behind the last row"),
    ];
    for &(name, at, bytes, words) in cases {
        common::write_with(&path, common::head(), |spec, content| {
            if spec.name == name {
                content[at..at + bytes.len()].copy_from_slice(bytes);
            }
        })
        .unwrap();
        let error = Pack::open(&path).unwrap().verify(|_| {}).expect_err(name).to_string();
        let tensor = if name.ends_with("v.activation_scales") { "layers.1.v." } else { name };
        assert!(error.contains(tensor) && error.contains(words), "{error}");
    }
}

#[test]
fn zero_weight_scales_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.rlp");
    common::write_with(&path, common::head(), |spec, content| {
        if ["head.scales", "layers.0.o.weight_scales", "layers.0.o.multipliers"].contains(&spec.name.as_str())
        {
            content[..8].fill(0);
        }
    })
    .unwrap();
    assert_eq!(Pack::open(&path).unwrap().verify(|_| {}).unwrap().zero_scales, 4);
}
