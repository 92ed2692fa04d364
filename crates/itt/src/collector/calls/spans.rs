//! Tasks, regions and frames: what begins and ends.

use std::ffi::c_void;

use crate::collector::abi::{Domain, Id, Text};
use crate::collector::handles::Kind;
use crate::collector::memory::read_id;
use crate::collector::pen::{Stamp, recording};
use crate::collector::system::now_ns;
use crate::wire::{Code, Head};

/// `__itt_timestamp_none`: the end of a frame is now.
const TIMESTAMP_NONE: u64 = u64::MAX;

pub(super) unsafe extern "C" fn task_begin(
    domain: *const Domain,
    id: Id,
    parent: Id,
    name: *const Text,
) {
    begin(Code::TaskBegin, 0, domain, None, (id, parent), name);
}

pub(super) unsafe extern "C" fn task_begin_ex(
    domain: *const Domain,
    clock: *const c_void,
    timestamp: u64,
    id: Id,
    parent: Id,
    name: *const Text,
) {
    let given = Some((clock, timestamp));
    begin(Code::TaskBegin, 0, domain, given, (id, parent), name);
}

pub(super) unsafe extern "C" fn task_begin_overlapped(
    domain: *const Domain,
    id: Id,
    parent: Id,
    name: *const Text,
) {
    begin(Code::TaskBegin, 1, domain, None, (id, parent), name);
}

pub(super) unsafe extern "C" fn task_begin_overlapped_ex(
    domain: *const Domain,
    clock: *const c_void,
    timestamp: u64,
    id: Id,
    parent: Id,
    name: *const Text,
) {
    let given = Some((clock, timestamp));
    begin(Code::TaskBegin, 1, domain, given, (id, parent), name);
}

pub(super) unsafe extern "C" fn region_begin(
    domain: *const Domain,
    id: Id,
    parent: Id,
    name: *const Text,
) {
    begin(Code::RegionBegin, 0, domain, None, (id, parent), name);
}

fn begin(
    code: Code,
    detail: u8,
    domain: *const Domain,
    given: Option<(*const c_void, u64)>,
    (id, parent): (Id, Id),
    name: *const Text,
) {
    recording(|pen| {
        let Some(known) = pen.known(domain, Kind::Domain) else {
            return;
        };
        let stamp = given.map_or(Stamp::Now, |(clock, timestamp)| pen.stamp(clock, timestamp));
        let words = [
            pen.text(name),
            id.0,
            id.1,
            id.2,
            parent.0,
            parent.1,
            parent.2,
        ];
        pen.write(Head::with(code, detail, known.id()), stamp, words);
    });
}

pub(super) unsafe extern "C" fn task_end(domain: *const Domain) {
    end(Code::TaskEnd, domain, None, []);
}

pub(super) unsafe extern "C" fn task_end_ex(
    domain: *const Domain,
    clock: *const c_void,
    timestamp: u64,
) {
    end(Code::TaskEnd, domain, Some((clock, timestamp)), []);
}

pub(super) unsafe extern "C" fn task_end_overlapped(domain: *const Domain, id: Id) {
    end(Code::TaskEndOverlapped, domain, None, [id.0, id.1, id.2]);
}

pub(super) unsafe extern "C" fn task_end_overlapped_ex(
    domain: *const Domain,
    clock: *const c_void,
    timestamp: u64,
    id: Id,
) {
    let given = Some((clock, timestamp));
    end(Code::TaskEndOverlapped, domain, given, [id.0, id.1, id.2]);
}

pub(super) unsafe extern "C" fn region_end(domain: *const Domain, id: Id) {
    end(Code::RegionEnd, domain, None, [id.0, id.1, id.2]);
}

fn end<const N: usize>(
    code: Code,
    domain: *const Domain,
    given: Option<(*const c_void, u64)>,
    words: [u64; N],
) {
    recording(|pen| {
        let Some(known) = pen.known(domain, Kind::Domain) else {
            return;
        };
        let stamp = given.map_or(Stamp::Now, |(clock, timestamp)| pen.stamp(clock, timestamp));
        pen.write(Head::new(code, known.id()), stamp, words);
    });
}

pub(super) unsafe extern "C" fn frame_begin_v3(domain: *const Domain, id: *const Id) {
    // SAFETY: the API demands an id or null.
    let id = unsafe { read_id(id) };
    end(Code::FrameBegin, domain, None, [id.0, id.1, id.2]);
}

pub(super) unsafe extern "C" fn frame_end_v3(domain: *const Domain, id: *const Id) {
    // SAFETY: the API demands an id or null.
    let id = unsafe { read_id(id) };
    end(Code::FrameEnd, domain, None, [id.0, id.1, id.2]);
}

pub(super) unsafe extern "C" fn frame_submit_v3(
    domain: *const Domain,
    id: *const Id,
    begin: u64,
    end_ns: u64,
) {
    // SAFETY: the API demands an id or null.
    let id = unsafe { read_id(id) };
    let end_ns = match end_ns {
        TIMESTAMP_NONE => now_ns(),
        given => given,
    };
    let words = [id.0, id.1, id.2, begin, end_ns];
    end(Code::FrameSubmitted, domain, None, words);
}
