//! Metadata and relations of tasks, regions and frames.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::collector::abi::{DomainHandle, IttId, TextHandle};
use crate::collector::handles::HandleKind;
use crate::collector::record_writer::{RecordTime, with_writer};
use crate::layout::{LossCause, TEXT_BYTES};
use crate::value::ValueType;
use crate::wire::{RecordCode, RecordHead, text_words};

/// Numbers of one call that are kept; `Body::Metadata` has the number of all.
const VALUES_MAX: usize = 256;

/// Attaches numbers to the task with this identifier.
///
/// # Safety
///
/// `data` is null or points to `count` values of that type.
pub(super) unsafe extern "C" fn metadata_add(
    domain: *const DomainHandle,
    id: IttId,
    key: *const TextHandle,
    value_type: c_int,
    count: usize,
    data: *const c_void,
) {
    with_writer(|writer| {
        let Some(known) = writer.find_entry(domain, HandleKind::Domain) else {
            return;
        };
        let value_type = ValueType::from_number(ValueType::byte_of(value_type).into());
        let (Some(value_type), false) = (value_type, data.is_null()) else {
            return writer.count_loss(LossCause::Invalid);
        };
        let head = RecordHead::with(RecordCode::Metadata, value_type as u8, known.id());
        let kept = count.min(VALUES_MAX);
        let start = [writer.text(key), id.0, id.1, id.2, count as u64];
        writer.put(head, RecordTime::Now, start.len() + kept, |room| {
            let values = (0..kept).map(|index| {
                let offset = index * value_type.bytes();
                // SAFETY: the API demands an array of `count` values of that type.
                unsafe { value_type.read(data.cast::<u8>().add(offset)) }
            });
            fill(room, start.into_iter().chain(values));
        });
    });
}

/// Attaches a text to the task with this identifier.
///
/// # Safety
///
/// `data` is null, points to `length` bytes, or is a C string where `length` is -1.
pub(super) unsafe extern "C" fn metadata_str_add(
    domain: *const DomainHandle,
    id: IttId,
    key: *const TextHandle,
    data: *const c_char,
    length: usize,
) {
    with_writer(|writer| {
        let Some(known) = writer.find_entry(domain, HandleKind::Domain) else {
            return;
        };
        if data.is_null() {
            return writer.count_loss(LossCause::Invalid);
        }
        let length = match length {
            // SAFETY: -1 says that the text ends with a zero.
            usize::MAX => unsafe { libc::strlen(data) },
            given => given,
        };
        let kept = length.min(TEXT_BYTES);
        // SAFETY: the API demands a text of that length.
        let text = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), kept) };
        let head = RecordHead::new(RecordCode::MetadataText, known.id());
        let start = [
            writer.text(key),
            id.0,
            id.1,
            id.2,
            length as u64,
            kept as u64,
        ];
        let words = start.len() - 1 + text_words(kept);
        writer.put(head, RecordTime::Now, words, |room| {
            let (whole, rest) = text.as_chunks::<8>();
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            let words = whole
                .iter()
                .chain([&last])
                .map(|bytes| u64::from_ne_bytes(*bytes));
            fill(room, start.into_iter().chain(words));
        });
    });
}

/// Writes words into a record, as far as there is room.
fn fill(room: &[AtomicU64], words: impl Iterator<Item = u64>) {
    for (place, word) in room.iter().zip(words) {
        place.store(word, Ordering::Relaxed);
    }
}

/// Records that two identifiers are related.
pub(super) extern "C" fn relation_add(
    domain: *const DomainHandle,
    head: IttId,
    relation: c_int,
    tail: IttId,
) {
    relate(domain, None, head, relation, tail);
}

/// Records that two identifiers are related, with the program's own time.
pub(super) extern "C" fn relation_add_ex(
    domain: *const DomainHandle,
    clock: *const c_void,
    timestamp: u64,
    head: IttId,
    relation: c_int,
    tail: IttId,
) {
    relate(domain, Some((clock, timestamp)), head, relation, tail);
}

/// Relates the thread's current task to an identifier.
pub(super) extern "C" fn relation_add_to_current(
    domain: *const DomainHandle,
    relation: c_int,
    tail: IttId,
) {
    relate(domain, None, IttId(0, 0, 0), relation, tail);
}

/// Relates the thread's current task to an identifier, with the program's own time.
pub(super) extern "C" fn relation_add_to_current_ex(
    domain: *const DomainHandle,
    clock: *const c_void,
    timestamp: u64,
    relation: c_int,
    tail: IttId,
) {
    let given = Some((clock, timestamp));
    relate(domain, given, IttId(0, 0, 0), relation, tail);
}

/// Writes the record of a relation; `given` is the program's own clock and time.
fn relate(
    domain: *const DomainHandle,
    given: Option<(*const c_void, u64)>,
    head: IttId,
    relation: c_int,
    tail: IttId,
) {
    with_writer(|writer| {
        let Some(known) = writer.find_entry(domain, HandleKind::Domain) else {
            return;
        };
        let stamp = given.map_or(RecordTime::Now, |(clock, timestamp)| {
            writer.stamp(clock, timestamp)
        });
        let detail = u8::try_from(relation).unwrap_or(0);
        let words = [head.0, head.1, head.2, tail.0, tail.1, tail.2];
        writer.write(
            RecordHead::with(RecordCode::Relation, detail, known.id()),
            stamp,
            words,
        );
    });
}
