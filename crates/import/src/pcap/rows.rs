//! Rows of a connection's ends.

use table::tables::{Connection as ConnectionRow, FailedConnect, TcpEvent, TcpSample};
use table::{Chosen, Columns, Role, RowSet, SampleKind, TcpEventKind};

use super::connection::{CLOSE, Connection, ESTABLISHED};

const EPIPE: i32 = 32;
const ECONNRESET: i32 = 104;
const ETIMEDOUT: i32 = 110;
const ECONNREFUSED: i32 = 111;

/// The SYN counts as an acknowledged byte, as in `tcp_info`.
const SYN_BYTES: u64 = 1;

/// Returns a number, at most the largest of 32 bits.
fn saturate_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Connection {
    /// Writes an event of an end.
    pub fn event(
        &self,
        rows: &mut RowSet,
        end: usize,
        kind: TcpEventKind,
        fill: impl FnOnce(&mut TcpEvent),
    ) {
        let mut row = TcpEvent {
            conn: self.conn + end as u64,
            time_ns: self.last_ns,
            kind,
            old: None,
            new: None,
            segments: None,
            in_flight_bytes: None,
            seq: None,
            end_seq: None,
        };
        fill(&mut row);
        rows.tcp_events.push(row);
    }

    /// Returns whether the connection was attempted and never established.
    pub fn is_failed(&self) -> bool {
        self.times.syn_ns.is_some()
            && self.times.opened_ns.is_none()
            && self.times.answer_ns.is_none()
    }

    /// Returns the attempt to connect that failed.
    pub fn failed_connect(&self) -> FailedConnect {
        let server = 1 - self.client;
        let is_refused = self.times.reset_by == Some(server);
        FailedConnect {
            end_ns: self.last_ns,
            start_ns: self.times.syn_ns.unwrap_or(self.first_ns),
            netns: 0,
            local: Some(self.ends[self.client].to_string()),
            remote: self.ends[server].to_string(),
            pid: 0,
            tid: 0,
            errno: Some(if is_refused { ECONNREFUSED } else { ETIMEDOUT }),
            syn_retries: self.times.syn_retries,
        }
    }

    /// Returns the row of an end in table `connections`.
    pub fn row(&self, end: usize) -> ConnectionRow {
        let other = 1 - end;
        let is_client = end == self.client;
        let half = &self.halves[end];
        let is_reset = self.times.reset_by == Some(other);
        let errno = match self.halves[other].fin {
            Some(_) => EPIPE,
            None => ECONNRESET,
        };
        ConnectionRow {
            conn: self.conn + end as u64,
            time_ns: self.last_ns,
            netns: 0,
            local: self.ends[end].to_string(),
            remote: self.ends[other].to_string(),
            role: match is_client {
                true => Role::Client,
                false => Role::Server,
            },
            chosen: Chosen::Target,
            connect_ns: self.times.syn_ns.filter(|_| is_client),
            syn_retries: (is_client && self.times.syn_ns.is_some())
                .then_some(self.times.syn_retries),
            opened_ns: self.times.opened_ns,
            closed_ns: self.times.closed_ns,
            pid: None,
            peer_conn: Some(self.conn + other as u64),
            nodelay: half.ledger.row.nodelay.then_some(true),
            congestion: None,
            mss_bytes: half.full_bytes(),
            sndbuf_bytes: None,
            sndbuf_locked: None,
            rcvbuf_bytes: None,
            rcvbuf_locked: None,
            ulp: None,
            mptcp_token: None,
            errno: is_reset.then_some(errno),
        }
    }

    /// Makes a sample of an end's socket, with the fields that packets show.
    pub fn sample(&self, end: usize, kind: SampleKind) -> TcpSample {
        let (half, other) = (&self.halves[end], &self.halves[1 - end]);
        let counts = &half.counts;
        let full = half.full_bytes().unwrap_or(0);
        let flight = saturate_u32(half.flight_bytes().max(0).unsigned_abs());
        let smoothed_ns: u64 = self.sides.iter().map(|side| side.smoothed_ns).sum();
        let deviation_ns: u64 = self.sides.iter().map(|side| side.deviation_ns).sum();
        // Until both sides are known it would be too small: the least of all samples counts.
        let is_known = self.has_path() || kind == SampleKind::Close;
        let path_ns = self.path_ns().filter(|_| is_known);
        TcpSample {
            conn: self.conn + end as u64,
            time_ns: self.last_ns,
            kind,
            state: match self.times.closed_ns {
                Some(_) => CLOSE,
                None => ESTABLISHED,
            },
            ca_state: self.congestion_state(end),
            backoff: 0,
            app_limited: None,
            send_queue_bytes: flight,
            max_send_queue_bytes: half.ledger.row.max_send_queue_bytes,
            receive_queue_bytes: 0,
            notsent_bytes: None,
            unacked: flight.checked_div(full).unwrap_or(0),
            sacked: 0,
            lost: 0,
            retrans: 0,
            total_retrans: counts.segments_again,
            total_rto: Some(counts.timeouts),
            total_rto_recoveries: None,
            total_rto_time_ms: None,
            rto_us: 0,
            ato_us: 0,
            srtt_us: saturate_u32(smoothed_ns / 1_000),
            rttvar_us: saturate_u32(deviation_ns / 1_000),
            min_rtt_us: path_ns.map(|ns| saturate_u32(ns.div_ceil(1_000))),
            rcv_rtt_us: 0,
            cwnd: 0,
            ssthresh: 0,
            mss_bytes: full,
            snd_wnd_bytes: half.ledger.window_bytes().map(saturate_u32),
            rcv_wnd_bytes: other.ledger.window_bytes().map(saturate_u32),
            pacing_rate_bytes_per_s: None,
            delivery_rate_bytes_per_s: None,
            bytes_acked: half.una.max(0).unsigned_abs() + u64::from(half.has_syn) * SYN_BYTES,
            bytes_received: other.contiguous().max(0).unsigned_abs(),
            bytes_sent: Some(counts.bytes),
            bytes_retrans: Some(counts.bytes_again),
            segs_out: counts.segments,
            segs_in: other.counts.segments,
            data_segs_out: Some(counts.data_segments),
            data_segs_in: Some(other.counts.data_segments),
            delivered: None,
            delivered_ce: None,
            dsack_dups: Some(counts.duplicates),
            reord_seen: Some(counts.reordered),
            rcv_ooopack: None,
            busy_us: Some(self.busy_ns[end] / 1_000),
            rwnd_limited_us: Some(half.ledger.row.receiver_window_ns / 1_000),
            sndbuf_limited_us: None,
            rcvbuf_bytes: None,
            sndbuf_bytes: None,
            wmem_queued_bytes: None,
            drops: None,
        }
    }
}
