//! What the server's tests share: the shipped model on the CPU.

#![allow(dead_code)] // each test file uses a part of it

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::Model;
use rawloop_engine::backend::Backend;
use rawloop_pack::Pack;

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The shipped model.
pub fn tiny() -> Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    let open = || {
        let pack = Pack::open(&root().join("models/tiny/tiny.rlp")).unwrap();
        Arc::new(Model::open(Arc::new(pack)).unwrap())
    };
    Arc::clone(MODEL.get_or_init(open))
}

/// A backend that runs it.
pub fn cpu(context: usize) -> Box<dyn Backend> {
    let options = CpuOptions { threads: Some(2), context, ..CpuOptions::default() };
    Box::new(CpuBackend::open(Arc::clone(tiny().pack()), &options).unwrap())
}
