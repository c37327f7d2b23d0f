//! What a repository holds: names, sizes and hashes, asked of the hub's API in one request.
//!
//! Everything in the answer is checked before it names a file or a folder here: the commit is 40 hexadecimal digits, a file's
//! hash is a hash, and a file is one that the catalog asks for.

use std::io::Read;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::catalog::{Entry, fits, is_file_name};
use crate::checksum::Checksum;
use crate::client::{Client, Failure, transient};
use crate::error::HubError;
use crate::event::Event;
use crate::retry::{Patience, Refused};

/// What may stand in a part of a path as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Longest answer that is read.
const LIMIT: u64 = 16 << 20;

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its name; files in folders are never asked for.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The hash that names it; nothing for a copy in a cache without links.
    pub checksum: Option<Checksum>,
}

/// The files of a repository that an entry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The commit that the revision means now.
    pub commit: String,
    /// The files, in the catalog's order.
    pub files: Vec<RemoteFile>,
}

/// Asks the hub.
///
/// # Errors
/// The hub cannot be reached, refuses, or has not what the catalog asks for.
pub fn list(
    client: &Client,
    entry: &Entry,
    revision: &str,
    mut patience: Patience,
    report: &mut dyn FnMut(Event),
) -> Result<Listing, HubError> {
    let url = format!(
        "{}/api/models/{}/revision/{}?blobs=true",
        client.endpoint,
        entry.repository,
        escape(revision)
    );
    loop {
        let failure = match client.get(&url, &[]) {
            Err(failure) => failure,
            Ok(answer) => {
                let mut text = Vec::new();
                let body = answer.last.into_body().into_with_config().limit(LIMIT).reader();
                match body.take(LIMIT).read_to_end(&mut text) {
                    Ok(_) => return parse(&text, &url, entry),
                    Err(error) => match url.parse() {
                        Ok(uri) => transient(&uri, error.to_string()),
                        Err(_) => Failure::Fatal(protocol(&url, "is no address")),
                    },
                }
            }
        };
        match patience.after(failure, None, report) {
            Ok(()) => {}
            Err(Refused::Error(error)) => return Err(error),
            Err(Refused::Status { url, status, code, message }) => {
                return Err(refused(client, &entry.repository, revision, url, status, code, message));
            }
        }
    }
}

/// What a status means for somebody who wants a model.
pub fn refused(
    client: &Client,
    repository: &str,
    revision: &str,
    url: String,
    status: u16,
    code: Option<String>,
    message: Option<String>,
) -> HubError {
    let (repository, endpoint, token) = (repository.to_owned(), client.endpoint.clone(), client.token_use());
    match (status, code.as_deref()) {
        (_, Some("GatedRepo")) => HubError::Gated { repository, endpoint, token },
        (_, Some("RepoNotFound" | "RevisionNotFound")) | (404, _) => {
            HubError::NoRepository { repository, revision: revision.into(), endpoint, token }
        }
        (401, _) => HubError::Unauthorized { repository, endpoint, token },
        (403, _) => HubError::Gated { repository, endpoint, token },
        _ => HubError::Status { url, status, message },
    }
}

/// The address of a file's bytes.
pub fn file_url(client: &Client, repository: &str, commit: &str, name: &str) -> String {
    format!("{}/{repository}/resolve/{commit}/{}", client.endpoint, escape(name))
}

fn escape(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

fn protocol(url: &str, reason: impl Into<String>) -> HubError {
    HubError::Protocol { url: url.split('?').next().unwrap_or_default().into(), reason: reason.into() }
}

fn parse(text: &[u8], url: &str, entry: &Entry) -> Result<Listing, HubError> {
    let document: Value =
        serde_json::from_slice(text).map_err(|_| protocol(url, "does not answer in JSON"))?;
    let commit = document["sha"].as_str().filter(|text| is_commit(text));
    let commit = commit.ok_or_else(|| protocol(url, "names no commit"))?.to_owned();
    let siblings = document["siblings"].as_array().ok_or_else(|| protocol(url, "lists no files"))?;
    let mut files = Vec::new();
    for pattern in &entry.files {
        let (name, required) =
            pattern.strip_suffix('?').map_or((pattern.as_str(), true), |name| (name, false));
        let mut found = false;
        for sibling in siblings {
            let Some(file) = sibling["rfilename"].as_str().filter(|file| fits(name, file)) else { continue };
            if !is_file_name(file) {
                continue;
            }
            found = true;
            if files.iter().all(|known: &RemoteFile| known.name != file) {
                files.push(
                    remote_file(sibling, file)
                        .ok_or_else(|| protocol(url, format!("gives {file} without a size and a hash")))?,
                );
            }
        }
        if required && !found {
            let repository = entry.repository.clone();
            return Err(HubError::NoFile { repository, commit, file: name.into() });
        }
    }
    Ok(Listing { commit, files })
}

/// Large files are named by the hash of their bytes, others by git's.
fn remote_file(sibling: &Value, name: &str) -> Option<RemoteFile> {
    let lfs = &sibling["lfs"];
    let hash = ["sha256", "oid"].iter().find_map(|field| lfs[*field].as_str());
    let hash = hash.or_else(|| sibling["blobId"].as_str())?;
    let bytes = lfs["size"].as_u64().or_else(|| sibling["size"].as_u64())?;
    Some(RemoteFile { name: name.into(), bytes, checksum: Some(Checksum::parse(hash)?) })
}

/// Whether a text is a git commit.
pub fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry() -> Entry {
        let value = json!({"id": "x", "repository": "a/b", "files": ["config.json", "model*.safetensors", "LICENSE?"]});
        serde_json::from_value(value).unwrap()
    }

    fn listing(siblings: Value) -> Result<Listing, HubError> {
        let text = json!({"sha": "c".repeat(40), "siblings": siblings}).to_string();
        parse(text.as_bytes(), "http://hub/api?x", &entry())
    }

    #[test]
    fn only_what_the_catalog_asks_for_is_taken() {
        let siblings = json!([
            {"rfilename": "model.safetensors", "size": 5, "blobId": "b".repeat(40), "lfs": {"sha256": "a".repeat(64), "size": 7}},
            {"rfilename": "config.json", "size": 3, "blobId": "d".repeat(40)},
            {"rfilename": "other.bin", "size": 3, "blobId": "e".repeat(40)},
            {"rfilename": "model/../../x.safetensors", "size": 3, "blobId": "e".repeat(40)},
        ]);
        let listing = listing(siblings).unwrap();
        let files: Vec<_> = listing.files.iter().map(|file| (file.name.as_str(), file.bytes)).collect();
        assert_eq!(files, [("config.json", 3), ("model.safetensors", 7)]);
        assert_eq!(listing.files[1].checksum.as_ref().unwrap().as_str(), "a".repeat(64));
    }

    #[test]
    fn answers_that_make_no_sense_are_refused() {
        for (text, word) in [
            ("<html>", "JSON"),
            ("{}", "commit"),
            (r#"{"sha": "../../../../../../../../../../../../../../"}"#, "commit"),
            (&format!(r#"{{"sha": "{}"}}"#, "c".repeat(40)), "files"),
        ] {
            let message = parse(text.as_bytes(), "http://hub/api?x", &entry()).unwrap_err().to_string();
            assert!(
                message.contains(word) && message.contains("http://hub/api;")
                    || message.contains("http://hub/api:"),
                "{message}"
            );
        }
        let hostile = json!([{"rfilename": "config.json", "size": 3, "blobId": "../../x"}]);
        assert!(listing(hostile).unwrap_err().to_string().contains("config.json"));
        let missing = json!([{"rfilename": "config.json", "size": 3, "blobId": "d".repeat(40)}]);
        assert!(listing(missing).unwrap_err().to_string().contains("model*.safetensors"));
    }
}
