//! Counters: those of the program, and what the kernel says of each connection.

use std::collections::HashMap;
use std::io;

use table::tables::{Counter, Counters, TcpSample};
use table::{Columns, CounterKind, Recording};

use super::trace::{CounterUnit, CounterValue, TrackId, TrackKind};
use super::tracks::TraceDrawing;

/// Draws the counters of programs; those that only grow begin at zero.
pub(super) fn draw_programs(
    drawing: &mut TraceDrawing<'_>,
    recording: &Recording,
) -> io::Result<()> {
    let mut counters: HashMap<Key, Running> = HashMap::new();
    for rows in recording.batches::<Counter>() {
        for row in 0..rows.len() {
            let Some(value) = value(&rows, row) else {
                continue;
            };
            let key = Key::from_row(&rows, row);
            let counter = match counters.get_mut(&key) {
                Some(counter) => counter,
                None => {
                    let track = draw_track(drawing, &rows, row)?;
                    let count = CounterValue::Whole(0);
                    counters.entry(key).or_insert(Running { track, count })
                }
            };
            counter.count = counter.count.after(rows.kind[row], value);
            let (track, count) = (counter.track, counter.count);
            drawing.trace.count(track, rows.time_ns[row], count)?;
        }
    }
    Ok(())
}

/// Identity of a counter.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    pid: u32,
    domain: Option<String>,
    name: Option<String>,
    counter: Option<u32>,
}

struct Running {
    track: TrackId,
    count: CounterValue,
}

impl Key {
    /// Returns what identifies the counter of a row.
    fn from_row(rows: &Counters, row: usize) -> Self {
        Self {
            pid: rows.pid[row],
            domain: rows.domain[row].clone(),
            name: rows.name[row].clone(),
            counter: rows.counter[row],
        }
    }
}

/// Makes the track of a counter, below its process.
fn draw_track(drawing: &mut TraceDrawing<'_>, rows: &Counters, row: usize) -> io::Result<TrackId> {
    let process = drawing.process(rows.pid[row])?;
    let domain = rows.domain[row].iter().map(|domain| format!("{domain} "));
    let name = rows.name[row].as_deref().unwrap_or("(name lost)");
    let growth = match rows.kind[row] {
        CounterKind::Set => "",
        CounterKind::Increment | CounterKind::Decrement => " since the recording began",
    };
    let name = format!("{}{name}{growth}", domain.collect::<String>());
    let unit = rows.unit[row].as_deref();
    let of = TrackKind::Counter(&name, unit.map_or(CounterUnit::Unknown, CounterUnit::Named));
    drawing.trace.track(of, Some(process), None)
}

/// Returns the value of a row; None if it has none.
fn value(rows: &Counters, row: usize) -> Option<CounterValue> {
    let unsigned = rows.value_u64[row].map(|value| match i64::try_from(value) {
        Ok(value) => CounterValue::Whole(value),
        Err(_) => CounterValue::Real(value as f64),
    });
    let signed = rows.value_s64[row].map(CounterValue::Whole);
    let real = rows.value_f64[row].map(CounterValue::Real);
    unsigned.or(signed).or(real)
}

impl CounterValue {
    /// Returns the value of the counter after a change. A value of more than 64 bits becomes a
    /// floating-point number.
    fn after(self, kind: CounterKind, change: Self) -> Self {
        let sum = |sign: i64| {
            let whole = match (self, change) {
                (Self::Whole(value), Self::Whole(by)) => {
                    by.checked_mul(sign).and_then(|by| value.checked_add(by))
                }
                _ => None,
            };
            whole.map_or(
                Self::Real(self.to_real() + sign as f64 * change.to_real()),
                Self::Whole,
            )
        };
        match kind {
            CounterKind::Set => change,
            CounterKind::Increment => sum(1),
            CounterKind::Decrement => sum(-1),
        }
    }

    /// Returns the value as a real number.
    fn to_real(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Real(value) => value,
        }
    }
}

/// Draws RTT and congestion window of connections.
pub(super) fn draw_connections(
    drawing: &mut TraceDrawing<'_>,
    recording: &Recording,
) -> io::Result<()> {
    let mut tracks: HashMap<u64, [TrackId; 2]> = HashMap::new();
    for rows in recording.batches::<TcpSample>() {
        for row in 0..rows.len() {
            let conn = rows.conn[row];
            let [rtt, cwnd] = match tracks.get(&conn) {
                Some(known) => *known,
                None => *tracks.entry(conn).or_insert(draw_gauges(drawing, conn)?),
            };
            let time_ns = rows.time_ns[row];
            // The kernel has none before the first sample of it.
            if rows.srtt_us[row] > 0 {
                let count = CounterValue::Whole(i64::from(rows.srtt_us[row]) * 1_000);
                drawing.trace.count(rtt, time_ns, count)?;
            }
            let count = CounterValue::Whole(rows.cwnd[row].into());
            drawing.trace.count(cwnd, time_ns, count)?;
        }
    }
    Ok(())
}

/// Makes the tracks of a connection's RTT and congestion window.
fn draw_gauges(drawing: &mut TraceDrawing<'_>, conn: u64) -> io::Result<[TrackId; 2]> {
    let connection = drawing.connection(conn)?;
    let name = drawing.names.connection(conn).name;
    let mut gauge = |what: &str, unit| {
        let name = format!("{name} {what}");
        let of = TrackKind::Counter(&name, unit);
        drawing.trace.track(of, Some(connection), None)
    };
    Ok([
        gauge("rtt", CounterUnit::Ns)?,
        gauge("cwnd", CounterUnit::Named("segments"))?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_set_grow_and_fall() {
        let (zero, ten) = (CounterValue::Whole(0), CounterValue::Whole(10));
        assert_eq!(CounterValue::Whole(3).after(CounterKind::Set, ten), ten);
        assert_eq!(
            zero.after(CounterKind::Decrement, ten),
            CounterValue::Whole(-10)
        );
        let half = ten.after(CounterKind::Increment, CounterValue::Real(0.5));
        assert_eq!(half, CounterValue::Real(10.5));
        let most = CounterValue::Whole(i64::MAX).after(CounterKind::Increment, ten);
        assert_eq!(most, CounterValue::Real(i64::MAX as f64 + 10.0));
    }
}
