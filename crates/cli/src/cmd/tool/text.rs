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
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_read_otherwise_is_quoted() {
        let words = ["ls", "-l", "a b", "", "it's", "$(rm x); `y`"].map(str::to_owned);
        assert_eq!(as_typed(&words), r"ls -l 'a b' '' 'it'\''s' '$(rm x); `y`'");
    }
}
