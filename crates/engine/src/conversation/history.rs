//! Where turns begin and end in a list of messages, and how a list is made whole.

use std::ops::Range;

use serde_json::json;

use crate::chat::{Message, Role};

/// The turns of a history: a user's message with everything up to the next one. What stands before the first question belongs
/// to the first turn.
pub fn turns(messages: &[Message]) -> Vec<Range<usize>> {
    let questions = (0..messages.len()).filter(|&index| messages[index].role == Role::User);
    let mut starts: Vec<usize> = questions.collect();
    match starts.first_mut() {
        Some(first) => *first = 0,
        None if messages.is_empty() => return Vec::new(),
        None => starts.push(0),
    }
    let ends = starts.iter().skip(1).copied().chain([messages.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// Gives every call of the last answer that has no result one that says why there is none.
pub(super) fn close_calls(messages: &mut Vec<Message>, reason: &str) {
    let speaks = |message: &Message| message.role != Role::Tool;
    let Some(last) = messages.iter().rposition(speaks) else { return };
    let results = &messages[last + 1..];
    let without_id = results.iter().filter(|result| result.tool_call_id.is_none()).count();
    let is_open = |(index, call): &(usize, &crate::chat::ToolCall)| match &call.id {
        Some(id) => {
            without_id <= *index && !results.iter().any(|result| result.tool_call_id.as_ref() == Some(id))
        }
        None => results.len() <= *index,
    };
    let open: Vec<Message> = messages[last]
        .tool_calls
        .iter()
        .enumerate()
        .filter(is_open)
        .map(|(_, call)| {
            let mut result = Message::new(Role::Tool, json!({ "error": reason }).to_string());
            result.tool_call_id = call.id.clone();
            result.name = Some(call.function.name.clone());
            result
        })
        .collect();
    messages.extend(open);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{FunctionCall, ToolCall};

    fn says(role: Role) -> Message {
        Message::new(role, "x")
    }

    #[test]
    fn a_turn_is_a_question_with_all_that_follows_from_it() {
        use Role::{Assistant, Tool, User};
        let list = |roles: &[Role]| roles.iter().copied().map(says).collect::<Vec<_>>();
        assert!(turns(&[]).is_empty());
        assert_eq!(turns(&list(&[User, Assistant, User])), [0..2, 2..3]);
        assert_eq!(turns(&list(&[Assistant, User, Assistant, Tool, Assistant, User])), [0..5, 5..6]);
        assert_eq!(turns(&list(&[Assistant])).first(), Some(&(0..1)));
    }

    #[test]
    fn only_calls_without_a_result_are_closed() {
        let mut answer = says(Role::Assistant);
        for id in ["a", "b", "c"] {
            let function = FunctionCall { name: format!("f_{id}"), arguments: json!({}) };
            answer.tool_calls.push(ToolCall { id: Some(id.into()), kind: "function".into(), function });
        }
        let mut result = says(Role::Tool);
        result.tool_call_id = Some("b".into());
        let mut messages = vec![says(Role::User), answer, result];
        close_calls(&mut messages, "stopped");
        let ids: Vec<_> = messages[2..].iter().map(|message| message.tool_call_id.as_deref()).collect();
        assert_eq!(ids, [Some("b"), Some("a"), Some("c")]);
        assert_eq!(messages[4].name.as_deref(), Some("f_c"));
        let closed = messages.clone();
        close_calls(&mut messages, "stopped");
        assert_eq!(messages, closed, "once");
        close_calls(&mut Vec::new(), "stopped");
    }
}
