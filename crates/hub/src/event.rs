//! What a pull tells while it works.

use std::time::Duration;

use rawloop_convert::Phase;

/// Something happened. Bytes count what lies on the disk.
#[derive(Clone, Debug)]
pub enum Event {
    /// Somebody else holds the lock of this model or file; we wait.
    Waiting {
        /// Model or file.
        what: String,
    },
    /// The hub told what there is.
    Listed {
        /// Files that are needed.
        files: usize,
        /// Their bytes.
        bytes: u64,
        /// Bytes of them that are not here.
        missing: u64,
    },
    /// The hub cannot be reached; the copy in the cache is used.
    FromCache {
        /// Why.
        reason: String,
    },
    /// A file that is here already is hashed.
    Checking {
        /// Its name.
        file: String,
    },
    /// A file is fetched from `from` on.
    Fetching {
        /// Its name.
        file: String,
        /// Its size.
        bytes: u64,
        /// What is here of it.
        from: u64,
    },
    /// Bytes arrived, a few times a second.
    Progress {
        /// Bytes here, all files together.
        done: u64,
        /// Bytes of all files.
        total: u64,
    },
    /// The file is fetched again from its start.
    Restart {
        /// Its name.
        file: String,
        /// Why.
        reason: String,
    },
    /// A request failed and is sent again.
    Retry {
        /// Who failed.
        host: String,
        /// How.
        reason: String,
        /// Time until then.
        wait: Duration,
        /// Number of the coming attempt.
        attempt: u32,
        /// Attempts in all.
        attempts: u32,
    },
    /// The conversion enters a phase with so many bytes.
    Converting {
        /// The phase.
        phase: Phase,
        /// Bytes of the phase, 0 where that is not known.
        bytes: u64,
    },
    /// The conversion handled so many bytes more.
    Converted {
        /// Bytes.
        bytes: u64,
    },
}
