//! The receiving side of a socket: was the reader slow, was its window closed, or was there
//! nothing to read?

use table::Method;
use table::tables::TcpStage;

use super::bound;
use super::ledger::ledger_share;
use crate::connections::gather::samples::SampleDigest;
use crate::report::{Receive, StageShare};

/// Computes the receiving side's stages from the ledger.
pub fn from_ledger(ledger: &TcpStage, life_ns: u64, jiffy_ns: u64) -> Receive {
    let waits = u64::from(ledger.reader_slow_waits);
    let by_jiffy = u64::from(ledger.reader_slow_by_jiffy);
    let bound_ns = bound::ledger_ns(waits, by_jiffy, jiffy_ns);
    let window_bound_ns = bound::ledger_ns(waits, 0, jiffy_ns);
    let slow_ns = ledger.reader_slow_ns.min(life_ns);
    Receive {
        reader_slow: ledger_share(slow_ns, bound_ns, life_ns),
        window_closed: Some(ledger_share(
            ledger.window_closed_ns.min(life_ns),
            window_bound_ns,
            life_ns,
        )),
        waiting_for_peer: ledger_share(life_ns - slow_ns, bound_ns, life_ns),
    }
}

/// Computes the receiving side's stages from polls: bytes in the receive queue wait for the reader.
/// `None` without polls.
pub fn from_polls(samples: &SampleDigest, life_ns: u64) -> Option<Receive> {
    if samples.polled_ns == 0 {
        return None;
    }
    let unread = samples.unread_ns as f64 / samples.polled_ns as f64;
    let bound = bound::wilson_half_width(unread, samples.polls as f64);
    let part = |share: f64| StageShare {
        share,
        ns: (share * life_ns as f64) as u64,
        method: Method::Samples,
        bound,
    };
    Some(Receive {
        reader_slow: part(unread),
        window_closed: None,
        waiting_for_peer: part(1.0 - unread),
    })
}
