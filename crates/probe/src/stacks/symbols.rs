//! Places in code → names of functions and lines of source, as the files' symbols and debug information
//! show them (blazesym).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::rc::Rc;

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel as KernelSource, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};
use table::Columns;
use table::tables::{Symbol, Symbols};

use super::objects::Object;
use crate::clock::monotonic_ns;

/// Object of the kernel's own code.
pub(super) const KERNEL: &str = "[kernel]";

/// One place in code, in the order of the objects.
#[derive(Debug, Clone)]
pub(super) struct CodePlace {
    /// `None`: the kernel.
    pub(super) object: Option<Rc<Object>>,
    /// In the file; in the kernel, after `_stext`.
    pub(super) offset: u64,
}

impl CodePlace {
    /// Returns what identifies the place: path and build id of the file, and the offset.
    fn key(&self) -> (Option<(&str, Option<&str>)>, u64) {
        let object = self.object.as_ref();
        let object = object.map(|it| (it.path.as_str(), it.build_id.as_deref()));
        (object, self.offset)
    }

    /// Returns path and build id of the file; None in the kernel.
    fn object_key(&self) -> Option<(&str, Option<&str>)> {
        self.key().0
    }
}

impl Ord for CodePlace {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for CodePlace {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for CodePlace {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for CodePlace {}

/// Where the kernel's code is: its addresses stay here, only distances are stored.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Address of `_stext`; `None` if it is hidden from this process.
    start: Option<u64>,
}

impl Kernel {
    /// Finds where the kernel's code begins.
    pub(super) fn read() -> Self {
        let symbols = File::open("/proc/kallsyms").map(BufReader::new);
        let mut lines = symbols
            .into_iter()
            .flat_map(|it| it.lines().map_while(Result::ok));
        let start = lines.find_map(|line| {
            let address = line.strip_suffix(" _stext")?.split(' ').next()?;
            u64::from_str_radix(address, 16).ok()
        });
        Self {
            start: start.filter(|start| *start != 0),
        }
    }

    /// Returns an address relative to the kernel's begin; None if that is hidden.
    pub(super) fn offset(&self, address: u64) -> Option<u64> {
        Some(address.wrapping_sub(self.start?))
    }
}

/// Looks up function, file and line of these places.
pub(super) fn look_up(places: BTreeSet<CodePlace>, kernel: Option<&Kernel>) -> Symbols {
    let symbolizer = Symbolizer::builder()
        .enable_auto_reload(false)
        .enable_code_info(true)
        .enable_inlined_fns(true)
        .enable_demangling(true)
        .build();
    let mut rows = Symbols::default();
    let places: Vec<CodePlace> = places.into_iter().collect();
    for of_object in places.chunk_by(|a, b| a.object_key() == b.object_key()) {
        let offsets: Vec<u64> = of_object.iter().map(|it| it.offset).collect();
        let found = match &of_object[0].object {
            Some(object) => in_file(&symbolizer, object, &offsets),
            None => in_kernel(&symbolizer, kernel, &offsets),
        };
        for (place, found) in of_object.iter().zip(found.unwrap_or_default()) {
            push(place, &found, &mut rows);
        }
    }
    rows
}

/// Finds symbols of a file; `None`: the file cannot be read.
fn in_file<'a>(
    symbolizer: &'a Symbolizer,
    object: &Object,
    offsets: &[u64],
) -> Option<Vec<Symbolized<'a>>> {
    let descriptor = object.file.as_ref()?.as_raw_fd();
    let elf = Elf::new(format!("/proc/self/fd/{descriptor}"));
    symbolizer
        .symbolize(&Source::Elf(elf), Input::FileOffset(offsets))
        .ok()
}

/// Finds symbols of the kernel; `None`: the kernel hides them.
fn in_kernel<'a>(
    symbolizer: &'a Symbolizer,
    kernel: Option<&Kernel>,
    offsets: &[u64],
) -> Option<Vec<Symbolized<'a>>> {
    let start = kernel?.start?;
    let addresses: Vec<u64> = offsets.iter().map(|it| start.wrapping_add(*it)).collect();
    let source = KernelSource {
        vmlinux: MaybeDefault::None,
        debug_syms: false,
        ..KernelSource::default()
    };
    symbolizer
        .symbolize(&Source::Kernel(source), Input::AbsAddr(&addresses))
        .ok()
}

/// Adds the symbol of a place, and a row for each inlined function.
fn push(place: &CodePlace, found: &Symbolized<'_>, rows: &mut Symbols) {
    let Symbolized::Sym(sym) = found else {
        return;
    };
    let Sym {
        name,
        code_info,
        inlined,
        ..
    } = sym;
    let inlined = inlined.iter().map(|it| (&it.name, it.code_info.as_ref()));
    let levels = std::iter::once((name, code_info.as_deref())).chain(inlined);
    let object = place.object.as_ref();
    for (level, (name, code)) in levels.enumerate() {
        rows.push(Symbol {
            time_ns: monotonic_ns(),
            object: object.map_or(KERNEL, |it| &it.path).to_owned(),
            build_id: object.and_then(|it| it.build_id.clone()),
            offset: place.offset,
            level: level as u16,
            function: Some(name.to_string()),
            source: code.map(|code| code.to_path().display().to_string()),
            line: code.and_then(|code: &CodeInfo| code.line),
        });
    }
}
