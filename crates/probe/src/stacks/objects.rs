//! Files that code was mapped from. They are kept open, so that names can be resolved after the
//! program, or even the file, is gone.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::ops::{Deref, Range};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
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

/// Device, as `/proc/PID/maps` writes it, and inode.
type FileKey = (String, u64);

/// Most attempts that are remembered.
const MOST_FAILED: usize = 4096;

/// Where a mapped file is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum OpenBy {
    /// The process has it mapped.
    Mapper(u32),
    /// The process may see it by its path.
    Neighbour(u32),
    /// Only this one may.
    Nobody,
}

/// Files by device and inode.
#[derive(Debug, Default)]
pub(super) struct Objects {
    open: HashMap<FileKey, Rc<Object>>,
    /// Where files were not found.
    failed: HashSet<(FileKey, OpenBy)>,
}

impl Objects {
    /// Opens the file of a mapping, once. Where it is not found, another process may have it: it is then searched again.
    pub(super) fn open(&mut self, by: OpenBy, mapping: &Mapping) -> Rc<Object> {
        let named = || Rc::new(Object::from_name(&mapping.name));
        if mapping.file.1 == 0 {
            return named();
        }
        if let Some(known) = self.open.get(&mapping.file) {
            return Rc::clone(known);
        }
        let attempt = (mapping.file.clone(), by);
        if self.failed.contains(&attempt) {
            return named();
        }
        let mapped = match by {
            OpenBy::Mapper(pid) => Object::open(pid, mapping),
            OpenBy::Neighbour(_) | OpenBy::Nobody => None,
        };
        match mapped.or_else(|| Object::open_path(by, mapping)) {
            Some(object) => {
                let object = Rc::new(object);
                self.open.insert(mapping.file.clone(), Rc::clone(&object));
                object
            }
            None => {
                if self.failed.len() >= MOST_FAILED {
                    self.failed.clear();
                }
                self.failed.insert(attempt);
                named()
            }
        }
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

    /// Opens a mapped file by its path, as that process or this one sees it. None: there is another file now.
    fn open_path(by: OpenBy, mapping: &Mapping) -> Option<Self> {
        let name = mapping.name.as_str();
        let pid = match by {
            OpenBy::Mapper(pid) | OpenBy::Neighbour(pid) => Some(pid),
            OpenBy::Nobody => None,
        };
        let of_process = pid.map(|pid| format!("/proc/{pid}/root{name}"));
        let mut paths = of_process.into_iter().chain([name.to_owned()]);
        let file = paths.find_map(|path| open_same(&path, &mapping.file))?;
        Some(Self::from_file(name, file))
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

/// Opens the file of a path if it has this device, as the kernel's mappings name it, and this inode.
fn open_same(path: &str, key: &FileKey) -> Option<File> {
    let is_same = |found: &fs::Metadata| found.is_file() && found.ino() == key.1;
    // an open of a device may do something
    fs::metadata(path).ok().filter(is_same)?;
    let mut options = fs::OpenOptions::new();
    // a FIFO may be there by now
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.read(true).open(path).ok()?;
    file.metadata().ok().filter(is_same)?;
    // SAFETY: nothing is read: its place in the list of mappings is read, for the device that is there.
    let mapped = unsafe { memmap2::MmapOptions::new().len(1).map(&file) }.ok()?;
    (mappings::file_at(mapped.as_ptr() as u64).as_ref() == Some(key)).then_some(file)
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
