//! The parts of a checkpoint that are not weights: tokenizer, chat template, licence.

use std::path::{Path, PathBuf};

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

/// Reads and bakes.
///
/// # Errors
/// tokenizer.json is missing or cannot be baked; a template's file is broken.
pub fn read(folder: &Path) -> Result<Text, ConvertError> {
    let file = folder.join("tokenizer.json");
    if !file.is_file() {
        return Err(ConvertError::NoFile { file, need: "the tokenizer, without which a pack is of no use" });
    }
    let json = std::fs::read(&file).map_err(ConvertError::io(&file))?;
    let tokenizer = rawloop_tokenizer::bake(&json)
        .map_err(|source| ConvertError::Tokenizer { file: file.clone(), source })?;
    let mut files = vec![file];
    let chat_template = chat_template(folder, &mut files)?;
    let license = folder.join("LICENSE");
    let license = if license.is_file() {
        let text = std::fs::read(&license).map_err(ConvertError::io(&license))?;
        files.push(license);
        Some(text)
    } else {
        None
    };
    Ok(Text { tokenizer, chat_template, license, files })
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
