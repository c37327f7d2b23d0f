//! Manifests that lie: a valid one is edited as a tree and sealed with a right hash, and some stored numbers are
//! overwritten. Nothing may panic; what opens must be usable.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use rawloop_fuzz::{SMALL, small};
use serde_json::{Number, Value};
use std::sync::LazyLock;

static MANIFEST: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_slice(&SMALL[small::manifest_range(&SMALL)]).unwrap());

fuzz_target!(|bytes: &[u8]| {
    if let Ok(file) = build(&mut Unstructured::new(bytes)) {
        rawloop_fuzz::open_and_use(file);
    }
});

fn build(input: &mut Unstructured) -> Result<Vec<u8>> {
    let mut manifest = MANIFEST.clone();
    for _ in 0..input.int_in_range(0..=4)? {
        edit(&mut manifest, input)?;
    }
    let mut file = SMALL.clone();
    let data = small::manifest_range(&SMALL).start;
    for _ in 0..input.int_in_range(0..=2)? {
        let place = input.int_in_range(16384 / 4..=data / 4 - 1)? * 4;
        let number: [u8; 4] = input.arbitrary()?;
        file[place..place + 4].copy_from_slice(&number);
    }
    // A Value always has a text.
    let text = serde_json::to_vec(&manifest).unwrap_or_default();
    Ok(small::with_manifest(&file, &text))
}

/// Changes one place of the tree.
fn edit(root: &mut Value, input: &mut Unstructured) -> Result<()> {
    let mut node = root;
    loop {
        let stop = input.ratio(1, 5)?;
        let children = match &*node {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        if children == 0 || stop {
            return change(node, input);
        }
        let index = input.choose_index(children)?;
        let child = match node {
            Value::Array(items) => items.get_mut(index),
            Value::Object(fields) => fields.values_mut().nth(index),
            _ => None,
        };
        match child {
            Some(child) => node = child,
            None => return Ok(()),
        }
    }
}

fn change(node: &mut Value, input: &mut Unstructured) -> Result<()> {
    let replace = input.ratio(1, 6)?;
    match node {
        Value::Array(items) if !replace && !items.is_empty() => {
            let (a, b) = (input.choose_index(items.len())?, input.choose_index(items.len())?);
            match input.int_in_range(0..=3)? {
                0 => drop(items.remove(a)),
                1 => items.push(items[a].clone()),
                2 => items.swap(a, b),
                _ => items.truncate(a),
            }
        }
        Value::Object(fields) if !replace && !fields.is_empty() => {
            let index = input.choose_index(fields.len())?;
            let key = fields.keys().nth(index).cloned().unwrap_or_default();
            let value = fields.shift_remove(&key).unwrap_or_default();
            if input.arbitrary()? {
                fields.insert(input.arbitrary()?, value);
            }
        }
        Value::Number(number) if !replace => *number = near(number, input)?,
        Value::String(text) if !replace => *text = input.arbitrary()?,
        _ => *node = leaf(input)?,
    }
    Ok(())
}

/// A number that bounds checks have to look at twice.
fn near(number: &Number, input: &mut Unstructured) -> Result<Number> {
    let old = number.as_u64().unwrap_or_default();
    Ok(match input.int_in_range(0..=7)? {
        0 => old.wrapping_add(1).into(),
        1 => old.wrapping_sub(1).into(),
        2 => old.wrapping_mul(2).into(),
        3 => (old / 2).into(),
        4 => {
            (*input.choose(&[0, 1, 32, 64, 256, 16384, 1 << 20, 1 << 31, 1 << 32, 1 << 63, u64::MAX])?).into()
        }
        5 => old.wrapping_add(*input.choose(&[4, 32, 256, 16384])?).into(),
        6 => Number::from_f64(input.arbitrary()?).unwrap_or_else(|| 0.into()),
        _ => input.arbitrary::<i64>()?.into(),
    })
}

fn leaf(input: &mut Unstructured) -> Result<Value> {
    Ok(match input.int_in_range(0..=5)? {
        0 => Value::Null,
        1 => Value::Bool(input.arbitrary()?),
        2 => Value::String(input.arbitrary()?),
        3 => Value::Array(Vec::new()),
        4 => Value::Object(serde_json::Map::new()),
        _ => input.arbitrary::<u64>()?.into(),
    })
}
