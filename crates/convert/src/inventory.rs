//! The check of a checkpoint's tensors against what its configuration asks for, before anything is written.

use std::collections::{BTreeMap, HashSet};

use rawloop_spec::Geometry;

use crate::error::{ConvertError, listed};
use crate::names::Names;
use crate::part::{Part, Stored};
use crate::safetensors::dtype_name;
use crate::source::{Description, TensorSource};

/// Counts of skipped tensors by reason: `vision`, `audio`, `dead_kv`.
pub type Skipped = BTreeMap<String, u64>;

/// Checks that every part is there in its type and shape, and that nothing is there that has no place.
///
/// # Errors
/// Names the tensors.
pub fn check_target(
    source: &dyn TensorSource,
    geometry: &Geometry,
    names: &Names,
) -> Result<Skipped, ConvertError> {
    let owns_kv = |layer: usize| (layer < geometry.layers.len()).then(|| geometry.owns_kv(layer));
    let layout = |part: Part| part.target_layout(geometry);
    check(source, names, &Part::target(geometry), layout, |tensor| names.skipped(tensor, owns_kv))
}

/// The same for a list of parts with their layouts; `skip` gives the reason to leave a tensor out.
pub fn check(
    source: &dyn TensorSource,
    names: &Names,
    parts: &[Part],
    layout: impl Fn(Part) -> Option<(Stored, Vec<usize>)>,
    skip: impl Fn(&str) -> Option<&'static str>,
) -> Result<Skipped, ConvertError> {
    let mut missing = Vec::new();
    let mut known = HashSet::new();
    for &part in parts {
        let name = part.name(names);
        match source.describe(&name) {
            Some(found) => {
                if let Some((stored, shape)) = layout(part) {
                    check_one(source, &name, stored, &shape, &found)?;
                }
            }
            None if part.optional() => {}
            None => missing.push(name.clone()),
        }
        known.insert(name);
    }
    let folder = || source.label().to_path_buf();
    if !missing.is_empty() {
        return Err(ConvertError::Missing {
            folder: folder(),
            count: missing.len(),
            names: listed(&missing),
        });
    }
    let mut skipped = Skipped::new();
    let mut surplus = Vec::new();
    for name in source.names() {
        if known.contains(&name) {
            continue;
        }
        match skip(&name) {
            Some(reason) => *skipped.entry(reason.into()).or_default() += 1,
            None => surplus.push(name),
        }
    }
    if !surplus.is_empty() {
        return Err(ConvertError::Surplus {
            folder: folder(),
            count: surplus.len(),
            names: listed(&surplus),
        });
    }
    Ok(skipped)
}

fn check_one(
    source: &dyn TensorSource,
    name: &str,
    stored: Stored,
    shape: &[usize],
    found: &Description,
) -> Result<(), ConvertError> {
    let expected = stored.describe(shape);
    let error = |expected, found| Err(ConvertError::tensor(source.file_of(name), name, expected, found));
    if let (Stored::Codes(bits), [rows, inputs], [stored_rows, row_bytes]) =
        (stored, shape, found.shape.as_slice())
        && rows == stored_rows
        && *row_bytes > 0
        && expected.shape[1] != *row_bytes
        && (row_bytes * 8).is_multiple_of(*inputs)
    {
        // Two statements of one width contradict each other; say both.
        let expected = format!("{} bits a code, as quantization_config says for this module", bits.width());
        let stored_bits = row_bytes * 8 / inputs;
        let found = format!("{stored_bits} bits a code ({row_bytes} bytes for a row of {inputs} inputs)");
        return error(expected, found);
    }
    if !stored.dtypes().contains(&found.dtype) {
        let types: Vec<String> = stored.dtypes().iter().map(|&dtype| dtype_name(dtype)).collect();
        return error(types.join(" or "), dtype_name(found.dtype));
    }
    // [rows, 1] and [rows], [1] and [] are the same numbers.
    let squeezed = |shape: &[usize]| shape.iter().copied().filter(|&size| size != 1).collect::<Vec<_>>();
    if squeezed(&expected.shape) != squeezed(&found.shape) {
        return error(format!("shape {:?}", expected.shape), format!("shape {:?}", found.shape));
    }
    Ok(())
}
