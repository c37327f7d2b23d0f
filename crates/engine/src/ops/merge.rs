//! Answers to the pieces of one text as one answer.

use serde_json::Value;

/// The value that most have; of equals, the one that came first.
pub fn vote(answers: &[String]) -> Option<&String> {
    let votes = |answer: &String| answers.iter().filter(|other| *other == answer).count();
    // The last of the largest wins `max_by_key`, so the order is turned.
    answers.iter().rev().max_by_key(|answer| votes(answer))
}

/// Puts the value of a later piece into that of the earlier ones: lists are joined, what is missing is filled in, and what is
/// there stays.
pub fn join(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Array(into), Value::Array(from)) => {
            for value in from {
                if !into.iter().any(|there| same(there, &value)) {
                    into.push(value);
                }
            }
        }
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match into.get_mut(&key) {
                    Some(there) => join(there, value),
                    None => {
                        into.insert(key, value);
                    }
                }
            }
        }
        (into, from) if is_nothing(into) => *into = from,
        _ => {}
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// Strings that differ in case alone say the same.
fn same(one: &Value, two: &Value) -> bool {
    match (one.as_str(), two.as_str()) {
        (Some(one), Some(two)) => one.to_lowercase() == two.to_lowercase(),
        _ => one == two,
    }
}

/// Strings by how many lists hold them, then by where they came first; at most so many.
pub fn most_common(lists: &[Vec<String>], most: usize) -> Vec<String> {
    let mut found: Vec<(String, String, usize)> = Vec::new();
    for word in lists.iter().flatten() {
        let folded = word.to_lowercase();
        match found.iter_mut().find(|(_, other, _)| *other == folded) {
            Some((_, _, count)) => *count += 1,
            None => found.push((word.clone(), folded, 1)),
        }
    }
    found.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
    found.into_iter().take(most).map(|(word, ..)| word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_majority_wins_and_the_first_of_equals() {
        let vote_of =
            |words: &[&str]| vote(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>()).cloned();
        assert_eq!(vote_of(&["a", "b", "b"]).unwrap(), "b");
        assert_eq!(vote_of(&["a", "b", "b", "a"]).unwrap(), "a");
        assert_eq!(vote_of(&[]), None);
    }

    #[test]
    fn what_is_known_stays_and_what_is_missing_is_filled_in() {
        let mut all = json!({ "name": "Ana", "age": null, "tags": ["a", "B"], "home": { "city": " " } });
        join(
            &mut all,
            json!({ "name": "Ben", "age": 7, "tags": ["b", "c"], "home": { "city": "Rome" }, "x": 1 }),
        );
        assert_eq!(
            all,
            json!({ "name": "Ana", "age": 7, "tags": ["a", "B", "c"], "home": { "city": "Rome" }, "x": 1 })
        );
        let mut list = json!([1, { "a": 2 }]);
        join(&mut list, json!([{ "a": 2 }, 3]));
        assert_eq!(list, json!([1, { "a": 2 }, 3]));
    }

    #[test]
    fn common_words_come_first() {
        let lists = [vec!["one", "two"], vec!["Two", "three"], vec!["three", "four", "TWO"]];
        let lists: Vec<Vec<String>> =
            lists.iter().map(|list| list.iter().map(|word| word.to_string()).collect()).collect();
        assert_eq!(most_common(&lists, 3), ["two", "three", "one"]);
    }
}
