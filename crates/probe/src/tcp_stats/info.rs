//! `struct tcp_info` read by its length. In: the bytes that the kernel put into the
//! `INET_DIAG_INFO` attribute. Out: each field, or `None` when the kernel's structure ends
//! before it.
//!
//! The structure only ever grows at its end: 104 bytes in Linux 3.x, 232 in 5.4, 280 in 6.18.
//! A fixed-length parse would refuse older kernels or read zeros that were never measured.
//! Offsets are those of `include/uapi/linux/tcp.h`; a test compares them with the running
//! kernel through `getsockopt(TCP_INFO)` facts that are known from outside.

/// Bytes that the non-optional fields of a sample need: up to `tcpi_segs_in` (Linux 4.2).
pub const REQUIRED_LEN_BYTES: usize = 144;

/// `tcpi_pacing_rate` of a socket that is not paced (`~0`).
const NO_PACING: u64 = u64::MAX;

/// `tcpi_min_rtt` before the first sample (`~0`).
const NO_MIN_RTT: u32 = u32::MAX;

/// Length from which `tcpi_delivery_rate_app_limited` is meaningful: the bit lies in a byte
/// that older kernels leave zero, so the field that came with it decides.
const DELIVERY_RATE_END: usize = 168;

/// A `struct tcp_info` of any length.
#[derive(Debug, Clone, Copy)]
pub struct TcpInfo<'a> {
    bytes: &'a [u8],
}

macro_rules! getters {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ident at $offset:literal;)+) => {
        impl TcpInfo<'_> {
            $(
                $(#[doc = $doc])+
                #[doc = "\n\n`None`: the kernel's structure is too short for it."]
                #[inline]
                pub fn $name(&self) -> Option<$type> {
                    const LEN: usize = size_of::<$type>();
                    let field = self.bytes.get($offset..$offset + LEN)?;
                    Some($type::from_ne_bytes(field.try_into().ok()?))
                }
            )+
        }

        /// Every plain field with its offset and length, for the tests.
        #[cfg(test)]
        const FIELDS: &[(&str, usize, usize)] =
            &[$((stringify!($name), $offset, size_of::<$type>())),+];
    };
}

getters! {
    /// TCP state (`TCP_ESTABLISHED` = 1, …).
    state: u8 at 0;
    /// Congestion state (`TCP_CA_Open` = 0, …).
    ca_state: u8 at 1;
    /// Unanswered retransmissions of the timer.
    retransmits: u8 at 2;
    /// Unanswered probes of window or liveness.
    probes: u8 at 3;
    /// Consecutive unanswered retransmission timeouts.
    backoff: u8 at 4;
    /// Negotiated options (`TCPI_OPT_*`).
    options: u8 at 5;
    /// Retransmission timeout, microseconds.
    rto_us: u32 at 8;
    /// Delayed-ACK timeout, microseconds.
    ato_us: u32 at 12;
    /// Sending maximum segment size, bytes.
    snd_mss_bytes: u32 at 16;
    /// Receiving maximum segment size, bytes.
    rcv_mss_bytes: u32 at 20;
    /// Segments sent and not acknowledged.
    unacked: u32 at 24;
    /// Segments selectively acknowledged.
    sacked: u32 at 28;
    /// Segments believed lost.
    lost: u32 at 32;
    /// Retransmitted segments in flight.
    retrans: u32 at 36;
    /// Smoothed round-trip time, microseconds.
    srtt_us: u32 at 68;
    /// Smoothed mean deviation of the round-trip time, microseconds.
    rttvar_us: u32 at 72;
    /// Slow-start threshold, segments.
    ssthresh: u32 at 76;
    /// Congestion window, segments.
    cwnd: u32 at 80;
    /// Reordering metric, segments.
    reordering: u32 at 88;
    /// Round-trip time estimated as a receiver, microseconds.
    rcv_rtt_us: u32 at 92;
    /// Retransmitted segments since the connection began.
    total_retrans: u32 at 100;
    /// Pacing rate as stored: all ones means none, bytes per second.
    raw_pacing_rate: u64 at 104;
    /// Bytes acknowledged; an active opener's SYN counts as one.
    bytes_acked: u64 at 120;
    /// Bytes received in order; the peer's FIN counts as one.
    bytes_received: u64 at 128;
    /// Segments sent.
    segs_out: u32 at 136;
    /// Segments received.
    segs_in: u32 at 140;
    /// Bytes written and not yet sent.
    notsent_bytes: u32 at 144;
    /// Least round-trip time as stored: all ones means none yet, microseconds.
    raw_min_rtt: u32 at 148;
    /// Segments with data received.
    data_segs_in: u32 at 152;
    /// Segments with data sent.
    data_segs_out: u32 at 156;
    /// Delivery rate of the last sample, bytes per second.
    delivery_rate_bytes_per_s: u64 at 160;
    /// Time with unacknowledged data, microseconds.
    busy_us: u64 at 168;
    /// Part of it limited by the receiver's window, microseconds.
    rwnd_limited_us: u64 at 176;
    /// Part of it in which the kernel saw the send buffer limit, microseconds.
    sndbuf_limited_us: u64 at 184;
    /// Segments delivered.
    delivered: u32 at 192;
    /// Segments delivered with a congestion mark.
    delivered_ce: u32 at 196;
    /// Bytes sent, retransmissions included.
    bytes_sent: u64 at 200;
    /// Bytes retransmitted.
    bytes_retrans: u64 at 208;
    /// Segments that the peer reported as duplicates.
    dsack_dups: u32 at 216;
    /// Reordering events.
    reord_seen: u32 at 220;
    /// Segments received out of order.
    rcv_ooopack: u32 at 224;
    /// Window announced by the peer, bytes.
    snd_wnd_bytes: u32 at 228;
    /// Window announced to the peer, bytes.
    rcv_wnd_bytes: u32 at 232;
    /// Times the flow's hash was changed to try another path.
    rehash: u32 at 236;
    /// Retransmission timeouts, those of the handshake included.
    total_rto: u16 at 240;
    /// Recoveries from retransmission timeouts.
    total_rto_recoveries: u16 at 242;
    /// Time in timeout recovery, milliseconds.
    total_rto_time_ms: u32 at 244;
}

impl<'a> TcpInfo<'a> {
    /// Wraps the kernel's `tcp_info`, of any length.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the kernel's bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether the application limited the last delivery rate; `None` before Linux 4.9.
    pub fn app_limited(&self) -> Option<bool> {
        // First bit-field of byte 7; bit-fields are allocated from the other end on
        // big-endian targets.
        let bit = if cfg!(target_endian = "little") {
            0x01
        } else {
            0x80
        };
        (self.bytes.len() >= DELIVERY_RATE_END).then(|| self.bytes[7] & bit != 0)
    }

    /// Returns the pacing rate, bytes per second; `None` if the socket is not paced.
    pub fn pacing_rate_bytes_per_s(&self) -> Option<u64> {
        self.raw_pacing_rate().filter(|rate| *rate != NO_PACING)
    }

    /// Returns the min RTT, µs; `None` before the first sample or Linux 4.6.
    pub fn min_rtt_us(&self) -> Option<u32> {
        self.raw_min_rtt().filter(|rtt| *rtt != NO_MIN_RTT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes bytes in which every position holds its own value, so that a wrong offset shows.
    fn numbered(len: usize) -> Vec<u8> {
        (0..len).map(|index| (index % 251) as u8).collect()
    }

    #[test]
    fn every_length_yields_exactly_the_fields_that_fit() {
        for len in 0..=300 {
            let bytes = numbered(len);
            let info = TcpInfo::new(&bytes);
            let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
            let half = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap());
            let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
            let fits = |end: usize| len >= end;
            assert_eq!(info.rto_us(), fits(12).then(|| word(8)), "{len}");
            assert_eq!(info.total_retrans(), fits(104).then(|| word(100)), "{len}");
            assert_eq!(
                info.raw_pacing_rate(),
                fits(112).then(|| long(104)),
                "{len}"
            );
            assert_eq!(info.segs_in(), fits(144).then(|| word(140)), "{len}");
            assert_eq!(info.notsent_bytes(), fits(148).then(|| word(144)), "{len}");
            assert_eq!(info.busy_us(), fits(176).then(|| long(168)), "{len}");
            assert_eq!(info.snd_wnd_bytes(), fits(232).then(|| word(228)), "{len}");
            assert_eq!(info.rcv_wnd_bytes(), fits(236).then(|| word(232)), "{len}");
            assert_eq!(info.total_rto(), fits(242).then(|| half(240)), "{len}");
            assert_eq!(
                info.total_rto_recoveries(),
                fits(244).then(|| half(242)),
                "{len}"
            );
            assert_eq!(
                info.total_rto_time_ms(),
                fits(248).then(|| word(244)),
                "{len}"
            );
            assert_eq!(info.app_limited(), fits(168).then_some(true), "{len}");
        }
    }

    #[test]
    fn fields_do_not_overlap_and_are_aligned() {
        for pair in FIELDS.windows(2) {
            let (name, offset, len) = pair[0];
            assert!(offset + len <= pair[1].1, "{name} runs into {}", pair[1].0);
            assert_eq!(offset % len, 0, "{name} is not aligned");
        }
    }

    #[test]
    fn all_ones_means_not_measured() {
        let bytes = [0xff; 280];
        let info = TcpInfo::new(&bytes);
        assert_eq!(info.pacing_rate_bytes_per_s(), None);
        assert_eq!(info.min_rtt_us(), None);
        assert_eq!(info.bytes_sent(), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let info = TcpInfo::new(&bytes);
            prop_assert_eq!(info.state().is_some(), !bytes.is_empty());
            prop_assert_eq!(info.app_limited().is_some(), bytes.len() >= 168);
            prop_assert_eq!(info.total_rto_time_ms().is_some(), bytes.len() >= 248);
            prop_assert!(info.min_rtt_us() != Some(u32::MAX));
        }
    }
}
