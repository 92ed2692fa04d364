//! Files that code was mapped from. They are kept open, so that names can be resolved after the
//! program, or even the file, is gone.

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::{Deref, Range};
use std::os::unix::fs::MetadataExt as _;
use std::rc::Rc;

use memmap2::Mmap;
use object::{Architecture, Object as _, ObjectSection as _, ObjectSegment as _};

use super::mappings::{self, Mapping};
use super::signatures;

/// One file.
#[derive(Debug)]
pub(super) struct Object {
    /// Path, as the process that it was first seen in knows it.
    pub(super) path: String,
    /// In hexadecimal digits.
    pub(super) build_id: Option<String>,
    /// `None` for a name without a file, and for a file that could not be opened.
    pub(super) file: Option<File>,
    /// Its bytes.
    pub(super) data: Option<Rc<Mmap>>,
    pub(super) tables: Option<UnwindTables>,
}

/// Sections of a file that unwinding needs.
#[derive(Debug)]
pub(super) struct UnwindTables {
    /// File offsets with the addresses that they are linked for.
    segments: Vec<(Range<u64>, u64)>,
    pub(super) eh_frame: Option<(Range<u64>, Section)>,
    pub(super) eh_frame_hdr: Option<(Range<u64>, Section)>,
    pub(super) text: Option<Range<u64>>,
}

/// Bytes of a file.
#[derive(Debug, Clone)]
pub(super) enum Section {
    Mapped { data: Rc<Mmap>, range: Range<usize> },
    Changed(Rc<[u8]>),
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped { data, range } => &data[range.clone()],
            Self::Changed(bytes) => bytes,
        }
    }
}

impl Section {
    /// Returns unwind tables without what the unwinder does not know of return addresses' signatures.
    fn without_signatures(self) -> Self {
        match signatures::without_signatures(&self) {
            Some(bytes) => Self::Changed(bytes.into()),
            None => self,
        }
    }
}

/// Files by device and inode.
#[derive(Debug, Default)]
pub(super) struct Objects(HashMap<(String, u64), Rc<Object>>);

impl Objects {
    /// Opens the file of a mapping of this process, once; None for the process: by its path only.
    pub(super) fn open(&mut self, pid: Option<u32>, mapping: &Mapping) -> Rc<Object> {
        if mapping.file.1 == 0 {
            return Rc::new(Object::from_name(&mapping.name));
        }
        if let Some(known) = self.0.get(&mapping.file) {
            return Rc::clone(known);
        }
        let object = pid.and_then(|pid| Object::open(pid, mapping));
        let object = object.or_else(|| Object::open_path(pid, mapping));
        let Some(object) = object else {
            // another process may have it
            return Rc::new(Object::from_name(&mapping.name));
        };
        let object = Rc::new(object);
        self.0.insert(mapping.file.clone(), Rc::clone(&object));
        object
    }
}

impl Object {
    /// Makes an object that has no file, such as `[vdso]`.
    pub(super) fn from_name(name: &str) -> Self {
        Self {
            path: name.to_owned(),
            build_id: None,
            file: None,
            data: None,
            tables: None,
        }
    }

    /// Opens a mapped file, even if its path leads elsewhere by now. None: the process has ended, or has it no more.
    fn open(pid: u32, mapping: &Mapping) -> Option<Self> {
        let Range { start, end } = mapping.addresses;
        let file = File::open(format!("/proc/{pid}/map_files/{start:x}-{end:x}")).ok()?;
        Some(Self::from_file(&mapping.name, file))
    }

    /// Opens a file that was mapped by its path, as this process or the host knows it. None: there is another file now.
    fn open_path(pid: Option<u32>, mapping: &Mapping) -> Option<Self> {
        let name = mapping.name.as_str();
        let of_process = pid.map(|pid| format!("/proc/{pid}/root{name}"));
        let mut paths = of_process.into_iter().chain([name.to_owned()]);
        paths.find_map(|path| {
            // an open of what is no file may do something, or wait
            let found = fs::metadata(&path).ok()?;
            let is_same = found.is_file() && found.ino() == mapping.file.1;
            let file = is_same.then(|| File::open(&path)).and_then(Result::ok)?;
            let object = Self::from_file(name, file);
            let data = object.data.as_ref()?;
            (mappings::file_at(data.as_ptr() as u64).as_ref() == Some(&mapping.file))
                .then_some(object)
        })
    }

    /// Reads from an open file what unwinding needs.
    pub(super) fn from_file(name: &str, file: File) -> Self {
        let mut opened = Self::from_name(name);
        // SAFETY: the mapping is only read. Should another process cut the file short meanwhile, reading
        // beyond its end would be a fault, as it would be for the program that runs it.
        if let Ok(data) = unsafe { Mmap::map(&file) } {
            let data = Rc::new(data);
            opened.data = Some(Rc::clone(&data));
            if let Ok(elf) = object::File::parse(&**data) {
                let build_id = elf.build_id().ok().flatten();
                opened.build_id =
                    build_id.map(|id| id.iter().map(|it| format!("{it:02x}")).collect());
                opened.tables = Some(UnwindTables::from_elf(&elf, &data));
            }
        }
        opened.file = Some(file);
        opened
    }
}

impl UnwindTables {
    /// Finds the sections of an ELF file that unwinding needs.
    fn from_elf(elf: &object::File<'_>, data: &Rc<Mmap>) -> Self {
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            let (offset, bytes) = section.file_range()?;
            let end = offset.checked_add(bytes)?;
            let range = usize::try_from(offset).ok()?..usize::try_from(end).ok()?;
            data.get(range.clone())?;
            let addresses = section.address()..section.address().checked_add(section.size())?;
            Some((
                addresses,
                Section::Mapped {
                    data: Rc::clone(data),
                    range,
                },
            ))
        };
        let segments = elf.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            (offset..offset.saturating_add(bytes), segment.address())
        });
        let mut eh_frame = section(".eh_frame");
        if elf.architecture() == Architecture::Aarch64 {
            eh_frame = eh_frame.map(|(range, section)| (range, section.without_signatures()));
        }
        Self {
            segments: segments.collect(),
            eh_frame,
            eh_frame_hdr: section(".eh_frame_hdr"),
            text: section(".text").map(|(addresses, _)| addresses),
        }
    }

    /// Returns the address that the first byte of a mapping is linked for. A mapping begins with a page, a
    /// segment anywhere in one; two segments may share it.
    pub(super) fn linked_address(&self, mapping: &Mapping) -> Option<u64> {
        let bytes = mapping.addresses.end - mapping.addresses.start;
        let mapped = mapping.offset..mapping.offset.saturating_add(bytes);
        let common = |segment: &Range<u64>| {
            let until = segment.end.min(mapped.end);
            until.saturating_sub(segment.start.max(mapped.start))
        };
        let segment = self.segments.iter().max_by_key(|(range, _)| common(range));
        let (range, address) = segment.filter(|(range, _)| common(range) > 0)?;
        Some(
            address
                .wrapping_add(mapping.offset)
                .wrapping_sub(range.start),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes tables of a file with these segments.
    fn tables(segments: &[(Range<u64>, u64)]) -> UnwindTables {
        UnwindTables {
            segments: segments.to_vec(),
            eh_frame: None,
            eh_frame_hdr: None,
            text: None,
        }
    }

    /// Makes a mapping of this part of a file.
    fn mapping(offset: u64, bytes: u64) -> Mapping {
        Mapping {
            addresses: 0x7000_0000..0x7000_0000 + bytes,
            offset,
            file: (String::new(), 1),
            name: String::new(),
        }
    }

    /// As bfd lays files out, each segment on a page of its own, and as lld does, one after the other.
    #[test]
    fn a_segment_may_begin_within_a_page() {
        let aligned = tables(&[(0..0x800, 0), (0x1000..0x2345, 0x1000)]);
        assert_eq!(
            aligned.linked_address(&mapping(0x1000, 0x2000)),
            Some(0x1000)
        );
        let packed = tables(&[(0..0x14a0, 0), (0x14a0..0x9000, 0x24a0)]);
        assert_eq!(
            packed.linked_address(&mapping(0x1000, 0x8000)),
            Some(0x2000)
        );
        assert_eq!(packed.linked_address(&mapping(0xa000, 0x1000)), None);
        assert_eq!(tables(&[]).linked_address(&mapping(0, 0x1000)), None);
    }
}
