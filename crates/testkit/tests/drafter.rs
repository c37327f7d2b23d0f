//! The reference's drafter against Transformers' candidate generator, from clean target states.

mod common;

use std::path::Path;

use common::{DRAFTER, MODEL, goldens, sha256};
use rawloop_convert::{ConvertOptions, SynthOptions, convert, synth};
use rawloop_pack::Pack;
use rawloop_ref::{Drafter, KvCache, KvFormat, Model};
use rawloop_spec::tap::NoTap;
use rawloop_testkit::goldens::{Drafts, check_hash, read, repository};

/// A draft whose best and second logit are nearer than this may fall either way.
const NEAR_TIE: f32 = 1e-3;

/// Checks every recorded step of a model's drafter; the number of drafts that were compared.
fn compare(golden: &Drafts, model: &Model, drafter: &Drafter) -> usize {
    let mut compared = 0;
    for transcript in &golden.transcripts {
        let mut cache = KvCache::new(&model.geometry, KvFormat::F32);
        for step in &transcript.steps {
            let (seen, token) = (step.accepted - 1, transcript.ids[step.accepted - 1]);
            let mut hidden = Vec::new();
            for &id in &transcript.ids[cache.len()..seen] {
                hidden = model.forward(&mut cache, id, &mut NoTap).unwrap().final_norm;
            }
            let drafts = drafter.draft(model, &cache, token, &hidden, step.drafts.len());
            for (index, draft) in drafts.iter().enumerate() {
                if step.margins[index] < NEAR_TIE {
                    break;
                }
                assert_eq!(
                    draft.token, step.drafts[index],
                    "transcript {}, {} accepted, draft {index}",
                    transcript.transcript, step.accepted
                );
                compared += 1;
            }
        }
    }
    compared
}

fn golden(name: &str, weights: &Path, assistant: &Path) -> Drafts {
    let path = goldens(name).join("drafter.json");
    let golden: Drafts = read(&path).unwrap();
    check_hash(&path, &golden.checkpoint_sha256, &sha256(weights)).unwrap();
    check_hash(&path, &golden.config_sha256, &sha256(&weights.with_file_name("config.json"))).unwrap();
    check_hash(&path, &golden.assistant_sha256, &sha256(assistant)).unwrap();
    golden
}

#[test]
fn tiny_drafts_equal_transformers() {
    let tiny = repository().join("models/tiny");
    let (weights, assistant) =
        (tiny.join("checkpoint/model.safetensors"), tiny.join("assistant/model.safetensors"));
    let compared = compare(&golden("tiny", &weights, &assistant), &MODEL, &DRAFTER);
    println!("{compared} drafts equal Transformers'");
    assert!(compared >= 50, "only {compared} drafts compared");
}

/// Two KV heads, past the window, and the clustered head.
#[test]
fn clustered_drafts_equal_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("checkpoint");
    let shape = SynthOptions::pack("tiny-e4b", checkpoint.clone());
    synth(&SynthOptions { as_checkpoint: true, assistant: true, ordered: true, ..shape }, &mut ()).unwrap();
    let options = ConvertOptions {
        checkpoint: checkpoint.clone(),
        assistant: Some(checkpoint.join("assistant")),
        output: folder.path().join("model.rlp"),
        ..ConvertOptions::default()
    };
    convert(&options, &mut ()).unwrap();
    let pack = Pack::open(&options.output).unwrap();
    let (weights, assistant) =
        (checkpoint.join("model.safetensors"), checkpoint.join("assistant/model.safetensors"));
    let golden = golden("tiny-e4b", &weights, &assistant);
    let compared = compare(&golden, &Model::load(&pack).unwrap(), &Drafter::load(&pack).unwrap());
    println!("{compared} clustered drafts equal Transformers'");
    assert!(compared >= 20, "only {compared} drafts compared");
}
