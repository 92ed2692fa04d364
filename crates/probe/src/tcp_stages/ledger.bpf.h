/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The arithmetic of the ledger: intervals are accounted to stages, holds are found to have been what
 * they were, round-trip times are summed. Stalls and what loss costs have files of their own; which
 * hook does what is in tcp_stages.bpf.h.
 */
#ifndef WHYLAT_LEDGER_BPF_H
#define WHYLAT_LEDGER_BPF_H

#include "delayed_ack.bpf.h"

/* Verified by itself: it is called at dozens of places, and has a branch for each condition. */
__noinline int account(struct stage_ledger *led, u32 stage, u64 until_ns)
{
	u64 from_ns;

	if (!led)
		return 0;
	from_ns = led->accounted_ns;
	/* or the compiler tests one copy of the index and uses another */
	barrier_var(stage);
	if (stage >= STAGE_COUNT || until_ns <= from_ns || led->ended)
		return 0;
	led->stage_ns[stage] += until_ns - from_ns;
	led->interval_ns = from_ns;
	led->interval_stage = stage;
	if (led->due_ns && until_ns > led->due_ns) {
		led->late_ns[stage] += until_ns - (from_ns > led->due_ns ? from_ns : led->due_ns);
		led->late = 1;
	}
	led->accounted_ns = until_ns;
	return 0;
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
 * An ACK ended a hold. The receiver's timer sent it if it is a bare ACK that came a delayed-ACK
 * timeout (less a jiffy) after the path would have brought it: what was waited beyond the path's
 * RTT is the receiver's. An ACK that came earlier, or with data, came because the peer read or
 * answered. The timer holds back the ACK of at most a full-sized segment, unless the reader
 * left bytes unread (__tcp_ack_snd_check()), which is the reader's, and what it sends acknowledges
 * all that has arrived: other late ACKs were held up on the way.
 */
static __always_inline void end_hold(struct stage_ledger *led, const struct tcp_sock *tp,
				     u32 acked_bytes, bool timer_may, u64 now_ns)
{
	u64 arrived_ns = led->sent_ns + path_rtt_ns(tp), beyond_ns;
	u32 stage = led->hold_stage;

	if (!led->hold_ns || stage >= STAGE_COUNT)
		return;
	if (now_ns - led->hold_ns > led->longest_hold_ns && stage == STAGE_NAGLE)
		led->longest_hold_ns = now_ns - led->hold_ns;
	if (timer_may && acked_bytes <= tp->mss_cache && led->stalled == STALL_NONE &&
	    arrived_ns < now_ns && now_ns - arrived_ns + jiffy_ns() >= TCP_DELACK_MIN_NS) {
		beyond_ns = now_ns - (arrived_ns > led->hold_ns ? arrived_ns : led->hold_ns);
		if (beyond_ns > led->stage_ns[stage])
			beyond_ns = led->stage_ns[stage];
		led->stage_ns[stage] -= beyond_ns;
		led->stage_ns[STAGE_DELAYED_ACK] += beyond_ns;
		led->delayed_acks++;
	}
	led->hold_ns = 0;
	led->interval_ns = led->accounted_ns;
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
		led->unseen_ns += jiffy_ns();
		led->sent_ns = led->accounted_ns;
		end_hold(led, tp, 0, false, led->accounted_ns);
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

/* Returns when the newest segment was sent: the tail of the queue that tcp_update_skb_after_send() keeps. */
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

/* Returns when the newest segment was sent, or else this time. */
static __always_inline u64 last_sent_or(const struct tcp_sock *tp, u64 else_ns, u64 now_ns)
{
	u64 newest_ns = last_sent_ns(tp);

	if (!newest_ns)
		newest_ns = else_ns;
	return newest_ns < now_ns ? newest_ns : now_ns;
}

/* At a first look, or the first for some time: if nothing is out, all that ever left has arrived. */
static __always_inline void begin_sent(struct stage_ledger *led, const struct tcp_sock *tp,
				       u64 now_ns)
{
	u64 arrived_ns = tp->packets_out ? now_ns : now_ns - path_rtt_ns(tp);

	led->sent_ns = last_sent_or(tp, arrived_ns, now_ns);
}

/* Segments left since the last hook; if all are acknowledged, before the ACK. */
static __always_inline void note_sent(struct stage_ledger *led, const struct tcp_sock *tp,
				      u64 now_ns)
{
	led->sent_ns = last_sent_or(tp, delivered_ns(tp), now_ns);
}

/* Returns the longest time for which the pacing timer spread out the data sent since the last hook. */
static __always_inline u64 paced_ns(const struct stage_ledger *led, const struct sock *sk,
				    const struct tcp_sock *tp)
{
	u64 bytes = (u32)(tp->snd_nxt - led->snd_nxt), rate = sk->sk_pacing_rate;

	if (sk->sk_pacing_status != SK_PACING_NEEDED || !rate)
		return 0;
	return bytes * NSEC_PER_SEC / rate;
}

/*
 * When new data last left. What was retransmitted has a new stamp; but if nothing was out before, when
 * the flight began is known (tcp_rate_skb_sent()).
 */
static __always_inline u64 last_new_ns(const struct stage_ledger *led, const struct tcp_sock *tp)
{
	if (led->stalled || tp->retrans_out)
		return tp->first_tx_mstamp * NSEC_PER_USEC;
	return last_sent_ns(tp);
}

/*
 * Segments left since the last hook, the last of them at last_ns. If that hook was a call, it knew
 * what stopped them. After a segment it did not (the kernel had yet to act on it); those that the
 * pacing timer then released left one by one, and until the last of them pacing was the limit,
 * whatever stops the next byte now. What a call that still runs wrote since then left when it was
 * written: it took no longer to pace than its bytes take, and before that the writer had room.
 */
static __always_inline void account_sent(struct stage_ledger *led, const struct sock *sk,
					 const struct tcp_sock *tp, u64 now_ns)
{
	u64 last_ns = last_new_ns(led, tp), sent_ns = led->accounted_ns;
	bool written = seq_diff(tp->snd_nxt, led->write_seq) > 0;
	u64 paced_until_ns = sent_ns + paced_ns(led, sk, tp);

	if (last_ns > sent_ns && last_ns < now_ns)
		sent_ns = last_ns;
	if (!written || paced_until_ns > sent_ns)
		paced_until_ns = sent_ns;
	if (led->stage_known && led->stage != STAGE_UNKNOWN)
		advance(led, tp, led->stage, sent_ns);
	else if (sk->sk_pacing_status == SK_PACING_NEEDED)
		advance(led, tp, STAGE_PACING, paced_until_ns);
	if (written)
		account_in_flight(led, tp, sent_ns);
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
 * tcp_rtt_estimator() runs at most once a segment: srtt += sample - srtt / 8, so the sample follows
 * from srtt before and after. An unchanged srtt with new deliveries was a sample equal to it. Of
 * segments that passed unseen the number is known only if but one of ours was delivered; otherwise
 * srtt represents all of them, as one sample. That of a FIN alone is none: an end that has had all and
 * not closed takes its time with the ACK (tcp_fin()), and nobody waits for it.
 */
static __always_inline void take_rtt_sample(struct stage_ledger *led, const struct tcp_sock *tp,
					    bool all_seen)
{
	u32 srtt_us = tp->srtt_us, before_us = led->srtt_us;
	u32 deliveries = tp->delivered - led->delivered;
	s32 sample_us = srtt_us - before_us + (before_us >> 3);
	bool of_fin = led->fin_sent && deliveries <= 1;

	if (srtt_us && (srtt_us != before_us || deliveries) && !of_fin) {
		if (srtt_us == before_us || !before_us || !(all_seen || deliveries == 1) ||
		    sample_us <= 0)
			sample_us = srtt_us >> 3;
		led->rtt_sum_us += sample_us;
		led->rtt_samples++;
	}
	led->srtt_us = srtt_us;
	led->delivered = tp->delivered;
	count_acked_by_timer(led, deliveries);
	if (led->had_loss) {
		led->newly_delivered = deliveries;
		led->newly_retrans = tp->total_retrans - led->total_retrans;
		led->total_retrans = tp->total_retrans;
	}
}

/* Returns whether all data that the application had given at the last hook is acknowledged by now. */
static __always_inline bool was_acknowledged(const struct stage_ledger *led,
					     const struct tcp_sock *tp)
{
	return seq_diff(tp->snd_una, led->write_seq) >= 0;
}

/*
 * What of a stage passed since a buffer grew before, and was a wait for it to grow. tcp_rcv_space_adjust() measures for a
 * round trip, and "DRS is always one RTT late"; tcp_sndbuf_expand() waits for an ACK. So it is two round trips at most: a
 * longer wait is for a buffer that does not grow.
 */
static __always_inline u64 growth_wait_ns(const struct stage_ledger *led, u32 stage, u64 grown_ns,
					  const struct tcp_sock *tp)
{
	u64 most_ns = 2 * (u64)(tp->srtt_us >> 3) * NSEC_PER_USEC;
	u64 waited_ns = led->stage_ns[stage];

	if (waited_ns <= grown_ns)
		return 0;
	waited_ns -= grown_ns;
	return waited_ns < most_ns ? waited_ns : most_ns;
}

/* The receiver's window has grown. Its kernel makes it twice what was read; by less it varies without that. */
static __always_inline void note_window_growth(struct stage_ledger *led, const struct tcp_sock *tp)
{
	if (tp->snd_wnd < 2 * (u64)led->grown_wnd_bytes)
		return;
	if (led->grown_wnd_bytes)
		led->wnd_growth_ns +=
			growth_wait_ns(led, STAGE_RECEIVER_WINDOW, led->wnd_grown_ns, tp);
	led->wnd_grown_ns = led->stage_ns[STAGE_RECEIVER_WINDOW];
	led->grown_wnd_bytes = tp->snd_wnd;
}

/* The same of the send buffer: tcp_sndbuf_expand() makes it twice the congestion window, up to tcp_wmem[2]. */
static __always_inline void note_send_buffer_growth(struct stage_ledger *led,
						    const struct tcp_sock *tp)
{
	u32 limit_bytes = ((const struct sock *)tp)->sk_sndbuf;

	if (limit_bytes <= led->sndbuf_bytes)
		return;
	if (led->sndbuf_bytes)
		led->sndbuf_growth_ns +=
			growth_wait_ns(led, STAGE_SEND_BUFFER, led->sndbuf_grown_ns, tp);
	led->sndbuf_grown_ns = led->stage_ns[STAGE_SEND_BUFFER];
	led->sndbuf_bytes = limit_bytes;
}

/* The window of a SYN is not scaled (RFC 7323 2.2): until data was delivered there is none. */
static __always_inline void note_extremes(struct stage_ledger *led, const struct tcp_sock *tp)
{
	u32 queued_bytes = tp->write_seq - tp->snd_una;

	if (queued_bytes > led->max_send_queue_bytes)
		led->max_send_queue_bytes = queued_bytes;
	note_send_buffer_growth(led, tp);
	if (tp->delivered > 1 && tp->snd_wnd > led->max_snd_wnd_bytes) {
		led->max_snd_wnd_bytes = tp->snd_wnd;
		note_window_growth(led, tp);
	}
}

static __always_inline void note_sequence(struct stage_ledger *led, const struct tcp_sock *tp)
{
	note_extremes(led, tp);
	led->write_seq = tp->write_seq;
	led->snd_nxt = tp->snd_nxt;
	led->changed = 1;
}

/* Returns what the next hook has to know, and whether it must see the next segment. */
static __always_inline void remember(struct socket_state *st, const struct tcp_sock *tp)
{
	struct stage_ledger *led = &st->ledger;
	bool watch = tp->write_seq != tp->snd_nxt || led->hold_ns || led->due_ns || led->stalled ||
		     led->probed_ns || led->window_closed_since_ns || led->zero_window ||
		     led->reader_late || led->timer_acked ||
		     (st->chosen == CHOSEN_PEER && !st->owner);

	note_sequence(led, tp);
	set_watched(st, watch);
}

/* Our FIN is sent, or waits behind the last bytes, and is not acknowledged. */
static __always_inline bool is_fin_sent(u8 state)
{
	return state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK || state == TCP_CLOSING;
}

/* Returns whether only our FIN is not acknowledged, and the other end has closed before us: no thread waits. */
static __always_inline bool is_only_fin_owed(const struct sock *sk, const struct tcp_sock *tp)
{
	return sk->__sk_common.skc_state == TCP_LAST_ACK && tp->write_seq - tp->snd_una == 1;
}

/* tcp_get_info_chrono_stats() for RWND_LIMITED */
static __always_inline u32 rwnd_limited_jiffies(const struct tcp_sock *tp)
{
	u32 jiffies = tp->chrono_stat[TCP_CHRONO_RWND_LIMITED - 1];

	if (tcp_chrono_type(tp) == TCP_CHRONO_RWND_LIMITED)
		jiffies += (u32)bpf_jiffies64() - tp->chrono_start;
	return jiffies;
}

static __always_inline void ledger_init(struct socket_state *st, const struct tcp_sock *tp,
					u8 state, u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;

	__builtin_memset(led, 0, sizeof(*led));
	st->since_ns = now_ns;
	led->accounted_ns = now_ns;
	begin_sent(led, tp, now_ns);
	led->best_ns = NSEC_PER_USEC;
	led->unseen = state != TCP_ESTABLISHED;
	led->fin_sent = is_fin_sent(state);
	led->rwnd_jiffies = rwnd_limited_jiffies(tp);
	led->stage = STAGE_IN_FLIGHT;
	led->srtt_us = tp->srtt_us;
	led->delivered = tp->delivered;
	led->first_data_seg = tp->data_segs_out;
	led->dsack_dups = tp->dsack_dups;
	led->total_retrans = tp->total_retrans;
	if (tp->delivered > 1) /* not a new one: the window may have been larger before */
		led->grown_wnd_bytes = tp->max_window;
	track_loss(led, tp);
	remember(st, tp);
}

/*
 * When the present flight began. tcp_rate_skb_sent() notes that time when it sends with nothing
 * out; of a flight that was acknowledged before any hook saw it, the newest segment's time of
 * sending is left (tcp_rate_skb_delivered()).
 */
static __always_inline u64 flight_began_ns(const struct stage_ledger *led,
					   const struct tcp_sock *tp, u64 now_ns)
{
	if (tp->packets_out)
		return delivered_ns(tp);
	if (seq_diff(tp->snd_una, led->write_seq) > 0)
		return tp->first_tx_mstamp * NSEC_PER_USEC;
	return now_ns;
}

/*
 * Accounts time in which all sent data was acknowledged, and the application gave no data until the present
 * flight.
 */
static __always_inline void account_idle(struct stage_ledger *led, const struct tcp_sock *tp,
					 u64 now_ns)
{
	u64 start_ns = flight_began_ns(led, tp, now_ns);

	if (start_ns > now_ns)
		start_ns = now_ns;
	if (start_ns < led->accounted_ns)
		start_ns = led->accounted_ns;
	/* more was sent since, and acknowledged, if this flight begins elsewhere */
	if (tp->snd_una == led->write_seq)
		note_pause(led, tp, start_ns);
	account_in_flight(led, tp, start_ns);
	led->sent_ns = start_ns;
}

#endif
