//! The loop of calls and results, as data: it runs no model and owns no session.
//!
//! ```text
//! answer --> step() --> Run(calls) --> result() for each --> messages() --> the next answer
//!                   --> Answer: no calls, the loop is over
//!                   --> Limit: too many rounds; messages() says so to the model, for a last answer without tools
//! ```
//!
//! Results can come in any order and from other threads; the messages are in the order of the calls, each with the id of its
//! call. A call that failed has a result too: an object with `error`, which the model can act on. Every call gets exactly
//! one result, so the conversation never waits for one that does not come.

use serde_json::{Map, Value, json};

use super::{ToolError, Toolbox};
use crate::chat::{Message, Role};

/// A call that waits for its result.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingCall {
    /// Which of the answer's calls it is, from 0.
    pub index: usize,
    /// The id that the answer gave it.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// What an answer asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolStep {
    /// Nothing: it is the answer.
    Answer,
    /// Results for these calls.
    Run(Vec<PendingCall>),
    /// Nothing more: the rounds are used up. The results say so already.
    Limit,
}

/// A result for no call, or a second one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no call {index} waits for a result")]
pub struct NoPendingCall {
    /// The call's index.
    pub index: usize,
}

/// The state between two answers. See the module documentation.
#[derive(Clone, Debug)]
pub struct ToolLoop {
    limit: usize,
    rounds: usize,
    /// The last answer's calls, with what is known of their results.
    calls: Vec<(PendingCall, Option<String>)>,
}

impl ToolLoop {
    /// A loop of at most `limit` rounds of calls.
    pub fn new(limit: usize) -> ToolLoop {
        ToolLoop { limit, rounds: 0, calls: Vec::new() }
    }

    /// Rounds of calls so far.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Takes an answer. What was left of the answer before is dropped.
    pub fn step(&mut self, answer: &Message) -> ToolStep {
        self.calls.clear();
        if answer.tool_calls.is_empty() {
            return ToolStep::Answer;
        }
        let full = self.rounds >= self.limit;
        self.rounds += usize::from(!full);
        for (index, call) in answer.tool_calls.iter().enumerate() {
            let (name, id) = (call.function.name.clone(), call.id.clone());
            let (arguments, problem) = match call.function.arguments_object() {
                Ok(arguments) => (arguments, None),
                Err(problem) => (Map::new(), Some(ToolError::Arguments(problem))),
            };
            let result = if full {
                Some(failure(&format!(
                    "not run: the limit of {} rounds of calls is reached; answer with what is known",
                    self.limit
                )))
            } else {
                problem.map(|problem| failure(&problem.to_string()))
            };
            self.calls.push((PendingCall { index, id, name, arguments }, result));
        }
        if full { ToolStep::Limit } else { ToolStep::Run(self.pending()) }
    }

    /// The last answer's calls in their order, answered or not.
    pub fn calls(&self) -> Vec<PendingCall> {
        self.calls.iter().map(|(call, _)| call.clone()).collect()
    }

    /// The calls that wait for a result.
    pub fn pending(&self) -> Vec<PendingCall> {
        let waiting = self.calls.iter().filter(|(_, result)| result.is_none());
        waiting.map(|(call, _)| call.clone()).collect()
    }

    /// Gives a call its result.
    ///
    /// # Errors
    /// No such call waits.
    pub fn result(&mut self, index: usize, result: Result<Value, ToolError>) -> Result<(), NoPendingCall> {
        match self.calls.get_mut(index) {
            Some((_, waiting @ None)) => {
                *waiting = Some(match result {
                    Ok(Value::String(text)) => text,
                    Ok(value) => value.to_string(),
                    Err(error) => failure(&error.to_string()),
                });
                Ok(())
            }
            _ => Err(NoPendingCall { index }),
        }
    }

    /// Runs every call that waits, one after the other.
    pub fn run(&mut self, toolbox: &Toolbox) {
        for (call, result) in &mut self.calls {
            if result.is_none() {
                *result = Some(match toolbox.call(&call.name, call.arguments.clone()) {
                    Ok(Value::String(text)) => text,
                    Ok(value) => value.to_string(),
                    Err(error) => failure(&error.to_string()),
                });
            }
        }
    }

    /// The results as messages, once every call has one; nothing as long as one waits, or where there were no calls.
    pub fn messages(&mut self) -> Option<Vec<Message>> {
        if self.calls.is_empty() || self.calls.iter().any(|(_, result)| result.is_none()) {
            return None;
        }
        let message = |(call, result): (PendingCall, Option<String>)| {
            let mut message = Message::new(Role::Tool, result.unwrap_or_default());
            message.tool_call_id = call.id;
            message.name = Some(call.name);
            message
        };
        Some(self.calls.drain(..).map(message).collect())
    }
}

fn failure(problem: &str) -> String {
    json!({ "error": problem }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Content, FunctionCall, RenderOptions, ToolCall, render};

    fn answer(calls: &[(&str, Value)]) -> Message {
        let mut message = Message::new(Role::Assistant, "");
        let call = |(index, (name, arguments)): (usize, &(&str, Value))| ToolCall {
            id: Some(format!("call_{index}")),
            kind: "function".into(),
            function: FunctionCall { name: (*name).into(), arguments: arguments.clone() },
        };
        message.tool_calls = calls.iter().enumerate().map(call).collect();
        message
    }

    fn text(message: &Message) -> &str {
        match &message.content {
            Some(Content::Text(text)) => text,
            _ => "",
        }
    }

    #[test]
    fn results_in_any_order_become_messages_in_the_order_of_the_calls() {
        let mut tools = ToolLoop::new(3);
        let answer =
            answer(&[("add", json!({ "a": 1 })), ("add", json!("{\"a\": 2}")), ("now", Value::Null)]);
        let ToolStep::Run(calls) = tools.step(&answer) else { panic!("calls have to run") };
        assert_eq!(calls.iter().map(|call| call.arguments.len()).collect::<Vec<_>>(), [1, 1, 0]);
        tools.result(2, Ok(json!("12:00"))).unwrap();
        tools.result(0, Ok(json!({ "sum": 2 }))).unwrap();
        assert_eq!(tools.messages(), None, "one is missing");
        assert_eq!(tools.result(0, Ok(Value::Null)), Err(NoPendingCall { index: 0 }));
        assert_eq!(tools.result(7, Ok(Value::Null)), Err(NoPendingCall { index: 7 }));
        tools.result(1, Err(ToolError::Failed("overflow".into()))).unwrap();
        let messages = tools.messages().unwrap();
        assert_eq!(
            messages.iter().map(text).collect::<Vec<_>>(),
            ["{\"sum\":2}", "{\"error\":\"overflow\"}", "12:00"]
        );
        assert_eq!(messages[1].tool_call_id.as_deref(), Some("call_1"));
        assert_eq!(tools.messages(), None, "they are handed out once");
        // They fit the answer that they belong to.
        let conversation: Vec<Message> =
            [Message::new(Role::User, "Add."), answer].into_iter().chain(messages).collect();
        let prompt = render(&RenderOptions::default(), &conversation).unwrap();
        assert!(
            prompt.as_str().ends_with("response:now{value:<|\"|>12:00<|\"|>}<tool_response|>"),
            "{prompt}"
        );
    }

    #[test]
    fn arguments_that_are_no_object_are_answered_without_running_anything() {
        let mut tools = ToolLoop::new(3);
        let step = tools.step(&answer(&[("add", json!("{\"a\":"))]));
        assert_eq!(step, ToolStep::Run(Vec::new()));
        let messages = tools.messages().unwrap();
        assert!(text(&messages[0]).contains("the arguments do not fit: not JSON"), "{}", text(&messages[0]));
    }

    #[test]
    fn the_rounds_are_limited_and_the_model_is_told() {
        let mut tools = ToolLoop::new(2);
        let calls = answer(&[("now", Value::Null)]);
        let toolbox = Toolbox::new().with(super::super::function("now", "", |(): ()| Ok::<_, String>(5)));
        for round in 1..=2 {
            assert!(matches!(tools.step(&calls), ToolStep::Run(_)));
            assert_eq!(tools.rounds(), round);
            tools.run(&toolbox);
            assert_eq!(text(&tools.messages().unwrap()[0]), "5");
        }
        assert_eq!(tools.step(&calls), ToolStep::Limit);
        assert!(tools.pending().is_empty());
        let messages = tools.messages().unwrap();
        assert!(text(&messages[0]).contains("the limit of 2 rounds"), "{}", text(&messages[0]));
        assert_eq!(tools.step(&Message::new(Role::Assistant, "It is 5.")), ToolStep::Answer);
        assert_eq!(tools.messages(), None);
    }

    #[test]
    fn an_unknown_tool_is_named_to_the_model_with_those_there_are() {
        let mut tools = ToolLoop::new(1);
        tools.step(&answer(&[("nwo", Value::Null)]));
        tools.run(&Toolbox::new().with(super::super::function("now", "", |(): ()| Ok::<_, String>(5))));
        let messages = tools.messages().unwrap();
        assert!(text(&messages[0]).contains("no tool `nwo`; the tools are: now"), "{}", text(&messages[0]));
    }
}
