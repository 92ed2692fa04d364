//! A polled socket → rows. In: a [`SocketView`]. Out: a row of `tcp_samples`, a row of
//! `connections`.

use table::tables::{Connection, TcpSample};
use table::{Chosen, Role, SampleKind};

use super::message::SocketView;

/// The `tcp_samples` row of a polled socket; `None` when the kernel gave less than the fields
/// that every row has ([`super::REQUIRED_LEN_BYTES`]).
pub fn sample_row(view: &SocketView, max_send_queue_bytes: u32) -> Option<TcpSample> {
    let info = view.info?;
    let memory = view.memory;
    Some(TcpSample {
        conn: view.cookie,
        time_ns: view.time_ns,
        kind: SampleKind::Poll,
        state: view.state,
        ca_state: info.ca_state()?,
        backoff: info.backoff()?,
        app_limited: info.app_limited(),
        send_queue_bytes: view.send_queue_bytes(),
        max_send_queue_bytes,
        receive_queue_bytes: view.receive_queue_bytes(),
        notsent_bytes: info.notsent_bytes(),
        unacked: info.unacked()?,
        sacked: info.sacked()?,
        lost: info.lost()?,
        retrans: info.retrans()?,
        total_retrans: info.total_retrans()?,
        total_rto: info.total_rto(),
        total_rto_recoveries: info.total_rto_recoveries(),
        total_rto_time_ms: info.total_rto_time_ms(),
        rto_us: info.rto_us()?,
        ato_us: info.ato_us()?,
        srtt_us: info.srtt_us()?,
        rttvar_us: info.rttvar_us()?,
        min_rtt_us: info.min_rtt_us(),
        rcv_rtt_us: info.rcv_rtt_us()?,
        cwnd: info.cwnd()?,
        ssthresh: info.ssthresh()?,
        mss_bytes: info.snd_mss_bytes()?,
        snd_wnd_bytes: info.snd_wnd_bytes(),
        rcv_wnd_bytes: info.rcv_wnd_bytes(),
        pacing_rate_bytes_per_s: info.pacing_rate_bytes_per_s(),
        delivery_rate_bytes_per_s: info.delivery_rate_bytes_per_s(),
        bytes_acked: info.bytes_acked()?,
        bytes_received: info.bytes_received()?,
        bytes_sent: info.bytes_sent(),
        bytes_retrans: info.bytes_retrans(),
        segs_out: info.segs_out()?,
        segs_in: info.segs_in()?,
        data_segs_out: info.data_segs_out(),
        data_segs_in: info.data_segs_in(),
        delivered: info.delivered(),
        delivered_ce: info.delivered_ce(),
        dsack_dups: info.dsack_dups(),
        reord_seen: info.reord_seen(),
        rcv_ooopack: info.rcv_ooopack(),
        busy_us: info.busy_us(),
        rwnd_limited_us: info.rwnd_limited_us(),
        sndbuf_limited_us: info.sndbuf_limited_us(),
        rcvbuf_bytes: memory.and_then(|memory| memory.rcvbuf_bytes()),
        sndbuf_bytes: memory.and_then(|memory| memory.sndbuf_bytes()),
        wmem_queued_bytes: memory.and_then(|memory| memory.wmem_queued_bytes()),
        drops: memory.and_then(|memory| memory.drops()),
    })
}

/// Facts of a connection from elsewhere than its own socket.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionFacts {
    /// Says which side opened it.
    pub role: Role,
    /// Why it is recorded.
    pub chosen: Chosen,
    /// When it was established; `None`: before the recording.
    pub opened_ns: Option<u64>,
    /// Owning process.
    pub pid: Option<u32>,
    /// The other end, when it is on this host.
    pub peer_conn: Option<u64>,
}

/// The `connections` row of a polled socket.
pub fn connection_row(view: &SocketView, facts: ConnectionFacts) -> Connection {
    let ConnectionFacts {
        role,
        chosen,
        opened_ns,
        pid,
        peer_conn,
    } = facts;
    let congestion = view.congestion.filter(|name| !name.is_empty());
    Connection {
        conn: view.cookie,
        time_ns: view.time_ns,
        netns: view.netns,
        local: view.local().to_string(),
        remote: view.remote().to_string(),
        role,
        chosen,
        opened_ns,
        closed_ns: None,
        pid,
        peer_conn,
        nodelay: None,
        congestion: congestion.map(|name| String::from_utf8_lossy(name).into_owned()),
        mss_bytes: view.info.and_then(|info| info.snd_mss_bytes()),
        sndbuf_bytes: view.memory.and_then(|memory| memory.sndbuf_bytes()),
        sndbuf_locked: None,
        rcvbuf_bytes: view.memory.and_then(|memory| memory.rcvbuf_bytes()),
        rcvbuf_locked: None,
        ulp: None,
        mptcp_token: None,
        errno: None,
        connect_ns: None,
        syn_retries: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Reply, view_payload};
    use super::*;

    #[test]
    fn a_row_exists_from_the_required_length_on_and_absent_fields_are_null() {
        for len in 0..=300 {
            let bytes = Reply {
                info: vec![1; len],
                ..Reply::default()
            }
            .bytes();
            let row = sample_row(&view_payload(&bytes), 0);
            assert_eq!(
                row.is_some(),
                len >= super::super::REQUIRED_LEN_BYTES,
                "{len}"
            );
            let Some(row) = row else { continue };
            assert_eq!(row.notsent_bytes.is_some(), len >= 148, "{len}");
            assert_eq!(row.min_rtt_us.is_some(), len >= 152, "{len}");
            assert_eq!(row.app_limited.is_some(), len >= 168, "{len}");
            assert_eq!(row.sndbuf_limited_us.is_some(), len >= 192, "{len}");
            assert_eq!(row.bytes_retrans.is_some(), len >= 216, "{len}");
            assert_eq!(row.rcv_ooopack.is_some(), len >= 228, "{len}");
            assert_eq!(row.snd_wnd_bytes.is_some(), len >= 232, "{len}");
            assert_eq!(row.rcv_wnd_bytes.is_some(), len >= 236, "{len}");
            assert_eq!(row.total_rto_time_ms.is_some(), len >= 248, "{len}");
        }
    }

    #[test]
    fn short_memory_arrays_leave_nulls() {
        let bytes = Reply {
            memory: vec![1, 2, 3, 4],
            ..Reply::default()
        }
        .bytes();
        let row = sample_row(&view_payload(&bytes), 0).unwrap();
        assert_eq!((row.rcvbuf_bytes, row.sndbuf_bytes), (Some(2), Some(4)));
        assert_eq!((row.wmem_queued_bytes, row.drops), (None, None));
    }

    #[test]
    fn connection_rows_name_both_ends() {
        let bytes = Reply {
            congestion: Some("bbr"),
            ..Reply::default()
        }
        .bytes();
        let facts = ConnectionFacts {
            role: Role::Client,
            chosen: Chosen::Target,
            opened_ns: None,
            pid: Some(4),
            peer_conn: Some(5),
        };
        let row = connection_row(&view_payload(&bytes), facts);
        assert_eq!(
            (row.local.as_str(), row.remote.as_str()),
            ("10.0.0.1:40000", "10.0.0.2:80")
        );
        assert_eq!(
            (row.congestion.as_deref(), row.peer_conn),
            (Some("bbr"), Some(5))
        );
    }
}
