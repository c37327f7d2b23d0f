//! One file from the hub into the cache.
//!
//! Bytes are appended to `HASH.incomplete` and hashed on the way; what a killed program left there is hashed first and then
//! continued with a range request. Only a file whose hash is right gets its name. So every state of the disk is one that the next
//! attempt goes on from, and a wrong byte, wherever it came from, costs one more download and is never used.
//!
//! Two programs that append to one file would spoil it behind the hash. A lock keeps them apart; where there are no locks each
//! takes the file over under a name of its own, by one rename that only one of them gets, and puts it back when it gives up. One that
//! is killed leaves it under that name: whoever comes an hour after its last byte takes the largest such file over.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ureq::http::{HeaderMap, Uri};

use crate::cache::{Repository, remove};
use crate::checksum::{BLOCK, Checksum, Hashing};
use crate::client::{Answer, Client, Failure, text, transient};
use crate::error::HubError;
use crate::event::Event;
use crate::listing::{RemoteFile, file_url, refused};
use crate::lock::{TryLock, lock};
use crate::retry::{Patience, Refused};
use crate::settings::Retry;

/// Progress that makes up for earlier failures; less, and a server that hands out a byte at a time would never be given up.
const PROGRESS: u64 = 1 << 20;

/// Time between two reports of progress.
const REPORT: Duration = Duration::from_millis(100);

/// What a transfer works with.
pub struct Transfer<'a> {
    pub client: &'a Client,
    pub retry: &'a Retry,
    /// Takes the lock of a blob.
    pub take_lock: TryLock,
    pub cancel: &'a AtomicBool,
    /// Repository by name and in the cache.
    pub repository: &'a str,
    pub cache: &'a Repository,
    pub commit: &'a str,
    /// Bytes of all files, for reports.
    pub total: u64,
}

/// A file that grows.
struct Partial {
    file: File,
    path: PathBuf,
    bytes: u64,
    hashing: Hashing,
}

impl Transfer<'_> {
    /// Fetches a file. `before` is how much of the other files is here, for reports. Answers with the bytes that came over the network.
    ///
    /// # Errors
    /// The hub refuses, breaks off too often, sends wrong bytes twice, or the disk is full. What arrived stays.
    pub fn fetch(
        &self,
        file: &RemoteFile,
        checksum: &Checksum,
        before: u64,
        report: &mut dyn FnMut(Event),
    ) -> Result<u64, HubError> {
        let blob = self.cache.blob(checksum);
        let shared = self.cache.partial(checksum);
        let lock = lock(&self.cache.lock(checksum), &file.name, self.take_lock, self.cancel, report)?;
        if blob.is_file() && checksum.matches(&blob, self.cancel)? {
            // Whoever held the lock fetched it.
            return Ok(0);
        }
        if lock.is_held() {
            return self.make(file, checksum, &shared, before, report);
        }
        let own = self.cache.own_partial(checksum)?;
        let made = self.make(file, checksum, &own, before, report);
        if made.is_err() {
            // What came is there for the next attempt, whoever makes it.
            let _ = own.persist(&shared);
        }
        made
    }

    /// Completes the download in `path` and gives it its name.
    fn make(
        &self,
        file: &RemoteFile,
        checksum: &Checksum,
        path: &Path,
        before: u64,
        report: &mut dyn FnMut(Event),
    ) -> Result<u64, HubError> {
        let blob = self.cache.blob(checksum);
        let mut came = 0;
        let mut damaged = false;
        loop {
            let mut partial = self.open(file, checksum, path)?;
            report(Event::Fetching { file: file.name.clone(), bytes: file.bytes, from: partial.bytes });
            self.fill(file, checksum, &mut partial, before, &mut came, report)?;
            let found = partial.hashing.finish();
            if found == checksum.as_str() {
                partial.file.sync_all().map_err(HubError::writing(path))?;
                drop(partial.file);
                std::fs::rename(path, &blob).map_err(HubError::io(&blob, "give the download its name"))?;
                return Ok(came);
            }
            drop(partial.file);
            remove(path)?;
            let expected = checksum.as_str().to_owned();
            if std::mem::replace(&mut damaged, true) {
                return Err(HubError::Corrupt { file: file.name.clone(), expected, found });
            }
            let reason = "its bytes do not match its checksum".into();
            report(Event::Restart { file: file.name.clone(), reason });
        }
    }

    /// What is there of a file, hashed.
    fn open(&self, file: &RemoteFile, checksum: &Checksum, path: &Path) -> Result<Partial, HubError> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        let handle = options.open(path).map_err(HubError::writing(path))?;
        let mut bytes = handle.metadata().map_err(HubError::io(path, "read"))?.len();
        if bytes > file.bytes {
            handle.set_len(0).map_err(HubError::writing(path))?;
            bytes = 0;
        }
        let mut hashing = checksum.start(file.bytes);
        hashing.file(path, bytes, self.cancel)?;
        Ok(Partial { file: handle, path: path.into(), bytes, hashing })
    }

    /// Asks until all bytes are there.
    fn fill(
        &self,
        file: &RemoteFile,
        checksum: &Checksum,
        partial: &mut Partial,
        before: u64,
        came: &mut u64,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), HubError> {
        let url = file_url(self.client, self.repository, self.commit, &file.name);
        let mut patience = Patience::new(self.retry, self.cancel);
        let mut best = partial.bytes;
        // The name that the last server gave to these bytes, for `If-Range`.
        let mut validator: Option<String> = None;
        while partial.bytes < file.bytes {
            let failure = match self.request(&url, partial.bytes, validator.as_deref()) {
                Ok(answer) => {
                    self.same(file, checksum, &answer)?;
                    validator = strong(answer.last.headers());
                    let start = partial.bytes;
                    let failure = self.receive(file, checksum, partial, answer, before, report)?;
                    *came += partial.bytes.saturating_sub(start);
                    failure
                }
                Err(Failure::Status { status: 416, .. }) if partial.bytes > 0 => {
                    // There is no such range: what is here is of something else.
                    self.restart(file, checksum, partial, "the server has no such range", report)?;
                    validator = None;
                    continue;
                }
                Err(failure) => Some(failure),
            };
            if partial.bytes >= best + PROGRESS {
                patience.progress();
                best = partial.bytes;
            }
            let Some(failure) = failure else { continue };
            match patience.after(failure, Some(&file.name), report) {
                Ok(()) => {}
                Err(Refused::Error(error)) => return Err(error),
                Err(Refused::Status { url, status, code, message }) => {
                    if status == 404 && !matches!(code.as_deref(), Some("RepoNotFound" | "RevisionNotFound"))
                    {
                        let (repository, commit) = (self.repository.to_owned(), self.commit.to_owned());
                        return Err(HubError::NoFile { repository, commit, file: file.name.clone() });
                    }
                    return Err(refused(
                        self.client,
                        self.repository,
                        self.commit,
                        url,
                        status,
                        code,
                        message,
                    ));
                }
            }
        }
        Ok(())
    }

    fn request(&self, url: &str, from: u64, validator: Option<&str>) -> Result<Answer, Failure> {
        let range = format!("bytes={from}-");
        match (from, validator) {
            (0, _) => self.client.get(url, &[]),
            (_, None) => self.client.get(url, &[("Range", &range)]),
            (_, Some(validator)) => self.client.get(url, &[("Range", &range), ("If-Range", validator)]),
        }
    }

    /// Whether the hub still means the bytes that its listing named.
    fn same(&self, file: &RemoteFile, checksum: &Checksum, answer: &Answer) -> Result<(), HubError> {
        let named = text(&answer.first, "x-linked-etag");
        // The hub's own name for a file that it serves itself; a content server has names of its own.
        let named = named.or_else(|| answer.from_hub.then(|| text(&answer.first, "etag"))?);
        match named.as_deref().and_then(Checksum::parse) {
            Some(named) if named != *checksum && named.as_str().len() == checksum.as_str().len() => {
                Err(HubError::Changed { file: file.name.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Appends what comes. Answers with what went wrong on the way, if it may pass.
    fn receive(
        &self,
        file: &RemoteFile,
        checksum: &Checksum,
        partial: &mut Partial,
        answer: Answer,
        before: u64,
        report: &mut dyn FnMut(Event),
    ) -> Result<Option<Failure>, HubError> {
        let host: Uri = self.client.endpoint.parse().unwrap_or_default();
        let headers = answer.last.headers();
        if answer.last.status() == 206 {
            let range = text(headers, "content-range").and_then(|value| content_range(&value));
            if range.is_none_or(|(start, total)| {
                start != partial.bytes || total.is_some_and(|total| total != file.bytes)
            }) {
                self.restart(
                    file,
                    checksum,
                    partial,
                    "the server sends another range than asked for",
                    report,
                )?;
                return Ok(Some(transient(&host, "another range than asked for".into())));
            }
        } else if partial.bytes > 0 {
            self.restart(file, checksum, partial, "the server does not continue downloads", report)?;
        }
        let left = file.bytes - partial.bytes;
        if text(headers, "content-length")
            .and_then(|value| value.parse().ok())
            .is_some_and(|bytes: u64| bytes != left)
        {
            return Ok(Some(transient(
                &host,
                format!("{} has another length than the listing says", file.name),
            )));
        }
        let mut body = answer.last.into_body().into_reader();
        let mut block = vec![0; BLOCK];
        let mut told = Instant::now();
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(HubError::Cancelled);
            }
            let count = match body.read(&mut block) {
                Ok(0) if partial.bytes == file.bytes => break,
                Ok(0) => return Ok(Some(transient(&host, "the connection ended early".into()))),
                Ok(count) => count,
                Err(error) => return Ok(Some(transient(&host, error.to_string()))),
            };
            if partial.bytes + count as u64 > file.bytes {
                self.restart(file, checksum, partial, "the server sends more than the file has", report)?;
                return Ok(Some(transient(&host, "more bytes than the file has".into())));
            }
            partial.append(&block[..count])?;
            if told.elapsed() >= REPORT {
                told = Instant::now();
                report(Event::Progress { done: before + partial.bytes, total: self.total });
            }
        }
        report(Event::Progress { done: before + partial.bytes, total: self.total });
        Ok(None)
    }

    fn restart(
        &self,
        file: &RemoteFile,
        checksum: &Checksum,
        partial: &mut Partial,
        reason: &str,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), HubError> {
        partial.file.set_len(0).map_err(HubError::writing(&partial.path))?;
        partial.bytes = 0;
        partial.hashing = checksum.start(file.bytes);
        report(Event::Restart { file: file.name.clone(), reason: reason.into() });
        Ok(())
    }
}

impl Partial {
    fn append(&mut self, bytes: &[u8]) -> Result<(), HubError> {
        if let Err(error) = self.file.write_all(bytes) {
            return Err(HubError::writing(&self.path)(error));
        }
        self.hashing.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// An entity tag that may stand in `If-Range`: a weak one may not.
fn strong(headers: &HeaderMap) -> Option<String> {
    text(headers, "etag").filter(|tag| tag.starts_with('"'))
}

/// First byte and whole length of `bytes 5-9/10` or `bytes 5-9/*`.
fn content_range(value: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = value.strip_prefix("bytes")?.trim().split_once('/')?;
    let start = range.split_once('-')?.0.trim().parse().ok()?;
    if total.trim() == "*" { Some((start, None)) } else { Some((start, Some(total.trim().parse().ok()?))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        for wrong in ["bytes */10", "5-9/10", "bytes 5-9", "bytes a-9/10", "bytes 5-9/x"] {
            assert_eq!(content_range(wrong), None, "{wrong}");
        }
    }
}
