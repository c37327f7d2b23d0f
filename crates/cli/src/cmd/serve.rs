//! `rawloop serve`: the model over HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rawloop_engine::sequence::usual_budget;
use rawloop_server::batch::BatchOptions;
use rawloop_server::{ServeError, Server, ServerOptions};

use crate::answer;
use crate::args::ServeArgs;
use crate::exit::{Code, Failure};
use crate::screen::note;

use super::catalog::Models;
use super::print;

/// Bytes of caches of requests that are being answered, and requests at most, where the flags do not say.
const CACHES: usize = 4 << 30;
const PARALLEL: usize = 8;

/// Serves until the process is told to end.
pub fn run(args: ServeArgs) -> Result<(), Failure> {
    let keys = keys(&args)?;
    // While a folder is converted Ctrl-C has its usual meaning: it leaves nothing behind.
    let never = AtomicBool::new(false);
    let engine = answer::engine(args.choice.model.as_deref(), &args.run, &never)?;
    let (model, backend) = engine.into_parts();
    let info = backend.info();
    let name = args.name.clone().unwrap_or_else(|| model.pack().manifest().model.name.clone());
    let mut sampling = model.sampling();
    answer::apply_sampling(&mut sampling, &args.sampling);
    sampling
        .validate(model.pack().geometry().vocab)
        .map_err(|error| Failure::usage(format!("--{error}").replacen('_', "-", 1)))?;
    // Requests that give no seed get one of their own.
    sampling.seed = 0;
    let catalog = match args.pull {
        true => {
            Some(Arc::new(Models::open(args.catalog.catalog.as_deref(), args.choice.model.as_deref())?) as _)
        }
        false => None,
    };
    let longest = info.cost.bytes(info.context);
    let parallel = args.parallel.unwrap_or_else(|| places(longest));
    let options = ServerOptions {
        address: SocketAddr::new(args.host, args.port),
        keys,
        open: args.insecure_no_api_key,
        origins: args.cors_origin.clone(),
        parallel,
        waiting: args.queue,
        time_limit: Duration::from_secs(args.time_limit as u64),
        body_limit: args.body_limit << 20,
        max_tokens: args.max_tokens,
        special_tokens: args.allow_special_tokens,
        thinking: args.thinking,
        sampling: Some(sampling),
        draft: args.draft.draft,
        chunk: args.run.chunk,
        cache_budget: args.cache.map_or_else(|| usual_budget(longest), |megabytes| megabytes << 20),
        batch: BatchOptions { prompt_share: args.prompt_share, ..BatchOptions::default() },
        grace: Duration::from_secs(args.grace),
        catalog,
        ..ServerOptions::new(name)
    };
    let name = options.name.clone();
    let server = Server::bind(options, model, backend)?;
    let address = server.address()?;
    // The line that scripts wait for.
    print(&format!("rawloop: {name} on http://{address}"))?;
    note(format_args!(
        "{} on {} ({} threads), context {}, {parallel} requests at a time; Ctrl-C ends",
        info.name, info.kernels, info.threads, info.context
    ));
    Ok(server.run_until_signalled()?)
}

/// The keys of the flags and of the file.
fn keys(args: &ServeArgs) -> Result<Vec<String>, Failure> {
    let mut keys = args.api_key.clone();
    if let Some(path) = &args.api_key_file {
        keys.extend(read_keys(path)?);
    }
    if keys.iter().any(|key| key.is_empty()) {
        return Err(Failure::usage("--api-key is empty: a key has at least one character"));
    }
    Ok(keys)
}

fn read_keys(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    let keys: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if keys.is_empty() {
        return Err(Failure::input(format!("{} holds no key: one a line is expected", path.display())));
    }
    Ok(keys)
}

/// Requests whose caches fit into memory at their longest.
fn places(longest: usize) -> usize {
    (CACHES / longest.max(1)).clamp(1, PARALLEL)
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Open(_) => Failure::usage(error),
            ServeError::Bind(..) | ServeError::System(_) => Failure::new(Code::Other, error),
        }
    }
}
