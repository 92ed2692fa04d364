//! Rows of one connection that are kept while its last seconds are judged: its readings since the window began and the one
//! before, from which counters count.

use std::collections::VecDeque;

use table::tables::{Connection, TcpSample, TcpStage};

use crate::connections::gather::ConnectionDigest;

/// The readings that count: those since `from_ns`, a poll. `before_ns` is the poll before it, `last_ns` the latest one.
#[derive(Debug, Clone, Copy)]
pub struct LiveSpan {
    /// When the window begins.
    pub from_ns: u64,
    /// The poll before: what brought no row then was as in its last row.
    pub before_ns: u64,
    /// The latest poll; the same holds for it.
    pub last_ns: u64,
}

/// One connection.
#[derive(Debug, Default)]
pub struct RecentRows {
    /// Identity; `None` until its row comes.
    pub identity: Option<Connection>,
    samples: VecDeque<TcpSample>,
    stages: VecDeque<TcpStage>,
}

impl RecentRows {
    /// Adds a row on the connection: addresses, process, times.
    pub fn add_identity(&mut self, row: Connection) {
        let known = self.identity.take();
        let mut rows = table::tables::Connections::default();
        for row in known.into_iter().chain([row]) {
            table::Columns::push(&mut rows, row);
        }
        let folded = table::fold_connections(rows);
        self.identity = Some(table::Columns::row(&folded, 0));
    }

    /// Adds a sample of the connection.
    pub fn add_sample(&mut self, sample: TcpSample) {
        self.samples.push_back(sample);
    }

    /// Adds a reading of the ledger.
    pub fn add_stage(&mut self, reading: TcpStage) {
        self.stages.push_back(reading);
    }

    /// Returns the last sample; `None` without any.
    pub fn sample(&self) -> Option<&TcpSample> {
        self.samples.back()
    }

    /// The last reading of the ledger.
    pub fn stage(&self) -> Option<&TcpStage> {
        self.stages.back()
    }

    /// Returns the number of kept readings.
    #[cfg(test)]
    pub fn reading_count(&self) -> usize {
        self.samples.len() + self.stages.len()
    }

    /// Returns whether the connection closed before `time_ns`.
    pub fn closed_before(&self, time_ns: u64) -> bool {
        let closed_ns = self
            .identity
            .as_ref()
            .and_then(|identity| identity.closed_ns);
        closed_ns.is_some_and(|closed_ns| closed_ns < time_ns)
    }

    /// Drops readings that no window needs any more.
    pub fn forget_before(&mut self, from_ns: u64) {
        while self
            .samples
            .get(1)
            .is_some_and(|next| next.time_ns < from_ns)
        {
            self.samples.pop_front();
        }
        while self
            .stages
            .get(1)
            .is_some_and(|next| next.time_ns < from_ns)
        {
            self.stages.pop_front();
        }
    }

    /// Returns whether the connection changed since `from_ns`.
    pub fn is_active(&self, from_ns: u64) -> bool {
        let sampled = self
            .samples
            .back()
            .is_some_and(|last| last.time_ns >= from_ns);
        sampled
            || self
                .stages
                .back()
                .is_some_and(|last| last.time_ns >= from_ns)
    }

    /// Gives the readings of the window to a digest; polls without a row mean an idle connection.
    pub fn add_to_digest(&self, span: LiveSpan, to: &mut ConnectionDigest) {
        let within = (span.from_ns, u64::MAX);
        to.identity = self.identity.clone();
        let is_open = self
            .identity
            .as_ref()
            .is_none_or(|identity| identity.closed_ns.is_none());
        for sample in &self.samples {
            let mut sample = sample.clone();
            if sample.time_ns < span.from_ns {
                sample.time_ns = sample.time_ns.max(span.before_ns);
            }
            to.samples.add(sample, within);
        }
        let last = self
            .samples
            .back()
            .filter(|last| is_open && last.time_ns < span.last_ns);
        if let Some(last) = last {
            let unchanged = TcpSample {
                time_ns: span.last_ns,
                ..last.clone()
            };
            to.samples.add(unchanged, within);
        }
        for reading in &self.stages {
            if reading.time_ns < span.from_ns {
                to.ledger.add(idle_until(reading, span.before_ns), within);
            } else {
                to.ledger.add(reading.clone(), within);
            }
        }
        let last = self.stages.back().filter(|last| is_open && !last.closed);
        if let Some(last) = last.filter(|last| last.time_ns < span.last_ns) {
            to.ledger.add(idle_until(last, span.last_ns), within);
        }
    }
}

/// Returns the ledger after the socket had nothing to send until a time.
fn idle_until(reading: &TcpStage, until_ns: u64) -> TcpStage {
    let idle_ns = until_ns.saturating_sub(reading.time_ns);
    TcpStage {
        time_ns: reading.time_ns + idle_ns,
        sender_app_ns: reading.sender_app_ns + idle_ns,
        ..reading.clone()
    }
}
