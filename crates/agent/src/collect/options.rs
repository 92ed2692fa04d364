//! The choice of what an agent watches, and at what pace.

/// Options that can change while an agent runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Mean time between two readings of one connection, ns.
    pub poll_ns: u64,
    /// Below this share of one CPU, connections with problems are read more often.
    pub cpu_low: f64,
    /// Above it, connections without problems are read more seldom.
    pub cpu_high: f64,
}

/// The choice of what an agent watches.
#[derive(Debug, Clone)]
pub struct Watch {
    /// Name of the host, as every row has it.
    pub host: String,
    /// Length of an interval, ns: a whole number of bins.
    pub interval_ns: i64,
    /// How often it looks.
    pub pace: Pace,
}
