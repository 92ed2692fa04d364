/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Statistics of recorded sockets, read off the socket itself: all of them now and then by
 * `read_sockets`, each once more when it closes. A socket on which nothing has happened since its
 * last sample costs a few loads; a dump of all the host's sockets by sock_diag, which is the way
 * without BPF, costs several times as much for each.
 */
#ifndef WHYLAT_TCP_STATS_BPF_H
#define WHYLAT_TCP_STATS_BPF_H

#include "../bpf/ring.h"
#include "../bpf/socket.h"
#include "../tcp_stages/tcp_stages.bpf.h"
#include "tcp_stats.h"

struct tcp_sample_record {
	struct record_header header;
	struct tcp_sample sample;
};

/*
 * Has anything happened since the last sample? Whatever moves, moves segments or the application's
 * writes; while bytes are queued, the reader and the kernel's clocks can do more.
 */
static __always_inline bool sample_is_new(const struct sample_memory *last,
					  const struct tcp_sock *tp)
{
	return last->busy || last->segs_in != tp->segs_in || last->segs_out != tp->segs_out ||
	       last->write_seq != tp->write_seq;
}

static __always_inline void sample_remember(struct sample_memory *last, const struct tcp_sock *tp)
{
	last->segs_in = tp->segs_in;
	last->segs_out = tp->segs_out;
	last->write_seq = tp->write_seq;
	last->busy = tp->write_seq != tp->snd_una || tp->rcv_nxt != tp->copied_seq;
}

static __always_inline u32 at_least_0(s32 difference)
{
	return difference > 0 ? difference : 0;
}

static __always_inline u64 jiffies_to_us(u64 jiffies)
{
	return jiffies * jiffy_ns() / NSEC_PER_USEC;
}

/* tcp_get_info_chrono_stats() */
static __always_inline void sample_chronograph(struct tcp_sample *out, const struct tcp_sock *tp)
{
	u64 stat[3] = {tp->chrono_stat[0], tp->chrono_stat[1], tp->chrono_stat[2]};
	u8 type = tcp_chrono_type(tp);
	u32 start = tp->chrono_start;
	u64 running = at_least_0(seq_diff((u32)bpf_jiffies64(), start));

	if (type == 1)
		stat[0] += running;
	else if (type == 2)
		stat[1] += running;
	else if (type == 3)
		stat[2] += running;
	out->busy_us = jiffies_to_us(stat[0] + stat[1] + stat[2]);
	out->rwnd_limited_us = jiffies_to_us(stat[1]);
	out->sndbuf_limited_us = jiffies_to_us(stat[2]);
}

/* Counters that came to the kernel after 4.18. */
static __always_inline void sample_newer(struct tcp_sample *out, const struct tcp_sock *tp)
{
	u32 min_rtt_us = tp->rtt_min.s[0].v;

	out->min_rtt_us = min_rtt_us;
	out->present = min_rtt_us == ~0U ? 0 : HAS_MIN_RTT;
	if (bpf_core_field_exists(tp->bytes_sent)) {
		out->bytes_sent = tp->bytes_sent;
		out->bytes_retrans = tp->bytes_retrans;
		out->present |= HAS_BYTES_SENT;
	}
	if (bpf_core_field_exists(tp->dsack_dups)) {
		out->dsack_dups = tp->dsack_dups;
		out->reord_seen = tp->reord_seen;
		out->present |= HAS_DSACK_DUPS;
	}
	if (bpf_core_field_exists(tp->rcv_ooopack)) {
		out->rcv_ooopack = tp->rcv_ooopack;
		out->present |= HAS_RCV_OOOPACK;
	}
	if (bpf_core_field_exists(tp->total_rto)) {
		out->total_rto = tp->total_rto;
		out->total_rto_recoveries = tp->total_rto_recoveries;
		out->total_rto_time_ms = tp->total_rto_time;
		out->present |= HAS_TOTAL_RTO;
	}
}

static __always_inline void sample_queues(struct tcp_sample *out, struct socket_state *st,
					  const struct sock *sk, const struct tcp_sock *tp)
{
	s32 notsent = seq_diff(tp->write_seq, tp->snd_nxt);
	/* no lock is held: of two fields the second may be the newer one */
	u32 send_queue = at_least_0(seq_diff(tp->write_seq, tp->snd_una));

	if (send_queue > st->max_send_queue)
		st->max_send_queue = send_queue;
	out->send_queue_bytes = send_queue;
	out->max_send_queue_bytes = st->max_send_queue;
	out->receive_queue_bytes = at_least_0(seq_diff(tp->rcv_nxt, tp->copied_seq));
	out->notsent_bytes = at_least_0(notsent);
	out->unacked = tp->packets_out;
	out->sacked = tp->sacked_out;
	out->lost = tp->lost_out;
	out->retrans = tp->retrans_out;
	out->rcvbuf_bytes = sk->sk_rcvbuf;
	out->sndbuf_bytes = sk->sk_sndbuf;
	out->wmem_queued_bytes = sk->sk_wmem_queued;
	out->drops = sk->sk_drops.counter;
}

/* tcp_get_info() */
static __always_inline void sample_fill(struct tcp_sample *out, struct socket_state *st,
					const struct sock *sk, const struct tcp_sock *tp,
					bool closed, u64 now_ns)
{
	u32 interval_us = tp->rate_interval_us;

	__builtin_memset(out, 0, sizeof(*out));
	out->cookie = st->cookie;
	out->time_ns = now_ns;
	out->closed = closed;
	sample_queues(out, st, sk, tp);
	sample_chronograph(out, tp);
	sample_newer(out, tp);
	out->state = sk->__sk_common.skc_state;
	out->ca_state = tcp_ca_state(tp);
	out->backoff = tp->inet_conn.icsk_backoff;
	out->app_limited = tp->app_limited != 0;
	out->total_retrans = tp->total_retrans;
	out->rto_us = jiffies_to_us(tp->inet_conn.icsk_rto);
	out->ato_us = jiffies_to_us(BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ack.ato));
	out->srtt_us = tp->srtt_us >> 3;
	out->rttvar_us = tp->mdev_us >> 2;
	out->rcv_rtt_us = tp->rcv_rtt_est.rtt_us >> 3;
	out->cwnd = tp->snd_cwnd;
	out->ssthresh = tp->snd_ssthresh;
	out->mss_bytes = tp->mss_cache;
	out->snd_wnd_bytes = tp->snd_wnd;
	out->rcv_wnd_bytes = tp->rcv_wnd;
	out->pacing_rate_bytes_per_s = sk->sk_pacing_rate;
	out->delivery_rate_bytes_per_s =
		interval_us ? (u64)tp->rate_delivered * tp->mss_cache * USEC_PER_SEC / interval_us
			    : 0;
	out->bytes_acked = tp->bytes_acked;
	out->bytes_received = tp->bytes_received;
	out->segs_out = tp->segs_out;
	out->segs_in = tp->segs_in;
	out->data_segs_out = tp->data_segs_out;
	out->data_segs_in = tp->data_segs_in;
	out->delivered = tp->delivered;
	out->delivered_ce = tp->delivered_ce;
}

/* For Rust, by way of the object's BTF. */
const struct tcp_sample wire_tcp_sample = {};

#endif
