//! The line below an answer: what it cost and how full the context is.

use rawloop_engine::Timings;

/// In words, short enough for one line of a terminal.
pub fn line(timings: &Timings, held: usize, context: usize) -> String {
    let Timings { tokens, prompt_tokens, reused_tokens, prefill, accepted_tokens, drafted_tokens, .. } =
        timings;
    let mut parts = vec![counted(*tokens, "token")];
    if *tokens > 1 {
        parts.push(format!("{:.1}/s", timings.decode_rate()));
    }
    parts.push(format!("first after {:.2} s", prefill.as_secs_f64()));
    parts.push(format!("prompt {prompt_tokens}, {reused_tokens} reused"));
    if *drafted_tokens > 0 {
        parts.push(format!("drafts {accepted_tokens} of {drafted_tokens}"));
    }
    parts.push(format!("context {:.0} %", 100.0 * held as f64 / context.max(1) as f64));
    parts.join(" \u{b7} ")
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_line_says_what_was_measured_and_nothing_else() {
        let mut timings = Timings {
            prompt_tokens: 140,
            reused_tokens: 96,
            tokens: 51,
            decode_tokens: 50,
            prefill: Duration::from_millis(214),
            decode: Duration::from_millis(2000),
            ..Timings::default()
        };
        assert_eq!(
            line(&timings, 191, 8192),
            "51 tokens \u{b7} 25.0/s \u{b7} first after 0.21 s \u{b7} prompt 140, 96 reused \u{b7} context 2 %"
        );
        timings.drafted_tokens = 30;
        timings.accepted_tokens = 21;
        timings.tokens = 1;
        assert_eq!(
            line(&timings, 0, 0),
            "1 token \u{b7} first after 0.21 s \u{b7} prompt 140, 96 reused \u{b7} drafts 21 of 30 \u{b7} context 0 %"
        );
    }
}
