//! Finds what TCP held back, by request. The ledger of a connection says how long each stage lasted between two readings; the
//! requests that waited for the connection meanwhile share it. A request that waited longer than others has more of it: by
//! the square of its time, as a stall of 200 ms belongs to the request that took 201 ms, not to those of 1 ms beside it.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use table::Columns;
use table::tables::TcpStages;

use super::endpoint::{Endpoint, EndpointId, EndpointTable};
use super::exchange::Exchange;
use super::part::RequestPart;
use super::trail::{RequestBreakdown, RequestStep, STEPS_MOST};
use crate::rows::hash::CookieHasher;

/// A stage that lasted between two readings of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct HeldStage {
    /// The later reading.
    until_ns: u64,
    /// The reading before.
    from_ns: u64,
    part: RequestPart,
    ns: u64,
}

/// The stages of all connections in which data was held.
#[derive(Debug, Default)]
pub struct StageTable {
    /// No thread was seen: what is unknown of a client may have been TCP's.
    is_capture: bool,
    /// By connection, in the order of time once no more come.
    held: HashMap<EndpointId, Vec<HeldStage>, BuildHasherDefault<CookieHasher>>,
    latest: HashMap<EndpointId, (u64, Vec<u64>)>,
}

impl StageTable {
    /// Makes an empty collection of stages. `is_capture`: the recording comes from a packet capture.
    pub fn new(is_capture: bool) -> Self {
        Self {
            is_capture,
            ..Self::default()
        }
    }

    /// Adds rows of table `tcp_stages`, in the order of time for each connection.
    pub fn add(&mut self, rows: &TcpStages, endpoints: &mut EndpointTable) {
        for index in 0..rows.len() {
            let Some(endpoint) = endpoints.find(rows.conn[index]) else {
                continue;
            };
            let row = rows.row(index);
            let now: Vec<_> = row.stages_ns().into_iter().collect();
            let latest = self.latest.entry(endpoint);
            let (from_ns, before) = latest.or_insert_with(|| (row.since_ns, vec![0; now.len()]));
            if row.time_ns < *from_ns {
                continue;
            }
            for ((stage, ns), before) in now.iter().zip(before.iter_mut()) {
                let grew_ns = ns.saturating_sub(*before);
                *before = *ns;
                if let Some(part) = RequestPart::of_stage(*stage).filter(|_| grew_ns > 0) {
                    self.held.entry(endpoint).or_default().push(HeldStage {
                        until_ns: row.time_ns,
                        from_ns: *from_ns,
                        part,
                        ns: grew_ns,
                    });
                }
            }
            *from_ns = row.time_ns;
        }
    }

    /// Sorts the readings; no more come.
    pub fn finish(&mut self) {
        self.latest = HashMap::default();
        for held in self.held.values_mut() {
            held.sort_unstable();
        }
    }

    /// Returns the reading after which no stage is shared any more with what ended then; `None`: none is shared.
    pub fn shared_until(&self, endpoint: &Endpoint, id: EndpointId, end_ns: u64) -> Option<u64> {
        let ends = [Some(id), endpoint.peer].into_iter().flatten();
        let held = ends.filter_map(|id| self.held.get(&id)).flat_map(|held| {
            let range = overlapping_stages(held, (end_ns, end_ns.saturating_add(1)));
            &held[range]
        });
        held.map(|it| it.until_ns).max()
    }

    /// Divides the time that TCP held data of a connection among its exchanges.
    pub fn share(&mut self, endpoint: &Endpoint, id: EndpointId, exchanges: &mut [Exchange]) {
        let begin_ns = exchanges.iter().map(|it| it.begin_ns).min();
        let end_ns = exchanges.iter().map(|it| it.answered_ns).max();
        let Some(time) = begin_ns.zip(end_ns) else {
            return;
        };
        for end in [Some(id), endpoint.peer].into_iter().flatten() {
            let Some(held) = self.held.get_mut(&end) else {
                continue;
            };
            let range = overlapping_stages(held, time);
            let parts = match self.is_capture {
                true => &SHARED[..],
                false => &SHARED[..2],
            };
            for stage in &mut held[range] {
                stage.share(endpoint, parts, exchanges);
            }
        }
    }
}

/// The stages among those of a connection in readings that overlap a time.
fn overlapping_stages(held: &[HeldStage], time: (u64, u64)) -> Range<usize> {
    let first = held.partition_point(|it| it.until_ns < time.0);
    let rest = held[first..].iter();
    let count = rest.take_while(|it| it.from_ns < time.1).count();
    first..first + count
}

impl HeldStage {
    /// Gives each exchange its part of the held time, at most the time that it waited.
    fn share(&mut self, endpoint: &Endpoint, parts: &[RequestPart], exchanges: &mut [Exchange]) {
        let path_ns = endpoint.min_rtt_ns.unwrap_or(0);
        let waited = |it: &Exchange| -> u64 {
            let overlaps = it.begin_ns < self.until_ns && self.from_ns < it.answered_ns;
            let ns = elsewhere_ns(&it.breakdown, parts).saturating_sub(path_ns);
            if overlaps { ns } else { 0 }
        };
        let weight = |ns: u64| (ns as f64) * (ns as f64);
        let sum: f64 = exchanges.iter().map(|it| weight(waited(it))).sum();
        if sum == 0.0 {
            return;
        }
        let mut given_ns = 0;
        for exchange in exchanges {
            let waited_ns = waited(exchange);
            let share = weight(waited_ns) / sum;
            let ns = ((self.ns as f64 * share) as u64).min(waited_ns);
            move_steps(&mut exchange.breakdown, parts, self.part, ns);
            given_ns += ns;
        }
        self.ns = self.ns.saturating_sub(given_ns);
    }
}

/// Parts that stages are taken from, in this order; the last only where no thread was seen.
const SHARED: [RequestPart; 3] = [
    RequestPart::Remote,
    RequestPart::Network,
    RequestPart::Unknown,
];

/// Time in which a request was with the network or the other end, and no stage is known yet.
fn elsewhere_ns(breakdown: &RequestBreakdown, parts: &[RequestPart]) -> u64 {
    parts.iter().map(|part| breakdown.parts.get(*part)).sum()
}

/// Gives time of the other end, then of the network, to a stage: the longest steps first.
fn move_steps(breakdown: &mut RequestBreakdown, parts: &[RequestPart], part: RequestPart, ns: u64) {
    let mut left_ns = ns;
    for from in parts.iter().copied() {
        let moved_ns = left_ns.min(breakdown.parts.get(from));
        breakdown.parts.shift(from, part, moved_ns);
        left_ns -= moved_ns;
        split_steps(breakdown, (from, part), moved_ns);
    }
}

/// Moves `ns` from one part to another: changes the longest steps, and cuts the last one.
fn split_steps(
    breakdown: &mut RequestBreakdown,
    (from, part): (RequestPart, RequestPart),
    mut ns: u64,
) {
    while ns > 0 {
        let steps = breakdown.steps.iter().enumerate();
        let of_part = steps.filter(|(_, step)| step.part == from);
        let Some((at, step)) = of_part.max_by_key(|(_, step)| step.length_ns()) else {
            return;
        };
        let step = *step;
        let taken_ns = ns.min(step.length_ns());
        ns -= taken_ns;
        let begin_ns = step.end_ns - taken_ns;
        if begin_ns == step.begin_ns || breakdown.steps.len() == STEPS_MOST {
            breakdown.is_cut |= begin_ns != step.begin_ns;
            breakdown.steps[at].part = part;
            continue;
        }
        breakdown.steps[at].end_ns = begin_ns;
        breakdown.steps.insert(
            at + 1,
            RequestStep {
                begin_ns,
                part,
                ..step
            },
        );
    }
}
