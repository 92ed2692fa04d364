//! The receiving application does not read in time, its buffer fills, and its window stops the
//! sender. Seen from the sending socket, or, when the sender is elsewhere, from the receiving
//! one.

use table::Stage;

use super::receive_buffer_limited;
use super::rule::{FindingExplanation, Rule, RuleFinding, Verdict, WinBasis};
use super::shared::delayed_acks::most_by_nagle_ns;
use super::shared::facts::{known, min_rtt, sum, total_ns, worst};
use super::shared::sentences::{advice, direct_confidence, of_life};
use super::shared::window_cause::{WindowCause, window_cause};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::{Confidence, DataDirection, Fact, FactUnit, FactValue, Finding, RuleId};

/// The rule `slow_reader`.
pub struct SlowReader;

impl Rule for SlowReader {
    fn id(&self) -> RuleId {
        RuleId::SlowReader
    }

    fn summary(&self) -> &'static str {
        "The receiving application reads too slowly"
    }

    fn check(&self, case: &Case) -> Verdict {
        let limited_ns = case.ns(Stage::ReceiverWindow);
        if limited_ns > 0 && matches!(window_cause(case), WindowCause::Reader(_)) {
            return Verdict::Fires(RuleFinding {
                direction: DataDirection::Sending,
                concerned_ns: limited_ns,
                harm_ns: limited_ns,
                facts: receive_buffer_limited::window_facts(case),
            });
        }
        if let Some(found) = check_held(case) {
            return Verdict::Fires(found);
        }
        check_receiving(case)
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let sending = case.ns(Stage::ReceiverWindow) > 0;
        let confidence = match window_cause(case) {
            WindowCause::Reader(confidence) if sending => confidence,
            _ => direct_confidence(
                case,
                "the time that bytes waited was measured in the kernel",
            ),
        };
        make_explanation(case, confidence)
    }

    fn headline(&self, finding: &Finding) -> String {
        let cause = match finding.direction {
            DataDirection::Sending => {
                "The receiver read too slowly, and its full window stopped the sender"
            }
            DataDirection::Receiving => {
                "The program read too slowly, and its closed window stopped the sender"
            }
        };
        format!("{cause} — cost {}.", of_life(finding))
    }
}

fn make_explanation(case: &Case, confidence: Confidence) -> FindingExplanation {
    FindingExplanation {
        ruled_out: case.rule_out(&[
            ExcludableCause::CongestionWindow,
            ExcludableCause::SendBuffer,
            ExcludableCause::Loss,
        ]),
        could_not_see: case.general_blind_spots(),
        advice: advice([
            "Find what the receiving program does between two reads: that is the slow part. Read \
             in a separate thread, or pass the work on.",
            "If it only falls behind in bursts, let the receive buffer grow: do not set \
             SO_RCVBUF; raise net.ipv4.tcp_rmem.",
        ]),
        win: WinBasis::Unknown,
        confidence,
    }
}

/// Short segments that Nagle's algorithm held for longer than a round trip, until the peer at
/// last read: the ACK waited for the reader, not for a timer. Harm only while a thread here
/// waited.
fn check_held(case: &Case) -> Option<RuleFinding> {
    let beyond_ns = case.ns(Stage::Nagle).checked_sub(most_by_nagle_ns(case)?)?;
    let peer = case.peer?.judged.receive.as_ref()?;
    let calls = case.calls_with_blocking()?;
    if beyond_ns == 0 || peer.reader_slow.ns < beyond_ns / 2 {
        return None;
    }
    let late = FactValue::Real(peer.reader_slow.share);
    let label = "of the time, bytes waited for the reader there";
    let holds = case.ledger()?.nagle_holds.into();
    Some(RuleFinding {
        direction: DataDirection::Sending,
        concerned_ns: beyond_ns,
        harm_ns: beyond_ns.min(calls.blocked_ns()),
        facts: [
            Some(worst("peer_reader_slow", late, FactUnit::Share, label)),
            Some(sum(
                "nagle_holds",
                holds,
                "short segments waited here for its ACK",
            )),
            Some(total_ns(
                "held_ns",
                beyond_ns,
                "they waited, beyond the path's round trip",
            )),
            min_rtt(case),
        ]
        .into_iter()
        .flatten()
        .collect(),
    })
}

/// The receiving socket's own view. Bytes that merely wait for a busy reader are no harm in
/// themselves: only a closed window stops the sender. A recorded sender shows it better.
fn check_receiving(case: &Case) -> Verdict {
    let Some(ledger) = case.own.judged.ledger.as_ref() else {
        return Verdict::Quiet;
    };
    let is_reported = case
        .peer
        .is_some_and(|peer| peer.judged.stages.stage_ns(Stage::ReceiverWindow) > 0);
    if is_reported || ledger.window_closed_ns == 0 || ledger.reader_slow_ns == 0 {
        return Verdict::Quiet;
    }
    let waits = u64::from(ledger.reader_slow_waits);
    let buffer = case.own.rcvbuf_bytes().map(u64::from);
    let facts: Vec<Fact> = [
        Some(sum(
            "reader_slow_waits",
            waits,
            "times bytes waited for the reader",
        )),
        Some(total_ns(
            "reader_slow_ns",
            ledger.reader_slow_ns,
            "they waited in total",
        )),
        Some(total_ns(
            "window_closed_ns",
            ledger.window_closed_ns,
            "the window was closed",
        )),
        known(
            "rcvbuf_bytes",
            buffer,
            FactUnit::Bytes,
            "receive buffer limit, when last seen",
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    Verdict::Fires(RuleFinding {
        direction: DataDirection::Receiving,
        concerned_ns: ledger.reader_slow_ns,
        harm_ns: ledger.window_closed_ns,
        facts,
    })
}
