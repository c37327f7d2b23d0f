//! A command as a person would type it. It is shown, never run.

/// Words with quotes where a shell would need them.
pub fn as_typed(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if !word.contains(hides) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let spelled = |c: char| match c {
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        '\'' | '\\' => format!("\\{c}"),
        _ if hides(c) => format!("\\U{:08x}", u32::from(c)),
        _ => c.to_string(),
    };
    format!("$'{}'", word.chars().map(spelled).collect::<String>())
}

/// Whether a character could make a line look like another one: controls, line breaks, and what changes direction or has no width.
fn hides(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_read_otherwise_is_quoted() {
        let words = ["ls", "-l", "a b", "", "it's", "$(rm x); `y`"].map(str::to_owned);
        assert_eq!(as_typed(&words), r"ls -l 'a b' '' 'it'\''s' '$(rm x); `y`'");
    }

    #[test]
    fn no_word_makes_a_second_line_or_turns_the_direction() {
        let words = ["rm", "x\nadd wants to run: ls", "a\u{202e}b", "t\tab's"].map(str::to_owned);
        let typed = as_typed(&words);
        assert_eq!(typed, r"rm $'x\nadd wants to run: ls' $'a\U0000202eb' $'t\tab\'s'");
        assert!(!typed.contains(hides));
    }
}
