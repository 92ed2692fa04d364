//! `tcp_events`: what happens to a connection (`tcp_events.bpf.h`) → rows of table `tcp_events`.

use table::manifest::{Coverage, ProbeState};
use table::tables::TcpEvent;
use table::{Columns, TableId, TcpEventKind};

use crate::interface::features::{Features, Levels, Tracepoint, tracepoint};
use crate::interface::{
    HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, REENTERED, Source, Support, on,
};
use crate::wire::types::{record_kind, tcp_event, tcp_event_kind};
use crate::wire::{Wire, read};

// SAFETY: `tcp_event` is `repr(C)` and made of integers.
unsafe impl Wire for tcp_event {}

static HOOKS: [Tracepoint; 2] = [
    tracepoint("tcp_cong_state_set", "5.19"),
    tracepoint("tcp_retransmit_skb", "4.15"),
];

/// The probe of what happens to connections.
pub(crate) struct TcpEvents;

impl Probe for TcpEvents {
    fn name(&self) -> &'static str {
        "tcp_events"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::TcpEvent)
    }

    /// The ledger takes notice of events, too.
    fn is_on(&self, levels: Levels) -> bool {
        levels.calls || !levels.summaries
    }

    fn needs_bpf(&self) -> bool {
        true
    }

    fn hooks(&self) -> &'static [Tracepoint] {
        &HOOKS
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_TCP_EVENT, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        let programs = kernel.programs();
        let mut count = kernel.records(record_kind::RECORD_TCP_EVENT)?;
        let refused = kernel.refused_runs(&[
            &programs.handle_inet_sock_set_state,
            &programs.handle_later_state,
            &programs.handle_connection_close,
            &programs.handle_tcp_cong_state_set,
            &programs.handle_tcp_retransmit_skb,
        ])?;
        count.add_unmade(REENTERED, refused);
        Ok(count)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        let features = support.features;
        vec![
            features.hook_coverage(self.name(), &HOOKS[1..]),
            congestion_state_coverage(features),
        ]
    }
}

/// Returns how changes of the congestion state are seen.
fn congestion_state_coverage(features: &Features) -> Coverage {
    let (probe, hook) = ("tcp_events.congestion_state", &HOOKS[0]);
    if features.has(hook) {
        return on(probe);
    }
    Coverage {
        probe: probe.to_owned(),
        state: ProbeState::Fallback {
            which: "congestion state as polled in tcp_samples".to_owned(),
            why: features.why_not(hook),
        },
    }
}

/// Adds the row of one event; None if the record is damaged.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    output.rows.tcp_events.push(make_row(&read(body)?)?);
    Some(())
}

/// Returns the kind of event; None for an unknown number.
fn kind(wire: u8) -> Option<TcpEventKind> {
    Some(match tcp_event_kind(u32::from(wire)) {
        tcp_event_kind::TCP_EVENT_STATE => TcpEventKind::State,
        tcp_event_kind::TCP_EVENT_CONGESTION_STATE => TcpEventKind::CongestionState,
        tcp_event_kind::TCP_EVENT_FAST_RETRANSMIT => TcpEventKind::FastRetransmit,
        tcp_event_kind::TCP_EVENT_TIMEOUT_RETRANSMIT => TcpEventKind::TimeoutRetransmit,
        tcp_event_kind::TCP_EVENT_TAIL_LOSS_PROBE => TcpEventKind::TailLossProbe,
        tcp_event_kind::TCP_EVENT_SYN_RETRANSMIT => TcpEventKind::SynRetransmit,
        tcp_event_kind::TCP_EVENT_SPURIOUS => TcpEventKind::Spurious,
        tcp_event_kind::TCP_EVENT_ZERO_WINDOW_OPEN => TcpEventKind::ZeroWindowOpen,
        tcp_event_kind::TCP_EVENT_ZERO_WINDOW_CLOSE => TcpEventKind::ZeroWindowClose,
        _ => return None,
    })
}

/// Makes the row of an event; `None` for an unknown kind.
fn make_row(event: &tcp_event) -> Option<TcpEvent> {
    let tcp_event {
        cookie,
        time_ns,
        segments,
        in_flight_bytes,
        seq,
        end_seq,
        kind: wire_kind,
        old_state,
        new_state,
        pad: _,
    } = *event;
    let kind = kind(wire_kind)?;
    let is_state = matches!(kind, TcpEventKind::State | TcpEventKind::CongestionState);
    let is_sent_again = matches!(
        kind,
        TcpEventKind::FastRetransmit
            | TcpEventKind::TimeoutRetransmit
            | TcpEventKind::TailLossProbe
            | TcpEventKind::SynRetransmit
    );
    Some(TcpEvent {
        conn: cookie,
        time_ns,
        kind,
        old: is_state.then_some(old_state),
        new: is_state.then_some(new_state),
        segments: (is_sent_again || kind == TcpEventKind::Spurious).then_some(segments),
        in_flight_bytes: is_sent_again.then_some(in_flight_bytes),
        seq: is_sent_again.then_some(seq),
        end_seq: is_sent_again.then_some(end_seq),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_kind_has_a_wire_kind() {
        let known: Vec<TcpEventKind> = (0..=u8::MAX).filter_map(kind).collect();
        assert_eq!(known, TcpEventKind::ALL);
    }
}
