//! The sums of all groups as a report: names, percentiles and populations, worst group first.

use std::cmp::Reverse;

use table::manifest::{Coverage, ProbeState};

use super::WaitTable;
use super::filter::{Grouping, WaitFilter};
use super::group::{SpinTime, WaitSums};
use super::populations::{BUCKETS_A_CELL, few_boundary, find_boundary};
use super::report::{
    DurationCell, Durations, FewSlow, GroupPart, ObjectIdentity, Population, Populations, SCHEMA,
    SpanTimes, SpinReport, WaitGroup, WaitReport, WaitTotal,
};
use crate::answer::{About, RecordingState};
use crate::histogram::{Histogram, RELATIVE_ERROR, lower_edge};
use crate::kernel::LONGEST_JIFFY_NS;
use crate::rows::top::{Element, Top};

/// Named of those that take part in a group.
const PARTS: usize = 4;

impl WaitTable {
    /// The report of all rows added, with at most `limit` groups.
    pub fn report(mut self, recorded: RecordingState, limit: usize) -> WaitReport {
        if self.grouping == Grouping::Task {
            let groups = self.names.spans.groups().max(self.groups.len());
            self.groups.resize_with(groups, WaitSums::default);
        }
        let groups = self.rank_groups();
        let has_spins = is_on(&recorded.coverage, "spins");
        let total = self.total(&groups, has_spins);
        let listed = groups.iter().take(limit);
        let groups = listed.map(|(number, sums)| self.name_group(*number, sums, &total));
        let groups: Vec<WaitGroup> = groups.collect();
        let preceding = groups
            .iter()
            .filter_map(|group| Some((group.identity.title(), group.preceding.as_ref()?)));
        let counters = self.counters.take();
        let counters = counters.map(|it| it.report(&self.names, preceding));
        let span = (self.span.0, self.span.1.saturating_add(1));
        WaitReport {
            schema: SCHEMA,
            groups,
            counters: counters.unwrap_or_default(),
            about: About::new(&self.header, recorded, self.latest_ns, span),
            by: self.grouping,
            relative_error: RELATIVE_ERROR,
            total,
            filter: self.filter,
        }
    }

    /// Returns the groups with waits or spins, the worst first.
    pub(super) fn rank_groups(&self) -> Vec<(u32, &WaitSums)> {
        let mut groups: Vec<(u32, &WaitSums)> = (0_u32..).zip(&self.groups).collect();
        groups.retain(|(number, sums)| !sums.is_empty() || self.spans(*number).is_some());
        groups.sort_by_key(|(number, sums)| {
            let spans_ns = self.spans(*number).map_or(0, |spans| spans.total_ns);
            let waited_ns = sums.blocked_ns + sums.spun_ns();
            (Reverse((waited_ns, spans_ns)), *number)
        });
        groups
    }

    /// Returns how long the spans of a group took; `None`: the grouping is another.
    fn spans(&self, number: u32) -> Option<SpanTimes> {
        let is_wanted = self.grouping == Grouping::Task && self.filter == WaitFilter::default();
        is_wanted.then(|| self.names.spans.times(number)).flatten()
    }

    /// Returns where the slow waits of a group begin: a bucket of its histogram.
    pub(super) fn slow_boundary(&self, number: u32) -> Option<usize> {
        if let Some(known) = self.boundaries.get(&number) {
            return *known;
        }
        let jiffy_ns = self.header.jiffy_ns.unwrap_or(LONGEST_JIFFY_NS);
        find_boundary(&self.groups[number as usize].histogram, jiffy_ns)
    }

    /// Sums all groups: waits, blocked time, run-queue delay, time of spinning.
    fn total(&self, groups: &[(u32, &WaitSums)], has_spins: bool) -> WaitTotal {
        let sum = |of: fn(&WaitSums) -> u64| groups.iter().map(|(_, sums)| of(sums)).sum::<u64>();
        let count = sum(|sums| sums.histogram.count());
        let waking_unseen = sum(|sums| sums.unseen);
        WaitTotal {
            groups: groups.len() as u64,
            count,
            filtered: self.filtered,
            blocked_ns: sum(|sums| sums.blocked_ns),
            runq_ns: (waking_unseen < count).then(|| sum(|sums| sums.runq_ns)),
            waking_unseen,
            spun_ns: (has_spins && self.counts_spins()).then(|| sum(WaitSums::spun_ns)),
        }
    }

    /// Returns whether spins can be in the groups.
    fn counts_spins(&self) -> bool {
        self.grouping != Grouping::Waker && self.filter.longer_than_ns.is_none()
    }

    /// Returns the time of spinning, by thread, lock and stack.
    fn spin_report(&self, spun: &SpinTime) -> SpinReport {
        let threads = group_parts(&spun.threads, |number| self.thread(number));
        let objects = group_parts(&spun.objects, |number| self.object(number));
        let stacks = group_parts(&spun.stacks, |number| self.names.stack(number));
        let unless = |grouping, parts| {
            if self.grouping == grouping {
                Vec::new()
            } else {
                parts
            }
        };
        SpinReport {
            looks: spun.looks,
            spun_ns: spun.length_ns,
            threads: unless(Grouping::Thread, threads),
            objects: unless(Grouping::Object, objects),
            stacks: unless(Grouping::Stack, stacks),
        }
    }

    /// Makes the report of a group: its name, sums, stacks and populations.
    fn name_group(&self, number: u32, sums: &WaitSums, total: &WaitTotal) -> WaitGroup {
        let since_start = |ns: u64| ns.saturating_sub(self.header.started_ns);
        let share = match total.blocked_ns {
            0 => 0.0,
            all => sums.blocked_ns as f64 / all as f64,
        };
        WaitGroup {
            identity: match self.grouping {
                Grouping::Object => self.object(number),
                Grouping::Thread => self.thread(number),
                Grouping::Stack => self.names.stack(number),
                Grouping::Waker => self.waker(number),
                Grouping::Task => self.names.span(number),
                Grouping::Pod | Grouping::Workload => self.place_identity(number),
            },
            spans: self.spans(number),
            count: sums.histogram.count(),
            blocked_ns: sums.blocked_ns,
            share,
            runq_ns: sums.runq_ns(),
            waking_unseen: sums.unseen,
            first_ns: since_start(if sums.is_empty() { 0 } else { sums.first_ns }),
            last_ns: since_start(sums.last_ns),
            durations: Durations::from_histogram(&sums.histogram),
            spinning: sums.spun.as_ref().map(|spun| self.spin_report(spun)),
            populations: split_populations(&sums.histogram, self.slow_boundary(number)),
            few_slow: match self.slow_boundary(number) {
                Some(_) => None,
                None => few_slow(&sums.histogram),
            },
            preceding: self.preceding.get(number as usize).cloned().flatten(),
            histogram: duration_cells(&sums.histogram),
            threads: group_parts(&sums.threads, |number| self.thread(number)),
            objects: group_parts(&sums.objects, |number| self.object(number)),
            wakers: group_parts(&sums.wakers, |number| self.waker(number)),
            stacks: group_parts(&sums.stacks, |number| self.names.stack(number)),
            kernel_stacks: group_parts(&sums.kernel_stacks, |number| self.names.stack(number)),
            ready: group_parts(&sums.ready, |number| self.object(number)),
        }
    }

    /// Returns the name of an object, with the kind of lock.
    fn object(&self, number: u32) -> ObjectIdentity {
        let lock = self.locks.get(&number).copied();
        let identity = self.names.object(self.objects.key(number));
        ObjectIdentity { lock, ..identity }
    }

    fn place_identity(&self, number: u32) -> ObjectIdentity {
        let outside = || format!("outside of all {}s", self.grouping.name());
        ObjectIdentity {
            name: self.places.name(number).map_or_else(outside, str::to_owned),
            ..ObjectIdentity::default()
        }
    }

    fn thread(&self, number: u32) -> ObjectIdentity {
        self.names.thread(self.threads.key(number))
    }

    fn waker(&self, number: u32) -> ObjectIdentity {
        self.names.waker(self.wakers.key(number))
    }
}

/// Returns the largest parts of a group, with their names.
fn group_parts(top: &Top, name: impl Fn(u32) -> ObjectIdentity) -> Vec<GroupPart> {
    let part = |element: Element| GroupPart {
        identity: name(element.number),
        count: element.count,
        blocked_ns: element.blocked_ns,
        exact: element.is_exact,
    };
    top.worst(PARTS).into_iter().map(part).collect()
}

/// Returns whether a probe was on, without any restriction.
fn is_on(coverage: &[Coverage], probe: &str) -> bool {
    let mut of_probe = coverage.iter().filter(|it| it.probe == probe);
    of_probe.any(|it| it.state == ProbeState::On)
}

/// Splits durations into fast and slow ones; None without a boundary.
fn split_populations(histogram: &Histogram, boundary: Option<usize>) -> Option<Populations> {
    let boundary = boundary?;
    let population = |buckets| {
        let part = histogram.part(buckets);
        Some(Population {
            count: part.count(),
            p50_ns: part.quantile_ns(0.5)?,
            blocked_ns: part.sum_ns(),
        })
    };
    Some(Populations {
        boundary_ns: lower_edge(boundary),
        fast: population(0..boundary)?,
        slow: population(boundary..usize::MAX)?,
    })
}

/// Returns the few slow waits of a group that are no population of their own.
fn few_slow(histogram: &Histogram) -> Option<FewSlow> {
    let boundary = few_boundary(histogram)?;
    let (_, max_ns) = histogram.range_ns()?;
    let slow = histogram
        .buckets()
        .filter(|(bucket, _)| *bucket >= boundary);
    let each = slow.flat_map(|(bucket, count)| {
        let middle_ns = lower_edge(bucket).midpoint(lower_edge(bucket + 1));
        std::iter::repeat_n(middle_ns.min(max_ns), count as usize)
    });
    Some(FewSlow {
        others_max_ns: histogram.part(0..boundary).quantile_ns(1.0)?,
        durations_ns: each.collect(),
    })
}

/// The histogram by quarters of a doubling.
fn duration_cells(histogram: &Histogram) -> Vec<DurationCell> {
    let mut cells: Vec<DurationCell> = Vec::new();
    for (index, count) in histogram.buckets() {
        let first = index / BUCKETS_A_CELL * BUCKETS_A_CELL;
        let from_ns = lower_edge(first);
        match cells.last_mut() {
            Some(last) if last.from_ns == from_ns => last.count += count,
            _ => cells.push(DurationCell {
                from_ns,
                to_ns: lower_edge(first + BUCKETS_A_CELL),
                count,
            }),
        }
    }
    cells
}
