//! Ctrl-C as a flag that loops look at.
//!
//! The first one asks the running command to stop in good order; a second one ends the process at once. In a conversation
//! Ctrl-C belongs to the answer: it may come at any time and any number of times, only three without an effect in between
//! end the process, and the other signals keep their meaning.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Ctrl-C since the last one that was heeded.
static UNHEEDED: AtomicU32 = AtomicU32::new(0);

/// Installs the handler. Commands that do nothing long need none.
pub fn install() -> &'static AtomicBool {
    // A second installation fails, which is as good as the first.
    let _ = ctrlc::set_handler(|| interrupted(2));
    &INTERRUPTED
}

/// Installs the handler of a conversation.
pub fn install_for_conversation() -> &'static AtomicBool {
    #[cfg(unix)]
    {
        use signal_hook::consts::SIGINT;
        use signal_hook::iterator::Signals;
        if let Ok(mut signals) = Signals::new([SIGINT]) {
            std::thread::spawn(move || signals.forever().for_each(|_| interrupted(3)));
            return &INTERRUPTED;
        }
    }
    let _ = ctrlc::set_handler(|| interrupted(3));
    &INTERRUPTED
}

/// Whether one has come that nobody has heeded.
pub fn requested() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Asks as Ctrl-C does: for a terminal that hands it over as a key.
pub fn request() {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// Forgets interrupts that came when there was nothing to stop, or that have been heeded.
pub fn reset() {
    INTERRUPTED.store(false, Ordering::SeqCst);
    UNHEEDED.store(0, Ordering::SeqCst);
}

fn interrupted(limit: u32) {
    INTERRUPTED.store(true, Ordering::SeqCst);
    if UNHEEDED.fetch_add(1, Ordering::SeqCst) + 1 >= limit {
        std::process::exit(crate::exit::Code::Interrupted as i32);
    }
}
