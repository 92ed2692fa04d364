/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Stalls: since when an ACK is overdue, and whether what was late until it came had been lost. That
 * is known only when a probe or a timeout has ended it.
 */
#ifndef WHYLAT_STALL_BPF_H
#define WHYLAT_STALL_BPF_H

#include "loss.bpf.h"

/* tcp_fastretrans_alert(): the duplicate ACKs that show a loss (TCP_FASTRETRANS_THRESH). */
#define TCP_FASTRETRANS_THRESH 3

#define STALL_NONE 0
#define STALL_TAIL_LOSS_PROBE 1
#define STALL_TIMEOUT 2

/* The oldest unanswered segment's time of sending, 0 if it cannot be known. */
static __always_inline u64 rtx_head_sent_ns(struct sock *sk)
{
	struct rb_node *node = BPF_CORE_READ(sk, tcp_rtx_queue.rb_node), *left;

	for (int depth = 0; node && depth < 24; depth++) {
		left = BPF_CORE_READ(node, rb_left);
		if (!left)
			break;
		node = left;
	}
	if (!node)
		return 0;
	return BPF_CORE_READ(
		(struct sk_buff *)((void *)node - bpf_core_field_offset(struct sk_buff, rbnode)),
		skb_mstamp_ns);
}

/*
 * An ACK is so late that a stall may have begun: probes come after two srtt
 * (tcp_schedule_loss_probe()), and timers tick in jiffies.
 */
static __always_inline bool is_overdue(const struct stage_ledger *led, const struct tcp_sock *tp,
				       u64 now_ns)
{
	s64 waited_ns = now_ns - delivered_ns(tp);

	return !led->due_ns && tp->packets_out && waited_ns > (s64)jiffy_ns() &&
	       waited_ns > (s64)(2 * srtt_ns(tp));
}

/* An ACK proves to be due since within the interval that was accounted last: so far it is late. */
static __always_inline void account_late(struct stage_ledger *led)
{
	u32 stage = led->interval_stage;

	if (led->due_ns < led->interval_ns)
		led->due_ns = led->interval_ns;
	if (led->due_ns >= led->accounted_ns || stage >= STAGE_COUNT)
		return;
	led->late_ns[stage] += led->accounted_ns - led->due_ns;
	led->late = 1;
}

/*
 * Since when an ACK is overdue: from the oldest unanswered segment plus srtt. A head that was
 * itself retransmitted carries the later time; it was then the only segment out, and the last sending
 * means it.
 */
static __always_inline void find_due(struct stage_ledger *led, struct sock *sk,
				     const struct tcp_sock *tp)
{
	u64 head_ns, sent_ns = led->sent_ns;

	if (led->due_ns)
		return;
	if (tp->snd_nxt != led->snd_nxt && delivered_ns(tp) > sent_ns)
		sent_ns = delivered_ns(tp);
	head_ns = rtx_head_sent_ns(sk);
	if (!head_ns || head_ns > sent_ns)
		head_ns = sent_ns;
	led->due_ns = head_ns + srtt_ns(tp);
	account_late(led);
}

/* Moves what was late to the stage that the stall proved to be; returns how much it was. */
__noinline u64 settle_late(struct stage_ledger *led, u32 stage)
{
	u64 moved_ns = 0, most_ns = 0;

	if (!led)
		return 0;
	for (int i = 0; i < STAGE_COUNT; i++) {
		u64 late_ns = led->late_ns[i];

		led->late_ns[i] = 0;
		if (stage >= STAGE_COUNT || !late_ns)
			continue;
		if (late_ns > led->stage_ns[i])
			late_ns = led->stage_ns[i];
		led->stage_ns[i] -= late_ns;
		moved_ns += late_ns;
		if (late_ns > most_ns) {
			most_ns = late_ns;
			led->probed_stage = i;
		}
	}
	if (stage < STAGE_COUNT)
		led->stage_ns[stage] += moved_ns;
	led->late = 0;
	return moved_ns;
}

/* A stall is no time of a low rate: it has a stage of its own. */
static __always_inline void settle_loss_limited(struct stage_ledger *led)
{
	if (led->stalled == STALL_NONE) {
		led->loss_limited.ns += led->loss_limited_late.ns;
		led->loss_limited.cwnd_ns += led->loss_limited_late.cwnd_ns;
	}
	led->loss_limited_late.ns = 0;
	led->loss_limited_late.cwnd_ns = 0;
}

/* A stall was ended by a timer: what else could be known of it. */
static __always_inline void note_stall(struct stage_ledger *led, u32 stage, u64 moved_ns)
{
	u64 thin_ns = 0;

	if (led->thin) {
		led->stalls.thin_stalls++;
		if (moved_ns > led->stall_held_ns)
			thin_ns = moved_ns - led->stall_held_ns;
		led->stalls.thin_stall_ns += thin_ns;
	}
	if (stage != STAGE_RETRANSMIT_TIMEOUT)
		return;
	led->unproven_thin_ns += thin_ns;
	led->unproven_stalls++;
	led->unproven_ns += moved_ns;
	led->unproven_stage = led->probed_stage;
}

/*
 * The ACK of what a timeout retransmitted came so late that the receiver's timer must have sent it:
 * after a timeout one segment goes, and nothing follows it that would make the receiver answer.
 * That is part of the stall (SNAP, figure 6), but not because other segments are missing.
 */
static __always_inline void note_timeout_ack(struct stage_ledger *led, const struct tcp_sock *tp,
					     u32 acked_bytes, bool bare, u64 now_ns)
{
	u64 arrived_ns = led->timeout_ns + path_rtt_ns(tp);

	if (led->stalled != STALL_TIMEOUT || !bare || acked_bytes > tp->mss_cache ||
	    arrived_ns >= now_ns || now_ns - arrived_ns + jiffy_ns() < TCP_DELACK_MIN_NS)
		return;
	led->stall_held_ns = now_ns - arrived_ns;
	led->stalls.timeout_acks_delayed++;
	led->stalls.timeout_ack_delayed_ns += led->stall_held_ns;
	led->ack_held_ns += led->stall_held_ns;
	led->acks_held++;
}

/* Progress: what was late until now was a stall if something had to be retransmitted to end it. */
static __always_inline void end_stall(struct stage_ledger *led, const struct tcp_sock *tp)
{
	u32 stage = STAGE_COUNT;

	if (led->stalled != STALL_NONE || tp->total_retrans != led->probed_retrans)
		led->probed_ns = 0;
	if (led->loss_limited_late.ns)
		settle_loss_limited(led);
	if (led->stalled == STALL_TIMEOUT) {
		stage = STAGE_RETRANSMIT_TIMEOUT;
		led->timeout_stalls++;
	} else if (led->stalled == STALL_TAIL_LOSS_PROBE) {
		stage = STAGE_TAIL_LOSS;
		led->tail_loss_stalls++;
	}
	if (led->late) {
		u64 moved_ns = settle_late(led, stage);

		if (stage != STAGE_COUNT)
			note_stall(led, stage, moved_ns);
		if (stage == STAGE_TAIL_LOSS) {
			led->probed_ns = moved_ns;
			led->probed_thin = led->thin;
			led->probed_retrans = tp->total_retrans;
		}
	}
	led->stalled = STALL_NONE;
	led->stall_held_ns = 0;
	led->due_ns = 0;
	/* what follows is another wait */
	led->interval_ns = led->accounted_ns;
}

/* A timeout begins, or goes on: what the one before brought is valid unless the kernel takes it back. */
static __always_inline void begin_timeout(struct stage_ledger *led, const struct tcp_sock *tp,
					  u64 now_ns)
{
	if (tcp_ca_state(tp) != TCP_CA_Loss) {
		led->unproven_ns = 0;
		led->unproven_thin_ns = 0;
		led->unproven_stalls = 0;
		led->ack_held_ns = 0;
		led->acks_held = 0;
		led->thin = tp->packets_out <= TCP_FASTRETRANS_THRESH;
	}
	led->timeout_ns = now_ns;
	led->stalled = STALL_TIMEOUT;
}

/*
 * State Loss ends, and the kernel has taken the reduction of its window back (tcp_may_undo(),
 * tcp_process_loss()): what was retransmitted had not been lost, its ACK was late. The time goes back
 * to where it was.
 */
static __always_inline void take_back_timeouts(struct stage_ledger *led, const struct tcp_sock *tp,
					       u64 now_ns)
{
	u32 stage = led->unproven_stage;
	u64 back_ns = led->unproven_ns;

	if (tp->undo_marker)
		return;
	/* no hook saw the ACK that ended the stall */
	if (led->stalled == STALL_TIMEOUT && led->due_ns && led->due_ns < now_ns) {
		led->stalls.spurious_timeouts++;
		led->stalls.spurious_timeout_ns += now_ns - led->due_ns;
		settle_late(led, STAGE_COUNT);
		led->stalled = STALL_NONE;
		led->due_ns = 0;
	}
	if (!led->unproven_stalls || stage >= STAGE_COUNT ||
	    back_ns > led->stage_ns[STAGE_RETRANSMIT_TIMEOUT])
		return;
	led->stage_ns[STAGE_RETRANSMIT_TIMEOUT] -= back_ns;
	led->stage_ns[stage] += back_ns;
	led->timeout_stalls -= led->unproven_stalls;
	led->stalls.spurious_timeouts += led->unproven_stalls;
	led->stalls.spurious_timeout_ns += back_ns;
	led->stalls.timeout_ack_delayed_ns -= led->ack_held_ns;
	led->stalls.timeout_acks_delayed -= led->acks_held;
	if (led->thin) {
		led->stalls.thin_stalls -= led->unproven_stalls;
		led->stalls.thin_stall_ns -= led->unproven_thin_ns;
	}
	led->unproven_stalls = 0;
}

/*
 * The receiver reported a duplicate (DSACK) after a stall that a tail-loss probe seemed to end, before
 * anything else was retransmitted: nothing had been lost, the ACK was late. Its time goes back to where it
 * was. The report may be noticed long after it came, as an ACK of nothing new passes no hook.
 */
static __always_inline void take_back_probe(struct stage_ledger *led)
{
	u32 stage = led->probed_stage;

	if (!led->probed_ns || stage >= STAGE_COUNT)
		return;
	led->stage_ns[STAGE_TAIL_LOSS] -= led->probed_ns;
	led->stage_ns[stage] += led->probed_ns;
	led->tail_loss_stalls--;
	if (led->probed_thin) {
		led->stalls.thin_stalls--;
		led->stalls.thin_stall_ns -= led->probed_ns;
	}
	led->probed_ns = 0;
}

#endif
