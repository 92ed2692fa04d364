/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The receiving side of a ledger: bytes that wait for their reader, and the window that the socket announces. */
#ifndef WHYLAT_READER_BPF_H
#define WHYLAT_READER_BPF_H

#include "ledger.bpf.h"

/* The window that this socket announces: is there any beyond rcv_nxt? */
static __always_inline bool own_window_closed(const struct tcp_sock *tp)
{
	return seq_diff(tp->rcv_wup + tp->rcv_wnd, tp->rcv_nxt) <= 0;
}

static __always_inline void track_own_window(struct stage_ledger *led, const struct tcp_sock *tp,
					     u64 now_ns)
{
	if (led->window_closed_since_ns && led->window_closed_since_ns < now_ns)
		led->window_closed_ns += now_ns - led->window_closed_since_ns;
	led->window_closed_since_ns = own_window_closed(tp) ? now_ns : 0;
}

/* Bytes are there that the reader has not taken; a FIN counts in rcv_nxt, and is none. */
static __always_inline bool bytes_ready(const struct sock *sk, const struct tcp_sock *tp)
{
	bool fin = sk->__sk_common.skc_state != TCP_ESTABLISHED;

	return seq_diff(tp->rcv_nxt, tp->copied_seq) > fin;
}

/*
 * Since when bytes wait for the reader: known, or since the one segment that came last. That is the
 * last use of tcp_mstamp, unless the socket has sent since, or the reader has taken its time
 * (tcp_rcv_space_adjust()): then the time of the last data, in jiffies, is the earlier one.
 */
static __always_inline u64 ready_since_ns(const struct stage_ledger *led, const struct tcp_sock *tp,
					  u64 now_ns, bool *by_jiffy)
{
	u64 mstamp_ns = tp->tcp_mstamp * NSEC_PER_USEC, received_ns;
	s32 jiffies;

	*by_jiffy = false;
	if (led->ready_ns)
		return led->ready_ns;
	jiffies = seq_diff((u32)bpf_jiffies64(), tp->inet_conn.icsk_ack.lrcvtime);
	/* one jiffy apart may be no time at all */
	received_ns = jiffies > 1 ? now_ns - jiffies * jiffy_ns() : now_ns;
	*by_jiffy = received_ns < mstamp_ns;
	return *by_jiffy ? received_ns : mstamp_ns;
}

/* A receive call took all there was, and that had come in this jiffy or the one before. */
static __always_inline bool reader_is_quiet(const struct tcp_sock *tp)
{
	return tp->copied_seq == tp->rcv_nxt &&
	       (u32)bpf_jiffies64() - tp->inet_conn.icsk_ack.lrcvtime <= 1;
}

/* Bytes wait since then, up to the end that is known now. */
static __always_inline void set_ready(struct stage_ledger *led, const struct tcp_sock *tp,
				      u64 since_ns)
{
	led->ready_ns = since_ns;
	led->ready_end = tp->rcv_nxt;
}

/* tcp_probe: bytes wait already, and this segment will move tcp_mstamp. */
static __always_inline void note_ready(struct stage_ledger *led, const struct tcp_sock *tp)
{
	if (tp->copied_seq == tp->rcv_nxt)
		return;
	if (!led->ready_ns || seq_diff(tp->copied_seq, led->ready_end) >= 0)
		set_ready(led, tp, tp->tcp_mstamp * NSEC_PER_USEC);
}

#endif
