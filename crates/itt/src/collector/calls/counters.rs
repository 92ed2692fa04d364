//! Counters and histograms. The only calls whose cost matters: a program may make millions a
//! second.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::collector::abi::{Counter, Domain, Histogram, Text};
use crate::collector::handles::{Entry, Kind};
use crate::collector::pen::{Pen, Stamp, pen, recording};
use crate::layout::Cause;
use crate::value::ValueType;
use crate::wire::{Code, Head};

/// Points of a histogram in one record; more come in several.
const POINTS_MAX: usize = 128;

pub(super) unsafe extern "C" fn counter_set_value(counter: Counter, value: *const c_void) {
    if let Some(pen) = pen() {
        // SAFETY: as of this function.
        unsafe { set(&pen, counter, Stamp::Now, value) };
    }
}

pub(super) unsafe extern "C" fn counter_set_value_v3(counter: Counter, value: *const c_void) {
    if let Some(pen) = pen() {
        // SAFETY: as of this function.
        unsafe { set(&pen, counter, Stamp::Now, value) };
    }
}

pub(super) unsafe extern "C" fn counter_set_value_ex(
    counter: Counter,
    clock: *const c_void,
    timestamp: u64,
    value: *const c_void,
) {
    recording(|pen| {
        let stamp = pen.stamp(clock, timestamp);
        // SAFETY: as of this function.
        unsafe { set(pen, counter, stamp, value) }
    });
}

/// # Safety
///
/// The pointer is null or of a value of the counter's type.
#[inline(always)]
unsafe fn set(pen: &Pen, counter: Counter, stamp: Stamp, value: *const c_void) {
    let Some(known) = pen.known(counter, Kind::Counter) else {
        return;
    };
    let value_type = ValueType::of(known.types()[0].into());
    let (Some(value_type), false) = (value_type, value.is_null()) else {
        return pen.lost(Cause::Invalid);
    };
    let head = Head::with(Code::CounterValue, value_type as u8, known.id());
    // SAFETY: the API demands a value of the type with which the counter was created.
    pen.write(head, stamp, [unsafe { value_type.read(value.cast()) }]);
}

pub(super) unsafe extern "C" fn counter_inc(counter: Counter) {
    change(counter, 1, false);
}

pub(super) unsafe extern "C" fn counter_dec(counter: Counter) {
    change(counter, 1, true);
}

pub(super) unsafe extern "C" fn counter_inc_delta(counter: Counter, delta: u64) {
    change(counter, delta, false);
}

pub(super) unsafe extern "C" fn counter_dec_delta(counter: Counter, delta: u64) {
    change(counter, delta, true);
}

#[inline(always)]
fn change(counter: Counter, delta: u64, is_decrement: bool) {
    if let Some(pen) = pen()
        && let Some(known) = pen.known(counter, Kind::Counter)
    {
        let head = Head::with(Code::CounterDelta, is_decrement.into(), known.id());
        pen.write(head, Stamp::Now, [delta]);
    }
}

pub(super) unsafe extern "C" fn counter_inc_v3(domain: *const Domain, name: *const Text) {
    change_named(domain, name, 1, false);
}

pub(super) unsafe extern "C" fn counter_dec_v3(domain: *const Domain, name: *const Text) {
    change_named(domain, name, 1, true);
}

pub(super) unsafe extern "C" fn counter_inc_delta_v3(
    domain: *const Domain,
    name: *const Text,
    delta: u64,
) {
    change_named(domain, name, delta, false);
}

pub(super) unsafe extern "C" fn counter_dec_delta_v3(
    domain: *const Domain,
    name: *const Text,
    delta: u64,
) {
    change_named(domain, name, delta, true);
}

fn change_named(domain: *const Domain, name: *const Text, delta: u64, is_decrement: bool) {
    recording(|pen| {
        let Some(known) = pen.known(domain, Kind::Domain) else {
            return;
        };
        let head = Head::with(Code::NamedDelta, is_decrement.into(), known.id());
        pen.write(head, Stamp::Now, [pen.text(name), delta]);
    });
}

pub(super) unsafe extern "C" fn counter_destroy(counter: Counter) {
    recording(|pen| {
        if let Some(known) = pen.known(counter, Kind::Counter) {
            pen.write(
                Head::new(Code::CounterDestroyed, known.id()),
                Stamp::Now,
                [],
            );
        }
    });
}

pub(super) unsafe extern "C" fn histogram_submit(
    histogram: *const Histogram,
    length: usize,
    x: *const c_void,
    y: *const c_void,
) {
    recording(|pen| {
        let Some(known) = pen.known(histogram, Kind::Histogram) else {
            return;
        };
        // SAFETY: the API demands arrays of that length, or null.
        let Some(points) = (unsafe { Points::of(known, x, y) }) else {
            return pen.lost(Cause::Invalid);
        };
        for first in (0..length).step_by(POINTS_MAX) {
            let count = POINTS_MAX.min(length - first);
            points.write(pen, known.id(), first, count);
        }
    });
}

/// Points of a histogram, in the program's memory.
struct Points {
    x: Option<(ValueType, *const u8)>,
    y: (ValueType, *const u8),
}

impl Points {
    /// # Safety
    ///
    /// The arrays are null or of the histogram's types.
    unsafe fn of(histogram: Entry, x: *const c_void, y: *const c_void) -> Option<Self> {
        let [y_type, x_type] = histogram.types().map(|number| ValueType::of(number.into()));
        let x = x_type
            .filter(|_| !x.is_null())
            .map(|found| (found, x.cast()));
        let y_type = y_type.filter(|_| !y.is_null())?;
        Some(Points {
            x,
            y: (y_type, y.cast()),
        })
    }

    fn write(&self, pen: &Pen, histogram: u32, first: usize, count: usize) {
        let x_number = self.x.map_or(0, |(x_type, _)| x_type as u8);
        let head = Head::with(Code::HistogramBatch, x_number, histogram);
        let axes = 1 + usize::from(self.x.is_some());
        pen.put(head, Stamp::Now, 3 + axes * count, |room| {
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
