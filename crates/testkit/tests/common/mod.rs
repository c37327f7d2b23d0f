//! What the reference's tests share: the tiny model converted once a process, goldens, hashes.
#![allow(dead_code)] // every test file uses a part of it

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use rawloop_convert::{ConvertOptions, convert};
use rawloop_pack::Pack;
use rawloop_ref::{Drafter, KvCache, KvFormat, Model};
use rawloop_spec::tap::NoTap;
use rawloop_testkit::goldens::repository;
use sha2::{Digest, Sha256};

/// The tiny model with its drafter, converted from its checkpoint.
pub static TINY: LazyLock<Arc<Pack>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("tiny.rlp");
    let options = ConvertOptions {
        checkpoint: repository().join("models/tiny/checkpoint"),
        assistant: Some(repository().join("models/tiny/assistant")),
        output: output.clone(),
        ..ConvertOptions::default()
    };
    convert(&options, &mut ()).unwrap();
    Arc::new(Pack::from_vec(std::fs::read(&output).unwrap(), "tiny").unwrap())
});

/// The tiny model, unpacked.
pub static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| Arc::new(Model::load(&TINY).unwrap()));

/// Its drafter.
pub static DRAFTER: LazyLock<Arc<Drafter>> = LazyLock::new(|| Arc::new(Drafter::load(&TINY).unwrap()));

/// Hash of a file, as goldens name it.
pub fn sha256(path: &Path) -> String {
    let digest = Sha256::digest(std::fs::read(path).unwrap());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The goldens' folder of a model.
pub fn goldens(name: &str) -> PathBuf {
    repository().join("goldens").join(name)
}

/// Runs `f` over the items on two threads and keeps the order.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    loop {
                        let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(item) = items.get(index) else { return mine };
                        mine.push((index, f(item)));
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Teacher-forced: the reference's pick after every token from the last prompt token on, with its margin over the golden.
pub fn picks_along(
    model: &Model,
    format: KvFormat,
    prompt: &[u32],
    output: &[u32],
) -> Option<(usize, u32, f32)> {
    let mut cache = KvCache::new(&model.geometry, format);
    let (&last, before) = prompt.split_last().unwrap();
    before.iter().for_each(|&token| model.prefill(&mut cache, token).unwrap());
    let inputs = std::iter::once(&last).chain(output);
    for (step, (&token, &golden)) in inputs.zip(output).enumerate() {
        let state = model.forward(&mut cache, token, &mut NoTap).unwrap();
        if state.picked != golden {
            return Some((
                step,
                state.picked,
                state.logits[state.picked as usize] - state.logits[golden as usize],
            ));
        }
    }
    None
}
