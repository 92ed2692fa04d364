//! Processes that serve at one address, and how evenly connections are spread among them: the requests of a service with their
//! process and connection in; out, how long requests waited at one worker while another had none.

use std::collections::{BTreeMap, HashMap};

use super::endpoint::EndpointId;
use super::part::{PartTimes, RequestPart};

/// Requests that are kept of a service: 2 MB. Later ones are not compared.
const KEPT_MOST: usize = 1 << 16;

/// A request as far as workers are concerned.
#[derive(Debug, Clone, Copy)]
struct WorkerRequest {
    pid: u32,
    endpoint: EndpointId,
    begin_ns: u64,
    end_ns: u64,
    queued_ns: u64,
    /// The first of its connection.
    is_first: bool,
}

impl WorkerRequest {
    /// Returns the request without its wait in the accept queue, which all workers share.
    fn since_accept(self) -> Self {
        match self.is_first {
            true => Self {
                begin_ns: (self.begin_ns + self.queued_ns).min(self.end_ns),
                queued_ns: 0,
                ..self
            },
            false => self,
        }
    }
}

/// Requests of all workers of a service.
#[derive(Debug, Default)]
pub struct WorkerDigest(Vec<WorkerRequest>);

/// Requests of one worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worker {
    /// Process.
    pub pid: u32,
    /// Requests.
    pub requests: u64,
    /// Connections that were in use at a time, on average.
    pub connections: u64,
    /// Time in which it had a request, ns.
    pub busy_ns: u64,
    /// Time that its requests waited, although another worker had none and an even spread had given this one fewer, ns:
    /// all of them together.
    pub avoidable_ns: u64,
}

/// A process that could serve, and when: since it listens, or from its first request to its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLife {
    /// Process.
    pub pid: u32,
    /// Begin, ns.
    pub begin_ns: u64,
    /// End, ns.
    pub end_ns: u64,
}

/// How evenly a service is spread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerSpread {
    /// Workers that had requests, the one with the most avoidable time first.
    pub workers: Vec<Worker>,
    /// From the first request to the last, ns.
    pub span_ns: u64,
    /// Connections in use at a time, on average.
    pub connections: u64,
    /// Most workers that could serve at a time.
    pub number: u64,
    /// Whether there were more requests than are kept.
    pub is_cut: bool,
}

impl WorkerDigest {
    /// Adds a request that a process served; `is_first`: the first of its connection.
    pub fn add(
        &mut self,
        (pid, endpoint): (u32, EndpointId),
        time: (u64, u64),
        parts: &PartTimes,
        is_first: bool,
    ) {
        if self.0.len() < KEPT_MOST {
            let queued_ns = parts.get(RequestPart::Queued) + parts.get(RequestPart::Unread);
            self.0.push(WorkerRequest {
                pid,
                endpoint,
                begin_ns: time.0,
                end_ns: time.1,
                queued_ns,
                is_first,
            });
        }
    }

    /// Returns the distribution of requests over the processes that listen.
    pub fn spread(&self, listeners: &[WorkerLife]) -> WorkerSpread {
        if listeners.len() < 2 {
            let requests = self.0.iter().map(|it| it.since_accept());
            return Self(requests.collect()).spread_accepted(listeners);
        }
        self.spread_accepted(listeners)
    }

    /// Returns how requests and connections spread over workers, those without any too.
    fn spread_accepted(&self, listeners: &[WorkerLife]) -> WorkerSpread {
        let mut workers: BTreeMap<u32, Worker> = BTreeMap::new();
        let mut uses: HashMap<EndpointId, (u32, u64, u64)> = HashMap::new();
        for request in &self.0 {
            workers.entry(request.pid).or_default().requests += 1;
            let used = uses.entry(request.endpoint);
            let used = used.or_insert((request.pid, request.begin_ns, request.end_ns));
            used.1 = used.1.min(request.begin_ns);
            used.2 = used.2.max(request.end_ns);
        }
        let begin_ns = self.0.iter().map(|it| it.begin_ns).min().unwrap_or(0);
        let end_ns = self.0.iter().map(|it| it.end_ns).max().unwrap_or(0);
        let span_ns = (end_ns - begin_ns).max(1);
        let mut used_ns: BTreeMap<u32, u64> = BTreeMap::new();
        for (pid, first_ns, last_ns) in uses.values() {
            *used_ns.entry(*pid).or_default() += last_ns - first_ns;
        }
        let rounded = |ns: u64| (ns + span_ns / 2) / span_ns;
        let connections = rounded(used_ns.values().sum());
        let lives = self.worker_lives(listeners);
        let alive = |at_ns: u64| {
            lives
                .iter()
                .filter(move |it| (it.begin_ns..=it.end_ns).contains(&at_ns))
        };
        let number = lives
            .iter()
            .map(|it| alive(it.begin_ns).count() as u64)
            .max();
        let number = number.unwrap_or(0);
        let fair = connections.div_ceil(number.max(1)).max(1);
        self.sweep_requests(|at_ns| alive(at_ns).count(), fair, &mut workers);
        for (pid, worker) in &mut workers {
            worker.pid = *pid;
            worker.connections = rounded(used_ns.get(pid).copied().unwrap_or(0));
            let own = self.0.iter().filter(|it| it.pid == *pid);
            let queued_ns = own.map(|it| it.queued_ns).sum();
            worker.avoidable_ns = worker.avoidable_ns.min(queued_ns);
        }
        let mut workers: Vec<Worker> = workers.into_values().collect();
        workers.sort_by_key(|it| (std::cmp::Reverse((it.avoidable_ns, it.busy_ns)), it.pid));
        WorkerSpread {
            workers,
            span_ns,
            connections,
            number,
            is_cut: self.0.len() == KEPT_MOST,
        }
    }

    /// Returns when each process could serve.
    fn worker_lives(&self, listeners: &[WorkerLife]) -> Vec<WorkerLife> {
        let mut lives: BTreeMap<u32, WorkerLife> = BTreeMap::new();
        let own = self.0.iter().map(|it| WorkerLife {
            pid: it.pid,
            begin_ns: it.begin_ns,
            end_ns: it.end_ns,
        });
        for life in listeners.iter().copied().chain(own) {
            let known = lives.entry(life.pid).or_insert(life);
            known.begin_ns = known.begin_ns.min(life.begin_ns);
            known.end_ns = known.end_ns.max(life.end_ns);
        }
        lives.into_values().collect()
    }

    /// Goes over the starts and ends of requests. Those of a worker beyond `fair` wait in vain while another has none: an even
    /// spread gives no worker more connections than that. `alive`: how many could serve at a time.
    fn sweep_requests(
        &self,
        alive: impl Fn(u64) -> usize,
        fair: u64,
        workers: &mut BTreeMap<u32, Worker>,
    ) {
        let begins = self.0.iter().map(|it| (it.begin_ns, true, it.pid));
        let ends = self.0.iter().map(|it| (it.end_ns, false, it.pid));
        let mut events: Vec<(u64, bool, u32)> = begins.chain(ends).collect();
        // at one time, ends come first
        events.sort_unstable();
        let mut open: BTreeMap<u32, u64> = BTreeMap::new();
        let mut before_ns = 0;
        for (at_ns, is_begin, pid) in events {
            let busy = open.values().filter(|open| **open > 0).count();
            let has_idle = busy > 0 && busy < alive(before_ns);
            let passed_ns = at_ns - before_ns;
            for (pid, open) in open.iter().filter(|(_, open)| **open > 0) {
                let worker = workers.entry(*pid).or_default();
                worker.busy_ns += passed_ns;
                if has_idle {
                    worker.avoidable_ns += passed_ns * open.saturating_sub(fair);
                }
            }
            before_ns = at_ns;
            let open = open.entry(pid).or_default();
            *open = match is_begin {
                true => *open + 1,
                false => open.saturating_sub(1),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a digest of requests: pid, connection, begin, end.
    fn digest(requests: &[(u32, u32, u64, u64)]) -> WorkerDigest {
        let mut digest = WorkerDigest::default();
        let mut parts = PartTimes::default();
        parts.add(RequestPart::Queued, 1_000);
        for (pid, conn, begin_ns, end_ns) in requests {
            let endpoint = EndpointId::from_number(*conn);
            digest.add((*pid, endpoint), (*begin_ns, *end_ns), &parts, false);
        }
        digest
    }

    /// Makes a worker that existed during the whole recording.
    fn life(pid: u32) -> WorkerLife {
        WorkerLife {
            pid,
            begin_ns: 0,
            end_ns: u64::MAX,
        }
    }

    #[test]
    fn requests_beyond_even_distribution_wait_avoidably() {
        // three connections at worker 7, one at 8; 9 has none
        let uneven = [
            (7, 1, 0, 100),
            (7, 2, 0, 100),
            (7, 3, 0, 100),
            (8, 4, 0, 100),
        ];
        let spread = digest(&uneven).spread(&[life(7), life(9)]);
        let worst = spread.workers[0];
        assert_eq!((worst.pid, worst.connections, worst.requests), (7, 3, 3));
        // four connections, three workers: two each; one of three waits
        assert_eq!((worst.avoidable_ns, worst.busy_ns), (100, 100));
        assert_eq!((spread.connections, spread.number), (4, 3));
        assert_eq!(spread.workers[1].avoidable_ns, 0);
        // without a third worker, none is idle
        assert_eq!(digest(&uneven).spread(&[]).workers[0].avoidable_ns, 0);
    }

    #[test]
    fn shared_accept_queue_is_no_uneven_spread() {
        // two workers take one connection for each request; the second of worker 7 waits until it accepts
        let mut parts = PartTimes::default();
        parts.add(RequestPart::Queued, 100);
        let mut digest = WorkerDigest::default();
        for (pid, conn, begin_ns) in [(7, 1, 0), (7, 2, 0), (7, 3, 0)] {
            let endpoint = EndpointId::from_number(conn);
            digest.add((pid, endpoint), (begin_ns, 110), &parts, true);
        }
        let shared = digest.spread(&[life(7)]);
        assert_eq!(shared.workers[0].avoidable_ns, 0);
        let own = digest.spread(&[life(7), life(8)]);
        assert!(own.workers[0].avoidable_ns > 0, "{own:?}");
    }

    #[test]
    fn even_distribution_has_no_avoidable_wait() {
        let even = [
            (7, 1, 0, 90),
            (7, 2, 0, 100),
            (8, 3, 0, 5),
            (8, 4, 95, 100),
            (8, 3, 99, 100),
        ];
        let spread = digest(&even).spread(&[]);
        assert!(
            spread.workers.iter().all(|it| it.avoidable_ns == 0),
            "{spread:?}"
        );
    }

    #[test]
    fn a_worker_that_follows_another_is_not_beside_it() {
        let restarted = [
            (7, 1, 0, 100),
            (8, 2, 200, 300),
            (8, 3, 200, 300),
            (8, 4, 200, 300),
        ];
        let spread = digest(&restarted).spread(&[]);
        assert_eq!((spread.number, spread.workers[0].avoidable_ns), (1, 0));
    }
}
