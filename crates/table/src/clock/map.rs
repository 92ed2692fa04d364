//! Pairs of readings → a map from one clock to the reference, in pieces.
//!
//! Each pair says in which window of reference time the clock was read. From there, the range of the
//! clock's rate says in which window any other stamp was taken; the pair before and the pair after
//! each give one. Where the kernel was set to nothing new between the two pairs, the instant lies in the
//! hull of both windows: so it does even if the rate left its range for a while, to one side, unseen.
//! Where it was set, or the ends do not agree, the range is as wide as the kernel allows,
//! and the instant lies where both windows overlap; of a clock that may be set, in their hull, as a
//! small step looks like a fast slew. Where even that cannot join the ends, the clock was set: a gap.

use std::ops::{Range, RangeInclusive};

use super::Nature;
use super::rates::Rates;
use crate::tables::ClockPair;

/// An instant of the reference clock with the bound of its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: u64,
    /// The true time is at most this far from it, nanoseconds.
    pub error_ns: u64,
}

/// Converts times of one clock to the reference.
#[derive(Debug, Clone)]
pub struct ClockMap {
    nature: Nature,
    readings: Vec<Reading>,
    /// From each reading to the next; one fewer than the readings.
    pieces: Vec<Piece>,
    /// Readings without a gap between them.
    runs: Vec<Range<usize>>,
    disordered: u64,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    other_ns: i128,
    window: Window,
}

/// From one reading to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// The clock ran as the kernel was set.
    Steady(Rates),
    /// It ran somehow within the kernel's limits.
    Limited(Rates),
    /// It was set.
    Gap,
}

/// A stretch of reference time that an instant lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    earliest_ns: i128,
    latest_ns: i128,
}

impl ClockMap {
    /// Makes the map of one clock from its pairs, in the order in which they were read. A pair that
    /// is not later than the one before is left out and counted.
    pub fn new<'a>(nature: Nature, pairs: impl IntoIterator<Item = &'a ClockPair>) -> Self {
        let mut map = Self {
            nature,
            readings: Vec::new(),
            pieces: Vec::new(),
            runs: Vec::new(),
            disordered: 0,
        };
        let mut last: Option<&ClockPair> = None;
        for pair in pairs {
            if last.is_some_and(|last| pair.monotonic_ns <= last.monotonic_ns) {
                map.disordered += 1;
                continue;
            }
            map.add(last, pair);
            last = Some(pair);
        }
        map
    }

    /// Adds a pair: it continues the run before, or begins one after a gap.
    fn add(&mut self, last: Option<&ClockPair>, pair: &ClockPair) {
        let index = self.readings.len();
        let piece = last.map(|last| judge_piece(self.nature, last, pair));
        self.pieces.extend(piece);
        self.readings.push(Reading::from_pair(pair));
        match self.runs.last_mut() {
            Some(run) if piece != Some(Piece::Gap) => run.end = index + 1,
            _ => self.runs.push(index..index + 1),
        }
    }

    /// Returns how often the clock was set, or jumped.
    pub fn gaps(&self) -> usize {
        self.runs.len().saturating_sub(1)
    }

    /// Returns how often the clock's rate changed between two readings.
    pub fn unsteady(&self) -> usize {
        let limited = |piece: &&Piece| matches!(piece, Piece::Limited(_));
        self.pieces.iter().filter(limited).count()
    }

    /// Returns the number of pairs left out because they were not later than the one before.
    pub fn count_disordered(&self) -> u64 {
        self.disordered
    }

    /// Converts a time of the clock; `None` if the clock did not show that time between the
    /// readings (clocks that nobody sets are followed beyond them, with a bound that grows). A
    /// time that it showed twice, as it was set back, is both, in one bound.
    pub fn convert(&self, other_ns: i64) -> Option<Stamp> {
        self.convert_within(other_ns, 0..=u64::MAX)
    }

    /// Converts a stamp that was certainly taken in this time of the reference: between two looks at
    /// a ring, for example. Distinguishes two times that the clock showed the same.
    pub fn convert_within(&self, other_ns: i64, taken_ns: RangeInclusive<u64>) -> Option<Stamp> {
        let other_ns = i128::from(other_ns);
        let taken = Window {
            earliest_ns: i128::from(*taken_ns.start()),
            latest_ns: i128::from(*taken_ns.end()),
        };
        let mut found: Option<Window> = None;
        let mut is_possible = |window: Option<Window>| {
            if let Some(window) = window.and_then(|window| window.overlap(taken)) {
                found = Some(found.map_or(window, |found| found.hull(window)));
            }
        };
        let ends_before = |run: &Range<usize>| self.until_ns(run) < taken.earliest_ns;
        let first = self.runs.partition_point(ends_before);
        // nothing is known of the time before the first reading but what follows from it
        for run in &self.runs[first..] {
            if run.start > 0 && self.readings[run.start].window.earliest_ns > taken.latest_ns {
                break;
            }
            is_possible(self.in_run(run, other_ns));
            is_possible(self.in_gap_after(run, other_ns));
        }
        found.and_then(Window::middle_stamp)
    }

    /// Returns the end of a run and of the gap after it, in the other clock's ns.
    fn until_ns(&self, run: &Range<usize>) -> i128 {
        let next = self.readings.get(run.end);
        next.map_or(i128::MAX, |next| next.window.latest_ns)
    }

    /// Returns when the other clock showed `other_ns`, by one run of readings; None if unknown
    /// there.
    fn in_run(&self, run: &Range<usize>, other_ns: i128) -> Option<Window> {
        let readings = &self.readings[run.clone()];
        let after = readings.partition_point(|reading| reading.other_ns <= other_ns);
        let (Some(before), Some(next)) = (after.checked_sub(1), readings.get(after)) else {
            return self.window_beyond(run, other_ns);
        };
        let piece = self.pieces[run.start + before];
        let (Piece::Steady(rates) | Piece::Limited(rates)) = piece else {
            return None;
        };
        let (left, right) = (
            readings[before].count_forward(other_ns, rates),
            next.count_back(other_ns, rates),
        );
        if !self.nature.can_step() && matches!(piece, Piece::Limited(_)) {
            return left.overlap(right);
        }
        let ends = [before, after].map(|end| self.neighbour_window(run, run.start + end, other_ns));
        let ends = ends.into_iter().flatten();
        Some(ends.fold(left.hull(right), Window::hull))
    }

    /// Returns the window of a time in the run before or after, if a small step back may have shown
    /// it again. Set back by it, the clock shows times from just before a reading again after it.
    fn neighbour_window(&self, run: &Range<usize>, index: usize, other_ns: i128) -> Option<Window> {
        let reading = self.readings[index];
        let (from, to) = (index.saturating_sub(1), (index + 2).min(run.end));
        let around = &self.readings[from.max(run.start)..to];
        let hidden_ns: i128 = around.iter().map(|reading| reading.window.width_ns()).sum();
        let is_beside = (other_ns - reading.other_ns).abs() <= hidden_ns;
        (self.nature.can_step() && is_beside).then_some(Window {
            earliest_ns: reading.window.earliest_ns - hidden_ns,
            latest_ns: reading.window.latest_ns + hidden_ns,
        })
    }

    /// Returns the window of a time before the first reading, or after the last.
    fn window_beyond(&self, run: &Range<usize>, other_ns: i128) -> Option<Window> {
        if self.nature.can_step() {
            let ends =
                [run.start, run.end - 1].map(|end| self.neighbour_window(run, end, other_ns));
            return ends.into_iter().flatten().reduce(Window::hull);
        }
        let (first, last) = (self.readings[run.start], self.readings[run.end - 1]);
        let rates = self.nature.limit();
        if last.other_ns != other_ns && self.gaps() > 0 {
            return None;
        }
        Some(if other_ns < first.other_ns {
            first.count_back(other_ns, rates)
        } else {
            last.count_forward(other_ns, rates)
        })
    }

    /// Returns the window of a time in a gap. The clock showed what followed the reading before it, and what led to the
    /// reading after it; when it changed from one to the other is not known.
    fn in_gap_after(&self, run: &Range<usize>, other_ns: i128) -> Option<Window> {
        let (before, after) = (self.readings[run.end - 1], self.readings.get(run.end)?);
        let gap = before.window.hull(after.window);
        let span_ns = gap.latest_ns - gap.earliest_ns;
        let most_ns = self.nature.limit().most_other_ns(span_ns);
        let followed = (0..=most_ns).contains(&(other_ns - before.other_ns));
        let led = (0..=most_ns).contains(&(after.other_ns - other_ns));
        (followed || led).then_some(gap)
    }
}

/// Decides how the clock came from one reading to the next: steady, limited, or by a gap.
fn judge_piece(nature: Nature, from: &ClockPair, to: &ClockPair) -> Piece {
    let (left, right) = (Reading::from_pair(from), Reading::from_pair(to));
    let joins = |rates: &Rates| left.joins(right, *rates);
    if to.set == Some(true) {
        return Piece::Gap;
    }
    if let Some(rates) = nature.steady(from, to).filter(joins) {
        return Piece::Steady(rates);
    }
    let steered = nature.steered(from, to).filter(joins);
    let limited = steered.or_else(|| Some(nature.limit()).filter(joins));
    limited.map_or(Piece::Gap, Piece::Limited)
}

impl Reading {
    /// Takes the times of a pair of clocks.
    fn from_pair(pair: &ClockPair) -> Self {
        let (middle_ns, error_ns) = (i128::from(pair.monotonic_ns), i128::from(pair.error_ns));
        Self {
            other_ns: i128::from(pair.other_ns),
            window: Window {
                earliest_ns: middle_ns - error_ns,
                // readings are cut to whole nanoseconds: the second may be almost one later
                latest_ns: middle_ns + error_ns + 1,
            },
        }
    }

    /// Returns the window in which the clock showed a time, counted on from this reading.
    fn count_forward(self, other_ns: i128, rates: Rates) -> Window {
        let (least_ns, most_ns) = rates.reference_ns(other_ns - self.other_ns);
        Window {
            earliest_ns: self.window.earliest_ns + least_ns,
            latest_ns: self.window.latest_ns + most_ns,
        }
    }

    /// Returns the window in which the clock showed a time, counted back from this reading.
    fn count_back(self, other_ns: i128, rates: Rates) -> Window {
        let (least_ns, most_ns) = rates.reference_ns(self.other_ns - other_ns);
        Window {
            earliest_ns: self.window.earliest_ns - most_ns,
            latest_ns: self.window.latest_ns - least_ns,
        }
    }

    /// Returns whether the clock could run from this reading to a later one.
    fn joins(self, next: Self, rates: Rates) -> bool {
        next.other_ns >= self.other_ns
            && self
                .count_forward(next.other_ns, rates)
                .overlap(next.window)
                .is_some()
    }
}

impl Window {
    /// Returns the time that both windows have; None if they do not overlap.
    fn overlap(self, other: Self) -> Option<Self> {
        let overlap = Self {
            earliest_ns: self.earliest_ns.max(other.earliest_ns),
            latest_ns: self.latest_ns.min(other.latest_ns),
        };
        (overlap.earliest_ns <= overlap.latest_ns).then_some(overlap)
    }

    /// Returns the shortest window with both in it.
    fn hull(self, other: Self) -> Self {
        Self {
            earliest_ns: self.earliest_ns.min(other.earliest_ns),
            latest_ns: self.latest_ns.max(other.latest_ns),
        }
    }

    /// Returns the length of the window, in nanoseconds.
    fn width_ns(self) -> i128 {
        self.latest_ns - self.earliest_ns
    }

    /// Returns the middle of the window with its error bound; `None` outside of 64 bits.
    fn middle_stamp(self) -> Option<Stamp> {
        let width_ns = self.width_ns();
        Some(Stamp {
            monotonic_ns: u64::try_from(self.earliest_ns + width_ns / 2).ok()?,
            error_ns: u64::try_from((width_ns + 1) / 2).ok()?,
        })
    }
}
