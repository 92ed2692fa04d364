//! Requests wait for name servers before they can connect.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    direct_confidence, duration_facts, make_advice, make_fact, number, of_requests, of_time,
    rule_out, time_fact,
};
use crate::report::{Confidence, ConfidenceLevel, Fact, FactUnit, FactValue, RuleId};
use crate::requests::RequestPart;
use crate::requests::accountant::RESOLVED_FOR_NS;
use crate::requests::case::{PartHarm, QUEUE, ServiceCase};
use crate::requests::digests::name_servers::{ProcessServers, ServerWaits};
use crate::units::{count, duration, percent, quantity, ratio_of};

/// The rule `dns_slow`.
pub struct DnsSlow;

const PARTS: &[RequestPart] = &[RequestPart::Dns];

impl RequestRule for DnsSlow {
    fn id(&self) -> RuleId {
        RuleId::DnsSlow
    }

    fn summary(&self) -> &'static str {
        "Requests wait for name servers"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        if let Some(lookups) = Lookups::find(case) {
            return RequestVerdict::Fires(Box::new(lookup_finding(case, &lookups)));
        }
        // where waits were not recorded, `timer_wait` says so for all rules on them
        match is_named_elsewhere(case) {
            true => RequestVerdict::Quiet,
            false => RequestVerdict::of_parts(case, PARTS, finding),
        }
    }
}

/// Returns whether the service is a name server, and the process has requests that waited for it as long: these are named.
fn is_named_elsewhere(case: &ServiceCase<'_>) -> bool {
    let is_resolver = case.endpoints().all(|it| it.is_resolver);
    let dns_ns = case.part_ns(RequestPart::Dns);
    let waits_as_long = |other: &ServiceCase<'_>| {
        let is_other = other.key != case.key && !other.endpoints().all(|it| it.is_resolver);
        is_other && other.process() == case.process() && other.part_ns(RequestPart::Dns) >= dns_ns
    };
    is_resolver && case.evidence.services().iter().any(waits_as_long)
}

/// Parts of a question to a name server in which its answer had not come.
const ASKING: [RequestPart; 3] = [RequestPart::Remote, RequestPart::Network, RequestPart::Dns];

/// Connections before which other threads asked a name server: an event loop or a runtime does not wait for it itself.
struct Lookups {
    /// Connections that the process opened.
    opened: u64,
    /// Of these, such that a question ended shortly before.
    resolved: u64,
    /// Time of questions, and of the requests on these connections, ns.
    whole_ns: u64,
}

impl Lookups {
    /// Returns the connections that waited for the name server that this service is; `None`: it is none, most connections
    /// waited for no question, or their requests have the time already.
    fn find(case: &ServiceCase<'_>) -> Option<Self> {
        let is_resolver = |it: &ServiceCase<'_>| it.endpoints().all(|it| it.is_resolver);
        if case.is_server() || !is_resolver(case) {
            return None;
        }
        let services = case.evidence.services();
        let is_own = |it: &&ServiceCase<'_>| it.process() == case.process() && is_resolver(it);
        let asked = services.iter().filter(is_own);
        let mut asked_ns: Vec<u64> = asked
            .flat_map(|it| it.endpoints().map(|it| it.called_ns).collect::<Vec<_>>())
            .collect();
        asked_ns.sort_unstable();
        let is_resolved = |connect_ns: u64| {
            let later = asked_ns.partition_point(|ns| *ns <= connect_ns);
            let last = later.checked_sub(1).map(|at| asked_ns[at]);
            last.is_some_and(|ns| connect_ns - ns <= RESOLVED_FOR_NS)
        };
        let (mut found, mut named_ns) = (Self::without_any(case), 0);
        for other in services {
            if other.is_server() || other.process() != case.process() || is_resolver(&other) {
                continue;
            }
            let connects = other.endpoints().filter_map(|it| it.connect_ns);
            let connects: Vec<u64> = connects.collect();
            if !connects.is_empty() {
                found.whole_ns += other.total_ns();
                named_ns += other.part_ns(RequestPart::Dns);
            }
            found.opened += connects.len() as u64;
            found.resolved += connects.into_iter().filter(|ns| is_resolved(*ns)).count() as u64;
        }
        let is_most = 2 * found.resolved > found.opened;
        let is_named = 2 * named_ns >= case.harm(&ASKING).ns;
        (is_most && !is_named).then_some(found)
    }

    fn without_any(case: &ServiceCase<'_>) -> Self {
        Self {
            opened: 0,
            resolved: 0,
            whole_ns: case.total_ns(),
        }
    }

    /// Returns the share of the questions that these connections may have waited for.
    fn share(&self, case: &ServiceCase<'_>) -> f64 {
        let most = self.resolved.saturating_mul(QUESTIONS_MOST);
        ratio_of(most, case.requests()).min(1.0)
    }

    /// Returns how many questions there were for each connection, if they are more than those for both kinds of addresses.
    fn questions_each(&self, case: &ServiceCase<'_>) -> Option<f64> {
        let each = ratio_of(case.requests(), self.opened);
        (each >= SEVERAL_QUESTIONS).then_some(each)
    }
}

/// Questions of one look-up, at most: A and AAAA of a name as it is, and with each of six search domains (resolv.conf(5)).
const QUESTIONS_MOST: u64 = 2 * (1 + 6);

/// From so many questions on for each connection, they are nearer to three than to two: A and AAAA.
const SEVERAL_QUESTIONS: f64 = 2.5;

/// Makes the finding: connections waited for the questions of other threads.
fn lookup_finding(case: &ServiceCase<'_>, lookups: &Lookups) -> RequestFinding {
    let all = case.harm(&ASKING);
    let beyond_ns = all.ns as f64 * (1.0 - lookups.share(case));
    let harm = all.without(beyond_ns as u64);
    let server = case.key.address.trim_start_matches("udp:");
    let each = lookups.questions_each(case);
    let questions = each.map_or_else(String::new, |each| {
        format!(" The program asked {each:.1} times for each connection.")
    });
    let mut facts = vec![
        time_fact("dns_ns", harm.ns, "wait for answers of the name server"),
        number("connections_opened", lookups.opened, "connections opened"),
        number(
            "connections_resolved",
            lookups.resolved,
            "of them shortly after an answer of the name server",
        ),
    ];
    facts.extend(duration_facts(case));
    RequestFinding {
        parts: ASKING.to_vec(),
        whole_ns: lookups.whole_ns,
        headline: format!(
            "DNS delays connections of {}: {} to the name server {server} took {} of {} ({}).{questions}",
            case.key.name,
            quantity(case.requests(), "request"),
            duration(harm.ns),
            duration(lookups.whole_ns),
            percent(ratio_of(harm.ns, lookups.whole_ns)),
        ),
        facts,
        could_not_see: vec![
            "Which names were asked for: whylat reads no payload.".to_owned(),
            "Whether each connection waited for the request before it.".to_owned(),
        ],
        advice: make_advice(fixes(false, each.is_some())),
        gain: Some("names need no query"),
        confidence: Confidence {
            level: ConfidenceLevel::Medium,
            because: "requests to the name server ended shortly before connections: no wait of a thread shows more"
                .to_owned(),
        },
        ..RequestFinding::from_harm(case, &harm, Remedy::Avoidable)
    }
}

/// Makes the finding: requests waited for name servers.
fn finding(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestFinding {
    let servers = name_servers(case);
    let slowest = servers.as_ref().and_then(ProcessServers::slowest_server);
    let (all, behind_ns) = case.harm_with_queue(*harm, PARTS);
    let mut facts = vec![time_fact("dns_ns", harm.ns, "requests waited for DNS")];
    if behind_ns > 0 {
        let label = "wait of other requests behind them";
        facts.push(time_fact("queued_behind_ns", behind_ns, label));
    }
    facts.extend(servers.iter().flat_map(server_facts));
    facts.extend(duration_facts(case));
    let sockets_each = servers.as_ref().and_then(|it| count_sockets(case, it));
    facts.extend(sockets_each.map(sockets_fact));
    let sockets = sockets_each.map_or_else(String::new, |each| {
        format!(" The program opened {each:.1} sockets to it for each connection.")
    });
    let answers_each = servers.as_ref().and_then(count_answers);
    facts.extend(
        answers_each.map(|each| mean_fact("dns_answers_each", each, "answers on each socket")),
    );
    let answers = answers_each.map_or_else(String::new, |each| {
        format!(" The resolver asked again: it had {each:.1} answers on each socket, and a name has two.")
    });
    let who = match slowest {
        Some((server, waits)) => format!("the name server {server}{}", in_vain(&waits)),
        None => "name servers".to_owned(),
    };
    let mut unseen = Vec::new();
    if slowest.is_none() {
        let text = "Which name server: the resolver did not wait on a connected UDP socket. It used a UNIX \
            socket to a local daemon, or several descriptors at once.";
        unseen.push(text.to_owned());
    }
    unseen.push("Which names were asked for: whylat reads no payload.".to_owned());
    if sockets_each.is_some() {
        let text = "Why there are several sockets for each connection: search domains, `single-request-reopen`, or \
            look-ups of other names.";
        unseen.push(text.to_owned());
    }
    RequestFinding {
        parts: match behind_ns {
            0 => PARTS.to_vec(),
            _ => [PARTS, &QUEUE].concat(),
        },
        harm_ns: all.ns,
        excess_ns: all.excess_ns,
        excess_share: all.excess_share,
        involved: servers.iter().flat_map(involved).collect(),
        remedy: Remedy::Avoidable,
        headline: format!(
            "DNS delays {}: they waited for {who}, {}.{}{sockets}{answers}",
            of_requests(case),
            of_time(case, all.ns),
            behind(behind_ns)
        ),
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("connecting", &[RequestPart::Connect]),
                ("the other end", &[RequestPart::Remote]),
                ("the path", &[RequestPart::Network]),
                ("computing", &[RequestPart::Cpu]),
            ],
        ),
        could_not_see: unseen,
        advice: {
            let is_lost = slowest.is_some_and(|(_, waits)| waits.unanswered > 0);
            let again = answers_each.map(|_| ASKED_AGAIN);
            let more = (behind_ns > 0).then_some(MORE_AT_ONCE);
            let usual = fixes(is_lost, sockets_each.is_some());
            make_advice(again.into_iter().chain(usual).chain(more))
        },
        gain: Some("names need no query"),
        confidence: direct_confidence(case, "waits within the resolver were measured"),
        ..RequestFinding::new(case)
    }
}

/// Returns that requests waited for the look-ups of others, too.
fn behind(behind_ns: u64) -> String {
    match behind_ns {
        0 => String::new(),
        _ => format!(
            " Of this, {} was a wait behind other look-ups.",
            duration(behind_ns)
        ),
    }
}

/// Fix where the resolver asks again although it has answers: glibc does so after SERVFAIL, NOTIMP and REFUSED
/// (`send_dg()` in `resolv/res_send.c`).
const ASKED_AGAIN: &str = "Ask the name server yourself (`dig @SERVER NAME A`, `AAAA`). After SERVFAIL or REFUSED the resolver asks again: \
    correct the server, or name another one in resolv.conf.";

/// Fix where look-ups keep threads that other requests need.
const MORE_AT_ONCE: &str = "Let look-ups keep no thread that others need. `getaddrinfo()` blocks one: Node.js's `dns.lookup` has \
    half of `UV_THREADPOOL_SIZE`, 2 of 4. `dns.resolve` and aiodns need none.";

const FIXES: [&str; 4] = [
    "If answers are lost: ask the name server of /etc/resolv.conf yourself (`dig @SERVER NAME A`, `AAAA`). Then \
        find the drops: conntrack races of parallel A and AAAA questions, firewalls, an overloaded server.",
    "In resolv.conf: `options single-request-reopen` (A and AAAA from two sockets), `use-vc` (TCP), or \
        `timeout:1 attempts:3` (the default timeout is 5 s).",
    "Ask less: a local cache (systemd-resolved, nscd, dnsmasq, NodeLocal DNSCache), kept connections, a name with a final dot.",
    "If resolv.conf has search domains, use `ndots:1` or the full name: each domain of `search` is one more question.",
];

/// Returns the fixes: to ask less comes first, unless answers are lost; of that, fewer names if there are several sockets.
fn fixes(is_lost: bool, has_several_sockets: bool) -> [&'static str; 4] {
    let mut fixes = FIXES;
    if !is_lost {
        fixes.rotate_left(2);
    }
    if has_several_sockets {
        fixes.swap(0, 1);
    }
    fixes
}

/// Returns how many sockets to the name server the process opened for each connection of the service; `None`: about one, or the
/// recording does not show it. A missing answer, a second server and a further service make more sockets, too.
fn count_sockets(case: &ServiceCase<'_>, servers: &ProcessServers) -> Option<f64> {
    let all = servers.total();
    let is_one_server = servers.servers.len() == 1 && all.unanswered == 0 && all.errors == 0;
    let is_other = |other: &ServiceCase<'_>| {
        other.key != case.key
            && other.process() == case.process()
            && other.part_ns(RequestPart::Dns) > 0
    };
    let is_only_service = !case.evidence.services().iter().any(is_other);
    let is_only_process = case.process().pid.is_some();
    let connections = case
        .endpoints()
        .filter(|it| it.connect_ns.is_some())
        .count();
    let each = ratio_of(servers.sockets, connections as u64);
    let is_known = is_one_server && is_only_service && is_only_process;
    (is_known && each >= SEVERAL_SOCKETS).then_some(each)
}

/// From so many sockets on for each connection, it is nearer to two than to one.
const SEVERAL_SOCKETS: f64 = 1.5;

/// Returns how many answers there were on each socket, if they are more than those for A and AAAA; `None` if some did not come,
/// too: then the resolver asks again because of that.
fn count_answers(servers: &ProcessServers) -> Option<f64> {
    let all = servers.total();
    let each = ratio_of(all.answered, servers.sockets);
    (all.unanswered == 0 && each >= SEVERAL_QUESTIONS).then_some(each)
}

/// Makes the fact of a mean.
fn mean_fact(name: &'static str, mean: f64, label: &'static str) -> Fact {
    make_fact(name, FactValue::Real(mean), FactUnit::Count, label)
}

/// Makes the fact of sockets to the name server for each connection.
fn sockets_fact(each: f64) -> Fact {
    let label = "sockets to the name server for each connection";
    mean_fact("dns_sockets_each", each, label)
}

/// Returns ` (2 of 3 waits without an answer)`.
fn in_vain(waits: &ServerWaits) -> String {
    match waits.unanswered {
        0 => String::new(),
        unanswered => format!(
            " ({} of {} without an answer)",
            count(unanswered),
            quantity(unanswered + waits.answered, "wait")
        ),
    }
}

/// Name servers in words, at most.
const NAMED_MOST: usize = 4;

/// Names each name server, the one with the most time first, with its answers and times.
fn involved(servers: &ProcessServers) -> Vec<String> {
    let time_ns = |it: &ServerWaits| it.answered_ns + it.unanswered_ns;
    let mut all: Vec<_> = servers.servers.iter().collect();
    all.sort_by_key(|(_, waits)| std::cmp::Reverse(time_ns(waits)));
    let name = |(server, waits): (&String, &ServerWaits)| {
        let answered = (waits.answered > 0).then(|| {
            format!(
                "{} in {}, the longest {}",
                quantity(waits.answered, "answer"),
                duration(waits.answered_ns),
                duration(waits.answered_most_ns)
            )
        });
        let unanswered = (waits.unanswered > 0).then(|| {
            format!(
                "{} without an answer in {}",
                quantity(waits.unanswered, "wait"),
                duration(waits.unanswered_ns)
            )
        });
        let parts: Vec<_> = answered.into_iter().chain(unanswered).collect();
        format!("{server}: {}", parts.join("; "))
    };
    all.into_iter().take(NAMED_MOST).map(name).collect()
}

/// Name servers of the service's process.
fn name_servers(case: &ServiceCase<'_>) -> Option<ProcessServers> {
    let processes = case.digest.processes.worst(1);
    let process = processes.first()?.number;
    case.evidence.digests.name_servers.process(process).cloned()
}

/// Returns answers, missing answers and errors of each name server.
fn server_facts(servers: &ProcessServers) -> Vec<Fact> {
    let all = servers.total();
    let mut facts = vec![
        number(
            "dns_servers",
            servers.servers.len() as u64,
            "name server(s)",
        ),
        number(
            "dns_sockets",
            servers.sockets,
            "sockets to name servers on which threads waited",
        ),
        number("dns_unanswered", all.unanswered, "waits without an answer"),
    ];
    if all.unanswered > 0 {
        let ns = all.unanswered_ns;
        facts.push(time_fact(
            "dns_unanswered_ns",
            ns,
            "time in waits without an answer",
        ));
    }
    if all.answered > 0 {
        facts.push(time_fact(
            "dns_answer_max_ns",
            all.answered_most_ns,
            "longest wait for an answer",
        ));
    }
    if all.errors > 0 {
        facts.push(number(
            "dns_errors",
            all.errors,
            "waits that an error ended",
        ));
    }
    facts
}
