//! Functions of Python: `python.bpf.h` reads them from the interpreter of a thread that is sampled or begins to wait, without
//! stopping it. Here are the interpreters: which version a process runs, where it keeps what (`layout`), and the names of
//! functions, which the kernel side hands over once each (`names`).

mod layout;
mod names;

use std::ops::Range;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use table::manifest::{Coverage, ProbeState};

use crate::interface::features::Levels;
use crate::interface::{Detail, Probe, ProbeOutput, ProgramKey, Source, Support};
use crate::wire::types::{python_code_seen, python_process};
use crate::wire::{Wire, read};
use layout::Layout;
pub(crate) use names::{PYTHON, PythonNames};

// SAFETY: `python_code_seen` is `repr(C)` and made of integers and arrays of integers.
unsafe impl Wire for python_code_seen {}

// SAFETY: `python_process` is `repr(C)` and made of integers.
unsafe impl Wire for python_process {}

/// The state of all interpreters, and the function that runs what they compiled.
const RUNTIME: &str = "_PyRuntime";
const EVALUATE: &str = "_PyEval_EvalFrameDefault";

/// The probe of names of Python's functions. They become rows of `symbols`; the probe `waits.symbols` has their account.
pub(crate) struct PythonCodes;

impl Probe for PythonCodes {
    fn name(&self) -> &'static str {
        "waits.symbols"
    }

    fn table(&self) -> Option<table::TableId> {
        None
    }

    fn detail(&self) -> Detail {
        Detail::Waits
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.waits
    }

    fn maps(&self) -> &'static [&'static str] {
        &["python_code_ring", "python_codes", "python_processes"]
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let (why, remedy) = if cfg!(target_arch = "x86_64") {
            (
                "this kernel does not load the programs that read functions of Python",
                "run Linux 5.15 or newer",
            )
        } else {
            (
                "functions of Python are read on x86-64 only",
                "record on x86-64 to see functions of Python",
            )
        };
        let off = Coverage {
            probe: "waits.python".to_owned(),
            state: ProbeState::Off {
                why: why.to_owned(),
                remedy: remedy.to_owned(),
            },
        };
        let is_off = !support.features.python;
        is_off.then_some(off).into_iter().collect()
    }

    fn source(&self) -> Source {
        Source::Ring(|maps| &maps.python_code_ring, decode)
    }
}

/// Adds the names of one code object; returns 1 if the record could not be read.
fn decode(output: &mut ProbeOutput, bytes: &[u8]) -> u64 {
    let code = read::<python_code_seen>(bytes).map(|seen| names::code(&seen));
    let undecoded = u64::from(code.is_none());
    output.python_codes.extend(code);
    undecoded
}

/// An interpreter in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// Where its code is mapped.
    pub(crate) code: Vec<Range<u64>>,
    /// Where the function is that runs functions of Python; `None`: its symbol is stripped.
    pub(crate) evaluate: Option<Range<u64>>,
}

/// The map of processes with interpreters that the kernel side knows.
#[derive(Debug)]
pub struct PythonProcesses(MapHandle);

impl PythonProcesses {
    /// Opens the map of interpreters; `None` if that fails.
    pub(crate) fn new(map: &MapMut<'_>) -> Option<Self> {
        MapHandle::try_from(map).ok().map(Self)
    }

    /// Enters an interpreter into the map, so that the kernel program reads its functions. If that
    /// fails, functions of Python have no names.
    pub(crate) fn add(&self, program: ProgramKey, found: &python_process) {
        let ProgramKey {
            pid,
            started_ns,
            execs,
        } = program;
        let value = python_process {
            started_ns,
            execs,
            ..*found
        };
        let _ = self
            .0
            .update(&pid.to_ne_bytes(), bytes_of(&value), MapFlags::ANY);
    }
}

/// Returns the bytes of a structure, to write it into a map.
fn bytes_of(value: &python_process) -> &[u8] {
    let size = size_of::<python_process>();
    // SAFETY: the struct is `repr(C)` and made of integers without gaps between them: 48 bytes and 16 fields of 2.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size) }
}

/// Returns which minor version of Python 3 a file is of, by its name: `python3.11`, `libpython3.11.so.1.0`.
pub(crate) fn minor_version(path: &str) -> Option<u32> {
    let name = path.rsplit('/').next()?;
    let version = name
        .strip_prefix("lib")
        .unwrap_or(name)
        .strip_prefix("python3.")?;
    let digits = version.bytes().take_while(u8::is_ascii_digit).count();
    version[..digits].parse().ok()
}

/// Finds the interpreter's state in a file; `None` if the file is no interpreter. `base`: the load
/// address.
pub(crate) fn find(
    minor: u32,
    file: &[u8],
    base: u64,
) -> Option<(python_process, Option<Range<u64>>)> {
    let elf = object::File::parse(file).ok()?;
    let symbol = |name: &str| {
        let mut all = elf.dynamic_symbols().chain(elf.symbols());
        let found = all.find(|it| it.name() == Ok(name) && it.address() != 0)?;
        Some((found.address(), found.size()))
    };
    let (address, size) = symbol(RUNTIME)?;
    let layout = Layout::from_version(minor, data(&elf, address, size).unwrap_or_default())?;
    let evaluate = symbol(EVALUATE).map(|(at, size)| {
        let start = base.wrapping_add(at);
        start..start.saturating_add(size)
    });
    Some((layout.process(base.wrapping_add(address)), evaluate))
}

/// Returns the bytes of a file at an address; the process may have more.
fn data<'a>(elf: &object::File<'a>, address: u64, size: u64) -> Option<&'a [u8]> {
    let mut segments = elf.segments();
    let segment =
        segments.find(|it| (it.address()..it.address() + it.size()).contains(&address))?;
    let data = segment
        .data()
        .ok()?
        .get(usize::try_from(address - segment.address()).ok()?..)?;
    data.get(..data.len().min(usize::try_from(size).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_file_name() {
        assert_eq!(minor_version("/usr/bin/python3.11"), Some(11));
        assert_eq!(minor_version("/opt/lib/libpython3.8.so.1.0"), Some(8));
        assert_eq!(minor_version("/opt/lib/libpython3.13t.so.1.0"), Some(13));
        for other in [
            "/usr/bin/python3",
            "/usr/bin/pythonx3.11",
            "/lib/libpython2.7.so",
            "",
        ] {
            assert_eq!(minor_version(other), None, "{other}");
        }
    }

    #[test]
    fn other_program_has_no_python_version() {
        let own = std::env::current_exe().expect("a program");
        let file = std::fs::read(own).expect("its file");
        assert!(find(11, &file, 0).is_none());
        assert!(find(11, &file[..file.len() / 2], 0).is_none());
        assert!(find(11, b"#!/bin/sh", 0).is_none());
    }
}
