//! Ctrl-C as a flag that loops look at.
//!
//! The first one asks the running command to stop in good order; a second one ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler. Commands that do nothing long need none.
pub fn install() -> &'static AtomicBool {
    // A second installation fails, which is as good as the first.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(crate::exit::Code::Interrupted as i32);
        }
    });
    &INTERRUPTED
}
