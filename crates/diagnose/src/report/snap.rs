//! SNAP's flags and its Table 4 in the report.

use serde::Serialize;

/// Share of a connection's time with each of SNAP's problems, not exclusive. `None`: the
/// inputs were not measured.
#[derive(Debug, Clone, Serialize)]
pub struct FlagShares {
    /// None of the other problems that were measured.
    pub sender_app_limited: Option<f64>,
    /// The send queue was at its largest.
    pub send_buffer_limited: Option<f64>,
    /// Segments were retransmitted without a timeout.
    pub fast_retransmission: Option<f64>,
    /// The retransmission timer expired.
    pub timeout: Option<f64>,
    /// Round-trip samples were later than path and queues explain.
    pub delayed_ack: Option<f64>,
    /// The receiver's window was full.
    pub receiver_window_limited: Option<f64>,
}

/// SNAP's Table 4.
#[derive(Debug, Clone, Serialize)]
pub struct SnapTable4 {
    /// One row a problem.
    pub rows: Vec<Table4Row>,
}

/// One row of Table 4.
#[derive(Debug, Clone, Serialize)]
pub struct Table4Row {
    /// The problem.
    pub problem: &'static str,
    /// Connections for which it was measured.
    pub connections: u64,
    /// Percent of them with the problem for more than 0, 25, 50, 75 and 99.9 % of their time;
    /// `None` when it was measured for none.
    pub percent_over: Option<[f64; 5]>,
    /// Applications (command names) with the problem for more than 5 and 50 % of the time;
    /// `None` when it was measured for none.
    pub apps_over: Option<[u64; 2]>,
    /// Whether a part of the inputs was missing, so that the row can only be too high.
    pub upper_bound: bool,
}
