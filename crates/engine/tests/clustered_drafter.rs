//! The clustered vocabulary head of the small models' drafters, through the engine: a draft is one of the tokens of the chosen
//! clusters or it is none, answers stay what they are, and a drafter without its ordering is no drafter.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rawloop_convert::{ConvertOptions, SynthOptions, convert, synth};
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::backend::{Backend, StepOutput, Wanted, Work};
use rawloop_engine::{Draft, GenerateOptions, Model, Session};
use rawloop_pack::Pack;
use serde_json::Value;
use support::{Random, answer};

const CENTROIDS: &str = "masked_embedding.centroids.weight";
const ORDERING: &str = "masked_embedding.token_ordering";

/// A checkpoint with an assistant that has the clustered head.
fn checkpoint(folder: &Path) {
    let options = SynthOptions {
        as_checkpoint: true,
        assistant: true,
        ordered: true,
        ..SynthOptions::pack("tiny-e4b", folder.join("checkpoint"))
    };
    synth(&options, &mut ()).unwrap();
}

fn pack(folder: &Path) -> Result<Arc<Pack>, String> {
    let checkpoint = folder.join("checkpoint");
    let options = ConvertOptions {
        assistant: Some(checkpoint.join("assistant")),
        checkpoint,
        output: folder.join("model.rlp"),
        ..ConvertOptions::default()
    };
    convert(&options, &mut ()).map_err(|error| error.to_string())?;
    Ok(Arc::new(Pack::open(&options.output).unwrap()))
}

/// Changes the header and the bytes of the assistant's weights.
fn change(folder: &Path, change: impl FnOnce(&mut Value, &mut [u8])) {
    let path = folder.join("checkpoint/assistant/model.safetensors");
    let mut file = std::fs::read(&path).unwrap();
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
    change(&mut header, &mut file[8 + length..]);
    let header = header.to_string().into_bytes();
    let whole = [&(header.len() as u64).to_le_bytes()[..], &header, &file[8 + length..]].concat();
    std::fs::write(&path, whole).unwrap();
}

fn backend(pack: &Arc<Pack>) -> CpuBackend {
    let options = CpuOptions { threads: Some(1), context: 256, ..CpuOptions::default() };
    CpuBackend::open(Arc::clone(pack), &options).unwrap()
}

/// Case 74: where all clusters are equally good the first ones are chosen, and then no draft is a token of another one.
#[test]
fn no_draft_is_a_token_outside_of_the_chosen_clusters() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path());
    let config = std::fs::read(folder.path().join("checkpoint/assistant/config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let count = |name: &str| config[name].as_u64().unwrap() as usize;
    let (clusters, chosen) = (count("num_centroids"), count("centroid_intermediate_top_k"));
    let drafts = |pack: &Arc<Pack>| {
        let (mut backend, mut random) = (backend(pack), Random(4));
        let mut all = BTreeSet::new();
        for _ in 0..30 {
            let sequence = backend.create().unwrap();
            let tokens: Vec<u32> = (0..6).map(|_| random.below(1024) as u32).collect();
            let work = Work { sequence, tokens: &tokens, wanted: Wanted::LastPick };
            let (mut output, mut drafts) = (StepOutput::default(), Vec::new());
            backend.step(&[work], &mut output).unwrap();
            backend.draft(sequence, output.picks[0], 7, &mut drafts).unwrap();
            assert_eq!(drafts.len(), 7);
            all.extend(drafts);
            backend.free(sequence);
        }
        all
    };
    let free = drafts(&pack(folder.path()).unwrap());
    change(folder.path(), |header, bytes| {
        let place: Vec<usize> = serde_json::from_value(header[CENTROIDS]["data_offsets"].clone()).unwrap();
        bytes[place[0]..place[1]].fill(0);
    });
    let pack = pack(folder.path()).unwrap();
    let ordering = pack.u32("drafter.token_ordering").unwrap();
    let first: BTreeSet<u32> = ordering[..chosen * ordering.len() / clusters].iter().copied().collect();
    assert!(chosen < clusters && first.len() < ordering.len() / 2, "{chosen} of {clusters}");
    let bound = drafts(&pack);
    assert!(bound.is_subset(&first) && bound.len() > 1, "{bound:?} in {first:?}");
    assert!(!free.is_subset(&first), "otherwise they are not the first ones: {free:?}");
}

/// Case 75 with this head: the answer is the one without drafts, at every depth.
#[test]
fn answers_are_the_same_with_the_clustered_head() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path());
    let model = Arc::new(Model::open(pack(folder.path()).unwrap()).unwrap());
    let mut session = Session::new(Arc::clone(&model), Box::new(backend(model.pack()))).unwrap();
    for seed in 0..4 {
        let mut random = Random(seed);
        let prompt: Vec<u32> = (0..12).map(|_| random.below(1024) as u32).collect();
        let with = |draft| GenerateOptions { draft, ignore_eos: true, ..GenerateOptions::greedy(60) };
        let plain = answer(&mut session, &prompt, &with(Draft::Off));
        for depth in [1, 3, 7] {
            let drafted = answer(&mut session, &prompt, &with(Draft::Fixed(depth)));
            assert!(drafted.timings.verify_steps > 0);
            assert_eq!(drafted.ids, plain.ids, "seed {seed}, depth {depth}");
        }
    }
}

/// Case 74: what the head needs and does not find is named when the checkpoint is read.
#[test]
fn a_head_without_its_ordering_or_its_centroids_is_refused() {
    for name in [ORDERING, CENTROIDS] {
        let folder = tempfile::tempdir().unwrap();
        checkpoint(folder.path());
        change(folder.path(), |header, _| {
            let tensor = header.as_object_mut().unwrap().remove(name).unwrap();
            header["something.else"] = tensor;
        });
        let error = pack(folder.path()).unwrap_err();
        assert!(error.contains(name), "{error}");
    }
}
