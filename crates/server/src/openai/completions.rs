//! `/v1/completions`: texts that go on as they stand.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonResponse};
use rawloop_engine::sample::LogProbabilities;
use rawloop_tokenizer::{SpecialTokens, Tokenizer};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::chat::ResponseFormat;
use super::{Sampling, Stops, StreamOptions, answers, generate, rawloop, spell, usage};
use crate::error::ApiError;
use crate::http::{App, Client, Encoder, Json, Line, now, sse, unique};
use crate::work::{Event, Finished, Form, Task, What, finish_reason};

/// Tokens of a completion where a request does not say, as OpenAI has it.
const USUAL: u32 = 16;

/// A text, ids, or a list of either.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a string, a list of strings, a list of token ids, or a list of such lists")]
pub enum Prompts {
    /// A text.
    Text(String),
    /// Ids.
    Ids(Vec<u32>),
    /// Texts.
    Texts(Vec<String>),
    /// Lists of ids.
    IdLists(Vec<Vec<u32>>),
}

/// Texts to go on with. Fields that are not listed are ignored.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct CompletionRequest {
    /// The model's id.
    pub model: Option<String>,
    /// What to go on with.
    pub prompt: Prompts,
    /// Tokens at most, 16 where it is left out; 0 with `echo` scores the prompt.
    pub max_tokens: Option<u32>,
    /// Answers to each prompt.
    pub n: Option<u32>,
    /// Texts that end the answer.
    pub stop: Option<Stops>,
    /// Send the answer as it comes.
    pub stream: Option<bool>,
    /// What a stream holds besides.
    pub stream_options: Option<StreamOptions>,
    /// Begin the answer with the prompt; with `logprobs`, say how likely it was.
    pub echo: Option<bool>,
    /// How likely tokens were, with so many alternatives, at most 20.
    pub logprobs: Option<u32>,
    /// Not possible.
    pub suffix: Option<String>,
    /// What the text has to look like.
    pub response_format: Option<ResponseFormat>,
    /// How tokens are picked.
    #[serde(flatten)]
    pub sampling: Sampling,
}

/// What a completion is made of.
struct Plan {
    prompts: Vec<Vec<u32>>,
    count: usize,
    form: Form,
    options: rawloop_engine::GenerateOptions,
    score: Option<u32>,
}

impl CompletionRequest {
    fn plan(&self, app: &App) -> Result<Plan, ApiError> {
        app.check_model(self.model.as_deref())?;
        if self.suffix.as_ref().is_some_and(|suffix| !suffix.is_empty()) {
            return Err(ApiError::field("suffix", "suffix is not possible: the model goes on behind a text"));
        }
        let model = app.model();
        let special = if app.options.special_tokens { SpecialTokens::Parse } else { SpecialTokens::Text };
        let text = |text: &String| model.control().raw_prompt(model.tokenizer(), text, special);
        let prompts = match &self.prompt {
            Prompts::Text(one) => vec![text(one)],
            Prompts::Ids(ids) => vec![ids.clone()],
            Prompts::Texts(texts) => texts.iter().map(text).collect(),
            Prompts::IdLists(lists) => lists.clone(),
        };
        if prompts.iter().any(Vec::is_empty) || prompts.is_empty() {
            return Err(ApiError::field("prompt", "prompt is empty: there is nothing to go on with"));
        }
        let echo = self.echo.unwrap_or(false);
        let max_tokens = self.max_tokens.unwrap_or(USUAL) as usize;
        if max_tokens == 0 && !echo {
            return Err(ApiError::field("max_tokens", "max_tokens is 0: expected at least 1, or echo"));
        }
        if self.logprobs.is_some_and(|top| top > 20) {
            return Err(ApiError::field("logprobs", "logprobs: at most 20 alternatives are possible"));
        }
        let mut sampling = self.sampling.options(app)?;
        sampling.log_probabilities = self.logprobs;
        let options = generate(app, max_tokens, sampling, Stops::texts(self.stop.as_ref())?);
        let grammar = self.response_format.as_ref().map_or(Ok(None), ResponseFormat::grammar)?;
        let form = Form { grammar, ..Form::default() };
        let score = self.logprobs.filter(|_| echo);
        Ok(Plan { prompts, count: answers(self.n)?, form, options, score })
    }
}

/// Goes on with a text.
#[utoipa::path(post, path = "/v1/completions", tag = "OpenAI", request_body = CompletionRequest,
    responses((status = 200, description = "A `text_completion`, or a stream of them"),
        (status = 400, description = "A field makes no sense; `error.param` names it"),
        (status = 429, description = "The queue is full; `Retry-After` says for how long")))]
pub async fn completions(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    Json(request): Json<CompletionRequest>,
) -> Result<Response, ApiError> {
    let Plan { prompts, count, form, options, score } = request.plan(&app)?;
    let logs = request.logprobs.is_some();
    let mut answering = app.submit(client, |cancel, events| {
        let task = |prompt: usize, answer: usize| {
            let mut options = options.clone();
            options.sampling.seed = options.sampling.seed.wrapping_add(answer as u64);
            Task {
                what: What::Raw { prompt: prompts[prompt].clone(), options: Box::new(options), score },
                form: form.clone(),
                index: prompt * count + answer,
                followers: Vec::new(),
                cancel: Arc::clone(cancel),
                tokens: logs,
                events: events.clone(),
            }
        };
        let first = |prompt: usize| {
            let mut first = task(prompt, 0);
            first.followers = (1..count).map(|answer| task(prompt, answer)).collect();
            first
        };
        (0..prompts.len()).map(first).collect()
    })?;
    let total = prompts.len();
    let echo = request.echo.unwrap_or(false).then_some(prompts);
    let texts = Texts {
        id: unique("cmpl-"),
        created: now(),
        with_usage: request.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
        logs,
        count,
        choices: (0..count * total).map(|_| Choice::default()).collect(),
        echo,
        app: Arc::clone(&app),
    };
    if request.stream.unwrap_or(false) {
        answering.begin().await?;
        return Ok(sse(answering, texts));
    }
    let (mut choices, mut finished) = (Vec::new(), Vec::new());
    for (index, (whole, done)) in answering.collect().await?.into_iter().enumerate() {
        app.metrics.answered(&done.timings);
        let prompt = texts.echoed(index);
        let mut text = prompt.map(|ids| texts.spell_prompt(ids)).unwrap_or_default();
        text.push_str(&done.output.text);
        let logprobs = logs.then(|| {
            let mut list = Tokens::default();
            list.prompt(app.model().tokenizer(), prompt.unwrap_or_default(), &whole.scored);
            for (_, log) in &whole.tokens {
                list.push(app.model().tokenizer(), log.as_ref());
            }
            list.value()
        });
        choices.push(json!({ "index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason(&done) }));
        finished.push(done);
    }
    let mut value = texts.object(Value::from(choices));
    value["usage"] = texts.usage(&finished);
    value["rawloop"] = rawloop(&app, &finished);
    Ok(JsonResponse(value).into_response())
}

/// Log-probabilities in the form of completions.
#[derive(Default)]
struct Tokens {
    tokens: Vec<Value>,
    values: Vec<Value>,
    top: Vec<Value>,
    offsets: Vec<usize>,
    at: usize,
}

impl Tokens {
    fn prompt(&mut self, tokenizer: &Tokenizer, ids: &[u32], scored: &[LogProbabilities]) {
        let Some((&first, _)) = ids.split_first() else { return };
        if scored.is_empty() {
            return;
        }
        // Nothing stands before it.
        self.add(tokenizer, first, Value::Null, Value::Null);
        scored.iter().for_each(|log| self.push(tokenizer, Some(log)));
    }

    fn push(&mut self, tokenizer: &Tokenizer, log: Option<&LogProbabilities>) {
        let Some(log) = log else { return };
        let mut top = Map::new();
        for one in &log.top {
            top.insert(spell(tokenizer, one.id).0, one.value.into());
        }
        self.add(tokenizer, log.picked.id, log.picked.value.into(), Value::Object(top));
    }

    fn add(&mut self, tokenizer: &Tokenizer, id: u32, value: Value, top: Value) {
        let text = match tokenizer.is_special(id) {
            true => tokenizer.spelling(id).unwrap_or_default().to_owned(),
            false => spell(tokenizer, id).0,
        };
        self.offsets.push(self.at);
        self.at += text.chars().count();
        self.tokens.push(text.into());
        self.values.push(value);
        self.top.push(top);
    }

    fn value(self) -> Value {
        json!({ "tokens": self.tokens, "token_logprobs": self.values, "top_logprobs": self.top, "text_offset": self.offsets })
    }
}

/// Completions as objects and as a stream.
struct Texts {
    app: Arc<App>,
    id: String,
    created: u64,
    with_usage: bool,
    logs: bool,
    /// Answers to each prompt.
    count: usize,
    /// Prompts that answers begin with.
    echo: Option<Vec<Vec<u32>>>,
    choices: Vec<Choice>,
}

#[derive(Default)]
struct Choice {
    begun: bool,
    list: Tokens,
    finished: Option<Finished>,
}

impl Texts {
    fn echoed(&self, index: usize) -> Option<&[u32]> {
        Some(self.echo.as_ref()?.get(index / self.count)?)
    }

    fn spell_prompt(&self, ids: &[u32]) -> String {
        let model = self.app.model();
        let ids = ids.strip_prefix(&[model.control().bos]).unwrap_or(ids);
        model.tokenizer().decode(ids, rawloop_tokenizer::SpecialText::Keep).unwrap_or_default()
    }

    fn object(&self, choices: Value) -> Value {
        json!({ "id": self.id, "object": "text_completion", "created": self.created, "model": self.app.options.name, "choices": choices })
    }

    /// Counts over all prompts.
    fn usage(&self, finished: &[Finished]) -> Value {
        let mut all = usage(finished);
        let prompts: usize = finished.iter().step_by(self.count).map(|one| one.timings.prompt_tokens).sum();
        let tokens: usize = finished.iter().map(|one| one.timings.tokens).sum();
        all["prompt_tokens"] = prompts.into();
        all["total_tokens"] = (prompts + tokens).into();
        all
    }

    fn send(&mut self, index: usize, text: &str, finish: Option<&str>, out: &mut VecDeque<Line>) {
        let list = std::mem::take(&mut self.choices[index].list);
        self.choices[index].list.at = list.at;
        let logprobs = (self.logs && !list.tokens.is_empty()).then(|| list.value());
        let choice = json!([{ "index": index, "text": text, "logprobs": logprobs, "finish_reason": finish }]);
        let mut value = self.object(choice);
        if self.with_usage {
            value["usage"] = Value::Null;
        }
        out.push_back(Line::json(&value));
    }

    /// Sends the prompt before the first text.
    fn begin(&mut self, index: usize, scored: &[LogProbabilities], out: &mut VecDeque<Line>) {
        if std::mem::replace(&mut self.choices[index].begun, true) {
            return;
        }
        let Some(prompt) = self.echoed(index).map(<[u32]>::to_vec) else { return };
        let app = Arc::clone(&self.app);
        self.choices[index].list.prompt(app.model().tokenizer(), &prompt, scored);
        let text = self.spell_prompt(&prompt);
        self.send(index, &text, None, out);
    }
}

impl Encoder for Texts {
    fn event(&mut self, index: usize, event: Event, out: &mut VecDeque<Line>) {
        if index >= self.choices.len() {
            return;
        }
        match event {
            Event::Scored(scored) => self.begin(index, &scored, out),
            Event::Token(_, log) => {
                self.begin(index, &[], out);
                let app = Arc::clone(&self.app);
                self.choices[index].list.push(app.model().tokenizer(), log.as_ref());
            }
            Event::Text(text) => {
                self.begin(index, &[], out);
                self.send(index, &text, None, out);
            }
            Event::Done(finished) => {
                self.begin(index, &[], out);
                self.app.metrics.answered(&finished.timings);
                let reason = finish_reason(&finished);
                self.choices[index].finished = Some(*finished);
                self.send(index, "", Some(reason), out);
            }
            Event::Prefill | Event::Reasoning(_) | Event::Call(_) | Event::Failed(_) => {}
        }
    }

    fn error(&mut self, error: ApiError, out: &mut VecDeque<Line>) {
        out.push_back(Line::json(&error.body()));
    }

    fn end(&mut self, out: &mut VecDeque<Line>) {
        if self.with_usage {
            let finished: Vec<Finished> =
                self.choices.iter_mut().filter_map(|choice| choice.finished.take()).collect();
            let mut value = self.object(json!([]));
            value["usage"] = self.usage(&finished);
            value["rawloop"] = rawloop(&self.app, &finished);
            out.push_back(Line::json(&value));
        }
        out.push_back(Line { event: None, data: "[DONE]".into() });
    }
}
