//! Softirq work on the application's CPU took it from the application. What comes again while it is
//! done, and lasts longer than 2 ms (`MAX_SOFTIRQ_TIME`, in jiffies), comes ten times
//! (`MAX_SOFTIRQ_RESTART`), or keeps a thread waiting (`need_resched()`), the kernel hands to
//! `ksoftirqd` (`handle_softirqs()`, kernel/softirq.c). Its CPU time is exact.

use table::Chosen;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, known_real, total_ns};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::report::severity::{WARNING_SHARE, held_up};
use crate::report::{
    Confidence, ConfidenceLevel, Fact, FactUnit, Finding, RuleId, UndecidedFinding,
};
use crate::units::duration;

/// The rule `softirq_delay`.
pub struct SoftirqDelay;

impl Rule for SoftirqDelay {
    fn id(&self) -> RuleId {
        RuleId::SoftirqDelay
    }

    fn summary(&self) -> &'static str {
        "Softirqs took the application's CPU"
    }

    fn check(&self, case: &Case) -> Verdict {
        let harm_ns = case.ksoftirqd_ns().unwrap_or(0);
        if harm_ns as f64 > case.life_ns() as f64 * WARNING_SHARE {
            return Verdict::Fires(RuleFinding {
                direction: case.application_direction(),
                concerned_ns: harm_ns,
                harm_ns,
                facts: collect_facts(case),
            });
        }
        self.unseen_delay_verdict(case)
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::CongestionWindow,
                ExcludableCause::ReceiverWindow,
                ExcludableCause::Loss,
            ]),
            could_not_see: blind_spots(case),
            advice: advice([
                "Move the application to another CPU (`taskset`, cpuset), or move the packets: \
                 interrupt affinity, RSS (`ethtool -X`), RPS (`rps_cpus`).",
                "Find what the packets are (`mpstat -P ALL`, /proc/softirqs, \
                 /proc/net/softnet_stat). Filter unwanted traffic earlier: on the network adapter, \
                 or with XDP.",
                "If they are the application's own: larger segments (GRO, TSO), fewer and larger \
                 messages, or busy polling (SO_BUSY_POLL).",
            ]),
            // What softirqs took in interrupts, before they were left to ksoftirqd, comes to it.
            win: WinBasis::AtLeast(f64::INFINITY, "another CPU does that work"),
            confidence: confidence(case),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!(
            "Softirqs took the application's CPU: ksoftirqd ran there — cost {}.",
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "Softirqs may have kept the application from its CPU for {}.",
            duration(undecided.possible_harm_ns)
        )
    }
}

fn confidence(case: &Case) -> Confidence {
    match case.own.calls.map_or(0, |calls| calls.cpus.len()) {
        0 | 1 => direct_confidence(
            case,
            "all calls ended on one CPU, and its ksoftirqd was measured",
        ),
        cpus => Confidence {
            level: ConfidenceLevel::Medium,
            because: format!(
                "the application was on {cpus} CPUs; each counts by its number of calls"
            ),
        },
    }
}

fn collect_facts(case: &Case) -> Vec<Fact> {
    let cpu = &case.own.cpu;
    let number = cpu.home_cpu.map(u64::from);
    let worked_ns = cpu.home.and_then(|home| home.ksoftirqd_ns);
    let softirq = cpu.home.map(|home| home.share(home.softirq_ns));
    let waited_ns = cpu.process.map(|process| process.waited_ns);
    [
        known(
            "cpu",
            number,
            FactUnit::Count,
            "CPU on which most calls ended",
        ),
        known(
            "ksoftirqd_ns",
            worked_ns,
            FactUnit::Ns,
            "CPU time of its ksoftirqd",
        ),
        known_real(
            "softirq",
            softirq,
            FactUnit::Share,
            "of the time this CPU ran softirqs, by its timer tick",
        ),
        known(
            "process_waited_ns",
            waited_ns,
            FactUnit::Ns,
            "run-queue delay of the process",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn blind_spots(case: &Case) -> Vec<String> {
    let mut blind = vec![
        "Which program the packets were for, and softirq work that interrupted the application \
         without ksoftirqd."
            .to_owned(),
    ];
    blind.extend(case.general_blind_spots());
    blind
}

impl SoftirqDelay {
    /// Judges much softirq work if the recording does not show whether it was too much for the kernel, or on which
    /// CPU the application was.
    fn unseen_delay_verdict(&self, case: &Case) -> Verdict {
        let asked_for = case
            .own
            .identity()
            .is_none_or(|it| it.chosen == Chosen::Target);
        let cpu = &case.own.cpu;
        let (worked_ns, why, would_help) = match cpu.home {
            Some(home) if home.ksoftirqd_ns.is_none() => (home.softirq_ns, HIDDEN, Some(OUTSIDE)),
            None if case.own.calls.is_none() => (cpu.most_ksoftirqd_ns, NO_CPU, None),
            _ => (0, HIDDEN, None),
        };
        let possible_ns = worked_ns.min(case.cpu_wanted_ns());
        if !asked_for || !held_up(possible_ns, case.life_ns()) {
            return Verdict::Quiet;
        }
        let label = "softirq work on a CPU for which the application may have waited";
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: possible_ns,
            facts: vec![total_ns("softirq_ns", worked_ns, label)],
            why,
            would_help,
        })
    }
}

const HIDDEN: &str = "whylat could not read the run time of ksoftirqd. So the recording does not show whether \
    softirqs overloaded the CPU.";
const OUTSIDE: &str = "Record outside the container: the container hides kernel threads.";
const NO_CPU: &str = "Only calls show the application's CPU, and they were not recorded.";
