//! Whether a program could load the collector.
//!
//! Asked before the variable is set, because a failed load is worse than none: the static part
//! then frees the handles that the program already has, and goes on.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::Error;

/// `EI_NIDENT` and what follows up to `e_machine` (elf(5)).
const ELF_START_BYTES: usize = 20;
/// `EM_X86_64` or `EM_AARCH64`.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    62
} else {
    183
};

/// Checks that the collector's library exists and can be loaded on this machine. It is loaded into
/// this process for that, and unloaded.
pub fn check_loadable(path: &Path) -> Result<(), Error> {
    let refused = |why: String| Error::NotLoadable {
        path: path.to_owned(),
        why,
    };
    if !path.is_absolute() {
        return Err(refused(
            "its path is not absolute, and the program may change directory".to_owned(),
        ));
    }
    check_elf(path).map_err(refused)?;
    check_load(path).map_err(refused)
}

/// Refuses a file that is no shared object of this machine.
fn check_elf(path: &Path) -> Result<(), String> {
    let mut start = [0; ELF_START_BYTES];
    File::open(path)
        .map_err(|why| why.to_string())?
        .read_exact(&mut start)
        .map_err(|_| "it is not an ELF file".to_owned())?;
    if !start.starts_with(b"\x7fELF") {
        return Err("it is not an ELF file".to_owned());
    }
    let machine = u16::from_ne_bytes([start[18], start[19]]);
    // `ELFCLASS64`
    if start[4] != 2 || machine != MACHINE {
        return Err("it was built for another machine".to_owned());
    }
    Ok(())
}

/// Loads the file as a program would; the error says why it cannot be loaded.
fn check_load(path: &Path) -> Result<(), String> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|why| why.to_string())?;
    // SAFETY: the name is a C string. What the library runs when it is loaded is what the program
    // would let it run.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(load_error());
    }
    // SAFETY: the library is open, and the name is a C string.
    let entry = unsafe { libc::dlsym(library, c"__itt_api_init".as_ptr()) };
    // SAFETY: the library is open, and nothing of it is used after this.
    unsafe { libc::dlclose(library) };
    match entry.is_null() {
        true => Err("it has no __itt_api_init: it is not an ITT collector".to_owned()),
        false => Ok(()),
    }
}

/// Returns the loader's last error.
fn load_error() -> String {
    // SAFETY: the call takes nothing.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the dynamic linker does not say why".to_owned();
    }
    // SAFETY: the C library returned a C string, which is copied at once.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
