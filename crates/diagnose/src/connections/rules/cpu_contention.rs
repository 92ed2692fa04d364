//! The application had work for the connection, and waited for a CPU that others used. The kernel
//! counts how long each thread was runnable and did not run (`sched_info.run_delay`); it is harm as
//! far as the connection waited for its application.

use table::{Chosen, Stage};

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, known_real, total_ns};
use super::shared::sentences::{advice, direct_confidence, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::connections::gather::cpu::ProcessUse;
use crate::report::finding::CPU_FIXES;
use crate::report::severity::{WARNING_SHARE, held_up};
use crate::report::{
    Confidence, ConfidenceLevel, DataDirection, Fact, FactUnit, Finding, RuleId, RuledOut,
    UndecidedFinding,
};
use crate::units::{duration, percent};

/// The rule `cpu_contention`.
pub struct CpuContention;

impl Rule for CpuContention {
    fn id(&self) -> RuleId {
        RuleId::CpuContention
    }

    fn summary(&self) -> &'static str {
        "The application waited for a CPU that others used"
    }

    fn is_of_program(&self) -> bool {
        true
    }

    fn check(&self, case: &Case) -> Verdict {
        let waited_ns = waited_ns(case);
        // Some wait is part of every thread's life.
        if waited_ns as f64 > case.life_ns() as f64 * WARNING_SHARE {
            return Verdict::Fires(RuleFinding {
                direction: case.application_direction(),
                concerned_ns: waited_ns,
                harm_ns: waited_ns,
                facts: collect_facts(case),
            });
        }
        self.unseen_reader_verdict(case)
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        FindingExplanation {
            ruled_out: not_softirq(case)
                .into_iter()
                .chain(case.rule_out(&[
                    ExcludableCause::CongestionWindow,
                    ExcludableCause::ReceiverWindow,
                    ExcludableCause::Loss,
                ]))
                .collect(),
            could_not_see: blind_spots(case),
            advice: advice(CPU_FIXES),
            win: win_basis(case),
            confidence: confidence(case),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        format!(
            "The application had work but waited for a CPU — cost {}.",
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "Bytes waited {} for the reader; the recording does not show whether it waited for a CPU.",
            duration(undecided.possible_harm_ns)
        )
    }
}

/// Time that the application's threads waited for a CPU while the connection waited for them, ns.
/// What `ksoftirqd` took of the CPU is another finding.
fn waited_ns(case: &Case) -> u64 {
    let process = case.own.cpu.process.as_ref();
    // a thread that its quota stops waits for no CPU: rule `cpu_quota`
    let by_process_ns = process.map_or(0, |process| {
        let threads = process.threads().map_or(1.0, |threads| threads.max(1.0));
        let quota_ns = (process.quota_ns as f64 / threads) as u64;
        process.waited_ns.saturating_sub(quota_ns)
    });
    let waited_ns = by_process_ns
        .min(case.application_ns())
        .max(in_calls_ns(case));
    waited_ns
        .min(case.life_ns())
        .saturating_sub(case.ksoftirqd_ns().unwrap_or(0))
}

/// The part that the calls measured: receivers with bytes ready, and senders as far as the socket
/// had run dry.
fn in_calls_ns(case: &Case) -> u64 {
    let calls = case.own.calls;
    calls.map_or(0, |calls| {
        calls.receive.runq_ns + calls.send.runq_ns.min(case.ns(Stage::SenderApp))
    })
}

fn confidence(case: &Case) -> Confidence {
    let Some(process) = case.own.cpu.process else {
        return direct_confidence(
            case,
            "the wait was measured in the calls on this connection",
        );
    };
    let threads = process.threads().unwrap_or(0.0);
    if in_calls_ns(case) >= waited_ns(case) {
        direct_confidence(
            case,
            "the wait was measured in the calls on this connection",
        )
    } else if threads.round() <= 1.0 {
        direct_confidence(
            case,
            "one thread of the process ran, and its wait was measured",
        )
    } else {
        Confidence {
            level: ConfidenceLevel::Medium,
            because: format!(
                "{threads:.0} threads of the process ran; the recording does not show which of \
                 them served this connection"
            ),
        }
    }
}

fn collect_facts(case: &Case) -> Vec<Fact> {
    let cpu = &case.own.cpu;
    let process = cpu.process.as_ref();
    let in_calls_ns = in_calls_ns(case);
    let threads = process.and_then(ProcessUse::threads);
    let number = cpu.home_cpu.map(u64::from);
    let used = cpu.home.map(|home| home.used_share());
    let stolen = cpu.home.map(|home| home.share(home.steal_ns));
    let stolen = stolen.filter(|share| *share > 0.0);
    [
        known(
            "process_waited_ns",
            process.map(|process| process.waited_ns),
            FactUnit::Ns,
            "run-queue delay of the process",
        ),
        Some(total_ns(
            "calls_waited_ns",
            in_calls_ns,
            "run-queue delay within calls",
        ))
        .filter(|_| in_calls_ns > 0),
        known(
            "process_cpu_ns",
            process.map(|process| process.cpu_ns),
            FactUnit::Ns,
            "CPU time of the process",
        ),
        known_real(
            "threads",
            threads,
            FactUnit::Count,
            "running threads, on average",
        ),
        known(
            "cpu",
            number,
            FactUnit::Count,
            "CPU on which most calls ended",
        ),
        known_real(
            "cpu_used",
            used,
            FactUnit::Share,
            "of the time that CPU was in use",
        ),
        known_real(
            "stolen",
            stolen,
            FactUnit::Share,
            "of the time a hypervisor took that CPU away",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Rules out softirq work as the cause, if its time was measured and is small.
fn not_softirq(case: &Case) -> Option<RuledOut> {
    let worked_ns = case.own.cpu.home?.ksoftirqd_ns?;
    let share = worked_ns as f64 / case.life_ns().max(1) as f64;
    (share <= WARNING_SHARE).then(|| RuledOut {
        cause: "softirqs",
        because: format!("ksoftirqd used its CPU {} of the time", percent(share)),
    })
}

/// Estimates the effect of a fix. The cost of a slow reader for its sender depends on the buffers between them.
fn win_basis(case: &Case) -> WinBasis {
    match case.application_direction() {
        DataDirection::Sending => WinBasis::HarmGone("the threads run as soon as they can"),
        DataDirection::Receiving => WinBasis::Unknown,
    }
}

fn blind_spots(case: &Case) -> Vec<String> {
    let mut blind = vec![
        "Who used the CPU meanwhile, and whether the control group's limit (`cpu.max`) throttled the threads."
            .to_owned(),
    ];
    if case.ksoftirqd_ns().is_none() {
        blind.push("How much of it softirqs took: ksoftirqd was not read.".to_owned());
    }
    let covered_ns = case.own.cpu.process.map_or(0, |process| process.covered_ns);
    let unread_ns = case.life_ns().saturating_sub(covered_ns);
    if unread_ns as f64 > case.life_ns() as f64 * WARNING_SHARE {
        blind.push(format!(
            "The CPU time of the process is unknown for {} of the connection's duration: the harm may be larger.",
            duration(unread_ns)
        ));
    }
    blind.extend(case.general_blind_spots());
    blind
}

impl CpuContention {
    /// Bytes waited for a reader that was not read itself.
    fn unseen_reader_verdict(&self, case: &Case) -> Verdict {
        let asked_for = |chosen| chosen == Chosen::Target;
        let asked_for = case.own.identity().is_none_or(|it| asked_for(it.chosen));
        let receive = case.own.judged.receive.as_ref();
        let unread_ns = receive.map_or(0, |receive| receive.reader_slow.ns);
        let read = !case.context.cpu || case.own.cpu.process.is_some();
        if read || !asked_for || !held_up(unread_ns, case.life_ns()) {
            return Verdict::Quiet;
        }
        let label = "bytes waited for the reader";
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: unread_ns,
            facts: vec![total_ns("reader_slow_ns", unread_ns, label)],
            why: "The run-queue delay of the process could not be read.",
            would_help: Some("Record as a user who may read /proc/PID/task, for longer."),
        })
    }
}
