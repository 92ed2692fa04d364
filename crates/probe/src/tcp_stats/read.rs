//! Statistics that the kernel side read off recorded sockets (`tcp_stats.bpf.h`) → rows of table
//! `tcp_samples`.

use table::manifest::Coverage;
use table::tables::TcpSample;
use table::{Columns, SampleKind, TableId};

use crate::interface::features::Levels;
use crate::interface::{
    HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source, Support, on,
};
use crate::wire::types::{record_kind, tcp_sample};
use crate::wire::{Wire, read};

// SAFETY: `tcp_sample` is `repr(C)` and made of integers.
unsafe impl Wire for tcp_sample {}

/// Bits of `tcp_sample.present` (`tcp_stats.h`).
const HAS_BYTES_SENT: u8 = 1;
const HAS_DSACK_DUPS: u8 = 2;
const HAS_TOTAL_RTO: u8 = 4;
const HAS_RCV_OOOPACK: u8 = 8;
const HAS_MIN_RTT: u8 = 16;

/// The probe of statistics.
pub(crate) struct TcpStats;

impl Probe for TcpStats {
    fn name(&self) -> &'static str {
        "tcp_stats"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::TcpSample)
    }

    fn is_on(&self, levels: Levels) -> bool {
        !levels.summaries
    }

    fn programs(&self) -> &'static [&'static str] {
        &["read_sockets"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_TCP_SAMPLE, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        let mut count = kernel.records(record_kind::RECORD_TCP_SAMPLE)?;
        if let Some(variables) = kernel.variables() {
            count.produced += variables.walked.sockets;
            count.filtered += variables.walked.unchanged;
        }
        Ok(count)
    }

    fn coverage(&self, _: &Support<'_>) -> Vec<Coverage> {
        vec![on(self.name())]
    }
}

/// Adds the row of one sample; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    output.rows.tcp_samples.push(sample_row(&read(body)?));
    Some(())
}

/// The row of a socket's statistics.
pub(crate) fn sample_row(sample: &tcp_sample) -> TcpSample {
    let s = *sample;
    let has = |bit: u8| s.present & bit != 0;
    TcpSample {
        conn: s.cookie,
        time_ns: s.time_ns,
        kind: match s.closed {
            0 => SampleKind::Poll,
            _ => SampleKind::Close,
        },
        state: s.state,
        ca_state: s.ca_state,
        backoff: s.backoff,
        app_limited: Some(s.app_limited != 0),
        send_queue_bytes: s.send_queue_bytes,
        max_send_queue_bytes: s.max_send_queue_bytes,
        receive_queue_bytes: s.receive_queue_bytes,
        notsent_bytes: Some(s.notsent_bytes),
        unacked: s.unacked,
        sacked: s.sacked,
        lost: s.lost,
        retrans: s.retrans,
        total_retrans: s.total_retrans,
        total_rto: has(HAS_TOTAL_RTO).then_some(s.total_rto),
        total_rto_recoveries: has(HAS_TOTAL_RTO).then_some(s.total_rto_recoveries),
        total_rto_time_ms: has(HAS_TOTAL_RTO).then_some(s.total_rto_time_ms),
        rto_us: s.rto_us,
        ato_us: s.ato_us,
        srtt_us: s.srtt_us,
        rttvar_us: s.rttvar_us,
        min_rtt_us: has(HAS_MIN_RTT).then_some(s.min_rtt_us),
        rcv_rtt_us: s.rcv_rtt_us,
        cwnd: s.cwnd,
        ssthresh: s.ssthresh,
        mss_bytes: s.mss_bytes,
        snd_wnd_bytes: Some(s.snd_wnd_bytes),
        rcv_wnd_bytes: Some(s.rcv_wnd_bytes),
        // sk_pacing_rate is all ones while nothing has been paced
        pacing_rate_bytes_per_s: (s.pacing_rate_bytes_per_s != u64::MAX)
            .then_some(s.pacing_rate_bytes_per_s),
        delivery_rate_bytes_per_s: Some(s.delivery_rate_bytes_per_s),
        bytes_acked: s.bytes_acked,
        bytes_received: s.bytes_received,
        bytes_sent: has(HAS_BYTES_SENT).then_some(s.bytes_sent),
        bytes_retrans: has(HAS_BYTES_SENT).then_some(s.bytes_retrans),
        segs_out: s.segs_out,
        segs_in: s.segs_in,
        data_segs_out: Some(s.data_segs_out),
        data_segs_in: Some(s.data_segs_in),
        delivered: Some(s.delivered),
        delivered_ce: Some(s.delivered_ce),
        dsack_dups: has(HAS_DSACK_DUPS).then_some(s.dsack_dups),
        reord_seen: has(HAS_DSACK_DUPS).then_some(s.reord_seen),
        rcv_ooopack: has(HAS_RCV_OOOPACK).then_some(s.rcv_ooopack),
        busy_us: Some(s.busy_us),
        rwnd_limited_us: Some(s.rwnd_limited_us),
        sndbuf_limited_us: Some(s.sndbuf_limited_us),
        rcvbuf_bytes: Some(s.rcvbuf_bytes),
        sndbuf_bytes: Some(s.sndbuf_bytes),
        wmem_queued_bytes: Some(s.wmem_queued_bytes),
        drops: Some(s.drops),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_that_the_kernel_lacks_is_absent_not_zero() {
        let row = sample_row(&tcp_sample {
            total_rto: 7,
            ..Default::default()
        });
        assert_eq!(row.total_rto, None);
        assert_eq!(row.min_rtt_us, None);
        let row = sample_row(&tcp_sample {
            total_rto: 7,
            present: HAS_TOTAL_RTO,
            ..Default::default()
        });
        assert_eq!(row.total_rto, Some(7));
    }
}
