//! The receiver's window was the limit: because its reader was late, or because its buffer
//! is small? Shared by `slow_reader` and `receive_buffer_limited`, so that exactly one of them
//! speaks.

use table::{Stage, TcpEventKind};

use super::growth::is_window_growth;
use crate::connections::case::{Case, LEAST_POLLS};
use crate::report::{Confidence, ConfidenceLevel};
use crate::units::percent;

/// Why the receiver's window was full.
#[derive(Debug)]
pub enum WindowCause {
    /// Its reader did not read.
    Reader(Confidence),
    /// Its buffer is smaller than the path needs; the reader kept up.
    Buffer(Confidence),
    /// The recording does not show it.
    Unclear,
}

/// Returns the cause, best evidence first: the other end's own reader, then the time that the
/// window was zero, then the size of the window in polls that found it full. What explains the
/// greater part of the time decides.
pub fn window_cause(case: &Case) -> WindowCause {
    if case.context.given.is_capture {
        return by_closed_window(case);
    }
    let limited = case.share(Stage::ReceiverWindow);
    if let Some(slow) = case.peer_reader_late() {
        let because = format!(
            "the other end's reader was slow {} of the time",
            percent(slow)
        );
        let confidence = Confidence {
            level: ConfidenceLevel::High,
            because,
        };
        return match slow * 2.0 >= limited {
            false => WindowCause::Buffer(confidence),
            true => by_growth(case).unwrap_or(WindowCause::Reader(confidence)),
        };
    }
    if case.context.events && case.ledger().is_some() && case.context.lost.is_empty() {
        return by_zero_windows(case);
    }
    by_polls(case)
}

/// Decides for a reader that was late, but not why the window was full: that grew meanwhile, and the reader did not let it close.
fn by_growth(case: &Case) -> Option<WindowCause> {
    let limited_ns = case.ns(Stage::ReceiverWindow);
    let closed_ns = case.peer?.judged.ledger.as_ref()?.window_closed_ns;
    let of_limited = |ns: u64| percent((ns as f64 / limited_ns.max(1) as f64).min(1.0));
    (is_window_growth(case) && closed_ns * 2 < limited_ns).then(|| {
        let because = format!(
            "the window grew in {} of that time, and was closed in {} of it",
            of_limited(case.window_growth_ns().unwrap_or(0)),
            of_limited(closed_ns)
        );
        WindowCause::Buffer(Confidence {
            level: ConfidenceLevel::High,
            because,
        })
    })
}

/// Decides for a capture: with a reader that does not read, a window stays full after its data arrived, and becomes
/// small. A small buffer with a good reader is full only of what is on its way.
fn by_closed_window(case: &Case) -> WindowCause {
    let ledger = case.peer.and_then(|peer| peer.judged.ledger.as_ref());
    let closed_ns = ledger.map_or(0, |ledger| ledger.window_closed_ns);
    let limited_ns = case.ns(Stage::ReceiverWindow);
    let closed = (closed_ns as f64 / limited_ns.max(1) as f64).min(1.0);
    let because = format!(
        "the receiver left the window full, or below half of its largest, {} of that time",
        percent(closed)
    );
    let confidence = Confidence {
        level: ConfidenceLevel::Medium,
        because,
    };
    match closed_ns * 2 >= limited_ns {
        true => WindowCause::Reader(confidence),
        false => WindowCause::Buffer(confidence),
    }
}

/// Decides by zero windows: with a reader that does not read, the window goes to zero and remains
/// there. A small buffer with a good reader is full of data on its way, not of data that waits.
fn by_zero_windows(case: &Case) -> WindowCause {
    let events = &case.own.gathered.events;
    let end_ns = case
        .own
        .judged
        .ledger
        .as_ref()
        .map_or(0, |ledger| ledger.time_ns);
    let zero_ns = events.zero_window_until_ns(end_ns);
    let limited_ns = case.ns(Stage::ReceiverWindow);
    let zero = zero_ns as f64 / limited_ns.max(1) as f64;
    let because = format!(
        "the window was zero {} of that time",
        percent(zero.min(1.0))
    );
    if zero_ns * 2 >= limited_ns {
        WindowCause::Reader(Confidence {
            level: ConfidenceLevel::Medium,
            because,
        })
    } else if events.count(TcpEventKind::ZeroWindowOpen) == 0 {
        WindowCause::Buffer(Confidence {
            level: ConfidenceLevel::Medium,
            because,
        })
    } else {
        WindowCause::Buffer(Confidence {
            level: ConfidenceLevel::Low,
            because,
        })
    }
}

/// Decides by polls alone whether the reader or the buffer limits the window.
fn by_polls(case: &Case) -> WindowCause {
    let window = &case.own.gathered.samples.window;
    let least = LEAST_POLLS as u32;
    if window.full < least {
        return WindowCause::Unclear;
    }
    let because = format!(
        "the window was below half its size in {} of {} polls that found it full",
        window.shrunk, window.full
    );
    if window.shrunk == 0 {
        WindowCause::Buffer(Confidence {
            level: ConfidenceLevel::Low,
            because,
        })
    } else if window.shrunk * 2 >= window.full && window.shrunk >= least {
        WindowCause::Reader(Confidence {
            level: ConfidenceLevel::Low,
            because,
        })
    } else {
        WindowCause::Unclear
    }
}
