//! Zero-copy sends that the kernel copied after all: the program pays for lending its memory and for the copy.

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known_bytes, known_flag, sum, whole};
use super::shared::sentences::{advice, direct_confidence};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::connections::gather::zerocopy::ZerocopyCounts;
use crate::report::{DataDirection, Fact, Finding, RuleId, UndecidedFinding};
use crate::units::count;

/// The rule `zerocopy_copied`.
pub struct ZerocopyCopied;

impl Rule for ZerocopyCopied {
    fn id(&self) -> RuleId {
        RuleId::ZerocopyCopied
    }

    fn summary(&self) -> &'static str {
        "The kernel copied zero-copy sends after all"
    }

    fn is_answer(&self) -> bool {
        true
    }

    fn check(&self, case: &Case) -> Verdict {
        let sends = case.own.gathered.zerocopy.all_sends();
        if sends.count_known() == 0 && sends.unknown > 0 {
            return Verdict::Inconclusive(RuleDoubt {
                candidates: vec![self.id()],
                concerned_ns: 0,
                facts: collect_facts(case, sends),
                why: "The program does not ask io_uring whether the kernel copied.",
                would_help: Some("Set IORING_SEND_ZC_REPORT_USAGE in its requests."),
            });
        }
        // The kernel's advice is to stop at any report of a copy; most of the sends show that it is no exception.
        if sends.copied == 0 || sends.copied < sends.not_copied {
            return Verdict::Quiet;
        }
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: 0,
            harm_ns: 0,
            facts: collect_facts(case, sends),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        blind.push("The CPU time that the copies and the reports cost.".into());
        FindingExplanation {
            ruled_out: case.rule_out(&[ExcludableCause::ReceiverWindow, ExcludableCause::Loss]),
            could_not_see: blind,
            advice: advice([
                "Send without MSG_ZEROCOPY, or with IORING_OP_SEND: the kernel copies each byte here anyway. It \
                    always copies for loopback, veth and other devices of this host.",
                "If the program also sends through a network adapter: stop zero-copy on each socket for which the \
                    kernel reports a copy (SO_EE_CODE_ZEROCOPY_COPIED, IORING_NOTIF_USAGE_ZC_COPIED).",
                "If a network adapter should send these bytes: `ethtool -k DEVICE` must show \
                 scatter-gather and tx-checksumming on.",
            ]),
            win: WinBasis::Unknown,
            confidence: direct_confidence(
                case,
                "the kernel reports for each send whether it copied",
            ),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let fact = |name| whole(&finding.evidence.0, name).unwrap_or(0);
        let copied = fact("copied_sends");
        format!(
            "The kernel copied {} of {} zero-copy sends after all — they cost more CPU time than \
             plain sends.",
            count(copied),
            count(copied + fact("not_copied_sends"))
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        let sends = whole(&undecided.evidence.0, "unknown_sends").unwrap_or(0);
        format!(
            "The kernel may have copied {} zero-copy sends after all.",
            count(sends)
        )
    }
}

fn collect_facts(case: &Case, sends: ZerocopyCounts) -> Vec<Fact> {
    let mean_bytes = case.mean_send_bytes().map(|bytes| bytes as u64);
    let facts = [
        (sends.count_known() > 0).then(|| {
            sum(
                "copied_sends",
                sends.copied,
                "zero-copy sends that the kernel copied",
            )
        }),
        (sends.count_known() > 0).then(|| {
            sum(
                "not_copied_sends",
                sends.not_copied,
                "zero-copy sends without a copy",
            )
        }),
        (sends.unknown > 0).then(|| {
            sum(
                "unknown_sends",
                sends.unknown,
                "zero-copy sends with an unknown result",
            )
        }),
        known_bytes("mean_send_bytes", mean_bytes, "sent by a call, on average"),
        known_flag(
            "other_end_is_here",
            case.peer.is_some().then_some(true),
            "the other end is on this host",
        ),
    ];
    facts.into_iter().flatten().collect()
}
