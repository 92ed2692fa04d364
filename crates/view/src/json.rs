//! Writes every contract (`whylat.report/1`, `whylat.waits/1`, `whylat.messages/1` and the others) as JSON.
//! `docs/*.schema.json` describe them.

use std::io::{self, Write};

use serde::Serialize;

use crate::clean::is_unsafe;

/// Returns an answer as indented JSON without a final newline. Control characters,
/// and those that reorder text, are escaped: they occur only within strings.
pub fn json(answer: &impl Serialize) -> String {
    let mut out = Vec::new();
    write_json(answer, &mut out)
        .and_then(|()| String::from_utf8(out).map_err(io::Error::other))
        .expect("an answer is made of strings, finite numbers and maps with string keys")
}

/// Writes an answer as JSON while it is made: a million connections are gigabytes.
///
/// # Errors
///
/// Errors of `out`.
pub fn write_json(answer: &impl Serialize, out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(EscapeWriter(out), answer).map_err(io::Error::from)
}

/// Escapes the bytes that pass. Each write of `serde_json` is whole characters: a piece of a string, or
/// the syntax between strings.
struct EscapeWriter<W>(W);

impl<W: Write> Write for EscapeWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const DEL: u8 = 0x7f;
        if bytes.is_ascii() && !bytes.contains(&DEL) {
            // serde_json escapes the other control characters; a line end is its own.
            self.0.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        for c in text.chars() {
            if is_unsafe(c) && c != '\n' {
                write!(self.0, "\\u{:04x}", u32::from(c))?;
            } else {
                write!(self.0, "{c}")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let name = "a\u{1b}[31m\u{7f}\u{9b}2J\u{202e}\n\"é";
        let text = json(&[name]);
        assert_eq!(
            text,
            "[\n  \"a\\u001b[31m\\u007f\\u009b2J\\u202e\\n\\\"é\"\n]"
        );
        let back: Vec<String> = serde_json::from_str(&text).expect("JSON");
        assert_eq!(back, [name]);
    }
}
