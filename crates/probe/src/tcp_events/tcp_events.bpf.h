/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Events of a recorded connection, and its last statistics when it closes. */
#ifndef WHYLAT_TCP_EVENTS_BPF_H
#define WHYLAT_TCP_EVENTS_BPF_H

#include "../bpf/ring.h"
#include "../bpf/socket.h"
#include "../tcp_stages/tcp_stages.bpf.h"
#include "../tcp_stats/tcp_stats.bpf.h"
#include "tcp_events.h"

struct tcp_event_record {
	struct record_header header;
	struct tcp_event event;
};

static __always_inline void event_emit_range(u64 cookie, u8 kind, u8 old_state, u8 new_state,
					     u32 segments, u32 in_flight_bytes, u32 seq,
					     u32 end_seq, u64 now_ns)
{
	struct tcp_event_record *record;

	if (only_summaries)
		return;
	record = record_reserve(RECORD_TCP_EVENT, sizeof(*record));
	if (!record)
		return;
	record->event = (struct tcp_event){
		.cookie = cookie,
		.time_ns = now_ns,
		.segments = segments,
		.in_flight_bytes = in_flight_bytes,
		.seq = seq,
		.end_seq = end_seq,
		.kind = kind,
		.old_state = old_state,
		.new_state = new_state,
	};
	record_submit(record);
}

static __always_inline void event_emit(u64 cookie, u8 kind, u8 old_state, u8 new_state,
				       u32 segments, u32 in_flight_bytes, u64 now_ns)
{
	event_emit_range(cookie, kind, old_state, new_state, segments, in_flight_bytes, 0, 0,
			 now_ns);
}

/*
 * Why a segment was retransmitted. A tail-loss probe is sent from its timer before anything is
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

/* Returns what the segments before have shown: DSACK and the peer's window. */
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
			   0, 0, 0, 0,
			   zero_window ? tp->tcp_mstamp * NSEC_PER_USEC : led->accounted_ns);
	}
}

/* The last word on a connection: statistics and, where it is kept, the ledger. */
static __always_inline void events_on_close(struct socket_state *st, struct sock *sk,
					    const struct tcp_sock *tp, bool has_ledger, u64 now_ns)
{
	struct tcp_sample_record *last = record_reserve(RECORD_TCP_SAMPLE, sizeof(*last));
	struct stage_reading_record *stages;
	bool locked;

	if (last) {
		sample_fill(&last->sample, st, sk, tp, true, now_ns);
		record_submit(last);
	}
	if (!has_ledger)
		return;
	stages = record_reserve(RECORD_STAGE_READING, sizeof(*stages));
	if (!stages)
		return;
	/* nobody waits for the last word: without the lock it may count one interval twice */
	locked = ledger_try_lock(st);
	events_on_segment(st, tp, now_ns);
	stages_on_read(st, sk, tp, now_ns);
	stages_copy(&stages->reading, st, sk, tp, true);
	if (locked)
		ledger_unlock(st);
	record_submit(stages);
}

/* For Rust, by way of the object's BTF. */
const struct tcp_event wire_tcp_event = {};
const enum tcp_event_kind wire_tcp_event_kind = 0;

#endif
