//! Tasks, regions and frames: what begins and ends.

use std::ffi::c_void;

use crate::collector::abi::{DomainHandle, IttId, TextHandle};
use crate::collector::handles::HandleKind;
use crate::collector::memory::read_id;
use crate::collector::record_writer::{RecordTime, with_writer};
use crate::collector::system::now_ns;
use crate::wire::{RecordCode, RecordHead};

/// `__itt_timestamp_none`: the end of a frame is now.
const TIMESTAMP_NONE: u64 = u64::MAX;

/// Records the start of a task.
pub(super) extern "C" fn task_begin(
    domain: *const DomainHandle,
    id: IttId,
    parent: IttId,
    name: *const TextHandle,
) {
    begin(RecordCode::TaskBegin, 0, domain, None, (id, parent), name);
}

/// Records the start of a task, with the program's own time.
pub(super) extern "C" fn task_begin_ex(
    domain: *const DomainHandle,
    clock: *const c_void,
    timestamp: u64,
    id: IttId,
    parent: IttId,
    name: *const TextHandle,
) {
    let given = Some((clock, timestamp));
    begin(RecordCode::TaskBegin, 0, domain, given, (id, parent), name);
}

/// Records the start of a task that may end on another thread.
pub(super) extern "C" fn task_begin_overlapped(
    domain: *const DomainHandle,
    id: IttId,
    parent: IttId,
    name: *const TextHandle,
) {
    begin(RecordCode::TaskBegin, 1, domain, None, (id, parent), name);
}

/// Records the start of a task that may overlap others, with the program's own time.
pub(super) extern "C" fn task_begin_overlapped_ex(
    domain: *const DomainHandle,
    clock: *const c_void,
    timestamp: u64,
    id: IttId,
    parent: IttId,
    name: *const TextHandle,
) {
    let given = Some((clock, timestamp));
    begin(RecordCode::TaskBegin, 1, domain, given, (id, parent), name);
}

/// Records the start of a region, which belongs to no thread.
pub(super) extern "C" fn region_begin(
    domain: *const DomainHandle,
    id: IttId,
    parent: IttId,
    name: *const TextHandle,
) {
    begin(RecordCode::RegionBegin, 0, domain, None, (id, parent), name);
}

/// Writes the record of a start; `given` is the program's own clock and time.
fn begin(
    code: RecordCode,
    detail: u8,
    domain: *const DomainHandle,
    given: Option<(*const c_void, u64)>,
    (id, parent): (IttId, IttId),
    name: *const TextHandle,
) {
    with_writer(|writer| {
        let Some(known) = writer.find_entry(domain, HandleKind::Domain) else {
            return;
        };
        let stamp = given.map_or(RecordTime::Now, |(clock, timestamp)| {
            writer.stamp(clock, timestamp)
        });
        let words = [
            writer.text(name),
            id.0,
            id.1,
            id.2,
            parent.0,
            parent.1,
            parent.2,
        ];
        writer.write(RecordHead::with(code, detail, known.id()), stamp, words);
    });
}

/// Records the end of the thread's innermost task.
pub(super) extern "C" fn task_end(domain: *const DomainHandle) {
    end(RecordCode::TaskEnd, domain, None, []);
}

/// Records the end of the innermost task, with the program's own time.
pub(super) extern "C" fn task_end_ex(
    domain: *const DomainHandle,
    clock: *const c_void,
    timestamp: u64,
) {
    end(RecordCode::TaskEnd, domain, Some((clock, timestamp)), []);
}

/// Records the end of the task with this identifier.
pub(super) extern "C" fn task_end_overlapped(domain: *const DomainHandle, id: IttId) {
    end(
        RecordCode::TaskEndOverlapped,
        domain,
        None,
        [id.0, id.1, id.2],
    );
}

/// Records the end of the task with this identifier, with the program's own time.
pub(super) extern "C" fn task_end_overlapped_ex(
    domain: *const DomainHandle,
    clock: *const c_void,
    timestamp: u64,
    id: IttId,
) {
    let given = Some((clock, timestamp));
    end(
        RecordCode::TaskEndOverlapped,
        domain,
        given,
        [id.0, id.1, id.2],
    );
}

/// Records the end of a region.
pub(super) extern "C" fn region_end(domain: *const DomainHandle, id: IttId) {
    end(RecordCode::RegionEnd, domain, None, [id.0, id.1, id.2]);
}

/// Writes the record of an end; `given` is the program's own clock and time.
fn end<const N: usize>(
    code: RecordCode,
    domain: *const DomainHandle,
    given: Option<(*const c_void, u64)>,
    words: [u64; N],
) {
    with_writer(|writer| {
        let Some(known) = writer.find_entry(domain, HandleKind::Domain) else {
            return;
        };
        let stamp = given.map_or(RecordTime::Now, |(clock, timestamp)| {
            writer.stamp(clock, timestamp)
        });
        writer.write(RecordHead::new(code, known.id()), stamp, words);
    });
}

/// Records the start of a frame.
///
/// # Safety
///
/// `id` is null or points to an `__itt_id`.
pub(super) unsafe extern "C" fn frame_begin_v3(domain: *const DomainHandle, id: *const IttId) {
    // SAFETY: the API demands an id or null.
    let id = unsafe { read_id(id) };
    end(RecordCode::FrameBegin, domain, None, [id.0, id.1, id.2]);
}

/// Records the end of a frame.
///
/// # Safety
///
/// `id` is null or points to an `__itt_id`.
pub(super) unsafe extern "C" fn frame_end_v3(domain: *const DomainHandle, id: *const IttId) {
    // SAFETY: the API demands an id or null.
    let id = unsafe { read_id(id) };
    end(RecordCode::FrameEnd, domain, None, [id.0, id.1, id.2]);
}

/// Records a frame with the start and end that the program gives.
///
/// # Safety
///
/// `id` is null or points to an `__itt_id`.
pub(super) unsafe extern "C" fn frame_submit_v3(
    domain: *const DomainHandle,
    id: *const IttId,
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
    end(RecordCode::FrameSubmitted, domain, None, words);
}
