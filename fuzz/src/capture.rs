//! Packet captures.

use std::io::Cursor;

use import::{CaptureReader, ImportError, Vantage};
use table::Columns;

/// A pcap or pcapng file. Every packet is accounted for, no time is judged twice, and both ends have one peer each.
pub fn pcap(bytes: &[u8]) {
    let files = [("x".to_owned(), Box::new(Cursor::new(bytes.to_vec())) as _)];
    let Ok(reader) = CaptureReader::new(files) else {
        return;
    };
    let read = reader.read(Vantage::Estimated, |rows| -> Result<(), ImportError> {
        for index in 0..rows.tcp_stages.len() {
            let row = rows.tcp_stages.row(index);
            let judged: u64 = row.stages_ns().iter().map(|(_, ns)| ns).sum();
            assert_eq!(judged, row.time_ns - row.since_ns);
        }
        let ends = rows
            .connections
            .conn
            .iter()
            .zip(&rows.connections.peer_conn);
        assert!(ends.into_iter().all(|(conn, peer)| Some(*conn) != *peer));
        Ok(())
    });
    if let Ok(import) = read {
        assert_eq!(import.tally.residual(), 0);
    }
}
