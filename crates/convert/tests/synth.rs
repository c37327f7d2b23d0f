//! Synthetic models: the pack made directly is the one that conversion of the synthetic checkpoint gives.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Tensors, convert_folder, listing, open};
use rawloop_convert::{ConvertError, ConvertOptions, Phase, Progress, SynthOptions, convert, synth};
use rawloop_pack::compare;
use rawloop_spec::presets;
use sha2::{Digest, Sha256};

fn options<'a>(shape: &str, folder: &Path, as_checkpoint: bool) -> SynthOptions<'a> {
    let output = folder.join(if as_checkpoint { "checkpoint" } else { "direct.rlp" });
    SynthOptions { as_checkpoint, ..SynthOptions::pack(shape, output) }
}

#[test]
fn direct_pack_and_converted_checkpoint_are_equal() {
    for (shape, assistant, ordered, shards) in [
        ("tiny-e4b", false, false, 1),
        ("tiny-e4b", true, true, 3),
        ("narrow-e2b", true, false, 1),
        ("narrow-e2b", true, true, 2),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let with = |options| SynthOptions { assistant, ordered, shards, seed: 7, ..options };
        let report = synth(&with(options(shape, folder.path(), false)), &mut ()).unwrap();
        assert_eq!(report.name, format!("synthetic-{shape}-seed7"));
        synth(&with(options(shape, folder.path(), true)), &mut ()).unwrap();
        if assistant {
            std::fs::rename(folder.path().join("checkpoint/assistant"), folder.path().join("assistant"))
                .unwrap();
        }
        let converted = convert_folder(folder.path(), assistant).unwrap().manifest;
        let direct = open(&folder.path().join("direct.rlp"));
        let report = compare(&direct, &open(&folder.path().join("out.rlp")));
        assert!(report.tensors_equal(), "{shape}: {report:?}");
        assert!(report.blobs.is_empty(), "{:?}", report.blobs);
        assert_eq!(report.manifest, ["provenance"], "only the list of files differs");
        let mut direct = direct.manifest().clone();
        direct.provenance.files.clone_from(&converted.provenance.files);
        assert_eq!(direct, converted);
        assert!(direct.model.synthetic);
        assert_eq!(direct.geometry, presets::by_name(shape).unwrap().geometry());
        if assistant {
            assert_eq!(direct.drafter, Some(presets::by_name(shape).unwrap().drafter(ordered)));
        }
    }
}

#[test]
fn every_small_preset_verifies_and_seeds_differ() {
    let folder = tempfile::tempdir().unwrap();
    for preset in ["tiny", "tiny-e4b", "narrow-e2b"] {
        let path = folder.path().join(format!("{preset}.rlp"));
        synth(&SynthOptions::pack(preset, path.clone()), &mut ()).unwrap();
        open(&path).verify(|_| {}).unwrap();
        let other = folder.path().join("other.rlp");
        synth(&SynthOptions { seed: 2, ..SynthOptions::pack(preset, other.clone()) }, &mut ()).unwrap();
        let report = compare(&open(&path), &open(&other));
        assert_eq!(report.families["layers.N.q.codes"].equal, 0);
        assert_eq!(report.families["rope.full"].equal, 1);
    }
}

#[test]
fn shards_hold_the_tensors_of_the_single_file() {
    let (single, sharded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    synth(&options("tiny-e4b", single.path(), true), &mut ()).unwrap();
    synth(&SynthOptions { shards: 4, ..options("tiny-e4b", sharded.path(), true) }, &mut ()).unwrap();
    let whole = Tensors::read(&single.path().join("checkpoint/model.safetensors"));
    let mut found = 0;
    for name in listing(&sharded.path().join("checkpoint")) {
        if name.ends_with(".safetensors") {
            for (name, tensor) in Tensors::read(&sharded.path().join("checkpoint").join(name)).tensors {
                assert_eq!(tensor.bytes, whole.tensors[&name].bytes, "{name}");
                found += 1;
            }
        }
    }
    assert_eq!(found, whole.tensors.len());
}

/// Goldens of other crates were made from these bytes: whoever changes the generator makes them again (goldens/make.sh).
#[test]
fn seed_1_gives_the_bytes_that_goldens_were_made_from() {
    for (shape, target) in [
        ("tiny-e4b", "df5766c81996939ad589f423f7732e4e28fca7cbc32ad7e5cd41bb1b3a7135bd"),
        ("narrow-e2b", "4d0878fec8d9b60688394826883e3d3a1ec3f392cb659e3287173aad37a4c2b2"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let options = SynthOptions { assistant: true, ordered: true, ..options(shape, folder.path(), true) };
        synth(&options, &mut ()).unwrap();
        let assistant = "e07fccc7abc114ae943c82873ebd9cc45070bc9ead146a16dbba350221e808b1";
        for (file, expected) in [("model.safetensors", target), ("assistant/model.safetensors", assistant)] {
            let bytes = std::fs::read(folder.path().join("checkpoint").join(file)).unwrap();
            let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, expected, "{shape} {file}");
        }
    }
}

#[test]
fn a_config_file_is_a_shape() {
    let folder = tempfile::tempdir().unwrap();
    let config = common::tiny().join("checkpoint/config.json");
    let shape = config.to_str().unwrap();
    let options = SynthOptions {
        assistant: true,
        ordered: true,
        ..SynthOptions::pack(shape, folder.path().join("out.rlp"))
    };
    let report = synth(&options, &mut ()).unwrap();
    assert_eq!(report.name, "synthetic-checkpoint-seed1");
    let manifest = report.manifest.unwrap();
    assert_eq!(manifest.geometry, presets::by_name("tiny").unwrap().geometry());
    assert_eq!(manifest.drafter.unwrap().ordered.unwrap().centroids, 128);
    let error =
        synth(&SynthOptions::pack("e3b", folder.path().join("x.rlp")), &mut ()).unwrap_err().to_string();
    assert!(error.contains("e3b") && error.contains("narrow-e2b"), "{error}");
}

#[test]
fn an_existing_checkpoint_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    synth(&options("tiny-e4b", folder.path(), true), &mut ()).unwrap();
    let error = synth(&options("tiny-e4b", folder.path(), true), &mut ()).unwrap_err();
    assert!(matches!(error, ConvertError::Occupied(_)), "{error}");
}

/// Sets the flag in the middle of the tensors.
struct Stop<'a> {
    flag: &'a AtomicBool,
    tensors: bool,
    bytes: u64,
}

impl Progress for Stop<'_> {
    fn phase(&mut self, phase: Phase, _: u64) {
        self.tensors = phase == Phase::Tensors;
    }

    fn advance(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.tensors && self.bytes > 100_000 {
            self.flag.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_cancelled_run_leaves_nothing() {
    let flag = AtomicBool::new(false);
    let stop = || {
        flag.store(false, Ordering::Relaxed);
        Stop { flag: &flag, tensors: false, bytes: 0 }
    };
    let folder = tempfile::tempdir().unwrap();
    for as_checkpoint in [false, true] {
        let options = SynthOptions { cancel: Some(&flag), ..options("tiny", folder.path(), as_checkpoint) };
        let error = synth(&options, &mut stop()).unwrap_err();
        assert!(matches!(error, ConvertError::Cancelled), "{error}");
        assert_eq!(listing(folder.path()), Vec::<String>::new());
    }
    let old = folder.path().join("out.rlp");
    std::fs::write(&old, "the pack before").unwrap();
    let options = ConvertOptions {
        checkpoint: common::tiny().join("checkpoint"),
        output: old.clone(),
        cancel: Some(&flag),
        ..ConvertOptions::default()
    };
    let error = convert(&options, &mut stop()).unwrap_err();
    assert!(matches!(error, ConvertError::Cancelled), "{error}");
    assert_eq!(listing(folder.path()), ["out.rlp"]);
    assert_eq!(std::fs::read_to_string(old).unwrap(), "the pack before");
}
