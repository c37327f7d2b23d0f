//! `rawloop compare`: two packs, family by family.

use std::fmt::Write;

use rawloop_pack::{Pack, compare};

use crate::args::CompareArgs;
use crate::exit::{Code, Failure};

use super::{print, print_json};

/// Ends with code 1 where a tensor differs.
pub fn run(args: CompareArgs) -> Result<(), Failure> {
    let (a, b) = (Pack::open(&args.a)?, Pack::open(&args.b)?);
    let report = compare(&a, &b);
    if args.json {
        print_json(&report)?;
    } else {
        let mut out = String::new();
        for (family, line) in &report.families {
            let _ = write!(out, "{family:<42} {:>4} equal", line.equal);
            if line.differing > 0 {
                let _ = write!(
                    out,
                    ", {} differ in {} values, by {} at most",
                    line.differing, line.differing_values, line.largest_difference
                );
            }
            for name in &line.incomparable {
                let _ = write!(out, ", {name} has another shape or format");
            }
            let _ = writeln!(out);
        }
        let sides = [(&report.only_first, &args.a), (&report.only_second, &args.b)];
        for (names, path) in sides {
            for name in names {
                let _ = writeln!(out, "only in {}: {name}", path.display());
            }
        }
        for name in &report.blobs {
            let _ = writeln!(out, "blob differs: {name}");
        }
        for part in &report.manifest {
            let _ = writeln!(out, "manifest differs: {part}");
        }
        let verdict = match (report.equal(), report.tensors_equal()) {
            (true, _) => "equal",
            (false, true) => "every tensor equal; the rest differs as listed",
            (false, false) => "tensors differ",
        };
        let _ = write!(out, "{verdict}");
        print(&out)?;
    }
    if report.tensors_equal() { Ok(()) } else { Err(Failure::new(Code::Other, "the packs' tensors differ")) }
}
