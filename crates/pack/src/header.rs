//! The first 128 bytes: enough to find the manifest and to know that nothing is missing.
//!
//! All fields are little endian. The checksum covers the header itself, so that a flipped bit is told apart from a pack of
//! another version; the manifest's hash covers the manifest, whose hashes cover everything else.

use crate::error::{PackError, shown};
use crate::layout::{DATA_OFFSET, HEADER_BYTES, MANIFEST_LIMIT, PAGE, SMALL_ALIGNMENT};
use crate::{FORMAT_VERSION, hash};

/// The first eight bytes of every pack.
pub const MAGIC: [u8; 8] = *b"RAWLOOP\0";
/// Offset of the header's own checksum: the first 8 bytes of the sha-256 of the bytes before it.
const CHECKSUM_AT: usize = 120;
/// End of the fields; the bytes up to the checksum are zero.
const FIELDS_END: usize = 80;

/// The fields that vary between packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole file, a multiple of 16 KiB.
    pub file_bytes: u64,
    /// Offset of the manifest, a multiple of 256.
    pub manifest_offset: u64,
    /// Bytes of the manifest, without the zeros that fill up the file.
    pub manifest_bytes: u64,
    /// SHA-256 of the manifest.
    pub manifest_sha256: [u8; 32],
}

impl Header {
    /// The 128 bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.file_bytes.to_le_bytes());
        out[24..32].copy_from_slice(&self.manifest_offset.to_le_bytes());
        out[32..40].copy_from_slice(&self.manifest_bytes.to_le_bytes());
        out[40..72].copy_from_slice(&self.manifest_sha256);
        out[72..80].copy_from_slice(&DATA_OFFSET.to_le_bytes());
        let checksum = checksum(&out);
        out[CHECKSUM_AT..].copy_from_slice(&checksum);
        out
    }

    /// Reads the header of a file of which `bytes` is all, or at least the start, and `file_bytes` the true length.
    /// Every field is checked against that length, so the manifest's range is safe to slice.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn decode(bytes: &[u8], file_bytes: u64, file: &str) -> Result<Header, PackError> {
        // A file of eight other bytes is "not a pack" rather than "too short": more likely a wrong path than a damage.
        if bytes.len() >= MAGIC.len() && bytes[..8] != MAGIC {
            let found = bytes[..8].escape_ascii().to_string();
            return Err(PackError::Magic { file: file.into(), found });
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            let expected = format!("at least {HEADER_BYTES}");
            return Err(PackError::Length { file: file.into(), found: file_bytes, expected });
        };
        let version = u32::from_le_bytes(field(header, 8));
        if version != FORMAT_VERSION {
            return Err(PackError::Version { file: file.into(), found: version, expected: FORMAT_VERSION });
        }
        let refuse = |field, found: String, expected: String| {
            Err(PackError::Header { file: file.into(), field, found, expected })
        };
        let stored: [u8; 8] = field(header, CHECKSUM_AT);
        let computed = checksum(header);
        if stored != computed {
            return refuse("checksum", hash::hex(&stored), hash::hex(&computed));
        }
        let number = |at| u64::from_le_bytes(field(header, at));
        let header_bytes = u32::from_le_bytes(field(header, 12));
        if header_bytes as usize != HEADER_BYTES {
            return refuse("header length", header_bytes.to_string(), HEADER_BYTES.to_string());
        }
        if number(72) != DATA_OFFSET {
            return refuse("data offset", number(72).to_string(), DATA_OFFSET.to_string());
        }
        if header[FIELDS_END..CHECKSUM_AT].iter().any(|&byte| byte != 0) {
            let found = shown(&header[FIELDS_END..CHECKSUM_AT].escape_ascii().to_string());
            return refuse("reserved bytes", found, "zeros".into());
        }
        let out = Header {
            file_bytes: number(16),
            manifest_offset: number(24),
            manifest_bytes: number(32),
            manifest_sha256: field(header, 40),
        };
        if out.file_bytes != file_bytes {
            let expected = out.file_bytes.to_string();
            return Err(PackError::Length { file: file.into(), found: file_bytes, expected });
        }
        if !file_bytes.is_multiple_of(PAGE) {
            return refuse("file length", file_bytes.to_string(), format!("a multiple of {PAGE}"));
        }
        if out.manifest_bytes == 0 || out.manifest_bytes > MANIFEST_LIMIT {
            return refuse(
                "manifest length",
                out.manifest_bytes.to_string(),
                format!("1 to {MANIFEST_LIMIT}"),
            );
        }
        let end = out.manifest_offset.checked_add(out.manifest_bytes);
        let inside = out.manifest_offset >= DATA_OFFSET && end.is_some_and(|end| end <= file_bytes);
        if !inside || !out.manifest_offset.is_multiple_of(SMALL_ALIGNMENT) {
            let expected = format!(
                "a multiple of {SMALL_ALIGNMENT} from {DATA_OFFSET} with room for {} bytes before {file_bytes}",
                out.manifest_bytes
            );
            return refuse("manifest offset", out.manifest_offset.to_string(), expected);
        }
        Ok(out)
    }
}

fn checksum(header: &[u8; HEADER_BYTES]) -> [u8; 8] {
    field(&hash::sha256(&header[..CHECKSUM_AT]), 0)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid() -> Header {
        Header { file_bytes: 49152, manifest_offset: 32768, manifest_bytes: 100, manifest_sha256: [7; 32] }
    }

    fn refusal(header: Header, file_bytes: u64) -> String {
        Header::decode(&header.encode(), file_bytes, "a.rlp").unwrap_err().to_string()
    }

    #[test]
    fn decode_is_the_inverse_of_encode() {
        assert_eq!(Header::decode(&valid().encode(), 49152, "a.rlp").unwrap(), valid());
    }

    #[test]
    fn every_field_out_of_bounds_is_named() {
        let v = valid();
        assert!(refusal(v, 49151).contains("49151 bytes long, expected 49152"));
        assert!(refusal(Header { file_bytes: 40000, ..v }, 40000).contains("file length is 40000"));
        assert!(refusal(Header { manifest_bytes: 0, ..v }, 49152).contains("manifest length is 0"));
        assert!(refusal(Header { manifest_bytes: u64::MAX, ..v }, 49152).contains("manifest length"));
        for manifest_offset in [0, 32769, 49152, u64::MAX - 255] {
            assert!(refusal(Header { manifest_offset, ..v }, 49152).contains("manifest offset"));
        }
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = valid().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bytes, 49152, "a.rlp").is_err(), "bit {bit}");
        }
    }

    #[test]
    fn short_files_and_other_files_are_told_apart() {
        let bytes = valid().encode();
        for length in 0..HEADER_BYTES {
            let error = Header::decode(&bytes[..length], length as u64, "a.rlp").unwrap_err();
            assert!(matches!(error, PackError::Length { .. }), "{length}: {error}");
        }
        let error = Header::decode(b"GGUF\x03\0\0\0", 8, "a.rlp").unwrap_err();
        assert!(error.to_string().contains("GGUF"), "{error}");
    }
}
