//! The module: bytes of a pack in, events of a conversation out.
//!
//! One model and one conversation at a time. Calls that work with the device suspend and give the caller a promise; while one is under
//! way the worker goes on handling messages, so [`cancel`] takes effect at the next token. Invariant: every failure is an exception with the
//! engine's own message, and the conversation is usable afterwards.

// `jspi` is marked as one that may change; the versions of both halves are pinned.
#![expect(deprecated)]

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_engine::backend::Backend;
use rawloop_engine::{ChatEvent, ChatOptions, ChatSession, Engine, EngineError};
use rawloop_pack::Pack;
use rawloop_wgpu::{WgpuBackend, WgpuOptions};
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::message::{Answered, Asking, Opened, Opening};

/// Tokens of an answer where nothing is said.
const MAX_TOKENS: usize = 512;

static CANCEL: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CHAT: RefCell<Option<ChatSession>> = const { RefCell::new(None) };
}

#[wasm_bindgen]
extern "C" {
    /// The worker's function that hands an event on.
    #[wasm_bindgen(js_namespace = globalThis, js_name = rawloopEvent)]
    fn event(kind: &str, text: &str, done: f64, total: f64);
}

/// A panic has no words in a browser; the worker shows these, and begins anew.
#[wasm_bindgen(start)]
fn start() {
    std::panic::set_hook(Box::new(|panic| event("panic", &panic.to_string(), 0.0, 0.0)));
}

fn failed(error: impl std::fmt::Display) -> JsError {
    JsError::new(&error.to_string())
}

fn json(value: &impl Serialize) -> Result<String, JsError> {
    serde_json::to_string(value).map_err(failed)
}

/// Memory for the bytes of a pack, filled from the start.
#[wasm_bindgen]
pub struct Room(Vec<u8>);

#[wasm_bindgen]
impl Room {
    /// Room for so many bytes.
    ///
    /// # Errors
    /// The browser has no more memory.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: f64) -> Result<Room, JsError> {
        /// The pack's bytes move up to an aligned address (`Pack::from_vec`).
        const ALIGNMENT: usize = 256;
        let mut room = Vec::new();
        room.try_reserve_exact(bytes as usize + ALIGNMENT).map_err(|_| {
            JsError::new(&format!("the browser gives no {:.2} GB of memory for the model", bytes / 1e9))
        })?;
        Ok(Room(room))
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Opens a pack on the browser's adapter; `opening` is an [`Opening`], the result an [`Opened`].
///
/// # Errors
/// The pack is damaged, there is no adapter, or the model does not fit it.
#[wasm_bindgen(jspi)]
pub fn open(room: Room, label: String, opening: String) -> Result<String, JsError> {
    let opening: Opening = serde_json::from_str(&opening).map_err(failed)?;
    // The last model's memory goes first.
    CHAT.take();
    let pack = Pack::from_vec(room.0, &label).map_err(failed)?;
    if opening.verify {
        let total = pack.content_bytes() as f64;
        pack.verify(|done| event("verify", "", done as f64, total)).map_err(failed)?;
    }
    event("upload", "", 0.0, 0.0);
    let context = opening.context.clamp(1, pack.geometry().max_context);
    let synthetic = pack.manifest().model.synthetic;
    let options = WgpuOptions { context, ..WgpuOptions::default() };
    let mut opened = None;
    let engine = Engine::open(Arc::new(pack), |pack| {
        let backend = WgpuBackend::open(Arc::clone(pack), &options).map_err(failed)?;
        let arithmetic = backend.arithmetic();
        let inexact: Vec<_> =
            arithmetic.wrong.iter().map(|&(what, count)| (what.to_string(), count)).collect();
        opened = Some(Opened {
            device: backend.info().kernels,
            exact: inexact.is_empty(),
            inexact,
            device_bytes: backend.device_bytes(),
            context,
            synthetic,
        });
        Ok::<_, Refusal>(Box::new(backend) as Box<dyn Backend>)
    })?;
    let options = ChatOptions::of(engine.model(), MAX_TOKENS);
    let chat = ChatSession::new(engine.session().map_err(failed)?, options);
    CHAT.set(Some(chat));
    json(&opened)
}

/// A failure of either side while a model is opened.
struct Refusal(JsError);

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Refusal {
        Refusal(failed(error))
    }
}

impl From<JsError> for Refusal {
    fn from(error: JsError) -> Refusal {
        Refusal(error)
    }
}

impl From<Refusal> for JsError {
    fn from(refusal: Refusal) -> JsError {
        refusal.0
    }
}

fn chat() -> Result<ChatSession, JsError> {
    CHAT.with_borrow(Clone::clone).ok_or_else(|| JsError::new("no model is open"))
}

/// Answers a message; `asking` is an [`Asking`], the result an [`Answered`]. Text comes as events while it is made.
///
/// # Errors
/// No model is open, another answer is under way, an option is out of range, or the device failed.
#[wasm_bindgen(jspi)]
pub fn ask(text: String, asking: String) -> Result<String, JsError> {
    let asking: Asking = serde_json::from_str(&asking).map_err(failed)?;
    let chat = chat()?;
    CANCEL.store(false, Ordering::Relaxed);
    let model = Arc::clone(chat.model());
    chat.change_options(|options| {
        *options = ChatOptions::of(&model, asking.max_tokens.unwrap_or(MAX_TOKENS));
        options.system = asking.system;
        options.thinking = asking.thinking;
        let sampling = &mut options.generate.sampling;
        sampling.temperature = asking.temperature.unwrap_or(sampling.temperature);
        sampling.seed = asking.seed.unwrap_or(sampling.seed);
    })
    .map_err(failed)?;
    let turn = chat
        .respond(&text, &CANCEL, &mut |step| {
            match step {
                ChatEvent::Prefill { done, total } => event("prefill", "", done as f64, total as f64),
                ChatEvent::Reasoning(text) => event("thinking", text, 0.0, 0.0),
                ChatEvent::Text(text) => event("text", text, 0.0, 0.0),
                ChatEvent::Token { .. } | ChatEvent::Call(_) | ChatEvent::Result { .. } => {}
            }
            ControlFlow::Continue(())
        })
        .map_err(failed)?;
    let timings = &turn.timings;
    json(&Answered {
        text: turn.output.text.clone(),
        finish_reason: turn.finish.name(),
        prompt_tokens: timings.prompt_tokens,
        reused_tokens: timings.reused_tokens,
        first_token_ms: 1e3 * timings.prefill.as_secs_f64(),
        tokens_per_second: timings.decode_rate(),
        ids: turn.ids,
    })
}

/// Ends the answer under way at its next token.
#[wasm_bindgen]
pub fn cancel() {
    CANCEL.store(true, Ordering::Relaxed);
}

/// Begins a new conversation.
///
/// # Errors
/// No model is open, or an answer is under way.
#[wasm_bindgen]
pub fn forget() -> Result<(), JsError> {
    chat()?.set_messages(Vec::new()).map_err(failed)
}
