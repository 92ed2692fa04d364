/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The ledger after an end has closed: hooks do not see ACKs any more, only sends and readings. */
#ifndef WHYLAT_UNSEEN_BPF_H
#define WHYLAT_UNSEEN_BPF_H

#include "ledger.bpf.h"

/*
 * A delivery after an ACK became overdue ended the stall, though no hook saw it; when, since the
 * last look, is not known.
 */
static __always_inline bool stall_ended_unseen(const struct stage_ledger *led,
					       const struct tcp_sock *tp)
{
	return led->unseen && led->due_ns && delivered_ns(tp) > led->due_ns;
}

/* A flight lasts for the path's round trip, whenever its ACK is seen. */
static __always_inline bool is_flight_acknowledged(const struct stage_ledger *led, u32 stage)
{
	return led->stage == STAGE_IN_FLIGHT && stage == STAGE_SENDER_APP;
}

/*
 * What stops the next byte until the next look. A look that meets the kernel between two segments, its
 * pacing timer not armed yet, does not say: what held back bytes before goes on, which is not sure.
 */
__noinline int note_stage(struct stage_ledger *led, u32 stage)
{
	if (!led)
		return 0;
	led->unsure = stage == STAGE_UNKNOWN;
	if (!led->unsure || led->stage < STAGE_NETWORK_FIRST || led->stage > STAGE_NETWORK_LAST)
		led->stage = stage;
	return 0;
}

/* An end closes: from now on what passes is not seen, and this was what stopped the next byte. */
__noinline int begin_unseen(struct stage_ledger *led, u32 stage, u32 rwnd_jiffies)
{
	if (!led)
		return 0;
	led->unseen = 1;
	led->rwnd_jiffies = rwnd_jiffies;
	led->stage = stage;
	led->unsure = stage == STAGE_UNKNOWN;
	return 0;
}

/*
 * Once an end has closed, ACKs do not pass tcp_probe (tcp_rcv_state_process() takes them), so that
 * sends and readings are all that is seen. The kernel's own clock still shows how long the
 * receiver's window was the limit. The rest counts as what was seen at its beginning, which is
 * sure only if the same is seen at its end, and no stall ended in between.
 */
static __always_inline void account_unseen(struct stage_ledger *led, struct sock *sk,
					   const struct tcp_sock *tp, bool stall_ended, u64 now_ns)
{
	u32 jiffies = rwnd_limited_jiffies(tp), stage = send_limit(led, sk, tp);
	s32 limited = seq_diff(jiffies, led->rwnd_jiffies);
	u64 until_ns, last_ns;
	bool unsure;

	last_ns = last_sent_ns(tp);
	if (seq_diff(tp->snd_nxt, led->snd_nxt) > 0 && last_ns)
		led->sent_ns = last_ns;
	until_ns = led->accounted_ns + (limited > 0 ? limited : 0) * jiffy_ns();
	account(led, STAGE_RECEIVER_WINDOW, until_ns < now_ns ? until_ns : now_ns);
	unsure = (stage != led->stage || led->unsure) && !is_flight_acknowledged(led, stage);
	if ((unsure || stall_ended) && !led->ended)
		led->unseen_ns += now_ns - led->accounted_ns;
	advance(led, tp, led->stage == STAGE_RECEIVER_WINDOW ? STAGE_IN_FLIGHT : led->stage,
		now_ns);
	led->rwnd_jiffies = jiffies;
	note_stage(led, stage);
}

#endif
