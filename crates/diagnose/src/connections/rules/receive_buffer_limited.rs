//! The receiver's window is smaller than the path needs, although its reader keeps up: the
//! receive buffer is too small for rate times delay.

use table::Stage;

use super::rule::{FindingExplanation, Rule, RuleDoubt, RuleFinding, Verdict, WinBasis};
use super::shared::facts::{known_bytes, known_flag, known_real, min_rtt, sum, total_ns, whole};
use super::shared::growth::is_window_growth;
use super::shared::sentences::{advice, of_life};
use super::shared::window_cause::{WindowCause, window_cause};
use crate::connections::case::Case;
use crate::connections::exclusion::ExcludableCause;
use crate::connections::subject::ConnectionSubject;
use crate::report::{
    Advice, Confidence, ConfidenceLevel, DataDirection, Fact, FactUnit, Finding, RuleId,
    UndecidedFinding,
};
use crate::units::{duration, format_bytes, percent};

/// The rule `receive_buffer_limited`.
pub struct ReceiveBufferLimited;

impl Rule for ReceiveBufferLimited {
    fn id(&self) -> RuleId {
        RuleId::ReceiveBufferLimited
    }

    fn summary(&self) -> &'static str {
        "The receive buffer is too small for the path"
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::ReceiverWindow]
    }

    fn check(&self, case: &Case) -> Verdict {
        let limited_ns = case.ns(Stage::ReceiverWindow);
        if limited_ns == 0 {
            return Verdict::Quiet;
        }
        let lacking_ns = limited_ns - case.window_growth_ns().unwrap_or(0);
        match window_cause(case) {
            WindowCause::Reader(_) => Verdict::Quiet,
            WindowCause::Buffer(_) if case.window_fills_path() => Verdict::Quiet,
            WindowCause::Buffer(_) => Verdict::Fires(RuleFinding {
                direction: DataDirection::Sending,
                concerned_ns: limited_ns,
                harm_ns: lacking_ns,
                facts: with_growth(case, window_facts(case)),
            }),
            WindowCause::Unclear if lacking_ns == 0 => Verdict::Quiet,
            WindowCause::Unclear => Verdict::Inconclusive(RuleDoubt {
                candidates: vec![self.id(), RuleId::SlowReader],
                concerned_ns: lacking_ns,
                facts: with_growth(case, window_facts(case)),
                why: "The other end is not recorded: its reader may be slow, or its buffer may be small.",
                would_help: Some("Record on the other host too, or both ends on this host."),
            }),
        }
    }

    fn explain(&self, case: &Case) -> FindingExplanation {
        let confidence = match window_cause(case) {
            WindowCause::Buffer(confidence) => confidence,
            _ => Confidence {
                level: ConfidenceLevel::Low,
                because: "the cause is not certain".into(),
            },
        };
        FindingExplanation {
            ruled_out: case.rule_out(&[
                ExcludableCause::SlowReader,
                ExcludableCause::CongestionWindow,
                ExcludableCause::SendBuffer,
                ExcludableCause::Loss,
            ]),
            could_not_see: blind_spots(case),
            advice: list_fixes(case),
            win: win_basis(case),
            confidence,
        }
    }

    fn is_apart(&self, case: &Case) -> bool {
        is_window_growth(case)
    }

    fn headline(&self, finding: &Finding) -> String {
        let growth_ns = whole(&finding.evidence.0, GROWTH).unwrap_or(0);
        if finding.is_note() && growth_ns > finding.harm_ns {
            return format!(
                "The receiver's window grew with the data, and the sender waited {} for it meanwhile.",
                duration(growth_ns)
            );
        }
        let cause = match buffer_change(&finding.evidence.0) {
            _ if whole(&finding.evidence.0, "largest_window_bytes") == Some(UNSCALED_BYTES) => {
                format!(
                    "The connection has no window scale: the receiver's window ends at {}",
                    format_bytes(UNSCALED_BYTES)
                )
            }
            Some((seen, announced)) => format!(
                "A device on the path shrank the receiver's window from {} to {}",
                format_bytes(announced),
                format_bytes(seen)
            ),
            None => "The receiver's window was full although its reader was fast enough".to_owned(),
        };
        format!("{cause} — cost {}.", of_life(finding))
    }

    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "The receiver's window was full for {} ({}).",
            duration(undecided.possible_harm_ns),
            percent(undecided.share)
        )
    }
}

/// Name of the fact: the window was the limit while it still grew.
const GROWTH: &str = "window_growth_ns";

/// Adds the time in which the window still grew, if there was some.
fn with_growth(case: &Case, mut facts: Vec<Fact>) -> Vec<Fact> {
    let growth_ns = case.window_growth_ns().filter(|ns| *ns > 0);
    let label = "waits for a window that then reached twice its size";
    facts.extend(growth_ns.map(|ns| total_ns(GROWTH, ns, label)));
    facts
}

/// The window as it arrived and as it was announced, where something changed it on the way.
fn buffer_change(facts: &[Fact]) -> Option<(u64, u64)> {
    Some((
        whole(facts, "largest_window_bytes")?,
        whole(facts, "announced_window_bytes")?,
    ))
}

fn blind_spots(case: &Case) -> Vec<String> {
    let mut blind = case.general_blind_spots();
    if case.window_growth_ns().is_none() {
        blind.push("For how much of this time the window still grew: that part is no harm.".into());
    }
    if case.peer.is_none() {
        blind.push("Whether a middlebox made the receiver's window smaller on the path.".into());
    }
    blind
}

/// Makes the facts of the receive window; `slow_reader` uses them, too.
pub fn window_facts(case: &Case) -> Vec<Fact> {
    let window = case.largest_window_bytes();
    let window = Some(window).filter(|window| *window > 0);
    let peer = case.peer.and_then(|peer| peer.identity());
    let buffer = case
        .peer
        .and_then(ConnectionSubject::rcvbuf_bytes)
        .map(u64::from);
    let locked = peer.and_then(|peer| peer.rcvbuf_locked);
    let late = case.peer_reader_late();
    let label = "limit of the congestion window";
    let cwnd = known_bytes("cwnd_bytes", case.cwnd_bytes(), label);
    let zero = zero_windows(case);
    let zero = zero.map(|zero| sum("zero_windows", zero, "times the window went to zero"));
    let label = "receive buffer limit at the other end, when last seen";
    let buffer = known_bytes("rcvbuf_bytes", buffer, label);
    let label = "the application at the other end set that limit (SO_RCVBUF)";
    let locked = known_flag("rcvbuf_locked", locked, label);
    let label = "of the time, bytes waited for the reader at the other end";
    let late = known_real("peer_reader_slow", late, FactUnit::Share, label);
    let window = known_bytes("largest_window_bytes", window, "largest window announced");
    let announced = case.window_changed_on_path().map(|(_, bytes)| bytes);
    let label = "window as the receiver announced it";
    let announced = known_bytes("announced_window_bytes", announced, label);
    let label = "in flight at the flow's best rate: rate × min RTT";
    let in_flight = known_bytes("best_in_flight_bytes", case.best_in_flight_bytes(), label);
    let facts = [
        window,
        announced,
        cwnd,
        in_flight,
        zero,
        buffer,
        locked,
        late,
        min_rtt(case),
    ];
    facts.into_iter().flatten().collect()
}

/// Returns how often the peer's window went to zero; `None` without events.
fn zero_windows(case: &Case) -> Option<u64> {
    let seen = case
        .own
        .gathered
        .events
        .count(table::TcpEventKind::ZeroWindowOpen);
    let visible = case.context.events && case.ledger().is_some();
    (visible || seen > 0).then_some(seen)
}

/// Returns how much faster a larger buffer could be: congestion window over receive window.
fn win_basis(case: &Case) -> WinBasis {
    let window_bytes = case.largest_window_bytes();
    match case.cwnd_bytes() {
        Some(cwnd_bytes) if window_bytes > 0 && cwnd_bytes > window_bytes => WinBasis::AtLeast(
            cwnd_bytes as f64 / window_bytes as f64,
            "the congestion window does not change; it may grow further",
        ),
        _ => WinBasis::Unknown,
    }
}

/// The most that a window can be without a scale (RFC 7323 2.2).
const UNSCALED_BYTES: u64 = 65_535;

/// Returns whether no window scale is in use: a scaled window is a multiple of a power of two, and this is odd.
fn is_unscaled(case: &Case) -> bool {
    case.largest_window_bytes() == UNSCALED_BYTES
}

/// Fixes for a window that grows with the data.
const GROWTH_FIXES: [&str; 3] = [
    "A longer transfer needs no change: the receiver's kernel gives it a larger window each round trip, up to the third value \
     of net.ipv4.tcp_rmem.",
    "Keep one connection for many short transfers: its window then stays large.",
    "Or raise the second value of net.ipv4.tcp_rmem at the receiver: a connection begins with that buffer.",
];

/// Fixes for a buffer that the kernel did not make as large as it may (`tcp_rcv_space_adjust()`).
const AUTO_TUNING_FIXES: [&str; 3] = [
    "At the receiver, compare the limit of the buffer with the third value of net.ipv4.tcp_rmem. The kernel \
     makes it no larger: if it has reached that value, raise that.",
    "If it has not, first check that net.ipv4.tcp_moderate_rcvbuf is 1. And `nstat` must not count TcpExtPruneCalled or \
     TcpExtTCPRcvCollapsed: memory is short then (net.ipv4.tcp_mem).",
    "Else raise the second value, with which the buffer begins. The kernel enlarges it only if a round trip brings more than \
     the one before.",
];

/// Fix where the program may have set the size of the buffer.
const OWN_SIZE_FIXES: [&str; 1] = [
    "At the receiver, do not set SO_RCVBUF: Linux then sizes the buffer itself, up to net.ipv4.tcp_rmem.",
];

/// Fixes for a connection without a window scale.
const UNSCALED_FIXES: [&str; 3] = [
    "At both ends, `sysctl net.ipv4.tcp_window_scaling` must be 1, its default. `ss -ti` shows `wscale` of a connection that has it.",
    "Or a firewall, load balancer or tunnel removes the option. The SYN and SYN-ACK show it, captured at both ends (`tcpdump -v \
     'tcp[tcpflags] & tcp-syn != 0'`).",
    "Or the receive buffer could not grow beyond 64 kB when the connection began: then the scale is 0. Raise the third value of \
     net.ipv4.tcp_rmem at the receiver, and do not set SO_RCVBUF.",
];

/// Returns the fixes for a window that changes between the ends.
fn middlebox_fixes(seen: u64, announced: u64) -> Vec<Advice> {
    let text = format!(
        "A device between the ends changes the window: {} there, {} here. Look for a firewall, \
         load balancer or tunnel that removes or rewrites the window scale option. The SYN and \
         SYN-ACK show it, captured at both ends (`tcpdump -v 'tcp[tcpflags] & tcp-syn != 0'`).",
        format_bytes(announced),
        format_bytes(seen)
    );
    let mut fixes = vec![Advice(text.into())];
    if seen < UNSCALED_BYTES {
        let text = "Until then, net.ipv4.tcp_window_scaling=0 at one end gives windows of up to \
                    65.5 kB, which need no scale.";
        fixes.push(Advice(text.into()));
    }
    fixes
}

fn list_fixes(case: &Case) -> Vec<Advice> {
    if is_window_growth(case) {
        return advice(GROWTH_FIXES);
    }
    if is_unscaled(case) {
        return advice(UNSCALED_FIXES);
    }
    if let Some((seen, announced)) = case.window_changed_on_path() {
        return middlebox_fixes(seen, announced);
    }
    let peer = case.peer.and_then(|peer| peer.identity());
    let mut fixes = match peer.and_then(|peer| peer.rcvbuf_locked) {
        Some(false) => advice(AUTO_TUNING_FIXES),
        Some(true) | None => advice(OWN_SIZE_FIXES),
    };
    if let Some(cwnd_bytes) = case.cwnd_bytes() {
        let text = format!(
            "Or set SO_RCVBUF there, before connect() or listen(), to {} or more: twice what the \
             congestion window allows now.",
            format_bytes(cwnd_bytes * 2)
        );
        fixes.push(Advice(text.into()));
    }
    fixes
}
