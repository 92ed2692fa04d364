//! `tcp_events`: what happens to a connection (`tcp_events.bpf.h`) → rows of table `tcp_events`.

use table::TcpEventKind;
use table::tables::TcpEvent;

use crate::wire::Wire;
use crate::wire::types::{tcp_event, tcp_event_kind};

// SAFETY: `tcp_event` is `repr(C)` and made of integers.
unsafe impl Wire for tcp_event {}

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

/// The row of an event; `None` for a kind that this build does not know.
pub(crate) fn row(event: &tcp_event) -> Option<TcpEvent> {
    let tcp_event {
        cookie,
        time_ns,
        segments,
        in_flight_bytes,
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
