//! The whole diagnosis: judge every connection, ask every rule about each, put the answers
//! together, worst first.

use std::collections::HashMap;

use table::tables::TcpStage;
use table::{Chosen, Role, TcpEventKind};

use crate::answer::{About, Process, RecordingState};
use crate::connections::case::Case;
use crate::connections::context::RecordingContext;
use crate::connections::cpu::CpuObservation;
use crate::connections::gather::Evidence;
use crate::connections::gather::calls::{CallDigest, CallSums};
use crate::connections::group::{self, RuleResult};
use crate::connections::neighbours::Neighbours;
use crate::connections::program_time::ProgramTimes;
use crate::connections::rules::{RULES, Rule, RuleFinding, Verdict};
use crate::connections::snap::delayed_acks::estimated_share;
use crate::connections::snap::flags::FlagTimes;
use crate::connections::snap::table4::fill_table4;
use crate::connections::stages;
use crate::connections::subject::ConnectionSubject;
use crate::report::connection::{CongestionCauses, Mptcp, Tcp, Totals};
use crate::report::finding::rank_findings;
use crate::report::{
    Connection, ContainerProcesses, Finding, FlagShares, Report, RuleId, SCHEMA, SnapTable4,
    UndecidedFinding, why_unseen,
};

/// Runs all rules on the evidence of a recording, and makes the report.
pub fn diagnose(mut evidence: Evidence) -> Report {
    evidence.finish();
    let context = RecordingContext::new(&evidence);
    let subjects = connection_subjects(&evidence, &context);
    let outcomes = evaluate_rules(&evidence, &context, &subjects);
    let connections_not_judged = evidence.count_unjudged();
    let (connections, snap_table4) = assemble_connections(&subjects, &context, outcomes.claims);
    let unseen = connections.is_empty() && connections_not_judged == 0;
    let why_unseen = unseen.then(|| {
        let coverage = &evidence.coverage;
        why_unseen(&evidence.sockets, coverage, evidence.listeners.len())
    });
    let recorded = RecordingState {
        coverage: evidence.coverage,
        loss: evidence.loss,
        cost: evidence.cost,
        closed: evidence.closed,
        problems: evidence.problems,
        left_out: evidence.left_out,
        windows: evidence.windows,
    };
    Report {
        schema: SCHEMA,
        about: About::new(
            &evidence.header,
            recorded,
            evidence.latest_ns,
            evidence.span,
        ),
        containers: ContainerProcesses::group(evidence.processes.rows()),
        sockets: evidence.sockets,
        why_unseen: why_unseen.flatten(),
        connections,
        connections_not_judged,
        connections_not_listed: 0,
        snap_table4,
        findings: outcomes.findings,
        undecided: outcomes.undecided,
        imported: None,
        slow_messages: None,
        requests: None,
        drops: None,
    }
}

/// Outcomes of all rules on all connections and listening sockets.
struct RuleOutcomes {
    findings: Vec<Finding>,
    undecided: Vec<UndecidedFinding>,
    claims: HashMap<u64, ConnectionHarm>,
}

/// Runs all rules on all connections, and collects findings and undecided findings.
fn evaluate_rules(
    evidence: &Evidence,
    context: &RecordingContext,
    subjects: &[ConnectionSubject],
) -> RuleOutcomes {
    let listening = listener_subjects(evidence, context);
    let (neighbours, alone) = (Neighbours::new(subjects), Neighbours::new(&[]));
    let case = |own, peer, neighbours, outages| Case {
        own,
        peer,
        context,
        neighbours,
        outages,
        earlier: Vec::new(),
        doubt: false,
        loss_named: false,
    };
    let connected = subjects.iter();
    let connected = connected.map(|own| {
        let peer = find_peer(own, &neighbours);
        case(own, peer, &neighbours, neighbours.outages(own, peer))
    });
    let listening = listening
        .iter()
        .map(|own| case(own, None, &alone, Vec::new()));
    let mut cases: Vec<Case> = connected.chain(listening).collect();
    let verdicts: Vec<_> = cases.iter_mut().map(evaluate_case).collect();
    let (mut found, mut doubts) = (Vec::new(), Vec::new());
    for (case, verdicts) in cases.iter().zip(verdicts) {
        for (rule, verdict) in verdicts {
            match verdict {
                Verdict::Quiet => {}
                Verdict::Fires(outcome) => found.push(RuleResult {
                    rule,
                    case,
                    outcome,
                }),
                Verdict::Inconclusive(outcome) => doubts.push(RuleResult {
                    rule,
                    case,
                    outcome,
                }),
            }
        }
    }
    let claims = harm_by_connection(&found);
    let mut findings = group::findings(found, &ProgramTimes::new(evidence, subjects));
    let mut undecided = group::group_undecided(doubts);
    rank_findings(&mut findings, &mut undecided);
    RuleOutcomes {
        findings,
        undecided,
        claims,
    }
}

/// Returns all judged connections with their evidence, in the order of their ids.
fn connection_subjects<'a>(
    evidence: &'a Evidence,
    context: &RecordingContext,
) -> Vec<ConnectionSubject<'a>> {
    let mut ids: Vec<u64> = evidence.connections.conns().collect();
    ids.sort_unstable();
    let mut subjects = Vec::with_capacity(ids.len());
    subjects.extend(ids.into_iter().filter_map(|id| {
        let gathered = evidence.connections.get(id)?;
        let calls = evidence.calls_of(id, context.calls);
        // calls on an MPTCP socket are counted to one of its subflows only
        let is_subflow = gathered
            .identity
            .as_ref()
            .is_some_and(|it| it.mptcp_token.is_some());
        let calls = calls.filter(|calls| !is_subflow || calls.send.calls + calls.receive.calls > 0);
        let judged = stages::judge_connection(gathered, calls, context.given);
        let pid = gathered.identity.as_ref().and_then(|identity| identity.pid);
        let until_ns = gathered
            .identity
            .as_ref()
            .and_then(|identity| identity.closed_ns);
        let comm = pid.and_then(|pid| {
            evidence
                .processes
                .comm(pid, until_ns.unwrap_or(evidence.latest_ns))
        });
        let comm = comm.or_else(|| {
            let role = gathered.identity.as_ref().map(|it| it.role.name());
            role.filter(|_| context.given.is_capture)
        });
        let cpu = crate::connections::cpu::evidence(evidence, gathered, calls, &judged);
        let mut subject = ConnectionSubject {
            id,
            gathered,
            cpu,
            calls,
            behind: evidence.threads.get(id),
            blocked: evidence.blocked.get(id),
            answers: evidence.answers.get(id),
            system_calls: pid.and_then(|pid| evidence.system_calls.get(pid)),
            reader_slept_ns: None,
            judged,
            comm,
        };
        let reader = calls.and_then(CallDigest::reader).filter(|_| context.waits);
        subject.reader_slept_ns = reader.map(|tid| evidence.sleeps.slept_ns(tid, subject.life()));
        Some(subject)
    }));
    subjects
}

/// Returns all listening sockets with their evidence, in the order of their ids.
fn listener_subjects<'a>(
    evidence: &'a Evidence,
    context: &RecordingContext,
) -> Vec<ConnectionSubject<'a>> {
    let judged = evidence.listeners.iter().map(|(id, gathered)| {
        let digest = gathered.listener.as_ref();
        let until_ns = digest.map_or(0, |digest| digest.until_ns);
        let pid = gathered.identity.as_ref().and_then(|it| it.pid);
        ConnectionSubject {
            id: *id,
            gathered,
            calls: None,
            behind: None,
            blocked: None,
            answers: None,
            reader_slept_ns: None,
            cpu: CpuObservation::default(),
            system_calls: None,
            judged: stages::StageTimes {
                life_ns: digest.map_or(0, |digest| digest.life_ns()),
                ..stages::judge_connection(gathered, None, context.given)
            },
            comm: pid.and_then(|pid| evidence.processes.comm(pid, until_ns)),
        }
    });
    judged.collect()
}

/// Returns the other end of a connection; `None` unless it is on this host and recorded.
fn find_peer<'a>(
    own: &ConnectionSubject,
    neighbours: &Neighbours<'a>,
) -> Option<&'a ConnectionSubject<'a>> {
    neighbours.get(own.identity()?.peer_conn?)
}

/// Runs all rules on one connection, in order; each sees the verdicts of earlier rules.
fn evaluate_case(case: &mut Case) -> Vec<(&'static dyn Rule, Verdict)> {
    let mut verdicts = Vec::new();
    for rule in RULES {
        if rule.is_of_listeners() != case.own.gathered.listener.is_some() {
            continue;
        }
        let mut verdict = rule.check(case);
        if let Verdict::Fires(found) = &mut verdict
            && !rule.is_beyond_life()
        {
            // Clocks of one counter and of the life differ by a hook.
            found.harm_ns = found.harm_ns.min(case.life_ns());
        }
        match &verdict {
            Verdict::Quiet => continue,
            Verdict::Fires(found) => {
                case.earlier.push((rule.id(), found.harm_ns));
                case.loss_named |= rule.names_cause_of_loss();
            }
            Verdict::Inconclusive(_) => case.doubt = true,
        }
        verdicts.push((*rule, verdict));
    }
    verdicts
}

/// Harm and rules of one connection.
#[derive(Debug, Clone, Default)]
struct ConnectionHarm {
    harm_ns: u64,
    rules: Vec<RuleId>,
}

/// Returns harm and rules by connection.
fn harm_by_connection(found: &[RuleResult<RuleFinding>]) -> HashMap<u64, ConnectionHarm> {
    let mut claims = HashMap::<u64, ConnectionHarm>::new();
    for member in found {
        let of_one = claims.entry(member.case.own.id).or_default();
        of_one.harm_ns += member.outcome.harm_ns;
        of_one.rules.push(member.rule.id());
    }
    claims
}

/// Makes the report of each connection, and the table of SNAP's problems over all.
fn assemble_connections(
    subjects: &[ConnectionSubject],
    context: &RecordingContext,
    mut claims: HashMap<u64, ConnectionHarm>,
) -> (Vec<Connection>, SnapTable4) {
    let flags: Vec<FlagTimes> = subjects.iter().map(flag_times).collect();
    let table = fill_table4(subjects.iter().map(|subject| subject.comm).zip(&flags));
    let subflows = count_subflows(subjects);
    let mut connections: Vec<Connection> = subjects
        .iter()
        .zip(&flags)
        .map(|(subject, flags)| {
            let claims = claims.remove(&subject.id).unwrap_or_default();
            let mptcp = assemble_mptcp(subject, &subflows);
            Connection {
                mptcp,
                ..assemble_connection(subject, context, flags.into(), claims)
            }
        })
        .collect();
    // Not `sort_by_key`, which takes half as much memory again: no two have one id.
    connections.sort_unstable_by_key(|connection| {
        (
            std::cmp::Reverse((connection.harm_ns, connection.lifetime_ns)),
            connection.id,
        )
    });
    (connections, table)
}

/// Returns the number of recorded subflows of each MPTCP connection, by its token.
fn count_subflows(subjects: &[ConnectionSubject]) -> HashMap<u32, u64> {
    let mut subflows = HashMap::new();
    for token in subjects.iter().filter_map(|it| it.identity()?.mptcp_token) {
        *subflows.entry(token).or_default() += 1;
    }
    subflows
}

/// Returns what the report says of MPTCP; None if the connection is no subflow.
fn assemble_mptcp(subject: &ConnectionSubject, subflows: &HashMap<u32, u64>) -> Option<Mptcp> {
    let token = subject.identity()?.mptcp_token?;
    Some(Mptcp {
        token: format!("{token:08x}"),
        subflows: subflows.get(&token).copied().unwrap_or(1),
    })
}

/// SNAP's flags of a connection, with what only the end of the recording can add: the time
/// before the first sample of a connection opened in it, and the round-trip samples.
fn flag_times(subject: &ConnectionSubject) -> FlagTimes {
    let samples = &subject.gathered.samples;
    let mut flags = samples.flags;
    if let (Some((None, start_ns)), Some(first)) =
        (samples.start(subject.opened_ns()), samples.first_sample())
    {
        flags.add(None, first, first.time_ns.saturating_sub(start_ns));
    }
    flags.add_rtt(&subject.gathered.ledger.rtt, samples.min_rtt_us);
    flags
}

fn assemble_connection(
    subject: &ConnectionSubject,
    context: &RecordingContext,
    flags: FlagShares,
    claims: ConnectionHarm,
) -> Connection {
    let identity = subject.identity();
    let judged = &subject.judged;
    let unknown = || "?".to_owned();
    let pid = identity.and_then(|identity| identity.pid);
    let known = pid.is_some() || subject.comm.is_some();
    let ledger = judged.ledger.as_ref().filter(|_| !judged.sent_nothing);
    Connection {
        id: subject.id,
        local: identity.map_or_else(unknown, |identity| identity.local.clone()),
        remote: identity.map_or_else(unknown, |identity| identity.remote.clone()),
        process: known.then(|| Process {
            pid,
            comm: subject.comm.map(str::to_owned),
        }),
        role: identity.map_or(Role::Unknown, |identity| identity.role),
        peer: identity.and_then(|identity| identity.peer_conn),
        chosen: identity.map_or(Chosen::Target, |identity| identity.chosen),
        opened_ns: subject.opened_ns(),
        closed_ns: identity.and_then(|identity| identity.closed_ns),
        lifetime_ns: judged.life_ns,
        sent_nothing: judged.sent_nothing,
        not_judged: judged.not_judged.clone(),
        stages: judged.stages.clone(),
        congestion_window_ns: ledger.map(|ledger| CongestionCauses {
            startup: ledger.cwnd_startup_ns,
            loss: ledger.cwnd_loss_ns,
            cwr: ledger.cwnd_cwr_ns,
            probing: ledger.cwnd_probing_ns,
        }),
        receive: judged.receive,
        flags,
        totals: totals(subject, context),
        tcp: assemble_tcp(subject),
        mptcp: None,
        harm_ns: claims.harm_ns,
        findings: claims.rules,
    }
}

/// Sums bytes, calls, retransmissions and events over the connection's whole life.
fn totals(subject: &ConnectionSubject, context: &RecordingContext) -> Totals {
    let events = &subject.gathered.events;
    let ledger = subject.judged.ledger.as_ref();
    // Not every ACK of a peer is seen.
    let is_peer = subject
        .identity()
        .is_some_and(|identity| identity.chosen == Chosen::Peer);
    let counted = ledger.filter(|_| !is_peer);
    let sends = subject.calls.map(|calls| &calls.send);
    let receives = subject.calls.map(|calls| &calls.receive);
    let blocked_ns = |sums: &CallSums| (sums.unmeasured == 0).then_some(sums.blocked_ns);
    let happened = |kind| context.events.then(|| events.count(kind));
    Totals {
        bytes_sent: subject.judged.bytes.0,
        bytes_received: subject.judged.bytes.1,
        send_calls: sends.map(|sends| sends.calls),
        receive_calls: receives.map(|receives| receives.calls),
        send_blocked_ns: sends.and_then(blocked_ns),
        receive_blocked_ns: receives.and_then(blocked_ns),
        retransmits: subject.growth(|sample| Some(sample.total_retrans.into())),
        timeouts: subject.growth(|sample| sample.total_rto.map(u64::from)),
        tail_loss_probes: happened(TcpEventKind::TailLossProbe),
        spurious: subject.growth(|sample| sample.dsack_dups.map(u64::from)),
        zero_windows: happened(TcpEventKind::ZeroWindowOpen).filter(|_| ledger.is_some()),
        nagle_holds: ledger.map(|ledger| ledger.nagle_holds.into()),
        delayed_acks: ledger.map(|ledger| ledger.delayed_acks.into()),
        acks_by_timer: counted.map(|ledger| ledger.acks_by_timer.into()),
        delayed_ack_share: counted.and_then(delayed_ack_share),
        snap_delayed_ack_share: estimated_share(
            &subject.gathered.ledger.rtt,
            subject.gathered.samples.min_rtt_us,
            context.snap,
        ),
        longest_hold_ns: ledger.map(|ledger| ledger.longest_hold_ns),
    }
}

/// Returns the share of delayed ACKs; `None`: no data was sent.
fn delayed_ack_share(ledger: &TcpStage) -> Option<f64> {
    let sent = ledger.data_segs_out;
    (sent > 0).then(|| f64::from(ledger.acks_by_timer) / f64::from(sent))
}

/// Returns what the last sample says of TCP: RTT, windows, congestion control.
fn assemble_tcp(subject: &ConnectionSubject) -> Tcp {
    let identity = subject.identity();
    let last = subject.last_sample();
    let nodelay = subject.judged.ledger.as_ref().map(|ledger| ledger.nodelay);
    Tcp {
        congestion: identity.and_then(|identity| identity.congestion.clone()),
        nodelay: nodelay.or(identity.and_then(|identity| identity.nodelay)),
        mss_bytes: last
            .map(|last| last.mss_bytes)
            .or(identity.and_then(|identity| identity.mss_bytes)),
        // No packet has it: of a capture it is 0.
        cwnd: last.map(|last| last.cwnd).filter(|cwnd| *cwnd > 0),
        snd_wnd_bytes: last.and_then(|last| last.snd_wnd_bytes),
        sndbuf_bytes: subject.sndbuf_bytes(),
        sndbuf_locked: identity.and_then(|identity| identity.sndbuf_locked),
        rcvbuf_bytes: subject.rcvbuf_bytes(),
        rcvbuf_locked: identity.and_then(|identity| identity.rcvbuf_locked),
        min_rtt_us: subject.gathered.samples.min_rtt_us,
        srtt_us: last.map(|last| last.srtt_us),
        ulp: identity.and_then(|identity| identity.ulp.clone().filter(|ulp| !ulp.is_empty())),
    }
}
