//! `tcp_stages`: the stage ledger that the kernel side keeps with each socket
//! (`tcp_stages.bpf.h`). A reading becomes a row of table `tcp_stages`.

use table::manifest::{Coverage, ProbeState};
use table::tables::TcpStage;
use table::{Columns, TableId};

use crate::calls;
use crate::interface::features::{Levels, Tracepoint};
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source, Support,
};
use crate::wire::types::{record_kind, stage_reading, stall_facts};
use crate::wire::{Wire, read};

// SAFETY: `stage_reading` is `repr(C)` and made of integers and an array of them.
unsafe impl Wire for stage_reading {}

/// The probe of the ledger.
pub(crate) struct TcpStages;

impl Probe for TcpStages {
    fn name(&self) -> &'static str {
        "tcp_stages"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::TcpStage)
    }

    fn detail(&self) -> Detail {
        Detail::Calls
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.keeps_ledger()
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    /// Returns how calls block is only in the log.
    fn hooks(&self) -> &'static [Tracepoint] {
        &calls::HOOKS[..3]
    }

    fn programs(&self) -> &'static [&'static str] {
        &["read_draining"]
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_STAGE_READING, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        let mut count = kernel.records(record_kind::RECORD_STAGE_READING)?;
        count.produced += kernel.variables().map_or(0, |it| it.walked.ledgers);
        Ok(count)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        vec![support.features.hook_coverage(self.name(), &calls::HOOKS)]
    }
}

/// Marks the ledger as off, because calls are recorded only in windows.
pub(crate) fn put_off(coverage: &mut Vec<Coverage>) {
    coverage.retain(|it| it.probe != TcpStages.name());
    coverage.push(Coverage {
        probe: TcpStages.name().to_owned(),
        state: ProbeState::Off {
            why: "under a budget calls are recorded in windows, and the ledger needs all of them"
                .to_owned(),
            remedy: "record with `--budget none`".to_owned(),
        },
    });
}

/// Adds the row of one ledger; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    output.rows.tcp_stages.push(make_row(&read(body)?));
    Some(())
}

/// The row of a reading. The array's order is that of `enum stage` in `tcp_stages.h`; its length
/// is part of the type, so that a new stage does not compile until it is named here.
pub(crate) fn make_row(reading: &stage_reading) -> TcpStage {
    let stage_reading {
        cookie,
        time_ns,
        since_ns,
        stage_ns,
        longest_hold_ns,
        rtt_sum_us,
        reader_slow_ns,
        window_closed_ns,
        best_rate_bytes_per_s,
        unseen_ns,
        asleep_ns,
        loss_limited_ns,
        loss_limited_bytes,
        loss_limited_retrans_bytes,
        loss_limited_cwnd_byte_ms,
        window_growth_ns,
        send_buffer_growth_ns,
        stalls,
        rtt_samples,
        nagle_holds,
        delayed_acks,
        acks_by_timer,
        data_segs_out,
        timeout_stalls,
        tail_loss_stalls,
        reader_slow_waits,
        reader_slow_by_jiffy,
        max_send_queue_bytes,
        max_snd_wnd_bytes,
        closed,
        nodelay,
        pad: _,
    } = *reading;
    let [
        sender_app_ns,
        in_flight_ns,
        retransmit_timeout_ns,
        tail_loss_ns,
        receiver_window_ns,
        fast_retransmit_ns,
        cwnd_startup_ns,
        cwnd_loss_ns,
        cwnd_cwr_ns,
        cwnd_probing_ns,
        pacing_ns,
        local_queue_ns,
        cork_ns,
        nagle_ns,
        delayed_ack_ns,
        send_buffer_ns,
        unknown_ns,
    ] = stage_ns;
    let stall_facts {
        thin_stalls,
        thin_stall_ns,
        spurious_timeouts,
        spurious_timeout_ns,
        timeout_acks_delayed,
        timeout_ack_delayed_ns,
        bursts_after_idle,
        burst_losses,
        burst_loss_ns,
        loss_episodes,
    } = stalls;
    TcpStage {
        conn: cookie,
        time_ns,
        since_ns,
        closed: closed != 0,
        retransmit_timeout_ns,
        tail_loss_ns,
        receiver_window_ns,
        fast_retransmit_ns,
        cwnd_startup_ns,
        cwnd_loss_ns,
        cwnd_cwr_ns,
        cwnd_probing_ns,
        pacing_ns,
        local_queue_ns,
        cork_ns,
        nagle_ns,
        delayed_ack_ns,
        send_buffer_ns,
        in_flight_ns,
        sender_app_ns,
        unknown_ns,
        nagle_holds,
        delayed_acks,
        acks_by_timer,
        data_segs_out,
        longest_hold_ns,
        timeout_stalls,
        tail_loss_stalls,
        rtt_sum_us,
        rtt_samples,
        reader_slow_ns,
        reader_slow_waits,
        reader_slow_by_jiffy,
        window_closed_ns,
        best_rate_bytes_per_s: (best_rate_bytes_per_s != 0).then_some(best_rate_bytes_per_s),
        unseen_ns,
        asleep_ns,
        loss_limited_ns,
        loss_limited_bytes,
        loss_limited_retrans_bytes,
        loss_limited_cwnd_byte_ms,
        thin_stalls,
        thin_stall_ns,
        spurious_timeouts,
        spurious_timeout_ns,
        timeout_acks_delayed,
        timeout_ack_delayed_ns,
        bursts_after_idle,
        burst_losses,
        burst_loss_ns,
        loss_episodes,
        max_send_queue_bytes,
        max_snd_wnd_bytes,
        window_growth_ns: Some(window_growth_ns),
        send_buffer_growth_ns: Some(send_buffer_growth_ns),
        nodelay: nodelay != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::types::stage;

    /// The destructuring above relies on the order of `enum stage`.
    #[test]
    fn every_stage_lands_in_its_own_column() {
        let mut reading = stage_reading::default();
        for (index, ns) in reading.stage_ns.iter_mut().enumerate() {
            *ns = 1 << index;
        }
        let row = make_row(&reading);
        let at = |which: stage| 1u64 << which.0;
        assert_eq!(
            row.retransmit_timeout_ns,
            at(stage::STAGE_RETRANSMIT_TIMEOUT)
        );
        assert_eq!(row.tail_loss_ns, at(stage::STAGE_TAIL_LOSS));
        assert_eq!(row.receiver_window_ns, at(stage::STAGE_RECEIVER_WINDOW));
        assert_eq!(row.fast_retransmit_ns, at(stage::STAGE_FAST_RETRANSMIT));
        assert_eq!(row.cwnd_startup_ns, at(stage::STAGE_CWND_STARTUP));
        assert_eq!(row.cwnd_loss_ns, at(stage::STAGE_CWND_LOSS));
        assert_eq!(row.cwnd_cwr_ns, at(stage::STAGE_CWND_CWR));
        assert_eq!(row.cwnd_probing_ns, at(stage::STAGE_CWND_PROBING));
        assert_eq!(row.pacing_ns, at(stage::STAGE_PACING));
        assert_eq!(row.local_queue_ns, at(stage::STAGE_LOCAL_QUEUE));
        assert_eq!(row.cork_ns, at(stage::STAGE_CORK));
        assert_eq!(row.nagle_ns, at(stage::STAGE_NAGLE));
        assert_eq!(row.delayed_ack_ns, at(stage::STAGE_DELAYED_ACK));
        assert_eq!(row.send_buffer_ns, at(stage::STAGE_SEND_BUFFER));
        assert_eq!(row.in_flight_ns, at(stage::STAGE_IN_FLIGHT));
        assert_eq!(row.sender_app_ns, at(stage::STAGE_SENDER_APP));
        assert_eq!(row.unknown_ns, at(stage::STAGE_UNKNOWN));
        let total: u64 = row.stages_ns().iter().map(|(_, ns)| ns).sum();
        assert_eq!(total, (1 << reading.stage_ns.len()) - 1);
    }
}
