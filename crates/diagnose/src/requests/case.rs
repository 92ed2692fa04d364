//! One service as a rule sees it: its requests, what their time went to, and what earlier rules found. Rules read; they keep
//! nothing. Times are those of the service's own process: what the process at the other end did with a request is judged
//! there.

use std::collections::BTreeMap;

use super::class::ConnectionClass;
use super::endpoint::Endpoint;
use super::evidence::{NamedThread, NamedTime, RequestEvidence};
use super::id::EndpointId;
use super::part::{PartTimes, RequestPart};
use super::resets::ResetDigest;
use super::service::{ServiceDigest, ServiceId, ServiceKey, Side, SlowestRequests};
use super::subjects::PartSubjects;
use crate::report::finding::SubjectRequests;
use crate::report::{FindingSubject, Process, RuleId};
use crate::rows::top::Top;
use crate::units::ratio_of;

/// A service of fewer requests has no slowest 1 %.
const HUNDREDTH_LEAST: u64 = 100;

/// Parts in which no thread had the request.
pub const QUEUE: [RequestPart; 2] = [RequestPart::Queued, RequestPart::Unread];

/// A part that takes most of the time in which threads have requests makes the queue before them.
const SERVED_LEAST: f64 = 0.5;

/// Most ids of connections that are listed in a finding.
const MOST_IDS: usize = 16;

/// Parts of the time of a service that a rule explained.
#[derive(Debug, Clone)]
pub struct PartClaim {
    /// The rule.
    pub rule: RuleId,
    /// The parts.
    pub parts: Vec<RequestPart>,
}

/// A service with all that is known of its requests.
#[derive(Debug)]
pub struct ServiceCase<'a> {
    /// The recording around it.
    pub evidence: &'a RequestEvidence<'a>,
    /// Number of the service.
    pub id: ServiceId,
    /// Name, side and address that its requests have in common.
    pub key: &'a ServiceKey,
    /// Its requests.
    pub digest: &'a ServiceDigest,
    /// The slowest 1 % of them, one at least.
    pub slowest: SlowestRequests,
    /// Parts that earlier rules explained, above info.
    pub claims: Vec<PartClaim>,
    all: PartTimes,
    peer: PartTimes,
}

/// Time of some parts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PartHarm {
    /// Sum over all requests, ns.
    pub ns: u64,
    /// Its share of the time of all requests.
    pub share: f64,
    /// By how much the slowest 1 % had more of it than others, ns: all of them together.
    pub excess_ns: u64,
    /// Its share of what the slowest 1 % took longer than others; 0: there are fewer than a hundred requests.
    pub excess_share: f64,
}

impl PartHarm {
    /// Returns the same without time that is no harm, ns. Of what the slowest requests have more of, the same share stays.
    pub fn without(&self, ns: u64) -> Self {
        let left_ns = self.ns.saturating_sub(ns);
        let left = ratio_of(left_ns, self.ns);
        Self {
            ns: left_ns,
            share: self.share * left,
            excess_ns: (self.excess_ns as f64 * left) as u64,
            excess_share: self.excess_share * left,
        }
    }
}

impl std::ops::Add for PartHarm {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            ns: self.ns + other.ns,
            share: self.share + other.share,
            excess_ns: self.excess_ns + other.excess_ns,
            excess_share: (self.excess_share + other.excess_share).min(1.0),
        }
    }
}

impl<'a> RequestEvidence<'a> {
    /// Returns every service with requests, those with the most time first.
    pub fn services(&'a self) -> Vec<ServiceCase<'a>> {
        let services = &self.table.services;
        let ids = services.ids();
        let with_requests = ids.filter(|id| services.digest(*id).requests() > 0);
        let mut cases: Vec<_> = with_requests.map(|id| ServiceCase::new(self, id)).collect();
        cases.sort_by(|a, b| (b.total_ns(), a.key).cmp(&(a.total_ns(), b.key)));
        cases
    }

    /// Returns the service of a recorded end of a connection.
    pub(in crate::requests) fn service_of(&'a self, id: EndpointId) -> ServiceCase<'a> {
        ServiceCase::new(self, self.endpoint(id).service)
    }

    /// Returns the clients with messages that a reset or an end answered, those with the most time first.
    pub fn clients_with_resets(&'a self) -> Vec<ServiceCase<'a>> {
        let has_any = |it: &ResetDigest| it.count + it.unanswered + it.farewells + it.transfers > 0;
        let services = &self.table.services;
        let reset = services.ids();
        let reset = reset.filter(|id| has_any(&services.digest(*id).resets));
        let mut cases: Vec<_> = reset.map(|id| ServiceCase::new(self, id)).collect();
        cases.sort_by(|a, b| (b.total_ns(), a.key).cmp(&(a.total_ns(), b.key)));
        cases
    }
}

impl<'a> ServiceCase<'a> {
    /// Makes the case of a service that has requests.
    pub fn new(evidence: &'a RequestEvidence<'a>, id: ServiceId) -> Self {
        let services = &evidence.table.services;
        let digest = services.digest(id);
        Self {
            evidence,
            id,
            key: services.key(id),
            digest,
            slowest: digest.slowest_at_most(),
            claims: Vec::new(),
            all: digest.all().0,
            peer: digest.peer(),
        }
    }

    /// Returns whether the service answers.
    pub fn is_server(&self) -> bool {
        self.key.side == Side::Server
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.digest.requests()
    }

    /// Returns the time of all requests, ns.
    pub fn total_ns(&self) -> u64 {
        self.all.total_ns()
    }

    /// Returns a quantile of the durations of requests, ns.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.digest.durations().quantile_ns(share).unwrap_or(0)
    }

    /// Returns the longest duration, ns.
    pub fn max_ns(&self) -> u64 {
        let range = self.digest.durations().range_ns();
        range.map_or(0, |(_, most_ns)| most_ns)
    }

    /// Returns the time of a part, without what the process at the other end did, ns.
    pub fn part_ns(&self, part: RequestPart) -> u64 {
        self.all.get(part).saturating_sub(self.peer.get(part))
    }

    /// Returns the time of a part, with what the process at the other end did, ns.
    pub fn part_of_both_ns(&self, part: RequestPart) -> u64 {
        self.all.get(part)
    }

    /// Returns the share of a part in the time of all requests.
    pub fn part_share(&self, part: RequestPart) -> f64 {
        crate::units::ratio_of(self.part_ns(part), self.total_ns())
    }

    /// Returns the time of the process at the other end, where that is recorded, ns.
    pub fn peer_ns(&self) -> u64 {
        self.peer.total_ns()
    }

    /// Returns the time of these parts, of all requests and of the slowest.
    pub fn harm(&self, parts: &[RequestPart]) -> PartHarm {
        let sum = |all: &PartTimes, peer: &PartTimes| -> u64 {
            let of = |part: &RequestPart| all.get(*part).saturating_sub(peer.get(*part));
            parts.iter().map(of).sum()
        };
        let ns = sum(&self.all, &self.peer);
        let excess_ns = self.excess_ns(ns, sum(&self.slowest.all, &self.slowest.peer));
        let whole_ns = self.excess_ns(self.total_ns(), self.slowest.all.total_ns());
        PartHarm {
            ns,
            share: ratio_of(ns, self.total_ns()),
            excess_ns,
            excess_share: ratio_of(excess_ns, whole_ns).min(1.0),
        }
    }

    /// Returns the time of some parts, with that of requests which waited behind others meanwhile, and that second time, ns. The
    /// queue counts where threads spent most of the time that they had requests with these parts: their share of that time is
    /// their share of the queue. A thread that waits for a client makes no queue with these parts. A lack of CPU is counted
    /// apart in the queue already; only that of requests with a thread says how much of the rest it makes.
    pub fn harm_with_queue(&self, harm: PartHarm, parts: &[RequestPart]) -> (PartHarm, u64) {
        let all_queued = self.harm(&QUEUE);
        let queue = &self.digest.queue;
        let queued = all_queued.without(queue.held_ns);
        let served_ns = self.served_ns();
        let own_ns = harm.ns.saturating_sub(queue.without_cpu_of(parts));
        let of_served = crate::units::ratio_of(own_ns, served_ns).min(1.0);
        if !self.is_server() || of_served < SERVED_LEAST || self.is_claimed(RequestPart::Queued) {
            return (harm, 0);
        }
        let behind_ns = (queued.ns as f64 * of_served) as u64;
        let excess_ns = (queued.excess_ns as f64 * of_served) as u64;
        let all = PartHarm {
            ns: harm.ns + behind_ns,
            share: crate::units::ratio_of(harm.ns + behind_ns, self.total_ns()),
            excess_ns: harm.excess_ns + excess_ns,
            excess_share: (harm.excess_share + queued.excess_share * of_served).min(1.0),
        };
        (all, behind_ns)
    }

    /// Returns the time in which threads had the requests, ns: without the queue, and the lack of CPU of threads that requests
    /// waited for.
    pub fn served_ns(&self) -> u64 {
        let waited_ns = self.harm(&QUEUE).ns + self.digest.queue.without_cpu_ns();
        self.total_ns().saturating_sub(waited_ns)
    }

    /// Returns how much more time of a part the slowest requests have than others, ns.
    fn excess_ns(&self, all_ns: u64, slowest_ns: u64) -> u64 {
        let others = self.requests().saturating_sub(self.slowest.count);
        if self.requests() < HUNDREDTH_LEAST || others == 0 {
            return 0;
        }
        let usual_ns = all_ns.saturating_sub(slowest_ns) as f64 / others as f64;
        let usual_ns = usual_ns * self.slowest.count as f64;
        slowest_ns.saturating_sub(usual_ns as u64)
    }

    /// Returns whether an earlier rule explained this part.
    pub fn is_claimed(&self, part: RequestPart) -> bool {
        self.claims.iter().any(|claim| claim.parts.contains(&part))
    }

    /// Returns threads, stacks and services of a part; `None` if it took no time.
    pub fn part_subjects(&self, part: RequestPart) -> Option<&'a PartSubjects> {
        self.digest.subjects.get(part)
    }

    /// Returns the stacks in which a part was spent, the one with the most time first.
    pub fn stacks(&self, part: RequestPart) -> Vec<NamedTime<String>> {
        let subjects = self.part_subjects(part);
        subjects.map_or_else(Vec::new, |it| self.evidence.stacks(&it.stacks))
    }

    /// Returns the function, with one of these texts in its name, in which most of the time of a part with stacks was spent;
    /// `None`: threads waited elsewhere for most of it.
    pub fn find_function(&self, part: RequestPart, parts: &[&str]) -> Option<String> {
        let names = self.evidence.names();
        let stacks = self.part_subjects(part)?.stacks.worst(usize::MAX);
        let all_ns: u64 = stacks.iter().map(|it| it.blocked_ns).sum();
        let mut functions: BTreeMap<String, u64> = BTreeMap::new();
        for stack in stacks {
            if let Some(function) = names.find_function(stack.number, parts) {
                *functions.entry(function).or_default() += stack.blocked_ns;
            }
        }
        let found_ns: u64 = functions.values().sum();
        let most = functions.into_iter().max_by_key(|(_, ns)| *ns);
        most.filter(|_| 2 * found_ns > all_ns)
            .map(|(function, _)| function)
    }

    /// Returns whether the stack in which most time of a part was spent is within a function with one of these parts in its name.
    pub fn is_mostly_in(&self, part: RequestPart, functions: &[&str]) -> bool {
        let stacks = self.part_subjects(part).map(|it| it.stacks.worst(1));
        let first = stacks.and_then(|stacks| stacks.first().map(|it| it.number));
        let names = self.evidence.names();
        first.is_some_and(|number| names.is_distinct_stack_in(number, functions))
    }

    /// Returns the threads that had requests during a part, the one with the most time first.
    pub fn threads(&self, part: RequestPart) -> Vec<NamedTime<NamedThread>> {
        let subjects = self.part_subjects(part);
        subjects.map_or_else(Vec::new, |it| self.evidence.threads(&it.threads))
    }

    /// Returns the threads that ended waits of a part, the one with the most time first.
    pub fn part_wakers(&self, part: RequestPart) -> Vec<NamedTime<NamedThread>> {
        let subjects = self.part_subjects(part);
        subjects.map_or_else(Vec::new, |it| self.evidence.threads(&it.wakers))
    }

    /// Returns the process of the service; without its pid if there are several.
    pub fn process(&self) -> Process {
        let processes = self.digest.processes.worst(2);
        let pid = match processes.as_slice() {
            [only] if only.number != 0 => Some(only.number),
            _ => None,
        };
        Process {
            pid,
            comm: Some(self.key.name.clone()).filter(|name| name != "?"),
        }
    }

    /// Returns the processes of the service, the one with the most time first.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        let processes = self.digest.processes.worst(usize::MAX).into_iter();
        processes.map(|it| it.number).filter(|pid| *pid != 0)
    }

    /// Returns whether a runtime runs tasks of the service in several threads.
    pub fn has_task_runtime(&self) -> bool {
        let history = &self.evidence.table.history;
        self.pids().any(|pid| history.has_runtime_of(pid))
    }

    /// Returns the processes of this host at the other ends, with threads that are not recorded, and their names. The one
    /// with the most time comes first.
    pub fn unrecorded_others(&self) -> Vec<(u32, String)> {
        let history = &self.evidence.table.history;
        let others = self.digest.others.worst(usize::MAX).into_iter();
        let others = others.map(|it| it.number);
        let others = others.filter(|pid| *pid != 0 && !history.has_waits_of(*pid));
        let name = |pid: u32| self.evidence.names().process(pid).title();
        others.map(|pid| (pid, name(pid))).collect()
    }

    /// Returns the service's name in a sentence: `redis-server at 127.0.0.1:6379`, `curl to 10.0.0.1:80`.
    pub fn title(&self) -> String {
        let word = if self.is_server() { "at" } else { "to" };
        format!("{} {word} {}", self.key.name, self.key.address)
    }

    /// Returns the subject of a finding about the service.
    pub fn subject(&self) -> FindingSubject {
        let names = self.evidence.names();
        let conns = self.conns(&self.digest.connections);
        let worst = conns.first().and_then(|conn| names.row(*conn));
        let address = |of: fn(&table::tables::Connection) -> &String| {
            worst.map_or_else(|| "?".to_owned(), |row| of(row).clone())
        };
        FindingSubject {
            process: Some(self.process()),
            local: address(|row| &row.local),
            remote: address(|row| &row.remote),
            connections: self.digest.series.connections,
            ids: conns.into_iter().take(MOST_IDS).collect(),
            lifetime_ns: self.total_ns(),
            requests: Some(SubjectRequests {
                role: self.key.side,
                address: self.key.address.clone(),
                requests: self.requests(),
            }),
        }
    }

    /// Returns the connections of the service.
    pub fn endpoints(&self) -> impl Iterator<Item = &'a Endpoint> {
        self.evidence.table.endpoints.of_service(self.id)
    }

    /// Returns whether all that its connections carry are requests, one after another.
    pub fn has_only_turns(&self) -> bool {
        let own = self
            .evidence
            .table
            .classes
            .keys()
            .filter(|it| it.0 == self.id);
        let mut classes = own.map(|(_, class)| *class);
        classes.all(|it| !matches!(it, ConnectionClass::Interleaved | ConnectionClass::Pushed))
    }

    /// Returns whether both ends of its connections have one address, or those of loopback.
    pub fn is_within_host(&self) -> bool {
        self.endpoints().all(|it| it.is_within_host)
    }

    /// Returns the ids of the connections of a list, the one with the most time first.
    pub fn conns(&self, top: &Top) -> Vec<u64> {
        let endpoints = &self.evidence.table.endpoints;
        let worst = top.worst(usize::MAX).into_iter();
        worst
            .map(|it| endpoints.at(it.number as usize).conn)
            .collect()
    }
}
