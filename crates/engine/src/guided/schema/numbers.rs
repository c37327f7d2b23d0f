//! Bounds of numbers, held to what a double and the library can tell apart.

use serde_json::{Map, Value, json};

use super::keywords::Round;

/// Largest number that is compared exactly.
pub(super) const EXACT: f64 = 9.0e15;
/// Digits that any reader keeps.
const DIGITS: usize = 15;

/// A bound that a double holds exactly. What lies beyond is pulled in where that makes the range smaller.
pub(super) fn bound(number: f64, round: Round) -> Option<Value> {
    match round {
        Round::Lower if number < -EXACT => Some(json!(-EXACT as i64)),
        Round::Upper if number > EXACT => Some(json!(EXACT as i64)),
        _ if number.abs() > EXACT => None,
        _ if number.fract() == 0.0 => Some(json!(number as i64)),
        _ => Some(json!(number)),
    }
}

/// Makes a schema's range smaller where its edges would not be kept.
pub(super) fn tighten(schema: &mut Map<String, Value>) {
    bound_multiples(schema);
    // The library lets 3 through where the range is above 3 and below a fraction more; likewise below zero.
    let number = |schema: &Map<String, Value>, key: &str| schema.get(key).and_then(Value::as_f64);
    let above = number(schema, "exclusiveMinimum");
    let below = number(schema, "exclusiveMaximum");
    let least = number(schema, "minimum").into_iter().chain(above).reduce(f64::max);
    let most = number(schema, "maximum").into_iter().chain(below).reduce(f64::min);
    if let (Some(least), Some(most)) = (least, most)
        && least < most
    {
        let within = |edge: f64| edge.fract() == 0.0 && most - least < 1.0;
        let step = 1e-6_f64.min((most - least) / 4.0);
        if above.is_some_and(|above| above == least && above >= 0.0 && within(above)) {
            schema.insert("minimum".into(), json!(least + step));
        }
        if below.is_some_and(|below| below == most && below <= 0.0 && within(below)) {
            schema.insert("maximum".into(), json!(most - step));
        }
    }
}

/// A large multiple is rounded by its reader, to a number that is none. So there are bounds where the schema has none.
fn bound_multiples(schema: &mut Map<String, Value>) {
    let Some(multiple) = schema.get("multipleOf").and_then(Value::as_f64) else { return };
    let decimals = format!("{multiple}").split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let most = EXACT.min(10f64.powi(DIGITS.saturating_sub(decimals) as i32));
    for (keyword, exclusive, edge) in
        [("minimum", "exclusiveMinimum", -most), ("maximum", "exclusiveMaximum", most)]
    {
        let number = |key| schema.get(key).and_then(Value::as_f64);
        let tighter = [number(keyword), number(exclusive)].into_iter().flatten().any(|own| own.abs() <= most);
        if !tighter {
            schema.insert(keyword.into(), json!(edge as i64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tightened(schema: Value) -> Value {
        let Value::Object(mut fields) = schema else { return Value::Null };
        tighten(&mut fields);
        Value::Object(fields)
    }

    #[test]
    fn an_open_edge_stays_open() {
        let out = tightened(json!({ "exclusiveMinimum": 125, "maximum": 125.5 }));
        assert_eq!(out["minimum"], json!(125.000001));
        let out = tightened(json!({ "exclusiveMaximum": -3, "minimum": -3.5 }));
        assert_eq!(out["maximum"], json!(-3.000001));
        for open in [json!({ "exclusiveMinimum": 0 }), json!({ "exclusiveMinimum": 0, "maximum": 1 })] {
            assert_eq!(tightened(open.clone()), open, "these are kept by the library");
        }
    }

    #[test]
    fn multiples_are_bounded() {
        let out = tightened(json!({ "multipleOf": 0.25 }));
        assert_eq!(
            (&out["minimum"], &out["maximum"]),
            (&json!(-10_000_000_000_000i64), &json!(10_000_000_000_000i64))
        );
        let out = tightened(json!({ "multipleOf": 3, "minimum": 6 }));
        assert_eq!((&out["minimum"], &out["maximum"]), (&json!(6), &json!(1_000_000_000_000_000i64)));
        let out = tightened(json!({ "multipleOf": 3, "exclusiveMaximum": 60 }));
        assert!(out.get("maximum").is_none());
    }
}
