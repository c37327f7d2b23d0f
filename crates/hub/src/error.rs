//! What can go wrong between a name and a pack.
//!
//! A message says what was wanted, what happened and what to do next: most of these are read by somebody who has just
//! installed the program.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rawloop_convert::ConvertError;

/// What became of the token in requests to the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenUse {
    /// There is none.
    None,
    /// It was sent.
    Sent,
    /// It was stored by a login at the public hub, and this is another server.
    Stored,
    /// Everybody on the way could read it.
    Open,
}

impl TokenUse {
    fn for_a_token(self) -> &'static str {
        match self {
            TokenUse::None => "",
            TokenUse::Sent => ", and the one given was refused",
            TokenUse::Stored => ", and the stored one goes to no other server than huggingface.co",
            TokenUse::Open => ", and none is sent over plain http: name the server by https",
        }
    }

    fn for_terms(self) -> &'static str {
        match self {
            TokenUse::None => ", and set HF_TOKEN or give --token-file FILE",
            TokenUse::Sent => " with the account of the token (it was sent, and is not allowed yet)",
            TokenUse::Stored => {
                ", and set HF_TOKEN or give --token-file FILE (the stored token goes to no other server than huggingface.co)"
            }
            TokenUse::Open => ", and name the server by https (no token is sent over plain http)",
        }
    }

    fn for_a_repository(self) -> &'static str {
        match self {
            TokenUse::None => ", or it is private and needs a token (HF_TOKEN)",
            TokenUse::Sent => ", or the token may not see it",
            TokenUse::Stored => {
                ", or it is private and needs a token (HF_TOKEN; the stored one goes to no other server than huggingface.co)"
            }
            TokenUse::Open => ", or it is private and needs a token, which is not sent over plain http",
        }
    }
}

/// A model that could not be had. What was downloaded so far stays for the next attempt.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// No such model in the catalog.
    #[error("there is no model {id:?} in the catalog{}: `rawloop list` shows what there is", meant(.near))]
    UnknownModel {
        /// What was asked for.
        id: String,
        /// Names like it.
        near: Vec<String>,
    },
    /// A known model that is not on this machine.
    #[error("{id} is not on this machine: `rawloop pull {id}` fetches it")]
    NotPulled {
        /// Its name.
        id: String,
    },
    /// A drafter, which runs with its model only.
    #[error("{id} is a drafter and runs with its model only{}", .model.as_ref().map(|model| format!(": use {model}")).unwrap_or_default())]
    Assistant {
        /// Its name.
        id: String,
        /// The model it belongs to.
        model: Option<String>,
    },
    /// A catalog that cannot be used.
    #[error("{}: {reason}", file.display())]
    Catalog {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A setting that cannot be used.
    #[error("{name}: {reason}")]
    Setting {
        /// The variable or flag.
        name: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A file or folder on this machine.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The disk filled up, or a limit of file sizes was met.
    #[error("cannot write {}: {source}; what is there is kept, and the same command goes on from it", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Not enough space, known before anything was downloaded.
    #[error(
        "{} has {} free, and {} are needed ({}); free some, or choose another folder with {setting}",
        folder.display(), gigabytes(*free), gigabytes(*needed), .purpose
    )]
    Space {
        /// The folder whose disk is too small.
        folder: PathBuf,
        /// Bytes that will be written there.
        needed: u64,
        /// Bytes that are free.
        free: u64,
        /// What for.
        purpose: String,
        /// The variable that moves the folder.
        setting: &'static str,
    },
    /// The network was switched off and something is missing.
    #[error("{repository} is not complete in {}: {missing}; HF_HUB_OFFLINE or --offline forbids to fetch it", cache.display())]
    Offline {
        /// The repository.
        repository: String,
        /// The cache that was searched.
        cache: PathBuf,
        /// What is missing.
        missing: String,
    },
    /// The hub cannot be reached.
    #[error(
        "cannot reach {host}: {reason}; is there a network, or a proxy to name in HTTPS_PROXY? The same command goes on from what is there"
    )]
    Network {
        /// Host of the last attempt.
        host: String,
        /// What happened last.
        reason: String,
    },
    /// The transfer broke off too often.
    #[error(
        "{file} broke off {attempts} times without getting further: {reason}; the same command goes on from what is there"
    )]
    BrokeOff {
        /// The file.
        file: String,
        /// Attempts without progress.
        attempts: u32,
        /// What happened last.
        reason: String,
    },
    /// The hub wants to know who asks.
    #[error(
        "{repository} needs a token{}: make one at {endpoint}/settings/tokens, accept the model's terms at {endpoint}/{repository} with the same \
         account, and set HF_TOKEN or give --token-file FILE",
        .token.for_a_token()
    )]
    Unauthorized {
        /// The repository.
        repository: String,
        /// The hub.
        endpoint: String,
        /// What became of the token.
        token: TokenUse,
    },
    /// Terms that were not accepted.
    #[error(
        "{repository} is gated: open {endpoint}/{repository}, sign in and accept its terms{}; then run the same command again",
        .token.for_terms()
    )]
    Gated {
        /// The repository.
        repository: String,
        /// The hub.
        endpoint: String,
        /// What became of the token.
        token: TokenUse,
    },
    /// Neither repository nor revision is there, or may be seen.
    #[error(
        "{endpoint} has no {repository} at revision {revision:?}{}",
        .token.for_a_repository()
    )]
    NoRepository {
        /// The repository.
        repository: String,
        /// The revision.
        revision: String,
        /// The hub.
        endpoint: String,
        /// What became of the token.
        token: TokenUse,
    },
    /// A file of the catalog is not in the repository.
    #[error("{repository} at {commit} has no {file}, which the catalog asks for")]
    NoFile {
        /// The repository.
        repository: String,
        /// The commit.
        commit: String,
        /// Name or pattern.
        file: String,
    },
    /// Too many requests.
    #[error("{host} asks to wait {} seconds (too many requests): run the same command again then; with a token (HF_TOKEN) more are allowed", wait.as_secs())]
    Busy {
        /// The host.
        host: String,
        /// How long.
        wait: Duration,
    },
    /// Any other refusal.
    #[error("{url} answers {status}{}", .message.as_ref().map(|message| format!(": {message}")).unwrap_or_default())]
    Status {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
        /// The hub's own words.
        message: Option<String>,
    },
    /// An answer that makes no sense.
    #[error("{url}: {reason}; is this a Hugging Face hub or a mirror of one?")]
    Protocol {
        /// What was asked for.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The file on the hub is another one than the listing said.
    #[error("{file} changed on the hub while it was fetched: run the same command again")]
    Changed {
        /// The file.
        file: String,
    },
    /// Bytes that do not match their hash, twice.
    #[error(
        "{file} does not match its checksum (expected {expected}, found {found}), and neither did it when it was fetched again: the server or a proxy before it sends damaged bytes"
    )]
    Corrupt {
        /// The file.
        file: String,
        /// The hash it should have.
        expected: String,
        /// The hash it has.
        found: String,
    },
    /// The checkpoint is here and cannot become a pack.
    #[error(transparent)]
    Convert(ConvertError),
    /// Stopped on request.
    #[error("interrupted; the same command goes on from here")]
    Cancelled,
}

impl HubError {
    /// For `map_err`: a file or folder, and what was tried with it.
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> HubError {
        let path = path.to_path_buf();
        move |source| HubError::Io { path, action, source }
    }

    /// For `map_err` of writing: a full disk has a variant of its own.
    pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> HubError {
        let path = path.to_path_buf();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                HubError::Full { path, source }
            }
            _ => HubError::Io { path, action: "write", source },
        }
    }
}

impl From<ConvertError> for HubError {
    fn from(error: ConvertError) -> Self {
        match error {
            ConvertError::Cancelled => HubError::Cancelled,
            other => HubError::Convert(other),
        }
    }
}

fn meant(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(" (did you mean {}?)", names.join(" or ")),
    }
}

/// Bytes for a person.
pub fn gigabytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}
