//! The reference's drafter against Transformers' candidate generator, from clean target states.

mod common;

use common::{DRAFTER, MODEL, goldens, sha256};
use rawloop_ref::{KvCache, KvFormat};
use rawloop_spec::tap::NoTap;
use rawloop_testkit::goldens::{Drafts, check_hash, read, repository};

/// A draft whose best and second logit are nearer than this may fall either way.
const NEAR_TIE: f32 = 1e-3;

#[test]
fn drafts_equal_transformers() {
    let path = goldens("tiny").join("drafter.json");
    let golden: Drafts = read(&path).unwrap();
    let root = repository();
    check_hash(
        &path,
        &golden.checkpoint_sha256,
        &sha256(&root.join("models/tiny/checkpoint/model.safetensors")),
    )
    .unwrap();
    check_hash(
        &path,
        &golden.assistant_sha256,
        &sha256(&root.join("models/tiny/assistant/model.safetensors")),
    )
    .unwrap();
    let mut compared = 0;
    for transcript in &golden.transcripts {
        let mut cache = KvCache::new(&MODEL.geometry, KvFormat::F32);
        for step in &transcript.steps {
            let (seen, token) = (step.accepted - 1, transcript.ids[step.accepted - 1]);
            let mut hidden = Vec::new();
            for &id in &transcript.ids[cache.len()..seen] {
                hidden = MODEL.forward(&mut cache, id, &mut NoTap).unwrap().final_norm;
            }
            let drafts = DRAFTER.draft(&MODEL, &cache, token, &hidden, step.drafts.len());
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
    println!("{compared} drafts equal Transformers'");
    assert!(compared >= 50, "only {compared} drafts compared");
}
