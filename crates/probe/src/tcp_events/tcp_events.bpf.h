/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Events of a recorded connection, and its statistics when it closes. */
#ifndef WHYLAT_TCP_EVENTS_BPF_H
#define WHYLAT_TCP_EVENTS_BPF_H

#include "../bpf/ring.h"
#include "../bpf/socket.h"
#include "../tcp_stages/tcp_stages.bpf.h"
#include "tcp_events.h"

struct tcp_event_record {
	struct record_header header;
	struct tcp_event event;
};

struct close_sample_record {
	struct record_header header;
	struct close_sample sample;
};

struct stage_reading_record {
	struct record_header header;
	struct stage_reading reading;
};

static __always_inline void event_emit(u64 cookie, u8 kind, u8 old_state, u8 new_state,
				       u32 segments, u32 in_flight_bytes, u64 now_ns)
{
	struct tcp_event_record *record = record_reserve(RECORD_TCP_EVENT, sizeof(*record));

	if (!record)
		return;
	record->event = (struct tcp_event){
		.cookie = cookie,
		.time_ns = now_ns,
		.segments = segments,
		.in_flight_bytes = in_flight_bytes,
		.kind = kind,
		.old_state = old_state,
		.new_state = new_state,
	};
	record_submit(record);
}

/*
 * Why a segment was sent again. A tail-loss probe is sent from its timer before anything is
 * thought lost (tcp_send_loss_probe()); in state Loss it is the retransmission timeout, at first
 * or in the recovery that follows; otherwise it is fast recovery.
 */
static __always_inline u8 retransmit_kind(const struct sock *sk, const struct tcp_sock *tp)
{
	u8 state = sk->__sk_common.skc_state, ca_state = tcp_ca_state(tp);

	if (state == TCP_SYN_SENT || state == TCP_SYN_RECV)
		return TCP_EVENT_SYN_RETRANSMIT;
	if (tp->inet_conn.icsk_pending == ICSK_TIME_LOSS_PROBE && ca_state <= TCP_CA_Disorder)
		return TCP_EVENT_TAIL_LOSS_PROBE;
	return ca_state == TCP_CA_Loss ? TCP_EVENT_TIMEOUT_RETRANSMIT : TCP_EVENT_FAST_RETRANSMIT;
}

/* What the segments before have shown: DSACK and the peer's window. */
static __always_inline void events_on_segment(struct socket_state *st, const struct tcp_sock *tp,
					      u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;
	bool zero_window = !tp->snd_wnd;

	if (tp->dsack_dups != led->dsack_dups) {
		event_emit(st->cookie, TCP_EVENT_SPURIOUS, 0, 0, tp->dsack_dups - led->dsack_dups,
			   0, now_ns);
		led->dsack_dups = tp->dsack_dups;
		take_back_probe(led);
	}
	if (zero_window != led->zero_window) {
		led->zero_window = zero_window;
		/* the announcement came with the segment before this one */
		event_emit(st->cookie,
			   zero_window ? TCP_EVENT_ZERO_WINDOW_OPEN : TCP_EVENT_ZERO_WINDOW_CLOSE,
			   0, 0, 0, 0, led->accounted_ns);
	}
}

static __always_inline u64 jiffies_to_us(u64 jiffies)
{
	return jiffies * jiffy_ns() / NSEC_PER_USEC;
}

/* tcp_get_info_chrono_stats() */
static __always_inline void sample_chronograph(struct close_sample *out, const struct tcp_sock *tp)
{
	u64 stat[3] = {tp->chrono_stat[0], tp->chrono_stat[1], tp->chrono_stat[2]};
	u8 type = tcp_chrono_type(tp);
	u64 running = (u32)((u32)bpf_jiffies64() - tp->chrono_start);

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
static __always_inline void sample_newer(struct close_sample *out, const struct tcp_sock *tp)
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

static __always_inline void sample_queues(struct close_sample *out, const struct sock *sk,
					  const struct tcp_sock *tp)
{
	s32 notsent = seq_diff(tp->write_seq, tp->snd_nxt);

	out->send_queue_bytes = tp->write_seq - tp->snd_una;
	out->receive_queue_bytes = tp->rcv_nxt - tp->copied_seq;
	out->notsent_bytes = notsent > 0 ? notsent : 0;
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
static __always_inline void sample_fill(struct close_sample *out, const struct sock *sk,
					const struct tcp_sock *tp)
{
	u32 interval_us = tp->rate_interval_us;

	sample_queues(out, sk, tp);
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

/* The last word on a connection: statistics and, where it is kept, the ledger. */
static __always_inline void events_on_close(struct socket_state *st, struct sock *sk,
					    const struct tcp_sock *tp, bool has_ledger, u64 now_ns)
{
	struct close_sample_record *last = record_reserve(RECORD_CLOSE_SAMPLE, sizeof(*last));
	struct stage_reading_record *stages;

	if (last) {
		__builtin_memset(&last->sample, 0, sizeof(last->sample));
		last->sample.cookie = st->cookie;
		last->sample.time_ns = now_ns;
		sample_fill(&last->sample, sk, tp);
		record_submit(last);
	}
	if (!has_ledger)
		return;
	stages = record_reserve(RECORD_STAGE_READING, sizeof(*stages));
	if (!stages)
		return;
	events_on_segment(st, tp, now_ns);
	stages_on_read(st, sk, tp, now_ns);
	stages_copy(&stages->reading, st, sk, tp, true);
	record_submit(stages);
}

#endif
