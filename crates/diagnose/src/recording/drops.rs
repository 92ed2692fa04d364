//! Drops and resets of an opened recording.

use table::tables::{DropCount, NetCounter, PacketDrop, TcpEvent};
use table::{Columns, Recording, Table, table};

use super::{NAMING, recording_state};
use crate::drops::{DropReport, DropTable};
use crate::waits::NameTable;

table! {
    /// Columns of `tcp_samples`, which has many more.
    row RetransmissionCount, columns RetransmissionCounts, name "tcp_samples", time time_ns {
        /// Socket cookie.
        conn: u64, "-";
        /// When the sample was taken.
        time_ns: u64, "ns";
        /// Segments retransmitted; counter.
        total_retrans: u32, "segments";
    }
}

/// Returns the drops and resets of a recording, and lists the first `limit` of them.
pub fn report_drops(recording: &Recording, limit: usize) -> DropReport {
    let mut names = NameTable::default();
    recording.feed(NAMING, &mut [&mut names]);
    let header = recording.header().clone();
    let mut table = DropTable::new(header, names.complete(), limit);
    for_each_row::<DropCount>(recording, |row| table.add_count(row));
    for_each_row::<NetCounter>(recording, |row| table.add_counter(row));
    for_each_row::<PacketDrop>(recording, |row| table.add_drop(&row));
    recording.scan::<RetransmissionCount>(|rows: RetransmissionCounts| {
        let readings = rows.conn.iter().zip(&rows.time_ns).zip(&rows.total_retrans);
        readings.for_each(|((conn, time_ns), count)| table.add_reading(*conn, *time_ns, *count));
    });
    for_each_row::<TcpEvent>(recording, |row| table.add_event(&row));
    table.report(recording_state(recording))
}

/// Returns whether a recording holds what the kernel counted of drops, or could have.
pub fn has_drops(recording: &Recording) -> bool {
    recording.rows::<DropCount>() > 0
}

/// Calls `take` for each row of a table.
fn for_each_row<T: Table>(recording: &Recording, mut take: impl FnMut(T)) {
    recording.scan::<T>(|rows| {
        for index in 0..rows.len() {
            take(rows.row(index));
        }
    });
}
