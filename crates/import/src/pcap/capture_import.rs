//! Counts of a capture: its packets and connections.

use table::RowSet;

use super::connection::Connection;
use crate::Tally;

/// Connections that a capture holds, and counts of packets that were used or not.
#[derive(Debug, Default)]
pub struct CaptureImport {
    /// How many packets were used, and why others were not.
    pub tally: Tally,
    /// Notes on the capture for the reader.
    pub notes: Vec<String>,
    /// Connections, each with two ends.
    pub connections: u64,
    /// Attempts to connect that failed.
    pub failed: u64,
    /// Connections that the capture shows from their SYN on.
    pub from_begin: u64,
    /// Bytes that receivers acknowledged and the capture does not have.
    pub unseen_bytes: u64,
    /// Packets that the capturing host dropped, as the files say.
    pub dropped: u64,
    /// Round trips of all connections to the client's side and to the server's, ns: their sums.
    pub trips_ns: [u64; 2],
    /// When the last packet was captured, in the recording's time.
    pub last_ns: u64,
}

impl CaptureImport {
    /// Counts a closed connection, and writes its last rows.
    pub(super) fn finish(&mut self, mut connection: Connection, rows: &mut RowSet) {
        connection.finish(rows);
        if connection.is_failed() {
            self.failed += 1;
            return;
        }
        self.connections += 1;
        self.from_begin += u64::from(connection.times.syn_ns.is_some());
        let halves = connection.halves.iter();
        self.unseen_bytes += halves.map(|half| half.counts.unseen_bytes).sum::<u64>();
        let ends = [connection.client, 1 - connection.client];
        for (sum, end) in self.trips_ns.iter_mut().zip(ends) {
            *sum += connection.sides[end].least_ns.unwrap_or(0);
        }
    }
}
