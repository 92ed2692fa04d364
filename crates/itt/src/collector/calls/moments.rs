//! Markers, events and synchronisation: what happens at one moment.

use std::ffi::{c_int, c_void};

use crate::collector::abi::{DomainHandle, IttId, TextHandle};
use crate::collector::handles::HandleKind;
use crate::collector::record_writer::{RecordTime, with_writer};
use crate::layout::LossCause;
use crate::record::SyncAction;
use crate::wire::{RecordCode, RecordHead};

/// Records a moment.
pub(super) extern "C" fn marker(
    domain: *const DomainHandle,
    id: IttId,
    name: *const TextHandle,
    scope: c_int,
) {
    mark(domain, None, id, name, scope);
}

/// Records a moment, with the program's own time.
pub(super) extern "C" fn marker_ex(
    domain: *const DomainHandle,
    clock: *const c_void,
    timestamp: u64,
    id: IttId,
    name: *const TextHandle,
    scope: c_int,
) {
    mark(domain, Some((clock, timestamp)), id, name, scope);
}

/// Writes the record of a moment; `given` is the program's own clock and time.
fn mark(
    domain: *const DomainHandle,
    given: Option<(*const c_void, u64)>,
    id: IttId,
    name: *const TextHandle,
    scope: c_int,
) {
    with_writer(|writer| {
        let Some(known) = writer.find_entry(domain, HandleKind::Domain) else {
            return;
        };
        let stamp = given.map_or(RecordTime::Now, |(clock, timestamp)| {
            writer.stamp(clock, timestamp)
        });
        let head = RecordHead::with(
            RecordCode::Marker,
            u8::try_from(scope).unwrap_or(0),
            known.id(),
        );
        writer.write(head, stamp, [writer.text(name), id.0, id.1, id.2]);
    });
}

/// Records the start of an event.
pub(super) extern "C" fn event_start(event: c_int) -> c_int {
    happen(RecordCode::EventStart, event)
}

/// Records the end of an event.
pub(super) extern "C" fn event_end(event: c_int) -> c_int {
    happen(RecordCode::EventEnd, event)
}

/// Returns 0, ITT's success.
fn happen(code: RecordCode, event: c_int) -> c_int {
    with_writer(|writer| match u32::try_from(event) {
        Ok(event @ 1..) => writer.write(RecordHead::new(code, event), RecordTime::Now, []),
        _ => writer.count_loss(LossCause::Invalid),
    });
    0
}

/// Records that the thread begins to wait for a lock.
pub(super) extern "C" fn sync_prepare(address: *mut c_void) {
    sync(SyncAction::Prepare, address);
}

/// Records that the thread gives up its wait for a lock.
pub(super) extern "C" fn sync_cancel(address: *mut c_void) {
    sync(SyncAction::Cancel, address);
}

/// Records that the thread has the lock.
pub(super) extern "C" fn sync_acquired(address: *mut c_void) {
    sync(SyncAction::Acquired, address);
}

/// Records that the thread releases the lock.
pub(super) extern "C" fn sync_releasing(address: *mut c_void) {
    sync(SyncAction::Releasing, address);
}

/// Records that a lock is gone; its address may be used again.
pub(super) extern "C" fn sync_destroy(address: *mut c_void) {
    sync(SyncAction::Destroyed, address);
}

/// Writes the record of an action on a lock.
fn sync(action: SyncAction, address: *mut c_void) {
    with_writer(|writer| {
        let head = RecordHead::with(RecordCode::Sync, action as u8, 0);
        writer.write(head, RecordTime::Now, [address.addr() as u64]);
    });
}
