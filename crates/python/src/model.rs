//! A model and the backend that runs it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use rawloop_backend::{Backend, BackendInfo};
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_cuda::{CudaBackend, CudaOptions};
use rawloop_engine::ops::{self, OPS, OpOptions};
use rawloop_engine::{ChatSession, Engine, EngineError, ModelSource, Session};
use rawloop_hub::{Catalog, Store, is_id};
use rawloop_pack::Pack;
use rawloop_tokenizer::{SpecialText, SpecialTokens};
use serde_json::{Map, Value, json};

use crate::chat::Chat;
use crate::failure::Failure;
use crate::mailbox::Mailbox;
use crate::settings::{self, LastForm};
use crate::shared::SharedBackend;
use crate::stream::Stream;
use crate::work;

/// Bytes on a boundary that lets the pack be used where it lies.
#[repr(C, align(4096))]
struct Aligned<T: ?Sized>(T);

static EMBEDDED: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../models/tiny/tiny.rlp"));

/// Name of the embedded model in messages.
const EMBEDDED_LABEL: &str = "the model in this package";
/// Positions a sequence gets where nothing is said.
const DEFAULT_CONTEXT: usize = 32_768;

/// A model and the backend that runs it. Conversations and operations on it share weights and caches.
#[pyclass(frozen, module = "rawloop._native")]
pub struct Model {
    model: Arc<rawloop_engine::Model>,
    info: BackendInfo,
    /// An empty conversation that others are begun beside.
    chats: ChatSession,
    /// For texts that are no conversation.
    session: Arc<Mutex<Session>>,
    forms: LastForm,
}

/// What a model is opened with.
struct Choice {
    backend: String,
    threads: Option<usize>,
    affinity: bool,
    kernels: Option<String>,
    kv: String,
    context: Option<usize>,
}

impl Choice {
    fn open(&self, pack: &Arc<Pack>) -> Result<Box<dyn Backend>, Failure> {
        let trained = pack.geometry().max_context;
        let context = self.context.unwrap_or(trained.min(DEFAULT_CONTEXT));
        if context == 0 || context > trained {
            return Err(Failure::option(format!(
                "`context` is {context}: expected 1 to {trained}, the positions that this model was trained for"
            )));
        }
        match self.backend.as_str() {
            "cpu" => self.cpu(pack, context),
            "cuda" => self.cuda(pack, context),
            "auto" if rawloop_cuda::report().is_ok() => self.cuda(pack, context),
            "auto" => self.cpu(pack, context),
            other => {
                let message =
                    format!("there is no backend `{other}`: expected \"auto\", \"cpu\" or \"cuda\"");
                Err(Failure::option(message))
            }
        }
    }

    fn cpu(&self, pack: &Arc<Pack>, context: usize) -> Result<Box<dyn Backend>, Failure> {
        use rawloop_cpu::{CpuError, KvFormat};
        let kv = self.kv([KvFormat::F32, KvFormat::F16, KvFormat::I8])?;
        let (threads, affinity, kernels) = (self.threads, self.affinity, self.kernels.clone());
        let options = CpuOptions { threads, affinity, kernels, kv, context };
        let opened = CpuBackend::open(Arc::clone(pack), &options);
        Ok(Box::new(opened.map_err(|error| match error {
            CpuError::Kernels { .. } | CpuError::Threads { .. } | CpuError::Context { .. } => {
                Failure::option(error)
            }
            CpuError::Team { .. } => Failure::new("BackendError", error),
            _ => Failure::model(error),
        })?))
    }

    fn cuda(&self, pack: &Arc<Pack>, context: usize) -> Result<Box<dyn Backend>, Failure> {
        use rawloop_cuda::{CudaError, KvFormat};
        let kv = self.kv([KvFormat::F32, KvFormat::F16, KvFormat::I8])?;
        let options = CudaOptions { context, kv, ..CudaOptions::default() };
        let opened = CudaBackend::open(pack, &options);
        Ok(Box::new(opened.map_err(|error| match error {
            CudaError::Context { .. } | CudaError::Shape { .. } => Failure::option(error),
            CudaError::NoDevice(_) | CudaError::Driver(_) => Failure::new("BackendError", error),
            _ => Failure::model(error),
        })?))
    }

    /// The storage of K/V among those of a backend: f32, f16, i8.
    fn kv<T>(&self, [f32, f16, i8]: [T; 3]) -> Result<T, Failure> {
        match self.kv.as_str() {
            "f32" => Ok(f32),
            "f16" => Ok(f16),
            "i8" => Ok(i8),
            other => {
                Err(Failure::option(format!("`kv` is \"{other}\": expected \"f16\", \"f32\" or \"i8\"")))
            }
        }
    }
}

/// Where a model is: in this package, in a file, or among the pulled ones.
fn source(choice: Option<PathBuf>) -> Result<ModelSource, Failure> {
    let Some(path) = choice else { return Ok(ModelSource::Embedded(&EMBEDDED.0, EMBEDDED_LABEL)) };
    // A name is meant where no file is called so, and none could be meant.
    let name = path.to_str().filter(|text| is_id(&text.to_ascii_lowercase()) && !path.exists());
    let Some(name) = name else { return Ok(ModelSource::Path(path)) };
    let found = Catalog::open(None).and_then(|catalog| Store::user()?.resolve(&catalog, name));
    Ok(ModelSource::Path(found.map_err(Failure::model)?))
}

fn open(choice: Option<PathBuf>, how: &Choice) -> Result<Model, Failure> {
    let source = source(choice)?;
    let pack = Arc::new(source.open(|_| None)?);
    let engine = Engine::open(pack, |pack| how.open(pack))?;
    let (model, backend) = engine.into_parts();
    let backend = SharedBackend::new(backend);
    let info = backend.info();
    let begin = |backend: &SharedBackend| Session::new(Arc::clone(&model), Box::new(backend.clone()));
    let session = Arc::new(Mutex::new(begin(&backend)?));
    let chats = ChatSession::new(begin(&backend)?, settings::defaults(&model));
    Ok(Model { model, info, chats, session, forms: LastForm::default() })
}

#[pymethods]
impl Model {
    /// Opens a pack or a pulled model by its name; the embedded model where nothing is given.
    #[new]
    #[pyo3(signature = (path, backend, threads, affinity, kernels, kv, context))]
    #[expect(clippy::too_many_arguments, reason = "a call from Python with names")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        backend: String,
        threads: Option<usize>,
        affinity: bool,
        kernels: Option<String>,
        kv: String,
        context: Option<usize>,
    ) -> PyResult<Model> {
        let choice = Choice { backend, threads, affinity, kernels, kv, context };
        Ok(py.detach(|| open(path, &choice))?)
    }

    /// What it is and what runs it, as JSON.
    fn info(&self) -> String {
        let (model, info) = (&self.model.pack().manifest().model, &self.info);
        json!({
            "name": model.name,
            "synthetic": model.synthetic,
            "profile": model.profile,
            "vocabulary": self.model.tokenizer().vocab_size(),
            "backend": info.name,
            "kernels": info.kernels,
            "threads": info.threads,
            "kv": info.kv,
            "context": info.context,
            "has_drafter": info.has_drafter,
        })
        .to_string()
    }

    /// A new conversation with settings (JSON).
    fn chat(&self, py: Python<'_>, settings: &str) -> PyResult<Chat> {
        let settings = settings::parse(settings)?;
        let begun = py.detach(|| {
            let mut options = settings::defaults(&self.model);
            settings::apply(&settings, &self.model, &self.forms, &mut options)?;
            Ok::<_, Failure>(Chat::new(self.chats.beside(options)))
        });
        Ok(begun?)
    }

    /// Continues a text as it stands, with settings (JSON). `special` reads `<|turn>` and the like as control tokens.
    fn complete(&self, py: Python<'_>, prompt: &str, settings: &str, special: bool) -> PyResult<Stream> {
        let settings = settings::parse(settings)?;
        let begun = py.detach(|| {
            let mut options = settings::defaults(&self.model);
            settings::apply(&settings, &self.model, &self.forms, &mut options)?;
            let special = if special { SpecialTokens::Parse } else { SpecialTokens::Text };
            let prompt = self.model.control().raw_prompt(self.model.tokenizer(), prompt, special);
            let session = Arc::clone(&self.session);
            Stream::begin(Arc::new(Mailbox::default()), move |mailbox| {
                work::continuation(&session, &prompt, &options.generate, mailbox)
            })
        });
        Ok(begun?)
    }

    /// Runs an operation with its options (JSON: texts by name) on one or two texts.
    #[pyo3(signature = (name, texts, options, piece_tokens, answer_tokens))]
    fn operation(
        &self,
        py: Python<'_>,
        name: &str,
        texts: Vec<String>,
        options: &str,
        piece_tokens: Option<usize>,
        answer_tokens: Option<usize>,
    ) -> PyResult<Stream> {
        let values: Map<String, Value> = serde_json::from_str(options).map_err(Failure::option)?;
        let op = ops::find(name).map_err(Failure::from)?;
        let mut options = OpOptions::new();
        for (name, value) in values {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            options = options.with(name, value);
        }
        (options.piece_tokens, options.answer_tokens) = (piece_tokens, answer_tokens);
        options.check(op).map_err(Failure::from)?;
        let session = Arc::clone(&self.session);
        let begun = py.detach(|| {
            Stream::begin(Arc::new(Mailbox::default()), move |mailbox| {
                work::operation(&session, op, &texts, &options, mailbox)
            })
        });
        Ok(begun?)
    }

    /// The ids of a text.
    fn tokenize(&self, py: Python<'_>, text: &str, special: bool) -> Vec<u32> {
        let special = if special { SpecialTokens::Parse } else { SpecialTokens::Text };
        py.detach(|| self.model.tokenizer().encode(text, special))
    }

    /// The text of ids.
    fn detokenize(&self, py: Python<'_>, ids: Vec<u32>, special: bool) -> PyResult<String> {
        let special = if special { SpecialText::Keep } else { SpecialText::Drop };
        let text = py.detach(|| self.model.tokenizer().decode(&ids, special));
        Ok(text.map_err(Failure::option)?)
    }

    /// The text that the model reads for messages (JSON, in OpenAI's shape).
    fn render(&self, messages: &str, thinking: bool) -> PyResult<String> {
        let messages: Vec<rawloop_engine::chat::Message> =
            serde_json::from_str(messages).map_err(Failure::messages)?;
        let options = rawloop_engine::chat::RenderOptions { enable_thinking: thinking, ..Default::default() };
        let rendered = self.model.render(&options, &messages).map_err(EngineError::from);
        Ok(rendered.map_err(Failure::from)?.to_string())
    }
}

/// The operations there are, as JSON: name, what they do, texts they take, options.
#[pyfunction]
pub fn operations() -> String {
    let all: Vec<Value> = OPS
        .iter()
        .map(|op| {
            let option = |option: &ops::OpOption| {
                let values: Vec<&str> = option.values.iter().map(|(value, _)| *value).collect();
                json!({ "name": option.name, "about": option.about, "default": option.default, "values": values })
            };
            json!({
                "name": op.name,
                "about": op.about,
                "inputs": op.inputs,
                "is_json": op.is_json(),
                "options": op.options.iter().map(option).collect::<Vec<_>>(),
            })
        })
        .collect();
    Value::from(all).to_string()
}
