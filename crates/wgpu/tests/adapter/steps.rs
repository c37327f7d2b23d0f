//! Chunk width, batch and wanted outputs change no byte of K/V and no logit.

use std::path::Path;
use std::sync::Arc;

use rawloop_backend::{Backend, BackendError, SequenceId, StepOutput, Wanted, Work};
use rawloop_pack::Pack;
use rawloop_wgpu::{KvFormat, TablePlace, WgpuBackend, WgpuError, WgpuOptions};

use crate::models::{CONTEXT, TINY, TINY_E4B, assert_same_kv, bits, quick_adapters, step};

/// Longer than any window and ring of the model.
const PROMPT: usize = 141;

#[test]
fn every_width_is_the_reference() {
    let (_turn, adapters) = quick_adapters();
    let fixture = &TINY_E4B;
    let kv = KvFormat::I8;
    let tokens = fixture.tokens(PROMPT, 11);
    let (last, before) = tokens.split_last().unwrap();
    let mut reference = fixture.reference(kv);
    let truth = reference.create().unwrap();
    let expected = bits(&step(&mut reference, truth, &tokens, Wanted::LastLogits).logits);
    for adapter in &adapters {
        let mut backend = fixture.wgpu(adapter, kv);
        for width in [1, 7, 140] {
            let sequence = backend.create().unwrap();
            for chunk in before.chunks(width) {
                assert!(step(&mut *backend, sequence, chunk, Wanted::Nothing).logits.is_empty());
            }
            let output = step(&mut *backend, sequence, &[*last], Wanted::LastLogits);
            assert!(bits(&output.logits) == expected, "logits after chunks of {width}");
            let what = format!("chunks of {width}");
            assert_same_kv(fixture, (&*backend, sequence), (&reference, truth), &what);
            backend.free(sequence);
        }
    }
}

#[test]
fn outputs_of_every_token_are_those_of_one_by_one() {
    let (_turn, adapters) = quick_adapters();
    let fixture = &TINY_E4B;
    let tokens = fixture.tokens(21, 12);
    for adapter in &adapters {
        let mut reference = fixture.reference(KvFormat::F16);
        let truth = reference.create().unwrap();
        let expected = step(&mut reference, truth, &tokens, Wanted::Logits);
        let mut backend = fixture.wgpu(adapter, KvFormat::F16);
        let sequence = backend.create().unwrap();
        let logits = step(&mut *backend, sequence, &tokens, Wanted::Logits);
        assert!(bits(&logits.logits) == bits(&expected.logits), "logits");
        let other = backend.create().unwrap();
        let picks = step(&mut *backend, other, &tokens, Wanted::Picks);
        let again = reference.create().unwrap();
        assert_eq!(picks.picks, step(&mut reference, again, &tokens, Wanted::Picks).picks);
        assert_same_kv(fixture, (&*backend, other), (&reference, truth), "picks");
    }
}

#[test]
fn a_batch_is_its_sequences_alone() {
    let (_turn, adapters) = quick_adapters();
    let fixture = &TINY_E4B;
    let lengths = [70, 3, 21, 17];
    let wanted = [Wanted::LastPick, Wanted::LastLogits, Wanted::Nothing, Wanted::Picks];
    let prompts: Vec<Vec<u32>> =
        lengths.iter().enumerate().map(|(index, &length)| fixture.tokens(length, index as u64)).collect();
    let run = |backend: &mut dyn Backend| -> (Vec<SequenceId>, [StepOutput; 2]) {
        let sequences: Vec<_> = lengths.iter().map(|_| backend.create().unwrap()).collect();
        let mut outputs = [StepOutput::default(), StepOutput::default()];
        for (output, length) in outputs.iter_mut().zip([usize::MAX, 1]) {
            let work: Vec<Work<'_>> = sequences
                .iter()
                .enumerate()
                .map(|(index, &sequence)| {
                    let tokens = &prompts[index][..length.min(lengths[index])];
                    Work { sequence, tokens, wanted: wanted[index] }
                })
                .collect();
            backend.step(&work, output).unwrap();
        }
        (sequences, outputs)
    };
    for adapter in &adapters {
        let (mut backend, mut reference) =
            (fixture.wgpu(adapter, KvFormat::F16), fixture.reference(KvFormat::F16));
        let (mine, found) = run(&mut *backend);
        let (theirs, truth) = run(&mut reference);
        for (found, truth) in found.iter().zip(&truth) {
            assert_eq!(found.picks, truth.picks);
            assert!(bits(&found.logits) == bits(&truth.logits));
        }
        for (a, b) in mine.into_iter().zip(theirs) {
            assert_same_kv(fixture, (&*backend, a), (&reference, b), "a batch");
        }
    }
}

#[test]
fn a_refused_step_changes_nothing() {
    let (_turn, adapters) = quick_adapters();
    let fixture = &TINY_E4B;
    for adapter in &adapters {
        let mut backend = fixture.wgpu(adapter, KvFormat::F16);
        let sequence = backend.create().unwrap();
        step(&mut *backend, sequence, &[1, 2, 3], Wanted::LastPick);
        let vocab = backend.vocab();
        let mut output = StepOutput::default();
        let wrong = [1, vocab as u32];
        let work = Work { sequence, tokens: &wrong, wanted: Wanted::LastPick };
        let refused = backend.step(&[work], &mut output);
        assert_eq!(refused, Err(BackendError::Token { token: vocab as u32, vocab }));
        let long = vec![1; CONTEXT];
        let work = Work { sequence, tokens: &long, wanted: Wanted::Nothing };
        let refused = backend.step(&[work], &mut output);
        assert_eq!(refused, Err(BackendError::ContextFull { needed: CONTEXT + 3, limit: CONTEXT }));
        assert_eq!(
            backend.position(SequenceId(u32::MAX)),
            Err(BackendError::UnknownSequence(SequenceId(u32::MAX)))
        );
        assert_eq!(backend.position(sequence), Ok(3));
        let mut drafts = vec![1];
        assert_eq!(backend.draft(sequence, 1, 4, &mut drafts), Err(BackendError::NoDrafter));
        assert!(drafts.is_empty());
    }
}

#[test]
fn what_cannot_be_opened_says_why() {
    let fixture = &TINY_E4B;
    let open = |options: WgpuOptions| match WgpuBackend::open(fixture.pack.clone(), &options) {
        Err(error) => error,
        Ok(_) => panic!("{options:?} was opened"),
    };
    let nowhere = WgpuOptions { adapter: Some("no such adapter".into()), ..WgpuOptions::default() };
    let error = open(nowhere);
    assert!(matches!(&error, WgpuError::NoAdapter { wanted, .. } if wanted == "'no such adapter'"));
    let number = WgpuOptions { adapter: Some("1000".into()), ..WgpuOptions::default() };
    assert!(open(number).to_string().contains("no adapter '1000'"));
    let limit = fixture.pack.geometry().max_context;
    for context in [0, limit + 1] {
        let options = WgpuOptions { context, ..WgpuOptions::default() };
        assert!(matches!(open(options), WgpuError::Context { .. }));
    }
}

#[test]
fn a_table_on_the_host_is_the_table_on_the_device() {
    let (_turn, adapters) = quick_adapters();
    let fixture = &TINY_E4B;
    let tokens = fixture.tokens(9, 51);
    for adapter in &adapters {
        let mut results = Vec::new();
        for per_layer_embeddings in [TablePlace::Device, TablePlace::Host] {
            let adapter = Some(adapter.clone());
            let options =
                WgpuOptions { adapter, per_layer_embeddings, context: CONTEXT, ..WgpuOptions::default() };
            let mut backend = WgpuBackend::open(fixture.pack.clone(), &options).unwrap();
            let sequence = backend.create().unwrap();
            let logits = bits(&step(&mut backend, sequence, &tokens, Wanted::LastLogits).logits);
            let mut ids = Vec::new();
            let mut emit = |id| {
                ids.push(id);
                true
            };
            backend.decode(sequence, 5, 7, &[], &mut emit).unwrap();
            results.push((logits, ids, backend.position(sequence).unwrap()));
        }
        assert!(results[0] == results[1]);
        assert_eq!(results[0].1.len(), 7);
    }
}

#[test]
fn tensors_in_parts_are_the_same_tensors() {
    let (_turn, adapters) = quick_adapters();
    let fixture = &TINY;
    let geometry = fixture.pack.geometry();
    let limit = 4 * geometry.vocab * geometry.layers.len();
    for name in ["embed.codes", "ple.codes", "head.codes"] {
        assert!(fixture.pack.codes(name).unwrap().len() > limit, "{name} lies in one part");
    }
    let tokens = fixture.tokens(12, 61);
    let mut reference = fixture.reference(KvFormat::F16);
    let truth = reference.create().unwrap();
    let expected = step(&mut reference, truth, &tokens, Wanted::Logits);
    for adapter in &adapters {
        let adapter = Some(adapter.clone());
        let options =
            WgpuOptions { adapter, context: 128, binding: Some(limit as u64), ..WgpuOptions::default() };
        let mut backend = WgpuBackend::open(fixture.pack.clone(), &options).unwrap();
        let sequence = backend.create().unwrap();
        let logits = step(&mut backend, sequence, &tokens, Wanted::Logits);
        assert!(bits(&logits.logits) == bits(&expected.logits), "logits");
        let other = backend.create().unwrap();
        let picks = step(&mut backend, other, &tokens, Wanted::LastPick);
        let again = reference.create().unwrap();
        assert_eq!(picks.picks, step(&mut reference, again, &tokens, Wanted::LastPick).picks);
        let small = WgpuOptions { binding: Some(1024), ..options };
        let error = WgpuBackend::open(fixture.pack.clone(), &small).err();
        assert!(matches!(error, Some(WgpuError::Shape { .. })), "{error:?}");
    }
}

#[test]
fn weights_in_place_are_the_weights() {
    let (_turn, adapters) = quick_adapters();
    let kinds = rawloop_wgpu::adapters();
    let pack = Arc::new(Pack::open(Path::new("../../models/tiny/tiny.rlp")).unwrap());
    let tokens = TINY.tokens(5, 71);
    let mut reference = TINY.reference(KvFormat::F16);
    let truth = reference.create().unwrap();
    let expected = bits(&step(&mut reference, truth, &tokens, Wanted::LastLogits).logits);
    for adapter in &adapters {
        let kind = kinds[adapter.parse::<usize>().unwrap()].kind;
        let mut sizes = Vec::new();
        for in_place in [true, false] {
            let adapter = Some(adapter.clone());
            let options = WgpuOptions { adapter, in_place, context: 128, ..WgpuOptions::default() };
            let mut copied = 0;
            let mut backend =
                WgpuBackend::open_with(pack.clone(), &options, &mut |more| copied += more).unwrap();
            println!("{kind}: {} bytes in place, {copied} copied", backend.in_place_bytes());
            let sequence = backend.create().unwrap();
            let logits = step(&mut backend, sequence, &tokens, Wanted::LastLogits).logits;
            assert!(bits(&logits) == expected, "in place: {in_place}");
            sizes.push((backend.in_place_bytes(), copied));
        }
        assert_eq!(sizes[1].0, 0);
        assert_eq!(sizes[0].0 + sizes[0].1, sizes[1].1);
        // The software adapters of the tests take the mapping; a driver may refuse it.
        if kind == "software" {
            assert!(sizes[0].0 > 4 * sizes[0].1, "{sizes:?}");
        }
        assert!(kind != "discrete" || sizes[0].0 == 0);
    }
}
