//! JSON values in Gemma's notation.
//!
//! Strings stand between two delimiter tokens `<|"|>` with nothing escaped; true, false, null and numbers are bare; no spaces;
//! keys are sorted without regard to case, at every depth. Keys are bare too, except where a schema is nested in array items.
//!
//! Numbers look as in Python, which is what the model was trained on: `1.0`, `1e-07`, `1e+20`.

use serde_json::{Map, Number, Value};

use super::rendered::Rendered;

/// The token around strings.
pub(super) const DELIMITER: &str = "<|\"|>";

/// How keys of objects are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    Bare,
    Delimited,
}

pub(super) fn write_value(out: &mut Rendered, value: &Value, keys: Keys) {
    match value {
        Value::Null => out.user("null"),
        Value::Bool(true) => out.user("true"),
        Value::Bool(false) => out.user("false"),
        Value::Number(number) => out.user(&python_number(number)),
        Value::String(text) => write_string(out, text),
        Value::Array(values) => {
            out.control("[");
            write_separated(out, values, |out, value| write_value(out, value, keys));
            out.control("]");
        }
        Value::Object(fields) => write_object(out, fields, keys),
    }
}

pub(super) fn write_object(out: &mut Rendered, fields: &Map<String, Value>, keys: Keys) {
    out.control("{");
    write_separated(out, sorted(fields), |out, (key, value)| {
        match keys {
            Keys::Bare => out.user(key),
            Keys::Delimited => write_string(out, key),
        }
        out.control(":");
        write_value(out, value, keys);
    });
    out.control("}");
}

pub(super) fn write_string(out: &mut Rendered, text: &str) {
    out.control(DELIMITER);
    out.user(text);
    out.control(DELIMITER);
}

pub(super) fn write_separated<T>(
    out: &mut Rendered,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Rendered, T),
) {
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            out.control(",");
        }
        write(out, item);
    }
}

/// Fields by lower-cased key; equal ones stay in their order.
pub(super) fn sorted(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(key, _)| key.to_lowercase());
    fields
}

/// A number as Python prints it.
pub(super) fn python_number(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => python_float(value),
        _ => number.to_string(),
    }
}

/// The shortest digits that read back as the value; an exponent below 1e-4 and from 1e16 on.
pub(super) fn python_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if (-4..16).contains(&exponent) => format!("{value:?}"),
        Ok(exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        Err(_) => scientific,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_look_as_in_python() {
        for (value, expected) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (2.5, "2.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e20, "1.5e+20"),
            (1e-4, "0.0001"),
            (5e-5, "5e-05"),
            (1e-7, "1e-07"),
            (1e300, "1e+300"),
            (0.1 + 0.2, "0.30000000000000004"),
        ] {
            assert_eq!(python_float(value), expected);
        }
    }

    #[test]
    fn values_have_sorted_bare_keys_and_unescaped_strings() {
        let value = serde_json::json!({
            "unit": "c", "city": "Oslo", "days": 3,
            "opts": { "x": null, "l": [1, 2.5, "q\""], "A b": true },
        });
        let mut out = Rendered::default();
        write_value(&mut out, &value, Keys::Bare);
        let expected =
            r#"{city:<|"|>Oslo<|"|>,days:3,opts:{A b:true,l:[1,2.5,<|"|>q"<|"|>],x:null},unit:<|"|>c<|"|>}"#;
        assert_eq!(out.as_str(), expected);
    }
}
