//! Base64 (RFC 4648, section 4) with padding: bytes as text for HTML.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` as base64 to `out`.
pub fn encode(bytes: &[u8], out: &mut String) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let is_padding = digit > group.len();
            let value = (bits >> (18 - 6 * digit) & 63) as usize;
            out.push(if is_padding {
                '='
            } else {
                char::from(DIGITS[value])
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn rfc_4648_vectors_are_encoded() {
        let vectors = [
            "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy",
        ];
        for (length, wanted) in vectors.into_iter().enumerate() {
            let mut out = String::new();
            encode(&b"foobar"[..length], &mut out);
            assert_eq!(out, wanted);
        }
    }
}
