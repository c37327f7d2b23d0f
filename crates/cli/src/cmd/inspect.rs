//! `rawloop inspect`: what a pack holds and what a token of it costs.

use std::fmt::Write;

use rawloop_pack::{Manifest, Pack, account};
use rawloop_spec::{AttentionKind, Program};
use serde_json::json;

use crate::args::InspectArgs;
use crate::exit::Failure;

use super::{print, print_json};

/// Prints the manifest, as text or JSON.
pub fn run(args: InspectArgs) -> Result<(), Failure> {
    let pack = Pack::open(&args.pack)?;
    let manifest = pack.manifest();
    let program = Program::full(&manifest.geometry);
    if args.json {
        let stages: Vec<String> = program.stages.iter().map(ToString::to_string).collect();
        let mut value = json!({
            "model": manifest.model,
            "file_bytes": pack.bytes().len(),
            "geometry": manifest.geometry,
            "drafter": manifest.drafter,
            "bytes_per_token": account(manifest),
            "generation": manifest.generation,
            "provenance": manifest.provenance,
            "blobs": manifest.blobs,
        });
        if args.tensors {
            value["tensors"] = json!(manifest.tensors);
        }
        if args.program {
            value["program"] = json!(stages);
        }
        return print_json(&value);
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = summary(&mut out, manifest, pack.bytes().len());
    if args.program {
        let _ = writeln!(out, "\nprogram ({} stages)", program.stages.len());
        for (index, stage) in program.stages.iter().enumerate() {
            let _ = writeln!(out, "  {index:>4}  {stage}");
        }
    }
    if args.tensors {
        let _ = writeln!(out, "\ntensors ({})", manifest.tensors.len());
        for tensor in &manifest.tensors {
            let shape = format!("[{} x {}]", tensor.rows, tensor.columns);
            let format = tensor.format.name();
            let _ = writeln!(
                out,
                "  {:<42} {format:<11} {shape:<18} at {:>11}, {:>11} bytes",
                tensor.name, tensor.offset, tensor.bytes
            );
        }
    }
    print(out.trim_end())
}

fn summary(out: &mut String, manifest: &Manifest, file_bytes: usize) -> std::fmt::Result {
    let geometry = &manifest.geometry;
    let synthetic = if manifest.model.synthetic { "  (SYNTHETIC weights)" } else { "" };
    let full = geometry.layers.iter().filter(|layer| layer.attention == AttentionKind::Full).count();
    let own = geometry.own_layers();
    writeln!(out, "{}{synthetic}", manifest.model.name)?;
    writeln!(out, "  file          {file_bytes} bytes, format {}", manifest.format_version)?;
    writeln!(out, "  profile       {}, arithmetic {}", manifest.model.profile, manifest.model.arithmetic)?;
    writeln!(
        out,
        "  layers        {} ({} sliding, {full} full), {own} own their K/V, window {}",
        geometry.layers.len(),
        geometry.layers.len() - full,
        geometry.window
    )?;
    writeln!(
        out,
        "  widths        hidden {}, {} heads, {} KV heads, per-layer embedding {}",
        geometry.hidden, geometry.heads, geometry.kv_heads, geometry.ple_width
    )?;
    writeln!(out, "  vocabulary    {} tokens, context {}", geometry.vocab, geometry.max_context)?;
    match &manifest.drafter {
        None => writeln!(out, "  drafter       none")?,
        Some(drafter) => {
            let head = match drafter.ordered {
                None => "whole head".to_string(),
                Some(head) => format!("{} of {} clusters", head.top_k, head.centroids),
            };
            writeln!(
                out,
                "  drafter       {} layers, hidden {}, {head}",
                drafter.layers.len(),
                drafter.hidden
            )?;
        }
    }
    let provenance = &manifest.provenance;
    let revision = provenance.revision.as_deref().unwrap_or("revision unknown");
    writeln!(out, "  source        {} ({revision}), by {}", provenance.source, provenance.converter)?;
    writeln!(out, "  licence       {}; {}", provenance.license, provenance.credit)?;
    for (what, count) in &provenance.skipped {
        writeln!(out, "  skipped       {count} tensors: {what}")?;
    }
    if provenance.zero_scales > 0 {
        writeln!(out, "  zero scales   {} rows", provenance.zero_scales)?;
    }
    for note in &provenance.notes {
        writeln!(out, "  note          {note}")?;
    }
    let account = account(manifest);
    writeln!(out, "\nbytes a decoded token reads")?;
    for (class, line) in &account.classes {
        let name = format!("{class:?}");
        writeln!(
            out,
            "  {name:<20} {:>13}   ({} tensors, {} bytes stored)",
            line.token_bytes, line.tensors, line.stored_bytes
        )?;
    }
    writeln!(out, "  {:<20} {:>13}", "total", account.token_bytes)?;
    writeln!(
        out,
        "  {:<20} {:>13}   (codes alone, model projection counted at 8 bits: {:.1} MB)",
        "mobile mix",
        account.quantised_words,
        account.quantised_words as f64 / 1e6
    )?;
    if account.draft_bytes > 0 {
        writeln!(out, "  {:<20} {:>13}", "one draft", account.draft_bytes)?;
    }
    Ok(())
}
