//! USDT notes of ELF files (section `.note.stapsdt`): which probes a file has, and where each finds
//! its arguments. Only the parts of a file that hold them are read.

use std::fs::File;
use std::path::Path;

use object::Endianness;
use object::elf::{FileHeader64, NoteType};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};

/// `NT_STAPSDT` (SystemTap, `UserSpaceProbeImplementation`).
const NOTE_TYPE: NoteType = NoteType(3);
const NOTE_OWNER: &[u8] = b"stapsdt";
const NOTE_SECTION: &[u8] = b".note.stapsdt";
/// A note begins with the addresses of probe, base and semaphore.
const ADDRESSES_BYTES: usize = 3 * 8;

/// One place of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) provider: String,
    pub(crate) name: String,
    /// Of each argument its size, negative if it is signed, and where it is: `-4@%eax 8@$1`.
    pub(crate) arguments: String,
}

/// Sections and notes of a program.
#[derive(Debug, Default)]
pub(crate) struct Elf {
    pub(crate) notes: Vec<Note>,
    /// The dynamic loader that it asks for.
    pub(crate) interpreter: Option<String>,
}

impl Elf {
    /// Reads a 64-bit ELF file of this machine's byte order.
    ///
    /// # Errors
    /// When the file cannot be read or is no such file, in words.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let cache = ReadCache::new(file);
        Self::parse(&cache).map_err(|error| format!("it is not a 64-bit ELF file: {error}"))
    }

    /// Reads the USDT notes of an ELF file.
    fn parse<'a>(data: impl ReadRef<'a>) -> object::Result<Self> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let mut elf = Self::default();
        for segment in header.program_headers(endian, data)? {
            if let Some(path) = segment.interpreter(endian, data)? {
                elf.interpreter = Some(String::from_utf8_lossy(path).into_owned());
            }
        }
        let sections = header.sections(endian, data)?;
        for section in sections.iter() {
            if sections.section_name(endian, section)? != NOTE_SECTION {
                continue;
            }
            let Some(mut notes) = section.notes(endian, data)? else {
                continue;
            };
            while let Some(note) = notes.next()? {
                if note.n_type(endian) == NOTE_TYPE && note.name() == NOTE_OWNER {
                    elf.notes.extend(describe(note.desc()));
                }
            }
        }
        Ok(elf)
    }
}

/// Reads a note: three addresses, and three texts that end with a zero.
fn describe(bytes: &[u8]) -> Option<Note> {
    let mut texts = bytes.get(ADDRESSES_BYTES..)?.split(|byte| *byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    Some(Note {
        provider: text()?,
        name: text()?,
        arguments: text()?,
    })
}

impl Note {
    /// Returns the place of each argument, as the note has it.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        // AArch64 writes `8@[sp, 16]`: a blank within brackets ends nothing.
        let mut depth = 0;
        let is_between = move |c: char| {
            match c {
                '[' | '(' => depth += 1,
                ']' | ')' => depth -= 1,
                _ => {}
            }
            depth == 0 && c == ' '
        };
        self.arguments
            .split(is_between)
            .filter(|place| !place.is_empty())
    }

    /// Returns whether an argument is signed; `None` without it.
    pub(crate) fn is_signed(&self, index: usize) -> Option<bool> {
        self.places().nth(index).map(|place| place.starts_with('-'))
    }

    /// Returns the value of an argument that is a constant.
    pub(crate) fn constant(&self, index: usize) -> Option<i64> {
        let (_, place) = self.places().nth(index)?.split_once('@')?;
        place.strip_prefix('$').unwrap_or(place).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a note with these arguments.
    fn note(arguments: &str) -> Note {
        let mut bytes = vec![0; ADDRESSES_BYTES];
        bytes.extend(format!("app\0request\0{arguments}\0").bytes());
        describe(&bytes).unwrap()
    }

    #[test]
    fn arguments_are_separated() {
        let note = note("-4@%eax 8@$17 -8@-1204(%rbp) 1@-96(%rbp,%rax,8) 4@[sp, 96] -2@$-9");
        assert_eq!(
            (note.provider.as_str(), note.name.as_str()),
            ("app", "request")
        );
        let signed: Vec<_> = (0..7).map(|index| note.is_signed(index)).collect();
        let expected = [true, false, true, false, false, true].map(Some);
        assert_eq!(signed[..6], expected);
        assert_eq!(signed[6], None);
        assert_eq!((note.constant(1), note.constant(5)), (Some(17), Some(-9)));
        assert_eq!((note.constant(0), note.constant(2)), (None, None));
    }

    #[test]
    fn a_probe_without_arguments_has_none() {
        assert_eq!(note("").places().count(), 0);
        assert_eq!(describe(&[0; 20]), None);
        assert_eq!(describe(b"addresses of 24 bytes...app\0request"), None);
    }

    #[test]
    fn other_files_are_no_programs() {
        let why = Elf::read(Path::new("/proc/self/status")).unwrap_err();
        assert!(why.contains("not a 64-bit ELF file"), "{why}");
        assert!(Elf::read(Path::new("/none")).is_err());
        let own = Elf::read(Path::new("/proc/self/exe")).unwrap();
        assert!(own.interpreter.is_some_and(|path| path.contains("ld")));
    }
}
