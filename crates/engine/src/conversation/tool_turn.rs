//! A turn in which calls are run until there is an answer.
//!
//! ```text
//! question -> answer with calls -> approve, run -> results -> answer with calls -> ... -> answer
//! ```
//!
//! Every answer is held to a grammar: what is called is declared, and its arguments follow their schema
//! ([`crate::tools::call_grammar`]). It is one turn of the conversation: nobody else's question comes between. Where the first
//! answer fails it is taken back; once a call has been run, what it did is done, so calls and results stay whatever fails
//! behind them. Cancelled, it stays as far as it came: results that are there are kept, calls that were not run say so.
//! How calls are run is in `run_calls.rs`.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use super::chat_session::{ChatSession, How};
use super::gate::Entered;
use super::history::close_calls;
use super::run_calls;
use super::turn::{ChatEvent, ChatOptions, Turn};
use crate::EngineError;
use crate::chat::{Content, Message, Role, Tool};
use crate::generate::{Finish, Timings};
use crate::guided::{AnswerPlan, Environment, Guide};
use crate::tools::{
    PendingCall, PlanOptions, ToolChoice, ToolLoop, ToolStep, Toolbox, call_grammar, declare, plan,
};

/// What is said of a call that was not run because the turn was cancelled.
pub(super) const CANCELLED: &str = "the call was cancelled before it was run";

/// How calls are run.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    /// Whether the first answer may or must call, and what. Answers behind results are free to call or not.
    pub choice: ToolChoice,
    /// Rounds of calls at most; the model is then told to answer with what it knows.
    pub rounds: usize,
    /// Calls in one answer at most.
    pub plan: PlanOptions,
}

impl Default for ToolSettings {
    /// As the model sees fit, at most 8 rounds of 16 calls.
    fn default() -> Self {
        ToolSettings { choice: ToolChoice::Auto, rounds: 8, plan: PlanOptions::default() }
    }
}

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// It may.
    Run,
    /// It may not; the model is told why.
    Refuse(String),
}

/// A finished turn with calls.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolTurn {
    /// The answers, the last one without calls unless the turn was cancelled or cut off.
    pub turns: Vec<Turn>,
    /// The calls in the order in which they were answered, each with what the model was told.
    pub results: Vec<(PendingCall, String)>,
    /// Whether the rounds were used up.
    pub limited: bool,
}

impl ToolTurn {
    /// The last answer.
    pub fn last(&self) -> Option<&Turn> {
        self.turns.last()
    }

    /// What all answers took together.
    pub fn timings(&self) -> Timings {
        self.turns.iter().map(|turn| turn.timings).sum()
    }

    /// Why it ended.
    pub fn finish(&self) -> Finish {
        self.last().map_or(Finish::Cancelled, |turn| turn.finish)
    }
}

/// What a turn with calls reports to: who approves, and who watches.
pub struct Watch<'a> {
    /// Whether to stop.
    pub cancel: &'a AtomicBool,
    /// Asked about each call before any of the same answer is run.
    pub approve: &'a mut dyn FnMut(&PendingCall) -> Approval,
    /// Sees every step.
    pub on_event: &'a mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>,
}

impl ChatSession {
    /// Answers a user's message with the help of tools, in place of those of the options.
    ///
    /// # Errors
    /// As [`ChatSession::send`], or tools whose calls cannot be written. The history is as before then, unless calls have been
    /// run: those stay, with their results.
    pub fn respond_with_tools(
        &self,
        text: &str,
        toolbox: &Toolbox,
        settings: &ToolSettings,
        watch: &mut Watch<'_>,
    ) -> Result<ToolTurn, EngineError> {
        let entered = self.enter(None)?;
        self.tool_turn(&entered, text, toolbox, settings, watch)
    }

    /// The turn, whichever thread it is on.
    pub(super) fn tool_turn(
        &self,
        entered: &Entered,
        text: &str,
        toolbox: &Toolbox,
        settings: &ToolSettings,
        watch: &mut Watch<'_>,
    ) -> Result<ToolTurn, EngineError> {
        let before = self.messages().len();
        let done = self.rounds(entered, text, toolbox, settings, watch);
        self.amend(entered, |messages| {
            if done.is_ok() || messages.len() > before {
                close_calls(messages, CANCELLED);
            }
        });
        done
    }

    fn rounds(
        &self,
        entered: &Entered,
        text: &str,
        toolbox: &Toolbox,
        settings: &ToolSettings,
        watch: &mut Watch<'_>,
    ) -> Result<ToolTurn, EngineError> {
        let mut options = self.options();
        options.tools = declare(&toolbox.declarations());
        let environment = self.environment()?;
        let mut choice = settings.choice.clone();
        let mut rounds = ToolLoop::new(settings.rounds);
        let mut next = vec![Message::new(Role::User, text)];
        let mut all = ToolTurn { turns: Vec::new(), results: Vec::new(), limited: false };
        loop {
            let answered =
                self.round(entered, &environment, &options, &choice, settings.plan, &next, &all, watch);
            let turn = match answered {
                Ok(turn) => turn,
                Err(error) => {
                    if !all.turns.is_empty() {
                        // The calls have been run, whatever became of the answer.
                        self.amend(entered, |messages| messages.append(&mut next));
                    }
                    return Err(error);
                }
            };
            let finish = turn.finish;
            all.turns.push(turn);
            if finish == Finish::Cancelled || all.limited {
                return Ok(all);
            }
            let history = self.messages();
            match history.last().map_or(ToolStep::Answer, |answer| rounds.step(answer)) {
                ToolStep::Answer => return Ok(all),
                ToolStep::Limit => {
                    all.limited = true;
                    choice = ToolChoice::None;
                }
                ToolStep::Run(calls) => {
                    let results = run_calls::run(&calls, toolbox, watch);
                    for (call, result) in calls.iter().zip(results) {
                        // The call is one that waits: it was handed out a moment ago.
                        let _ = rounds.result(call.index, result);
                    }
                    choice = ToolChoice::Auto;
                }
            }
            let calls = rounds.calls();
            next = rounds.messages().unwrap_or_default();
            run_calls::fit(self.model(), &options, &history, &mut next, self.info().context)?;
            for (call, message) in calls.into_iter().zip(&next) {
                if let Some(Content::Text(result)) = &message.content {
                    // A reader who has gone ends the next answer.
                    let _ = (watch.on_event)(ChatEvent::Result { call: &call, result });
                    all.results.push((call, result.clone()));
                }
            }
        }
    }

    /// One answer of the turn.
    #[allow(clippy::too_many_arguments)] // all that a round goes by, of which nothing outlives it
    fn round(
        &self,
        entered: &Entered,
        environment: &Environment,
        options: &ChatOptions,
        choice: &ToolChoice,
        plan: PlanOptions,
        next: &[Message],
        so_far: &ToolTurn,
        watch: &mut Watch<'_>,
    ) -> Result<Turn, EngineError> {
        let guide = options.generate.constraint.as_ref();
        let plan = Some(plan_of(environment, guide, &options.tools, choice, plan)?);
        let how = How { options, plan, keep_unseen: !so_far.turns.is_empty() };
        self.run(entered, next.to_vec(), how, watch.cancel, watch.on_event)
    }
}

/// What the next answer may be made of: calls by the tools' schemas, and text by the grammar that the options ask for.
fn plan_of(
    environment: &Environment,
    guide: Option<&Guide>,
    tools: &[Tool],
    choice: &ToolChoice,
    options: PlanOptions,
) -> Result<AnswerPlan, EngineError> {
    let Some(Guide::Grammar(grammar)) = guide else {
        return Ok(plan(environment, tools, choice, options)?);
    };
    let text = || Ok::<_, EngineError>(AnswerPlan::grammar(environment.compile(grammar)?));
    match choice {
        ToolChoice::None => text(),
        ToolChoice::Auto if tools.is_empty() => text(),
        ToolChoice::Auto => {
            let all: Vec<&Tool> = tools.iter().collect();
            let calls = call_grammar(&all, environment.control(), options.most_calls)?;
            Ok(text()?.or_calls(environment.compile(calls.grammar())?))
        }
        ToolChoice::Required | ToolChoice::Named(_) => Ok(plan(environment, tools, choice, options)?),
    }
}
