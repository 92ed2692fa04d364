//! The receiving application does not read in time, its buffer fills, and its window stops the
//! sender. Seen from the sending socket, or, when the sender is elsewhere, from the receiving
//! one.

use table::Stage;

use super::receive_buffer_limited;
use super::rule::{FindingExplanation, Rule, RuleFinding, Verdict, WinBasis};
use super::shared::delayed_acks::most_by_nagle_ns;
use super::shared::facts::{known, known_real, min_rtt, real, sum, total_ns, worst};
use super::shared::sentences::{advice, direct_confidence, of_life};
use super::shared::window_cause::{WindowCause, window_cause};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::connections::subject::ConnectionSubject;
use crate::report::severity::{WARNING_SHARE, held_up};
use crate::report::{
    Confidence, DataDirection, Fact, FactUnit, FactValue, Finding, RuleId, RuledOut,
};
use crate::units::{percent, ratio_of};

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
        match check_reader(case) {
            Verdict::Fires(found) => Verdict::Fires(weigh_pace(case, found)),
            other => other,
        }
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
        let slept = real(&finding.evidence.0, PACED).filter(|_| finding.is_note());
        if let Some(slept) = slept {
            return format!(
                "The reader paces itself: it slept {} of the time on a timer, and its full window stopped the sender.",
                percent(slept)
            );
        }
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

/// Name of the fact: share of its life in which a reader slept that paces itself.
const PACED: &str = "reader_slept";

/// The same of a reader with sleeps that are not what stopped the sender.
const SLEPT: &str = "reader_slept_part";

/// Decides whether the receiving program reads more slowly than data arrives.
fn check_reader(case: &Case) -> Verdict {
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

/// Returns the end that reads too slowly: the other end if this one is the sender.
fn reading_end<'a>(case: &Case<'a>, direction: DataDirection) -> Option<&'a ConnectionSubject<'a>> {
    match direction {
        DataDirection::Sending => case.peer,
        DataDirection::Receiving => Some(case.own),
    }
}

/// Time in which a reader slept on a timer while bytes waited for it, at least, ns; `None`: that was not recorded. It may
/// have slept, too, while it waited for bytes.
fn paced_ns(reader: &ConnectionSubject) -> Option<u64> {
    let receive = reader.judged.receive.as_ref()?;
    let slept_ns = reader.reader_slept_ns?;
    Some(slept_ns.saturating_sub(receive.waiting_for_peer.ns))
}

/// A pace that the reader keeps by a timer is no harm, if it is the greater part of what stopped the sender.
fn weigh_pace(case: &Case, found: RuleFinding) -> RuleFinding {
    let reader = reading_end(case, found.direction);
    let paced_ns = reader.and_then(paced_ns).unwrap_or(0);
    let is_paced = paced_ns > 0 && 2 * paced_ns >= found.harm_ns;
    let slept = reader.and_then(slept_share);
    let slept = slept.filter(|slept| is_paced || *slept > WARNING_SHARE);
    let name = if is_paced { PACED } else { SLEPT };
    let label = "of the time, the reader slept on a timer";
    let mut facts = found.facts;
    facts.extend(known_real(name, slept, FactUnit::Share, label));
    RuleFinding {
        harm_ns: match is_paced {
            true => found.harm_ns.saturating_sub(paced_ns),
            false => found.harm_ns,
        },
        facts,
        ..found
    }
}

/// Returns the share of its life in which a reader slept by a timer; `None` if unknown.
fn slept_share(reader: &ConnectionSubject) -> Option<f64> {
    let slept_ns = reader.reader_slept_ns?;
    Some(ratio_of(slept_ns, reader.judged.life_ns).min(1.0))
}

/// Evidence of a reader's own pace.
enum ReaderPace {
    /// It sleeps on a timer, and that is what stops the sender.
    Paced,
    /// It sleeps for such a share of the time, which is not all.
    Other(f64),
    /// Its waits were not recorded.
    Unknown,
}

/// Returns whether a timer of the program sets the pace of its reads.
fn find_pace(case: &Case) -> ReaderPace {
    let Verdict::Fires(found) = check_reader(case) else {
        return ReaderPace::Unknown;
    };
    let slept = reading_end(case, found.direction).and_then(slept_share);
    let Some(slept) = slept else {
        return ReaderPace::Unknown;
    };
    let weighed = weigh_pace(case, found);
    let is_paced = real(&weighed.facts, PACED).is_some();
    match is_paced && !held_up(weighed.harm_ns, case.life_ns()) {
        true => ReaderPace::Paced,
        false => ReaderPace::Other(slept),
    }
}

fn make_explanation(case: &Case, confidence: Confidence) -> FindingExplanation {
    let mut ruled_out = case.rule_out(&[
        ExcludableCause::CongestionWindow,
        ExcludableCause::SendBuffer,
        ExcludableCause::Loss,
    ]);
    let mut could_not_see = case.general_blind_spots();
    let mut advised = advice([
        "Find what the receiving program does between two reads: that is the slow part. Read \
         in a separate thread, or pass the work on.",
        "If it only falls behind in bursts, let the receive buffer grow: do not set \
         SO_RCVBUF; raise net.ipv4.tcp_rmem.",
    ]);
    match find_pace(case) {
        ReaderPace::Paced => {
            advised = advice([
                "Nothing, if this pace is meant: a rate limit (`curl --limit-rate`), a player. \
                 Else remove the sleep between two reads.",
            ]);
        }
        ReaderPace::Other(slept) if slept > WARNING_SHARE => {}
        ReaderPace::Other(slept) => ruled_out.push(RuledOut {
            cause: "a pace that the reader keeps by a timer",
            because: format!("it slept {} of the time on a timer", percent(slept)),
        }),
        ReaderPace::Unknown => could_not_see.push(
            "Whether the reader paces itself: it may sleep on a timer between two reads, as \
             `curl --limit-rate` does. `--detail waits` on its host shows it."
                .to_owned(),
        ),
    }
    FindingExplanation {
        ruled_out,
        could_not_see,
        advice: advised,
        win: WinBasis::Unknown,
        confidence,
    }
}

/// Judges short segments that Nagle's algorithm held until the peer at last read: the ACK waited
/// for the reader. Harm only while a thread here waited.
fn check_held(case: &Case) -> Option<RuleFinding> {
    let beyond_ns = case.ns(Stage::Nagle).checked_sub(most_by_nagle_ns(case)?)?;
    let peer = case.peer?.judged.receive.as_ref()?;
    let calls = case.calls_with_blocking()?;
    if beyond_ns == 0 || peer.reader_slow.ns < beyond_ns / 2 {
        return None;
    }
    let late = FactValue::Real(peer.reader_slow.share);
    let label = "of the time, bytes waited for the reader at the other end";
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

/// Judges by the receiving socket alone: only a closed window stops the sender. Bytes that merely
/// wait for a busy reader are no harm in themselves. A recorded sender shows it better.
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
            "intervals in which bytes waited for the reader",
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
