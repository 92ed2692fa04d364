//! The last minutes of connections, second by second, for the selected one. In: readings as they
//! come. Out: equal parts of time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use table::Stage;
use table::tables::TcpSample;

/// How far it reaches back.
pub const REACH_NS: u64 = 120_000_000_000;

/// Readings closer than this are put together: ten thousand connections take 30 MB.
const STEP_NS: u64 = 1_000_000_000;

/// One interval between two readings.
#[derive(Debug, Clone, Copy)]
struct HistoryPoint {
    since_ns: u64,
    until_ns: u64,
    out_bytes: u64,
    in_bytes: u64,
    retransmits: u32,
    cwnd: u32,
    srtt_us: u32,
    stage: Option<Stage>,
}

/// One part of the observed time. `None`: not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HistoryBin {
    /// Sent and acknowledged, bytes per second.
    pub out_bytes_per_s: Option<f64>,
    /// Received, bytes per second.
    pub in_bytes_per_s: Option<f64>,
    /// Retransmitted segments.
    pub retransmits: Option<u32>,
    /// Congestion window, segments.
    pub cwnd: Option<u32>,
    /// Smoothed round-trip time, µs.
    pub srtt_us: Option<u32>,
    /// The longest limit of its next byte, as far as a reading shows.
    pub stage: Option<Stage>,
}

/// The history of every connection that is open.
#[derive(Debug, Clone, Default)]
pub struct Histories(Arc<Mutex<HashMap<u64, VecDeque<HistoryPoint>>>>);

impl Histories {
    /// Adds the bytes and retransmissions between two samples.
    pub(super) fn add(&self, earlier: &TcpSample, later: &TcpSample, stage: Option<Stage>) {
        let point = HistoryPoint {
            since_ns: earlier.time_ns,
            until_ns: later.time_ns,
            out_bytes: later.bytes_acked.saturating_sub(earlier.bytes_acked),
            in_bytes: later.bytes_received.saturating_sub(earlier.bytes_received),
            retransmits: later.total_retrans.saturating_sub(earlier.total_retrans),
            cwnd: later.cwnd,
            srtt_us: later.srtt_us,
            stage,
        };
        self.with_points(|all| push_point(all.entry(later.conn).or_default(), point));
    }

    /// Keeps the stage of a connection until the next reading of its ledger.
    pub(super) fn note_stage(&self, conn: u64, stage: Stage) {
        self.with_points(|all| {
            if let Some(last) = all.get_mut(&conn).and_then(VecDeque::back_mut) {
                last.stage = Some(stage);
            }
        });
    }

    /// Forgets the history of connections that are closed.
    pub(super) fn retain_open(&self, is_open: impl Fn(u64) -> bool) {
        self.with_points(|all| all.retain(|conn, _| is_open(*conn)));
    }

    /// Returns the last `length_ns` of a connection as `number` equal bins, the oldest first. Bins before it was first
    /// read are empty.
    pub fn bins(&self, conn: u64, number: usize, length_ns: u64, now_ns: u64) -> Vec<HistoryBin> {
        self.with_points(|all| {
            let points = all.get(&conn);
            let part_ns = (length_ns / number.max(1) as u64).max(1);
            let begin_ns = now_ns.saturating_sub(part_ns * number as u64);
            let bin = |index: usize| {
                let from_ns = begin_ns + part_ns * index as u64;
                points.map_or_else(HistoryBin::default, |points| {
                    sum_bin(points, from_ns, from_ns + part_ns)
                })
            };
            (0..number).map(bin).collect()
        })
    }

    /// Runs `work` with the locked histories of all connections.
    fn with_points<T>(
        &self,
        work: impl FnOnce(&mut HashMap<u64, VecDeque<HistoryPoint>>) -> T,
    ) -> T {
        // what a panic left half done is at most one point of a picture
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Adds a point: extends the last one within a step, and forgets old ones.
fn push_point(points: &mut VecDeque<HistoryPoint>, point: HistoryPoint) {
    let reach_ns = point.until_ns.saturating_sub(REACH_NS);
    while points
        .front()
        .is_some_and(|first| first.until_ns < reach_ns)
    {
        points.pop_front();
    }
    match points.back_mut() {
        Some(last) if point.until_ns - last.since_ns.min(point.until_ns) <= STEP_NS => {
            *last = HistoryPoint {
                since_ns: last.since_ns,
                out_bytes: last.out_bytes + point.out_bytes,
                in_bytes: last.in_bytes + point.in_bytes,
                retransmits: last.retransmits + point.retransmits,
                ..point
            };
        }
        _ => points.push_back(point),
    }
}

/// Sums the points of one part of time. In a time without readings nothing happened.
fn sum_bin(points: &VecDeque<HistoryPoint>, from_ns: u64, to_ns: u64) -> HistoryBin {
    let Some(first) = points.front().filter(|first| first.since_ns < to_ns) else {
        return HistoryBin::default();
    };
    let length_ns = to_ns - from_ns.max(first.since_ns);
    let mut sum = (0.0, 0.0, 0);
    let (mut last, mut longest) = (None, (0, Some(Stage::SenderApp)));
    for point in points.iter().take_while(|point| point.since_ns < to_ns) {
        last = Some(point);
        let overlap_ns = point
            .until_ns
            .min(to_ns)
            .saturating_sub(point.since_ns.max(from_ns));
        let part = overlap_ns as f64 / (point.until_ns - point.since_ns).max(1) as f64;
        sum.0 += point.out_bytes as f64 * part;
        sum.1 += point.in_bytes as f64 * part;
        if (from_ns..to_ns).contains(&(point.until_ns - 1)) {
            sum.2 += point.retransmits;
        }
        if overlap_ns > longest.0 {
            longest = (overlap_ns, point.stage);
        }
    }
    let per_s = 1e9 / length_ns.max(1) as f64;
    HistoryBin {
        out_bytes_per_s: Some(sum.0 * per_s),
        in_bytes_per_s: Some(sum.1 * per_s),
        retransmits: Some(sum.2),
        cwnd: last.map(|last| last.cwnd),
        srtt_us: last.map(|last| last.srtt_us).filter(|us| *us > 0),
        stage: longest.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::gather::samples::tests::sample;

    const S: u64 = 1_000_000_000;

    fn reading(time_ns: u64, bytes: u64) -> TcpSample {
        TcpSample {
            bytes_acked: bytes,
            ..sample(time_ns)
        }
    }

    #[test]
    fn bytes_are_counted_in_the_second_of_their_transfer() {
        let histories = Histories::default();
        histories.add(
            &reading(2 * S, 0),
            &reading(4 * S, 4_000),
            Some(Stage::Nagle),
        );
        let bins = histories.bins(1, 4, 4 * S, 5 * S);
        let out = |index: usize| bins[index].out_bytes_per_s;
        assert_eq!(out(0), None);
        assert_eq!((out(1), out(2)), (Some(2_000.0), Some(2_000.0)));
        // no reading: nothing happened
        assert_eq!((out(3), bins[3].stage), (Some(0.0), Some(Stage::SenderApp)));
        assert_eq!(bins[2].stage, Some(Stage::Nagle));
        assert_eq!(histories.bins(2, 2, S, S), [HistoryBin::default(); 2]);
    }

    #[test]
    fn readings_within_a_second_are_put_together_and_old_ones_forgotten() {
        let histories = Histories::default();
        for quarter in 0..1_000 {
            let (from, to) = (quarter * S / 4, (quarter + 1) * S / 4);
            histories.add(&reading(from, quarter), &reading(to, quarter + 1), None);
        }
        histories.with_points(|all| {
            let points = &all[&1];
            assert!(points.len() <= 122, "{}", points.len());
            let bytes: u64 = points.iter().map(|point| point.out_bytes).sum();
            assert!((480..=488).contains(&bytes), "{bytes}");
        });
    }
}
