//! Single rules of the contract on the tiny model, each by poisoning what must or must not matter.

mod common;

use common::MODEL;
use rawloop_ref::{KvCache, KvFormat, TokenState};
use rawloop_spec::Stage;
use rawloop_spec::tap::NoTap;

fn ids(count: usize) -> Vec<u32> {
    (0..count).map(|i| 600 + (i * 37 % 900) as u32).collect()
}

fn cache_after(count: usize) -> KvCache {
    let mut cache = KvCache::new(&MODEL.geometry, KvFormat::F32);
    for token in ids(count) {
        MODEL.prefill(&mut cache, token).unwrap();
    }
    cache
}

fn attention_stage(layer: usize) -> usize {
    let is = |stage: &Stage| matches!(stage, Stage::Attention { layer: l, .. } if *l == layer);
    MODEL.program.stages.iter().position(is).unwrap()
}

/// What attention of `layer` gives for one more token, with the cache changed by `poison` just before.
fn attention_with(layer: usize, cache: &KvCache, poison: impl Fn(&mut KvCache)) -> Vec<f32> {
    let mut cache = cache.clone();
    let mut state = TokenState { token: 777, position: cache.len(), ..TokenState::default() };
    let stage = attention_stage(layer);
    MODEL.run(0..stage, &mut state, &mut cache, &mut NoTap);
    poison(&mut cache);
    MODEL.run(stage..stage + 1, &mut state, &mut cache, &mut NoTap);
    state.attention
}

fn poison_value(cache: &mut KvCache, layer: usize, position: usize) {
    cache.layers[layer].values[position].iter_mut().for_each(|byte| *byte ^= 0x11);
}

#[test]
fn the_window_ends_exactly_where_it_should() {
    let window = MODEL.geometry.window;
    let full = cache_after(window);
    let clean = attention_with(0, &full, |_| ());
    assert_eq!(
        attention_with(0, &full, |c| poison_value(c, 0, 0)),
        clean,
        "position {window} sees position 0"
    );
    assert_ne!(
        attention_with(0, &full, |c| poison_value(c, 0, 1)),
        clean,
        "position {window} misses position 1"
    );
    let shorter = cache_after(window - 1);
    let clean = attention_with(0, &shorter, |_| ());
    assert_ne!(
        attention_with(0, &shorter, |c| poison_value(c, 0, 0)),
        clean,
        "the window is shorter than it says"
    );
}

#[test]
fn full_layers_see_the_first_position() {
    let cache = cache_after(MODEL.geometry.window + 70);
    let clean = attention_with(4, &cache, |_| ());
    assert_ne!(attention_with(4, &cache, |c| poison_value(c, 4, 0)), clean);
}

#[test]
fn sharing_layers_read_the_last_owner_of_their_kind_and_no_other() {
    let cache = cache_after(20);
    for (layer, owner) in [(5, 3), (8, 3), (9, 4)] {
        let clean = attention_with(layer, &cache, |_| ());
        for candidate in 0..5 {
            let poisoned = attention_with(layer, &cache, |c| poison_value(c, candidate, 7));
            assert_eq!(
                poisoned != clean,
                candidate == owner,
                "layer {layer}, K/V of layer {candidate} poisoned"
            );
        }
    }
}

#[test]
fn sharing_layers_own_nothing() {
    let cache = cache_after(3);
    let stored: Vec<usize> = cache.layers.iter().map(|layer| layer.keys.len()).collect();
    assert_eq!(stored, [3, 3, 3, 3, 3, 0, 0, 0, 0, 0]);
}

#[test]
fn a_prompt_token_leaves_the_same_kv_through_the_short_program_and_the_full_one() {
    let mut full = KvCache::new(&MODEL.geometry, KvFormat::F16);
    let mut short = full.clone();
    for token in ids(150) {
        MODEL.forward(&mut full, token, &mut NoTap).unwrap();
        MODEL.prefill(&mut short, token).unwrap();
    }
    for (a, b) in full.layers.iter().zip(&short.layers) {
        assert_eq!(a.keys, b.keys);
        assert_eq!(a.values, b.values);
    }
}
