//! Program files: USDT notes, unwind tables, symbols.

use std::fs::{self, File};
use std::path::Path;

/// Where files of the targets are: memory, where there is such a place.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let place = memory.is_dir().then(|| memory.to_owned());
    let place = place.unwrap_or_else(std::env::temp_dir);
    tempfile::tempdir_in(place).expect("a temporary directory")
}

/// A program or library that a recorded process has mapped.
pub fn elf(bytes: &[u8]) {
    let scratch = scratch();
    let path = scratch.path().join("file");
    fs::write(&path, bytes).expect("written");
    probe::fuzz::elf_notes(&path);
    let file = File::open(&path).expect("opened");
    let mapped = 0x40_0000..0x40_0000 + bytes.len().next_multiple_of(4096).max(4096) as u64;
    let stack = &bytes[bytes.len().saturating_sub(512)..];
    probe::fuzz::unwind_code(file, mapped, stack);
}
