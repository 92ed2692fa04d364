//! Markers, events and synchronisation: what happens at one moment.

use std::ffi::{c_int, c_void};

use crate::collector::abi::{Domain, Id, Text};
use crate::collector::handles::Kind;
use crate::collector::pen::{Stamp, recording};
use crate::layout::Cause;
use crate::record::SyncAction;
use crate::wire::{Code, Head};

pub(super) unsafe extern "C" fn marker(
    domain: *const Domain,
    id: Id,
    name: *const Text,
    scope: c_int,
) {
    mark(domain, None, id, name, scope);
}

pub(super) unsafe extern "C" fn marker_ex(
    domain: *const Domain,
    clock: *const c_void,
    timestamp: u64,
    id: Id,
    name: *const Text,
    scope: c_int,
) {
    mark(domain, Some((clock, timestamp)), id, name, scope);
}

fn mark(
    domain: *const Domain,
    given: Option<(*const c_void, u64)>,
    id: Id,
    name: *const Text,
    scope: c_int,
) {
    recording(|pen| {
        let Some(known) = pen.known(domain, Kind::Domain) else {
            return;
        };
        let stamp = given.map_or(Stamp::Now, |(clock, timestamp)| pen.stamp(clock, timestamp));
        let head = Head::with(Code::Marker, u8::try_from(scope).unwrap_or(0), known.id());
        pen.write(head, stamp, [pen.text(name), id.0, id.1, id.2]);
    });
}

pub(super) unsafe extern "C" fn event_start(event: c_int) -> c_int {
    happen(Code::EventStart, event)
}

pub(super) unsafe extern "C" fn event_end(event: c_int) -> c_int {
    happen(Code::EventEnd, event)
}

/// Returns 0, ITT's success.
fn happen(code: Code, event: c_int) -> c_int {
    recording(|pen| match u32::try_from(event) {
        Ok(event @ 1..) => pen.write(Head::new(code, event), Stamp::Now, []),
        _ => pen.lost(Cause::Invalid),
    });
    0
}

pub(super) unsafe extern "C" fn sync_prepare(address: *mut c_void) {
    sync(SyncAction::Prepare, address);
}

pub(super) unsafe extern "C" fn sync_cancel(address: *mut c_void) {
    sync(SyncAction::Cancel, address);
}

pub(super) unsafe extern "C" fn sync_acquired(address: *mut c_void) {
    sync(SyncAction::Acquired, address);
}

pub(super) unsafe extern "C" fn sync_releasing(address: *mut c_void) {
    sync(SyncAction::Releasing, address);
}

pub(super) unsafe extern "C" fn sync_destroy(address: *mut c_void) {
    sync(SyncAction::Destroyed, address);
}

fn sync(action: SyncAction, address: *mut c_void) {
    recording(|pen| {
        let head = Head::with(Code::Sync, action as u8, 0);
        pen.write(head, Stamp::Now, [address.addr() as u64]);
    });
}
