//! Only large segments are lost: those beyond the MTU of a link on the path. The sender does not learn of it, because the ICMP
//! messages that would inform it do not arrive (a "black hole", RFC 2923, 2.1). Small segments arrive, so that connections
//! open, and small requests work; the first large segment is retransmitted until the program gives up.

use table::Stage;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{sum, whole};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::{Case, LOSS_STAGES};
use crate::connections::exclusion::ExcludableCause;
use crate::connections::gather::events::StuckSegment;
use crate::report::{
    Advice, Confidence, ConfidenceLevel, DataDirection, Fact, FactMerge, Finding, RuleId,
    UndecidedFinding,
};
use crate::units::{format_bytes, quantity};

/// The rule `path_mtu`.
pub struct PathMtu;

/// Reason of the kernel: the packet is larger than the MTU of the next device.
const TOO_BIG: &str = "PKT_TOO_BIG";

/// One retransmission may be lost by chance; after two of the same segment more than chance is at work.
const AGAIN_LEAST: u64 = 2;

impl Rule for PathMtu {
    fn id(&self) -> RuleId {
        RuleId::PathMtu
    }

    fn summary(&self) -> &'static str {
        "Only large segments are lost: the path has a smaller MTU than the sender knows"
    }

    fn stages(&self) -> &'static [Stage] {
        &LOSS_STAGES
    }

    fn names_cause_of_loss(&self) -> bool {
        true
    }

    fn check(&self, case: &Case) -> Verdict {
        let lost_ns = case.lost_ns();
        let Some(lost) = LargeLoss::new(case) else {
            return Verdict::Quiet;
        };
        if lost_ns == 0 {
            return Verdict::Quiet;
        }
        let facts = lost.collect_facts(case);
        match lost.passes {
            Some(_) => Verdict::Fires(RuleFinding {
                direction: DataDirection::Sending,
                concerned_ns: lost_ns,
                harm_ns: lost_ns,
                facts,
            }),
            None => Verdict::Inconclusive(RuleDoubt {
                candidates: vec![self.id(), RuleId::RetransmitTimeouts],
                concerned_ns: lost_ns,
                facts,
                why: "The recording does not show whether the other end still received data. It may have ended.",
                would_help: Some(
                    "Send large pings without fragments: `ping -M do -s 1472 ADDRESS`.",
                ),
            }),
        }
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let lost = LargeLoss::new(case);
        let passes = lost.and_then(|lost| lost.passes);
        let is_here = matches!(passes, Some(Passage::TooBigHere | Passage::LargeHere));
        let mut could_not_see = case.general_blind_spots();
        if !is_here {
            could_not_see.push("Which link of the path has the smaller MTU.".into());
        }
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::ReceiverWindow,
                ExcludableCause::SenderApp,
                ExcludableCause::SendBuffer,
            ]),
            could_not_see,
            advice: causes_here(case).chain(list_fixes()).collect(),
            win: WinBasis::HarmGone("large segments arrive"),
            confidence: confidence(case, passes),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let size = whole(&finding.evidence.0, "lost_bytes").unwrap_or(0);
        format!(
            "Only segments of {} and more are lost: the MTU of the path is smaller — cost {}.",
            format_bytes(size),
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        let again = whole(&undecided.evidence.0, "retransmits_of_one").unwrap_or(0);
        format!(
            "{} of the first large segment got no answer. The MTU of the path may be smaller, or the other end \
                has ended.",
            quantity(again, "retransmission")
        )
    }
}

/// Shows that the other end is there, and receives what is smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passage {
    /// This host dropped the segments, because they are larger than the MTU of a device.
    TooBigHere,
    /// This host dropped them, for another reason, and nothing smaller.
    LargeHere,
    /// It acknowledged smaller segments behind the lost ones (SACK).
    Selective,
    /// A connection with it was established after the loss began.
    Alive,
}

/// A connection that loses its large segments.
#[derive(Debug, Clone, Copy)]
struct LargeLoss {
    lost_bytes: u64,
    again: u64,
    too_big: u64,
    passes: Option<Passage>,
}

impl LargeLoss {
    /// Finds the loss of large segments; `None`: smaller segments are lost, too, or large ones
    /// arrived.
    fn new(case: &Case) -> Option<Self> {
        let drops = &case.own.gathered.drops;
        let too_big = drops.segments_of(TOO_BIG);
        if too_big > 0 && 2 * too_big >= drops.retransmitted {
            let lost_bytes = drops.least_bytes().unwrap_or(0);
            return Some(Self {
                lost_bytes,
                again: case.retransmits().unwrap_or(0),
                too_big,
                passes: Some(Passage::TooBigHere),
            });
        }
        let stuck = case.own.gathered.events.stuck_segment()?;
        let last = case.own.last_sample()?;
        let mss = u64::from(last.mss_bytes);
        let is_large = stuck.bytes > 0 && stuck.bytes >= mss;
        // A large segment that arrived shows that the path takes them.
        let is_first = last.bytes_acked.saturating_sub(1) < stuck.bytes;
        if stuck.again < AGAIN_LEAST || !is_large || !is_first {
            return None;
        }
        Some(Self {
            lost_bytes: stuck.bytes,
            again: stuck.again,
            too_big: 0,
            passes: find_passage(case, &stuck),
        })
    }

    fn collect_facts(&self, case: &Case) -> Vec<Fact> {
        let mut facts = vec![
            sum(
                "retransmits_of_one",
                self.again,
                "retransmissions of large segments",
            ),
            Fact {
                merge: FactMerge::Worst,
                ..sum(
                    "lost_bytes",
                    self.lost_bytes,
                    "bytes of the smallest lost segment",
                )
            },
        ];
        let acked = case.own.last_sample().map(|last| last.bytes_acked);
        if let Some(acked) = acked.filter(|_| self.too_big == 0) {
            let label = "bytes acknowledged, all in smaller segments";
            facts.push(sum("acked_bytes", acked.saturating_sub(1), label));
        }
        if self.too_big > 0 {
            let label = "of them this host dropped, larger than the MTU of a device";
            facts.push(sum("too_big", self.too_big, label));
        }
        facts
    }
}

/// Returns which packets passed while the large segment was lost; None if no other is known.
fn find_passage(case: &Case, stuck: &StuckSegment) -> Option<Passage> {
    let drops = &case.own.gathered.drops;
    if case.own.last_sample().is_some_and(|last| last.sacked > 0) {
        return Some(Passage::Selective);
    }
    let is_opened = case.neighbours.opened_after(case.own, stuck.since_ns);
    let is_here = drops.retransmitted > 0 && drops.least_bytes() >= Some(stuck.bytes);
    match (is_opened, is_here) {
        (true, true) => Some(Passage::LargeHere),
        (true, false) => Some(Passage::Alive),
        (false, _) => None,
    }
}

/// Returns how sure the finding is, by the packets that passed meanwhile.
fn confidence(case: &Case, passes: Option<Passage>) -> Confidence {
    let medium = |because: &str| Confidence {
        level: ConfidenceLevel::Medium,
        because: because.to_owned(),
    };
    match passes {
        Some(Passage::TooBigHere) => {
            direct_confidence(case, "the kernel says why it dropped the segments")
        }
        Some(Passage::Selective) => {
            medium("the other end acknowledged smaller segments behind the lost ones")
        }
        Some(Passage::LargeHere) => {
            medium("this host dropped large segments only, and the other end exists")
        }
        _ => medium("the other end exists, and no large segment was ever acknowledged"),
    }
}

/// Returns the drop reasons of segments on this host, as advice.
fn causes_here(case: &Case) -> impl Iterator<Item = Advice> {
    let causes = case.own.gathered.drops.causes.keys();
    causes.map(|cause| Advice(cause.explain().into()))
}

fn list_fixes() -> Vec<Advice> {
    advice([
        "Let ICMP pass on the path: type 3 code 4 (IPv4), type 2 (IPv6). Firewalls that drop all ICMP cause this (RFC 4890).",
        "Until then, limit the segments: `ip route change … advmss 1300`, or on a router `nft … tcp option maxseg size set rt mtu`. \
         VPNs and tunnels: set the MTU of the device.",
        "net.ipv4.tcp_mtu_probing=1 lets TCP find the size itself after it detects such a path (RFC 4821).",
        "To find the link: `tracepath ADDRESS`, `ping -M do -s SIZE ADDRESS`.",
    ])
}
