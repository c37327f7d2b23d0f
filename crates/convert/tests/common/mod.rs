//! What the tests share: the shipped tiny checkpoint, edits of safetensors files, conversions into a temporary folder.
#![allow(dead_code)] // every test binary uses some of it

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawloop_convert::{ConvertError, ConvertOptions, Report, convert};
use rawloop_pack::Pack;
use serde_json::{Value, json};
use tempfile::TempDir;

pub fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny")
}

/// A temporary copy of the tiny checkpoint and its assistant, without what only some checkpoints have: a chat template and
/// a file that tells the origin.
pub fn tiny_copy() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for part in ["checkpoint", "assistant"] {
        std::fs::create_dir(folder.path().join(part)).unwrap();
        for entry in std::fs::read_dir(tiny().join(part)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), folder.path().join(part).join(entry.file_name())).unwrap();
        }
    }
    for optional in ["chat_template.jinja", ".rawloop-source.json"] {
        std::fs::remove_file(folder.path().join("checkpoint").join(optional)).unwrap();
    }
    folder
}

/// Converts `folder/checkpoint` (and `folder/assistant`) to `folder/out.rlp`.
pub fn convert_folder(folder: &Path, assistant: bool) -> Result<Report, ConvertError> {
    let options = ConvertOptions {
        checkpoint: folder.join("checkpoint"),
        assistant: assistant.then(|| folder.join("assistant")),
        output: folder.join("out.rlp"),
        ..ConvertOptions::default()
    };
    convert(&options, &mut ())
}

/// The conversion fails, its message has every one of `words`, and nothing is left beside the input.
#[track_caller]
pub fn refused(folder: &Path, assistant: bool, words: &[&str]) {
    let before = listing(folder);
    let message = convert_folder(folder, assistant).expect_err("it converts").to_string();
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert_eq!(listing(folder), before, "something is left behind");
}

pub fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn open(path: &Path) -> Pack {
    Pack::open(path).unwrap()
}

/// A safetensors file taken apart.
pub struct Tensors {
    pub tensors: BTreeMap<String, Tensor>,
}

#[derive(Clone)]
pub struct Tensor {
    pub dtype: String,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Tensors {
    pub fn read(path: &Path) -> Tensors {
        let bytes = std::fs::read(path).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: BTreeMap<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let tensor = |(name, info): (String, Value)| {
            let at = |index: usize| 8 + length + info["data_offsets"][index].as_u64().unwrap() as usize;
            let shape = serde_json::from_value(info["shape"].clone()).unwrap();
            let dtype = info["dtype"].as_str().unwrap().to_string();
            (name, Tensor { dtype, shape, bytes: bytes[at(0)..at(1)].to_vec() })
        };
        let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__").map(tensor).collect();
        Tensors { tensors }
    }

    pub fn write(&self, path: &Path) {
        let mut header = serde_json::Map::new();
        let mut data = Vec::new();
        for (name, tensor) in &self.tensors {
            let offsets = [data.len(), data.len() + tensor.bytes.len()];
            let info = json!({ "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets });
            header.insert(name.clone(), info);
            data.extend(&tensor.bytes);
        }
        write_raw(path, &Value::Object(header), &data);
    }

    pub fn get(&mut self, name: &str) -> &mut Tensor {
        self.tensors.get_mut(name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    pub fn set_f32(&mut self, name: &str, index: usize, value: f32) {
        self.get(name).bytes[4 * index..4 * index + 4].copy_from_slice(&value.to_le_bytes());
    }
}

pub fn write_raw(path: &Path, header: &Value, data: &[u8]) {
    let header = serde_json::to_vec(header).unwrap();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(data);
    std::fs::write(path, bytes).unwrap();
}

/// Changes the target's weights in a copy of tiny.
pub fn edit(folder: &Path, change: impl FnOnce(&mut Tensors)) {
    let path = folder.join("checkpoint/model.safetensors");
    let mut tensors = Tensors::read(&path);
    change(&mut tensors);
    tensors.write(&path);
}

/// Changes a JSON file.
pub fn edit_json(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, serde_json::to_vec(&value).unwrap()).unwrap();
}
