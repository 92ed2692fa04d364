//! Texts as the interpreter has them → names of Python's functions, and numbers for their places in rows.

use std::collections::HashMap;

use table::Columns;
use table::tables::{Symbol, Symbols};

use crate::clock::monotonic_ns;
use crate::interface::PythonCode;
use crate::wire::types::{python_code_seen, python_text};

/// Object of functions of Python in rows of `stacks` and `symbols`.
pub(crate) const PYTHON: &str = "[python]";

/// Bytes between the headers of an ASCII text and of another one: 24 until Python 3.11, then 16 (`PyCompactUnicodeObject`).
const OTHER_HEADERS: [usize; 2] = [16, 24];

/// Bits of the form of a text below its kind: of versions until 3.13, and of later ones (`PyASCIIObject`).
const KIND_SHIFTS: [u32; 3] = [2, 8, 16];

/// Returns a function of a record.
pub(super) fn code(seen: &python_code_seen) -> PythonCode {
    PythonCode {
        pid: seen.pid,
        code: seen.code,
        function: text(&seen.name, &seen.name_bytes).unwrap_or_else(|| "?".to_owned()),
        file: text(&seen.file, &seen.file_bytes),
        line: seen.line,
    }
}

/// Returns a text of Python, as far as it was copied; `None` for an unknown form.
fn text(text: &python_text, bytes: &[u8]) -> Option<String> {
    let copied = bytes.get(..text.bytes as usize)?;
    let length = text.length as usize;
    let ascii = &copied[..length.min(copied.len())];
    if !ascii.is_empty() && ascii.iter().all(|byte| (0x20..0x7f).contains(byte)) {
        return String::from_utf8(ascii.to_vec()).ok();
    }
    let mut kind = KIND_SHIFTS.iter().map(|shift| text.state >> shift & 7);
    let kind = kind.find(|kind| matches!(kind, 1 | 2 | 4))? as usize;
    let decoded = OTHER_HEADERS.iter().filter_map(|header| {
        let copied = copied.get(*header..)?;
        let units = copied.chunks_exact(kind).take(length);
        let chars = units.map(|unit| {
            let mut word = [0; 4];
            word[..kind].copy_from_slice(unit);
            char::from_u32(u32::from_le_bytes(word)).filter(|c| !c.is_control())
        });
        chars.collect::<Option<String>>()
    });
    let mut decoded = decoded.filter(|it| !it.is_empty());
    decoded.next()
}

/// Numbers of functions, for the column `offset` of their rows.
#[derive(Debug, Default)]
pub(crate) struct PythonNames {
    /// By process and address of the code object.
    numbers: HashMap<(u32, u64), u64>,
    /// The first has number 1; `None`: its name is still to come.
    codes: Vec<Option<PythonCode>>,
}

impl PythonNames {
    /// Adds a function; another function at the same address gets a new number.
    pub(crate) fn add(&mut self, code: &PythonCode) {
        let number = self.number(code.pid, code.code);
        let known = &mut self.codes[number as usize - 1];
        match known {
            None => *known = Some(code.clone()),
            Some(known) if known == code => {}
            Some(_) => {
                self.codes.push(Some(code.clone()));
                let number = self.codes.len() as u64;
                self.numbers.insert((code.pid, code.code), number);
            }
        }
    }

    /// Returns the number of the function at an address.
    pub(crate) fn number(&mut self, pid: u32, code: u64) -> u64 {
        let codes = &mut self.codes;
        *self.numbers.entry((pid, code)).or_insert_with(|| {
            codes.push(None);
            codes.len() as u64
        })
    }

    /// Adds the names of all functions to `rows`.
    pub(crate) fn symbols(self, rows: &mut Symbols) {
        for (index, code) in self.codes.into_iter().enumerate() {
            let Some(code) = code else {
                continue;
            };
            rows.push(Symbol {
                time_ns: monotonic_ns(),
                object: PYTHON.to_owned(),
                build_id: None,
                offset: index as u64 + 1,
                level: 0,
                function: Some(code.function),
                source: code.file,
                line: Some(code.line),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a text of Python as the kernel program copies it.
    fn form(length: u32, bytes: usize, state: u32) -> python_text {
        python_text {
            length,
            state,
            bytes: bytes as u32,
            pad: 0,
        }
    }

    #[test]
    fn texts_of_every_kind_are_read() {
        let ascii = b"Work.burn\0";
        assert_eq!(
            text(&form(9, ascii.len(), 0), ascii).as_deref(),
            Some("Work.burn")
        );
        // compact, not ASCII: the kind above two bits, then the sign that it is compact
        let state = |kind: u32| kind << 2 | 1 << 5;
        let mut latin = vec![0; 16];
        latin.extend(b"br\xfbler\0");
        assert_eq!(
            text(&form(6, latin.len(), state(1)), &latin).as_deref(),
            Some("br\u{fb}ler")
        );
        let mut wide = vec![0; 16];
        wide.extend("\u{71c3}\u{70e7}".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(
            text(&form(2, wide.len(), state(2)), &wide).as_deref(),
            Some("\u{71c3}\u{70e7}")
        );
    }

    #[test]
    fn invalid_text_gives_no_name() {
        assert_eq!(text(&form(9, 0, 0), b""), None);
        assert_eq!(text(&form(9, 20, 0), b"short"), None);
        assert_eq!(text(&form(3, 3, 0), b"\x01\x02\x03"), None);
        assert_eq!(text(&form(u32::MAX, 3, 4), &[0xff; 3]), None);
        assert_eq!(text(&form(4, 60, 4 << 2), &[0xff; 60]), None);
    }

    /// Makes a code object of this name.
    fn function(name: &str) -> PythonCode {
        PythonCode {
            pid: 7,
            code: 0x1000,
            function: name.to_owned(),
            file: None,
            line: 3,
        }
    }

    #[test]
    fn another_function_at_the_same_address_has_another_number() {
        let mut names = PythonNames::default();
        let first = names.number(7, 0x1000);
        names.add(&function("first"));
        names.add(&function("first"));
        assert_eq!(names.number(7, 0x1000), first);
        names.add(&function("second"));
        assert_ne!(names.number(7, 0x1000), first);
        let mut rows = Symbols::default();
        names.symbols(&mut rows);
        assert_eq!(rows.len(), 2);
    }
}
