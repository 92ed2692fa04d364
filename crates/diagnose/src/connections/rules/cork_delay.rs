//! A cork (TCP_CORK, MSG_MORE) holds the last bytes of a message, although the program adds nothing to them: only the kernel's
//! timer sends them, after a retransmission timeout of 200 ms or more (`tcp_check_probe_timer()`, tcp(7)).

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
        "A cork holds the end of messages until a timer sends it"
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
            WriterState::Unseen => Verdict::Inconclusive(RuleDoubt {
                candidates: vec![self.id()],
                concerned_ns: cork_ns,
                facts: collect_facts(case, ledger),
                why: "No call shows whether the program had something to add meanwhile.",
                would_help: Some(
                    "Record the program that sends, with its calls. Or see them: `strace -f -ttt -e trace=network`.",
                ),
            }),
            WriterState::Blocked(held_ns) | WriterState::Silent(held_ns) => {
                let mut facts = collect_facts(case, ledger);
                let label = "of this time at least, the sending thread had nothing to add";
                facts.insert(1, total_ns("held_ns", held_ns, label));
                Verdict::Fires(RuleFinding {
                    direction: DataDirection::Sending,
                    concerned_ns: cork_ns,
                    harm_ns: held_ns,
                    facts,
                })
            }
        }
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut could_not_see = case.general_blind_spots();
        let confidence = match writer_state(case, case.ns(Stage::Cork)) {
            WriterState::Blocked(_) => direct_confidence(
                case,
                "the kernel held the data while the sending thread waited for the other end",
            ),
            _ => {
                could_not_see.push(
                    "What the sending thread did meanwhile: it was not blocked in a receive call."
                        .into(),
                );
                Confidence {
                    level: ConfidenceLevel::Medium,
                    because: "the sending thread added nothing before the other end's next data"
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
            "A cork (TCP_CORK, MSG_MORE) held the end of messages until a timer sent it — cost {}.",
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
    /// For so long, ns, it waited in receive calls for the other end: it had nothing to add.
    Blocked(u64),
    /// For so long, ns, it added nothing until the other end's next data came: an event loop does not block in its calls.
    Silent(u64),
    /// It may have worked: its waits and the cork do not overlap as a whole.
    Unsure,
    /// It did not wait while data was corked: it worked.
    Working,
    /// Its calls are not recorded, or another thread receives.
    Unseen,
}

/// Returns whether segments were corked about as long as the kernel's timer takes. A poll during a hold hides the rest of it:
/// on average half.
fn has_timer_holds(ledger: &TcpStage) -> bool {
    let mean_ns = ledger.cork_ns.checked_div(ledger.data_segs_out.into());
    mean_ns.is_some_and(|ns| ns >= TCP_RTO_MIN_NS / 2)
}

/// Returns what the writer did. Two parts of one life that are longer than it overlap: so long, at least, the sending thread
/// waited for an answer while data was corked.
fn writer_state(case: &Case, cork_ns: u64) -> WriterState {
    let Some(waits) = case.own.answers.filter(|waits| waits.silent_ns > 0) else {
        return WriterState::Unseen;
    };
    let overlap_ns = |waited_ns: u64| (cork_ns + waited_ns).saturating_sub(case.life_ns());
    let is_most = |ns: u64| ns * 2 >= cork_ns;
    match (
        overlap_ns(waits.blocked_ns),
        overlap_ns(waits.silent_ns).min(cork_ns),
    ) {
        (blocked_ns, _) if is_most(blocked_ns) => WriterState::Blocked(blocked_ns),
        (_, silent_ns) if is_most(silent_ns) => WriterState::Silent(silent_ns),
        (_, 0) => WriterState::Working,
        _ => WriterState::Unsure,
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
    if let Some(waits) = case.own.answers.filter(|waits| waits.silent_ns > 0) {
        let label = "from the last write of a message until the same thread received";
        facts.push(total_ns("answer_wait_ns", waits.silent_ns, label));
    }
    facts.extend(min_rtt(case));
    facts
}
