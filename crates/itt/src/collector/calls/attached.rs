//! Metadata and relations: what is said about tasks, regions and frames.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::collector::abi::{Domain, Id, Text};
use crate::collector::handles::Kind;
use crate::collector::pen::{Stamp, recording};
use crate::layout::{Cause, TEXT_BYTES};
use crate::value::ValueType;
use crate::wire::{Code, Head, text_words};

/// Numbers of one call that are kept; `Body::Metadata` tells it.
const VALUES_MAX: usize = 256;

pub(super) unsafe extern "C" fn metadata_add(
    domain: *const Domain,
    id: Id,
    key: *const Text,
    value_type: c_int,
    count: usize,
    data: *const c_void,
) {
    recording(|pen| {
        let Some(known) = pen.known(domain, Kind::Domain) else {
            return;
        };
        let value_type = ValueType::of(ValueType::byte_of(value_type).into());
        let (Some(value_type), false) = (value_type, data.is_null()) else {
            return pen.lost(Cause::Invalid);
        };
        let head = Head::with(Code::Metadata, value_type as u8, known.id());
        let kept = count.min(VALUES_MAX);
        let start = [pen.text(key), id.0, id.1, id.2, count as u64];
        pen.put(head, Stamp::Now, start.len() + kept, |room| {
            let values = (0..kept).map(|index| {
                let offset = index * value_type.bytes();
                // SAFETY: the API demands an array of `count` values of that type.
                unsafe { value_type.read(data.cast::<u8>().add(offset)) }
            });
            fill(room, start.into_iter().chain(values));
        });
    });
}

pub(super) unsafe extern "C" fn metadata_str_add(
    domain: *const Domain,
    id: Id,
    key: *const Text,
    data: *const c_char,
    length: usize,
) {
    recording(|pen| {
        let Some(known) = pen.known(domain, Kind::Domain) else {
            return;
        };
        if data.is_null() {
            return pen.lost(Cause::Invalid);
        }
        let length = match length {
            // SAFETY: -1 says that the text ends with a zero.
            usize::MAX => unsafe { libc::strlen(data) },
            given => given,
        };
        let kept = length.min(TEXT_BYTES);
        // SAFETY: the API demands a text of that length.
        let text = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), kept) };
        let head = Head::new(Code::MetadataText, known.id());
        let start = [pen.text(key), id.0, id.1, id.2, length as u64, kept as u64];
        let words = start.len() - 1 + text_words(kept);
        pen.put(head, Stamp::Now, words, |room| {
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

/// Puts words into room, as far as it goes.
fn fill(room: &[AtomicU64], words: impl Iterator<Item = u64>) {
    for (place, word) in room.iter().zip(words) {
        place.store(word, Ordering::Relaxed);
    }
}

pub(super) unsafe extern "C" fn relation_add(
    domain: *const Domain,
    head: Id,
    relation: c_int,
    tail: Id,
) {
    relate(domain, None, head, relation, tail);
}

pub(super) unsafe extern "C" fn relation_add_ex(
    domain: *const Domain,
    clock: *const c_void,
    timestamp: u64,
    head: Id,
    relation: c_int,
    tail: Id,
) {
    relate(domain, Some((clock, timestamp)), head, relation, tail);
}

pub(super) unsafe extern "C" fn relation_add_to_current(
    domain: *const Domain,
    relation: c_int,
    tail: Id,
) {
    relate(domain, None, Id(0, 0, 0), relation, tail);
}

pub(super) unsafe extern "C" fn relation_add_to_current_ex(
    domain: *const Domain,
    clock: *const c_void,
    timestamp: u64,
    relation: c_int,
    tail: Id,
) {
    let given = Some((clock, timestamp));
    relate(domain, given, Id(0, 0, 0), relation, tail);
}

fn relate(
    domain: *const Domain,
    given: Option<(*const c_void, u64)>,
    head: Id,
    relation: c_int,
    tail: Id,
) {
    recording(|pen| {
        let Some(known) = pen.known(domain, Kind::Domain) else {
            return;
        };
        let stamp = given.map_or(Stamp::Now, |(clock, timestamp)| pen.stamp(clock, timestamp));
        let detail = u8::try_from(relation).unwrap_or(0);
        let words = [head.0, head.1, head.2, tail.0, tail.1, tail.2];
        pen.write(Head::with(Code::Relation, detail, known.id()), stamp, words);
    });
}
