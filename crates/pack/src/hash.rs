//! SHA-256 and its text form: 64 lower-case hexadecimal digits.

use sha2::{Digest, Sha256};

/// Hash of a whole byte string.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Whether a text is a hash in the form [`hex`] gives.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_nothing_is_the_published_one() {
        let text = hex(&sha256(b""));
        assert_eq!(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert!(is_sha256(&text));
        assert!(!is_sha256(&text.to_uppercase()));
        assert!(!is_sha256(&text[1..]));
    }
}
