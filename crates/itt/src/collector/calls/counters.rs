//! Counters and histograms. The cost of these calls matters: a program may make millions a
//! second.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::collector::abi::{Counter, DomainHandle, Histogram, TextHandle};
use crate::collector::handles::{HandleEntry, HandleKind};
use crate::collector::record_writer::{RecordTime, RecordWriter, record_writer, with_writer};
use crate::layout::LossCause;
use crate::value::ValueType;
use crate::wire::{RecordCode, RecordHead};

/// Points of a histogram in one record; more come in several.
const POINTS_MAX: usize = 128;

/// Sets a counter to a value.
///
/// # Safety
///
/// `value` is null or points to a value of the counter's type.
pub(super) unsafe extern "C" fn counter_set_value(counter: Counter, value: *const c_void) {
    if let Some(writer) = record_writer() {
        // SAFETY: the caller promises the same.
        unsafe { set(&writer, counter, RecordTime::Now, value) };
    }
}

/// Sets a counter to a value.
///
/// # Safety
///
/// `value` is null or points to a value of the counter's type.
pub(super) unsafe extern "C" fn counter_set_value_v3(counter: Counter, value: *const c_void) {
    if let Some(writer) = record_writer() {
        // SAFETY: the caller promises the same.
        unsafe { set(&writer, counter, RecordTime::Now, value) };
    }
}

/// Sets a counter to a value, with the program's own time.
///
/// # Safety
///
/// `value` is null or points to a value of the counter's type.
pub(super) unsafe extern "C" fn counter_set_value_ex(
    counter: Counter,
    clock: *const c_void,
    timestamp: u64,
    value: *const c_void,
) {
    with_writer(|writer| {
        let stamp = writer.stamp(clock, timestamp);
        // SAFETY: the caller promises the same.
        unsafe { set(writer, counter, stamp, value) }
    });
}

/// Writes the record of a counter's value.
///
/// # Safety
///
/// The pointer is null or of a value of the counter's type.
#[inline(always)]
unsafe fn set(writer: &RecordWriter, counter: Counter, stamp: RecordTime, value: *const c_void) {
    let Some(known) = writer.find_entry(counter, HandleKind::Counter) else {
        return;
    };
    let value_type = ValueType::from_number(known.types()[0].into());
    let (Some(value_type), false) = (value_type, value.is_null()) else {
        return writer.count_loss(LossCause::Invalid);
    };
    let head = RecordHead::with(RecordCode::CounterValue, value_type as u8, known.id());
    // SAFETY: the API demands a value of the type with which the counter was created.
    writer.write(head, stamp, [unsafe { value_type.read(value.cast()) }]);
}

/// Adds 1 to a counter.
pub(super) extern "C" fn counter_inc(counter: Counter) {
    change(counter, 1, false);
}

/// Subtracts 1 from a counter.
pub(super) extern "C" fn counter_dec(counter: Counter) {
    change(counter, 1, true);
}

/// Adds `delta` to a counter.
pub(super) extern "C" fn counter_inc_delta(counter: Counter, delta: u64) {
    change(counter, delta, false);
}

/// Subtracts `delta` from a counter.
pub(super) extern "C" fn counter_dec_delta(counter: Counter, delta: u64) {
    change(counter, delta, true);
}

/// Writes the record of a counter's change.
#[inline(always)]
fn change(counter: Counter, delta: u64, is_decrement: bool) {
    if let Some(writer) = record_writer()
        && let Some(known) = writer.find_entry(counter, HandleKind::Counter)
    {
        let head = RecordHead::with(RecordCode::CounterDelta, is_decrement.into(), known.id());
        writer.write(head, RecordTime::Now, [delta]);
    }
}

/// Adds 1 to the counter of this name.
pub(super) extern "C" fn counter_inc_v3(domain: *const DomainHandle, name: *const TextHandle) {
    change_named(domain, name, 1, false);
}

/// Subtracts 1 from the counter of this name.
pub(super) extern "C" fn counter_dec_v3(domain: *const DomainHandle, name: *const TextHandle) {
    change_named(domain, name, 1, true);
}

/// Adds `delta` to the counter of this name.
pub(super) extern "C" fn counter_inc_delta_v3(
    domain: *const DomainHandle,
    name: *const TextHandle,
    delta: u64,
) {
    change_named(domain, name, delta, false);
}

/// Subtracts `delta` from the counter of this name.
pub(super) extern "C" fn counter_dec_delta_v3(
    domain: *const DomainHandle,
    name: *const TextHandle,
    delta: u64,
) {
    change_named(domain, name, delta, true);
}

/// Writes the record of a change of the counter of this name.
fn change_named(
    domain: *const DomainHandle,
    name: *const TextHandle,
    delta: u64,
    is_decrement: bool,
) {
    with_writer(|writer| {
        let Some(known) = writer.find_entry(domain, HandleKind::Domain) else {
            return;
        };
        let head = RecordHead::with(RecordCode::NamedDelta, is_decrement.into(), known.id());
        writer.write(head, RecordTime::Now, [writer.text(name), delta]);
    });
}

/// Forgets a counter.
pub(super) extern "C" fn counter_destroy(counter: Counter) {
    with_writer(|writer| {
        if let Some(known) = writer.find_entry(counter, HandleKind::Counter) {
            writer.write(
                RecordHead::new(RecordCode::CounterDestroyed, known.id()),
                RecordTime::Now,
                [],
            );
        }
    });
}

/// Records the points of a histogram.
///
/// # Safety
///
/// `x` and `y` are null or point to `length` values of the histogram's types.
pub(super) unsafe extern "C" fn histogram_submit(
    histogram: *const Histogram,
    length: usize,
    x: *const c_void,
    y: *const c_void,
) {
    with_writer(|writer| {
        let Some(known) = writer.find_entry(histogram, HandleKind::Histogram) else {
            return;
        };
        // SAFETY: the API demands arrays of that length, or null.
        let Some(points) = (unsafe { HistogramPoints::new(known, x, y) }) else {
            return writer.count_loss(LossCause::Invalid);
        };
        for first in (0..length).step_by(POINTS_MAX) {
            let count = POINTS_MAX.min(length - first);
            points.write(writer, known.id(), first, count);
        }
    });
}

/// Points of a histogram, in the program's memory.
struct HistogramPoints {
    x: Option<(ValueType, *const u8)>,
    y: (ValueType, *const u8),
}

impl HistogramPoints {
    /// Takes the points of a histogram; `None` if the types are unknown.
    ///
    /// # Safety
    ///
    /// The arrays are null or of the histogram's types.
    unsafe fn new(histogram: HandleEntry, x: *const c_void, y: *const c_void) -> Option<Self> {
        let [y_type, x_type] = histogram
            .types()
            .map(|number| ValueType::from_number(number.into()));
        let x = x_type
            .filter(|_| !x.is_null())
            .map(|found| (found, x.cast()));
        let y_type = y_type.filter(|_| !y.is_null())?;
        Some(HistogramPoints {
            x,
            y: (y_type, y.cast()),
        })
    }

    /// Writes some points of a histogram as one record.
    fn write(&self, writer: &RecordWriter, histogram: u32, first: usize, count: usize) {
        let x_number = self.x.map_or(0, |(x_type, _)| x_type as u8);
        let head = RecordHead::with(RecordCode::HistogramBatch, x_number, histogram);
        let axes = 1 + usize::from(self.x.is_some());
        writer.put(head, RecordTime::Now, 3 + axes * count, |room| {
            let start = [self.y.0 as u64, first as u64, count as u64];
            let values =
                [Some(self.y), self.x]
                    .into_iter()
                    .flatten()
                    .flat_map(|(value_type, array)| {
                        (first..first + count).map(move |index| {
                            // SAFETY: `histogram_submit` passes indices below the arrays' length.
                            unsafe { value_type.read(array.add(index * value_type.bytes())) }
                        })
                    });
            for (place, word) in room.iter().zip(start.into_iter().chain(values)) {
                place.store(word, Ordering::Relaxed);
            }
        });
    }
}
