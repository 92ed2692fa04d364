//! Takes out of unwind tables (`.eh_frame`) what they say of signed return addresses, for AArch64 (pointer authentication).
//! framehop reads tables of AArch64 as those of any architecture. So it refuses each function that signs. The unwinder takes the
//! signature off every return address itself: without those instructions the tables say the same.

use std::collections::HashMap;

/// `DW_CFA_AARCH64_negate_ra_state` and `DW_CFA_AARCH64_negate_ra_state_with_pc` (DWARF for the Arm 64-bit Architecture).
const NEGATE_STATE: u8 = 0x2d;
const NEGATE_STATE_WITH_PC: u8 = 0x2c;
/// `DW_CFA_nop`.
const NO_OPERATION: u8 = 0;

/// Letters of an augmentation without data (the same document): the second key signs; the stack has memory tags.
const SECOND_KEY: u8 = b'B';
const TAGGED_STACK: u8 = b'G';
/// Another one without data, of a signal's frame, which does not change how a caller is found.
const SIGNAL_FRAME: u8 = b'S';

/// Letters of one augmentation at most: each that is known, once.
const LETTERS_MOST: usize = 7;

/// Returns a copy of the tables without signatures; `None`: there are none. Each byte is read a few times at most,
/// whatever a file has.
pub(super) fn without_signatures(tables: &[u8]) -> Option<Vec<u8>> {
    let mut copy = None;
    let mut common = HashMap::new();
    let mut at = 0;
    while let Some(entry) = TableEntry::read(tables, at) {
        at = entry.content.end;
        if entry.common_at.is_none()
            && let Some(read) = CommonEntry::read(entry.content)
        {
            common.insert(entry.start, read);
        }
        // functions come after it
        let Some(known) = common.get(&entry.common_at.unwrap_or(entry.start)) else {
            continue;
        };
        let (content, mut places) = match entry.common_at {
            Some(_) => (known.skip_head(entry.content), Vec::new()),
            None => (Some(known.instructions), known.letters.clone()),
        };
        if let Some(content) = content {
            places.extend(signature_instructions(content, known.pointer));
        }
        for (place, byte) in places {
            copy.get_or_insert_with(|| tables.to_vec())[place] = byte;
        }
    }
    copy
}

/// Bytes of the tables that are still to be read.
#[derive(Debug, Clone, Copy)]
struct TableBytes<'a> {
    tables: &'a [u8],
    at: usize,
    end: usize,
}

/// An entry of the tables: of a function (FDE), or what several functions have in common (CIE).
struct TableEntry<'a> {
    start: usize,
    /// Where the common entry of a function is; `None`: this is one.
    common_at: Option<usize>,
    content: TableBytes<'a>,
}

/// The parts that functions have in common.
struct CommonEntry<'a> {
    /// How addresses of functions are written.
    pointer: PointerForm,
    /// Whether an entry of a function has further data, after their length.
    has_data: bool,
    /// Letters that the reader does not know, with those that take their place.
    letters: Vec<(usize, u8)>,
    instructions: TableBytes<'a>,
}

/// How an address is written (Linux Standard Base, 10.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PointerForm {
    Bytes(usize),
    Leb128,
}

impl<'a> TableEntry<'a> {
    /// Reads the first entry from a place on. Where files were linked, marks of an end may lie in between.
    fn read(tables: &'a [u8], mut start: usize) -> Option<Self> {
        loop {
            let mut bytes = TableBytes {
                tables,
                at: start,
                end: tables.len(),
            };
            let length = match bytes.u32()? {
                u32::MAX => bytes.u64()?,
                length => u64::from(length),
            };
            let content = bytes.take(length)?;
            let mut bytes = content;
            match bytes.u32() {
                // an end, or too short for an entry
                None => start = content.end,
                Some(distance) => {
                    let common_at = content.at.wrapping_sub(distance as usize);
                    return Some(Self {
                        start,
                        common_at: (distance != 0).then_some(common_at),
                        content: bytes,
                    });
                }
            }
        }
    }
}

impl<'a> CommonEntry<'a> {
    /// Reads the content of such an entry; `None`: it has what is not known.
    fn read(mut bytes: TableBytes<'a>) -> Option<Self> {
        let version = bytes.u8()?;
        let letters_at = bytes.at;
        while bytes.u8()? != 0 {
            if bytes.at - letters_at > LETTERS_MOST {
                return None;
            }
        }
        let letters = letters_at..bytes.at - 1;
        if version >= 4 {
            // sizes of addresses and of segments
            bytes.skip(2)?;
        }
        // units of code and of data
        bytes.leb128()?;
        bytes.leb128()?;
        match version {
            1 => bytes.skip(1)?,
            _ => bytes.leb128().map(drop)?,
        }
        let mut common = Self {
            pointer: PointerForm::Bytes(size_of::<u64>()),
            has_data: bytes.tables.get(letters.start) == Some(&b'z'),
            letters: Vec::new(),
            instructions: bytes,
        };
        if common.has_data {
            common.instructions.skip_block()?;
            bytes.leb128()?;
        }
        for place in letters {
            common.read_letter(place, &mut bytes)?;
        }
        Some(common)
    }

    /// Reads the data that one letter of the augmentation string announces.
    fn read_letter(&mut self, place: usize, data: &mut TableBytes<'a>) -> Option<()> {
        match *data.tables.get(place)? {
            b'z' | SIGNAL_FRAME => {}
            SECOND_KEY | TAGGED_STACK => self.letters.push((place, SIGNAL_FRAME)),
            b'L' => data.skip(1)?,
            b'P' => {
                let pointer = PointerForm::from_encoding(data.u8()?)?;
                data.skip_pointer(pointer)?;
            }
            b'R' => self.pointer = PointerForm::from_encoding(data.u8()?)?,
            _ => return None,
        }
        Some(())
    }

    /// Skips what comes before the instructions of a function: its first address, its length, and further data.
    fn skip_head(&self, mut content: TableBytes<'a>) -> Option<TableBytes<'a>> {
        content.skip_pointer(self.pointer)?;
        content.skip_pointer(self.pointer)?;
        if self.has_data {
            content.skip_block()?;
        }
        Some(content)
    }
}

impl PointerForm {
    /// Returns the form that the low half of an encoding names; `None`: it has another meaning.
    fn from_encoding(encoding: u8) -> Option<Self> {
        match encoding & 0x0f {
            0x01 | 0x09 => Some(Self::Leb128),
            0x02 | 0x0a => Some(Self::Bytes(2)),
            0x03 | 0x0b => Some(Self::Bytes(4)),
            0x00 | 0x04 | 0x0c => Some(Self::Bytes(8)),
            _ => None,
        }
    }
}

/// Returns the places of instructions about signatures, with what takes their place. It ends before the first instruction
/// that is not known, as does who unwinds by them.
fn signature_instructions(mut bytes: TableBytes<'_>, pointer: PointerForm) -> Vec<(usize, u8)> {
    let mut found = Vec::new();
    while bytes.at < bytes.end {
        let place = bytes.at;
        match skip_instruction(&mut bytes, pointer) {
            Some(NEGATE_STATE | NEGATE_STATE_WITH_PC) => found.push((place, NO_OPERATION)),
            Some(_) => {}
            None => break,
        }
    }
    found
}

/// Skips an instruction and its operands (DWARF 5, 7.24; Linux Standard Base, 10.6.1.3); returns the instruction.
fn skip_instruction(bytes: &mut TableBytes<'_>, pointer: PointerForm) -> Option<u8> {
    let instruction = bytes.u8()?;
    match instruction {
        // advance_loc and restore have their operand in the low bits, and offset has its first one there
        0x40..=0x7f | 0xc0..=0xff => {}
        0x80..=0xbf => bytes.leb128().map(drop)?,
        // nop, remember_state, restore_state
        0x00 | 0x0a | 0x0b | NEGATE_STATE | NEGATE_STATE_WITH_PC => {}
        // set_loc
        0x01 => bytes.skip_pointer(pointer)?,
        // advance_loc1, 2 and 4; MIPS_advance_loc8
        0x02 => bytes.skip(1)?,
        0x03 => bytes.skip(2)?,
        0x04 => bytes.skip(4)?,
        0x1d => bytes.skip(8)?,
        // restore_extended, undefined, same_value, def_cfa_register, def_cfa_offset, def_cfa_offset_sf, GNU_args_size
        0x06..=0x08 | 0x0d | 0x0e | 0x13 | 0x2e => bytes.leb128().map(drop)?,
        // offset_extended, register, def_cfa, offset_extended_sf, def_cfa_sf, val_offset, val_offset_sf,
        // GNU_negative_offset_extended
        0x05 | 0x09 | 0x0c | 0x11 | 0x12 | 0x14 | 0x15 | 0x2f => {
            bytes.leb128()?;
            bytes.leb128()?;
        }
        // def_cfa_expression
        0x0f => bytes.skip_block()?,
        // expression, val_expression
        0x10 | 0x16 => {
            bytes.leb128()?;
            bytes.skip_block()?;
        }
        _ => return None,
    }
    Some(instruction)
}

impl TableBytes<'_> {
    /// Goes on by so many bytes: all reads do so.
    fn skip(&mut self, count: usize) -> Option<()> {
        #[cfg(test)]
        tests::STEPS.with(|steps| steps.set(steps.get() + 1));
        let at = self.at.checked_add(count)?;
        if at > self.end {
            return None;
        }
        self.at = at;
        Some(())
    }

    fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let from = self.at;
        self.skip(COUNT)?;
        self.tables.get(from..self.at)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a number in groups of seven bits (LEB128); bits beyond 64 do not count. Signed ones are as long.
    fn leb128(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.u8()?;
            if shift < u64::BITS {
                value |= u64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    /// Returns the next bytes, so many.
    fn take(&self, count: u64) -> Option<Self> {
        let mut rest = *self;
        rest.skip(usize::try_from(count).ok()?)?;
        Some(Self {
            end: rest.at,
            ..*self
        })
    }

    /// Skips bytes after their number.
    fn skip_block(&mut self) -> Option<()> {
        let length = self.leb128()?;
        self.skip(usize::try_from(length).ok()?)
    }

    fn skip_pointer(&mut self, pointer: PointerForm) -> Option<()> {
        match pointer {
            PointerForm::Bytes(count) => self.skip(count),
            PointerForm::Leb128 => self.leb128().map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
    use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
    use proptest::prelude::*;

    use super::*;

    thread_local! {
        /// Reads of this thread so far.
        pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    /// Units and the register of return addresses, and the length of what follows: the form of addresses, 4 bytes.
    const UNITS: [u8; 5] = [4, 0x78, 30, 1, 0x03];
    /// The caller's frame begins at the stack pointer.
    const CFA_IS_SP: [u8; 3] = [0x0c, 31, 0];

    /// Appends an entry, and returns its place.
    fn add_entry(tables: &mut Vec<u8>, content: &[&[u8]]) -> usize {
        let (start, content) = (tables.len(), content.concat());
        tables.extend((content.len() as u32).to_le_bytes());
        tables.extend(content);
        start
    }

    /// Appends what functions have in common.
    fn add_common(tables: &mut Vec<u8>, letters: &[u8]) -> usize {
        add_entry(tables, &[&[0; 4], &[1], letters, &[0], &UNITS, &CFA_IS_SP])
    }

    /// Appends the entry of a function of 64 bytes.
    fn add_function(tables: &mut Vec<u8>, common: usize, address: u32, instructions: &[u8]) {
        let distance = (tables.len() + 4 - common) as u32;
        let (head, length) = (distance.to_le_bytes(), 64_u32.to_le_bytes());
        add_entry(
            tables,
            &[&head, &address.to_le_bytes(), &length, &[0], instructions],
        );
    }

    /// Every form of operands may have those bytes, too.
    #[test]
    fn operands_stay_as_they_are() {
        let operands: [&[u8]; 28] = [
            &[0x41, 0xc1],
            &[0x9e, 0x2d],
            &[0x9e, 0xad, 0x2d],
            &[0x00, 0x0a, 0x0b],
            &[0x01, 0x2d, 0x2d, 0x2d, 0x2d],
            &[0x02, 0x2d],
            &[0x03, 0x2d, 0x2d],
            &[0x04, 0x2d, 0x2d, 0x2d, 0x2d],
            &[0x1d, 0x2d, 0x2d, 0x2d, 0x2d, 0x2d, 0x2d, 0x2d, 0x2d],
            &[0x05, 0x2d, 0xac, 0x2d],
            &[0x06, 0x2d],
            &[0x07, 0xad, 0x2d],
            &[0x08, 0x2d],
            &[0x09, 0x2d, 0x2d],
            &[0x0c, 0x2d, 0x2d],
            &[0x0d, 0x2d],
            &[0x0e, 0x2d],
            &[0x0f, 3, 0x2d, 0x2c, 0x2d],
            &[0x10, 0x2d, 2, 0x2d, 0x2d],
            &[0x11, 0x2d, 0x2d],
            &[0x12, 0x2d, 0x2d],
            &[0x13, 0x2d],
            &[0x14, 0x2d, 0x2d],
            &[0x15, 0x2d, 0x2d],
            &[0x16, 0x2d, 1, 0x2d],
            &[0x2e, 0x2d],
            &[0x2f, 0x2d, 0x2d],
            &[0x0f, 0],
        ];
        for operands in operands {
            let function = |signature: u8| {
                let mut tables = Vec::new();
                let common = add_common(&mut tables, b"zR");
                let instructions = [operands, &[signature], operands].concat();
                add_function(&mut tables, common, 0x1_0000, &instructions);
                tables
            };
            for signature in [NEGATE_STATE, NEGATE_STATE_WITH_PC] {
                let cleaned = without_signatures(&function(signature));
                assert_eq!(cleaned, Some(function(NO_OPERATION)), "{operands:x?}");
            }
            assert_eq!(without_signatures(&function(NO_OPERATION)), None);
        }
    }

    /// Functions may lie behind an end of other tables, and their lengths may have 8 bytes.
    #[test]
    fn entries_behind_others_are_found() {
        let tables = |signature: u8| {
            let mut tables = vec![0; 4];
            add_entry(&mut tables, &[&[0x2d, 0x2d]]);
            let common = add_common(&mut tables, b"zRS");
            tables.extend(u32::MAX.to_le_bytes());
            let mut rest = Vec::new();
            let distance = (tables.len() + 8 - common) as u32;
            let (length, words) = (13_u64 + 1, [distance, 0x2d2d_2d2d, 0x2d2d_2d2d]);
            rest.extend(length.to_le_bytes());
            rest.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            rest.extend([0, signature]);
            tables.extend(rest);
            // its common entry is not there
            add_function(&mut tables, common + 1, 0x1_0000, &[0x2d]);
            tables
        };
        let cleaned = without_signatures(&tables(NEGATE_STATE));
        assert_eq!(cleaned, Some(tables(NO_OPERATION)));
    }

    /// Each function names another place, from where runs of ends or of letters go on to the end of a large entry.
    #[test]
    fn reads_are_as_many_as_bytes_whatever_functions_name() {
        const RUN: usize = 1 << 14;
        const FUNCTIONS: usize = 1 << 12;
        for filler in [0, SIGNAL_FRAME] {
            let mut tables = Vec::new();
            let run = vec![filler; RUN];
            let letters_at = add_entry(&mut tables, &[&[0; 4], &[1], &run]) + 9;
            for number in 0..FUNCTIONS {
                add_function(
                    &mut tables,
                    letters_at + 4 * number,
                    0x1_0000,
                    &[NEGATE_STATE],
                );
            }
            let before = STEPS.get();
            assert_eq!(without_signatures(&tables), None);
            let steps = STEPS.get() - before;
            assert!(
                steps <= tables.len(),
                "{steps} reads of {} bytes",
                tables.len()
            );
        }
    }

    /// Functions keep their signatures if their common entry has more letters than there are.
    #[test]
    fn long_augmentation_is_unknown() {
        for (letters, is_known) in [(b"zRSSSSS".as_slice(), true), (b"zRSSSSSS", false)] {
            let mut tables = Vec::new();
            let common = add_common(&mut tables, letters);
            add_function(&mut tables, common, 0x1_0000, &[NEGATE_STATE]);
            assert_eq!(without_signatures(&tables).is_some(), is_known);
        }
    }

    /// Returns the callers of a signed function with a frame of 48 bytes. It has called another: the link register leads
    /// into itself. Its caller has one of 64 bytes; the next one is the first of the thread.
    fn callers(tables: &[u8]) -> Vec<u64> {
        let sections = ExplicitModuleSectionInfo {
            eh_frame_svma: Some(0x8_0000..0x8_0000 + tables.len() as u64),
            eh_frame: Some(tables),
            ..ExplicitModuleSectionInfo::default()
        };
        let mut unwinder: UnwinderAarch64<&[u8]> = UnwinderAarch64::new();
        unwinder.add_module(Module::new(
            "program".to_owned(),
            0x1_0000..0x2_0000,
            0,
            sections,
        ));
        let mask = PtrAuthMask::from_max_known_address(0xffff_ffff_ffff);
        let mut registers =
            UnwindRegsAarch64::new_with_ptr_auth_mask(mask, 0x1_0024, 0x7000, 0x7000);
        let mut read = |at: u64| match at {
            0x7000 | 0x7030 => Ok(0x7fff_0000),
            0x7008 => Ok(0x0012_0000_0001_1010),
            0x7038 => Ok(0x1_2010),
            _ => Err(()),
        };
        let mut callers = Vec::new();
        let mut address = FrameAddress::InstructionPointer(0x1_0020);
        let mut cache = CacheAarch64::default();
        while callers.len() < 5
            && let Ok(Some(caller)) =
                unwinder.unwind_frame(address, &mut registers, &mut cache, &mut read)
        {
            callers.push(caller);
            address = FrameAddress::from_return_address(caller).expect("an address");
        }
        callers
    }

    /// Makes the tables of that program.
    fn signed_program(letters: &[u8]) -> Vec<u8> {
        let mut tables = Vec::new();
        let common = add_common(&mut tables, letters);
        let signed = [0x41, NEGATE_STATE, 0x41, 0x0e, 48, 0x9d, 6, 0x9e, 5];
        add_function(&mut tables, common, 0x1_0000, &signed);
        add_function(
            &mut tables,
            common,
            0x1_1000,
            &[0x41, 0x0e, 64, 0x9d, 8, 0x9e, 7],
        );
        add_function(&mut tables, common, 0x1_2000, &[0x07, 30]);
        tables
    }

    #[test]
    fn callers_of_a_signed_function_are_found() {
        for letters in [b"zR".as_slice(), b"zRB", b"zRBG"] {
            let tables = signed_program(letters);
            let cleaned = without_signatures(&tables).expect("a signature");
            let right = [0x1_1010, 0x1_2010];
            assert_eq!(callers(&cleaned), right, "{letters:?}");
            // why there is this module
            assert_ne!(callers(&tables), right, "{letters:?}");
        }
    }

    proptest! {
        /// Whatever a file has, nothing but those bytes changes.
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..512), at in any::<prop::sample::Index>()) {
            let mut tables = signed_program(b"zR");
            let at = at.index(tables.len());
            tables.splice(at.., bytes);
            let cleaned = without_signatures(&tables).unwrap_or_else(|| tables.clone());
            prop_assert_eq!(cleaned.len(), tables.len());
            for (new, old) in cleaned.iter().zip(&tables) {
                let is_replaced = matches!(
                    (*old, *new),
                    (NEGATE_STATE | NEGATE_STATE_WITH_PC, NO_OPERATION)
                        | (SECOND_KEY | TAGGED_STACK, SIGNAL_FRAME)
                );
                prop_assert!(old == new || is_replaced);
            }
        }
    }
}
