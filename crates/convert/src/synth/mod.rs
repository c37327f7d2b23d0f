//! Synthetic models: any shape, random weights, labelled as such.
//!
//! For tests and benchmarks on shapes whose weights are not at hand. A pack is written directly, or a checkpoint folder in
//! the official layout, from which the converter makes the same pack: both read one generator, which makes any bytes of any
//! tensor from seed, tensor name and position alone.
//!
//! Weights are random but their scales are reasoned, so that activations stay in range through any number of layers
//! (`weights.rs` says how). What comes out is noise; what it costs is what the real model costs.

mod checkpoint;
mod random;
mod shape;
mod tokenizer;
mod weights;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use rawloop_pack::{Manifest, ModelInfo};

use crate::config::Config;
use crate::convert::{self, PROFILE, Target};
use crate::error::ConvertError;
use crate::generation;
use crate::inventory::Skipped;
use crate::plan::{plan_drafter, plan_target};
use crate::progress::{Phase, Progress};
use crate::provenance::Origin;
use crate::text;
use shape::Shape;
use weights::Synthetic;

/// What to make.
#[derive(Clone, Debug)]
pub struct SynthOptions<'a> {
    /// Name of a preset, or path of a config.json.
    pub shape: String,
    /// Seed of the weights.
    pub seed: u64,
    /// The pack, or the folder of the checkpoint.
    pub output: PathBuf,
    /// Write a checkpoint folder in the official layout instead of a pack.
    pub as_checkpoint: bool,
    /// With an MTP assistant; in a checkpoint it is the sub-folder `assistant`.
    pub assistant: bool,
    /// The assistant has the clustered head.
    pub ordered: bool,
    /// Weight files of a checkpoint; with more than one there is an index.
    pub shards: usize,
    /// Set it from anywhere to stop.
    pub cancel: Option<&'a AtomicBool>,
}

impl SynthOptions<'_> {
    /// A pack of `shape` at `output`, seed 1, without assistant.
    pub fn pack(shape: &str, output: PathBuf) -> Self {
        SynthOptions {
            shape: shape.into(),
            seed: 1,
            output,
            as_checkpoint: false,
            assistant: false,
            ordered: false,
            shards: 1,
            cancel: None,
        }
    }
}

/// What was made.
#[derive(Clone, Debug)]
pub struct SynthReport {
    /// Name of the model, such as `synthetic-e2b-seed1`.
    pub name: String,
    /// Bytes of tensors.
    pub tensor_bytes: u64,
    /// The manifest, where a pack was made.
    pub manifest: Option<Manifest>,
}

/// Makes a synthetic pack or checkpoint. The same options give the same bytes.
///
/// # Errors
/// No such preset, a shape the engine does not run, the output cannot be written; nothing is left behind then.
pub fn synth(options: &SynthOptions, progress: &mut dyn Progress) -> Result<SynthReport, ConvertError> {
    progress.phase(Phase::Check, 0);
    let shape = Shape::new(options)?;
    let target = Synthetic::target(&shape.geometry, &shape.config.names, options.seed);
    let drafter =
        shape.drafter.as_ref().map(|drafter| Synthetic::drafter(drafter, &shape.geometry, options.seed));
    let name = shape.label.model_name();
    if options.as_checkpoint {
        let tensor_bytes = checkpoint::write(options, &shape, &target, drafter.as_ref(), progress)?;
        return Ok(SynthReport { name, tensor_bytes, manifest: None });
    }
    let mut plan = plan_target(&target, &shape.geometry, &shape.config.names)?;
    if let (Some(source), Some(drafter)) = (&drafter, &shape.drafter) {
        plan.extend(plan_drafter(source, drafter, &shape.geometry)?);
    }
    let Shape { config, geometry, .. } = &shape;
    let Config { synthetic, defaulted, .. } = config;
    let generation = generation::from_document(&shape.generation_document(), config)?;
    let text = text::from_json(&options.output, &tokenizer::json(geometry.vocab), geometry.vocab)?;
    let head = Target {
        model: ModelInfo {
            name: name.clone(),
            synthetic: synthetic.is_some(),
            profile: PROFILE.into(),
            arithmetic: "exact".into(),
        },
        geometry: geometry.clone(),
        drafter: shape.drafter.clone(),
        generation,
        origin: origin(),
        skipped: Skipped::new(),
        notes: defaulted.clone(),
    };
    let report = convert::write(&options.output, head, &plan, &text, &[], options.cancel, progress)?;
    Ok(SynthReport { name, tensor_bytes: report.tensor_bytes, manifest: Some(report.manifest) })
}

/// What a synthetic model says about its origin.
fn origin() -> Origin {
    Origin {
        source: Some("synthetic".into()),
        revision: None,
        license: Some("Apache-2.0 OR MIT".into()),
        credit: Some("random weights made by rawloop".into()),
    }
}
