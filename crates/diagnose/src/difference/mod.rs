//! Two recordings side by side: their reports in, changes out ([`DiffReport`]). A thing has the same name in both: a
//! service by process, side and address, else by process and side if each has one such; a finding by rule and process; a
//! wait by process and kind of object. Addresses of locks and ports of clients differ between runs.

pub mod report;

use std::collections::BTreeMap;

use table::{Stage, WaitObject};

use crate::report::{Finding, Report};
use crate::requests::report::Service;
use crate::requests::{PartTimes, RequestPart};
use crate::units::ratio_of;
use crate::waits::WaitReport;
use crate::waits::counters::CounterReport;
use report::{
    CounterChange, CounterNumbers, DiffReport, DiffSide, FindingChange, FindingNumbers,
    FindingState, PartChange, SCHEMA, ServiceChange, ServiceNumbers, StageChange, StageSum,
    WaitChange, WaitSum,
};

/// Answers of one recording.
#[derive(Debug)]
pub struct ComparedRecording {
    /// Its diagnosis, with its requests.
    pub report: Report,
    /// Its waits by object; `None`: it holds none.
    pub waits: Option<WaitReport>,
    /// Counters of its programs.
    pub counters: Vec<CounterReport>,
}

/// Compares two recordings and returns the differences.
pub fn compare(before: &ComparedRecording, after: &ComparedRecording) -> DiffReport {
    let reports = [&before.report, &after.report];
    DiffReport {
        schema: SCHEMA,
        before: diff_side(&before.report),
        after: diff_side(&after.report),
        services: pair_services(reports.map(services_of)),
        findings: findings(reports.map(findings_of)),
        stages: stages(reports),
        waits: waits([before, after].map(|it| waits_of(it.waits.as_ref()))),
        counters: pair_counters([before, after].map(|it| counters_of(&it.counters))),
    }
}

type CounterName = (Option<String>, String);

/// Sums the counters of programs by name; several processes of one name count together.
fn counters_of(
    counters: &[CounterReport],
) -> BTreeMap<CounterName, (Option<String>, CounterNumbers)> {
    let mut found = BTreeMap::<_, (Option<String>, CounterNumbers)>::new();
    for counter in counters {
        let numbers = CounterNumbers {
            values: counter.values,
            min: counter.min,
            max: counter.max,
            last: counter.last,
        };
        let key = (counter.process.comm.clone(), counter.title());
        let known = found.entry(key);
        known
            .and_modify(|(_, known)| known.add(numbers))
            .or_insert_with(|| (counter.unit.clone(), numbers));
    }
    found
}

/// Pairs the counters of two recordings by process and name.
fn pair_counters(
    [before, after]: [BTreeMap<CounterName, (Option<String>, CounterNumbers)>; 2],
) -> Vec<CounterChange> {
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let change = |key: &CounterName| {
        let (before, after) = (before.get(key), after.get(key));
        CounterChange {
            process: key.0.clone(),
            name: key.1.clone(),
            unit: after.or(before).and_then(|(unit, _)| unit.clone()),
            before: before.map(|(_, numbers)| *numbers),
            after: after.map(|(_, numbers)| *numbers),
        }
    };
    keys.into_iter().map(change).collect()
}

/// Returns what the comparison says of one recording: its target, times and kernel.
fn diff_side(report: &Report) -> DiffSide {
    DiffSide {
        about: report.about.clone(),
        requests: report.requests.as_ref().map(|it| it.count()),
        connections: report.connections.len() as u64,
    }
}

/// Returns the services of a report; none if requests were not analysed.
fn services_of(report: &Report) -> Vec<&Service> {
    let requests = report.requests.iter();
    requests.flat_map(|it| &it.services).collect()
}

/// Pairs the services of two reports: by name, side and address, else by name and side.
fn pair_services([before, after]: [Vec<&Service>; 2]) -> Vec<ServiceChange> {
    let address = |it: &Service| (it.name.clone(), it.role, it.address.clone());
    let mut left = after;
    let mut pairs = Vec::new();
    let mut alone = Vec::new();
    for service in before {
        match left.iter().position(|it| address(it) == address(service)) {
            Some(at) => pairs.push((Some(service), Some(left.remove(at)))),
            None => alone.push(service),
        }
    }
    let is_like = |a: &Service, b: &Service| (&a.name, a.role) == (&b.name, b.role);
    let counts: Vec<_> = alone
        .iter()
        .map(|own| alone.iter().filter(|it| is_like(it, own)).count())
        .collect();
    for (service, count) in alone.into_iter().zip(counts) {
        let mut like = (0..left.len()).filter(|at| is_like(left[*at], service));
        match (like.next(), like.next()) {
            (Some(at), None) if count == 1 => pairs.push((Some(service), Some(left.remove(at)))),
            _ => pairs.push((Some(service), None)),
        }
    }
    pairs.extend(left.into_iter().map(|service| (None, Some(service))));
    let time = |it: &Option<&Service>| it.map_or(0, |it| it.parts.all.0.total_ns());
    pairs.sort_by_key(|(a, b)| std::cmp::Reverse(time(a).max(time(b))));
    pairs.into_iter().filter_map(service_change).collect()
}

/// Compares a service of two recordings; one of them may not have it.
fn service_change((before, after): (Option<&Service>, Option<&Service>)) -> Option<ServiceChange> {
    let named = after.or(before)?;
    let (before, after) = (before.map(service_numbers), after.map(service_numbers));
    let change = before.as_ref().zip(after.as_ref());
    Some(ServiceChange {
        name: named.name.clone(),
        role: named.role,
        address: named.address.clone(),
        change: change.and_then(|(before, after)| largest_change(&before.mean_ns, &after.mean_ns)),
        before,
        after,
    })
}

fn service_numbers(service: &Service) -> ServiceNumbers {
    let mut mean_ns = PartTimes::default();
    for (part, ns) in service.parts.all.0.iter() {
        mean_ns.add(part, ns / service.requests.max(1));
    }
    ServiceNumbers {
        requests: service.requests,
        duration_ns: service.duration_ns,
        mean_ns,
    }
}

/// Returns the part that grew most if requests take longer, else the one that shrank most; `None`: none did.
fn largest_change(before: &PartTimes, after: &PartTimes) -> Option<PartChange> {
    let is_longer = after.total_ns() > before.total_ns();
    let changes = RequestPart::ALL.iter().map(|part| PartChange {
        part: *part,
        before_ns: before.get(*part),
        after_ns: after.get(*part),
    });
    let amount = |it: &PartChange| match is_longer {
        true => it.after_ns.saturating_sub(it.before_ns),
        false => it.before_ns.saturating_sub(it.after_ns),
    };
    let largest = changes.max_by_key(amount)?;
    (amount(&largest) > 0).then_some(largest)
}

type FindingKey = (&'static str, Option<String>);

/// The findings of each rule on each program: the worst comes first.
fn findings_of(report: &Report) -> BTreeMap<FindingKey, Vec<&Finding>> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for finding in &report.findings {
        let process = finding.subject.process.as_ref();
        let comm = process.and_then(|process| process.comm.clone());
        let key = (finding.rule.name(), comm);
        found.entry(key).or_default().push(finding);
    }
    found
}

/// Pairs the findings of two reports by rule and subject.
fn findings([before, after]: [BTreeMap<FindingKey, Vec<&Finding>>; 2]) -> Vec<FindingChange> {
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changes = keys.into_iter().filter_map(|key| {
        let (before, after) = (before.get(key), after.get(key));
        let first = after.or(before)?.first()?;
        let state = match (before, after) {
            (Some(_), Some(_)) => FindingState::Both,
            (Some(_), None) => FindingState::Gone,
            _ => FindingState::New,
        };
        Some(FindingChange {
            state,
            rule: first.rule,
            process: key.1.clone(),
            before: before.and_then(|it| finding_numbers(it)),
            after: after.and_then(|it| finding_numbers(it)),
        })
    });
    let mut changes: Vec<_> = changes.collect();
    let severity = |it: &FindingChange| {
        let sides = [&it.before, &it.after].into_iter().flatten();
        sides.map(|it| (it.severity, it.harm_ns)).max()
    };
    changes.sort_by_key(|it| (it.state, std::cmp::Reverse(severity(it))));
    changes
}

fn finding_numbers(findings: &[&Finding]) -> Option<FindingNumbers> {
    let worst = findings.first()?;
    Some(FindingNumbers {
        severity: worst.severity,
        headline: worst.headline.clone(),
        harm_ns: findings.iter().map(|it| it.harm_ns).sum(),
        findings: findings.len() as u64,
    })
}

/// Returns, for each stage, its share of time in both reports.
fn stages(reports: [&Report; 2]) -> Vec<StageChange> {
    let [before, after] = reports.map(stage_sums);
    let changes = Stage::ALL.iter().map(|stage| StageChange {
        stage: stage.name(),
        before: before.as_ref().map(|sums| sums[*stage as usize]),
        after: after.as_ref().map(|sums| sums[*stage as usize]),
    });
    let is_there = |it: &StageChange| [it.before, it.after].iter().flatten().any(|it| it.ns > 0);
    let mut changes: Vec<_> = changes.filter(is_there).collect();
    let share = |it: Option<StageSum>| it.map_or(0.0, |it| it.share);
    let amount = |it: &StageChange| (share(it.before) - share(it.after)).abs();
    changes.sort_by(|a, b| amount(b).total_cmp(&amount(a)));
    changes
}

/// The time of all connections in each stage; `None`: none was judged.
fn stage_sums(report: &Report) -> Option<Vec<StageSum>> {
    let sums = Stage::ALL.iter().map(|stage| {
        let connections = report.connections.iter();
        connections.map(|it| it.stages.stage_ns(*stage)).sum()
    });
    let sums: Vec<u64> = sums.collect();
    let total_ns = sums.iter().sum();
    let sum = |ns| StageSum {
        ns,
        share: ratio_of(ns, total_ns),
    };
    (total_ns > 0).then(|| sums.into_iter().map(sum).collect())
}

type WaitKey = (Option<String>, Option<&'static str>);

/// Sums the waits of a report by process and kind of object.
fn waits_of(report: Option<&WaitReport>) -> BTreeMap<WaitKey, (Option<WaitObject>, WaitSum)> {
    let mut sums = BTreeMap::<WaitKey, (Option<WaitObject>, WaitSum)>::new();
    let Some(report) = report else {
        return sums;
    };
    let mut add = |process, kind: Option<WaitObject>, count, blocked_ns| {
        let key = (process, kind.map(WaitObject::name));
        let (known, sum) = sums.entry(key).or_default();
        *known = kind;
        sum.count += count;
        sum.blocked_ns += blocked_ns;
    };
    for group in &report.groups {
        let process = group.identity.process.as_ref();
        let comm = process.and_then(|it| it.comm.clone());
        add(comm, group.identity.kind, group.count, group.blocked_ns);
    }
    // The report names a limited number of objects: the others are in its totals.
    let listed =
        |of: fn(&crate::waits::report::WaitGroup) -> u64| report.groups.iter().map(of).sum();
    let count = report.total.count.saturating_sub(listed(|it| it.count));
    let blocked_ns = report
        .total
        .blocked_ns
        .saturating_sub(listed(|it| it.blocked_ns));
    if count > 0 {
        add(None, None, count, blocked_ns);
    }
    sums
}

/// Pairs the sums of waits of two recordings.
fn waits(
    [before, after]: [BTreeMap<WaitKey, (Option<WaitObject>, WaitSum)>; 2],
) -> Vec<WaitChange> {
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changes = keys.into_iter().map(|key| {
        let (before, after) = (before.get(key), after.get(key));
        WaitChange {
            process: key.0.clone(),
            kind: after.or(before).and_then(|it| it.0),
            before: before.map(|it| it.1),
            after: after.map(|it| it.1),
        }
    });
    let mut changes: Vec<_> = changes.collect();
    let blocked = |it: Option<WaitSum>| it.map_or(0, |it| it.blocked_ns);
    changes.sort_by_key(|it| std::cmp::Reverse(blocked(it.before).abs_diff(blocked(it.after))));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a mean request of these parts.
    fn times(parts: &[(RequestPart, u64)]) -> PartTimes {
        let mut times = PartTimes::default();
        parts.iter().for_each(|(part, ns)| times.add(*part, *ns));
        times
    }

    #[test]
    fn largest_change_has_the_sign_of_the_total() {
        let before = times(&[(RequestPart::Cpu, 10), (RequestPart::Lock, 90)]);
        let after = times(&[(RequestPart::Cpu, 40), (RequestPart::Disk, 20)]);
        let lock = PartChange {
            part: RequestPart::Lock,
            before_ns: 90,
            after_ns: 0,
        };
        // The request is shorter: computing grew, but less than the lock shrank.
        assert_eq!(largest_change(&before, &after), Some(lock));
        let grown = largest_change(&after, &before).map(|it| it.part);
        assert_eq!(grown, Some(RequestPart::Lock));
        assert_eq!(largest_change(&before, &before), None);
    }
}
