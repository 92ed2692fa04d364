//! The application fixed a send buffer that holds far more than the receiver ever lets out: what
//! exceeds the window takes memory and waits, and makes nothing faster. An answer, not a problem.

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known_bytes, known_flag, sum, total_ns, whole};
use super::shared::sentences::direct_confidence;
use crate::connections::case::Case;
use crate::report::{Advice, DataDirection, Fact, Finding, RuleId, UndecidedFinding};
use crate::units::{duration, format_bytes};

/// The rule `send_buffer_exceeds_window`.
pub struct SendBufferExceedsWindow;

/// The factor that the kernel itself allows over the window, when it sizes the buffer: one window on its
/// way and one to follow (`sndbuf_expand` of `tcp_sndbuf_expand()`).
const SNDBUF_EXPAND: u64 = 2;

impl Rule for SendBufferExceedsWindow {
    fn id(&self) -> RuleId {
        RuleId::SendBufferExceedsWindow
    }

    fn summary(&self) -> &'static str {
        "The send buffer holds more than the receiver's window ever allows"
    }

    fn is_answer(&self) -> bool {
        true
    }

    fn check(&self, case: &Case) -> Verdict {
        let Some((queue, window)) = bytes_beyond_window(case) else {
            return Verdict::Quiet;
        };
        let facts = collect_facts(case, queue, window);
        match case
            .own
            .identity()
            .and_then(|identity| identity.sndbuf_locked)
        {
            Some(true) => Verdict::Fires(RuleFinding {
                direction: DataDirection::Sending,
                concerned_ns: 0,
                harm_ns: 0,
                facts,
            }),
            // The kernel sized it, by the congestion window.
            Some(false) => Verdict::Quiet,
            None => Verdict::Inconclusive(RuleDoubt {
                candidates: vec![self.id()],
                concerned_ns: 0,
                facts,
                why: "The recording does not show who sets the size of the buffer: the application or the kernel.",
                would_help: None,
            }),
        }
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let mut blind = case.general_blind_spots();
        if case.ledger().is_none() {
            blind.push("A larger window that existed only between two samples.".into());
        }
        FindingExplanation {
            ruled_out: Vec::new(),
            could_not_see: blind,
            advice: bytes_beyond_window(case)
                .map_or_else(Vec::new, |(_, window)| list_fixes(window)),
            win: WinBasis::Unknown,
            confidence: direct_confidence(case, "the kernel reports queue and window"),
        }
    }

    fn headline(&self, finding: &Finding) -> String {
        let fact = |name| whole(&finding.evidence.0, name).unwrap_or(0);
        let (queue, window) = (fact("max_send_queue_bytes"), fact("largest_window_bytes"));
        let wait = match fact("wait_ns") {
            0 => String::new(),
            wait_ns => format!(" {} at this rate", duration(wait_ns)),
        };
        format!(
            "The send buffer held {}, more than the largest announced window ({}) — the rest waits{wait}.",
            format_bytes(queue),
            format_bytes(window)
        )
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        let fact = |name| whole(&undecided.evidence.0, name).unwrap_or(0);
        format!(
            "The send buffer held {}, more than the largest announced window ({}).",
            format_bytes(fact("max_send_queue_bytes")),
            format_bytes(fact("largest_window_bytes"))
        )
    }
}

/// Returns the largest queue and the largest window, bytes; `None` unless the queue is far larger.
fn bytes_beyond_window(case: &Case) -> Option<(u64, u64)> {
    let queue = case.max_send_queue_bytes();
    let window = case.largest_window_bytes();
    (window > 0 && queue > SNDBUF_EXPAND * window).then_some((queue, window))
}

fn collect_facts(case: &Case, queue: u64, window: u64) -> Vec<Fact> {
    let identity = case.own.identity();
    let limit = case.own.sndbuf_bytes().map(u64::from);
    let locked = identity.and_then(|identity| identity.sndbuf_locked);
    let label = "send buffer limit (SO_SNDBUF), when last seen";
    let mut facts = vec![
        known_bytes("max_send_queue_bytes", Some(queue), "largest send queue"),
        known_bytes(
            "largest_window_bytes",
            Some(window),
            "largest window announced",
        ),
        known_bytes("sndbuf_bytes", limit, label),
        known_flag(
            "sndbuf_locked",
            locked,
            "the application set this limit (SO_SNDBUF)",
        ),
    ];
    let rate = case.delivered_bytes_per_s().filter(|rate| *rate > 0.0);
    if let Some(rate) = rate {
        let wait_ns = ((queue - window) as f64 / rate * 1e9) as u64;
        let label = "wait of data that exceeds the window, at the delivered rate";
        facts.push(Some(total_ns("wait_ns", wait_ns, label)));
    }
    let polls = case.own.gathered.samples.polls;
    facts.push(Some(sum("polls", polls, "polls of the connection")));
    facts.into_iter().flatten().collect()
}

fn list_fixes(window: u64) -> Vec<Advice> {
    // The kernel doubles the value for its own book-keeping (sock_setsockopt), which leaves room for
    // a window on its way and one to follow.
    let text = format!(
        "Do not set SO_SNDBUF, or set it to {}, the receiver's window. A larger buffer takes memory and delays \
            the last write.",
        format_bytes(window)
    );
    let other = "To have more in flight, let the receiver's buffer grow: do not set SO_RCVBUF \
                 there, or raise net.ipv4.tcp_rmem.";
    vec![Advice(text.into()), Advice(other.into())]
}
