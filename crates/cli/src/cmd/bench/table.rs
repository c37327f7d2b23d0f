//! The result for people: a table with units.

use std::fmt::{self, Write};

use super::answers;
use super::report::Report;
use super::stages::Stage;

/// All of it; `title` and `conditions` stand above.
pub fn table(report: &Report, title: &str, conditions: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut out, report, title, conditions);
    out.truncate(out.trim_end().len());
    out
}

fn write_all(out: &mut String, report: &Report, title: &str, conditions: &str) -> fmt::Result {
    writeln!(out, "{title}\n{conditions}\n")?;
    let decode = &report.decode;
    let tokens = &report.protocol["decode_tokens"];
    writeln!(
        out,
        "decode       {:>9.2} tok/s   prompt {}, {tokens} tokens, median of {} rounds",
        decode.tok_s,
        report.protocol["decode_prompt"],
        decode.rounds.len()
    )?;
    writeln!(
        out,
        "  latency    {:>9.2} ms      half of the tokens; 99 of 100: {:.2} ms",
        decode.p50_ms, decode.p99_ms
    )?;
    writeln!(
        out,
        "  bytes      {:>9.2} MB      a token: {:.2} of weights, {:.2} of K/V",
        decode.bytes_per_token / 1e6,
        decode.weight_bytes_per_token / 1e6,
        decode.kv_bytes_per_token / 1e6
    )?;
    writeln!(
        out,
        "  speed      {:>9.2} GB/s    a plain read beside it: {:.2} GB/s",
        decode.gb_s, decode.read_gb_s
    )?;
    writeln!(out, "  read share {:>9.3}         median of {} pairs", decode.read_share, decode.turns)?;
    writeln!(out, "\nprefill          tok/s   first token   peak share   peak: int8, f32")?;
    for (length, prefill) in &report.prefill {
        let share = prefill.peak_share.map_or("-".into(), |share| format!("{share:.3}"));
        let peak = |peak: Option<f64>| peak.map_or("-".into(), |peak| format!("{peak:.1} G/s"));
        writeln!(
            out,
            "  {length:<10} {:>9.1} {:>10.1} ms {share:>12}   {}, {}",
            prefill.tok_s,
            prefill.first_token_ms,
            peak(prefill.peak_int8_g_s),
            peak(prefill.peak_f32_g_s)
        )?;
    }
    let startup = &report.startup;
    let first = startup.first;
    writeln!(
        out,
        "\nload         {:>9.2} ms      in a fresh process; the first took {:.2} ms",
        startup.load_ms, first.load_ms
    )?;
    writeln!(
        out,
        "first token  {:>9.2} ms      of a prompt of one; the first took {:.2} ms",
        startup.ttft_ms, first.ttft_ms
    )?;
    if let Some(bytes) = report.peak_bytes {
        writeln!(
            out,
            "memory       {:>9.1} MB      at most, touched pages of the pack included",
            bytes as f64 / 1e6
        )?;
    }
    if !report.contexts.is_empty() {
        writeln!(out, "\ncontext          tok/s      a token         speed    plain read   read share")?;
        for depth in &report.contexts {
            writeln!(
                out,
                "  {:<10} {:>9.2} {:>9.2} MB {:>8.2} GB/s {:>8.2} GB/s {:>12.3}",
                depth.context,
                depth.tok_s,
                depth.bytes_per_token / 1e6,
                depth.gb_s,
                depth.read_gb_s,
                depth.read_share
            )?;
        }
    }
    if !report.verify.is_empty() {
        writeln!(out, "\nverified at once   decode steps    bound   over it")?;
        for (width, cost) in &report.verify {
            write!(out, "  {width:<16} {:>12.3}", cost.steps)?;
            match (cost.bound, cost.over_bound) {
                (Some(bound), Some(over)) => writeln!(out, " {bound:>8.3} {over:>9.3}")?,
                _ => writeln!(out)?,
            }
        }
    }
    if !report.draft.is_empty() {
        writeln!(out, "\ndrafted            decode steps")?;
        for (depth, steps) in &report.draft {
            writeln!(out, "  {depth:<16} {steps:>12.3}")?;
        }
    }
    for (_, answered) in &report.answers {
        writeln!(out)?;
        for line in answers::lines(answered) {
            writeln!(out, "{line}")?;
        }
    }
    if let Some(stages) = &report.stages {
        write_stages(out, "decode, a token", &stages.decode)?;
        write_stages(out, &format!("prefill, {} tokens", stages.prompt), &stages.prefill)?;
    }
    if let Some(compare) = &report.compare {
        writeln!(
            out,
            "\ncompare      {:>9.3} times   {}: {:.2} tok/s, theirs {:.2}; median of {} pairs in turns",
            compare.ratio,
            compare.what,
            compare.ours_tok_s,
            compare.theirs_tok_s,
            compare.ratios.len()
        )?;
        writeln!(out, "  theirs     {}", compare.command)?;
    }
    Ok(())
}

fn write_stages(out: &mut String, what: &str, stages: &[Stage]) -> fmt::Result {
    writeln!(
        out,
        "\n{what:<20} {:>12} {:>8} {:>14} {:>13} {:>12}",
        "time", "share", "bytes", "speed", "products"
    )?;
    for stage in stages {
        writeln!(
            out,
            "  {:<18} {:>9.3} ms {:>6.1} % {:>11.3} MB {:>8.2} GB/s {:>8.2} G/s",
            stage.name,
            stage.ms,
            100.0 * stage.share,
            stage.bytes / 1e6,
            stage.gb_s,
            stage.g_s
        )?;
    }
    let sum = |of: fn(&Stage) -> f64| stages.iter().map(of).sum::<f64>();
    writeln!(
        out,
        "  {:<18} {:>9.3} ms {:>6.1} % {:>11.3} MB",
        "sum",
        sum(|stage| stage.ms),
        100.0 * sum(|stage| stage.share),
        sum(|stage| stage.bytes) / 1e6
    )
}
