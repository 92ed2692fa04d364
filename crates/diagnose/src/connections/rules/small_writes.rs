//! Several short writes within a round trip; each became a segment of its own
//! although two of them would fit into one. It costs CPU on both hosts; where Nagle's algorithm
//! holds them for a round trip while a thread waits, it costs time.

use table::Stage;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::delayed_acks::nagle_harm_ns;
use super::shared::facts::{known, min_rtt, pattern, sum, whole};
use super::shared::sentences::{advice, direct_confidence};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::connections::gather::calls::CallDigest;
use crate::report::{DataDirection, FactUnit, Finding, RuleId, UndecidedFinding};
use crate::units::{count, duration, format_bytes};

/// The rule `small_writes`.
pub struct SmallWrites;

/// A message and its answer need one write each; more in a row could be one.
const IN_SEQUENCE: f64 = 2.0;

/// Returns whether writes follow each other: at least two for each read, and at least every second within the path's
/// round trip of the one before, so that joining them delays nobody.
fn in_sequence(case: &Case, calls: &CallDigest) -> bool {
    let Some(rtt_us) = case.own.gathered.samples.min_rtt_us else {
        return false;
    };
    let close = calls.sends_within(u64::from(rtt_us) * 1_000);
    let sends = calls.send.calls;
    let ratio = calls.sends_per_receive().unwrap_or(sends as f64);
    ratio >= IN_SEQUENCE && close * 2 >= sends
}

impl Rule for SmallWrites {
    fn id(&self) -> RuleId {
        RuleId::SmallWrites
    }

    fn summary(&self) -> &'static str {
        "Many short writes in a row each become a separate segment"
    }

    fn check(&self, case: &Case) -> Verdict {
        let segments = case
            .own
            .growth(|sample| sample.data_segs_out.map(u64::from));
        let segment_bytes = case
            .own
            .last_sample()
            .map(|sample| f64::from(sample.mss_bytes));
        let (Some(segments), Some(segment_bytes)) = (segments, segment_bytes) else {
            return Verdict::Quiet;
        };
        let Some(calls) = case.own.calls else {
            return self.check_segments(case, segments, segment_bytes);
        };
        let send = &calls.send;
        let mean_bytes = send.mean_bytes().unwrap_or(segment_bytes);
        let short = mean_bytes * 2.0 <= segment_bytes;
        let own_segments = segments * 2 >= send.calls;
        // Waits for delayed ACKs have a rule of their own.
        let other = case.has_fired(RuleId::NagleDelayedAck);
        if !(in_sequence(case, calls) && short && own_segments) || send.calls < 2 || other {
            return Verdict::Quiet;
        }
        let mut facts = vec![
            sum("writes", send.calls, "writes"),
            sum("data_segments", segments, "segments with data"),
        ];
        facts.extend(pattern(case));
        facts.extend(known(
            "mss_bytes",
            Some(segment_bytes as u64),
            FactUnit::Bytes,
            "size of a full segment (MSS)",
        ));
        facts.extend(min_rtt(case));
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: case.ns(Stage::Nagle),
            harm_ns: nagle_harm_ns(case),
            facts,
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        blind.push("The CPU time that the extra segments cost.".into());
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::DelayedAck,
                ExcludableCause::ReceiverWindow,
                ExcludableCause::Loss,
            ]),
            could_not_see: blind,
            advice: advice([
                "Write the parts of one message with one call: use a buffer, writev(), or MSG_MORE on all parts \
                    except the last.",
            ]),
            win: WinBasis::HarmGone("each message leaves in one segment"),
            confidence: direct_confidence(case, "calls and segments were counted"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let fact = |name| whole(&finding.evidence.0, name).unwrap_or(0);
        let cost = if finding.harm_ns == 0 {
            "cost only CPU time".to_owned()
        } else {
            format!("cost {}", duration(finding.harm_ns))
        };
        format!(
            "{} writes of {} on average became {} segments — {cost}.",
            count(fact("writes")),
            format_bytes(fact("mean_write_bytes")),
            count(fact("data_segments"))
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        let fact = |name| whole(&undecided.evidence.0, name).unwrap_or(0);
        format!(
            "{} segments carried {} each on average.",
            count(fact("data_segments")),
            format_bytes(fact("mean_segment_bytes"))
        )
    }
}

impl SmallWrites {
    /// Judges short segments if the calls that made them were not recorded.
    fn check_segments(&self, case: &Case, segments: u64, segment_bytes: f64) -> Verdict {
        let received = case
            .own
            .growth(|sample| sample.data_segs_in.map(u64::from))
            .unwrap_or(0);
        let sent_bytes = case.own.judged.bytes.0.unwrap_or(0);
        let mean_bytes = sent_bytes.checked_div(segments).unwrap_or(0);
        let in_sequence = segments as f64 >= received.max(1) as f64 * IN_SEQUENCE;
        if !in_sequence || mean_bytes == 0 || mean_bytes as f64 * 2.0 > segment_bytes {
            return Verdict::Quiet;
        }
        let mean = known(
            "mean_segment_bytes",
            Some(mean_bytes),
            FactUnit::Bytes,
            "of data in a segment, on average",
        );
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: 0,
            facts: [
                Some(sum("data_segments", segments, "segments with data")),
                mean,
            ]
            .into_iter()
            .flatten()
            .collect(),
            why: "Calls were not recorded. The application may make short writes, or the segments may be the \
                ends of larger writes.",
            would_help: None,
        })
    }
}
