//! A command as a person would type it. It is shown, never run.

/// Characters of a word that are shown at its begin and at its end where not all of it is.
const BEGIN: usize = 160;
const END: usize = 40;

/// Words with quotes where a shell would need them.
pub fn as_typed(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The same with the middle of long words left out, or nothing where there is no long word.
pub fn shortened(words: &[String]) -> Option<String> {
    let is_long = |word: &String| word.chars().nth(BEGIN + END).is_some();
    if !words.iter().any(is_long) {
        return None;
    }
    Some(words.iter().map(|word| brief(word)).collect::<Vec<_>>().join(" "))
}

/// A word with what is left out of its middle counted outside of the quotes, where no word can say it.
fn brief(word: &str) -> String {
    let count = word.chars().count();
    if count <= BEGIN + END {
        return quoted(word);
    }
    let begin: String = word.chars().take(BEGIN).collect();
    let end: String = word.chars().skip(count - END).collect();
    format!("{} [{} more characters] {}", quoted(&begin), count - BEGIN - END, quoted(&end))
}

/// A text on one line of bearable length, for a person to see what it is.
pub fn on_one_line(text: &str) -> String {
    let escaped = |c: char| match c {
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        _ if hides(c) => format!("\\U{:08x}", u32::from(c)),
        _ => c.to_string(),
    };
    let most = 2 * BEGIN;
    let line: String = text.chars().take(most).map(escaped).collect();
    match text.chars().count().saturating_sub(most) {
        0 => line,
        left => format!("{line} [{left} more characters]"),
    }
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
    fn long_words_are_shown_by_their_ends_and_counted() {
        let word = format!("{}{}{}", "a".repeat(BEGIN), "\u{1b}[2K".repeat(100), "z".repeat(END));
        let words = ["rm".to_owned(), word];
        let short = shortened(&words).unwrap();
        assert_eq!(short, format!("rm {} [400 more characters] {}", "a".repeat(BEGIN), "z".repeat(END)));
        assert_eq!(shortened(&["a".repeat(BEGIN + END), String::new()]), None);
        assert!(as_typed(&words).contains(r"\U0000001b[2K"), "all of it can be seen");
        assert_eq!(on_one_line("a\n\u{1b}b\u{202e}"), r"a\n\U0000001bb\U0000202e");
        assert!(on_one_line(&"x".repeat(1000)).ends_with("x [680 more characters]"));
    }

    #[test]
    fn no_word_makes_a_second_line_or_turns_the_direction() {
        let words = ["rm", "x\nadd wants to run: ls", "a\u{202e}b", "t\tab's"].map(str::to_owned);
        let typed = as_typed(&words);
        assert_eq!(typed, r"rm $'x\nadd wants to run: ls' $'a\U0000202eb' $'t\tab\'s'");
        assert!(!typed.contains(hides));
    }
}
