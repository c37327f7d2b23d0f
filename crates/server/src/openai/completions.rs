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
use crate::http::{Answering, App, Client, Encoder, Json, Line, aside, now, sse, unique};
use crate::work::{Event, Finished, Form, Slot, What, finish_reason, with_followers};

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

impl Prompts {
    fn count(&self) -> usize {
        match self {
            Prompts::Text(_) | Prompts::Ids(_) => 1,
            Prompts::Texts(texts) => texts.len(),
            Prompts::IdLists(lists) => lists.len(),
        }
    }
}

/// What a completion is made of.
struct Plan {
    prompts: Vec<Arc<Vec<u32>>>,
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
            Prompts::Text(one) => vec![Arc::new(text(one))],
            Prompts::Ids(ids) => vec![Arc::new(ids.clone())],
            Prompts::Texts(texts) => texts.iter().map(|one| Arc::new(text(one))).collect(),
            Prompts::IdLists(lists) => lists.iter().map(|ids| Arc::new(ids.clone())).collect(),
        };
        if prompts.iter().any(|ids| ids.is_empty()) || prompts.is_empty() {
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
        Ok(Plan { prompts, form, options, score })
    }
}

/// Lets `count` answers to each prompt be made, `total` in all. Hands out the prompts where the answers begin with them.
async fn submit(
    app: &Arc<App>,
    client: Client,
    request: CompletionRequest,
    count: usize,
    total: usize,
) -> Result<(Answering, Option<Vec<Arc<Vec<u32>>>>), ApiError> {
    let admission = app.admit(total, if request.prompt.count() > 1 { "prompt" } else { "n" })?;
    let app = Arc::clone(app);
    let planned = move || {
        let Plan { prompts, form, options, score } = request.plan(&app)?;
        let (form, tokens) = (Arc::new(form), request.logprobs.is_some());
        let task = |prompt: &Arc<Vec<u32>>, answer: usize, slot: Slot| {
            let mut options = options.clone();
            options.sampling.seed = options.sampling.seed.wrapping_add(answer as u64);
            let what = What::Raw { prompt: Arc::clone(prompt), options: Box::new(options), score };
            slot.task(what, Arc::clone(&form), tokens)
        };
        let answering = app.submit(client, admission, |slots| {
            let mut slots = slots.into_iter();
            let of = |prompt| {
                let slots = slots.by_ref().take(count).enumerate();
                with_followers(slots.map(|(answer, slot)| task(prompt, answer, slot)))
            };
            prompts.iter().flat_map(of).collect()
        })?;
        Ok((answering, request.echo.unwrap_or(false).then_some(prompts)))
    };
    aside(planned).await?
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
    let (logs, stream) = (request.logprobs.is_some(), request.stream.unwrap_or(false));
    let with_usage = request.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
    let count = answers(request.n)?;
    let total = request.prompt.count().saturating_mul(count);
    let (mut answering, echo) = submit(&app, client, request, count, total).await?;
    let texts = Texts {
        id: unique("cmpl-"),
        created: now(),
        with_usage,
        logs,
        count,
        choices: (0..total).map(|_| Choice::default()).collect(),
        echo,
        app: Arc::clone(&app),
    };
    if stream {
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
            list.prompt(app.model().tokenizer(), prompt.map_or(&[], |ids| ids), &whole.scored);
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
    echo: Option<Vec<Arc<Vec<u32>>>>,
    choices: Vec<Choice>,
}

#[derive(Default)]
struct Choice {
    begun: bool,
    list: Tokens,
    finished: Option<Finished>,
}

impl Texts {
    fn echoed(&self, index: usize) -> Option<&Arc<Vec<u32>>> {
        self.echo.as_ref()?.get(index / self.count)
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
        let Some(prompt) = self.echoed(index).cloned() else { return };
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
