//! `--compare`: our rounds and another program's, in turns.
//!
//! The other one is a shell command that prints tokens per second as the last number of its output. One pair warms up; the
//! ratio of each pair after it counts, and the median of those.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::runner::Runner;
use super::stats::median;
use super::{decode, prefill};
use crate::exit::{Code, Failure};

/// What a comparison found.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The other side's command.
    pub command: String,
    /// `decode` or `prefill N`: what our side measured.
    pub what: String,
    /// Our tokens per second, median.
    pub ours_tok_s: f64,
    /// Theirs, median.
    pub theirs_tok_s: f64,
    /// Median of the pairs' ratios, ours over theirs.
    pub ratio: f64,
    /// Our rounds that count.
    pub ours: Vec<f64>,
    /// Their rounds that count.
    pub theirs: Vec<f64>,
    /// Ours over theirs, pair by pair.
    pub ratios: Vec<f64>,
}

/// Runs both in turns, `rounds` pairs after the first.
pub fn measure(
    runner: &mut Runner,
    command: &str,
    prompt: Option<usize>,
    tokens: usize,
    rounds: usize,
    cancel: &AtomicBool,
) -> Result<Comparison, Failure> {
    let mut pairs = Vec::new();
    for _ in 0..=rounds {
        let ours = match prompt {
            None => decode::tokens_per_second(&decode::round(runner, tokens, false)?),
            Some(length) => {
                let round = prefill::round(runner, length)?;
                length as f64 / (round.silent + round.last)
            }
        };
        let theirs = theirs(command, cancel)?;
        pairs.push((ours, theirs));
        runner.next("comparison");
    }
    let what = prompt.map_or("decode".into(), |length| format!("prefill {length}"));
    Ok(summary(command, what, &pairs[1..]))
}

fn summary(command: &str, what: String, pairs: &[(f64, f64)]) -> Comparison {
    let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let ratios: Vec<f64> = pairs.iter().map(|(ours, theirs)| ours / theirs).collect();
    Comparison {
        command: command.to_owned(),
        what,
        ours_tok_s: median(ours.iter().copied()),
        theirs_tok_s: median(theirs.iter().copied()),
        ratio: median(ratios.iter().copied()),
        ours,
        theirs,
        ratios,
    }
}

fn shell(command: &str) -> Command {
    let (program, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut shell = Command::new(program);
    shell.args([flag, command]);
    shell
}

/// One round of the other side.
fn theirs(command: &str, cancel: &AtomicBool) -> Result<f64, Failure> {
    let output = shell(command)
        .output()
        .map_err(|error| Failure::new(Code::Other, format!("cannot start a shell for --compare: {error}")))?;
    if cancel.load(Ordering::SeqCst) {
        return Err(Failure::interrupted());
    }
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let last = errors.trim_end().lines().last().unwrap_or("it printed nothing on stderr");
        let message = format!("--compare: {command:?} ended with {}: {last}", output.status);
        return Err(Failure::new(Code::Other, message));
    }
    match last_number(&text) {
        Some(number) if number > 0.0 => Ok(number),
        _ => {
            let last = text.trim_end().lines().last().unwrap_or("");
            let message = format!(
                "--compare: {command:?} must print tokens per second, above 0, as its last number; its last line is {last:?}"
            );
            Err(Failure::new(Code::Other, message))
        }
    }
}

/// The last number of a text. Digits behind a letter or an underscore are part of a name (`q4_0`, `i7`).
fn last_number(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (mut at, mut last) = (0, None);
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            // A name swallows the digits in it.
            let in_name = bytes[at].is_ascii_alphabetic() || bytes[at] == b'_';
            at += 1;
            while in_name && at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
                at += 1;
            }
            continue;
        }
        let start = at;
        at += digits(at);
        if bytes.get(at) == Some(&b'.') && digits(at + 1) > 0 {
            at += 1 + digits(at + 1);
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits((at + 1 + sign).min(bytes.len()));
            if exponent > 0 {
                at += 1 + sign + exponent;
            }
        }
        last = text[start..at].parse().ok().or(last);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_found() {
        for (text, expected) in [
            ("18.5", Some(18.5)),
            ("tg64 | 18.5 tok/s\n", Some(18.5)),
            ("prefill 512: 60.4, decode: 18 tok/s on q4_0\n", Some(18.0)),
            ("1 2 3.25e1 tokens", Some(32.5)),
            ("5.", Some(5.0)),
            ("7e", Some(7.0)),
            ("\"26.125\",", Some(26.125)),
            ("q4_0 i7 none", None),
            ("é 4 ü", Some(4.0)),
            ("", None),
        ] {
            assert_eq!(last_number(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_ratio_is_the_median_of_the_pairs() {
        // Both sides slow down together in the second pair.
        let comparison = summary("x", "decode".into(), &[(20.0, 10.0), (4.0, 2.0), (30.0, 10.0)]);
        assert_eq!(comparison.ratios, [2.0, 2.0, 3.0]);
        assert_eq!((comparison.ratio, comparison.ours_tok_s, comparison.theirs_tok_s), (2.0, 20.0, 10.0));
    }
}
