//! A cork (TCP_CORK, MSG_MORE) holds the last bytes of a message, although the program adds nothing to them: only the kernel's
//! timer lets them go, after a retransmission timeout of 200 ms or more (`tcp_check_probe_timer()`, tcp(7)).

use table::Stage;
use table::tables::TcpStage;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, min_rtt, sum, total_ns};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::kernel::TCP_RTO_MIN_NS;
use crate::report::{
    Confidence, ConfidenceLevel, DataDirection, Fact, FactUnit, Finding, RuleId, UndecidedFinding,
};
use crate::units::{duration, percent};

/// The rule `cork_delay`.
pub struct CorkDelay;

impl Rule for CorkDelay {
    fn id(&self) -> RuleId {
        RuleId::CorkDelay
    }

    fn summary(&self) -> &'static str {
        "A cork holds the end of messages until a timer lets it go"
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Cork]
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(ledger) = case.ledger().filter(|ledger| has_timer_holds(ledger)) else {
            return Verdict::Quiet;
        };
        let cork_ns = case.ns(Stage::Cork);
        match writer_state(case, cork_ns) {
            WriterState::Working => Verdict::Quiet,
            WriterState::Unsure => Verdict::Inconclusive(RuleDoubt {
                candidates: vec![self.id()],
                concerned_ns: cork_ns,
                facts: collect_facts(case, ledger),
                why: "The program may have worked on the rest of each message meanwhile.",
                would_help: Some(
                    "See the program's system calls: `strace -f -ttt -e trace=network`. Does it remove the cork \
                        after the last write?",
                ),
            }),
            WriterState::Waiting | WriterState::Unseen => Verdict::Fires(RuleFinding {
                direction: DataDirection::Sending,
                concerned_ns: cork_ns,
                harm_ns: cork_ns,
                facts: collect_facts(case, ledger),
            }),
        }
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let is_seen = writer_state(case, case.ns(Stage::Cork)) == WriterState::Waiting;
        let mut could_not_see = case.general_blind_spots();
        let confidence = match is_seen {
            true => direct_confidence(
                case,
                "the kernel held the data while the program waited for the other end",
            ),
            false => {
                could_not_see
                    .push("Whether the program worked on the rest of a message meanwhile.".into());
                Confidence {
                    level: ConfidenceLevel::Medium,
                    because: "segments were held for about as long as the kernel's timer takes"
                        .into(),
                }
            }
        };
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::DelayedAck,
                ExcludableCause::ReceiverWindow,
                ExcludableCause::CongestionWindow,
                ExcludableCause::Loss,
            ]),
            could_not_see,
            advice: advice([
                "Remove the cork after the last write of each message: setsockopt(TCP_CORK, 0). That sends the rest at once.",
                "Do not set MSG_MORE on the last write of a message. sendfile() has no such flag: write the last part \
                 without it, or remove TCP_CORK after it.",
                "Or send each message with one call (writev(), sendmsg()) and TCP_NODELAY: it needs no cork.",
            ]),
            win: WinBasis::HarmGone("each message leaves with its last write"),
            confidence,
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!(
            "A cork (TCP_CORK, MSG_MORE) held the end of messages until a timer let it go — cost {}.",
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "A cork (TCP_CORK, MSG_MORE) held data for {} ({}).",
            duration(undecided.possible_harm_ns),
            percent(undecided.share)
        )
    }
}

/// Activity of the writer while its data was corked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriterState {
    /// It waited for the other end: it had nothing to add.
    Waiting,
    /// It may have worked: its waits and the cork do not overlap as a whole.
    Unsure,
    /// It was not in a receive call: it worked.
    Working,
    /// Its calls are not recorded, or do not block.
    Unseen,
}

/// Returns whether segments were corked about as long as the kernel's timer takes. A poll during a hold hides the rest of it:
/// on average half.
fn has_timer_holds(ledger: &TcpStage) -> bool {
    let mean_ns = ledger.cork_ns.checked_div(ledger.data_segs_out.into());
    mean_ns.is_some_and(|ns| ns >= TCP_RTO_MIN_NS / 2)
}

/// Returns what the writer did. Two parts of one life that are longer than it overlap: so long a thread waited in receive
/// calls while data was corked.
fn writer_state(case: &Case, cork_ns: u64) -> WriterState {
    let Some(calls) = case.calls_with_blocking() else {
        return WriterState::Unseen;
    };
    let waited_ns = calls.receive.blocked_ns;
    match (cork_ns + waited_ns).checked_sub(case.life_ns()) {
        _ if waited_ns == 0 => WriterState::Unseen,
        None | Some(0) => WriterState::Working,
        Some(both_ns) if both_ns * 2 >= cork_ns => WriterState::Waiting,
        Some(_) => WriterState::Unsure,
    }
}

fn collect_facts(case: &Case, ledger: &TcpStage) -> Vec<Fact> {
    let segments = u64::from(ledger.data_segs_out);
    let mean_ns = ledger.cork_ns.checked_div(segments);
    let mut facts = vec![
        total_ns(
            "cork_ns",
            case.ns(Stage::Cork),
            "time in which a cork held data",
        ),
        sum("segments", segments, "data segments sent"),
    ];
    let label = "held by a cork for each segment, on average";
    facts.extend(known("mean_cork_ns", mean_ns, FactUnit::Ns, label));
    if let Some(calls) = case.calls_with_blocking() {
        let label = "blocked in receive calls of the same program";
        facts.push(total_ns(
            "receive_blocked_ns",
            calls.receive.blocked_ns,
            label,
        ));
    }
    facts.extend(min_rtt(case));
    facts
}
