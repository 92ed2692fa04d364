//! Where functions begin: `.eh_frame_hdr` has the first address of each, in order, and the place of its entry in
//! `.eh_frame`, which has its length. Compilers write both for every function, symbols or not.

use super::objects::UnwindTables;

/// Encodings of pointers (Linux Standard Base, 10.5.1): 4 bytes, signed, from the pointer's own place or from that of the
/// table.
const PLACE_RELATIVE: u8 = 0x1b;
const TABLE_RELATIVE: u8 = 0x3b;
const UNSIGNED: u8 = 0x03;

/// Bytes before the entries of the table, and of one.
const HEAD: usize = 12;
const ENTRY: usize = 8;

/// Returns the first address of the function at an address that a file is linked for; `None`: no entry has it.
pub(super) fn start(tables: &UnwindTables, address: u64) -> Option<u64> {
    let (header_at, header) = tables.eh_frame_hdr.as_ref()?;
    let (frames_at, frames) = tables.eh_frame.as_ref()?;
    let header: &[u8] = header;
    let encodings = header.get(..4)?;
    if encodings != [1, PLACE_RELATIVE, UNSIGNED, TABLE_RELATIVE] {
        return None;
    }
    let entries = usize::try_from(u32_at(header, 8)?).ok()?;
    let of = |at: u32| {
        header_at
            .start
            .wrapping_add_signed(i64::from(at.cast_signed()))
    };
    let first = |entry: usize| Some(of(u32_at(header, HEAD + entry * ENTRY)?));
    let (mut low, mut high) = (0, entries.min(header.len() / ENTRY));
    while low < high {
        let middle = low + (high - low) / 2;
        match first(middle)? <= address {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    let entry = low.checked_sub(1)?;
    let start = first(entry)?;
    let frame_at = of(u32_at(header, HEAD + entry * ENTRY + 4)?);
    let frame = usize::try_from(frame_at.checked_sub(frames_at.start)?).ok()?;
    // its length, and the distance to what it shares with others, come before the function's address and length
    let begin = u32_at(frames, frame.checked_add(8)?)?;
    let begin_at = frame_at.wrapping_add(8);
    if begin_at.wrapping_add_signed(i64::from(begin.cast_signed())) != start {
        return None;
    }
    let length = u64::from(u32_at(frames, frame.checked_add(12)?)?);
    (address - start < length).then_some(start)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use object::{Object as _, ObjectSymbol as _};

    use super::super::objects::Object;
    use super::*;

    /// Every function of this program that has a length is found at its first byte and at its last, and begins where its
    /// symbol says.
    #[test]
    fn functions_begin_where_their_symbols_say() {
        let path = std::env::current_exe().expect("a program");
        let bytes = std::fs::read(&path).expect("its file");
        let elf = object::File::parse(&*bytes).expect("an ELF file");
        let object = Object::from_file("own", File::open(path).expect("its file"));
        let tables = object.tables.expect("its tables");
        let own = "functions_begin_where_their_symbols_say";
        let mut found = 0;
        for symbol in elf.symbols().filter(|it| it.size() > 0) {
            if !symbol.name().is_ok_and(|name| name.contains(own)) {
                continue;
            }
            let at = symbol.address();
            for address in [at, at + symbol.size() - 1] {
                if let Some(start) = start(&tables, address) {
                    assert_eq!(start, at);
                    found += 1;
                }
            }
        }
        assert!(found > 0);
        assert_eq!(start(&tables, 0), None);
        assert_eq!(start(&tables, u64::MAX), None);
    }
}
