//! When the first byte was there that a receive call took.

use super::endpoint::Endpoint;
use super::history::ThreadId;

/// A call of some microseconds may end so long after its thread was woken.
const STEP_NS: u64 = 1_000;

/// Returns when a byte arrived, by how long it was unread, or by when the thread was woken for it.
pub fn of_unread(
    end_ns: u64,
    unread_ns: u64,
    start_ns: Option<u64>,
    woken: Option<(u64, Option<ThreadId>)>,
) -> u64 {
    let unread_ns = unread_ns.min(end_ns);
    let least_ns = start_ns
        .unwrap_or(end_ns - unread_ns)
        .saturating_sub(2 * STEP_NS);
    match woken {
        Some((woken_ns, _)) if (least_ns..=end_ns).contains(&woken_ns) => woken_ns,
        _ => end_ns - unread_ns,
    }
}

/// Returns when a byte arrived, ns, where nobody saw how long it had been unread. That is when the
/// other end sent it (`sent_ns`), or a thread was woken for it since the call before; else the end
/// of the call.
pub fn of_unseen(
    endpoint: &Endpoint,
    start_ns: Option<u64>,
    end_ns: u64,
    sent_ns: Option<u64>,
) -> u64 {
    let least_ns = start_ns.unwrap_or(endpoint.called_ns);
    let woken = endpoint.woken.map(|(woken_ns, _)| woken_ns);
    let woken_ns = woken.filter(|ns| (least_ns..=end_ns).contains(ns));
    let arrived = [sent_ns, woken_ns].into_iter().flatten().min();
    arrived.unwrap_or(end_ns).min(end_ns)
}
