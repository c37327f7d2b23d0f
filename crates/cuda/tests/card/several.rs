//! A few columns in kernels of their own: every width, a batch, and stages that fall back.

use rawloop_backend::{Backend, StepOutput, Wanted, Work};
use rawloop_cuda::{CudaBackend, CudaOptions, KvFormat, Trial};

use crate::models::{
    CONTEXT, Fixture, NARROW_E2B, PLAIN_LAYERS, TINY, TINY_E4B, WIDE_ENTRIES, WIDE_HEADS, WIDE_KEYS,
    WIDE_WINDOW, assert_runs, assert_same_kv, bits, card, smaller_cards, step,
};

fn opened(fixture: &Fixture, kv: KvFormat, trial: Trial) -> CudaBackend {
    let options = CudaOptions { kv, context: CONTEXT, trial, ..CudaOptions::default() };
    CudaBackend::open(&fixture.pack, &options).unwrap()
}

/// Panics where a verification of `width` behind `before` tokens does not run in the kernels of a few columns; smaller cards have others.
fn assert_verification_ways(
    backend: &mut CudaBackend,
    fits: bool,
    trial: &Trial,
    before: usize,
    width: usize,
) {
    let kernels = backend.kernels(before + width - 1, width).unwrap();
    let what = format!("a verification of {width} behind {before}, {trial:?}");
    if trial.shared.is_some() {
        return assert_runs(&kernels, "stage_wide", &what);
    }
    let kept = width.next_power_of_two();
    // Up to four neighbours attend in one kernel of clusters; some layers of theirs, or all, may have keys and values that do not fit.
    if width > 4 {
        assert_runs(&kernels, "attend_several", &what);
    } else if fits {
        assert_runs(&kernels, &format!("layer_attention_{kept}"), &what);
    }
    // Of a whole FFN, or of down or the output projection, which have no entry.
    if !kernels.iter().any(|name| name.starts_with(&format!("ffn_{kept}"))) {
        assert_runs(&kernels, &format!("stage_{kept}"), &what);
    }
    if !trial.ple_apart {
        assert_runs(&kernels, &format!("per_layer_{kept}"), &what);
    }
}

/// Verifications of these widths behind a prompt of `before` tokens, then columns of two sequences at once.
fn same_verifications(fixture: &Fixture, kv: KvFormat, trial: Trial, before: usize, widths: &[usize]) {
    let (mut backend, mut reference) = (opened(fixture, kv, trial.clone()), fixture.reference(kv));
    let tokens = fixture.tokens(before + widths.iter().sum::<usize>() + 4, 41);
    let run = |backend: &mut dyn Backend| {
        let (a, b) = (backend.create().unwrap(), backend.create().unwrap());
        let (prompt, mut rest) = tokens.split_at(before);
        if before > 0 {
            step(backend, a, prompt, Wanted::Nothing);
        }
        let mut found = Vec::new();
        for (index, &width) in widths.iter().enumerate() {
            let (now, behind) = rest.split_at(width);
            rest = behind;
            let wanted = if index % 2 == 0 { Wanted::Picks } else { Wanted::Logits };
            let output = step(backend, a, now, wanted);
            found.push((output.picks, bits(&output.logits)));
        }
        let mut output = StepOutput::default();
        let work = [
            Work { sequence: a, tokens: &rest[..1], wanted: Wanted::LastPick },
            Work { sequence: b, tokens: &rest[1..4], wanted: Wanted::Logits },
        ];
        backend.step(&work, &mut output).unwrap();
        found.push((output.picks, bits(&output.logits)));
        (a, b, found)
    };
    for &width in widths {
        // Keys of as many bytes as these may be too many.
        let fits = kv != KvFormat::F32 && !std::ptr::eq(fixture, &*WIDE_KEYS);
        assert_verification_ways(&mut backend, fits, &trial, before, width);
    }
    let (a, b, expected) = run(&mut reference);
    let (c, d, found) = run(&mut backend);
    for (width, (found, expected)) in widths.iter().chain([&4]).zip(found.iter().zip(&expected)) {
        assert_eq!(found.0, expected.0, "picks of {width}");
        assert!(found.1 == expected.1, "logits of {width}");
    }
    assert_same_kv(fixture, (&backend, c), (&reference, a), "verifications");
    assert_same_kv(fixture, (&backend, d), (&reference, b), "a batch");
}

#[test]
fn short_verifications() {
    let Some(_turn) = card() else { return };
    same_verifications(&TINY, KvFormat::F16, Trial::default(), 0, &[3, 8]);
    same_verifications(&TINY_E4B, KvFormat::I8, Trial::default(), 3, &[2, 5]);
    let [older, _] = smaller_cards();
    same_verifications(&TINY_E4B, KvFormat::F16, older, 0, &[3]);
    // Weights that do not fit at once, and two kernels for the per-layer embedding.
    let mixed = Trial { whole: Some(2 << 10), ple_apart: true, ..Trial::default() };
    same_verifications(&TINY_E4B, KvFormat::F32, mixed, 0, &[4]);
}

/// E2B's stream lies by lanes in the entries of a few columns; a batch of four follows.
#[test]
fn short_verifications_of_a_wide_stream() {
    let Some(_turn) = card() else { return };
    same_verifications(&WIDE_ENTRIES, KvFormat::F16, Trial::default(), 3, &[4]);
}

/// The kernels of 2 and of up to 4 columns that have constants for E2B's shape, every one of them.
#[test]
fn short_verifications_of_plain_layers() {
    let Some(_turn) = card() else { return };
    let mut backend = opened(&PLAIN_LAYERS, KvFormat::F16, Trial::default());
    for (width, kept) in [(2, 2), (3, 4), (4, 4)] {
        let kernels = backend.kernels(8, width).unwrap();
        let wanted = [format!("layer_attention_{kept}_of_256"), format!("layer_attention_{kept}_of_512")];
        let others =
            [format!("ffn_{kept}_at_2"), format!("ffn_{kept}_at_4"), format!("per_layer_{kept}_plain")];
        for name in wanted.iter().chain(&others) {
            assert!(kernels.contains(&name.as_str()), "no {name} in {kernels:?}");
        }
    }
    same_verifications(&PLAIN_LAYERS, KvFormat::F16, Trial::default(), 0, &[4, 2, 3]);
}

#[test]
fn verifications_of_every_width() {
    let Some(_turn) = card() else { return };
    for (fixture, kv) in [(&*TINY, KvFormat::F32), (&*TINY_E4B, KvFormat::I8), (&*NARROW_E2B, KvFormat::F16)]
    {
        same_verifications(fixture, kv, Trial::default(), 60, &[2, 3, 4, 5, 6, 7, 8]);
    }
}

/// Windows that wrap, and merges of more blocks of keys than one round takes.
#[test]
fn verifications_behind_many_tokens() {
    let Some(_turn) = card() else { return };
    same_verifications(&TINY, KvFormat::F16, Trial::default(), 700, &[4, 8, 2]);
    same_verifications(&TINY_E4B, KvFormat::I8, Trial::default(), 650, &[8, 3]);
}

/// A stream of 1,536 values, heads of 256 and 512, a window of 512, in models that are small otherwise.
#[test]
fn verifications_of_the_widths_of_e2b() {
    let Some(_turn) = card() else { return };
    let wide = Fixture::wide_heads("hidden_size", 128, 1536);
    same_verifications(&wide, KvFormat::F16, Trial::default(), 0, &[2, 4, 8]);
    same_verifications(&WIDE_HEADS, KvFormat::F32, Trial::default(), 70, &[8, 3]);
    same_verifications(&WIDE_KEYS, KvFormat::F16, Trial::default(), 0, &[8, 2]);
    // Four windows that touch ten blocks of keys, two more than a cluster has blocks; then nine.
    same_verifications(&WIDE_WINDOW, KvFormat::F16, Trial::default(), 573, &[4, 8, 3]);
}

/// Columns of a smaller card, in teams of warps.
#[test]
fn verifications_of_smaller_cards() {
    let Some(_turn) = card() else { return };
    for smaller in smaller_cards() {
        same_verifications(&TINY, KvFormat::F16, smaller.clone(), 60, &[2, 3, 4, 5, 6, 7, 8]);
        same_verifications(&TINY_E4B, KvFormat::I8, smaller, 20, &[8, 3]);
    }
}
