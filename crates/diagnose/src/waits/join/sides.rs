//! Calls before the waits of one group: one joined wait at a time in, the report of it out.

use std::collections::BTreeMap;

use super::association::find_association;
use super::counters;
use super::factor::{Factor, SideCounts};
use super::report::{FactorKind, FactorReport, Preceding};
use crate::rows::sends::PrecedingCalls;

/// Slow and fast waits of a group, by what went before them.
#[derive(Debug, Default, PartialEq)]
pub struct WaitSides {
    /// Waits blocked this long or longer are slow, ns.
    pub slow_from_ns: u64,
    waits: SideCounts,
    /// Waits on a connection, or for several when one was ready.
    on_connection: SideCounts,
    sent_bytes: Factor,
    received_bytes: Factor,
    sends: Factor,
    pub(super) counters: BTreeMap<u16, Factor>,
}

impl WaitSides {
    /// Makes a group in which waits of `slow_from_ns` or longer are slow.
    pub fn new(slow_from_ns: u64) -> Self {
        Self {
            slow_from_ns,
            ..Self::default()
        }
    }

    /// Counts a wait, with the last values of its thread's counters.
    pub fn add(&mut self, is_slow: bool, on_connection: bool, values: &[(u16, f64)]) {
        self.waits.add(is_slow);
        if on_connection {
            self.on_connection.add(is_slow);
        }
        for (counter, value) in values {
            self.counters
                .entry(*counter)
                .or_default()
                .add(*value, is_slow);
        }
    }

    /// Adds the calls before a wait, as far as they are known.
    pub fn add_calls(&mut self, is_slow: bool, before: PrecedingCalls) {
        for (factor, number) in [
            (&mut self.sent_bytes, before.sent_bytes),
            (&mut self.received_bytes, before.received_bytes),
            (&mut self.sends, before.sends),
        ] {
            if let Some(number) = number {
                factor.add(number.into(), is_slow);
            }
        }
    }

    /// Returns the associations of slow waits.
    pub fn report(&self, names: &counters::CounterNames) -> Preceding {
        let calls = [&self.sent_bytes, &self.received_bytes, &self.sends];
        let all = self.counters.values().chain(calls);
        let cuts = all.map(Factor::cut_count).sum();
        let factor_report = |what, of, factor: &Factor| {
            FactorReport::new(
                what,
                of,
                factor.count_known(),
                find_association(factor, cuts),
            )
        };
        let of = self.on_connection;
        let mut factors = Vec::new();
        if of != SideCounts::default() {
            factors.push(factor_report(FactorKind::SendBytes, of, &self.sent_bytes));
            factors.push(factor_report(
                FactorKind::ReceiveBytes,
                of,
                &self.received_bytes,
            ));
            factors.push(factor_report(
                FactorKind::SendsSinceReceive,
                of,
                &self.sends,
            ));
        }
        for (number, factor) in &self.counters {
            let counter = names.get(*number).clone();
            let what = FactorKind::Counter {
                domain: counter.domain,
                name: counter.name,
                unit: counter.unit,
                change: counter.is_change,
            };
            factors.push(factor_report(what, self.waits, factor));
        }
        Preceding {
            slow_from_ns: self.slow_from_ns,
            slow: self.waits.slow,
            fast: self.waits.fast,
            counter_values_left_out: names.left_out,
            factors,
        }
    }
}
