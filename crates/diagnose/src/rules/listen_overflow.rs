//! A listening socket dropped connection attempts: its queue of connections that wait for accept()
//! was full (tcp_conn_request(), tcp_v4_syn_recv_sock()). Each client waits for a timer of its own
//! and tries again.

use super::{Doubt, Explanation, Found, Rule, Verdict, WinBasis, advice, measured, sum, whole};
use crate::case::Case;
use crate::report::{Advice, Direction, Finding, Undecided};
use crate::units::{count, duration};

/// See the module.
pub struct ListenOverflow;

/// The least that a client waits for an attempt that was dropped: its SYN's first timeout is 1 s
/// (RFC 6298); where the last ACK of the handshake was dropped, its first data waits for TCP_RTO_MIN.
const LEAST_WAIT_NS: u64 = 200_000_000;

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
        if listener.drops == 0 {
            return Verdict::Quiet;
        }
        let facts = vec![
            sum("drops", listener.drops, "connection attempts dropped"),
            sum(
                "waiting_max",
                listener.waiting_max.into(),
                "connections may wait to be accepted",
            ),
            sum(
                "most_waiting",
                listener.most_waiting.into(),
                "were seen waiting at most",
            ),
        ];
        // One reading, and it listened already: when they were dropped is not known.
        if case.life_ns() == 0 {
            return Verdict::CannotTell(Doubt {
                candidates: vec![self.name()],
                concerned_ns: 0,
                facts,
                why: "The socket was read only once.",
                would_help: Some("Record for longer."),
            });
        }
        let waited_ns = listener.drops * LEAST_WAIT_NS;
        Verdict::Fires(Found {
            direction: Direction::Receiving,
            concerned_ns: waited_ns.min(case.life_ns()),
            harm_ns: waited_ns,
            facts,
        })
    }

    fn explain(&self, case: &Case) -> Explanation {
        let listener = case.own.gathered.listener.as_ref();
        let waiting_max = listener.map_or(0, |listener| listener.waiting_max);
        let mut advised = vec![Advice(
            format!(
                "Let more wait: {waiting_max} may now. It is the lesser of listen()'s backlog and \
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
                "Whether an attempt was dropped for want of memory, or by a program of its own: the \
                 kernel counts them together."
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
            "{} dropped {} connection attempts: no more than {} may wait to be accepted. Clients waited \
             {} or more.",
            finding.subject.local,
            count(whole(facts, "drops").unwrap_or(0)),
            count(whole(facts, "waiting_max").unwrap_or(0)),
            duration(finding.harm_ns)
        )
    }

    fn doubt(&self, undecided: &Undecided) -> String {
        let drops = whole(&undecided.evidence.0, "drops").unwrap_or(0);
        format!(
            "{} has dropped {} connection attempts, some time in its life.",
            undecided.subject.local,
            count(drops)
        )
    }
}
