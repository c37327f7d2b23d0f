//! The parts of a checkpoint that are not weights: tokenizer, chat template, licence.

use std::path::{Path, PathBuf};

use rawloop_tokenizer::Tokenizer;

use crate::error::ConvertError;
use crate::fields::Document;

/// What goes into a pack's blobs, and the files it came from.
pub struct Text {
    /// The baked tokenizer table.
    pub tokenizer: Vec<u8>,
    /// Jinja source, where the checkpoint has one.
    pub chat_template: Option<String>,
    /// Licence text, where the checkpoint has one.
    pub license: Option<Vec<u8>>,
    /// Files read.
    pub files: Vec<PathBuf>,
}

/// Reads the files of a folder and bakes the tokenizer for a model of `vocab` tokens.
///
/// # Errors
/// tokenizer.json is missing or cannot be baked, or has more tokens than the model; a template's file is broken.
pub fn read(folder: &Path, vocab: usize) -> Result<Text, ConvertError> {
    let file = folder.join("tokenizer.json");
    if !file.is_file() {
        return Err(ConvertError::NoFile { file, need: "the tokenizer, without which a pack is of no use" });
    }
    let json = std::fs::read(&file).map_err(ConvertError::io(&file))?;
    let mut text = from_json(&file, &json, vocab)?;
    text.files.push(file);
    text.chat_template = chat_template(folder, &mut text.files)?;
    let license = folder.join("LICENSE");
    if license.is_file() {
        text.license = Some(std::fs::read(&license).map_err(ConvertError::io(&license))?);
        text.files.push(license);
    }
    Ok(text)
}

/// A tokenizer and nothing else; `file` is for messages.
///
/// # Errors
/// It cannot be baked, or has more tokens than the model.
pub fn from_json(file: &Path, json: &[u8], vocab: usize) -> Result<Text, ConvertError> {
    let refuse = |source| ConvertError::Tokenizer { file: file.into(), source };
    let tokenizer = rawloop_tokenizer::bake(json).map_err(refuse)?;
    let tokens = Tokenizer::load(tokenizer.clone()).map_or(0, |tokenizer| tokenizer.vocab_size() as usize);
    if tokens == 0 || tokens > vocab {
        return Err(ConvertError::Field {
            file: file.into(),
            field: "number of tokens".into(),
            found: tokens.to_string(),
            expected: format!("at most vocab_size of config.json ({vocab})"),
        });
    }
    Ok(Text { tokenizer, chat_template: None, license: None, files: Vec::new() })
}

/// chat_template.jinja, else `chat_template` of tokenizer_config.json: a text, or a list of named ones.
fn chat_template(folder: &Path, files: &mut Vec<PathBuf>) -> Result<Option<String>, ConvertError> {
    let file = folder.join("chat_template.jinja");
    if file.is_file() {
        let text = std::fs::read_to_string(&file).map_err(ConvertError::io(&file))?;
        files.push(file);
        return Ok(Some(text));
    }
    let file = folder.join("tokenizer_config.json");
    if !file.is_file() {
        return Ok(None);
    }
    let document = Document::read(&file, "the chat template")?;
    files.push(file);
    let fields = document.root()?;
    let Some(value) = fields.get("chat_template") else { return Ok(None) };
    let named = |value: &serde_json::Value| {
        let templates = value.as_array()?;
        let is_default = |template: &&serde_json::Value| template["name"] == "default";
        templates.iter().find(is_default)?["template"].as_str().map(String::from)
    };
    match value.as_str().map(String::from).or_else(|| named(value)) {
        Some(template) => Ok(Some(template)),
        None => Err(fields.wrong("chat_template", "a text, or a list with one named default")),
    }
}
