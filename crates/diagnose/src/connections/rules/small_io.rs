//! A program moves few bytes in each of many calls on a socket, one after another: the calls take its CPU time. A buffer of
//! usual size would save most of them.

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known, known_real, sum, total_ns, whole};
use super::shared::sentences::{advice, of_life};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::connections::gather::calls::CallDigest;
use crate::connections::gather::system_calls::SystemCallTime;
use crate::report::{
    Confidence, ConfidenceLevel, DataDirection, FactUnit, Finding, RuleId, RuledOut,
    UndecidedFinding,
};
use crate::units::{count, duration, format_bytes, percent, ratio_of};

/// The rule `small_io`.
pub struct SmallIo;

/// The smallest buffer that a standard library puts before a file or a socket: Go's bufio (`defaultBufSize`). glibc's stdio
/// has `st_blksize`, which is the same for a socket; Python's io and Java's BufferedOutputStream have 8,192.
const BUFFER_BYTES: u64 = 4_096;

/// A cause of less than this part of the time is no finding.
const LEAST_SHARE: f64 = 0.1;

/// Samples that are needed at least: of 30 the standard error is 18 % (√n).
const LEAST_SAMPLES: u64 = 30;

/// The calls of one direction, and how many of them a buffer would save.
struct SmallCalls {
    direction: DataDirection,
    calls: u64,
    bytes: u64,
    avoidable: u64,
    /// CPU time in them, ns; `None`: not sampled.
    cpu_ns: Option<u64>,
}

impl SmallCalls {
    /// Counts calls that a buffer would avoid; None if it avoids less than half.
    fn new(direction: DataDirection, (calls, bytes): (u64, u64), turns: u64) -> Option<Self> {
        // a buffer is flushed before the program waits for the other end
        let needed = bytes.div_ceil(BUFFER_BYTES).max(turns);
        let avoidable = calls.saturating_sub(needed);
        (avoidable * 2 > calls).then_some(Self {
            direction,
            calls,
            bytes,
            avoidable,
            cpu_ns: None,
        })
    }

    /// Counts small send calls: at most one is needed for each receive call.
    fn of_sends(calls: &CallDigest) -> Option<Self> {
        let send = &calls.send;
        let turns = calls.receive.calls;
        Self::new(DataDirection::Sending, (send.calls, send.bytes), turns)
    }

    /// Counts small receive calls that filled their buffer: more data may have been there.
    fn of_receives(calls: &CallDigest) -> Option<Self> {
        let receive = &calls.receive;
        let full = (receive.full_calls, receive.full_bytes);
        let turns = calls.send.calls + receive.calls - receive.full_calls;
        Self::new(DataDirection::Receiving, full, turns)
    }

    /// Adds the CPU time of such calls: the process's time, divided by the number of calls.
    fn with_time(self, time: &SystemCallTime) -> Self {
        let (all_ns, all) = match self.direction {
            DataDirection::Sending => (time.send_ns, time.sends),
            DataDirection::Receiving => (time.receive_ns, time.receives),
        };
        let cpu_ns = u128::from(all_ns) * u128::from(self.calls) / u128::from(all.max(1));
        let cpu_ns = Some(all_ns.min(cpu_ns as u64));
        Self { cpu_ns, ..self }
    }

    /// Returns the CPU time of the calls that a buffer would save, ns. The bytes of a call cost
    /// next to nothing at this size.
    fn harm_ns(&self) -> u64 {
        let cpu_ns = u128::from(self.cpu_ns.unwrap_or(0));
        (cpu_ns * u128::from(self.avoidable) / u128::from(self.calls.max(1))) as u64
    }
}

/// Returns the small calls of the direction in which they cost more.
fn small_calls(case: &Case) -> Option<SmallCalls> {
    let calls = case.own.calls?;
    let time = case.own.system_calls.unwrap_or_default();
    let both = [SmallCalls::of_sends(calls), SmallCalls::of_receives(calls)];
    let timed = both.into_iter().flatten().map(|it| it.with_time(&time));
    timed.max_by_key(|it| (it.harm_ns(), it.calls))
}

impl Rule for SmallIo {
    fn id(&self) -> RuleId {
        RuleId::SmallIo
    }

    fn summary(&self) -> &'static str {
        "Many calls on a socket move few bytes each"
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some(small) = small_calls(case) else {
            return Verdict::Quiet;
        };
        let least_ns = case.life_ns() as f64 * LEAST_SHARE;
        let Some(time) = case.own.system_calls else {
            return self.unseen_cost_verdict(case, &small);
        };
        if time.samples < LEAST_SAMPLES || (small.harm_ns() as f64) < least_ns {
            return Verdict::Quiet;
        }
        let mean_ns = small.cpu_ns.and_then(|ns| ns.checked_div(small.calls));
        let facts = [
            Some(sum("calls", small.calls, "calls that moved bytes")),
            mean_bytes(&small),
            Some(total_ns(
                "calls_cpu_ns",
                small.cpu_ns.unwrap_or(0),
                "CPU time in these calls",
            )),
            known(
                "call_cpu_ns",
                mean_ns,
                FactUnit::Ns,
                "CPU time of a call, on average",
            ),
            known_real(
                "process_share",
                Some(ratio_of(small.cpu_ns.unwrap_or(0), time.cpu_ns)),
                FactUnit::Share,
                "of the CPU time of the process",
            ),
            Some(sum(
                "calls_with_buffer",
                small.calls - small.avoidable,
                "calls with a buffer of 4 kB",
            )),
        ];
        Verdict::Fires(RuleFinding {
            direction: small.direction,
            concerned_ns: small.cpu_ns.unwrap_or(0),
            harm_ns: small.harm_ns(),
            facts: facts.into_iter().flatten().collect(),
        })
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let small = small_calls(case);
        let is_receiving = small.is_some_and(|it| it.direction == DataDirection::Receiving);
        FindingExplanation {
            ruled_out: not_blocked(case)
                .into_iter()
                .chain(case.rule_out(&[
                    ExcludableCause::ReceiverWindow,
                    ExcludableCause::SendBuffer,
                    ExcludableCause::Loss,
                ]))
                .collect(),
            could_not_see: case.general_blind_spots(),
            advice: match is_receiving {
                true => advice([
                    "Read into a buffer, and take messages from that: Go bufio.NewReader, Java \
                     BufferedInputStream, Python socket.makefile('rb').",
                    "If each message has a header: read header and body with one call.",
                ]),
                false => advice([
                    "Write into a buffer, and flush it once a message or a batch is whole: Go \
                     bufio.NewWriter, Java BufferedOutputStream, Python socket.makefile('wb').",
                    "If the parts are in several buffers: send them with one writev() or sendmsg().",
                    "MSG_MORE and TCP_CORK save segments, but no calls: they do not help here.",
                ]),
            },
            win: WinBasis::HarmGone("a buffer of 4 kB saves these calls, and costs nothing itself"),
            confidence: confidence(case),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let fact = |name| whole(&finding.evidence.0, name).unwrap_or(0);
        let verb = match finding.direction {
            DataDirection::Sending => "sent",
            DataDirection::Receiving => "received",
        };
        format!(
            "{} calls {verb} {} each — the calls cost {} of CPU time.",
            count(fact("calls")),
            format_bytes(fact("mean_bytes")),
            of_life(finding)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        let fact = |name| whole(&undecided.evidence.0, name).unwrap_or(0);
        format!(
            "{} calls moved {} each. The recording does not show what they cost.",
            count(fact("calls")),
            format_bytes(fact("mean_bytes"))
        )
    }
}

/// Returns the fact of the mean size of a call.
fn mean_bytes(small: &SmallCalls) -> Option<crate::report::Fact> {
    let mean = small.bytes.checked_div(small.calls);
    known(
        "mean_bytes",
        mean,
        FactUnit::Bytes,
        "moved by a call, on average",
    )
}

/// Rules out blocking as the cause, if send calls were hardly blocked.
fn not_blocked(case: &Case) -> Option<RuledOut> {
    let calls = case.calls_with_blocking()?;
    let share = ratio_of(calls.send.blocked_ns, case.life_ns());
    (share < LEAST_SHARE).then(|| RuledOut {
        cause: "blocking",
        because: format!(
            "send calls were blocked {} ({})",
            duration(calls.send.blocked_ns),
            percent(share)
        ),
    })
}

fn confidence(case: &Case) -> Confidence {
    let samples = case.own.system_calls.map_or(0, |time| time.samples);
    Confidence {
        level: match case.context.lost.is_empty() {
            true => ConfidenceLevel::High,
            false => ConfidenceLevel::Medium,
        },
        because: format!(
            "all calls were counted; their CPU time is sampled ({} samples)",
            count(samples)
        ),
    }
}

impl SmallIo {
    /// Returns an undecided verdict: no samples show what the small calls cost.
    fn unseen_cost_verdict(&self, case: &Case, small: &SmallCalls) -> Verdict {
        let process = case.own.cpu.process.as_ref();
        let possible_ns = process.map_or(0, |process| process.cpu_ns);
        let possible_ns = possible_ns.min(case.life_ns());
        if !case.context.no_samples || (possible_ns as f64) < case.life_ns() as f64 * LEAST_SHARE {
            return Verdict::Quiet;
        }
        let facts = [
            Some(sum("calls", small.calls, "calls that moved bytes")),
            mean_bytes(small),
            Some(total_ns(
                "process_cpu_ns",
                possible_ns,
                "CPU time of the process",
            )),
        ];
        Verdict::Inconclusive(RuleDoubt {
            candidates: vec![self.id()],
            concerned_ns: possible_ns,
            facts: facts.into_iter().flatten().collect(),
            why: "No samples show which code used the CPU time.",
            would_help: None,
        })
    }
}
