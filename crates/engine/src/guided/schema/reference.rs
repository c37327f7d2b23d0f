//! References: JSON pointers into the schema itself, and the plain names they get.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::GuidedError;

/// Schemas that references lead to, by pointer.
#[derive(Default)]
pub(super) struct Definitions {
    names: HashMap<String, String>,
    /// Named, not rewritten yet.
    open: Vec<(String, String)>,
    done: Map<String, Value>,
}

impl Definitions {
    /// The name of what a pointer leads to.
    pub fn name(&mut self, pointer: &str) -> String {
        if let Some(name) = self.names.get(pointer) {
            return name.clone();
        }
        let name = format!("d{}", self.names.len());
        self.names.insert(pointer.into(), name.clone());
        self.open.push((pointer.into(), name.clone()));
        name
    }

    /// A pointer whose target has not been rewritten yet, with its name.
    pub fn next(&mut self) -> Option<(String, String)> {
        self.open.pop()
    }

    pub fn set(&mut self, name: String, schema: Value) {
        self.done.insert(name, schema);
    }

    pub fn finish(self) -> Map<String, Value> {
        self.done
    }
}

/// What a reference leads to.
pub(crate) fn target<'s>(root: &'s Value, reference: &str) -> Result<&'s Value, GuidedError> {
    let Some(fragment) = reference.strip_prefix('#') else {
        return Err(refused(reference, "a schema from elsewhere is not fetched; put it under `$defs`"));
    };
    if !fragment.is_empty() && !fragment.starts_with('/') {
        return Err(refused(reference, "only references by JSON pointer are followed (`#/$defs/name`)"));
    }
    // Pointers in a fragment are percent-encoded.
    let pointer = percent_decoded(if fragment == "/" { "" } else { fragment });
    let found = pointer.as_deref().and_then(|pointer| root.pointer(pointer));
    found.ok_or_else(|| refused(reference, "it leads nowhere"))
}

fn refused(reference: &str, problem: &str) -> GuidedError {
    GuidedError::Unsupported { keyword: "$ref".into(), path: reference.into(), reason: problem.into() }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The JSON pointer to a part.
pub(super) fn child(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}
