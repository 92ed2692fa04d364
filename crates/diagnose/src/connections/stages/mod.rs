//! The stages of one connection: from the ledger where there is one, else from the kernel's
//! clocks and polls. One module a method; each share says which was used.

pub mod bound;
mod ledger;
mod polled;
mod receive;

use table::Method;
use table::tables::TcpStage;

use crate::connections::gather::ConnectionDigest;
use crate::connections::gather::calls::CallDigest;
use crate::report::{Receive, Stages};
pub use polled::seen_by_poll;

/// Inputs from the recording as a whole.
#[derive(Debug, Clone, Copy)]
pub struct StageInputs {
    /// Length of a jiffy, ns.
    pub jiffy_ns: u64,
    /// Judged span, `CLOCK_MONOTONIC` ns.
    pub span: (u64, u64),
    /// Whether all was read from packets.
    pub is_capture: bool,
}

/// The stages of one connection.
#[derive(Debug)]
pub struct StageTimes {
    /// Judged time, ns.
    pub life_ns: u64,
    /// The ledger over that time.
    pub ledger: Option<TcpStage>,
    /// Sending stages; empty when nothing was sent or it could not be judged.
    pub stages: Stages,
    /// Receiving side.
    pub receive: Option<Receive>,
    /// Whether it sent no data.
    pub sent_nothing: bool,
    /// Why the sending stages could not be judged.
    pub not_judged: Option<String>,
    /// Bytes sent and received.
    pub bytes: (Option<u64>, Option<u64>),
}

/// Computes the stages of one connection, by ledger if there is one, else by polls.
pub fn judge_connection(
    gathered: &ConnectionDigest,
    calls: Option<&CallDigest>,
    given: StageInputs,
) -> StageTimes {
    let mut ledger = gathered.ledger.within_span();
    let bytes = count_bytes(gathered, calls);
    let (life_ns, stages, not_judged) = match &ledger {
        Some(ledger) => {
            let life_ns = ledger_life_ns(ledger, gathered, given);
            let scale = ledger::Scale {
                life_ns,
                changes: count_changes(gathered, calls),
                jiffy_ns: given.jiffy_ns,
                method: match given.is_capture {
                    true => Method::Capture,
                    false => Method::Ledger,
                },
            };
            (life_ns, ledger::stages(ledger, scale), None)
        }
        None => match polled::judge_polls(gathered, given.jiffy_ns) {
            Ok(polled) => (polled.life_ns, polled.stages, None),
            Err(why) => (known_life_ns(gathered), Stages::default(), Some(why)),
        },
    };
    if let Some(ledger) = &mut ledger {
        ledger.reader_slow_ns = ledger.reader_slow_ns.min(life_ns);
        ledger.window_closed_ns = ledger.window_closed_ns.min(life_ns);
    }
    let sent_nothing = bytes.0 == Some(0);
    StageTimes {
        life_ns,
        receive: match given.is_capture {
            // when bytes were read, packets do not show
            true => None,
            false => receive(gathered, ledger.as_ref(), bytes.1, life_ns, given.jiffy_ns),
        },
        ledger,
        stages: if sent_nothing {
            Stages::default()
        } else {
            stages
        },
        sent_nothing,
        not_judged: if sent_nothing { None } else { not_judged },
        bytes,
    }
}

/// Returns the receiving side's stages; None if the connection received nothing.
fn receive(
    gathered: &ConnectionDigest,
    ledger: Option<&TcpStage>,
    received_bytes: Option<u64>,
    life_ns: u64,
    jiffy_ns: u64,
) -> Option<Receive> {
    if received_bytes == Some(0) || life_ns == 0 {
        return None;
    }
    match ledger {
        Some(ledger) => Some(receive::from_ledger(ledger, life_ns, jiffy_ns)),
        None => receive::from_polls(&gathered.samples, life_ns),
    }
}

/// Life with a ledger: from open to close as far as they lie in the judged span. A ledger that
/// began late, or that lost its last reading, leaves a rest that is `unknown`.
fn ledger_life_ns(ledger: &TcpStage, gathered: &ConnectionDigest, given: StageInputs) -> u64 {
    let identity = gathered.identity.as_ref();
    let within = |at: &u64| (given.span.0..=given.span.1).contains(at);
    let opened = identity
        .and_then(|identity| identity.opened_ns)
        .filter(within);
    let closed = identity
        .and_then(|identity| identity.closed_ns)
        .filter(within);
    let start_ns = opened.map_or(ledger.since_ns, |opened| opened.min(ledger.since_ns));
    let end_ns = match closed {
        Some(closed) if !ledger.closed => closed.max(ledger.time_ns),
        _ => ledger.time_ns,
    };
    let counted_ns: u64 = ledger.stages_ns().iter().map(|(_, ns)| ns).sum();
    end_ns.saturating_sub(start_ns).max(counted_ns)
}

/// Returns the duration that table `connections` shows, ns.
fn known_life_ns(gathered: &ConnectionDigest) -> u64 {
    let identity = gathered.identity.as_ref();
    let ends = identity.and_then(|identity| Some((identity.opened_ns?, identity.closed_ns?)));
    ends.map_or(0, |(opened_ns, closed_ns)| {
        closed_ns.saturating_sub(opened_ns)
    })
}

/// Returns how often the sending socket may have changed its stage: every send call can end a wait for the application,
/// every data segment can end a wait for an ACK.
fn count_changes(gathered: &ConnectionDigest, calls: Option<&CallDigest>) -> u64 {
    let opened_ns = gathered
        .identity
        .as_ref()
        .and_then(|identity| identity.opened_ns);
    let segments = gathered
        .samples
        .growth(opened_ns, |sample| sample.data_segs_out.map(u64::from));
    let sends = calls.map_or(0, |calls| calls.send.calls);
    sends.max(segments.unwrap_or(0))
}

/// Returns the bytes sent and received, by samples or by calls: whichever saw more.
fn count_bytes(
    gathered: &ConnectionDigest,
    calls: Option<&CallDigest>,
) -> (Option<u64>, Option<u64>) {
    let samples = &gathered.samples;
    let opened_ns = gathered
        .identity
        .as_ref()
        .and_then(|identity| identity.opened_ns);
    let start_ns = samples.start(opened_ns).map(|(_, at)| at);
    let elapsed = samples.last.as_ref().map(|last| last.time_ns) > start_ns;
    let sampled = |sent: bool| {
        let counter = move |sample: &table::tables::TcpSample| match sent {
            // Before 4.19 only acknowledged bytes are counted, the SYN among them.
            true => sample
                .bytes_sent
                .or(Some(sample.bytes_acked.saturating_sub(1))),
            false => Some(sample.bytes_received),
        };
        if elapsed {
            samples.growth(opened_ns, counter)
        } else {
            None
        }
    };
    // The kernel counts the peer's FIN as a received byte (tcp_rcv_nxt_update).
    let received = sampled(false).map(|bytes| if bytes == 1 { 0 } else { bytes });
    (
        sampled(true).max(calls.map(|calls| calls.send.bytes)),
        received.max(calls.map(|calls| calls.receive.bytes)),
    )
}
