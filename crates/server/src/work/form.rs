//! What an answer has to look like: tools, the choice among them, and a grammar for its text.

use std::sync::{Arc, Mutex, PoisonError};

use rawloop_engine::chat::Tool;
use rawloop_engine::guided::{AnswerPlan, Environment, Grammar, GuidedError, SharedEnvironment};
use rawloop_engine::tools::{PlanOptions, ToolChoice, call_grammar, plan};

/// Plans that are kept.
const KEPT: usize = 32;

/// The form of one answer.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// Tools, as they are declared.
    pub tools: Vec<Tool>,
    /// Which of them are called.
    pub choice: ToolChoice,
    /// Calls in one answer.
    pub calls: PlanOptions,
    /// The grammar of its text, with what tells it from others.
    pub grammar: Option<(Arc<Grammar>, String)>,
}

impl Form {
    fn is_free(&self) -> bool {
        self.tools.is_empty()
            && self.grammar.is_none()
            && matches!(self.choice, ToolChoice::Auto | ToolChoice::None)
    }

    /// What tells it from others.
    fn key(&self) -> String {
        let tools = serde_json::to_string(&(&self.tools, &self.choice, self.calls.most_calls));
        let grammar = self.grammar.as_ref().map_or("", |(_, key)| key);
        format!("{}\n{grammar}", tools.unwrap_or_default())
    }

    fn compile(&self, environment: &Environment) -> Result<AnswerPlan, GuidedError> {
        let Some((grammar, _)) = &self.grammar else {
            return plan(environment, &self.tools, &self.choice, self.calls);
        };
        let text = || Ok::<_, GuidedError>(AnswerPlan::grammar(environment.compile(grammar)?));
        match self.choice {
            ToolChoice::None => text(),
            ToolChoice::Auto if self.tools.is_empty() => text(),
            ToolChoice::Auto => {
                let all: Vec<&Tool> = self.tools.iter().collect();
                let calls = call_grammar(&all, environment.control(), self.calls.most_calls)?;
                Ok(text()?.or_calls(environment.compile(calls.grammar())?))
            }
            ToolChoice::Required | ToolChoice::Named(_) => {
                plan(environment, &self.tools, &self.choice, self.calls)
            }
        }
    }
}

/// Plans made so far, the one used last at the end: clients ask in the same form again and again.
#[derive(Default)]
pub struct Plans(Mutex<Vec<(String, AnswerPlan)>>);

impl Plans {
    /// The plan of a form; none where everything is allowed.
    ///
    /// # Errors
    /// The form cannot be followed.
    pub fn of(
        &self,
        form: &Form,
        environment: &SharedEnvironment,
    ) -> Result<Option<AnswerPlan>, GuidedError> {
        if form.is_free() {
            return Ok(None);
        }
        let key = form.key();
        let found = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let place = kept.iter().position(|(other, _)| *other == key);
            place.map(|place| {
                let entry = kept.remove(place);
                let plan = entry.1.clone();
                kept.push(entry);
                plan
            })
        };
        if let Some(plan) = found {
            return Ok(Some(plan));
        }
        let plan = form.compile(&*environment.get()?)?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((key, plan.clone()));
        Ok(Some(plan))
    }
}
