//! From a name to a pack.
//!
//! Listing, space, downloads, conversion, record: in this order, under one lock for each model. Nothing is kept in memory that the
//! next attempt would need, so this may be killed anywhere and run again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rawloop_convert::{ConvertOptions, Origin, Phase, Progress, Report, convert};
use rawloop_pack::FORMAT_VERSION;

use crate::cache::Repository;
use crate::catalog::{Catalog, Entry, Kind};
use crate::client::Client;
use crate::error::HubError;
use crate::event::Event;
use crate::listing::{Listing, RemoteFile, list};
use crate::retry::Patience;
use crate::settings::Settings;
use crate::space::{self, Need};
use crate::store::{Fetched, PACKS_VARIABLE, Record, RecordedFile, RecordedPart, Store, drop_fetched};
use crate::transfer::Transfer;

/// How a model is pulled.
#[derive(Clone, Debug)]
pub struct Pull<'a> {
    /// Where names come from.
    pub catalog: &'a Catalog,
    /// Where packs go.
    pub store: &'a Store,
    /// The hub and its cache.
    pub settings: &'a Settings,
    /// Whether the drafter joins the pack.
    pub assistant: bool,
    /// Another revision of the model than the catalog's.
    pub revision: Option<&'a str>,
    /// Remove this program's own downloads once the pack is there.
    pub drop_checkpoint: bool,
    /// Tells the free bytes of a folder's disk.
    pub free_space: fn(&Path) -> io::Result<u64>,
}

/// A file of a plan.
#[derive(Clone, Debug)]
pub struct PlannedFile {
    /// What the hub says of it.
    pub remote: RemoteFile,
    /// Bytes of it that are here.
    pub here: u64,
}

/// A repository of a plan.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its entry.
    pub entry: Entry,
    /// Revision that was asked for.
    pub revision: String,
    /// Commit that it means.
    pub commit: String,
    /// The folder that the files will appear in.
    pub folder: PathBuf,
    /// Its files.
    pub files: Vec<PlannedFile>,
}

/// What a pull would do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the model.
    pub id: String,
    /// Model, and drafter where there is one.
    pub parts: Vec<Part>,
    /// The pack that will be there; nothing for a drafter alone.
    pub pack: Option<PathBuf>,
    /// Whether it is there already, made of just these files.
    pub current: bool,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that are not here.
    pub missing: u64,
    /// Bytes of the pack: as the catalog says, or at most.
    pub pack_bytes: u64,
}

/// What a pull did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the model.
    pub id: String,
    /// The pack; nothing for a drafter alone.
    pub pack: Option<PathBuf>,
    /// The folder of the checkpoint in the cache; nothing where the hub was not asked.
    pub checkpoint: Option<PathBuf>,
    /// Bytes that came over the network.
    pub fetched: u64,
    /// What the conversion did; nothing where the pack was current.
    pub report: Option<Report>,
    /// Bytes of downloads that were removed.
    pub dropped: u64,
}

impl Pull<'_> {
    /// Says what [`Pull::run`] would do.
    ///
    /// # Errors
    /// The name is not known, or the hub cannot be reached or refuses.
    pub fn plan(
        &self,
        id: &str,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<Plan, HubError> {
        self.with_client(cancel, |client| self.planned(self.catalog.find(id)?, client, cancel, report))
    }

    /// Fetches what is missing and converts it.
    ///
    /// # Errors
    /// Any step's. The same call goes on from what is there.
    pub fn run(
        &self,
        id: &str,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<Outcome, HubError> {
        let entry = self.catalog.find(id)?;
        let lock = self.store.lock(&entry.id, cancel, report)?;
        self.store.sweep(&entry.id, &lock)?;
        self.with_client(cancel, |client| {
            let plan = match self.planned(entry, client, cancel, report) {
                Ok(plan) => plan,
                // Without a network what is here has to do.
                Err(error @ (HubError::Network { .. } | HubError::Offline { .. })) => {
                    let Some((pack, _)) = self.store.installed(&entry.id) else { return Err(error) };
                    report(Event::FromCache { reason: format!("{error}; the pack that is here stays") });
                    let (id, pack) = (entry.id.clone(), Some(pack));
                    return Ok(Outcome { id, pack, checkpoint: None, fetched: 0, report: None, dropped: 0 });
                }
                Err(error) => return Err(error),
            };
            match self.carry_out(&plan, client, cancel, report) {
                Err(HubError::Changed { file }) => {
                    // A branch moved between listing and download: its new state, once.
                    report(Event::Restart { file, reason: "it changed on the hub".into() });
                    let plan = self.planned(entry, client, cancel, report)?;
                    self.carry_out(&plan, client, cancel, report)
                }
                other => other,
            }
        })
    }

    /// Runs with a client whose requests end when `cancel` is set.
    fn with_client<T>(
        &self,
        cancel: &AtomicBool,
        work: impl FnOnce(&Client) -> Result<T, HubError>,
    ) -> Result<T, HubError> {
        let client = Client::new(self.settings)?;
        client.watched(cancel, || work(&client))
    }

    fn planned(
        &self,
        entry: &Entry,
        client: &Client,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<Plan, HubError> {
        let mut parts = vec![self.part(entry, self.revision, client, cancel, report)?];
        if let Some(assistant) = entry.assistant.as_deref().filter(|_| self.assistant) {
            let assistant = self.catalog.find(assistant)?;
            parts.push(self.part(assistant, None, client, cancel, report)?);
        }
        let files = || parts.iter().flat_map(|part| &part.files);
        let bytes = files().map(|file| file.remote.bytes).sum();
        let missing = files().map(|file| file.remote.bytes - file.here).sum();
        let pack = (entry.kind == Kind::Model).then(|| self.store.pack(&entry.id));
        report(Event::Listed { files: files().count(), bytes, missing });
        Ok(Plan {
            id: entry.id.clone(),
            current: pack.is_some() && self.store.is_current(&entry.id, &recorded(&parts)),
            pack,
            bytes,
            missing,
            pack_bytes: entry.pack_bytes.unwrap_or(bytes),
            parts,
        })
    }

    fn part(
        &self,
        entry: &Entry,
        revision: Option<&str>,
        client: &Client,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<Part, HubError> {
        let revision = revision.unwrap_or(&entry.revision);
        let cache = Repository::new(&self.settings.cache, &entry.repository);
        let listing = self.listing(entry, revision, &cache, client, cancel, report)?;
        let folder = cache.snapshot(&listing.commit);
        let files = listing.files.into_iter().map(|remote| {
            let size = |path: PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
            let here = match &remote.checksum {
                // A copy in a cache without links.
                None => remote.bytes,
                Some(checksum) => match size(cache.blob(checksum)) {
                    bytes if bytes == remote.bytes => bytes,
                    _ => Some(size(cache.partial(checksum)))
                        .filter(|bytes| *bytes <= remote.bytes)
                        .unwrap_or(0),
                },
            };
            PlannedFile { remote, here }
        });
        let files = files.collect();
        Ok(Part { entry: entry.clone(), revision: revision.into(), commit: listing.commit, folder, files })
    }

    /// From the hub, or from the cache where the hub may not or cannot be asked.
    fn listing(
        &self,
        entry: &Entry,
        revision: &str,
        cache: &Repository,
        client: &Client,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<Listing, HubError> {
        if self.settings.offline {
            return cache.cached(entry, revision).map_err(|missing| HubError::Offline {
                repository: entry.repository.clone(),
                cache: self.settings.cache.clone(),
                missing,
            });
        }
        let patience = Patience::new(&self.settings.retry, cancel);
        match list(client, entry, revision, patience, report) {
            Err(error @ HubError::Network { .. }) => match cache.cached(entry, revision) {
                Ok(listing) => {
                    report(Event::FromCache { reason: error.to_string() });
                    Ok(listing)
                }
                Err(_) => Err(error),
            },
            other => other,
        }
    }

    fn carry_out(
        &self,
        plan: &Plan,
        client: &Client,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<Outcome, HubError> {
        let mut outcome = Outcome {
            id: plan.id.clone(),
            pack: plan.pack.clone(),
            checkpoint: plan.parts.first().map(|part| part.folder.clone()),
            fetched: 0,
            report: None,
            dropped: 0,
        };
        let mut record = self.store.record(&plan.id).unwrap_or_default();
        if !plan.current {
            self.check_space(plan)?;
            record = Record {
                converted: false,
                format: FORMAT_VERSION,
                parts: recorded(&plan.parts),
                cache: self.settings.cache.clone(),
                // Downloads in another cache are no longer known as ours.
                fetched: if record.cache == self.settings.cache { record.fetched } else { Vec::new() },
            };
            self.store.write_record(&plan.id, &record)?;
            let mut before = 0;
            for part in &plan.parts {
                outcome.fetched +=
                    self.fetch(part, plan, &mut before, &mut record, client, cancel, report)?;
            }
            if let Some(pack) = &plan.pack {
                outcome.report = Some(self.convert(plan, pack, cancel, report)?);
                record.converted = true;
                self.store.write_record(&plan.id, &record)?;
            }
        }
        if self.drop_checkpoint && plan.pack.is_some() {
            outcome.dropped = drop_fetched(&record)?;
            record.fetched.clear();
            self.store.write_record(&plan.id, &record)?;
        }
        Ok(outcome)
    }

    /// Checks and fetches the files of one repository.
    #[allow(clippy::too_many_arguments)] // one step of `carry_out`, with what that has at hand
    fn fetch(
        &self,
        part: &Part,
        plan: &Plan,
        before: &mut u64,
        record: &mut Record,
        client: &Client,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<u64, HubError> {
        let repository = part.entry.repository.as_str();
        let cache = Repository::new(&self.settings.cache, repository);
        cache.create(&part.commit)?;
        let transfer = Transfer {
            client,
            retry: &self.settings.retry,
            take_lock: self.settings.take_lock,
            cancel,
            repository,
            cache: &cache,
            commit: &part.commit,
            total: plan.bytes,
        };
        let mut fetched = 0;
        for PlannedFile { remote, .. } in &part.files {
            let Some(checksum) = &remote.checksum else { continue };
            let blob = cache.blob(checksum);
            let mut good = false;
            if blob.metadata().is_ok_and(|meta| meta.len() == remote.bytes) {
                report(Event::Checking { file: remote.name.clone() });
                good = checksum.matches(&blob, cancel)?;
            }
            if !good {
                if self.settings.offline {
                    let missing = format!("{} is damaged or not whole", remote.name);
                    let (repository, cache) = (repository.to_owned(), self.settings.cache.clone());
                    return Err(HubError::Offline { repository, cache, missing });
                }
                fetched += transfer.fetch(remote, checksum, *before, report)?;
                let ours = Fetched {
                    repository: repository.into(),
                    commit: part.commit.clone(),
                    name: remote.name.clone(),
                    checksum: checksum.as_str().into(),
                };
                if !record.fetched.contains(&ours) {
                    record.fetched.push(ours);
                    self.store.write_record(&plan.id, record)?;
                }
            }
            cache.sweep(checksum);
            cache.link(&part.commit, &remote.name, checksum)?;
            *before += remote.bytes;
            report(Event::Progress { done: *before, total: plan.bytes });
        }
        cache.set_reference(&part.revision, &part.commit)?;
        Ok(fetched)
    }

    fn check_space(&self, plan: &Plan) -> Result<(), HubError> {
        let cache = Need {
            folder: &self.settings.cache,
            bytes: plan.missing,
            purpose: "the checkpoint",
            setting: "HF_HOME",
        };
        let pack = Need {
            folder: self.store.folder(),
            bytes: if plan.pack.is_some() { plan.pack_bytes } else { 0 },
            purpose: "the pack",
            setting: PACKS_VARIABLE,
        };
        space::check(&[cache, pack], self.free_space)
    }

    fn convert(
        &self,
        plan: &Plan,
        pack: &Path,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<Report, HubError> {
        let (main, assistant) = (&plan.parts[0], plan.parts.get(1));
        let options = ConvertOptions {
            checkpoint: main.folder.clone(),
            assistant: assistant.map(|part| part.folder.clone()),
            output: pack.into(),
            name: None,
            origin: Origin {
                source: Some(main.entry.repository.clone()),
                revision: Some(main.commit.clone()),
                license: main.entry.license.clone(),
                credit: None,
            },
            cancel: Some(cancel),
        };
        Ok(convert(&options, &mut Told(report))?)
    }
}

/// A conversion's progress as events.
struct Told<'a>(&'a mut dyn FnMut(Event));

impl Progress for Told<'_> {
    fn phase(&mut self, phase: Phase, bytes: u64) {
        (self.0)(Event::Converting { phase, bytes });
    }

    fn advance(&mut self, bytes: u64) {
        (self.0)(Event::Converted { bytes });
    }
}

fn recorded(parts: &[Part]) -> Vec<RecordedPart> {
    let file = |file: &PlannedFile| RecordedFile {
        name: file.remote.name.clone(),
        checksum: file.remote.checksum.as_ref().map(|checksum| checksum.as_str().to_owned()),
    };
    let part = |part: &Part| RecordedPart {
        id: part.entry.id.clone(),
        repository: part.entry.repository.clone(),
        commit: part.commit.clone(),
        files: part.files.iter().map(file).collect(),
    };
    parts.iter().map(part).collect()
}
