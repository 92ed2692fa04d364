//! This host dropped datagrams: the receive buffer of a socket was full, or another part of the host refused them. Clients
//! wait until they ask again; a program that is sent measurements or logs loses them.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{ProgramVerdict, Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    duration_facts, make_advice, number, of_requests, of_time, rule_out, share_fact, time_fact,
};
use crate::drops::DropCause;
use crate::report::severity::{EXPLAINS_LEAST, held_up};
use crate::report::{
    Confidence, ConfidenceLevel, DataDirection, Fact, FindingSubject, RuleDoubt, RuleId,
};
use crate::requests::RequestPart;
use crate::requests::case::ServiceCase;
use crate::requests::digests::udp_drops::{DatagramPath, UdpDropDigest};
use crate::requests::evidence::RequestEvidence;
use crate::units::{count, percent, quantity, ratio_of};

/// The rule `udp_drops`.
pub struct UdpDrops;

/// A client that waits for a lost answer waits for its timer; where that is not seen, for the other end.
pub(super) const PARTS: &[RequestPart] = &[
    RequestPart::Timer,
    RequestPart::Remote,
    RequestPart::Network,
];

/// Reasons of the kernel: the receiver had no room (`include/net/dropreason-core.h`).
const NO_ROOM: [&str; 2] = ["SOCKET_RCVBUFF", "SOCKET_BACKLOG"];

/// Function of the kernel that drops a datagram that found no room, where it gives no reason.
const NO_ROOM_PLACE: &str = "udp_queue_rcv";

/// Reason of the kernel: nobody has this port.
const NO_SOCKET: &str = "NO_SOCKET";

impl RequestRule for UdpDrops {
    fn id(&self) -> RuleId {
        RuleId::UdpDrops
    }

    fn summary(&self) -> &'static str {
        "This host dropped datagrams"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        if case.is_server() || case.digest.repeats.requests == 0 {
            return RequestVerdict::Quiet;
        }
        if !case.evidence.has_drops() {
            return unseen_verdict(case);
        }
        let lost = LostQuestions::new(case);
        match lost.requests {
            0 => RequestVerdict::Quiet,
            _ => RequestVerdict::Fires(Box::new(finding(case, &lost))),
        }
    }

    fn check_programs(&self, evidence: &RequestEvidence<'_>) -> Vec<ProgramVerdict> {
        let groups = ReceiverLoss::all(evidence);
        if groups.is_empty() {
            return Vec::new();
        }
        let known = receivers_of_requests(evidence);
        let groups = groups.into_iter().filter(|it| !known.contains(&it.address));
        groups.map(|it| it.verdict(evidence)).collect()
    }
}

/// Datagrams that were dropped, by cause. Of some the kernel has a count alone.
#[derive(Debug, Default)]
struct DropSums {
    by_cause: BTreeMap<DropCause, f64>,
    is_sampled: bool,
}

impl DropSums {
    /// Adds a path's drops in an interval; returns how many they are, by weight of the sample.
    fn add(&mut self, drops: &UdpDropDigest, path: &DatagramPath, time: (u64, u64)) -> u64 {
        let within = path.drops.iter();
        let within = within.filter(|it| (time.0..=time.1).contains(&it.time_ns));
        let before = self.count();
        for dropped in within {
            let weight = drops.weight(dropped);
            self.is_sampled |= weight > 1.0;
            *self.by_cause.entry(dropped.cause.clone()).or_default() += weight;
        }
        self.count() - before
    }

    /// Returns the number of drops over all causes.
    fn count(&self) -> u64 {
        self.by_cause.values().sum::<f64>().round() as u64
    }

    /// Returns the cause of most drops; `None` without drops.
    fn first(&self) -> Option<&DropCause> {
        let most = self.by_cause.iter().max_by(|a, b| a.1.total_cmp(b.1));
        most.map(|(cause, _)| cause)
    }

    /// Returns why most datagrams were dropped, as a sentence without a full stop.
    fn explain_drops(&self, address: &str) -> String {
        match self.first() {
            Some(cause) if is_full_buffer(cause) => {
                format!("the receive buffer of the socket at {address} was full")
            }
            Some(cause) => format!(
                "this host dropped them ({}: {})",
                lower_first(&cause.meaning()),
                cause.title()
            ),
            None => "this host dropped them".to_owned(),
        }
    }

    /// Returns fixes for the causes, without repetition.
    fn advice(&self) -> Vec<String> {
        let has_full = self.by_cause.keys().any(is_full_buffer);
        let full = FULL_BUFFER_FIXES
            .into_iter()
            .filter(|_| has_full)
            .map(str::to_owned);
        let others = self.by_cause.keys().filter(|cause| !is_full_buffer(cause));
        full.chain(others.map(DropCause::explain)).collect()
    }

    /// Returns high confidence; medium if the addresses are of a sample.
    fn confidence(&self) -> Confidence {
        match self.is_sampled {
            false => Confidence {
                level: ConfidenceLevel::High,
                because: "the kernel gave addresses and reason of each drop".to_owned(),
            },
            true => Confidence {
                level: ConfidenceLevel::Medium,
                because: "the kernel counted the drops, and gave the addresses of a sample"
                    .to_owned(),
            },
        }
    }
}

const FULL_BUFFER_FIXES: [&str; 3] = [
    "Raise SO_RCVBUF of the receiver. net.core.rmem_max limits it. Without SO_RCVBUF, a program has \
        net.core.rmem_default.",
    "Take datagrams faster: a thread that only receives, recvmmsg(), or several sockets with SO_REUSEPORT.",
    "Let clients send fewer questions at once, and repeat them sooner.",
];

/// Writes the first letter small.
fn lower_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// Returns whether the cause is a full receive buffer.
fn is_full_buffer(cause: &DropCause) -> bool {
    match cause.reason.as_deref() {
        Some(reason) => NO_ROOM.contains(&reason),
        None => {
            let place = cause.place.as_deref();
            place.is_some_and(|place| place.contains(NO_ROOM_PLACE))
        }
    }
}

/// Requests of a client with datagrams that this host dropped.
#[derive(Debug, Default)]
struct LostQuestions {
    requests: u64,
    asked_again: u64,
    ns: u64,
    questions: u64,
    answers: u64,
    sums: DropSums,
    receivers: BTreeMap<String, u64>,
}

impl LostQuestions {
    /// Finds repeated questions with datagrams that this host dropped.
    fn new(case: &ServiceCase<'_>) -> Self {
        let drops = &case.evidence.digests.udp_drops;
        let mut lost = Self::default();
        for repeated in &case.digest.repeats.kept {
            let endpoint = case.evidence.endpoint(repeated.endpoint);
            let Some(flow) = case.evidence.names().udp_flows().get(endpoint.conn) else {
                continue;
            };
            let time = (repeated.again.since_ns, repeated.again.last_ns);
            let mut dropped = 0;
            for path in drops.paths_of(flow) {
                let count = lost.sums.add(drops, path, time);
                match flow.remote.as_ref() == Some(&path.destination) {
                    true => lost.questions += count,
                    false => lost.answers += count,
                }
                if count > 0 {
                    *lost.receivers.entry(path.destination.clone()).or_default() += count;
                }
                dropped += count;
            }
            if dropped > 0 {
                lost.requests += 1;
                lost.asked_again += repeated.again.count;
                lost.ns += repeated.lost_ns();
            }
        }
        lost.ns = lost.ns.min(case.total_ns());
        lost
    }

    /// Returns the address at which most were dropped.
    fn receiver(&self) -> &str {
        let most = self.receivers.iter().max_by_key(|(_, count)| **count);
        most.map_or("?", |(address, _)| address.as_str())
    }

    /// Returns whether the drops explain enough of the requests' time.
    fn is_cause(&self, case: &ServiceCase<'_>) -> bool {
        let of_time = ratio_of(self.ns, case.total_ns());
        of_time >= EXPLAINS_LEAST && held_up(self.ns, case.total_ns())
    }
}

/// Returns whether this host dropped datagrams of a client's repeated questions.
pub(super) fn lost_here(case: &ServiceCase<'_>) -> bool {
    LostQuestions::new(case).requests > 0
}

/// Returns the addresses where drops already belong to a finding on their clients' requests.
fn receivers_of_requests(evidence: &RequestEvidence<'_>) -> BTreeSet<String> {
    let services = evidence.services().into_iter();
    let clients = services.filter(|it| !it.is_server() && it.digest.repeats.requests > 0);
    let lost = clients.filter_map(|case| {
        let lost = LostQuestions::new(&case);
        lost.is_cause(&case).then_some(lost.receivers)
    });
    lost.flat_map(BTreeMap::into_keys).collect()
}

/// Makes the finding: requests waited because this host dropped datagrams.
fn finding(case: &ServiceCase<'_>, lost: &LostQuestions) -> RequestFinding {
    let mut facts = vec![
        number(
            "dropped",
            lost.sums.count(),
            "datagrams that this host dropped",
        ),
        number("dropped_questions", lost.questions, "of them questions"),
        number("dropped_answers", lost.answers, "of them answers"),
        number(
            "requests_dropped",
            lost.requests,
            "requests that lost a datagram",
        ),
        number("asked_again", lost.asked_again, "datagrams repeated"),
        time_fact(
            "lost_ns",
            lost.ns,
            "time until the last lost datagram was repeated",
        ),
        share_fact(
            "lost_share",
            ratio_of(lost.ns, case.total_ns()),
            "of the time of requests",
        ),
    ];
    facts.extend(duration_facts(case));
    RequestFinding {
        parts: PARTS.to_vec(),
        harm_ns: lost.ns,
        involved: name_involved(case.evidence, lost),
        remedy: Remedy::Avoidable,
        headline: format!(
            "Dropped datagrams delay {}: {} until they were repeated; {}.",
            of_requests(case),
            of_time(case, lost.ns),
            lost.sums.explain_drops(lost.receiver())
        ),
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("computing", &[RequestPart::Cpu]),
                ("locks", &[RequestPart::Lock]),
            ],
        ),
        could_not_see: could_not_see(case.evidence, lost),
        advice: make_advice(lost.sums.advice()),
        gain: Some("no datagram is dropped"),
        confidence: lost.sums.confidence(),
        ..RequestFinding::new(case)
    }
}

/// Names the receivers of the dropped datagrams, and what their programs ran.
fn name_involved(evidence: &RequestEvidence<'_>, lost: &LostQuestions) -> Vec<String> {
    let drops = &evidence.digests.udp_drops;
    let name = |(address, count): (&String, &u64)| {
        let path = drops.paths().find(|it| &it.destination == address)?;
        let pid = drops.receiver(path)?.pid?;
        Some(receiver_title(evidence, pid, address, *count))
    };
    lost.receivers.iter().filter_map(name).take(4).collect()
}

/// Returns what the recording does not show of the drops.
fn could_not_see(evidence: &RequestEvidence<'_>, lost: &LostQuestions) -> Vec<String> {
    let sooner = "When the answers would have come without the drops.".to_owned();
    let reader = "What the receiver did meanwhile: it was not recorded.".to_owned();
    let has_receivers = !name_involved(evidence, lost).is_empty();
    let reader = (!has_receivers).then_some(reader);
    reader.into_iter().chain([sooner]).collect()
}

/// Returns `python3[7] has the socket at 10.0.0.1:53: 30 datagrams dropped`.
fn receiver_title(evidence: &RequestEvidence<'_>, pid: u32, address: &str, lost: u64) -> String {
    format!(
        "{} has the socket at {address}: {} dropped",
        evidence.names().process(pid).title(),
        quantity(lost, "datagram")
    )
}

/// Returns an undecided verdict: the client repeated questions, and drops were not recorded.
fn unseen_verdict(case: &ServiceCase<'_>) -> RequestVerdict {
    let repeats = &case.digest.repeats;
    let lost_ns: u64 = repeats.kept.iter().map(|it| it.lost_ns()).sum();
    let lost_ns = lost_ns.min(case.total_ns());
    if !held_up(lost_ns, case.total_ns()) {
        return RequestVerdict::Quiet;
    }
    let mut facts = duration_facts(case);
    facts.push(number(
        "asked_again",
        repeats.questions,
        "datagrams repeated",
    ));
    facts.push(time_fact(
        "lost_ns",
        lost_ns,
        "time until the last lost datagram was repeated",
    ));
    RequestVerdict::undecided(
        format!(
            "{} sent {} again. The recording does not show whether this host dropped them.",
            case.key.name,
            quantity(repeats.questions, "datagram"),
        ),
        RuleDoubt {
            candidates: vec![
                RuleId::UdpDrops,
                RuleId::DatagramsUnanswered,
                RuleId::TimerWait,
            ],
            concerned_ns: lost_ns,
            facts,
            why: "Drops of this host were not recorded.",
            would_help: Some("Record as root; `whylat doctor` says what the probe `drops` needs."),
        },
    )
}

/// Datagrams that one process lost at one address: they were for it or, if the receiver is not recorded, from it.
#[derive(Debug)]
struct ReceiverLoss {
    pid: u32,
    address: String,
    other: String,
    is_receiver: bool,
    sums: DropSums,
    /// Datagrams that it took, or sent.
    moved: u64,
    time: (u64, u64),
}

impl ReceiverLoss {
    /// Returns the losses of all recorded processes.
    fn all(evidence: &RequestEvidence<'_>) -> Vec<Self> {
        let drops = &evidence.digests.udp_drops;
        let mut groups: BTreeMap<(u32, String, bool), Self> = BTreeMap::new();
        for path in drops.paths() {
            let flow = drops.receiver(path).map(|flow| (flow, true));
            let Some((flow, is_receiver)) =
                flow.or_else(|| drops.sender(path).map(|flow| (flow, false)))
            else {
                continue;
            };
            let key = (flow.pid.unwrap_or(0), path.destination.clone(), is_receiver);
            let group = groups.entry(key).or_insert_with_key(|key| Self {
                pid: key.0,
                address: key.1.clone(),
                other: path.source.clone(),
                is_receiver,
                sums: DropSums::default(),
                moved: datagrams_moved(evidence, key),
                time: (u64::MAX, 0),
            });
            group.sums.add(drops, path, (0, u64::MAX));
            let times = path.drops.iter().map(|it| it.time_ns);
            group.time = times.fold(group.time, |time, ns| (time.0.min(ns), time.1.max(ns)));
        }
        groups.into_values().collect()
    }

    /// Returns the share of lost datagrams in all that were sent to or by the program.
    fn lost_share(&self) -> f64 {
        let lost = self.sums.count();
        match self.is_receiver {
            true => ratio_of(lost, lost + self.moved),
            false => ratio_of(lost, self.moved).min(1.0),
        }
    }

    /// Judges the drops of one receiver or sender that serves no requests.
    fn verdict(&self, evidence: &RequestEvidence<'_>) -> ProgramVerdict {
        let recorded = evidence.time_range();
        let subject = FindingSubject {
            process: Some(evidence.names().process(self.pid)),
            local: if self.is_receiver {
                &self.address
            } else {
                &self.other
            }
            .clone(),
            remote: if self.is_receiver {
                &self.other
            } else {
                &self.address
            }
            .clone(),
            connections: 1,
            ids: Vec::new(),
            lifetime_ns: recorded.1.saturating_sub(recorded.0),
            requests: None,
        };
        ProgramVerdict {
            time: self.time,
            verdict: RequestVerdict::Fires(Box::new(self.finding(&subject))),
            subject,
        }
    }

    /// Makes the finding of datagrams that a program lost.
    fn finding(&self, subject: &FindingSubject) -> RequestFinding {
        let lost = self.sums.count();
        let label = match self.is_receiver {
            true => "datagrams that the process received at this address",
            false => "datagrams that the process sent to this address",
        };
        let facts: Vec<Fact> = vec![
            number("dropped", lost, "datagrams that this host dropped"),
            number("moved", self.moved, label),
            share_fact("lost_share", self.lost_share(), "of the datagrams lost"),
        ];
        let is_closed = |cause: &DropCause| cause.reason.as_deref() == Some(NO_SOCKET);
        let is_fault = !self.sums.first().is_some_and(is_closed);
        RequestFinding {
            lost_share: is_fault.then(|| self.lost_share()),
            direction: match self.is_receiver {
                true => Some(DataDirection::Receiving),
                false => Some(DataDirection::Sending),
            },
            whole_ns: subject.lifetime_ns,
            remedy: Remedy::Avoidable,
            headline: self.headline(subject, lost),
            facts,
            could_not_see: vec![
                "What the lost datagrams were: whylat reads no payload.".to_owned(),
            ],
            advice: make_advice(self.sums.advice()),
            confidence: self.sums.confidence(),
            ..RequestFinding::without_harm()
        }
    }

    /// Returns the headline: who lost how many datagrams, and why.
    fn headline(&self, subject: &FindingSubject, lost: u64) -> String {
        let who = subject.process.as_ref();
        let who = who.map_or_else(|| "A program".to_owned(), |it| it.title());
        let of = match self.is_receiver {
            true => format!("for {}", self.address),
            false => format!("to {}", self.address),
        };
        let all = if self.is_receiver {
            lost + self.moved
        } else {
            self.moved.max(lost)
        };
        format!(
            "{who} lost {} of {} {of} ({}): {}.",
            count(lost),
            quantity(all, "datagram"),
            percent(self.lost_share()),
            self.sums.explain_drops(&self.address)
        )
    }
}

/// Returns the number of datagrams that a process received at an address, or sent to it.
fn datagrams_moved(
    evidence: &RequestEvidence<'_>,
    (pid, address, is_receiver): &(u32, String, bool),
) -> u64 {
    let drops = &evidence.digests.udp_drops;
    let own = evidence.names().udp_flows().all();
    let own = own.filter(|it| it.pid.unwrap_or(0) == *pid);
    let moved = own.map(|flow| {
        let moved = drops.flow_totals(flow.conn);
        let is_here = crate::rows::addresses::is_at(address, &flow.local);
        let is_there = flow.remote.as_ref() == Some(address);
        match is_receiver {
            true if is_here => moved.received,
            false if is_there => moved.sent,
            _ => 0,
        }
    });
    moved.sum()
}
