//! Datagrams got no answer, and this host dropped none of them: clients waited until they asked again. They were lost on the path
//! or at the other end, or its program did not answer.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    direct_confidence, duration_facts, make_advice, number, of_time, rule_out, share_fact,
    time_fact,
};
use super::udp_drops;
use crate::report::{Advice, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::ServiceCase;
use crate::units::{duration, quantity, ratio_of};

/// The rule `datagrams_unanswered`.
pub struct DatagramsUnanswered;

impl RequestRule for DatagramsUnanswered {
    fn id(&self) -> RuleId {
        RuleId::DatagramsUnanswered
    }

    fn summary(&self) -> &'static str {
        "Datagrams got no answer, and clients waited until they asked again"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let is_asked_again = case.digest.repeats.requests > 0;
        // `dns_slow` speaks of name servers, `udp_drops` of what this host dropped or may have dropped
        let is_resolver = case.endpoints().all(|it| it.is_resolver);
        let is_known = case.evidence.has_drops() && !udp_drops::lost_here(case);
        if case.is_server() || !is_asked_again || is_resolver || !is_known {
            return RequestVerdict::Quiet;
        }
        let lost = UnansweredQuestions::new(case);
        match lost.is_loss(case.quantile_ns(0.5)) {
            true => RequestVerdict::Fires(Box::new(finding(case, &lost))),
            false => RequestVerdict::Quiet,
        }
    }
}

/// Questions of a service without an answer.
#[derive(Debug, Clone, Copy)]
struct UnansweredQuestions {
    /// Datagrams sent.
    sent: u64,
    /// Of these, datagrams that no datagram answered.
    unanswered: u64,
    /// Datagrams that were repeated.
    asked_again: u64,
    /// Time until they were, ns.
    ns: u64,
}

impl UnansweredQuestions {
    /// Counts the datagrams of a service's flows.
    fn new(case: &ServiceCase<'_>) -> Self {
        let drops = &case.evidence.digests.udp_drops;
        let totals: Vec<_> = case
            .endpoints()
            .map(|it| drops.flow_totals(it.conn))
            .collect();
        let unanswered = totals.iter();
        let unanswered = unanswered.map(|it| it.sent.saturating_sub(it.received));
        let repeats = &case.digest.repeats;
        let ns: u64 = repeats.kept.iter().map(|it| it.lost_ns()).sum();
        Self {
            sent: totals.iter().map(|it| it.sent).sum(),
            unanswered: unanswered.sum(),
            asked_again: repeats.questions,
            ns: ns.min(case.total_ns()),
        }
    }

    /// Returns whether answers are missing; `usual_ns`: how long half of the requests take at most.
    ///
    /// - Most of the datagrams that were repeated had no answer at all. Else answers came late, from a slow server.
    /// - Most of all datagrams had one, and the client waited for it as long as usual. Else they are a stream, such as
    ///   an upload by QUIC: its sender does not wait for an answer to each.
    fn is_loss(&self, usual_ns: u64) -> bool {
        let is_stream = 2 * self.unanswered >= self.sent || self.mean_ns() < usual_ns;
        2 * self.unanswered >= self.asked_again && !is_stream
    }

    /// Returns the mean time until a datagram was repeated, ns.
    fn mean_ns(&self) -> u64 {
        self.ns / self.asked_again.max(1)
    }
}

/// Makes the finding: requests waited for answers that did not come.
fn finding(case: &ServiceCase<'_>, lost: &UnansweredQuestions) -> RequestFinding {
    let mut facts = vec![
        number("unanswered", lost.unanswered, "datagrams without an answer"),
        number("asked_again", lost.asked_again, "datagrams repeated"),
        time_fact(
            "repeat_ns",
            lost.mean_ns(),
            "time until a datagram was repeated (mean)",
        ),
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
        parts: udp_drops::PARTS.to_vec(),
        harm_ns: lost.ns,
        involved: vec![format!("the other end is {}", case.key.address)],
        remedy: Remedy::Avoidable,
        headline: format!(
            "{} from {} got no answer: its requests waited {} until it asked again. This host dropped none of them.",
            quantity(lost.unanswered, "datagram"),
            case.title(),
            of_time(case, lost.ns),
        ),
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("computing", &[RequestPart::Cpu]),
                ("locks", &[RequestPart::Lock]),
            ],
        ),
        could_not_see: vec![
            "Where they were lost: the questions or their answers, on the path or at the other end. Or its program did not answer."
                .to_owned(),
        ],
        advice: list_fixes(case, lost),
        gain: Some("each question has its answer the first time"),
        confidence: direct_confidence(
            case,
            "whylat counted the datagrams of both directions, and the drops of this host",
        ),
        ..RequestFinding::new(case)
    }
}

/// Returns the fixes: find the loss, or ask again sooner.
fn list_fixes(case: &ServiceCase<'_>, lost: &UnansweredQuestions) -> Vec<Advice> {
    make_advice([
        "On the other host: `nstat -az UdpRcvbufErrors UdpInErrors`, and `whylat record` of the process that answers. \
         It shows full receive buffers."
            .to_owned(),
        "Between the hosts: `ip -s link` on both, and the counters of devices that limit UDP. A firewall or a NAT may have no state \
         for the flow."
            .to_owned(),
        format!(
            "Ask again sooner: after {} by now, and half of the requests take {} at most. RFC 8085, 3.1.1, derives the time \
             limit from measured round trips.",
            duration(lost.mean_ns()),
            duration(case.quantile_ns(0.5))
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 of 100 datagrams have no answer, and are repeated after 500 ns.
    const LOST: UnansweredQuestions = UnansweredQuestions {
        sent: 100,
        unanswered: 10,
        asked_again: 10,
        ns: 5_000,
    };

    #[test]
    fn datagrams_without_an_answer_are_lost() {
        assert!(LOST.is_loss(100));
    }

    #[test]
    fn a_late_answer_is_no_loss() {
        let late = UnansweredQuestions {
            unanswered: 4,
            ..LOST
        };
        assert!(!late.is_loss(100));
    }

    #[test]
    fn a_stream_has_no_answer_to_each_datagram() {
        let few_acks = UnansweredQuestions {
            unanswered: 50,
            ..LOST
        };
        assert!(!few_acks.is_loss(100));
        // the next datagram comes sooner than an answer can
        assert!(!LOST.is_loss(501));
    }
}
