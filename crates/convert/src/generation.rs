//! Sampling defaults from generation_config.json.
//!
//! The stop ids have to come from here: config.json lists fewer, and tokenizer_config.json names a token that chat answers
//! never end with.

use std::path::Path;

use rawloop_pack::Generation;

use crate::config::Config;
use crate::error::ConvertError;
use crate::fields::Document;

/// Name of the file.
pub const FILE: &str = "generation_config.json";

/// Reads the defaults of a folder. Without the file the ids are config.json's and answers are greedy, as in Transformers.
///
/// # Errors
/// The file is broken, or no token ends an answer.
pub fn read(folder: &Path, config: &Config, notes: &mut Vec<String>) -> Result<Generation, ConvertError> {
    let file = folder.join(FILE);
    let document = if file.is_file() {
        Document::read(&file, "sampling defaults")?
    } else {
        notes.push(format!("{FILE} is missing; ids are config.json's, answers are greedy by default"));
        Document { file, value: serde_json::json!({}) }
    };
    from_document(&document, config)
}

/// Reads the defaults. A field that is absent has the default of Transformers: temperature 1, top_k 50, top_p 1, no sampling.
///
/// # Errors
/// A field of the wrong type, or no token ends an answer.
pub fn from_document(document: &Document, config: &Config) -> Result<Generation, ConvertError> {
    let fields = document.root()?;
    let first = |name: &str, or: Option<u32>| -> Result<Option<u32>, ConvertError> {
        Ok(fields.ids(name)?.and_then(|ids| ids.first().copied()).or(or))
    };
    let eos = fields.ids("eos_token_id")?.unwrap_or_else(|| config.eos.clone());
    if eos.is_empty() {
        return Err(fields.wrong("eos_token_id", "the tokens that end an answer, here or in config.json"));
    }
    let top_k = fields.count("top_k")?.unwrap_or(50);
    Ok(Generation {
        bos: first("bos_token_id", config.bos)?,
        pad: first("pad_token_id", config.pad)?,
        eos,
        do_sample: fields.flag("do_sample")?.unwrap_or(false),
        temperature: fields.number("temperature")?.unwrap_or(1.0) as f32,
        top_k: u32::try_from(top_k).map_err(|_| fields.wrong("top_k", "a small whole number"))?,
        top_p: fields.number("top_p")?.unwrap_or(1.0) as f32,
        suppress: fields.ids("suppress_tokens")?.unwrap_or_default(),
    })
}
