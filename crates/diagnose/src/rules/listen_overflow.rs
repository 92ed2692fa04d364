//! A listening socket dropped connection attempts: its queue of connections that wait for accept()
//! was full (tcp_conn_request(), tcp_v4_syn_recv_sock()). Each client waits for a timer of its own
//! and tries again.

use super::{Doubt, Explanation, Found, Rule, Verdict, WinBasis, advice, measured, sum, whole};
use crate::case::Case;
use crate::gather::listeners::ListenerDigest;
use crate::report::{Advice, Direction, Fact, Finding, Undecided};
use crate::units::{count, counted, duration};

/// See the module.
pub struct ListenOverflow;

/// The least that a client waits for an attempt that was dropped: its SYN's first timeout is 1 s
/// (RFC 6298); where the last ACK of the handshake was dropped, its first data waits for TCP_RTO_MIN.
const LEAST_WAIT_NS: u64 = 200_000_000;
/// The most that one packet's refusal counts: a last ACK of a handshake twice (tcp_listendrop(), then
/// `discard_and_relse` in tcp_v4_rcv()), and data right behind it once.
const DROPS_EACH: u64 = 3;

impl Rule for ListenOverflow {
    fn name(&self) -> &'static str {
        "listen_overflow"
    }

    fn summary(&self) -> &'static str {
        "A listening socket drops connection attempts, because nobody accepts in time"
    }

    fn is_of_listeners(&self) -> bool {
        true
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(listener) = case.own.gathered.listener.as_ref() else {
            return Verdict::Quiet;
        };
        // One reading, and it listened already: when they were dropped is not known.
        if case.life_ns() == 0 && listener.drops_before > 0 {
            return Verdict::CannotTell(Doubt {
                candidates: vec![self.name()],
                concerned_ns: 0,
                facts: facts(listener, listener.drops_before.into()),
                why: "The socket was read only once, and has listened since before.",
                would_help: Some("Record for longer."),
            });
        }
        if listener.drops == 0 {
            return Verdict::Quiet;
        }
        let waited_ns = listener.drops.div_ceil(DROPS_EACH) * LEAST_WAIT_NS;
        Verdict::Fires(Found {
            direction: Direction::Receiving,
            concerned_ns: waited_ns.min(case.life_ns()),
            harm_ns: waited_ns,
            facts: facts(listener, listener.drops),
        })
    }

    fn explain(&self, case: &Case) -> Explanation {
        let listener = case.own.gathered.listener.as_ref();
        let waiting_max = listener.map_or(0, |listener| listener.waiting_max);
        let mut advised = vec![Advice(
            format!(
                "Let more than {waiting_max} wait. That limit is the lesser of listen()'s backlog and \
                 net.core.somaxconn (4096 by default): raise both, then restart the server."
            )
            .into(),
        )];
        advised.extend(advice([
            "Accept faster: in a thread that does nothing else, or in several with SO_REUSEPORT; no \
             work between two calls of accept().",
            "On the clients: keep connections open and use them again.",
        ]));
        Explanation {
            ruled_out: Vec::new(),
            could_not_see: vec![
                "Which clients were refused, and how long each waited.".into(),
                "Which of the drops were of attempts that found the queue full: the kernel counts \
                 scans, deferred accepts and a want of memory with them."
                    .into(),
            ],
            advice: advised,
            win: WinBasis::Unknown,
            confidence: measured(case, "counted by the kernel on the socket itself"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let facts = &finding.evidence.0;
        format!(
            "{} dropped {}: no more than {} may wait to be accepted. Clients waited {} or more.",
            finding.subject.local,
            counted(whole(facts, "drops").unwrap_or(0), "connection attempt"),
            count(whole(facts, "waiting_max").unwrap_or(0)),
            duration(finding.harm_ns)
        )
    }

    fn doubt(&self, undecided: &Undecided) -> String {
        let drops = whole(&undecided.evidence.0, "drops").unwrap_or(0);
        format!(
            "{} has dropped {}, some time since it listens.",
            undecided.subject.local,
            counted(drops, "connection attempt")
        )
    }
}

fn facts(listener: &ListenerDigest, drops: u64) -> Vec<Fact> {
    let mut facts = vec![
        sum("drops", drops, "connection attempt(s) dropped"),
        sum(
            "waiting_max",
            listener.waiting_max.into(),
            "connection(s) may wait to be accepted",
        ),
    ];
    // It is read now and then, and a queue fills and drains between.
    if listener.most_waiting > 0 {
        let label = "found waiting at most, when it was read";
        facts.push(sum("most_waiting", listener.most_waiting.into(), label));
    }
    facts
}
