//! Round trips of a poll interval, from which delayed ACKs are estimated.

/// Round-trip samples between two readings of the ledger.
#[derive(Debug, Clone, Copy)]
pub struct RttInterval {
    /// Length of the interval, ns.
    pub length_ns: u64,
    /// SNAP's `diff(SumRTT)`, µs.
    pub rtt_sum_us: u64,
    /// SNAP's `diff(SampleRTT)`.
    pub rtt_samples: u32,
}
