//! A conversation in a file.
//!
//! Stored are the messages, the options and the seed. **Not the cache:** an answer is a function of its prompt and options, the
//! prompt is rendered from the messages, and prefilling it gives the same bytes of K/V in chunks of any width (docs/spec.md,
//! consequences). A random number depends on the seed and the position alone (rule 13). So the conversation goes on as if it
//! had never stopped, the file is text of a few kilobytes instead of 6 KB a token and 6 MB of rings, and it outlives a change
//! of `--kv`, of the thread count and of the cache's own format. What it costs is one prefill.
//!
//! The file is one line that says what follows, and JSON:
//!
//! ```text
//! rawloop-chat 1 BYTES SHA256
//! { ... }
//! ```
//!
//! A truncated or edited file is told from a damaged one by the count. Writing goes to a temporary file beside the target, which
//! is then renamed: a killed process leaves the conversation as it was before. Files and who may write them: `session_file.rs`.

use std::path::{Path, PathBuf};

use rawloop_tokenizer::SpecialText;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::session_file::{self, LARGEST, SessionFile};
use super::turn::ChatOptions;
use crate::chat::Message;
use crate::guided::{Guide, GuidedError, Statement};
use crate::model::Model;
use crate::sample::SamplingOptions;
use crate::session::GenerateOptions;

const NAME: &str = "rawloop-chat";
const VERSION: u32 = 1;

/// A conversation as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedChat {
    /// The model that it was held with.
    pub model: SavedModel,
    /// Instructions before the first message.
    pub system: Option<String>,
    /// Asks the model to think before it answers.
    pub thinking: bool,
    generate: SavedGenerate,
    /// The history.
    pub messages: Vec<Message>,
}

/// Which model it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedModel {
    /// Its name.
    pub name: String,
    /// SHA-256 of the pack's manifest, which holds the hash of every tensor.
    pub manifest_sha256: String,
}

/// What of [`GenerateOptions`] decides an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedGenerate {
    max_tokens: usize,
    stop_ids: Vec<u32>,
    stop_strings: Vec<String>,
    ignore_eos: bool,
    spell_special: bool,
    thinking_budget: Option<usize>,
    detect_loops: bool,
    /// What answers have to look like, as it was stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    form: Option<Statement>,
    sampling: SamplingOptions,
}

/// Why a stored conversation cannot be used or written.
#[derive(Debug, thiserror::Error)]
pub enum SessionFileError {
    /// The file cannot be read or written.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process goes on with it.
    #[error("{} is in use: another process goes on with this conversation; end that one, or name another file", file.display())]
    InUse {
        /// The file.
        file: PathBuf,
    },
    /// It is no regular file.
    #[error("{} is {kind}: a conversation is kept in a regular file", file.display())]
    NoFile {
        /// What was named.
        file: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// No conversation is as large.
    #[error("{} has {bytes} bytes: a conversation has at most {most}", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Bytes there are.
        bytes: u64,
        /// Bytes there may be.
        most: u64,
    },
    /// It is something else.
    #[error("{} holds no conversation: expected a first line `{NAME} {VERSION} BYTES SHA256`", file.display())]
    NoConversation {
        /// The file.
        file: PathBuf,
    },
    /// Of a version that this program does not read.
    #[error("{} was written in version {found} of the format: this program reads version {VERSION}", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: String,
    },
    /// Bytes are missing or too many.
    #[error("{} holds {found} bytes of a conversation of {expected}: it was cut off or added to", file.display())]
    Length {
        /// The file.
        file: PathBuf,
        /// Bytes there are.
        found: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// The bytes are not the ones that were written.
    #[error("{} was damaged or edited: its checksum is wrong", file.display())]
    Checksum {
        /// The file.
        file: PathBuf,
    },
    /// The JSON is not a conversation.
    #[error("{}: {source}", file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// Another model would go on with it.
    #[error(
        "the conversation was held with {found}, this is {expected}: start that model, or adopt the conversation"
    )]
    OtherModel {
        /// The model of the conversation.
        found: String,
        /// The model at hand.
        expected: String,
    },
}

impl SavedModel {
    /// The model at hand.
    pub fn of(model: &Model) -> SavedModel {
        let manifest = model.pack().manifest();
        // A manifest is plain data, and was JSON before.
        let text = serde_json::to_vec(manifest).unwrap_or_default();
        SavedModel { name: manifest.model.name.clone(), manifest_sha256: hex(&Sha256::digest(text)) }
    }
}

impl std::fmt::Display for SavedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.manifest_sha256.get(..8).unwrap_or("?"))
    }
}

impl SavedChat {
    /// Whether a file begins as a stored conversation does.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_one(path: &Path) -> Result<bool, SessionFileError> {
        let beginning = session_file::read(path, NAME.len() as u64 + 1)?;
        Ok(beginning.strip_prefix(NAME.as_bytes()) == Some(b" "))
    }

    pub(super) fn of(model: &Model, options: &ChatOptions, messages: Vec<Message>) -> SavedChat {
        // Left out: chunks, marks and drafts, which decide the time an answer takes and nothing else; and plans, which are the
        // program's that makes them.
        let GenerateOptions {
            max_tokens,
            stop_ids,
            stop_strings,
            ignore_eos,
            special,
            thinking_budget,
            detect_loops,
            sampling,
            chunk: _,
            marks: _,
            draft: _,
            constraint,
        } = options.generate.clone();
        let spell_special = special == SpecialText::Keep;
        let form = match &constraint {
            Some(Guide::Grammar(grammar)) => grammar.stated().cloned(),
            Some(Guide::Plan(_)) | None => None,
        };
        let generate = SavedGenerate {
            max_tokens,
            stop_ids,
            stop_strings,
            ignore_eos,
            spell_special,
            thinking_budget,
            detect_loops,
            form,
            sampling,
        };
        SavedChat {
            model: SavedModel::of(model),
            system: options.system.clone(),
            thinking: options.thinking,
            generate,
            messages,
        }
    }

    /// Sets the options that were stored.
    ///
    /// # Errors
    /// The form of the answers is none that this program knows; nothing is set then.
    pub(super) fn options(&self, options: &mut ChatOptions) -> Result<(), GuidedError> {
        match &self.generate.form {
            Some(form) => options.generate.constraint = Some(form.grammar()?.into()),
            None if matches!(options.generate.constraint, Some(Guide::Plan(_))) => {}
            None => options.generate.constraint = None,
        }
        options.system.clone_from(&self.system);
        options.thinking = self.thinking;
        let saved = self.generate.clone();
        options.generate.max_tokens = saved.max_tokens;
        options.generate.stop_ids = saved.stop_ids;
        options.generate.stop_strings = saved.stop_strings;
        options.generate.ignore_eos = saved.ignore_eos;
        options.generate.special = if saved.spell_special { SpecialText::Keep } else { SpecialText::Drop };
        options.generate.thinking_budget = saved.thinking_budget;
        options.generate.detect_loops = saved.detect_loops;
        options.generate.sampling = saved.sampling;
        Ok(())
    }

    /// How its tokens were picked, the seed included.
    pub fn sampling(&self) -> &SamplingOptions {
        &self.generate.sampling
    }

    /// Lets another model go on with it: what it says next is not what the first one would have said.
    pub fn adopt(&mut self, model: &Model) {
        self.model = SavedModel::of(model);
    }

    pub(super) fn check_model(&self, model: &Model) -> Result<(), SessionFileError> {
        let here = SavedModel::of(model);
        if self.model == here {
            return Ok(());
        }
        Err(SessionFileError::OtherModel { found: self.model.to_string(), expected: here.to_string() })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(path: &Path) -> Result<SavedChat, SessionFileError> {
        let bytes = session_file::read(path, LARGEST)?;
        SavedChat::parse(&bytes, path)
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<SavedChat, SessionFileError> {
        let file = || path.to_path_buf();
        let no_conversation = || SessionFileError::NoConversation { file: file() };
        let end = bytes.iter().take(200).position(|&byte| byte == b'\n').ok_or_else(no_conversation)?;
        let line = std::str::from_utf8(&bytes[..end]).map_err(|_| no_conversation())?;
        let words: Vec<&str> = line.split(' ').collect();
        let (version, count, sum) = match words[..] {
            [NAME, version, count, sum] => (version, count, sum),
            [NAME, version, ..] if version != VERSION.to_string() => (version, "", ""),
            _ => return Err(no_conversation()),
        };
        if version != VERSION.to_string() {
            return Err(SessionFileError::Version { file: file(), found: version.into() });
        }
        let expected: usize = count.parse().map_err(|_| no_conversation())?;
        let body = &bytes[end + 1..];
        if body.len() != expected {
            return Err(SessionFileError::Length { file: file(), found: body.len(), expected });
        }
        if hex(&Sha256::digest(body)) != sum {
            return Err(SessionFileError::Checksum { file: file() });
        }
        serde_json::from_slice(body).map_err(|source| SessionFileError::Json { file: file(), source })
    }

    /// Writes a file, whole or not at all. It is readable for the user alone.
    ///
    /// # Errors
    /// As [`SessionFile::open`] and [`SessionFile::write`].
    pub fn write(&self, path: &Path) -> Result<(), SessionFileError> {
        SessionFile::open(path)?.write(self)
    }

    /// What a file holds of it.
    pub(super) fn to_bytes(&self, path: &Path) -> Result<Vec<u8>, SessionFileError> {
        let file = || path.to_path_buf();
        let mut body = serde_json::to_vec_pretty(self)
            .map_err(|source| SessionFileError::Json { file: file(), source })?;
        body.push(b'\n');
        let mut bytes =
            format!("{NAME} {VERSION} {} {}\n", body.len(), hex(&Sha256::digest(&body))).into_bytes();
        bytes.append(&mut body);
        match bytes.len() as u64 {
            bytes if bytes > LARGEST => {
                Err(SessionFileError::TooLarge { file: file(), bytes, most: LARGEST })
            }
            _ => Ok(bytes),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
