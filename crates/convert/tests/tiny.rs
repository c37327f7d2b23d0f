//! The shipped checkpoint converts, the same way every time, and the pack holds its numbers.

mod common;

use common::{Tensors, convert_folder, open, tiny, tiny_copy};
use rawloop_convert::source::TensorSource;
use rawloop_convert::{Names, safetensors::Checkpoint};
use rawloop_spec::config::Module;
use rawloop_spec::{contract, presets, tile};

fn single(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn tiny_converts_twice_to_the_same_bytes() {
    let (first, second) = (tiny_copy(), tiny_copy());
    let report = convert_folder(first.path(), true).unwrap();
    convert_folder(second.path(), true).unwrap();
    let bytes = std::fs::read(first.path().join("out.rlp")).unwrap();
    assert_eq!(bytes, std::fs::read(second.path().join("out.rlp")).unwrap());

    let manifest = &report.manifest;
    let preset = presets::by_name("tiny").unwrap();
    assert_eq!(manifest.geometry, preset.geometry());
    assert_eq!(manifest.drafter, Some(preset.drafter(false)));
    assert!(!manifest.model.synthetic);
    assert_eq!(manifest.generation.eos, [1, 106, 50]);
    assert_eq!((manifest.generation.temperature, manifest.generation.top_k), (1.0, 64));
    assert_eq!(manifest.provenance.zero_scales, 0);
    // Layers that read a producer's K/V carry its cache scales again.
    assert_eq!(manifest.provenance.skipped.get("dead_kv"), Some(&10));
    let names: Vec<&str> = manifest.provenance.files.iter().map(|file| file.name.as_str()).collect();
    let expected = [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "assistant/config.json",
        "assistant/generation_config.json",
        "assistant/model.safetensors",
    ];
    assert_eq!(names, expected);
    let pack = open(&first.path().join("out.rlp"));
    pack.verify(|_| {}).unwrap();
    assert!(rawloop_tokenizer::Tokenizer::load(pack.blob("tokenizer").unwrap().to_vec()).is_ok());
}

#[test]
fn every_linear_of_the_pack_has_the_weights_of_the_checkpoint() {
    let folder = tiny_copy();
    convert_folder(folder.path(), false).unwrap();
    let pack = open(&folder.path().join("out.rlp"));
    let mut source = Tensors::read(&tiny().join("checkpoint/model.safetensors"));
    let names = Names::multimodal();
    let geometry = pack.geometry().clone();
    let mut compared = 0;
    for layer in 0..geometry.layers.len() {
        for kind in geometry.linears(layer) {
            let module = names.module(Module::Linear(layer, kind));
            let (rows, columns) = geometry.linear_shape(layer, kind);
            let bits = geometry.layers[layer].bits.get(kind);
            let packed = |part: &str| format!("layers.{layer}.{}.{part}", kind.name());
            let codes = pack.codes(&packed("codes")).unwrap();
            let scales = pack.f32(&packed("weight_scales")).unwrap();
            let multipliers = pack.f32(&packed("multipliers")).unwrap();
            let activation = pack.f32(&packed("activation_scales")).unwrap();
            let stored = source.get(&format!("{module}.weight")).clone();
            let stored_scales = single(&source.get(&format!("{module}.weight_scale")).bytes);
            let input = single(&source.get(&format!("{module}.input_activation_scale")).bytes)[0];
            let output = single(&source.get(&format!("{module}.output_activation_scale")).bytes)[0];
            assert_eq!(activation, [input, output]);
            for row in (0..rows).step_by(5).chain([rows - 1]) {
                assert_eq!(multipliers[row], input * stored_scales[row]);
                for column in 0..columns {
                    // The checkpoint's own rule, spelled out: packed unsigned low bits first, or two's complement.
                    let per_byte = 8 / bits.width();
                    let byte = stored.bytes[row * columns / per_byte + column / per_byte];
                    let value = match bits.width() {
                        8 => i32::from(byte as i8),
                        width => {
                            let shift = column % per_byte * width;
                            (i32::from(byte) >> shift & ((1 << width) - 1)) - (1 << (width - 1))
                        }
                    };
                    let code = i32::from(tile::code(codes, bits, columns, row, column)) - bits.zero_point();
                    assert_eq!(
                        code as f32 * scales[row],
                        value as f32 * stored_scales[row],
                        "{module} {row} {column}"
                    );
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 400_000, "{compared}");
}

#[test]
fn tables_norms_and_gathered_rows_are_the_checkpoints() {
    let folder = tiny_copy();
    convert_folder(folder.path(), false).unwrap();
    let pack = open(&folder.path().join("out.rlp"));
    let mut source = Tensors::read(&tiny().join("checkpoint/model.safetensors"));
    let text = |rest: &str| format!("model.language_model.{rest}");
    for (packed, stored) in [("embed", "embed_tokens"), ("ple", "embed_tokens_per_layer")] {
        let codes = &source.get(&text(&format!("{stored}.embedding_quantized"))).bytes;
        assert_eq!(pack.codes(&format!("{packed}.codes")).unwrap(), codes);
        let scales = single(&source.get(&text(&format!("{stored}.embedding_scale"))).bytes);
        assert_eq!(pack.f32(&format!("{packed}.scales")).unwrap(), scales);
    }
    let widened = |bytes: &[u8]| -> Vec<f32> {
        let half = |pair: &[u8]| contract::bf16_to_f32(u16::from_le_bytes([pair[0], pair[1]]));
        bytes.chunks_exact(2).map(half).collect()
    };
    for (packed, stored) in [
        ("layers.3.post_ffn_norm", "layers.3.post_feedforward_layernorm.weight"),
        ("layers.4.k_norm", "layers.4.self_attn.k_norm.weight"),
        ("layers.9.layer_scalar", "layers.9.layer_scalar"),
        ("ple.norm", "per_layer_projection_norm.weight"),
        ("final_norm", "norm.weight"),
    ] {
        assert_eq!(pack.f32(packed).unwrap(), widened(&source.get(&text(stored)).bytes));
    }
    let gate = single(&source.get(&text("layers.2.mlp.gate_proj.output_activation_scale")).bytes)[0];
    assert_eq!(pack.f32("layers.2.gelu").unwrap(), contract::gelu_table(gate));
    let caches = ["k_cache_scale", "v_cache_scale"]
        .map(|name| single(&source.get(&text(&format!("layers.4.self_attn.{name}"))).bytes)[0]);
    assert_eq!(pack.f32("layers.4.kv_cache_scales").unwrap(), caches);
    assert_eq!(pack.f32("rope.full").unwrap(), contract::inverse_frequencies(1e6, 128, 16));
    assert_eq!(pack.f32("rope.sliding").unwrap(), contract::inverse_frequencies(1e4, 64, 32));
}

#[test]
fn reads_of_a_checkpoint_are_bounded() {
    let checkpoint = Checkpoint::open(&tiny().join("checkpoint")).unwrap();
    let name = "model.language_model.norm.weight";
    let mut bytes = [0; 512];
    checkpoint.read(name, 0, &mut bytes).unwrap();
    let error = checkpoint.read(name, 2, &mut bytes).unwrap_err().to_string();
    assert!(error.contains(name) && error.contains("512"), "{error}");
    assert!(checkpoint.read("nothing", 0, &mut bytes).is_err());
}
