//! Slow start of connections: how long it was the limit, and how many round trips it needs for the data of a connection.

use std::rc::Rc;

use table::manifest::Header;
use table::tables::{TcpSamples, TcpStages};
use table::{Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::kernel::TCP_INIT_CWND;
use crate::rows::hash::ConnectionMap;
use crate::waits::NameTable;

/// Slow start of one end of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlowStart {
    /// Time in which the congestion window was the limit of this end before the first loss, ns; `None`: it has no ledger.
    pub limited_ns: Option<u64>,
    /// Bytes that the other end acknowledged.
    pub sent_bytes: u64,
    /// Bytes that came.
    pub received_bytes: u64,
    /// Bytes of a full segment.
    pub mss_bytes: u64,
}

impl SlowStart {
    /// Returns the round trips that a new connection needs for so many bytes, beyond the one that a large window needs: the first
    /// window is doubled each time (RFC 5681, 3.1; RFC 6928). HyStart may end that earlier, and a path may be too narrow.
    pub fn extra_rounds(&self, bytes: u64) -> u64 {
        let first_bytes = TCP_INIT_CWND * self.mss_bytes;
        if first_bytes == 0 {
            return 0;
        }
        let windows = bytes.div_ceil(first_bytes);
        // after k round trips 2^k - 1 first windows are sent
        u64::from(windows.checked_ilog2().unwrap_or(0))
    }
}

/// Slow start of all connections.
#[derive(Debug, Default)]
pub struct SlowStartDigest {
    connections: ConnectionMap<SlowStart>,
}

impl RecordingDigest for SlowStartDigest {
    fn new(_: &Header, _: &Rc<NameTable>) -> Self {
        Self::default()
    }
}

impl TableConsumer for SlowStartDigest {
    fn is_reader_of(&self, table: TableId) -> bool {
        matches!(table, TableId::TcpSample | TableId::TcpStage)
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::TcpSample(rows) => self.add_samples(rows),
            Rows::TcpStage(rows) => self.add_readings(rows),
            _ => {}
        }
    }
}

impl SlowStartDigest {
    /// Adds counters, which only grow.
    fn add_samples(&mut self, rows: &TcpSamples) {
        for row in 0..rows.conn.len() {
            let known = self.connection_mut(rows.conn[row]);
            known.sent_bytes = known.sent_bytes.max(rows.bytes_acked[row]);
            known.received_bytes = known.received_bytes.max(rows.bytes_received[row]);
            known.mss_bytes = known.mss_bytes.max(rows.mss_bytes[row].into());
        }
    }

    /// Adds readings of ledgers, which only grow.
    fn add_readings(&mut self, rows: &TcpStages) {
        for row in 0..rows.conn.len() {
            let known = self.connection_mut(rows.conn[row]);
            let limited_ns = known.limited_ns.unwrap_or(0);
            known.limited_ns = Some(limited_ns.max(rows.cwnd_startup_ns[row]));
        }
    }

    /// Returns the slow start of this end of a connection; `None`: nothing is known of it.
    pub fn connection(&self, conn: u64) -> Option<&SlowStart> {
        self.connections.get(conn)
    }

    fn connection_mut(&mut self, conn: u64) -> &mut SlowStart {
        let position = self.connections.position(conn);
        self.connections.at(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_doubles_each_round_trip() {
        let start = SlowStart {
            mss_bytes: 1_448,
            ..SlowStart::default()
        };
        // the first window carries 14,480 bytes, the first two 43,440, the first three 101,360
        let bytes = [0, 14_480, 14_481, 43_440, 43_441, 101_360, 101_361];
        let rounds = bytes.map(|bytes| start.extra_rounds(bytes));
        assert_eq!(rounds, [0, 0, 1, 1, 2, 2, 3]);
        assert_eq!(SlowStart::default().extra_rounds(1_000), 0);
    }
}
