//! A listening socket dropped packets of connection attempts: its queue of connections that wait for
//! accept() was full (tcp_conn_request(), tcp_v4_syn_recv_sock()). The socket counts what it drops, for
//! whatever reason; the namespace counts full queues (ListenOverflows), of whatever socket.

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{sum, whole};
use super::shared::sentences::{advice, direct_confidence};
use crate::connections::case::Case;
use crate::connections::gather::listeners::ListenerDigest;
use crate::report::{
    Advice, Confidence, ConfidenceLevel, DataDirection, Fact, Finding, RuleId, UndecidedFinding,
};
use crate::units::{count, duration, quantity};

/// The rule `listen_overflow`.
pub struct ListenOverflow;

impl Rule for ListenOverflow {
    fn id(&self) -> RuleId {
        RuleId::ListenOverflow
    }

    fn summary(&self) -> &'static str {
        "A listening socket drops connection attempts because its accept queue is full"
    }

    fn is_of_listeners(&self) -> bool {
        true
    }

    fn is_beyond_life(&self) -> bool {
        true
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(listener) = case.own.gathered.listener.as_ref() else {
            return Verdict::Quiet;
        };
        let drops = &listener.drops;
        if drops.refused > 0 {
            let waited_ns = listener.least_wait_ns();
            return Verdict::Fires(RuleFinding {
                direction: DataDirection::Receiving,
                concerned_ns: waited_ns.min(case.life_ns()),
                harm_ns: waited_ns,
                facts: collect_facts(listener),
            });
        }
        if drops.untold > 0 {
            return self.inconclusive_verdict(
                doubtful_facts(listener, "drops", drops.untold),
                "The kernel counts full queues for the network namespace (ListenOverflows), and \
                 that was not read. The drops may come from scans, resets or deferred accepts.",
                "Watch `nstat -az TcpExtListenOverflows` in that namespace while it drops.",
            );
        }
        // One reading, and it listened already: when they were dropped is not known.
        if case.life_ns() == 0 && listener.drops_before > 0 && !listener.never_full {
            return self.inconclusive_verdict(
                doubtful_facts(listener, "drops_before", listener.drops_before.into()),
                "The socket was read only once, and it listened before the recording.",
                "Record for longer.",
            );
        }
        Verdict::Quiet
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let listener = case.own.gathered.listener.as_ref();
        let waiting_max = listener.map_or(0, |listener| listener.waiting_max);
        let mut advised = vec![Advice(
            format!(
                "Raise the accept queue limit of {waiting_max}: the lesser of listen()'s backlog \
                 and net.core.somaxconn (4096 by default). Raise both, then restart the server."
            )
            .into(),
        )];
        advised.extend(advice([
            "Accept faster: in a thread that does nothing else, or in several with SO_REUSEPORT. \
             Do no work between two calls of accept().",
            "On the clients: keep connections open and reuse them.",
        ]));
        FindingExplanation {
            ruled_out: Vec::new(),
            could_not_see: listener.map(list_unseen).unwrap_or_default(),
            advice: advised,
            win: WinBasis::Unknown,
            confidence: confidence(case, listener.map_or(0, |listener| listener.beside)),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let facts = &finding.evidence.0;
        let refused = whole(facts, "refused").unwrap_or(0);
        format!(
            "{} dropped {}: accept queue full (limit {}) — clients waited {} or more.",
            finding.subject.local,
            quantity(refused, "connection packet"),
            count(whole(facts, "waiting_max").unwrap_or(0)),
            duration(finding.harm_ns)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        let facts = &undecided.evidence.0;
        let local = &undecided.subject.local;
        match (whole(facts, "drops"), whole(facts, "drops_before")) {
            (Some(drops), _) => format!(
                "{local} counted {}; the recording does not show whether its queue was full.",
                quantity(drops, "drop")
            ),
            (None, before) => format!(
                "{local} has counted {} since it began to listen.",
                quantity(before.unwrap_or(0), "drop")
            ),
        }
    }
}

impl ListenOverflow {
    /// Returns an undecided verdict with these facts and the reason.
    fn inconclusive_verdict(
        &self,
        facts: Vec<Fact>,
        why: &'static str,
        would_help: &'static str,
    ) -> Verdict {
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: 0,
            facts,
            why,
            would_help: Some(would_help),
        })
    }
}

fn collect_facts(listener: &ListenerDigest) -> Vec<Fact> {
    let drops = &listener.drops;
    let label = "connection packet(s) that found a full accept queue";
    let mut facts = vec![sum("refused", drops.refused, label)];
    if drops.refused_syns > 0 {
        let label = "or more SYN(s) among them: each is retransmitted after 1 s";
        facts.push(sum("refused_syns", drops.refused_syns, label));
    }
    facts.extend(waiting_facts(listener));
    // What the sockets share among them is no bound of its own.
    if listener.beside == 0 && drops.other_drops() > 0 {
        let label = "or more other drop(s): scans, resets, deferred accepts and the like";
        facts.push(sum("other_drops", drops.other_drops(), label));
    }
    facts
}

/// Returns facts of drops that the kernel counts, but not by cause.
fn doubtful_facts(listener: &ListenerDigest, name: &'static str, drops: u64) -> Vec<Fact> {
    let mut facts = vec![sum(name, drops, "drop(s) counted by the socket")];
    facts.extend(waiting_facts(listener));
    facts
}

/// Returns facts of the accept queue: its length and its limit.
fn waiting_facts(listener: &ListenerDigest) -> Vec<Fact> {
    let label = "limit of the accept queue";
    let mut facts = vec![sum("waiting_max", listener.waiting_max.into(), label)];
    // It is read now and then, and a queue fills and drains between.
    if listener.most_waiting > 0 {
        let label = "connections in the accept queue at most, when read";
        facts.push(sum("most_waiting", listener.most_waiting.into(), label));
    }
    facts
}

/// Returns what the recording could not see of this listening socket.
fn list_unseen(listener: &ListenerDigest) -> Vec<String> {
    let mut unseen = vec!["Which clients were dropped, and how long each waited.".to_owned()];
    unseen.push(match listener.beside {
        0 => "Whether listening sockets that are not recorded took part: the kernel counts full \
              queues for the whole network namespace."
            .to_owned(),
        beside => format!(
            "Which socket's queue was full: {} in this network namespace dropped packets at the \
             same time, and the kernel counts full queues for all together.",
            quantity(beside as u64, "other listening socket")
        ),
    });
    if listener.drops.untold > 0 {
        unseen.push(format!(
            "Whether {} found a full queue, too: the count of the namespace was not read then.",
            quantity(listener.drops.untold, "further drop")
        ));
    }
    unseen
}

/// Returns high confidence; medium if several sockets share the namespace's counter.
fn confidence(case: &Case, beside: usize) -> Confidence {
    let counted = direct_confidence(
        case,
        "counted by the kernel, by the socket and by its network namespace",
    );
    if beside == 0 {
        return counted;
    }
    Confidence {
        level: ConfidenceLevel::Medium,
        because: format!("{}, but for several sockets together", counted.because),
    }
}
