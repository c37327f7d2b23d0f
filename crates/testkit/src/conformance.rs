//! One program, two executors: where do they first differ?
//!
//! [`first_difference`] runs a backend and the reference over the same tokens with taps on and compares every value: codes,
//! stored bytes and floats bit for bit. [`same_kv`] compares what two sequences hold, row by row.

use std::fmt;

use rawloop_backend::{Backend, BackendError, SequenceId};
use rawloop_spec::{AttentionKind, Geometry, Program, TapSink, TapValue};

/// A value a tap showed, kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// int8 codes.
    Codes(Vec<i8>),
    /// f32 values as bits, so that -0 and 0 differ and NaN equals itself.
    Floats(Vec<u32>),
    /// Stored bytes.
    Bytes(Vec<u8>),
    /// A token id.
    Token(u32),
}

/// One tap.
#[derive(Clone, Debug, PartialEq)]
pub struct Tapped {
    /// Index into the full program.
    pub stage: usize,
    /// Absolute position.
    pub position: usize,
    /// Name of the value.
    pub name: &'static str,
    /// The value.
    pub value: Value,
}

/// Keeps everything.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// In the order in which it was shown.
    pub taps: Vec<Tapped>,
}

impl TapSink for Recorder {
    fn tap(&mut self, stage: usize, position: usize, name: &'static str, value: TapValue) {
        let value = match value {
            TapValue::Codes(codes) => Value::Codes(codes.to_vec()),
            TapValue::Floats(floats) => Value::Floats(floats.iter().map(|x| x.to_bits()).collect()),
            TapValue::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            TapValue::Token(token) => Value::Token(token),
        };
        self.taps.push(Tapped { stage, position, name, value });
    }
}

/// The first tap at which a backend is not the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The stage, as the program prints it.
    pub stage: String,
    /// Absolute position.
    pub position: usize,
    /// Name of the value.
    pub name: &'static str,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "first difference at position {}, {} of stage {}: {}",
            self.position, self.name, self.stage, self.what
        )
    }
}

/// Runs `tokens` through both with taps and compares everything.
///
/// # Errors
/// Either backend refuses.
pub fn first_difference(
    geometry: &Geometry,
    backend: &mut dyn Backend,
    reference: &mut dyn Backend,
    tokens: &[u32],
) -> Result<Option<Difference>, BackendError> {
    let record = |backend: &mut dyn Backend| -> Result<Vec<Tapped>, BackendError> {
        let mut recorder = Recorder::default();
        let sequence = backend.create()?;
        let result = backend.step_tapped(sequence, tokens, &mut recorder);
        backend.free(sequence);
        result.map(|()| recorder.taps)
    };
    let (mine, theirs) = (record(backend)?, record(reference)?);
    Ok(compare(geometry, &mine, &theirs))
}

/// The first tap that differs.
pub fn compare(geometry: &Geometry, mine: &[Tapped], theirs: &[Tapped]) -> Option<Difference> {
    let stages = Program::full(geometry).stages;
    let difference = |tap: &Tapped, what: String| {
        let stage = stages.get(tap.stage).map_or("unknown".into(), |stage| {
            let layer = stage.layer().map(|layer| format!(" of layer {layer}")).unwrap_or_default();
            format!("{}{layer}", stage.name())
        });
        Some(Difference { stage, position: tap.position, name: tap.name, what })
    };
    for (a, b) in mine.iter().zip(theirs) {
        if (a.stage, a.position, a.name) != (b.stage, b.position, b.name) {
            return difference(b, format!("the backend shows {} of stage {} instead", a.name, a.stage));
        }
        if a.value != b.value {
            return difference(b, describe(&a.value, &b.value));
        }
    }
    match mine.len().cmp(&theirs.len()) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => difference(&theirs[mine.len()], "the backend does not show it".into()),
        std::cmp::Ordering::Greater => difference(&mine[theirs.len()], "only the backend shows it".into()),
    }
}

fn describe(mine: &Value, theirs: &Value) -> String {
    fn at<T: PartialEq + fmt::Debug>(a: &[T], b: &[T], show: impl Fn(&T) -> String) -> String {
        if a.len() != b.len() {
            return format!("{} values, the reference has {}", a.len(), b.len());
        }
        let count = a.iter().zip(b).filter(|(x, y)| x != y).count();
        let first = a.iter().zip(b).position(|(x, y)| x != y).unwrap_or_default();
        let values = (show(&a[first]), show(&b[first]));
        format!(
            "{count} of {} differ, first at {first}: {} and the reference has {}",
            a.len(),
            values.0,
            values.1
        )
    }
    match (mine, theirs) {
        (Value::Codes(a), Value::Codes(b)) => at(a, b, |x| x.to_string()),
        (Value::Bytes(a), Value::Bytes(b)) => at(a, b, |x| x.to_string()),
        (Value::Floats(a), Value::Floats(b)) => at(a, b, |&x| format!("{:e} ({x:#x})", f32::from_bits(x))),
        (Value::Token(a), Value::Token(b)) => format!("token {a}, the reference picks {b}"),
        _ => "another kind of value".into(),
    }
}

/// Compares every K/V row that both sequences must still hold; a message names the first that differs.
///
/// # Errors
/// Either backend refuses a row it should hold.
pub fn same_kv(
    geometry: &Geometry,
    a: (&dyn Backend, SequenceId),
    b: (&dyn Backend, SequenceId),
) -> Result<Option<String>, BackendError> {
    let held = a.0.position(a.1)?;
    if held != b.0.position(b.1)? {
        return Ok(Some(format!("{held} positions held, the other holds {}", b.0.position(b.1)?)));
    }
    for layer in 0..geometry.own_layers() {
        let first = match geometry.layers[layer].attention {
            AttentionKind::Sliding => held.saturating_sub(geometry.window),
            AttentionKind::Full => 0,
        };
        for position in first..held {
            if a.0.kv_row(a.1, layer, position)? != b.0.kv_row(b.1, layer, position)? {
                return Ok(Some(format!("the K/V of layer {layer} at position {position} differ")));
            }
        }
    }
    Ok(None)
}
