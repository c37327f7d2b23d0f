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

/// Reads the defaults. Without the file the ids are config.json's and answers are greedy, as in Transformers; a field that is
/// absent has the default it has there (temperature 1, top_k 50, top_p 1, no sampling).
///
/// # Errors
/// The file is broken, or no token ends an answer.
pub fn read(folder: &Path, config: &Config, notes: &mut Vec<String>) -> Result<Generation, ConvertError> {
    let mut generation = Generation {
        bos: config.bos,
        pad: config.pad,
        eos: config.eos.clone(),
        do_sample: false,
        temperature: 1.0,
        top_k: 50,
        top_p: 1.0,
        suppress: Vec::new(),
    };
    let file = folder.join(FILE);
    if file.is_file() {
        let document = Document::read(&file, "sampling defaults")?;
        let fields = document.root()?;
        let first = |name: &str, or: Option<u32>| -> Result<Option<u32>, ConvertError> {
            Ok(fields.ids(name)?.and_then(|ids| ids.first().copied()).or(or))
        };
        generation.bos = first("bos_token_id", generation.bos)?;
        generation.pad = first("pad_token_id", generation.pad)?;
        if let Some(eos) = fields.ids("eos_token_id")? {
            generation.eos = eos;
        }
        generation.suppress = fields.ids("suppress_tokens")?.unwrap_or_default();
        generation.do_sample = fields.flag("do_sample")?.unwrap_or(generation.do_sample);
        generation.temperature =
            fields.number("temperature")?.map_or(generation.temperature, |value| value as f32);
        generation.top_p = fields.number("top_p")?.map_or(generation.top_p, |value| value as f32);
        if let Some(top_k) = fields.count("top_k")? {
            generation.top_k =
                u32::try_from(top_k).map_err(|_| fields.wrong("top_k", "a small whole number"))?;
        }
    } else {
        notes.push(format!("{FILE} is missing; ids are config.json's, answers are greedy by default"));
    }
    if generation.eos.is_empty() {
        return Err(ConvertError::Field {
            file,
            field: "eos_token_id".into(),
            found: "missing, here and in config.json".into(),
            expected: "the tokens that end an answer".into(),
        });
    }
    Ok(generation)
}
