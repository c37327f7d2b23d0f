//! Whether a manifest tells the truth about a file of a given length, before any tensor is looked at.
//!
//! The tensor list must equal the registry for the geometry; a pack of another shape is refused here, so that no kernel
//! has to ask. The writer runs the same check on what it is about to publish.

use std::fmt::Display;

use rawloop_spec::{TensorSpec, Unsupported, tensor};

use crate::error::{PackError, shown};
use crate::layout::{DATA_OFFSET, alignment, stored_bytes};
use crate::manifest::{Generation, Head, Manifest, TensorEntry};
use crate::{FORMAT_VERSION, hash};

/// Longest name of a blob.
const BLOB_NAME_LIMIT: usize = 64;

/// Checks everything that can be known without reading tensors. `data_end` is where the manifest starts.
pub(crate) fn manifest(manifest: &Manifest, data_end: u64, file: &str) -> Result<(), PackError> {
    if manifest.format_version != FORMAT_VERSION {
        let (found, expected) = (manifest.format_version, FORMAT_VERSION);
        return Err(PackError::Version { file: file.into(), found, expected });
    }
    let geometry_error = |source| PackError::Geometry { file: file.into(), source };
    manifest.geometry.validate().map_err(geometry_error)?;
    owners_come_first(manifest).map_err(geometry_error)?;
    if let Some(drafter) = &manifest.drafter {
        drafter.validate(&manifest.geometry).map_err(geometry_error)?;
    }
    generation(&manifest.generation, manifest.geometry.vocab, file)?;
    for source in &manifest.provenance.files {
        if !hash::is_sha256(&source.sha256) {
            let expected = "64 lower-case hexadecimal digits".to_string();
            let field = format!("provenance.files: sha256 of {}", shown(&source.name));
            return Err(field_error(file, field, shown(&source.sha256), expected));
        }
    }
    let cursor = tensors(manifest, data_end, file)?;
    blobs(manifest, cursor, data_end, file)
}

/// The registry of a head: target, then drafter. Only for a geometry that was validated.
pub(crate) fn registry(
    geometry: &rawloop_spec::Geometry,
    drafter: Option<&rawloop_spec::DrafterGeometry>,
) -> Vec<TensorSpec> {
    let mut specs = tensor::target(geometry);
    if let Some(drafter) = drafter {
        specs.extend(tensor::drafter(drafter, geometry.vocab, geometry.hidden));
    }
    specs
}

/// Checks a head before the writer builds a registry from it.
pub(crate) fn head(head: &Head, file: &str) -> Result<(), PackError> {
    let geometry_error = |source| PackError::Geometry { file: file.into(), source };
    head.geometry.validate().map_err(geometry_error)?;
    match &head.drafter {
        Some(drafter) => drafter.validate(&head.geometry).map_err(geometry_error),
        None => Ok(()),
    }
}

/// Layers that own K/V are the first ones: backends size their caches by that.
fn owners_come_first(manifest: &Manifest) -> Result<(), Unsupported> {
    let geometry = &manifest.geometry;
    match (geometry.own_layers()..geometry.layers.len()).find(|&layer| geometry.owns_kv(layer)) {
        Some(layer) => {
            let field = format!("K/V producer of layer {layer}");
            Err(Unsupported::new(
                &field,
                layer,
                "an earlier layer: layers that own their K/V come first".into(),
            ))
        }
        None => Ok(()),
    }
}

fn generation(generation: &Generation, vocab: usize, file: &str) -> Result<(), PackError> {
    let ids = [
        ("generation.bos", generation.bos.as_slice()),
        ("generation.pad", generation.pad.as_slice()),
        ("generation.eos", &generation.eos),
        ("generation.suppress", &generation.suppress),
    ];
    for (field, ids) in ids {
        if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab) {
            return Err(field_error(file, field, id, format!("token ids below {vocab}")));
        }
    }
    let Generation { temperature, top_p, .. } = *generation;
    if !(temperature.is_finite() && temperature >= 0.0) {
        return Err(field_error(file, "generation.temperature", temperature, "a finite number >= 0".into()));
    }
    if !(0.0..=1.0).contains(&top_p) {
        return Err(field_error(file, "generation.top_p", top_p, "a number from 0 to 1".into()));
    }
    Ok(())
}

/// Returns the end of the last tensor.
fn tensors(manifest: &Manifest, data_end: u64, file: &str) -> Result<u64, PackError> {
    let specs = registry(&manifest.geometry, manifest.drafter.as_ref());
    let mut entries = manifest.tensors.iter();
    let mut cursor = DATA_OFFSET;
    for spec in &specs {
        let error = |what, found: String, expected: String| {
            Err(PackError::Tensor { file: file.into(), tensor: spec.name.clone(), what, found, expected })
        };
        let Some(entry) = entries.next() else {
            return error("its entry", "missing".into(), format!("the entry after {}", last_name(manifest)));
        };
        if entry.name != spec.name {
            return error("the name at its place", shown(&entry.name), shown(&spec.name));
        }
        if entry.format != spec.format {
            return error("format", entry.format.name(), spec.format.name());
        }
        if (entry.rows, entry.columns) != (spec.rows, spec.columns) {
            return error("shape", shape(entry.rows, entry.columns), shape(spec.rows, spec.columns));
        }
        if entry.class != spec.class {
            return error("class", format!("{:?}", entry.class), format!("{:?}", spec.class));
        }
        let Some(bytes) = stored_bytes(spec.format, spec.rows, spec.columns) else {
            return error("shape", shape(spec.rows, spec.columns), "one whose bytes fit 64 bits".into());
        };
        if entry.bytes != bytes {
            return error("bytes", entry.bytes.to_string(), bytes.to_string());
        }
        if !hash::is_sha256(&entry.sha256) {
            return error("sha256", shown(&entry.sha256), "64 lower-case hexadecimal digits".into());
        }
        match place(entry.offset, entry.bytes, cursor, data_end) {
            Ok(end) => cursor = end,
            Err(expected) => return error("offset", entry.offset.to_string(), expected),
        }
    }
    match entries.next() {
        Some(TensorEntry { name, .. }) => Err(PackError::Tensor {
            file: file.into(),
            tensor: shown(name),
            what: "its entry",
            found: "there".into(),
            expected: format!("no more than the {} tensors of this geometry", specs.len()),
        }),
        None => Ok(cursor),
    }
}

fn blobs(manifest: &Manifest, mut cursor: u64, data_end: u64, file: &str) -> Result<(), PackError> {
    for (index, entry) in manifest.blobs.iter().enumerate() {
        let error = |what, found: String, expected: String| {
            Err(PackError::Blob { file: file.into(), blob: shown(&entry.name), what, found, expected })
        };
        if entry.name.is_empty() || entry.name.len() > BLOB_NAME_LIMIT {
            let expected = format!("1 to {BLOB_NAME_LIMIT} bytes");
            return error("its name", format!("{} bytes long", entry.name.len()), expected);
        }
        if index >= BLOB_LIMIT {
            return error("its place", index.to_string(), format!("at most {BLOB_LIMIT} blobs"));
        }
        if manifest.blobs[..index].iter().any(|other| other.name == entry.name) {
            return error("its name", "there twice".into(), "one blob of a name".into());
        }
        if !hash::is_sha256(&entry.sha256) {
            return error("sha256", shown(&entry.sha256), "64 lower-case hexadecimal digits".into());
        }
        match place(entry.offset, entry.bytes, cursor, data_end) {
            Ok(end) => cursor = end,
            Err(expected) => return error("offset", entry.offset.to_string(), expected),
        }
    }
    Ok(())
}

/// Most blobs of a pack; keeps the search for equal names short.
const BLOB_LIMIT: usize = 256;

/// Checks one range: aligned, not before the end of the one before it, not beyond the data. Returns its end, or what was
/// expected of the offset.
fn place(offset: u64, bytes: u64, cursor: u64, data_end: u64) -> Result<u64, String> {
    let boundary = alignment(bytes);
    let end = offset.checked_add(bytes).filter(|&end| end <= data_end);
    match end {
        Some(end) if offset >= cursor && offset.is_multiple_of(boundary) => Ok(end),
        _ => Err(format!(
            "a multiple of {boundary}, at least {cursor}, with {bytes} bytes before the manifest at {data_end}"
        )),
    }
}

fn shape(rows: usize, columns: usize) -> String {
    format!("[{rows} x {columns}]")
}

fn last_name(manifest: &Manifest) -> String {
    manifest.tensors.last().map_or_else(|| "the start".into(), |entry| shown(&entry.name))
}

fn field_error(file: &str, field: impl Into<String>, found: impl Display, expected: String) -> PackError {
    PackError::Manifest { file: file.into(), field: field.into(), found: found.to_string(), expected }
}
