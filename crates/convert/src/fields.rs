//! Typed access to the fields of a JSON object, with errors that name file and field.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::ConvertError;

/// A JSON file, parsed.
pub struct Document {
    /// The file.
    pub file: PathBuf,
    /// Its value.
    pub value: Value,
}

impl Document {
    /// Reads and parses `file`.
    ///
    /// # Errors
    /// Not there, not readable, not JSON.
    pub fn read(file: &Path, need: &'static str) -> Result<Document, ConvertError> {
        if !file.is_file() {
            return Err(ConvertError::NoFile { file: file.into(), need });
        }
        let text = std::fs::read(file).map_err(ConvertError::io(file))?;
        let value = serde_json::from_slice(&text)
            .map_err(|source| ConvertError::Json { file: file.into(), source })?;
        Ok(Document { file: file.into(), value })
    }

    /// The outermost object.
    ///
    /// # Errors
    /// It is something else.
    pub fn root(&self) -> Result<Fields<'_>, ConvertError> {
        let wrong = |found| ConvertError::Field {
            file: self.file.clone(),
            field: "the outermost value".into(),
            found,
            expected: "an object".into(),
        };
        let object = self.value.as_object().ok_or_else(|| wrong(brief(&self.value)))?;
        Ok(Fields { file: &self.file, path: String::new(), object })
    }
}

/// An object of a document. `null` counts as absent, as it does to the libraries that write these files.
#[derive(Clone)]
pub struct Fields<'a> {
    file: &'a Path,
    path: String,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// A field's value where it is there and not null.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Entries in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.object.iter()
    }

    /// An error about a field.
    pub fn wrong(&self, name: &str, expected: &str) -> ConvertError {
        ConvertError::Field {
            file: self.file.into(),
            field: format!("{}{name}", self.path),
            found: self.get(name).map_or_else(|| "missing".into(), brief),
            expected: expected.into(),
        }
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConvertError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| self.wrong(name, expected)),
        }
    }

    /// A count.
    ///
    /// # Errors
    /// The field holds something else; the same for the methods below.
    pub fn count(&self, name: &str) -> Result<Option<usize>, ConvertError> {
        self.typed(name, "a whole number", |value| usize::try_from(value.as_u64()?).ok())
    }

    /// A number.
    pub fn number(&self, name: &str) -> Result<Option<f64>, ConvertError> {
        self.typed(name, "a number", Value::as_f64)
    }

    /// A flag.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, ConvertError> {
        self.typed(name, "true or false", Value::as_bool)
    }

    /// A text.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, ConvertError> {
        self.typed(name, "a text", Value::as_str)
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, ConvertError> {
        let read =
            |value: &Value| value.as_array()?.iter().map(|item| item.as_str().map(String::from)).collect();
        self.typed(name, "a list of texts", read)
    }

    /// Token ids: one or a list.
    pub fn ids(&self, name: &str) -> Result<Option<Vec<u32>>, ConvertError> {
        let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let read = |value: &Value| match value {
            Value::Array(items) => items.iter().map(id).collect(),
            single => Some(vec![id(single)?]),
        };
        self.typed(name, "a token id or a list of them", read)
    }

    /// An object.
    pub fn object(&self, name: &str) -> Result<Option<Fields<'a>>, ConvertError> {
        let object = self.typed(name, "an object", Value::as_object)?;
        Ok(object.map(|object| Fields { file: self.file, path: format!("{}{name}.", self.path), object }))
    }

    /// A field that has to be there.
    ///
    /// # Errors
    /// It is missing.
    pub fn required<T>(
        &self,
        name: &str,
        expected: &str,
        value: Result<Option<T>, ConvertError>,
    ) -> Result<T, ConvertError> {
        value?.ok_or_else(|| self.wrong(name, expected))
    }
}

/// A value in few words.
fn brief(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}
