//! From the stamps of any clock to `CLOCK_MONOTONIC`, the time base of a recording. In: rows of
//! `clock_pairs`. Out: a [`ClockMap`] that converts a stamp with the bound of its error, and what may
//! be known of two stamps that have such bounds ([`BoundedSpan`], [`Orders`]). Method: `docs/clocks.md`.
//!
//! It is here, beside the table that it interprets, because who records and who diagnoses both convert
//! stamps, and this crate is all that they share. It reads no clock, and it calculates in integers: a
//! 64-bit float holds nanoseconds since 1970 to 256 ns only.

mod map;
mod rates;
mod span;

pub use map::{ClockMap, Stamp};
pub use rates::Nature;
pub use span::{BoundedSpan, Order, Orders};
