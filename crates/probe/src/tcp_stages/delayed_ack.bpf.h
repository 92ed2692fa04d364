/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Which segments the receiver's delayed-ACK timer acknowledged, whether or not anyone waited for it.
 * Most such ACKs meet a quiet socket, so each bare ACK is tested as it passes, against the
 * kernel's own stamp of the one before and without a clock; what passes comes at most 50 times a
 * second on a connection, and is judged with the exact clock.
 */
#ifndef WHYLAT_DELAYED_ACK_BPF_H
#define WHYLAT_DELAYED_ACK_BPF_H

#include "stall.bpf.h"

/*
 * The peer has sent nothing for half of the time that the timer takes, in jiffies, which its timer
 * counts, too: whatever it sends acknowledges all that it has, and stops the timer.
 */
static __always_inline bool ack_may_be_by_timer(const struct tcp_sock *tp)
{
	u32 silent_jiffies = (u32)bpf_jiffies64() - tp->rcv_tstamp;

	return tp->packets_out && (u64)silent_jiffies * 2 * DELACK_MIN_PER_S >= kernel_hz;
}

/*
 * A bare ACK of new data: by the timer if it came a delayed-ACK timeout (less a jiffy) after the path
 * would have brought that of the oldest segment, and nothing had to be retransmitted for it. The timer
 * holds back the ACK of at most a full-sized segment (__tcp_ack_snd_check()). How many segments
 * it acknowledges is known when it has been acted on: see count_acked_by_timer().
 */
static __always_inline void note_ack(struct stage_ledger *led, struct sock *sk,
				     const struct tcp_sock *tp, u32 acked_bytes, u64 now_ns)
{
	u64 sent_ns;

	if (acked_bytes > tp->mss_cache || led->stalled != STALL_NONE || tp->retrans_out ||
	    !ack_may_be_by_timer(tp))
		return;
	sent_ns = rtx_head_sent_ns(sk);
	if (sent_ns && now_ns + jiffy_ns() >= sent_ns + path_rtt_ns(tp) + TCP_DELACK_MIN_NS)
		led->timer_acked = 1;
}

/* The next look after such an ACK, before anything else has been acknowledged. */
static __always_inline void count_acked_by_timer(struct stage_ledger *led, u32 deliveries)
{
	if (!led->timer_acked)
		return;
	led->timer_acked = 0;
	led->acks_by_timer += deliveries;
}

#endif
