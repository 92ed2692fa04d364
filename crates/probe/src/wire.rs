//! Bytes from the kernel → the record structs of the BPF programs. Their Rust form comes from the
//! object's BTF.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use table::Role;

/// The structs, as the object's BTF has them.
pub(crate) use crate::skel::types;

/// A struct that the BPF programs write and that any bytes of its length are a valid value of.
///
/// # Safety
/// The type must be `repr(C)` and made of integers and arrays of integers only.
pub(crate) unsafe trait Wire: Copy {}

/// Returns the first record in `bytes`; `None` if they are too few.
pub(crate) fn read<T: Wire>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: the length was checked, `Wire` promises that any bytes are a value, and the read
    // asks for no alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Returns the record at the start of `bytes`, at least `least` bytes long; the rest is zero.
pub(crate) fn read_padded<T: Wire>(bytes: &[u8], least: usize) -> Option<T> {
    if bytes.len() < least || bytes.len() > size_of::<T>() {
        return None;
    }
    let mut record = MaybeUninit::<T>::zeroed();
    // SAFETY: the length was checked, `Wire` promises that any bytes are a value, zeros are some, and the
    // two do not overlap: one is a local.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), record.as_mut_ptr().cast(), bytes.len());
        Some(record.assume_init())
    }
}

/// Returns the records that fill `bytes`; leaves out an incomplete last one.
pub(crate) fn read_all<T: Wire>(bytes: &[u8]) -> Cow<'_, [T]> {
    // SAFETY: `Wire` promises that any bytes are a value.
    let (before, records, _) = unsafe { bytes.align_to::<T>() };
    if before.is_empty() {
        return Cow::Borrowed(records);
    }
    Cow::Owned(
        bytes
            .chunks_exact(size_of::<T>())
            .filter_map(read)
            .collect(),
    )
}

/// Returns the role of an end of a connection: `ROLE_*` of `inventory.h`.
pub(crate) fn role_of(role: u8) -> Role {
    match role {
        1 => Role::Client,
        2 => Role::Server,
        _ => Role::Unknown,
    }
}

/// The text of a NUL-terminated C string field; bytes that are not UTF-8 are replaced.
pub(crate) fn text(chars: &[i8]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .map(|&c| c.cast_unsigned())
        .take_while(|&c| c != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bytes_are_refused() {
        use crate::wire::types::tcp_event;
        let bytes = vec![7u8; size_of::<tcp_event>()];
        assert!(read::<tcp_event>(&bytes[1..]).is_none());
        assert_eq!(
            read::<tcp_event>(&bytes).map(|event| event.cookie),
            Some(0x0707_0707_0707_0707)
        );
    }

    #[test]
    fn records_are_read_at_any_alignment() {
        use crate::wire::types::tcp_event;
        let bytes: Vec<u8> = (0..=255)
            .cycle()
            .take(3 * size_of::<tcp_event>() + 7)
            .collect();
        for start in 0..7 {
            let records = read_all::<tcp_event>(&bytes[start..]);
            assert_eq!(records.len(), 3);
            let expected = u64::from_ne_bytes(bytes[start..start + 8].try_into().expect("8 bytes"));
            assert_eq!(records[0].cookie, expected);
        }
    }

    #[test]
    fn text_ends_at_the_first_nul() {
        assert_eq!(text(&[99, 117, 98, 105, 99, 0, 88]), "cubic");
        assert_eq!(text(&[-1, 0]), "\u{fffd}");
    }
}
