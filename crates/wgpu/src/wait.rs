//! Waiting: for futures, and for what a callback of the device tells.
//!
//! Outside of a browser wgpu's futures are done when they are made, and polling the device runs its callbacks. In a browser both come from
//! the event loop, which does not turn while a program runs. So the program's stack is put aside until somebody gives a signal (JavaScript
//! promise integration): the loop above stays the same plain calls on every target. The program must have been entered by an export that
//! allows that (`crates/browser`).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// Given once by a callback.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal(Arc<AtomicBool>);

impl Signal {
    /// Tells whoever waits.
    pub fn give(&self) {
        self.0.store(true, Ordering::Release);
        #[cfg(target_arch = "wasm32")]
        browser::turn();
    }
}

/// The value of a future that needs no waiting; none where it would.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// The value of a future; none where this stack cannot be put aside.
#[cfg(target_arch = "wasm32")]
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    let signal = Arc::new(Signal::default());
    let waker = signal.clone().into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return Some(value),
            Poll::Pending if !signal.wait() => return None,
            Poll::Pending => {}
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod browser {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::task::Wake;

    use js_sys::{Function, Promise};
    use wasm_bindgen::JsValue;

    use super::Signal;

    thread_local! {
        /// What resumes the stacks that were put aside.
        static WAITING: RefCell<Vec<Function>> = const { RefCell::new(Vec::new()) };
    }

    /// Lets everybody who waits look again.
    pub fn turn() {
        for resume in WAITING.take() {
            // A promise's own function does not fail.
            let _ = resume.call0(&JsValue::UNDEFINED);
        }
    }

    impl Signal {
        /// Puts this stack aside until the signal is given, and takes it. False where the stack cannot be put aside.
        // The function is marked as one that may change: browsers gained what is behind it lately.
        #[expect(deprecated)]
        pub fn wait(&self) -> bool {
            while !self.0.swap(false, Ordering::Acquire) {
                let turned = Promise::new(&mut |resume, _| WAITING.with_borrow_mut(|list| list.push(resume)));
                if js_sys::futures::jspi_block_on_promise(&turned).is_err() {
                    return false;
                }
            }
            true
        }
    }

    impl Wake for Signal {
        fn wake(self: Arc<Self>) {
            self.give();
        }
    }
}
