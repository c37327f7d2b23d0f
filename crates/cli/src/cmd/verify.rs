//! `rawloop verify`: every hash and every scale.

use rawloop_pack::Pack;

use crate::args::VerifyArgs;
use crate::exit::Failure;
use crate::progress;

use super::{print, print_json};

/// Reads the whole pack once.
pub fn run(args: VerifyArgs) -> Result<(), Failure> {
    let pack = Pack::open(&args.pack)?;
    let bar = progress::bytes(pack.content_bytes(), "verify", args.quiet || args.json);
    let report = pack.verify(|bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let report = report?;
    if args.json {
        return print_json(&report);
    }
    print(&format!(
        "{}: {} tensors and {} blobs, {} bytes: every hash right, every scale finite and at least 0",
        args.pack.display(),
        report.tensors,
        report.blobs,
        report.bytes
    ))
}
