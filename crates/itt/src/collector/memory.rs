//! Reads what the program passes: C strings, ids, and where an address lies.

use std::ffi::{CStr, c_char, c_void};

use crate::collector::abi::IttId;

/// Returns an id behind a pointer; none for null.
///
/// # Safety
///
/// The pointer is null or of an `__itt_id`.
pub(crate) unsafe fn read_id(id: *const IttId) -> IttId {
    if id.is_null() {
        return IttId(0, 0, 0);
    }
    // SAFETY: the caller promises an `__itt_id`.
    unsafe { id.read_unaligned() }
}

/// Returns a C string's bytes; none for null.
///
/// # Safety
///
/// The pointer is null or of a C string.
pub(crate) unsafe fn string_bytes(text: *const c_char) -> Option<Vec<u8>> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller promises a C string.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes().to_vec())
}

/// Returns whether an address lies in the program itself, not in a library.
pub(crate) fn is_in_main_program<T>(address: *const T) -> bool {
    let mut asked = (address.addr() as u64, false);
    // SAFETY: the callback gets what we pass, and is done when the call returns.
    unsafe { libc::dl_iterate_phdr(Some(look_at_first), (&raw mut asked).cast()) };
    asked.1
}

/// The program itself comes first (dl_iterate_phdr(3)); a return of 1 ends the iteration.
unsafe extern "C" fn look_at_first(
    object: *mut libc::dl_phdr_info,
    _: usize,
    asked: *mut c_void,
) -> i32 {
    // SAFETY: `asked` is what `is_in_main_program` passed.
    let (address, found) = unsafe { &mut *asked.cast::<(u64, bool)>() };
    // SAFETY: the C library passes a valid object, with that many headers.
    let headers = unsafe {
        let object = &*object;
        std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into())
            .iter()
            .map(|header| (object.dlpi_addr + header.p_vaddr, header))
    };
    *found = headers
        .filter(|(_, header)| header.p_type == libc::PT_LOAD)
        .any(|(start, header)| (start..start + header.p_memsz).contains(address));
    1
}
