//! The points of a comparison, sorted by whether they are the same.

use serde_json::{Map, Value, json};

/// From `{"points": [{"one", "two", "same"}]}` to `{"same": [{"one", "two"}], "different": [...]}`.
pub fn sorted(answer: &Value) -> Value {
    let (mut same, mut different) = (Vec::new(), Vec::new());
    for point in answer.get("points").and_then(Value::as_array).into_iter().flatten() {
        let said = |name: &str| point.get(name).cloned().unwrap_or_default();
        let (one, two) = (said("one"), said("two"));
        if one.is_null() && two.is_null() {
            continue;
        }
        let list = if point.get("same") == Some(&Value::Bool(true)) { &mut same } else { &mut different };
        list.push(json!({ "one": one, "two": two }));
    }
    let lists = [("same", same), ("different", different)];
    Value::Object(lists.into_iter().map(|(name, list)| (name.to_owned(), list.into())).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_sorted_and_those_that_say_nothing_are_left_out() {
        let answer = json!({ "points": [
            { "one": "Mia sings.", "two": "Ana sings.", "same": true },
            { "one": "Mia is 4.", "two": null, "same": false },
            { "one": null, "two": null, "same": true },
            { "one": "a", "two": "b" },
        ] });
        assert_eq!(
            sorted(&answer).to_string(),
            r#"{"same":[{"one":"Mia sings.","two":"Ana sings."}],"different":[{"one":"Mia is 4.","two":null},{"one":"a","two":"b"}]}"#
        );
        assert_eq!(sorted(&json!([])), json!({ "same": [], "different": [] }));
    }
}
