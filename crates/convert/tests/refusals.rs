//! What a damaged or foreign checkpoint is told: the culprit by name, and no pack is left.

mod common;

use std::path::Path;

use common::{Tensor, Tensors, convert_folder, edit, edit_json, open, refused, tiny_copy, write_raw};
use rawloop_convert::{ConvertOptions, Origin, SynthOptions, convert, synth};
use rawloop_pack::compare;
use serde_json::{Value, json};

const TEXT: &str = "model.language_model.";

fn layer(rest: &str) -> String {
    format!("{TEXT}layers.{rest}")
}

/// A copy of tiny with one change to its weights is refused with these words.
#[track_caller]
fn weights_refused(change: impl FnOnce(&mut Tensors), words: &[&str]) {
    let folder = tiny_copy();
    edit(folder.path(), change);
    refused(folder.path(), false, words);
}

#[track_caller]
fn config_refused(change: impl FnOnce(&mut Value), words: &[&str]) {
    let folder = tiny_copy();
    edit_json(&folder.path().join("checkpoint/config.json"), change);
    refused(folder.path(), false, words);
}

#[test]
fn missing_and_surplus_tensors() {
    let name = layer("3.mlp.up_proj.weight");
    weights_refused(
        |tensors| drop(tensors.tensors.remove(&name)),
        &["1 expected tensors are missing", &name],
    );
    let many = |tensors: &mut Tensors| tensors.tensors.retain(|name, _| !name.ends_with("layer_scalar"));
    weights_refused(many, &["10 expected tensors", "layers.0.layer_scalar", "and 5 more"]);
    let extra = Tensor { dtype: "F32".into(), shape: vec![2], bytes: vec![0; 8] };
    let name = layer("2.self_attn.q_proj.bias");
    weights_refused(
        |tensors| drop(tensors.tensors.insert(name.clone(), extra.clone())),
        &["1 tensors have no place", &name],
    );
    // A layer that owns its K/V has no norm weight for v; in one that does not it is dead and skipped.
    let name = layer("1.self_attn.v_norm.weight");
    weights_refused(|tensors| drop(tensors.tensors.insert(name.clone(), extra.clone())), &[&name]);
}

#[test]
fn towers_and_dead_tensors_are_skipped_and_counted() {
    let folder = tiny_copy();
    let extra = Tensor { dtype: "F32".into(), shape: vec![2], bytes: vec![0; 8] };
    edit(folder.path(), |tensors| {
        for name in [
            "model.vision_tower.a",
            "model.vision_tower.b",
            "model.embed_vision.c",
            "model.audio_tower.d",
            "model.embed_audio.e",
            &layer("7.self_attn.k_proj.weight"),
            &layer("7.self_attn.v_norm.weight"),
        ] {
            tensors.tensors.insert(name.into(), extra.clone());
        }
    });
    let skipped = convert_folder(folder.path(), false).unwrap().manifest.provenance.skipped;
    assert_eq!(skipped, [("audio".into(), 2), ("dead_kv".into(), 12), ("vision".into(), 3)].into());
}

#[test]
fn types_shapes_and_widths() {
    let name = layer("0.input_layernorm.weight");
    let change = |tensors: &mut Tensors| tensors.get(&name).dtype = "F16".into();
    weights_refused(change, &[&name, "expected BF16 or F32", "found F16", "model.safetensors"]);
    let change = |tensors: &mut Tensors| tensors.get("lm_head.weight_scale").shape = vec![64, 64];
    weights_refused(change, &["lm_head.weight_scale", "[4096, 1]", "[64, 64]"]);
    // Same number of bytes, half as many rows: a shape, not a width.
    let name = layer("0.mlp.down_proj.weight");
    let change = |tensors: &mut Tensors| tensors.get(&name).shape = vec![128, 512];
    weights_refused(change, &[&name, "[256, 256]", "[128, 512]"]);
    let change = |tensors: &mut Tensors| {
        let tensor = tensors.get(&name);
        tensor.shape[1] /= 2;
        tensor.bytes.truncate(tensor.bytes.len() / 2);
    };
    weights_refused(
        change,
        &[&name, "4 bits a code, as quantization_config says", "2 bits a code (128 bytes"],
    );
    // The configuration says something else than the file.
    let change = |config: &mut Value| {
        config["quantization_config"]["module_quant_configs"]["language_model\\.layers\\.[0-4]\\.mlp\\."]["num_bits"] =
            json!(2);
    };
    config_refused(change, &["layers.0.mlp", "2 bits a code, as quantization_config", "4 bits a code"]);
}

#[test]
fn values_the_contract_refuses() {
    let name = layer("2.self_attn.o_proj.weight_scale");
    weights_refused(|tensors| tensors.set_f32(&name, 9, f32::NAN), &[&name, "NaN", "9"]);
    weights_refused(|tensors| tensors.set_f32(&name, 3, -0.5), &[&name, "-0.5 in row 3"]);
    let name = format!("{TEXT}embed_tokens_per_layer.embedding_scale");
    weights_refused(|tensors| tensors.set_f32(&name, 77, f32::INFINITY), &[&name, "inf", "77"]);
    let name = layer("2.self_attn.o_proj.input_activation_scale");
    weights_refused(|tensors| tensors.set_f32(&name, 0, 0.0), &[&name, "above 0", "only the head"]);
    weights_refused(|tensors| tensors.set_f32(&name, 0, -1.0), &[&name, "not negative", "-1"]);
    let name = layer("2.self_attn.o_proj.output_activation_scale");
    weights_refused(|tensors| tensors.set_f32(&name, 0, f32::NAN), &[&name, "NaN"]);
    let name = layer("6.post_feedforward_layernorm.weight");
    let change = |tensors: &mut Tensors| tensors.get(&name).bytes[10..12].copy_from_slice(&[0x80, 0x7f]);
    weights_refused(change, &[&name, "inf at element 5"]);
    let name = format!("{TEXT}per_layer_model_projection.weight");
    let change = |tensors: &mut Tensors| tensors.get(&name).bytes[0..2].copy_from_slice(&[0xc0, 0x7f]);
    weights_refused(change, &[&name, "NaN at element 0"]);
}

#[test]
fn zero_scales_are_counted_and_the_head_needs_no_calibration() {
    let folder = tiny_copy();
    edit(folder.path(), |tensors| {
        tensors.set_f32("lm_head.weight_scale", 17, 0.0);
        tensors.set_f32(&layer("2.mlp.up_proj.weight_scale"), 1, 0.0);
        tensors.set_f32("lm_head.input_activation_scale", 0, 0.0);
        tensors.set_f32("lm_head.output_activation_scale", 0, 0.0);
    });
    assert_eq!(convert_folder(folder.path(), false).unwrap().manifest.provenance.zero_scales, 2);
    let report = open(&folder.path().join("out.rlp")).verify(|_| {}).unwrap();
    assert_eq!(report.zero_scales, 2);
    // The scales that nothing on the exact path reads may be absent.
    edit(folder.path(), |tensors| {
        tensors.tensors.retain(|name, _| !name.contains("cache_scale") && !name.contains("lm_head.input"));
    });
    convert_folder(folder.path(), false).unwrap();
    assert_eq!(open(&folder.path().join("out.rlp")).f32("layers.0.kv_cache_scales").unwrap(), [0.0, 0.0]);
}

#[test]
fn unequal_input_scales() {
    let name = layer("4.self_attn.k_proj.input_activation_scale");
    weights_refused(
        |tensors| tensors.set_f32(&name, 0, 0.125),
        &["q, k and v share", &format!("{name} = 0.125"), "q_proj", "v_proj"],
    );
    let name = layer("8.mlp.up_proj.input_activation_scale");
    weights_refused(
        |tensors| tensors.set_f32(&name, 0, 0.25),
        &["gate and up share", &format!("{name} = 0.25"), "8.mlp.gate_proj"],
    );
}

/// The header and the data of the tiny checkpoint.
fn taken_apart(folder: &Path) -> (Value, Vec<u8>) {
    let bytes = std::fs::read(folder.join("checkpoint/model.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    (serde_json::from_slice(&bytes[8..8 + length]).unwrap(), bytes[8 + length..].to_vec())
}

#[test]
fn broken_weight_files() {
    let folder = tiny_copy();
    let path = folder.path().join("checkpoint/model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    for (kept, words) in [
        (bytes.len() - 1, ["model.safetensors", "mlp.up_proj.weight"]),
        (60_000, ["model.safetensors", "truncated"]),
        (3_000, ["model.safetensors", "truncated"]),
        (5, ["model.safetensors", "too few"]),
    ] {
        std::fs::write(&path, &bytes[..kept]).unwrap();
        refused(folder.path(), false, &[words[0]]);
        let message = convert_folder(folder.path(), false).unwrap_err().to_string();
        assert!(message.contains("tensor ") || message.contains(words[1]), "{message}");
    }
    std::fs::write(&path, u64::MAX.to_le_bytes()).unwrap();
    refused(folder.path(), false, &["header claims", "18446744073709551615"]);
    std::fs::write(&path, [8, 0, 0, 0, 0, 0, 0, 0, b'{', b'"', 0, 0, 0, 0, 0, 0]).unwrap();
    refused(folder.path(), false, &["broken safetensors header"]);

    let (header, data) = taken_apart(tiny_copy().path());
    let name = "lm_head.weight";
    let write = |change: &dyn Fn(&mut Value)| {
        let mut header = header.clone();
        change(&mut header[name]);
        write_raw(&path, &header, &data);
    };
    write(&|info| info["data_offsets"] = json!([0, 1u64 << 40]));
    refused(folder.path(), false, &[name, "outside"]);
    write(&|info| info["data_offsets"] = json!([4, 262_148]));
    refused(folder.path(), false, &["model.safetensors", "overlaps"]);
    write(&|info| info["data_offsets"] = json!([9, 3]));
    refused(folder.path(), false, &[name]);
    write(&|info| info["shape"] = json!([4096, 63]));
    refused(folder.path(), false, &[name, "does not have the 262144 bytes"]);
    write(&|info| info["shape"] = json!([u64::MAX, u64::MAX]));
    refused(folder.path(), false, &[name, "does not have"]);
    write(&|info| info["dtype"] = json!("Q9"));
    refused(folder.path(), false, &["broken safetensors header", "Q9"]);
    std::fs::remove_file(&path).unwrap();
    refused(folder.path(), false, &["model.safetensors: not found"]);
}

#[test]
fn shards_and_their_index() {
    let (folder, single) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (folder, shards) in [(&folder, 3), (&single, 1)] {
        let output = folder.path().join("checkpoint");
        synth(
            &SynthOptions { shards, as_checkpoint: true, ..SynthOptions::pack("tiny-e4b", output) },
            &mut (),
        )
        .unwrap();
        convert_folder(folder.path(), false).unwrap();
    }
    let packs = [&folder, &single].map(|folder| open(&folder.path().join("out.rlp")));
    assert!(compare(&packs[0], &packs[1]).tensors_equal());
    let manifest = packs[0].manifest();
    assert!(manifest.provenance.files.iter().any(|file| file.name == "model-00002-of-00003.safetensors"));

    let index_path = folder.path().join("checkpoint/model.safetensors.index.json");
    let index = std::fs::read(&index_path).unwrap();
    let name = "lm_head.weight_scale";
    edit_json(&index_path, |index| index["weight_map"][name] = json!("model-00003-of-00003.safetensors"));
    refused(folder.path(), false, &["index and shards disagree", name, "model-00003"]);
    edit_json(&index_path, |index| index["weight_map"][name] = json!("../model.safetensors"));
    refused(folder.path(), false, &["weight_map names", "../model.safetensors"]);
    edit_json(&index_path, |index| drop(index["weight_map"].as_object_mut().unwrap().remove(name)));
    refused(folder.path(), false, &[name, "is not in weight_map"]);
    std::fs::write(&index_path, "{").unwrap();
    refused(folder.path(), false, &["index.json", "broken JSON"]);
    std::fs::write(&index_path, &index).unwrap();
    let shard = folder.path().join("checkpoint/model-00002-of-00003.safetensors");
    let bytes = std::fs::read(&shard).unwrap();
    std::fs::write(&shard, &bytes[..bytes.len() - 100]).unwrap();
    refused(folder.path(), false, &["model-00002-of-00003.safetensors", "tensor ", "truncated"]);
    std::fs::remove_file(&shard).unwrap();
    refused(folder.path(), false, &["model-00002-of-00003.safetensors"]);
}

#[test]
fn configuration() {
    let folder = tiny_copy();
    std::fs::write(folder.path().join("checkpoint/config.json"), "{\"model_type\": ").unwrap();
    refused(folder.path(), false, &["config.json", "broken JSON", "line 1"]);
    std::fs::remove_file(folder.path().join("checkpoint/config.json")).unwrap();
    refused(folder.path(), false, &["config.json: not found"]);

    let quantization = |name: &'static str, value: Value| {
        move |config: &mut Value| config["quantization_config"][name] = value
    };
    config_refused(
        quantization("quant_method", json!("awq")),
        &["quantization_config.quant_method", "awq", "gemma"],
    );
    config_refused(quantization("num_bits", json!(3)), &["quantization_config.num_bits is 3"]);
    config_refused(|config| config["quantization_config"] = Value::Null, &["quantization_config is missing"]);
    config_refused(|config| config["model_type"] = json!("gemma3"), &["model_type", "gemma3"]);
    let text =
        |name: &'static str, value: Value| move |config: &mut Value| config["text_config"][name] = value;
    config_refused(text("hidden_size", Value::Null), &["text_config.hidden_size is missing"]);
    config_refused(
        text("hidden_size", json!("256")),
        &["text_config.hidden_size is \"256\"", "whole number"],
    );
    config_refused(text("attention_k_eq_v", json!(true)), &["attention_k_eq_v"]);
    config_refused(
        text("use_bidirectional_attention", json!("all")),
        &["use_bidirectional_attention", "all"],
    );
    config_refused(text("head_dim", json!(32)), &["shape", "self_attn"]);
    config_refused(text("per_layer_config", json!({ "3": { "window": 9 } })), &["per_layer_config.3.window"]);
    let sliding = |config: &mut Value| config["text_config"]["layer_types"][9] = json!("sliding_attention");
    config_refused(sliding, &["layer_types", "full_attention"]);
    let rope = |config: &mut Value| {
        config["text_config"]["rope_parameters"]["full_attention"]["rope_type"] = json!("yarn");
    };
    config_refused(rope, &["rope_type is yarn"]);
}

#[test]
fn both_spellings_of_the_head_dim_and_defaults() {
    let folder = tiny_copy();
    convert_folder(folder.path(), false).unwrap();
    let before = open(&folder.path().join("out.rlp")).manifest().clone();
    edit_json(&folder.path().join("checkpoint/config.json"), |config| {
        let text = config["text_config"].as_object_mut().unwrap();
        text.remove("global_head_dim");
        text.remove("max_position_embeddings");
        text.insert("per_layer_config".into(), json!({ "4": { "head_dim": 128 }, "9": { "head_dim": 128 } }));
    });
    let after = convert_folder(folder.path(), false).unwrap().manifest;
    assert_eq!(after.geometry.layers, before.geometry.layers);
    assert_eq!(after.geometry.max_context, 131_072);
    assert_eq!(after.provenance.notes, ["config.json has no max_position_embeddings; taken: 131072"]);
    // One table of rotary frequencies serves all layers of a kind.
    edit_json(&folder.path().join("checkpoint/config.json"), |config| {
        config["text_config"]["per_layer_config"]["1"] = json!({ "head_dim": 96 });
    });
    std::fs::remove_file(folder.path().join("out.rlp")).unwrap();
    refused(folder.path(), false, &["head_dim of layer 1 is 96", "64"]);
}

#[test]
fn a_text_only_checkpoint_is_the_same_model() {
    let folder = tiny_copy();
    convert_folder(folder.path(), false).unwrap();
    let text_only = tiny_copy();
    edit(text_only.path(), |tensors| {
        let renamed = std::mem::take(&mut tensors.tensors);
        let rename =
            |(name, tensor): (String, Tensor)| (name.replace("model.language_model.", "model."), tensor);
        tensors.tensors = renamed.into_iter().map(rename).collect();
    });
    edit_json(&text_only.path().join("checkpoint/config.json"), |config| {
        let mut text = config["text_config"].clone();
        let quantization =
            config["quantization_config"].to_string().replace("language_model\\\\.", "model\\\\.");
        text["quantization_config"] = serde_json::from_str(&quantization).unwrap();
        text["eos_token_id"] = json!([1, 106]);
        *config = text;
    });
    convert_folder(text_only.path(), false).unwrap();
    let packs = [&folder, &text_only].map(|folder| open(&folder.path().join("out.rlp")));
    let report = compare(&packs[0], &packs[1]);
    assert!(report.tensors_equal() && report.manifest == ["provenance"], "{report:?}");
}

#[test]
fn tokenizer_template_and_generation_defaults() {
    let folder = tiny_copy();
    let checkpoint = folder.path().join("checkpoint");
    std::fs::write(
        checkpoint.join("tokenizer_config.json"),
        r#"{"chat_template": "from the configuration"}"#,
    )
    .unwrap();
    std::fs::remove_file(checkpoint.join("generation_config.json")).unwrap();
    std::fs::write(checkpoint.join("LICENSE"), "do as you please").unwrap();
    let manifest = convert_folder(folder.path(), false).unwrap().manifest;
    let pack = open(&folder.path().join("out.rlp"));
    assert_eq!(pack.blob("chat_template").unwrap(), b"from the configuration");
    assert_eq!(pack.blob("license").unwrap(), b"do as you please");
    assert_eq!(manifest.generation.eos, [1, 106]);
    assert!(!manifest.generation.do_sample);
    std::fs::write(checkpoint.join("chat_template.jinja"), "from the file").unwrap();
    convert_folder(folder.path(), false).unwrap();
    assert_eq!(open(&folder.path().join("out.rlp")).blob("chat_template").unwrap(), b"from the file");
    std::fs::write(checkpoint.join("generation_config.json"), r#"{"eos_token_id": 106, "top_k": "many"}"#)
        .unwrap();
    refused(folder.path(), false, &["generation_config.json", "top_k", "many"]);
    std::fs::write(checkpoint.join("generation_config.json"), r#"{"eos_token_id": 106}"#).unwrap();
    assert_eq!(convert_folder(folder.path(), false).unwrap().manifest.generation.eos, [106]);
    std::fs::write(checkpoint.join("tokenizer.json"), "{}").unwrap();
    refused(folder.path(), false, &["tokenizer.json"]);
    std::fs::remove_file(checkpoint.join("tokenizer.json")).unwrap();
    refused(folder.path(), false, &["tokenizer.json: not found"]);
}

#[test]
fn an_assistant_has_to_fit() {
    let folder = tiny_copy();
    let config = folder.path().join("assistant/config.json");
    let original = std::fs::read(&config).unwrap();
    let refuse = |change: &dyn Fn(&mut Value), words: &[&str]| {
        edit_json(&config, change);
        refused(folder.path(), true, words);
        std::fs::write(&config, &original).unwrap();
    };
    refuse(&|config| config["backbone_hidden_size"] = json!(1536), &["backbone_hidden_size is 1536", "256"]);
    refuse(&|config| config["model_type"] = json!("gemma4"), &["assistant", "model_type"]);
    refuse(&|config| config["text_config"]["vocab_size"] = json!(100), &["vocab_size"]);
    refuse(
        &|config| config["use_ordered_embeddings"] = json!(true),
        &["masked_embedding.centroids.weight", "masked_embedding.token_ordering", "missing"],
    );
    refuse(
        &|config| config["text_config"]["per_layer_config"] = json!({}),
        &["K/V producer of assistant layer 3"],
    );
}

#[test]
fn a_token_ordering_is_a_permutation() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("checkpoint");
    let options = SynthOptions {
        as_checkpoint: true,
        assistant: true,
        ordered: true,
        ..SynthOptions::pack("tiny-e4b", output.clone())
    };
    synth(&options, &mut ()).unwrap();
    std::fs::rename(output.join("assistant"), folder.path().join("assistant")).unwrap();
    let path = folder.path().join("assistant/model.safetensors");
    convert_folder(folder.path(), true).unwrap();
    let wide: Vec<u32> = open(&folder.path().join("out.rlp")).u32("drafter.token_ordering").unwrap().to_vec();

    let name = "masked_embedding.token_ordering";
    let mut tensors = Tensors::read(&path);
    let narrow: Vec<u8> = wide.iter().flat_map(|id| id.to_le_bytes()).collect();
    *tensors.get(name) = Tensor { dtype: "I32".into(), shape: vec![1024], bytes: narrow };
    tensors.write(&path);
    convert_folder(folder.path(), true).unwrap();
    assert_eq!(open(&folder.path().join("out.rlp")).u32("drafter.token_ordering").unwrap(), wide);
    std::fs::remove_file(folder.path().join("out.rlp")).unwrap();
    for wrong in [wide[0] as i32, -1, 1024] {
        tensors.get(name).bytes[20..24].copy_from_slice(&wrong.to_le_bytes());
        tensors.write(&path);
        refused(folder.path(), true, &[name, &format!("{wrong} at place 5"), "every id below 1024 once"]);
    }
}

#[test]
fn the_origin_is_told_by_the_folder_or_the_caller() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("models--google--gemma-4-test/snapshots/abc123");
    std::fs::create_dir_all(snapshot.parent().unwrap()).unwrap();
    std::fs::rename(tiny_copy().path().join("checkpoint"), &snapshot).unwrap();
    let mut options = ConvertOptions {
        checkpoint: snapshot.clone(),
        output: folder.path().join("out.rlp"),
        ..ConvertOptions::default()
    };
    let manifest = convert(&options, &mut ()).unwrap().manifest;
    assert_eq!(manifest.model.name, "gemma-4-test");
    let provenance = manifest.provenance;
    assert_eq!(
        (provenance.source.as_str(), provenance.revision.as_deref()),
        ("google/gemma-4-test", Some("abc123"))
    );
    assert_eq!(provenance.license, "Apache-2.0");
    std::fs::write(snapshot.join(".rawloop-source.json"), r#"{"source": "here", "license": "MIT"}"#).unwrap();
    options.origin = Origin { revision: Some("7".into()), ..Origin::default() };
    options.name = Some("mine".into());
    let manifest = convert(&options, &mut ()).unwrap().manifest;
    let provenance = manifest.provenance;
    assert_eq!((manifest.model.name.as_str(), provenance.source.as_str()), ("mine", "here"));
    assert_eq!((provenance.revision.as_deref(), provenance.license.as_str()), (Some("7"), "MIT"));
}
