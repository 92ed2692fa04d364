//! Finds what distinguishes the slowest requests of a service from the others: which part of their time is longer, and with
//! which sizes, threads, connections and processes they go.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::contrast_digest::{NUMBERS, RequestTraits};
use super::contrast_report::{
    Contrast, ContrastPart, ContrastSide, ContrastTrait, TraitKind, TraitValue,
};
use super::functions::{FunctionCounts, FunctionId, ShareBounds};
use super::part::RequestPart;
use super::request_table::RequestTable;
use super::service::{ServiceDigest, SlowestRequests};
use crate::histogram::lower_edge;
use crate::waits::join::association::{
    Association, FactorSide, find_association, is_enough, property_chance,
};
use crate::waits::join::factor::{Factor, SideCounts};

/// Kinds of those that a request belongs to.
const SUBJECTS: [TraitKind; 4] = [
    TraitKind::Peer,
    TraitKind::Process,
    TraitKind::Thread,
    TraitKind::Connection,
];

/// The requests of both sides.
struct Sides<'a> {
    slow: Vec<&'a RequestTraits>,
    others: Vec<&'a RequestTraits>,
}

impl Sides<'_> {
    /// Returns the number of slow requests and of the others.
    fn count_known(&self) -> SideCounts {
        SideCounts {
            slow: self.slow.len() as u64,
            fast: self.others.len() as u64,
        }
    }

    /// Returns the shortest duration of a slow request, ns; from its bucket if not all are kept.
    fn least_slow_ns(&self, slowest: &SlowestRequests) -> u64 {
        let kept = self.slow.iter().map(|it| it.duration_ns).min();
        let is_whole = self.count_known().slow == slowest.count;
        let least_ns = kept.filter(|_| is_whole);
        least_ns.unwrap_or_else(|| lower_edge(slowest.from_bucket))
    }

    /// Returns all requests, and true for the slow ones.
    fn all_requests(&self) -> impl Iterator<Item = (&RequestTraits, bool)> {
        let slow = self.slow.iter().map(|it| (*it, true));
        slow.chain(self.others.iter().map(|it| (*it, false)))
    }
}

/// Compares the slowest requests of a service with the others; `None`: it has none that are slower than others.
pub fn compare(table: &RequestTable, digest: &ServiceDigest) -> Option<Contrast> {
    let slowest = digest.slowest();
    let others = digest.requests() - slowest.count;
    if others == 0 {
        return None;
    }
    let sides = Sides {
        slow: digest.contrast.slow_requests(slowest.from_bucket),
        others: digest.contrast.other_requests(slowest.from_bucket),
    };
    let all = digest.all().0;
    let mean_ns = |ns: u64, count: u64| ns as f64 / count.max(1) as f64;
    let usual_ns = |part| mean_ns(all.get(part) - slowest.all.get(part), others);
    let extra = |part| mean_ns(slowest.all.get(part), slowest.count) - usual_ns(part);
    let extra_ns: f64 = RequestPart::ALL.iter().map(|part| extra(*part)).sum();
    let mut traits = Tests::new(table, digest, &sides);
    let is_enough = is_enough(sides.count_known(), traits.count);
    if !is_enough {
        traits.found.clear();
    }
    Some(Contrast {
        slow: slowest.count,
        slow_from_ns: sides.least_slow_ns(&slowest),
        others,
        compared: ContrastSide::new(sides.count_known()),
        extra_ns: extra_ns.max(0.0) as u64,
        parts: slower_parts(&sides, usual_ns, extra),
        traits: traits.found,
        why_unknown: (!is_enough).then_some("too few requests are slow"),
    })
}

/// Returns the parts that made requests slow: extra time, and the number of requests where the part
/// is the largest.
fn slower_parts(
    sides: &Sides<'_>,
    usual_ns: impl Fn(RequestPart) -> f64,
    extra: impl Fn(RequestPart) -> f64,
) -> Vec<ContrastPart> {
    let mut first: BTreeMap<RequestPart, u64> = BTreeMap::new();
    for request in &sides.slow {
        let excess = |part: &RequestPart| request.parts.get(*part) as f64 - usual_ns(*part);
        let largest = RequestPart::ALL.iter().copied();
        let largest = largest.reduce(|a, b| if excess(&b) > excess(&a) { b } else { a });
        *first
            .entry(largest.unwrap_or(RequestPart::Unknown))
            .or_default() += 1;
    }
    let slow = sides.count_known().slow;
    let mut parts: Vec<_> = first
        .into_iter()
        .map(|(part, requests)| ContrastPart {
            part,
            extra_ns: extra(part).max(0.0) as u64,
            requests,
            share: ShareBounds::new(requests, slow),
        })
        .collect();
    parts.sort_by_key(|it| (Reverse((it.requests, it.extra_ns)), it.part));
    parts
}

/// All that is tested of one service.
struct Tests {
    /// Cuts and properties of all traits together.
    count: usize,
    found: Vec<ContrastTrait>,
}

impl Tests {
    /// Compares slow requests with others by each trait: numbers, threads, hosts, functions.
    fn new(table: &RequestTable, digest: &ServiceDigest, sides: &Sides<'_>) -> Self {
        let numbers = NUMBERS.iter().enumerate().map(|(at, kind)| {
            let mut factor = Factor::default();
            let each = sides.all_requests();
            each.for_each(|(it, is_slow)| factor.add(it.numbers[at] as f64, is_slow));
            (*kind, factor)
        });
        let numbers: Vec<(TraitKind, Factor)> = numbers.collect();
        let subjects = SUBJECTS.map(|kind| (kind, count_values(table, sides, kind)));
        let functions = function_samples(digest);
        let cuts: usize = numbers.iter().map(|(_, it)| it.cut_count()).sum();
        let named: usize = subjects.iter().map(|(_, it)| it.len()).sum();
        let count = cuts + named + functions.by_function.len();
        let known = sides.count_known();
        let mut found = Vec::new();
        for (kind, factor) in &numbers {
            let cut = find_association(factor, count);
            found.extend(cut.map(|it| number_trait(*kind, &it, known)));
        }
        for (kind, values) in subjects {
            let values = values.into_iter();
            found.extend(values.filter_map(|(name, with)| {
                let chance = property_chance(with, known, count)?;
                let value = TraitValue::Name(name);
                Some(ContrastTrait::new(kind, value, (with, known), chance))
            }));
        }
        let known = functions.known;
        let functions = functions.by_function.into_iter();
        found.extend(functions.filter_map(|(id, with)| {
            let chance = property_chance(with, known, count)?;
            let value = TraitValue::Name(table.functions.title(id)?);
            Some(ContrastTrait::new(
                TraitKind::Function,
                value,
                (with, known),
                chance,
            ))
        }));
        Self { count, found }
    }
}

/// Makes the result of a trait with numbers: its best threshold and its chance.
fn number_trait(kind: TraitKind, found: &Association, known: SideCounts) -> ContrastTrait {
    let value = match found.side {
        FactorSide::Low => TraitValue::AtMost(found.value as u64),
        FactorSide::High => TraitValue::AtLeast(found.value as u64),
    };
    ContrastTrait::new(kind, value, (found.with, known), found.chance)
}

/// Returns the number of slow and other requests for each value of a trait; none if all have the
/// same value.
fn count_values(
    table: &RequestTable,
    sides: &Sides<'_>,
    kind: TraitKind,
) -> BTreeMap<String, SideCounts> {
    let mut values: BTreeMap<String, SideCounts> = BTreeMap::new();
    for (request, is_slow) in sides.all_requests() {
        if let Some(name) = trait_subject(table, request, kind) {
            values.entry(name).or_default().add(is_slow);
        }
    }
    if values.len() < 2 {
        values.clear();
    }
    values
}

/// Returns the name of a trait's value: thread, host or connection; None if it has none.
fn trait_subject(table: &RequestTable, request: &RequestTraits, kind: TraitKind) -> Option<String> {
    let endpoint = table.endpoints.get(request.endpoint);
    let thread = table.history.get(request.thread);
    Some(match kind {
        TraitKind::Peer => {
            let remote = &table.names.row(endpoint.conn)?.remote;
            remote.rsplit_once(':')?.0.to_owned()
        }
        TraitKind::Process => endpoint.pid.to_string(),
        TraitKind::Thread => thread.tid.to_string(),
        TraitKind::Connection => table.names.connection(endpoint.conn).name,
        _ => return None,
    })
}

/// Samples of the functions that ran in the slowest, and in the others.
struct FunctionSides {
    by_function: Vec<(FunctionId, SideCounts)>,
    known: SideCounts,
}

/// Counts samples by function, in slow and in all requests.
fn function_samples(digest: &ServiceDigest) -> FunctionSides {
    let (all, slow) = (digest.functions(), digest.slowest_functions());
    let sides = |all: u64, slow: u64| SideCounts {
        slow,
        fast: all.saturating_sub(slow),
    };
    let of = |counts: &FunctionCounts, id| counts.samples_of(id);
    let ids = all.ids();
    FunctionSides {
        by_function: ids
            .map(|id| (id, sides(of(all, id), of(&slow, id))))
            .collect(),
        known: sides(all.samples(), slow.samples()),
    }
}
