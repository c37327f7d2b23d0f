//! From a name to a pack that opens, with the shipped tiny checkpoint behind the hub.

mod support;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rawloop_hub::{Catalog, Event, HubError, Outcome, Pull, Settings, Store, free};
use rawloop_pack::Pack;
use support::{Act, Hub};
use tempfile::TempDir;

const CATALOG: &str = r#"{"version": 1, "models": [
    {"id": "tiny", "repository": "me/tiny-gemma4", "assistant": "tiny-drafter", "license": "Apache-2.0 OR MIT",
     "files": ["config.json", "tokenizer.json", "model*.safetensors", "generation_config.json?", "chat_template.jinja?", "README.md?"]},
    {"id": "tiny-drafter", "kind": "assistant", "repository": "me/tiny-drafter",
     "files": ["config.json", "model*.safetensors", "generation_config.json?"]},
    {"id": "small", "alias": "tiny"}]}"#;

struct Place {
    hub: Hub,
    folder: TempDir,
    catalog: Catalog,
    settings: Settings,
    store: Store,
}

fn models(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny").join(name)
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("catalog.json");
    std::fs::write(&file, CATALOG).unwrap();
    let hub = Hub::start();
    hub.put_folder("me/tiny-gemma4", 'a', &models("checkpoint"));
    hub.put_folder("me/tiny-drafter", 'd', &models("assistant"));
    let home = folder.path().join("hf");
    let find = |name: &str| -> Option<OsString> {
        match name {
            "HF_HOME" => Some(home.clone().into()),
            "HF_ENDPOINT" => Some(hub.url.clone().into()),
            _ => None,
        }
    };
    let mut settings = Settings::new(find, None).unwrap();
    settings.retry.first = Duration::from_millis(2);
    let store = Store::new(folder.path().join("packs"));
    Place { catalog: Catalog::open(Some(&file)).unwrap(), hub, folder, settings, store }
}

impl Place {
    fn options(&self) -> Pull<'_> {
        Pull {
            catalog: &self.catalog,
            store: &self.store,
            settings: &self.settings,
            assistant: true,
            revision: None,
            drop_checkpoint: false,
            free_space: free,
        }
    }

    fn pull(&self, id: &str) -> Result<Outcome, HubError> {
        self.options().run(id, &AtomicBool::new(false), &mut |_| ())
    }

    fn names(&self, folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_name_becomes_a_pack_with_its_drafter_and_origin() {
    let place = place();
    let error = place.store.resolve(&place.catalog, "small").unwrap_err();
    assert_eq!(error.to_string(), "tiny is not on this machine: `rawloop pull tiny` fetches it");
    let plan = place.options().plan("small", &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert!(!plan.current && plan.missing == plan.bytes && plan.parts.len() == 2);
    assert!(!place.folder.path().join("hf").exists() && !place.store.folder().exists());

    let outcome = place.pull("small").unwrap();
    assert_eq!(outcome.fetched, plan.bytes);
    let pack = place.store.resolve(&place.catalog, "small").unwrap();
    assert_eq!(outcome.pack.as_ref(), Some(&pack));
    let opened = Pack::open(&pack).unwrap();
    let (manifest, shipped) = (opened.manifest(), Pack::open(&models("tiny.rlp")).unwrap());
    assert!(manifest.drafter.is_some());
    assert_eq!(manifest.provenance.source, "me/tiny-gemma4");
    assert_eq!(manifest.provenance.revision, Some("a".repeat(40)));
    assert_eq!(manifest.provenance.license, "Apache-2.0 OR MIT");
    // The weights are those of the shipped pack.
    let hashes = |pack: &Pack| {
        let hash = |tensor: &rawloop_pack::TensorEntry| (tensor.name.clone(), tensor.sha256.clone());
        pack.manifest().tensors.iter().map(hash).collect::<Vec<_>>()
    };
    assert_eq!(hashes(&opened), hashes(&shipped));

    // Again: nothing to do. Without the drafter: another pack of the same downloads.
    let again = place.pull("tiny").unwrap();
    assert!(again.report.is_none() && again.fetched == 0);
    let pull = Pull { assistant: false, ..place.options() };
    let alone = pull.run("tiny", &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert!(alone.report.unwrap().manifest.drafter.is_none() && alone.fetched == 0);

    let error = place.store.resolve(&place.catalog, "tiny-drafter").unwrap_err().to_string();
    assert!(error.contains("runs with its model only: use tiny"), "{error}");
    let error = place.store.resolve(&place.catalog, "tinny").unwrap_err().to_string();
    assert!(error.contains("did you mean tiny"), "{error}");
}

#[test]
fn a_new_commit_is_fetched_and_an_old_one_can_be_named() {
    let place = place();
    place.pull("tiny").unwrap();
    place.hub.put_folder("me/tiny-gemma4", 'b', &models("checkpoint"));
    let outcome = place.pull("tiny").unwrap();
    // The same bytes under another commit: nothing to fetch, but another origin.
    assert_eq!(outcome.fetched, 0);
    assert_eq!(outcome.report.unwrap().manifest.provenance.revision, Some("b".repeat(40)));
    place.hub.script(|request| {
        let old = request.path.contains("/revision/v1");
        old.then(|| Act::Status(404, vec![("X-Error-Code", "RevisionNotFound".into())], String::new()))
    });
    let pull = Pull { revision: Some("v1"), ..place.options() };
    let error = pull.run("tiny", &AtomicBool::new(false), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("has no me/tiny-gemma4 at revision \"v1\""), "{error}");
}

#[test]
fn a_pull_that_is_cancelled_anywhere_leaves_the_old_pack_or_the_new_one() {
    let place = place();
    place.pull("tiny").unwrap();
    let old = std::fs::read(place.store.pack("tiny")).unwrap();
    place.hub.put_folder("me/tiny-gemma4", 'b', &models("checkpoint"));
    std::fs::remove_dir_all(place.folder.path().join("hf")).unwrap();
    let mut phases = Vec::new();
    for stop in (0..24).chain((24..).step_by(31)) {
        let cancel = AtomicBool::new(false);
        let mut count = 0;
        let mut last = String::new();
        let outcome = place.options().run("tiny", &cancel, &mut |event| {
            count += 1;
            last = format!("{event:?}").split(' ').next().unwrap().to_owned();
            cancel.store(count > stop, Ordering::Relaxed);
        });
        match outcome {
            Err(HubError::Cancelled) => {
                phases.push(last);
                assert!(std::fs::read(place.store.pack("tiny")).unwrap() == old);
            }
            Err(error) => panic!("{error}"),
            Ok(_) if count <= stop => break,
            Ok(_) => {}
        }
    }
    for phase in ["Listed", "Fetching", "Progress", "Converted"] {
        assert!(phases.iter().any(|seen| seen == phase), "{phase}: {phases:?}");
    }
    let new = Pack::open(&place.store.pack("tiny")).unwrap();
    assert_eq!(new.manifest().provenance.revision, Some("b".repeat(40)));
    assert_eq!(place.names(place.store.folder()), [".locks", "tiny.json", "tiny.rlp"]);
}

#[test]
fn what_a_killed_conversion_left_is_swept_and_a_torn_record_is_none() {
    let place = place();
    place.pull("tiny").unwrap();
    let packs = place.store.folder();
    std::fs::write(packs.join(".tiny.rlp.x1y2.unfinished"), "half").unwrap();
    std::fs::write(packs.join(".tiny.json.x1y2.unfinished"), "half").unwrap();
    std::fs::write(packs.join(".tiny-other.rlp.x1y2.unfinished"), "somebody else's").unwrap();
    std::fs::write(packs.join("tiny.json"), "{\"conv").unwrap();
    assert!(place.pull("tiny").unwrap().report.is_some());
    let names = [".locks", ".tiny-other.rlp.x1y2.unfinished", "tiny.json", "tiny.rlp"];
    assert_eq!(place.names(packs), names);
    // A pack that is not what the record says.
    std::fs::copy(models("tiny.rlp"), place.store.pack("tiny")).unwrap();
    assert!(place.pull("tiny").unwrap().report.is_some());
}

#[test]
fn a_checkpoint_that_cannot_be_converted_says_why_and_keeps_the_old_pack() {
    let place = place();
    place.pull("tiny").unwrap();
    let old = std::fs::read(place.store.pack("tiny")).unwrap();
    let weights = std::fs::read(models("checkpoint/model.safetensors")).unwrap();
    let tokenizer = std::fs::read(models("checkpoint/tokenizer.json")).unwrap();
    let files: [(&str, &[u8]); 3] = [
        ("config.json", b"{\"model_type\": \"other\"}"),
        ("tokenizer.json", &tokenizer),
        ("model.safetensors", &weights),
    ];
    place.hub.put("me/tiny-gemma4", 'c', &files);
    let error = place.pull("tiny").unwrap_err();
    assert!(matches!(error, HubError::Convert(_)), "{error}");
    assert!(error.to_string().contains("config.json"), "{error}");
    assert!(std::fs::read(place.store.pack("tiny")).unwrap() == old);
}

#[test]
fn a_pack_that_is_here_serves_without_a_network_and_without_a_cache() {
    let mut place = place();
    place.pull("tiny").unwrap();
    std::fs::remove_dir_all(place.folder.path().join("hf")).unwrap();
    place.settings.offline = true;
    let mut told = false;
    let outcome = place.options().run("tiny", &AtomicBool::new(false), &mut |event| {
        told |= matches!(event, Event::FromCache { .. });
    });
    assert!(told && outcome.unwrap().pack.is_some());
}

#[cfg(unix)]
#[test]
fn only_downloads_of_its_own_are_removed() {
    let place = place();
    let hub_folder = place.folder.path().join("hf/hub");
    // Somebody else fetched the drafter.
    let pull = Pull { drop_checkpoint: true, ..place.options() };
    pull.run("tiny-drafter", &AtomicBool::new(false), &mut |_| ()).unwrap();
    std::fs::remove_dir_all(place.store.folder()).unwrap();
    let outcome = pull.run("tiny", &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert!(outcome.dropped > 4_000_000, "{outcome:?}");
    assert!(place.names(&hub_folder.join("models--me--tiny-gemma4/blobs")).is_empty());
    assert_eq!(place.names(&hub_folder.join("models--me--tiny-drafter/blobs")).len(), 3);
    assert!(place.store.resolve(&place.catalog, "tiny").is_ok());
    // The pack knows what it was made of, so nothing is fetched again.
    assert_eq!(place.pull("tiny").unwrap().fetched, 0);

    // A blob that another snapshot shows stays.
    let never = AtomicBool::new(false);
    let removed = place.store.remove("tiny", true, &never, &mut |_| ()).unwrap();
    assert!(removed.any && removed.pack_bytes > 0 && removed.checkpoint_bytes == 0);
    place.pull("tiny").unwrap();
    let snapshots = hub_folder.join("models--me--tiny-gemma4/snapshots");
    let other = snapshots.join("f".repeat(40));
    std::fs::create_dir(&other).unwrap();
    let link = std::fs::read_link(snapshots.join("a".repeat(40)).join("model.safetensors")).unwrap();
    std::os::unix::fs::symlink(link, other.join("model.safetensors")).unwrap();
    let removed = place.store.remove("tiny", true, &never, &mut |_| ()).unwrap();
    assert!((1..1_000_000).contains(&removed.checkpoint_bytes), "{removed:?}");
    assert!(std::fs::read(other.join("model.safetensors")).is_ok());
    assert!(!place.store.remove("tiny", true, &never, &mut |_| ()).unwrap().any);
}

#[cfg(unix)]
#[test]
fn links_are_removed_and_never_followed() {
    let place = place();
    let outside = place.folder.path().join("outside.rlp");
    std::fs::copy(models("tiny.rlp"), &outside).unwrap();
    std::fs::create_dir_all(place.store.folder()).unwrap();
    std::os::unix::fs::symlink(&outside, place.store.pack("mine")).unwrap();
    assert!(place.store.resolve(&place.catalog, "mine").is_ok());
    let never = AtomicBool::new(false);
    assert!(place.store.remove("mine", true, &never, &mut |_| ()).unwrap().any);
    assert!(outside.is_file() && place.store.installed("mine").is_none());
    for id in ["../outside", "/etc/passwd", "", ".", "a/b"] {
        assert!(!place.store.remove(id, true, &never, &mut |_| ()).unwrap().any, "{id}");
    }
    assert!(outside.is_file());

    // A repository folder that leads elsewhere is not emptied, and neither is what a forged record names.
    place.pull("tiny").unwrap();
    let (folder, moved) =
        (place.folder.path().join("hf/hub/models--me--tiny-gemma4"), place.folder.path().join("moved"));
    std::fs::rename(&folder, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &folder).unwrap();
    let record = std::fs::read_to_string(place.store.folder().join("tiny.json")).unwrap();
    let forged = record.replace(
        "\"name\": \"config.json\",\n      \"checksum\"",
        "\"name\": \"../../../../../outside.rlp\",\n      \"checksum\"",
    );
    assert_ne!(record, forged);
    std::fs::write(place.store.folder().join("tiny.json"), forged).unwrap();
    place.store.remove("tiny", true, &never, &mut |_| ()).unwrap();
    assert!(outside.is_file());
    assert_eq!(place.names(&moved.join("blobs")).len(), 5);
}
