//! rawloop in a browser.
//!
//! The engine and the wgpu backend, as they are everywhere, compiled to one WebAssembly module that a worker runs. Their calls wait for
//! the device by putting the stack aside (JavaScript promise integration: Chromium from 137 on, Firefox from 153 on); so there is no second
//! loop for browsers that could come to other tokens. The page around it is `web/`: `store.js` fetches a pack in pieces into the
//! browser's own file system, `worker.js` runs this module, `page.js` shows the conversation.
//!
//! [`message`] is what goes to and fro, tested on every target; `program` is the module itself and exists only in WebAssembly.
//! docs/wgpu.md says what ran where.

pub mod message;

#[cfg(target_arch = "wasm32")]
mod program;
