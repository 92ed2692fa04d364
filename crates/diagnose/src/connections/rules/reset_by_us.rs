//! This end reset the connection: the other end sees "connection reset by peer", and data that was not read, or not sent
//! yet, is lost. The kernel says why it sent the reset (`tcp_send_reset`, `enum sk_rst_reason`).

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{sum, whole};
use super::shared::sentences::direct_confidence;
use crate::connections::case::Case;
use crate::drops::find_meaning;
use crate::report::{Advice, DataDirection, Finding, RuleId, UndecidedFinding};
use crate::units::quantity;

/// The rule `reset_by_us`.
pub struct ResetByUs;

/// The probe of resets that this host sends.
const PROBE: &str = "drops.resets_sent";

impl Rule for ResetByUs {
    fn id(&self) -> RuleId {
        RuleId::ResetByUs
    }

    fn summary(&self) -> &'static str {
        "This end reset the connection, and the kernel says why"
    }

    fn is_answer(&self) -> bool {
        true
    }

    fn interval(&self, case: &Case) -> (u64, u64) {
        let reset_ns = case.own.gathered.drops.reset_ns;
        reset_ns.map_or_else(|| case.interval(&[]), |ns| (ns, ns))
    }

    fn check(&self, case: &Case) -> Verdict {
        let resets: u64 = case.own.gathered.drops.resets.values().sum();
        if resets == 0 {
            return self.check_unseen(case);
        }
        Verdict::Fires(RuleFinding {
            direction: DataDirection::Sending,
            concerned_ns: 0,
            // data is lost, not time
            harm_ns: 0,
            facts: vec![sum("resets", resets, "resets sent")],
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let reasons = case.own.gathered.drops.resets.keys();
        FindingExplanation {
            ruled_out: Vec::new(),
            could_not_see: vec!["How many bytes were lost with the reset.".into()],
            advice: reasons.map(|reason| fix(reason.as_deref())).collect(),
            win: WinBasis::Unknown,
            confidence: direct_confidence(case, "the kernel says that it sent the reset, and why"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let resets = whole(&finding.evidence.0, "resets").unwrap_or(0);
        let connections = quantity(finding.subject.connections, "connection");
        format!(
            "This end reset {connections} — unread and unsent data is lost ({} sent).",
            quantity(resets, "reset")
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        let aborts = whole(&undecided.evidence.0, "aborts").unwrap_or(0);
        format!(
            "{} ended at once, without the usual close. The recording does not show which end sent the reset.",
            quantity(aborts, "connection")
        )
    }
}

/// Returns the advice for a reset of this reason: its meaning and remedy.
fn fix(reason: Option<&str>) -> Advice {
    let Some(reason) = reason else {
        return Advice("This kernel gives no reason for resets; Linux 6.10 does.".into());
    };
    let text = match find_meaning(table::DropKind::ResetSent, reason, None) {
        Some(known) => format!("{reason}: {} {}", known.what, known.remedy),
        None => format!("{reason}: `whylat report --drops` shows the functions of the kernel."),
    };
    Advice(text.into())
}

impl ResetByUs {
    /// Judges a connection that ended like a reset one while the hook of resets was off.
    fn check_unseen(&self, case: &Case) -> Verdict {
        let mut off = case.context.off.iter();
        let is_off = off.any(|(probe, _)| probe == PROBE || probe == "drops");
        let aborts = case.own.gathered.events.aborts;
        if !is_off || aborts == 0 {
            return Verdict::Quiet;
        }
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: 0,
            facts: vec![sum(
                "aborts",
                aborts,
                "changes of state that look like a reset",
            )],
            why: "Resets could not be recorded; coverage says why.",
            would_help: Some("Record as root on a kernel that has tracepoint tcp_send_reset."),
        })
    }
}
