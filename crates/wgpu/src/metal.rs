//! What Metal gets: every kernel as naga translates it, compared with the committed text.
//!
//! Nobody runs these here; a change of a kernel or of naga shows in the text, and a kernel that Metal could not have does not translate. `RAWLOOP_UPDATE=1`
//! writes the files anew.

use naga::back::msl;
use naga::valid::{Capabilities, ValidationFlags, Validator};

use crate::shaders::{KERNELS, Variant, text};

/// Constants of one form of each kernel.
fn constants(name: &str) -> &'static [(&'static str, u32)] {
    match name {
        "gather" => &[("BITS", 4)],
        "project" => &[("COLUMNS", 4), ("EARLY", 0)],
        "layer_inputs" => &[("WIDTH", 256)],
        "enter" | "limbs" => &[("HIDDEN", 1536), ("EARLY_ENTRY", 1)],
        "linear" | "layer_gate" | "qkv" => {
            &[("BITS", 4), ("SLICES", 64), ("COLUMNS", 1), ("LOADS", 4), ("EARLY", 1), ("INPUTS", 1536)]
        }
        "merge_linear" => &[
            ("BITS", 4),
            ("SLICES", 64),
            ("COLUMNS", 1),
            ("LOADS", 4),
            ("EARLY", 1),
            ("INPUTS", 2048),
            ("HEADS", 8),
            ("DIM", 256),
            ("MERGED", 16),
        ],
        "enter_layer_gate" | "enter_qkv" => &[
            ("BITS", 4),
            ("SLICES", 64),
            ("COLUMNS", 1),
            ("LOADS", 3),
            ("EARLY", 1),
            ("INPUTS", 1536),
            ("HIDDEN", 1536),
            ("EARLY_ENTRY", 1),
            ("ENTERED", 196_608),
        ],
        "enter_gate_up" => &[
            ("BITS", 2),
            ("BITS_UP", 2),
            ("SLICES", 64),
            ("COLUMNS", 1),
            ("LOADS", 2),
            ("EARLY", 1),
            ("INPUTS", 1536),
            ("HIDDEN", 1536),
            ("EARLY_ENTRY", 1),
            ("ENTERED", 196_608),
        ],
        "gate_up" => &[
            ("BITS", 2),
            ("BITS_UP", 2),
            ("SLICES", 16),
            ("COLUMNS", 8),
            ("LOADS", 1),
            ("EARLY", 0),
            ("INPUTS", 0),
        ],
        "heads" => &[("FORMAT", 1)],
        "attend" | "heads_attend" => &[("FORMAT", 1), ("HEADS", 4), ("DIM", 256)],
        "spread" | "heads_spread" => &[("FORMAT", 1), ("HEADS", 2), ("DIM", 256), ("STAGED", 32)],
        "merge" => &[("DIM", 256), ("EARLY", 1)],
        "head" => &[("SLICES", 16), ("COLUMNS", 4), ("LOGITS", 1)],
        "pick" => &[("CHAIN", 1)],
        _ => &[],
    }
}

fn translate(wgsl: &str) -> String {
    let module =
        naga::front::wgsl::parse_str(wgsl).unwrap_or_else(|error| panic!("{}", error.emit_to_string(wgsl)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module);
    let info = info.unwrap_or_else(|error| panic!("{}", error.emit_to_string(wgsl)));
    let options = msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..Default::default() };
    let pipeline = msl::PipelineOptions::default();
    msl::write_string(&module, &info, &options, &pipeline).unwrap().0
}

#[test]
fn every_kernel_is_what_is_committed() {
    let update = std::env::var_os("RAWLOOP_UPDATE").is_some();
    for kernel in &KERNELS {
        for (arithmetic, variant) in [
            ("", Variant { native_fused: true, native_half: true, reassociates: true }),
            ("-soft", Variant { native_fused: false, native_half: false, reassociates: false }),
        ] {
            let wgsl = text(kernel, variant, constants(kernel.name));
            let metal = translate(&wgsl);
            if !arithmetic.is_empty() {
                // The other arithmetic translates too; one text of it is enough.
                continue;
            }
            let path = format!("goldens/{}.metal", kernel.name);
            if update {
                std::fs::write(&path, &metal).unwrap();
            }
            let committed = std::fs::read_to_string(&path).unwrap();
            assert!(
                committed == metal,
                "{path} is not what its kernel gives; RAWLOOP_UPDATE=1 writes it anew"
            );
        }
    }
}
