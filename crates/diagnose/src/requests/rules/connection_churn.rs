//! A connection for each request, or for few: handshakes of TCP and TLS take the time, and slow start of each new connection.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    direct_confidence, duration_facts, make_advice, most_at_once, number, of_time, rule_out,
    time_fact,
};
use crate::kernel::TCP_RTO_MIN_NS;
use crate::report::severity::held_up;
use crate::report::{Fact, RuleDoubt, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::ServiceCase;
use crate::requests::endpoint::Endpoint;
use crate::units::{count, duration, quantity};

/// The rule `connection_churn`.
pub struct ConnectionChurn;

const PARTS: &[RequestPart] = &[RequestPart::Connect];
const PARTS_WITH_SLOW_START: &[RequestPart] =
    &[RequestPart::Connect, RequestPart::CongestionWindow];

impl RequestRule for ConnectionChurn {
    fn id(&self) -> RuleId {
        RuleId::ConnectionChurn
    }

    fn summary(&self) -> &'static str {
        "Connections are not kept: requests wait for handshakes of TCP and TLS"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        if case.is_server() {
            return doubt_verdict(case);
        }
        let opened = PoolSize::new(case);
        // a kept connection saves the other end's part of handshakes and log-ins, too
        let connect_ns = case.part_of_both_ns(RequestPart::Connect);
        // what SYNs waited for their timers is another cause: syn_retries
        let connect_ns = connect_ns.saturating_sub(opened.retried_ns);
        match opened.spare_connections() {
            _ if connect_ns == 0 => RequestVerdict::Quiet,
            0 => RequestVerdict::Quiet,
            _ => RequestVerdict::Fires(Box::new(finding(case, &opened, connect_ns))),
        }
    }
}

/// Connections of a service that the recording saw open.
struct PoolSize {
    /// How many.
    connections: u64,
    /// Most that were in use at once, from connect() to the last call: so many a pool needs.
    most: u64,
    /// Time of their TCP handshakes, ns: without those with a retransmitted SYN.
    tcp_ns: u64,
    /// Time of these, ns.
    retried_ns: u64,
    /// When each was last used, ns, in order.
    last_uses_ns: Vec<u64>,
}

impl PoolSize {
    /// Counts connections that were opened, the most open at once, and the time of handshakes.
    fn new(case: &ServiceCase<'_>) -> Self {
        let mut opened = Self {
            connections: 0,
            most: 0,
            tcp_ns: 0,
            retried_ns: 0,
            last_uses_ns: Vec::new(),
        };
        let mut uses = Vec::new();
        for endpoint in case.endpoints() {
            if let Some(connect_ns) = endpoint.connect_ns {
                opened.connections += 1;
                let opened_ns = endpoint.opened_ns.unwrap_or(connect_ns);
                let handshake_ns = opened_ns.saturating_sub(connect_ns);
                match endpoint.has_syn_retries {
                    true => opened.retried_ns += handshake_ns,
                    false => opened.tcp_ns += handshake_ns,
                }
                uses.push((connect_ns, end_of_use_ns(endpoint, opened_ns)));
            }
        }
        opened.last_uses_ns = uses.iter().map(|(_, end_ns)| *end_ns).collect();
        opened.last_uses_ns.sort_unstable();
        opened.most = most_at_once(uses.into_iter());
        opened
    }

    /// Returns for how long the connection that was used last had been idle at this time, ns: a pool would take that
    /// one. `None`: all were in use, and a pool opens one, too.
    fn idle_ns(&self, begin_ns: u64) -> Option<u64> {
        let free = self.last_uses_ns.partition_point(|ns| *ns <= begin_ns);
        let latest = free.checked_sub(1)?;
        Some(begin_ns - self.last_uses_ns[latest])
    }

    /// Returns the number of connections that a pool would not have opened.
    fn spare_connections(&self) -> u64 {
        self.connections - self.most
    }
}

/// Returns when a connection was last used, ns: at its last request, or at its close.
fn end_of_use_ns(endpoint: &Endpoint, opened_ns: u64) -> u64 {
    let called_ns = match endpoint.called_ns {
        0 => u64::MAX, // no call was seen
        ns => ns.max(opened_ns),
    };
    endpoint.closed_ns.map_or(called_ns, |ns| ns.min(called_ns))
}

/// Slow start of the connections that the recording saw open while a pool would have had a free one.
#[derive(Debug, Default)]
struct SlowStartCost {
    /// Requests waited for it, by ledgers and by estimate, whichever is less, ns.
    ns: u64,
    /// Most round trips of one connection, by estimate.
    rounds: u64,
    /// The same of other ends that are not recorded: no ledger says how long it was.
    unseen_rounds: u64,
    /// Connections with such slow start.
    connections: u64,
    /// Connections with slow start that does not count: a kept one would have been idle for the shortest retransmission
    /// timeout of the path. After that the kernel may begin slow start again (`tcp_slow_start_after_idle_check()`).
    restarts: u64,
}

impl SlowStartCost {
    /// Adds up both ends of the connections.
    fn new(case: &ServiceCase<'_>, opened: &PoolSize) -> Self {
        let starts = &case.evidence.digests.slow_starts;
        let mut cost = Self::default();
        for endpoint in case.endpoints() {
            let idle_ns = endpoint.connect_ns.and_then(|ns| opened.idle_ns(ns));
            let (Some(idle_ns), Some(own)) = (idle_ns, starts.connection(endpoint.conn)) else {
                continue;
            };
            let path_ns = endpoint.min_rtt_ns.unwrap_or(0);
            let may_restart = idle_ns > TCP_RTO_MIN_NS + path_ns;
            let mut is_slow = false;
            let mut add = |limited_ns: Option<u64>, rounds: u64| {
                let estimate_ns = rounds.saturating_mul(path_ns);
                let slow_ns = limited_ns.map_or(0, |ns| ns.min(estimate_ns));
                is_slow |= slow_ns > 0;
                if slow_ns > 0 && !may_restart {
                    cost.ns += slow_ns;
                    cost.rounds = cost.rounds.max(rounds);
                }
            };
            add(own.limited_ns, own.extra_rounds(own.sent_bytes));
            let peer = endpoint.peer.map(|peer| case.evidence.endpoint(peer).conn);
            match peer.and_then(|conn| starts.connection(conn)) {
                Some(peer) => add(peer.limited_ns, peer.extra_rounds(peer.sent_bytes)),
                None => {
                    let rounds = own.extra_rounds(own.received_bytes);
                    cost.unseen_rounds = cost.unseen_rounds.max(rounds);
                }
            }
            match may_restart {
                true => cost.restarts += u64::from(is_slow),
                false => cost.connections += u64::from(is_slow),
            }
        }
        cost.ns = cost.ns.min(case.part_ns(RequestPart::CongestionWindow));
        cost
    }

    /// Returns the facts, if there was some.
    fn facts(&self) -> Vec<Fact> {
        if self.ns == 0 {
            return Vec::new();
        }
        let label = "requests waited in slow start that kept connections lack: ledgers, or the estimate if that is less";
        let rounds =
            "round trips of it on a connection, at most (estimate by bytes and first window)";
        vec![
            time_fact("slow_start_ns", self.ns, label),
            number("slow_start_rounds", self.rounds, rounds),
        ]
    }

    /// Returns what the recording does not show.
    fn list_unseen(&self) -> Vec<String> {
        let of_estimate =
            "Whether HyStart or a narrow path ended slow start earlier: the estimate ignores both.";
        let of_peer = format!(
            "Slow start of the other end. For what came on one connection, a new one needs up to {} more.",
            quantity(self.unseen_rounds, "round trip")
        );
        let of_restarts = format!(
            "Whether kept connections begin slow start again: {} came after a retransmission timeout or more without use. \
             Their slow start does not count.",
            quantity(self.restarts, "connection")
        );
        let of_restarts = (self.restarts > 0).then_some(of_restarts);
        let of_estimate = (self.ns > 0).then(|| of_estimate.to_owned());
        let of_peer = (self.unseen_rounds > 0).then_some(of_peer);
        let unseen = [of_estimate, of_peer, of_restarts];
        unseen.into_iter().flatten().collect()
    }
}

/// Returns the part of a time of so many connections that some of them have, ns.
fn part_of(ns: u64, some: u64, connections: u64) -> u64 {
    let some_ns = u128::from(ns) * u128::from(some.min(connections));
    some_ns.checked_div(connections.into()).unwrap_or(0) as u64
}

/// Makes the finding: requests waited for new connections.
fn finding(case: &ServiceCase<'_>, opened: &PoolSize, connect_ns: u64) -> RequestFinding {
    let slow_start = SlowStartCost::new(case, opened);
    let new_ns = connect_ns + slow_start.ns;
    let spare = opened.spare_connections();
    let harm_ns = part_of(connect_ns, spare, opened.connections)
        + part_of(slow_start.ns, spare, slow_start.connections);
    let tcp_ns = opened.tcp_ns.min(connect_ns);
    let mut facts = vec![
        number(
            "connections_opened",
            opened.connections,
            "connections opened",
        ),
        number(
            "connections_at_once",
            opened.most,
            "connections in use at once, at most",
        ),
        time_fact("connect_ns", connect_ns, "requests waited for handshakes"),
        time_fact("tcp_handshakes_ns", tcp_ns, "of this time: TCP handshakes"),
        time_fact(
            "tls_handshakes_ns",
            connect_ns - tcp_ns,
            "of this time: TLS, log-ins, and the start of the first request",
        ),
    ];
    facts.extend(slow_start.facts());
    facts.extend(duration_facts(case));
    let (parts, cause) = match slow_start.ns {
        0 => (PARTS, "handshakes"),
        _ => (PARTS_WITH_SLOW_START, "handshakes and slow start"),
    };
    RequestFinding {
        parts: parts.to_vec(),
        harm_ns,
        remedy: Remedy::Avoidable,
        headline: format!(
            "{} opened {} for {}: {cause} took {}.",
            case.title(),
            quantity(opened.connections, "connection"),
            quantity(case.requests(), "request"),
            of_time(case, new_ns)
        ),
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("DNS", &[RequestPart::Dns]),
                ("the other end", &[RequestPart::Remote]),
                ("the path after the handshakes", &[RequestPart::Network]),
                ("computing", &[RequestPart::Cpu]),
                (
                    "lack of CPU",
                    &[
                        RequestPart::RunQueue,
                        RequestPart::Preempted,
                        RequestPart::CpuQuota,
                    ],
                ),
            ],
        ),
        could_not_see: [
            "Who closed the connections: the program, or the other end after each response.",
        ]
        .map(str::to_owned)
        .into_iter()
        .chain(slow_start.list_unseen())
        .collect(),
        advice: make_advice(list_fixes(opened, &slow_start)),
        gain: Some("connections are kept, and their number is that in use at once"),
        confidence: direct_confidence(case, "connections and their handshakes were measured"),
        ..RequestFinding::new(case)
    }
}

/// Returns an undecided verdict: a server does not see what the handshakes cost its clients.
fn doubt_verdict(case: &ServiceCase<'_>) -> RequestVerdict {
    let connections = case.digest.series.connections;
    let has_client = case.endpoints().any(|it| it.peer.is_some());
    let min_rtt_ns = case.endpoints().filter_map(|it| it.min_rtt_ns).min();
    let least_ns = min_rtt_ns.unwrap_or(0).saturating_mul(connections);
    let is_for_each = connections > 1 && connections == case.requests();
    if has_client || !is_for_each || !held_up(least_ns, case.total_ns() + least_ns) {
        return RequestVerdict::Quiet;
    }
    let mut facts = vec![
        number(
            "connections_opened",
            connections,
            "connections with requests",
        ),
        time_fact("min_rtt_ns", min_rtt_ns.unwrap_or(0), "min RTT of the path"),
    ];
    facts.extend(duration_facts(case));
    RequestVerdict::undecided(
        format!(
            "Clients opened {} for {} to {}: handshakes may have taken {} or more.",
            quantity(connections, "connection"),
            quantity(case.requests(), "request"),
            case.title(),
            duration(least_ns)
        ),
        RuleDoubt {
            candidates: vec![RuleId::ConnectionChurn],
            concerned_ns: least_ns,
            facts,
            why: "The clients are not recorded: a server does not see how long they wait for handshakes.",
            would_help: Some("Record a client."),
        },
    )
}

fn list_fixes(opened: &PoolSize, slow_start: &SlowStartCost) -> Vec<String> {
    let mut fixes = vec![
        "nginx: an `upstream` block with `keepalive`, `proxy_http_version 1.1` and an empty `Connection` header.".to_owned(),
        format!(
            "Programs: keep one client object. Examples: requests.Session, http.Agent with keepAlive, one \
                http.Client in Go (read the body to its end). Databases: a pool of SQLAlchemy, HikariCP or \
                pgbouncer. {} are enough here.",
            count(opened.most)
        ),
        "If the other end closes connections: raise its keep-alive timeout and its number of requests for each \
            connection.".to_owned(),
        "If TLS must begin again: resume sessions (tickets or a session cache), or use TLS 1.3 and ECDSA \
            keys.".to_owned(),
    ];
    if slow_start.restarts > 0 {
        let text = "At the sender of large messages, net.ipv4.tcp_slow_start_after_idle=0 keeps the window of an idle \
            connection.";
        fixes.push(text.to_owned());
    }
    fixes
}
