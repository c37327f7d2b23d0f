//! `--model`: a pack, a checkpoint folder, a pulled model's name, or the model in this program.
//!
//! A folder is converted once. The result is kept in the user's cache folder under a name that follows from the folder's
//! path and the sizes and times of its files, so a changed checkpoint is converted again and an unchanged one is found at
//! once. Conversion writes beside the target and renames: a killed one leaves nothing that could be taken for a pack, and
//! the next one of the same folder sweeps up what it left. Two at once would do the work twice, so one waits for the other.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use rawloop_convert::{ConvertOptions, Origin, convert};
use rawloop_engine::file_lock::FileLock;
use rawloop_hub::{Catalog, HubError, Store, is_id};
use rawloop_pack::Pack;
use sha2::{Digest, Sha256};

use crate::cmd::convert::Bar;
use crate::exit::Failure;
use crate::screen::note;

/// Bytes on a boundary that lets the pack be used where it lies.
#[repr(C, align(4096))]
struct Aligned<T: ?Sized>(T);

static EMBEDDED: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../models/tiny/tiny.rlp"));

/// How often somebody who waits looks again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Name of the embedded model in messages.
const EMBEDDED_LABEL: &str = "the model in this program";

/// Opens the model that the flag names.
pub fn open(model: Option<&Path>, cancel: &AtomicBool) -> Result<Arc<Pack>, Failure> {
    let pack = match model {
        None => Pack::from_static(&EMBEDDED.0, EMBEDDED_LABEL)?,
        Some(path) if path.is_dir() => Pack::open(&converted(path, cancel)?)?,
        Some(path) => match name(path) {
            Some(id) => Pack::open(&pulled(id)?)?,
            None => Pack::open(path)?,
        },
    };
    Ok(Arc::new(pack))
}

/// The text of the flag where it can only be a model's name: no file is called so, and none could be meant.
fn name(path: &Path) -> Option<&str> {
    let text = path.to_str().filter(|text| is_id(&text.to_ascii_lowercase()))?;
    (!path.exists()).then_some(text)
}

/// The pack of a pulled model.
fn pulled(id: &str) -> Result<PathBuf, Failure> {
    let catalog = Catalog::open(None)?;
    let store = Store::user()?;
    store.resolve(&catalog, id).map_err(|error| match error {
        HubError::UnknownModel { .. } => {
            Failure::input(format!("no file or folder is called {id:?}, and {error}"))
        }
        other => Failure::from(other),
    })
}

/// The pack of a checkpoint folder, converted where it is not in the cache.
fn converted(folder: &Path, cancel: &AtomicBool) -> Result<PathBuf, Failure> {
    let folder =
        folder.canonicalize().map_err(|error| Failure::input(format!("{}: {error}", folder.display())))?;
    if !folder.join("config.json").is_file() {
        let message = format!(
            "{} is a folder without config.json: expected a pack (*.rlp) or a checkpoint folder",
            folder.display()
        );
        return Err(Failure::input(message));
    }
    let cache = cache_folder()?;
    let (stem, version) = cache_key(&folder)?;
    let target = cache.join(format!("{stem}-{version}.rlp"));
    if target.is_file() {
        return Ok(target);
    }
    let lock = alone(&cache.join(&stem), cancel)?;
    // Whoever was waited for may have done it.
    if target.is_file() {
        return Ok(target);
    }
    // What a killed conversion of this folder left. Nobody else is at it.
    let start = format!(".{stem}-");
    lock.sweep_where(|name| name.starts_with(&start));
    let assistant = folder.join("assistant");
    let quiet = !std::io::stderr().is_terminal();
    note(format_args!("converting {} once, into {}", folder.display(), target.display()));
    let mut bar = Bar::new(quiet);
    let options = ConvertOptions {
        checkpoint: folder,
        assistant: assistant.join("config.json").is_file().then_some(assistant),
        output: target.clone(),
        name: None,
        origin: Origin::default(),
        cancel: Some(cancel),
    };
    let report = convert(&options, &mut bar);
    bar.clear();
    report?;
    remove_older(&cache, &stem, &target);
    Ok(target)
}

/// The lock of a folder's conversions, behind whoever has it.
fn alone(name: &Path, cancel: &AtomicBool) -> Result<FileLock, Failure> {
    let mut told = false;
    loop {
        let taken = FileLock::try_take(name);
        let taken = taken.map_err(|error| Failure::input(format!("{}: {error}", name.display())))?;
        if let Some(lock) = taken {
            return Ok(lock);
        }
        if !std::mem::replace(&mut told, true) {
            note("another process converts this folder already: waiting for it");
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        std::thread::sleep(PATIENCE);
    }
}

/// A name for the folder, and one for what is in it now.
fn cache_key(folder: &Path) -> Result<(String, String), Failure> {
    let mut files = Vec::new();
    for place in [folder.to_path_buf(), folder.join("assistant")] {
        let Ok(entries) = std::fs::read_dir(&place) else { continue };
        for entry in entries {
            let entry = entry?;
            // Through links: a download cache is a folder of them.
            let meta = std::fs::metadata(entry.path())?;
            if meta.is_file() {
                let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                files.push(format!("{} {} {modified:?}", entry.path().display(), meta.len()));
            }
        }
    }
    files.sort();
    files.push(format!("{} {}", env!("CARGO_PKG_VERSION"), rawloop_pack::FORMAT_VERSION));
    let name = folder.file_name().map_or("model".into(), |name| name.to_string_lossy().into_owned());
    let place = digest(&folder.display().to_string());
    Ok((format!("{name}-{}", &place[..8]), digest(&files.join("\n"))[..16].to_owned()))
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Earlier conversions of the same folder. That one cannot be removed is no reason to fail.
fn remove_older(cache: &Path, stem: &str, target: &Path) {
    let Ok(entries) = std::fs::read_dir(cache) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path != target && name.starts_with(stem) && name.ends_with(".rlp") {
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn cache_folder() -> Result<PathBuf, Failure> {
    let base = dirs::cache_dir().ok_or_else(|| {
        Failure::usage("there is no cache folder to convert into (is HOME set?): convert the folder first and give the pack")
    })?;
    let folder = base.join("rawloop").join("packs");
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::input(format!("cannot make {}: {error}", folder.display())))?;
    Ok(folder)
}
