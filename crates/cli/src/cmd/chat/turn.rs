//! From a question to the end of its answer: shown, told, stored.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_engine::backend::BackendInfo;
use rawloop_engine::chat::{Message, Output};
use rawloop_engine::conversation::{Approval, ToolTurn, Watch};
use rawloop_engine::{ChatEvent, EngineError, Finish, Timings};
use serde_json::{Value, json};

use super::status;
use super::talks::Talks;
use crate::cmd::print;
use crate::cmd::tool::Tools;
use crate::cmd::tool::text::on_one_line;
use crate::exit::Failure;
use crate::input::Input;
use crate::screen::{Screen, aside, has_colour, note, shown};
use crate::{answer, interrupt};

/// The conversations and what is known about them.
pub struct Talk {
    pub talks: Talks,
    pub info: BackendInfo,
    pub tools: Option<Tools>,
    pub last: Option<Timings>,
    pub interactive: bool,
    pub json: bool,
    /// Answers are shown as they come, Markdown and all.
    pub plain: bool,
    pub cancel: &'static AtomicBool,
    pub input: Input,
}

/// What an answer stands in place of.
pub struct Instead {
    /// The history with what it replaces; it comes back where there is no answer.
    pub before: Vec<Message>,
    /// Whether only a whole answer is better than what was there.
    pub whole: bool,
}

impl Talk {
    /// Answers a question. A break where nobody reads the answers any more.
    pub fn answer(&mut self, text: &str) -> Result<ControlFlow<()>, Failure> {
        self.ask(text, None)
    }

    /// Answers a question whose predecessor has been taken out of the history.
    pub fn answer_instead(&mut self, text: &str, instead: Instead) -> Result<ControlFlow<()>, Failure> {
        self.ask(text, Some(instead))
    }

    fn ask(&mut self, text: &str, instead: Option<Instead>) -> Result<ControlFlow<()>, Failure> {
        // An answer of a form that was asked for is shown as it is.
        let as_it_is = self.plain || self.talks.chat().options().generate.constraint.is_some();
        let mut screen = Screen::new(true);
        if !as_it_is {
            screen = screen.laid_out();
        }
        let held = self.talks.chat().messages().len();
        let answered = self.turns(text, &mut screen);
        screen.end();
        // Of a turn that failed only calls stay, because they were run.
        let ran = answered.is_err() && self.talks.chat().messages().len() > held;
        if ran {
            note("(the calls were run: the conversation keeps them and their results)");
        }
        if let Some(Instead { before, whole }) = instead {
            let keeps = match &answered {
                Err(_) => ran,
                Ok(done) if done.finish() != Finish::Cancelled => true,
                Ok(done) => !whole && done.turns.iter().any(|turn| turn.output != Output::default()),
            };
            if !keeps {
                self.talks.chat().set_messages(before)?;
                note("(what was there before stays)");
            }
        }
        // Stored before anything else can go wrong, a stopped answer too.
        let stored = self.talks.store();
        if screen.gone() {
            return stored.map(|()| ControlFlow::Break(()));
        }
        match answered {
            Ok(done) => {
                self.last = done.last().map(|turn| turn.timings);
                if self.json {
                    print(&self.as_json(&done).to_string())?;
                }
                self.say_how_it_ended(&done);
                self.say_what_it_cost();
            }
            // The turn has been taken back; the conversation goes on for a person, and fails for a script.
            Err(error @ EngineError::Context { .. }) if self.interactive => {
                note(format_args!("{error}; /undo takes the last question back, /reset starts anew"))
            }
            Err(error @ (EngineError::Chat(_) | EngineError::Guided(_))) if self.interactive => {
                note(format_args!("{error}"))
            }
            Err(error) => return Err(error.into()),
        }
        match stored {
            Err(failure) if self.interactive => note(failure),
            stored => stored?,
        }
        if self.interactive {
            note("");
        }
        Ok(ControlFlow::Continue(()))
    }

    fn turns(&mut self, text: &str, screen: &mut Screen) -> Result<ToolTurn, EngineError> {
        let Talk { talks, tools, json, cancel, input, .. } = self;
        let (json, cancel) = (*json, *cancel);
        let with_tools = tools.is_some();
        let mut on_event = |event: ChatEvent<'_>| match event {
            ChatEvent::Result { call, result } => {
                let arguments = on_one_line(&Value::Object(call.arguments.clone()).to_string());
                note(format_args!("{}({arguments}) = {}", shown(&call.name), on_one_line(result)));
                ControlFlow::Continue(())
            }
            _ if json => ControlFlow::Continue(()),
            ChatEvent::Prefill { done, total } => screen.progress(done, total),
            ChatEvent::Reasoning(text) => screen.thought(text),
            ChatEvent::Text(text) => screen.text(text),
            ChatEvent::Call(call) if !with_tools => screen.call(call),
            ChatEvent::Call(_) => {
                // What is asked and told about it stands on lines of its own.
                screen.end();
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        };
        match tools {
            None => {
                let turn = talks.chat().respond(text, cancel, &mut on_event)?;
                Ok(ToolTurn { turns: vec![turn], results: Vec::new(), limited: false })
            }
            Some(tools) => {
                let (toolbox, settings) = (tools.toolbox(), tools.settings());
                let mut approve = |call: &_| {
                    let approval = tools.approve(call, input);
                    if matches!(approval, Approval::Refuse(_)) && cancel.load(Ordering::Relaxed) {
                        return Approval::Refuse("the user stopped the answer".into());
                    }
                    approval
                };
                let mut watch = Watch { cancel, approve: &mut approve, on_event: &mut on_event };
                talks.chat().respond_with_tools(text, &toolbox, &settings, &mut watch)
            }
        }
    }

    fn say_what_it_cost(&self) {
        let Some(timings) = self.last.as_ref().filter(|_| self.interactive && !self.json && has_colour())
        else {
            return;
        };
        let held = self.talks.chat().with_session(|session| session.sequence().ids().len());
        if let Ok(held) = held {
            aside(status::line(timings, held, self.info.context));
        }
    }

    fn say_how_it_ended(&self, done: &ToolTurn) {
        if done.limited {
            note("(the rounds of calls were used up: --tool-rounds)");
        }
        let tokens = done.last().map_or(0, |turn| turn.timings.tokens);
        match done.finish() {
            Finish::Length => note(format_args!("(ended after {tokens} tokens: --max-tokens)")),
            Finish::Loop => note("(ended: it repeated itself without end)"),
            Finish::Context => {
                note(format_args!("(the context of {} positions is full: /reset)", self.info.context))
            }
            Finish::Cancelled => {
                interrupt::reset();
                note("(stopped)");
            }
            Finish::Stop => {}
        }
    }

    /// An answer as a line of JSON: what `run --json` prints, with the results of the calls.
    fn as_json(&self, done: &ToolTurn) -> Value {
        let mut results = done.results.iter();
        let calls: Vec<Value> = done
            .turns
            .iter()
            .flat_map(|turn| &turn.output.calls)
            .map(|call| {
                let result = results.next().map(|(_, result)| result.clone());
                json!({ "name": call.name, "arguments": call.arguments, "result": result })
            })
            .collect();
        let joined = |part: fn(&rawloop_engine::Turn) -> &str| {
            done.turns.iter().map(part).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        };
        json!({
            "text": joined(|turn| &turn.output.text),
            "reasoning": joined(|turn| &turn.output.reasoning),
            "tool_calls": calls,
            "finish_reason": done.finish().name(),
            "timings": answer::timings_json(&done.timings()),
            "sampling": answer::sampling_json(&self.talks.chat().options().generate.sampling),
        })
    }
}
