//! From flags to a running model: what every command that generates shares.

use std::sync::Arc;

use rawloop_cpu::{CpuBackend, CpuError, CpuOptions};
use rawloop_cuda::{CudaBackend, CudaError, CudaOptions, TablePlace};
use rawloop_engine::backend::{Backend, BackendError, BackendInfo};
use rawloop_pack::Pack;
use rawloop_ref::KvFormat;
use rawloop_testkit::RefBackend;
use rawloop_tokenizer::{SpecialText, Tokenizer};
use rawloop_wgpu::{WgpuBackend, WgpuError, WgpuOptions};
use serde_json::{Value, json};

use crate::args::{Arithmetic, BackendName, Kv, ModelArgs, Ple};
use crate::exit::{Code, Failure};
use crate::progress;

/// Positions a sequence gets where `--ctx` does not say.
const DEFAULT_CONTEXT: usize = 32_768;

/// Opens the backend that the flags name.
pub fn backend(pack: &Arc<Pack>, args: &ModelArgs) -> Result<Box<dyn Backend>, Failure> {
    match args.backend {
        BackendName::Ref => {
            let format = match args.kv {
                Kv::F32 => KvFormat::F32,
                Kv::F16 => KvFormat::F16,
                Kv::I8 => KvFormat::I8,
            };
            let context = context(pack, args)?;
            Ok(Box::new(RefBackend::open(pack, format, context).map_err(Failure::input)?))
        }
        BackendName::Cpu => Ok(Box::new(cpu_backend(pack, args)?)),
        BackendName::Cuda => Ok(Box::new(cuda_backend(pack, args)?)),
        BackendName::Wgpu => Ok(Box::new(wgpu_backend(pack, args)?)),
        BackendName::Auto => match rawloop_cuda::report() {
            Ok(_) => Ok(Box::new(cuda_backend(pack, args)?)),
            Err(_) => Ok(Box::new(cpu_backend(pack, args)?)),
        },
    }
}

/// Prompt tokens per step: what the flag says, or what the backend says of itself, as the engine takes it.
pub fn chunk(args: &ModelArgs, info: &BackendInfo) -> usize {
    args.chunk.unwrap_or(info.prompt_step)
}

/// The CUDA backend with the options of the flags.
pub fn cuda_backend(pack: &Arc<Pack>, args: &ModelArgs) -> Result<CudaBackend, Failure> {
    let options = CudaOptions {
        context: context(pack, args)?,
        kv: match args.kv {
            Kv::F32 => rawloop_cuda::KvFormat::F32,
            Kv::F16 => rawloop_cuda::KvFormat::F16,
            Kv::I8 => rawloop_cuda::KvFormat::I8,
        },
        per_layer_embeddings: match args.ple {
            None | Some(Ple::Host) => TablePlace::Host,
            Some(Ple::Device) => TablePlace::Device,
        },
        ..CudaOptions::default()
    };
    CudaBackend::open(pack, &options).map_err(|error| match error {
        CudaError::NoDevice(_) | CudaError::Context { .. } | CudaError::Shape { .. } => Failure::usage(error),
        CudaError::Driver(_) => Failure::new(Code::Other, error),
        _ => Failure::input(error),
    })
}

/// The wgpu backend with the options of the flags.
pub fn wgpu_backend(pack: &Arc<Pack>, args: &ModelArgs) -> Result<WgpuBackend, Failure> {
    let options = WgpuOptions {
        adapter: args.adapter.clone(),
        context: context(pack, args)?,
        kv: match args.kv {
            Kv::F32 => rawloop_wgpu::KvFormat::F32,
            Kv::F16 => rawloop_wgpu::KvFormat::F16,
            Kv::I8 => rawloop_wgpu::KvFormat::I8,
        },
        per_layer_embeddings: match args.ple {
            Some(Ple::Host) => rawloop_wgpu::TablePlace::Host,
            None | Some(Ple::Device) => rawloop_wgpu::TablePlace::Device,
        },
        ..WgpuOptions::default()
    };
    let bar = progress::bytes(uploaded(pack, &options), "copying to the device", args.quiet);
    let opened = WgpuBackend::open_with(Arc::clone(pack), &options, &mut |more| bar.inc(more as u64));
    bar.finish_and_clear();
    opened.map_err(|error| match error {
        WgpuError::NoAdapter { .. } | WgpuError::Context { .. } | WgpuError::Shape { .. } => {
            Failure::usage(error)
        }
        WgpuError::NoDevice { .. } | WgpuError::Gpu(_) => Failure::new(Code::Other, error),
        WgpuError::Pack(_) => Failure::input(error),
    })
}

/// Bytes that an adapter with memory of its own gets of a pack: all but the drafter and what stays on the host.
fn uploaded(pack: &Pack, options: &WgpuOptions) -> u64 {
    let host = options.per_layer_embeddings == rawloop_wgpu::TablePlace::Host;
    let goes = |name: &str| !(name.starts_with("drafter.") || host && name == "ple.codes");
    pack.tensors().filter(|tensor| goes(&tensor.entry.name)).map(|tensor| tensor.entry.bytes).sum()
}

/// The cpu backend with the options of the flags, whatever backend they name.
pub fn cpu_backend(pack: &Arc<Pack>, args: &ModelArgs) -> Result<CpuBackend, Failure> {
    let context = context(pack, args)?;
    let (threads, kernels) = (args.threads, args.kernels.clone());
    let options = CpuOptions { threads, affinity: args.affinity, kernels, kv: cpu_kv(args.kv), context };
    CpuBackend::open(Arc::clone(pack), &options).map_err(|error| match error {
        CpuError::Kernels { .. } | CpuError::Threads { .. } | CpuError::Context { .. } => {
            Failure::usage(error)
        }
        CpuError::Team { .. } => Failure::new(Code::Other, error),
        _ => Failure::input(error),
    })
}

/// The cpu backend's storage of K/V.
pub fn cpu_kv(kv: Kv) -> rawloop_cpu::KvFormat {
    match kv {
        Kv::F32 => rawloop_cpu::KvFormat::F32,
        Kv::F16 => rawloop_cpu::KvFormat::F16,
        Kv::I8 => rawloop_cpu::KvFormat::I8,
    }
}

fn context(pack: &Pack, args: &ModelArgs) -> Result<usize, Failure> {
    let trained = pack.geometry().max_context;
    let context = args.ctx.unwrap_or(trained.min(DEFAULT_CONTEXT));
    if context > trained {
        return Err(Failure::usage(format!(
            "--ctx {context} is more than the {trained} positions of this model"
        )));
    }
    Ok(context)
}

/// What ran: for every JSON output, so that a number never stands without its conditions.
pub fn labels(pack: &Pack, info: &BackendInfo, args: &ModelArgs) -> Value {
    let model = &pack.manifest().model;
    let arithmetic = match args.arithmetic {
        Arithmetic::Exact => "exact",
    };
    json!({
        "model": model.name,
        "synthetic": model.synthetic,
        "profile": model.profile,
        "arithmetic": arithmetic,
        "backend": info.name,
        "kernels": info.kernels,
        "threads": info.threads,
        "kv": info.kv,
        "context": info.context,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The text of ids, special tokens included, or none where the pack has no tokenizer.
pub fn decode_text(pack: &Pack, ids: &[u32]) -> Result<Option<String>, Failure> {
    let Some(table) = pack.blob(rawloop_pack::TOKENIZER) else { return Ok(None) };
    let tokenizer = Tokenizer::load(table.to_vec()).map_err(Failure::input)?;
    tokenizer.decode(ids, SpecialText::Keep).map(Some).map_err(Failure::input)
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        let code = match error {
            BackendError::ContextFull { .. } => Code::Context,
            BackendError::Token { .. } => Code::Usage,
            _ => Code::Other,
        };
        Failure::new(code, error)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rawloop_engine::backend::CacheCost;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        run: ModelArgs,
    }

    #[test]
    fn a_prompts_step_is_the_backends_unless_it_is_said() {
        let chunk_of = |flags: &[&str], prompt_step| {
            let info = BackendInfo {
                name: "cuda",
                kernels: String::new(),
                threads: 1,
                kv: "f16",
                context: 4096,
                has_drafter: false,
                cost: CacheCost::default(),
                prompt_step,
                takes_last_along: false,
            };
            chunk(&Flags::try_parse_from(["rawloop"].iter().chain(flags)).unwrap().run, &info)
        };
        assert_eq!(chunk_of(&[], 256), 256);
        assert_eq!(chunk_of(&["--backend", "cuda"], 1024), 1024);
        assert_eq!(chunk_of(&["--backend", "cuda", "--chunk", "7"], 1024), 7);
    }
}
