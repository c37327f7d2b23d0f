//! A checkpoint folder to a pack.
//!
//! Everything that can be refused cheaply is refused first: configuration, headers, inventory, activation scales,
//! tokenizer. Then tensors are written in the registry's order while another thread hashes the source files. Memory does
//! not grow with the model.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rawloop_pack::{
    CHAT_TEMPLATE, Generation, Head, LICENSE, Manifest, ModelInfo, PackWriter, Provenance, TOKENIZER,
};
use rawloop_spec::{DrafterGeometry, Geometry, Unsupported};

use crate::config::Config;
use crate::error::ConvertError;
use crate::fields::Document;
use crate::inventory::{self, Skipped};
use crate::names::Names;
use crate::part::{ModuleKey, Part};
use crate::plan::{Planned, plan_drafter, plan_target};
use crate::progress::{Phase, Progress};
use crate::provenance::{Origin, hash_files};
use crate::safetensors::Checkpoint;
use crate::source::TensorSource;
use crate::text::Text;
use crate::{assistant, emit, generation, text};

/// Quantisation profile of the packs made here: mobile codes, per-layer model projection in bf16.
pub const PROFILE: &str = "mobile";

/// What to convert.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions<'a> {
    /// Folder of the target's checkpoint.
    pub checkpoint: PathBuf,
    /// Folder of the assistant's checkpoint.
    pub assistant: Option<PathBuf>,
    /// The pack to write.
    pub output: PathBuf,
    /// Name of the model; otherwise from the repository or the folder.
    pub name: Option<String>,
    /// Where it comes from, over what the folder tells.
    pub origin: Origin,
    /// Set it from anywhere to stop.
    pub cancel: Option<&'a AtomicBool>,
}

/// What a conversion did.
#[derive(Clone, Debug)]
pub struct Report {
    /// The manifest that was written.
    pub manifest: Manifest,
    /// Bytes of tensors.
    pub tensor_bytes: u64,
    /// Bytes of source files.
    pub source_bytes: u64,
}

/// Converts a checkpoint. The output is the same bytes every time.
///
/// # Errors
/// What is wrong with which file and tensor; the output's path holds what it held before.
pub fn convert(options: &ConvertOptions, progress: &mut dyn Progress) -> Result<Report, ConvertError> {
    progress.phase(Phase::Check, 0);
    let folder = options.checkpoint.as_path();
    let document = Document::read(&folder.join("config.json"), "the shape of the model")?;
    let mut config = Config::read(&document)?;
    let checkpoint = Checkpoint::open(folder)?;
    if checkpoint.describe(&Part::Codes(ModuleKey::Embed).name(&Names::text_only())).is_some() {
        // A text-only checkpoint may keep the configuration of the multimodal one.
        config.names = Names::text_only();
    }
    let geometry = geometry(&document.file, &config)?;
    let skipped = inventory::check_target(&checkpoint, &geometry, &config.names)?;
    let drafter = options.assistant.as_deref().map(|folder| open_assistant(folder, &geometry)).transpose()?;
    let mut plan = plan_target(&checkpoint, &geometry, &config.names)?;
    if let Some(assistant) = &drafter {
        plan.extend(plan_drafter(&assistant.checkpoint, &assistant.geometry, &geometry)?);
    }
    let text = text::read(folder, geometry.vocab)?;
    let mut notes = config.defaulted.clone();
    let generation = generation::read(folder, &config, &mut notes)?;
    let origin = options.origin.clone().or(Origin::of_folder(folder)?);
    let mut files = source_files("", folder, &checkpoint);
    files.extend(text.files.iter().map(|file| (file_name(file), file.clone())));
    if let Some(assistant) = &drafter {
        files.extend(source_files("assistant/", &assistant.folder, &assistant.checkpoint));
    }
    let target = Target {
        model: ModelInfo {
            name: model_name(options, &config, &origin),
            synthetic: config.synthetic.is_some(),
            profile: PROFILE.into(),
            arithmetic: "exact".into(),
        },
        geometry,
        drafter: drafter.as_ref().map(|assistant| assistant.geometry.clone()),
        generation,
        origin,
        skipped,
        notes,
    };
    write(&options.output, target, &plan, &text, &files, options.cancel, progress)
}

/// The geometry of a configuration.
///
/// # Errors
/// A field the engine does not run.
pub(crate) fn geometry(file: &Path, config: &Config) -> Result<Geometry, ConvertError> {
    let unsupported = |source| ConvertError::Unsupported { file: file.into(), source };
    let bits = |module| config.quantization.bits(&config.names.module(module));
    let geometry = config.text.geometry(bits).map_err(unsupported)?;
    // One table of rotary frequencies serves all layers of a kind.
    for (index, layer) in geometry.layers.iter().enumerate() {
        let first = geometry.layers.iter().find(|other| other.attention == layer.attention);
        if let Some(first) = first.filter(|first| first.head_dim != layer.head_dim) {
            let expected = format!("{}, as in the first {} layer", first.head_dim, layer.attention.name());
            let field = format!("head_dim of layer {index}");
            return Err(unsupported(Unsupported::new(&field, layer.head_dim, expected)));
        }
    }
    Ok(geometry)
}

struct Assistant {
    folder: PathBuf,
    checkpoint: Checkpoint,
    geometry: DrafterGeometry,
}

fn open_assistant(folder: &Path, target: &Geometry) -> Result<Assistant, ConvertError> {
    let document = Document::read(&folder.join("config.json"), "the shape of the assistant")?;
    let geometry = assistant::read(&document, target)?;
    let checkpoint = Checkpoint::open(folder)?;
    let layout = |part: Part| part.drafter_layout(&geometry, target);
    inventory::check(&checkpoint, &Names::text_only(), &Part::drafter(&geometry), layout, |_| None)?;
    Ok(Assistant { folder: folder.into(), checkpoint, geometry })
}

/// Files that every checkpoint has, with their names in the manifest.
fn source_files(prefix: &str, folder: &Path, checkpoint: &Checkpoint) -> Vec<(String, PathBuf)> {
    let optional = [generation::FILE, "model.safetensors.index.json"].map(|name| folder.join(name));
    std::iter::once(folder.join("config.json"))
        .chain(optional.into_iter().filter(|file| file.is_file()))
        .chain(checkpoint.files().map(PathBuf::from))
        .map(|file| (format!("{prefix}{}", file_name(&file)), file))
        .collect()
}

fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn model_name(options: &ConvertOptions, config: &Config, origin: &Origin) -> String {
    let repository =
        || origin.source.as_deref().and_then(|source| source.rsplit('/').next()).map(String::from);
    let folder = || {
        let absolute = std::path::absolute(&options.checkpoint).unwrap_or_default();
        file_name(&absolute)
    };
    let synthetic = || config.synthetic.as_ref().map(|label| label.model_name());
    options.name.clone().or_else(synthetic).or_else(repository).unwrap_or_else(folder)
}

/// What is known of a pack before its tensors are written.
pub(crate) struct Target {
    pub model: ModelInfo,
    pub geometry: Geometry,
    pub drafter: Option<DrafterGeometry>,
    pub generation: Generation,
    pub origin: Origin,
    pub skipped: Skipped,
    pub notes: Vec<String>,
}

/// Writes a pack from a plan, hashing `files` on the side.
pub(crate) fn write(
    output: &Path,
    target: Target,
    plan: &[Planned],
    text: &Text,
    files: &[(String, PathBuf)],
    cancel: Option<&AtomicBool>,
    progress: &mut dyn Progress,
) -> Result<Report, ConvertError> {
    let never = AtomicBool::new(false);
    let cancel = cancel.unwrap_or(&never);
    // The hashing thread has to end when the conversion fails as well.
    let give_up = AtomicBool::new(false);
    let mut writer = PackWriter::create(output)?;
    let tensor_bytes = emit::total_bytes(plan);
    progress.phase(Phase::Tensors, tensor_bytes);
    let (zero_scales, files) = thread::scope(|scope| {
        let hashes = scope.spawn(|| hash_files(files, &give_up));
        let emitted = emit::emit(plan, &mut writer, cancel, progress);
        if emitted.is_err() {
            give_up.store(true, Ordering::Relaxed);
        } else {
            progress.phase(Phase::Hash, 0);
        }
        let hashes = loop {
            // Ctrl-C still counts while the last file is hashed.
            if cancel.load(Ordering::Relaxed) {
                give_up.store(true, Ordering::Relaxed);
            }
            if hashes.is_finished() {
                break hashes.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
            thread::sleep(std::time::Duration::from_millis(5));
        };
        emitted.and_then(|zeros| Ok((zeros, hashes?)))
    })?;
    progress.phase(Phase::Finish, 0);
    writer.blob(TOKENIZER, &text.tokenizer)?;
    if let Some(template) = &text.chat_template {
        writer.blob(CHAT_TEMPLATE, template.as_bytes())?;
    }
    if let Some(license) = &text.license {
        writer.blob(LICENSE, license)?;
    }
    let Target { model, geometry, drafter, generation, origin, skipped, notes } = target;
    let source_bytes = files.iter().map(|file| file.bytes).sum();
    let provenance = Provenance {
        source: origin.source.unwrap_or_else(|| "unknown".into()),
        revision: origin.revision,
        license: origin.license.unwrap_or_else(|| "unknown".into()),
        credit: origin.credit.unwrap_or_else(|| "unknown".into()),
        converter: format!("rawloop {}", env!("CARGO_PKG_VERSION")),
        files,
        skipped,
        zero_scales,
        notes,
    };
    if cancel.load(Ordering::Relaxed) {
        return Err(ConvertError::Cancelled);
    }
    let manifest = writer.finish(Head { model, geometry, drafter, generation, provenance })?;
    Ok(Report { manifest, tensor_bytes, source_bytes })
}
