/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The arithmetic of the ledger: intervals are accounted to stages, holds and stalls are found to
 * have been what they were, round-trip times are summed. Which hook does what is in
 * tcp_stages.bpf.h.
 */
#ifndef WHYLAT_LEDGER_BPF_H
#define WHYLAT_LEDGER_BPF_H

#include "brake.bpf.h"

#define STALL_NONE 0
#define STALL_TAIL_LOSS_PROBE 1
#define STALL_TIMEOUT 2

static __always_inline void account(struct stage_ledger *led, u32 stage, u64 until_ns)
{
	u64 from_ns = led->accounted_ns;

	/* or the compiler tests one copy of the index and uses another */
	barrier_var(stage);
	if (stage >= STAGE_COUNT || until_ns <= from_ns || led->ended)
		return;
	led->stage_ns[stage] += until_ns - from_ns;
	led->last_ns = from_ns;
	led->last_stage = stage;
	if (led->due_ns && until_ns > led->due_ns) {
		led->late_ns[stage] += until_ns - (from_ns > led->due_ns ? from_ns : led->due_ns);
		led->late = 1;
	}
	led->accounted_ns = until_ns;
}

/* The oldest unanswered segment's time of sending, 0 if it cannot be told. */
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

/* The last delivery, or the start of the flight that has none yet. */
static __always_inline u64 delivered_ns(const struct tcp_sock *tp)
{
	return tp->delivered_mstamp * NSEC_PER_USEC;
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
	u32 stage = led->last_stage;

	if (led->due_ns < led->last_ns)
		led->due_ns = led->last_ns;
	if (led->due_ns >= led->accounted_ns || stage >= STAGE_COUNT)
		return;
	led->late_ns[stage] += led->accounted_ns - led->due_ns;
	led->late = 1;
}

/*
 * Since when an ACK is overdue: from the oldest unanswered segment plus srtt. A head that was
 * itself sent again carries the later time; it was then the only segment out, and the last sending
 * stands for it.
 */
static __always_inline void find_due(struct stage_ledger *led, struct sock *sk,
				     const struct tcp_sock *tp)
{
	u64 head_ns;

	if (led->due_ns)
		return;
	head_ns = rtx_head_sent_ns(sk);
	if (!head_ns || head_ns > led->sent_ns)
		head_ns = led->sent_ns;
	led->due_ns = head_ns + srtt_ns(tp);
	account_late(led);
}

/* All sent and not acknowledged: in flight for the path's RTT, then it is the application that
 * gives nothing more, unless the interval proves to be a stall. */
static __always_inline void account_in_flight(struct stage_ledger *led, const struct tcp_sock *tp,
					      u64 now_ns)
{
	u64 arrived_ns = led->sent_ns + path_rtt_ns(tp);

	if (arrived_ns > now_ns)
		arrived_ns = now_ns;
	account(led, STAGE_IN_FLIGHT, arrived_ns);
	account(led, STAGE_SENDER_APP, now_ns);
}

/*
 * The best rate that lasted for ten round trips of the path: as long as BBR keeps a sample
 * (bbr_bw_rtts). Over one round trip, as the kernel's own samples are, it can be too high by any
 * factor, when segments or ACKs that were held up on the way arrive together.
 */
#define BEST_RATE_RTTS 10

static __always_inline void track_best_rate(struct stage_ledger *led, const struct tcp_sock *tp,
					    u64 now_ns)
{
	u64 passed_ns = now_ns - led->rate_since_ns, least_ns = BEST_RATE_RTTS * path_rtt_ns(tp);
	u64 segments = tp->delivered - led->rate_delivered;

	if (!least_ns || (led->rate_since_ns && passed_ns < least_ns))
		return;
	if (led->rate_since_ns && segments * led->best_ns > (u64)led->best_delivered * passed_ns) {
		led->best_delivered = segments;
		led->best_ns = passed_ns;
	}
	led->best_window = led->best_delivered * path_rtt_ns(tp) / led->best_ns;
	led->rate_since_ns = now_ns;
	led->rate_delivered = tp->delivered;
}

/* 0: no rate has lasted yet. best_ns is ten round trips at least, so some microseconds. */
static __always_inline u64 best_rate_bytes_per_s(const struct stage_ledger *led,
						 const struct tcp_sock *tp)
{
	if (!led->best_delivered)
		return 0;
	return (u64)led->best_delivered * tp->mss_cache * USEC_PER_SEC /
	       (led->best_ns / NSEC_PER_USEC);
}

/* Has loss reduced the congestion window, which has not regained its earlier value? */
static __always_inline void track_loss(struct stage_ledger *led, const struct tcp_sock *tp)
{
	if (tcp_ca_state(tp) >= TCP_CA_Recovery)
		led->had_loss = 1;
	else if (tp->snd_cwnd >= tp->prior_cwnd)
		led->had_loss = 0;
}

/*
 * Is what congestion control turns down upon loss far below what the best rate so far needs? That
 * is the window; BBR sends at its estimate of the path through recovery, so there it is the pacing
 * rate. Far is seven tenths: a healthy flow swings to 717/1024 (beta of cubic), or to 3/4 * 0.99
 * (bbr_pacing_gain, bbr_pacing_margin_percent).
 */
static __always_inline bool is_far_below_best(const struct stage_ledger *led,
					      const struct tcp_sock *tp)
{
	u64 rate = tp->inet_conn.icsk_inet.sk.sk_pacing_rate;

	if (is_bbr(tp))
		return rate < best_rate_bytes_per_s(led, tp) / 10 * 7;
	return tp->snd_cwnd * 10 < led->best_window * 7;
}

static __always_inline void add_loss_limited(struct loss_limited *limited,
					     const struct tcp_sock *tp, u64 length_ns)
{
	limited->ns += length_ns;
	limited->cwnd_ns += length_ns * tp->snd_cwnd;
}

/* The network is the brake from accounted_ns to now: does loss make it one, and what arrives? */
static __always_inline void track_loss_limited(struct stage_ledger *led, const struct tcp_sock *tp,
					       u64 now_ns)
{
	u64 from_ns = led->accounted_ns, due_ns = led->due_ns;

	if (!led->had_loss || now_ns <= from_ns || led->ended || !is_far_below_best(led, tp))
		return;
	if (due_ns && due_ns < now_ns) {
		if (due_ns < from_ns)
			due_ns = from_ns;
		add_loss_limited(&led->loss_limited_late, tp, now_ns - due_ns);
	} else {
		due_ns = now_ns;
	}
	add_loss_limited(&led->loss_limited, tp, due_ns - from_ns);
	led->loss_limited_delivered += led->newly_delivered;
	led->newly_delivered = 0;
}

/*
 * All is acknowledged. A hold may have ended without a hook's seeing it: the segment that it kept
 * back was the last to leave, which the kernel knows to a jiffy.
 */
static __always_inline void account_acknowledged(struct stage_ledger *led,
						 const struct tcp_sock *tp, u64 now_ns)
{
	u32 jiffies = (u32)bpf_jiffies64() - tp->lsndtime;

	if (led->hold_ns && tp->snd_nxt != led->snd_nxt) {
		account(led, led->hold_stage, now_ns - jiffies * jiffy_ns());
		led->sent_ns = led->accounted_ns;
		led->hold_ns = 0;
	}
	account_in_flight(led, tp, now_ns);
}

static __always_inline void advance(struct stage_ledger *led, const struct tcp_sock *tp, u32 stage,
				    u64 now_ns)
{
	if (stage == STAGE_IN_FLIGHT) {
		account_in_flight(led, tp, now_ns);
		return;
	}
	if (stage >= STAGE_NETWORK_FIRST && stage <= STAGE_NETWORK_LAST)
		track_loss_limited(led, tp, now_ns);
	account(led, stage, now_ns);
}

/* When the newest segment left: the tail of the queue that tcp_update_skb_after_send() keeps. */
static __always_inline u64 last_sent_ns(const struct tcp_sock *tp)
{
	struct list_head *tail = tp->tsorted_sent_queue.prev;

	if ((u64)tail == (u64)tp + bpf_core_field_offset(struct tcp_sock, tsorted_sent_queue))
		return 0;
	return BPF_CORE_READ(
		(struct sk_buff *)((void *)tail -
				   bpf_core_field_offset(struct sk_buff, tcp_tsorted_anchor)),
		skb_mstamp_ns);
}

/* Segments left since the last hook; those that the peer has acknowledged already left at its ACK
 * at the latest. */
static __always_inline void note_sent(struct stage_ledger *led, const struct tcp_sock *tp,
				      u64 now_ns)
{
	u64 last_ns = last_sent_ns(tp);

	led->sent_ns = last_ns && last_ns < now_ns ? last_ns : now_ns;
}

/*
 * Segments left since the last hook, the last of them at last_ns. If that hook was a call, it knew
 * what stopped them. After a segment it did not (the kernel had yet to act on it); those that the
 * pacing timer then released left one by one, and until the last of them pacing was the brake,
 * whatever stops the next byte now.
 */
static __always_inline void account_sent(struct stage_ledger *led, const struct sock *sk,
					 const struct tcp_sock *tp, u64 now_ns)
{
	u64 last_ns = last_sent_ns(tp), sent_ns = led->accounted_ns;

	if (last_ns > sent_ns && last_ns < now_ns)
		sent_ns = last_ns;
	if (led->stage_known && led->stage != STAGE_UNKNOWN)
		advance(led, tp, led->stage, sent_ns);
	else if (sk->sk_pacing_status == SK_PACING_NEEDED)
		advance(led, tp, STAGE_PACING, sent_ns);
	led->sent_ns = led->accounted_ns;
}

/* A hold is one wait for an ACK: Nagle's, or a writer's with its send buffer full. */
static __always_inline void track_hold(struct stage_ledger *led, u32 stage, u64 since_ns)
{
	if (led->hold_ns && led->hold_stage == stage)
		return;
	led->hold_ns = 0;
	if (stage != STAGE_NAGLE && stage != STAGE_SEND_BUFFER)
		return;
	led->hold_ns = since_ns;
	led->hold_stage = stage;
	if (stage == STAGE_NAGLE)
		led->nagle_holds++;
}

/*
 * An ACK ended a hold. The receiver's timer sent it if it is a bare ACK that came a delayed-ACK
 * timeout (less a jiffy) after the path would have brought it: what was waited beyond the path's
 * RTT is the receiver's. An ACK that came earlier, or with data, came because the peer read or
 * answered.
 */
static __always_inline void end_hold(struct stage_ledger *led, const struct tcp_sock *tp,
				     bool bare_ack, u64 now_ns)
{
	u64 arrived_ns = led->sent_ns + path_rtt_ns(tp), beyond_ns;
	u32 stage = led->hold_stage;

	if (!led->hold_ns || stage >= STAGE_COUNT)
		return;
	if (now_ns - led->hold_ns > led->longest_hold_ns && stage == STAGE_NAGLE)
		led->longest_hold_ns = now_ns - led->hold_ns;
	if (bare_ack && led->stalled == STALL_NONE && arrived_ns < now_ns &&
	    now_ns - arrived_ns + jiffy_ns() >= TCP_DELACK_MIN_NS) {
		beyond_ns = now_ns - (arrived_ns > led->hold_ns ? arrived_ns : led->hold_ns);
		if (beyond_ns > led->stage_ns[stage])
			beyond_ns = led->stage_ns[stage];
		led->stage_ns[stage] -= beyond_ns;
		led->stage_ns[STAGE_DELAYED_ACK] += beyond_ns;
		led->delayed_acks++;
	}
	led->hold_ns = 0;
}

/* Moves what was late to the stage that the stall proved to be; returns how much it was. */
static __always_inline u64 settle_late(struct stage_ledger *led, u32 stage)
{
	u64 moved_ns = 0, most_ns = 0;

	for (int i = 0; i < STAGE_COUNT; i++) {
		u64 late_ns = led->late_ns[i];

		led->late_ns[i] = 0;
		if (stage >= STAGE_COUNT || !late_ns)
			continue;
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

/* Progress: what was late until now was a stall if something had to be sent again to end it. */
static __always_inline void end_stall(struct stage_ledger *led, const struct tcp_sock *tp)
{
	u32 stage = STAGE_COUNT;

	if (led->stalled != STALL_NONE || led->accounted_ns > led->probed_until_ns)
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

		if (stage == STAGE_TAIL_LOSS) {
			led->probed_ns = moved_ns;
			led->probed_until_ns = led->accounted_ns + 2 * srtt_ns(tp);
		}
	}
	led->stalled = STALL_NONE;
	led->due_ns = 0;
}

/* The receiver reported a duplicate (DSACK) within two round trips of a stall that a tail-loss
 * probe seemed to end: nothing had been lost, the ACK was late. Its time goes back to where it was. */
static __always_inline void take_back_probe(struct stage_ledger *led)
{
	u32 stage = led->probed_stage;

	if (!led->probed_ns || stage >= STAGE_COUNT)
		return;
	led->stage_ns[STAGE_TAIL_LOSS] -= led->probed_ns;
	led->stage_ns[stage] += led->probed_ns;
	led->tail_loss_stalls--;
	led->probed_ns = 0;
}

/*
 * tcp_rtt_estimator() runs at most once a segment: srtt += sample - srtt / 8, so the sample follows
 * from srtt before and after. An unchanged srtt with new deliveries was a sample equal to it. Of
 * segments that passed unseen the number is known only if but one of ours was delivered; otherwise
 * srtt stands for all of them, as one sample.
 */
static __always_inline void take_rtt_sample(struct stage_ledger *led, const struct tcp_sock *tp,
					    bool all_seen)
{
	u32 srtt_us = tp->srtt_us, before_us = led->srtt_us;
	u32 deliveries = tp->delivered - led->delivered;

	if (srtt_us != before_us && before_us && (all_seen || deliveries == 1)) {
		led->rtt_sum_us += srtt_us - before_us + (before_us >> 3);
		led->rtt_samples++;
	} else if (srtt_us && (srtt_us != before_us || deliveries)) {
		led->rtt_sum_us += srtt_us >> 3;
		led->rtt_samples++;
	}
	led->srtt_us = srtt_us;
	led->delivered = tp->delivered;
	led->newly_delivered = deliveries;
}

/* All that the application had given at the last hook is acknowledged by now. */
static __always_inline bool was_acknowledged(const struct stage_ledger *led,
					     const struct tcp_sock *tp)
{
	return seq_diff(tp->snd_una, led->write_seq) >= 0;
}

/* What the next hook has to know, and whether it must see the next segment. */
static __always_inline void remember(struct socket_state *st, const struct tcp_sock *tp)
{
	struct stage_ledger *led = &st->ledger;
	bool watch = tp->write_seq != tp->snd_nxt || led->hold_ns || led->due_ns || led->stalled ||
		     led->probed_ns || led->window_closed_since_ns || led->zero_window ||
		     led->reader_late || (st->chosen == CHOSEN_PEER && !st->owner);

	led->write_seq = tp->write_seq;
	led->snd_nxt = tp->snd_nxt;
	led->changed = 1;
	set_watched(st, watch);
}

/* Our FIN is sent, or waits behind the last bytes, and is not acknowledged. */
static __always_inline bool is_fin_sent(u8 state)
{
	return state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK || state == TCP_CLOSING;
}

static __always_inline void ledger_init(struct socket_state *st, const struct tcp_sock *tp,
					u8 state, u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;

	__builtin_memset(led, 0, sizeof(*led));
	st->since_ns = now_ns;
	led->accounted_ns = now_ns;
	led->sent_ns = now_ns;
	led->best_ns = 1;
	led->unseen = state != TCP_ESTABLISHED;
	led->fin_sent = is_fin_sent(state);
	led->stage = STAGE_IN_FLIGHT;
	led->srtt_us = tp->srtt_us;
	led->delivered = tp->delivered;
	led->dsack_dups = tp->dsack_dups;
	track_loss(led, tp);
	remember(st, tp);
}

/*
 * What was sent is acknowledged, and the application gave nothing until the present flight began.
 * tcp_rate_skb_sent() notes that time when it sends with nothing out.
 */
static __always_inline void account_idle(struct stage_ledger *led, const struct tcp_sock *tp,
					 u64 now_ns)
{
	u64 start_ns = delivered_ns(tp);

	if (!tp->packets_out || start_ns > now_ns)
		start_ns = now_ns;
	if (start_ns < led->accounted_ns)
		start_ns = led->accounted_ns;
	account_in_flight(led, tp, start_ns);
	led->sent_ns = start_ns;
}

#endif
