/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The stage ledger: at any moment a sending socket is in exactly one stage, the thing that stops
 * the next byte. Three hooks advance it: a send call that ends, an incoming segment (tcp_probe,
 * which runs before the kernel acts on the segment, so that it sees the state of the interval
 * just ended), and a change of congestion state. Between hooks nothing but timers changes what
 * stops a socket.
 *
 * Two stages are known only when they end. A wait for an ACK is found to have been a delayed ACK
 * when the ACK comes and the receiver's timer must have sent it; a stall is found to have been a
 * loss when a probe or a timeout mends it. Until then their time stands under what was seen, and
 * is moved then.
 *
 * A segment that meets a quiet socket (all sent, nobody waiting for room, nothing overdue) changes
 * nothing that a later hook could not find out, so it costs no clock reading and no account: that
 * is what makes the ledger cheap where there is nothing to see. The kernel's own stamps
 * (tcp_mstamp: the last segment taken or sent; delivered_mstamp: the last delivery, or the start of
 * a flight) tell the times afterwards.
 */
#ifndef WHYLAT_TCP_STAGES_BPF_H
#define WHYLAT_TCP_STAGES_BPF_H

#include "../bpf/ring.h"
#include "../bpf/socket.h"

extern int CONFIG_HZ __kconfig __weak;

#define NSEC_PER_USEC 1000ULL
#define NSEC_PER_SEC 1000000000ULL
#define USEC_PER_SEC 1000000ULL
/* TCP_DELACK_MIN and TCP_ATO_MIN are HZ / 25 (include/net/tcp.h). */
#define TCP_DELACK_MIN_NS (NSEC_PER_SEC / 25)

#define STALL_NONE 0
#define STALL_TAIL_LOSS_PROBE 1
#define STALL_TIMEOUT 2

static __always_inline u64 jiffy_ns(void)
{
	return CONFIG_HZ ? NSEC_PER_SEC / CONFIG_HZ : NSEC_PER_SEC / 100;
}

static __always_inline u64 srtt_ns(const struct tcp_sock *tp)
{
	return (u64)(tp->srtt_us >> 3) * NSEC_PER_USEC;
}

/* The path's round-trip time: the least in the kernel's window, 0 before the first sample. */
static __always_inline u64 path_rtt_ns(const struct tcp_sock *tp)
{
	u32 min_rtt_us = tp->rtt_min.s[0].v;

	return min_rtt_us == ~0U ? 0 : (u64)min_rtt_us * NSEC_PER_USEC;
}

static __always_inline u8 tcp_chrono_type(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, chrono_type);
}

static __always_inline u8 tcp_ca_state(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
}

static __always_inline u8 tcp_nonagle(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, nonagle);
}

/* tcp_packets_in_flight() */
static __always_inline u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

static __always_inline bool pacing_timer_armed(const struct tcp_sock *tp)
{
	if (bpf_core_field_exists(struct hrtimer, state))
		return tp->pacing_timer.state & HRTIMER_STATE_ENQUEUED;
	return BPF_CORE_READ((struct hrtimer___is_queued *)&tp->pacing_timer, is_queued);
}

static __always_inline bool is_bbr(const struct tcp_sock *tp)
{
	char name[4] = {};

	bpf_probe_read_kernel(name, sizeof(name), tp->inet_conn.icsk_ca_ops->name);
	return name[0] == 'b' && name[1] == 'b' && name[2] == 'r';
}

/* Why the congestion window is small. BBR leaves ssthresh infinite for life: not a start. */
static __always_inline u32 cwnd_cause(const struct stage_ledger *led, const struct tcp_sock *tp)
{
	if (tcp_ca_state(tp) == TCP_CA_CWR)
		return STAGE_CWND_CWR;
	if (led->had_loss)
		return STAGE_CWND_LOSS;
	if (tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH && !is_bbr(tp))
		return STAGE_CWND_STARTUP;
	return STAGE_CWND_PROBING;
}

/* What stops the next byte while some are unsent; the order of tcp_write_xmit()'s tests. */
static __always_inline u32 brake_on_unsent(const struct stage_ledger *led, struct sock *sk,
					   const struct tcp_sock *tp, u32 unsent)
{
	bool tail = unsent < tp->mss_cache;
	u8 nonagle;

	if (tcp_chrono_type(tp) == TCP_CHRONO_RWND_LIMITED)
		return STAGE_RECEIVER_WINDOW;
	if (packets_in_flight(tp) >= tp->snd_cwnd)
		return tcp_ca_state(tp) == TCP_CA_Recovery ? STAGE_FAST_RETRANSMIT
							   : cwnd_cause(led, tp);
	if (pacing_timer_armed(tp))
		return STAGE_PACING;
	nonagle = tcp_nonagle(tp);
	if (tail && (nonagle & TCP_NAGLE_CORK))
		return STAGE_CORK;
	if (sk->sk_tsq_flags & TSQ_HELD)
		/* tcp_should_autocork() sets TSQ_THROTTLED for a short tail, too */
		return tail ? STAGE_CORK : STAGE_LOCAL_QUEUE;
	if (tail && tp->packets_out && !(nonagle & (TCP_NAGLE_OFF | TCP_NAGLE_PUSH)))
		return STAGE_NAGLE;
	if (tail && !tp->packets_out)
		return STAGE_CORK; /* MSG_MORE: nothing in flight, and not pushed */
	/* tcp_tso_should_defer() waits for room for a larger segment */
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return tcp_ca_state(tp) == TCP_CA_Recovery ? STAGE_FAST_RETRANSMIT
							   : cwnd_cause(led, tp);
	return STAGE_UNKNOWN;
}

/* sk_stream_is_writeable(): no writer can be waiting for room. */
static __always_inline bool writer_has_room(const struct sock *sk)
{
	return sk->sk_wmem_queued + (sk->sk_wmem_queued >> 1) <= sk->sk_sndbuf;
}

/* What stops the next byte now. STAGE_IN_FLIGHT stands for "all sent, not all acknowledged". */
static __always_inline u32 brake(const struct stage_ledger *led, struct sock *sk,
				 const struct tcp_sock *tp)
{
	s32 unsent = seq_diff(tp->write_seq, tp->snd_nxt);

	if (unsent > 0)
		return brake_on_unsent(led, sk, tp, unsent);
	if (tp->write_seq == tp->snd_una)
		return STAGE_SENDER_APP;
	if (!writer_has_room(sk) && sk->sk_socket &&
	    (sk->sk_socket->flags & (1UL << SOCK_NOSPACE)) &&
	    packets_in_flight(tp) < tp->snd_cwnd &&
	    seq_diff(tp->snd_una + tp->snd_wnd, tp->snd_nxt) >= (s32)tp->mss_cache)
		return STAGE_SEND_BUFFER;
	return STAGE_IN_FLIGHT;
}

static __always_inline void account(struct stage_ledger *led, u32 stage, u64 until_ns)
{
	u64 from_ns = led->accounted_ns;

	/* or the compiler tests one copy of the index and uses another */
	barrier_var(stage);
	if (stage >= STAGE_COUNT || until_ns <= from_ns || led->ended)
		return;
	led->stage_ns[stage] += until_ns - from_ns;
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
	if (led->due_ns < led->accounted_ns)
		led->due_ns = led->accounted_ns;
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

static __always_inline void advance(struct stage_ledger *led, const struct tcp_sock *tp, u32 stage,
				    u64 now_ns)
{
	if (stage == STAGE_IN_FLIGHT)
		account_in_flight(led, tp, now_ns);
	else
		account(led, stage, now_ns);
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

/* Progress: what was late until now was a stall if something had to be sent again to end it. */
static __always_inline void end_stall(struct stage_ledger *led)
{
	u32 stage = STAGE_COUNT;

	led->probed_ns = 0;
	if (led->stalled == STALL_TIMEOUT) {
		stage = STAGE_RETRANSMIT_TIMEOUT;
		led->timeout_stalls++;
	} else if (led->stalled == STALL_TAIL_LOSS_PROBE) {
		stage = STAGE_TAIL_LOSS;
		led->tail_loss_stalls++;
	}
	if (led->late) {
		u64 moved_ns = settle_late(led, stage);

		if (stage == STAGE_TAIL_LOSS)
			led->probed_ns = moved_ns;
	}
	led->stalled = STALL_NONE;
	led->due_ns = 0;
}

/* The receiver reported a duplicate (DSACK) right after a tail-loss probe: nothing had been lost,
 * the ACK was late. Its time goes back to where it was. */
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
 * tcp_rtt_estimator() runs at most once an ACK: srtt += sample - srtt / 8, so the sample follows
 * from srtt before and after. An unchanged srtt with new deliveries and no retransmission was a
 * sample equal to it.
 */
static __always_inline void take_rtt_sample(struct stage_ledger *led, const struct tcp_sock *tp)
{
	u32 srtt_us = tp->srtt_us, before_us = led->srtt_us;

	if (srtt_us != before_us) {
		led->rtt_sum_us +=
			before_us ? srtt_us - before_us + (before_us >> 3) : srtt_us >> 3;
		led->rtt_samples++;
	} else if (srtt_us && tp->delivered != led->delivered &&
		   tp->total_retrans == led->total_retrans) {
		led->rtt_sum_us += srtt_us >> 3;
		led->rtt_samples++;
	}
	led->srtt_us = srtt_us;
	led->delivered = tp->delivered;
	led->total_retrans = tp->total_retrans;
}

/* tcp_rate_gen() leaves its newest sample in rate_delivered and rate_interval_us. */
static __always_inline void track_best_rate(struct stage_ledger *led, const struct tcp_sock *tp)
{
	u64 delivered = tp->rate_delivered, interval_us = tp->rate_interval_us;

	if (interval_us && (!led->best_interval_us || delivered * led->best_interval_us >
							      led->best_delivered * interval_us)) {
		led->best_delivered = delivered;
		led->best_interval_us = interval_us;
	}
}

static __always_inline void remember(struct stage_ledger *led, const struct tcp_sock *tp,
				     u32 snd_una)
{
	led->write_seq = tp->write_seq;
	led->snd_nxt = tp->snd_nxt;
	led->idle = tp->write_seq == snd_una;
	led->changed = 1;
}

static __always_inline void ledger_init(struct stage_ledger *led, const struct tcp_sock *tp,
					u64 now_ns)
{
	__builtin_memset(led, 0, sizeof(*led));
	led->since_ns = now_ns;
	led->accounted_ns = now_ns;
	led->sent_ns = now_ns;
	led->srtt_us = tp->srtt_us;
	led->delivered = tp->delivered;
	led->total_retrans = tp->total_retrans;
	led->dsack_dups = tp->dsack_dups;
	remember(led, tp, tp->snd_una);
}

/*
 * The last hook left all acknowledged: the application gave nothing until the present flight
 * began. tcp_rate_skb_sent() notes that time when it sends with nothing out.
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

/* The window that this socket announces: is there any beyond rcv_nxt? */
static __always_inline bool own_window_closed(const struct tcp_sock *tp)
{
	return seq_diff(tp->rcv_wup + tp->rcv_wnd, tp->rcv_nxt) <= 0;
}

static __always_inline void track_own_window(struct stage_ledger *led, const struct tcp_sock *tp,
					     u64 now_ns)
{
	if (led->window_closed_since_ns)
		led->window_closed_ns += now_ns - led->window_closed_since_ns;
	led->window_closed_since_ns = own_window_closed(tp) ? now_ns : 0;
}

/*
 * Bytes arrive in order. Since when they wait for the reader is read off tcp_mstamp: by the next
 * hook if none but this segment was taken until then, else by the next segment's.
 */
static __always_inline void on_data_arrival(struct stage_ledger *led, const struct tcp_sock *tp,
					    u32 seq, u32 end_seq)
{
	if (led->ready) {
		if (!led->ready_ns)
			led->ready_ns = tp->tcp_mstamp * NSEC_PER_USEC;
	} else if (tp->copied_seq == tp->rcv_nxt && seq_diff(seq, tp->rcv_nxt) <= 0 &&
		   seq_diff(end_seq, tp->rcv_nxt) > 0) {
		led->ready = 1;
		led->ready_ns = 0;
	}
}

/* Nothing has to be accounted at this segment: see the head of this file. */
static __always_inline bool is_quiet(const struct stage_ledger *led, const struct sock *sk,
				     const struct tcp_sock *tp)
{
	return tp->write_seq == tp->snd_nxt && tp->snd_nxt == led->snd_nxt && !led->hold_ns &&
	       !led->due_ns && !led->stalled && !led->window_closed_since_ns &&
	       !own_window_closed(tp) && tp->dsack_dups == led->dsack_dups &&
	       led->zero_window == !tp->snd_wnd && writer_has_room(sk);
}

/* tcp_probe: a segment arrived at a quiet socket. */
static __always_inline void stages_on_quiet_segment(struct stage_ledger *led,
						    const struct tcp_sock *tp, u32 seq, u32 end_seq,
						    u32 ack_seq)
{
	take_rtt_sample(led, tp);
	on_data_arrival(led, tp, seq, end_seq);
	led->stage_known = 0;
	if (led->probed_ns)
		led->probed_ns = 0;
	led->idle = seq_diff(ack_seq, tp->snd_una) > 0 ? ack_seq == tp->write_seq
						       : tp->snd_una == tp->write_seq;
	led->changed = 1;
}

/* tcp_probe: a segment arrived and is not yet acted on. */
static __always_inline void stages_on_segment(struct stage_ledger *led, struct sock *sk,
					      const struct tcp_sock *tp, u32 seq, u32 end_seq,
					      u32 ack_seq, u64 now_ns)
{
	bool sent = seq_diff(tp->snd_nxt, led->snd_nxt) > 0;
	u32 snd_una = tp->snd_una, stage;

	take_rtt_sample(led, tp);
	if (tp->write_seq == snd_una) {
		account_in_flight(led, tp, now_ns);
	} else {
		if (led->idle)
			account_idle(led, tp, now_ns);
		else if (sent)
			led->sent_ns = led->accounted_ns;
		if (is_overdue(led, tp, now_ns))
			find_due(led, sk, tp);
		stage = brake(led, sk, tp);
		track_hold(led, stage, led->accounted_ns);
		advance(led, tp, stage, now_ns);
	}
	if (seq_diff(ack_seq, snd_una) > 0) {
		snd_una = ack_seq;
		if (led->hold_stage != STAGE_NAGLE || seq_diff(ack_seq, tp->snd_sml) >= 0)
			end_hold(led, tp, seq == end_seq, now_ns);
		end_stall(led);
	}
	if (led->had_loss && tp->snd_cwnd >= tp->prior_cwnd)
		led->had_loss = 0;
	track_best_rate(led, tp);
	led->stage_known = 0;
	on_data_arrival(led, tp, seq, end_seq);
	track_own_window(led, tp, now_ns);
	remember(led, tp, snd_una);
}

/* The stage of the interval that a send call ends, judged by what the call found. */
static __always_inline u32 stage_before_send(const struct stage_ledger *led, struct sock *sk,
					     const struct tcp_sock *tp)
{
	if (led->stage_known)
		return led->stage;
	/* bytes of earlier calls are unsent even now: what stops them stopped them then */
	if (seq_diff(led->write_seq, tp->snd_nxt) > 0)
		return brake(led, sk, tp);
	return STAGE_IN_FLIGHT;
}

/* sock_send_length: a send call ended; the socket is as the call left it. */
static __always_inline void stages_on_send(struct stage_ledger *led, struct sock *sk,
					   const struct tcp_sock *tp, u64 now_ns)
{
	if (led->idle)
		account_idle(led, tp, now_ns);
	else if (is_overdue(led, tp, now_ns))
		find_due(led, sk, tp);
	advance(led, tp, led->idle ? STAGE_IN_FLIGHT : stage_before_send(led, sk, tp), now_ns);
	if (seq_diff(tp->snd_nxt, led->snd_nxt) > 0)
		led->sent_ns = now_ns;
	led->stage = brake(led, sk, tp);
	led->stage_known = 1;
	track_hold(led, led->stage, now_ns);
	remember(led, tp, tp->snd_una);
}

/*
 * sock_recv_length: a receive call ended. Bytes that were ready before the reader came waited for
 * it; a reader that was blocked in the call when they came did not let them wait.
 */
static __always_inline void stages_on_receive(struct stage_ledger *led, const struct tcp_sock *tp,
					      u64 blocked_since_ns, u64 now_ns)
{
	u64 ready_ns = led->ready_ns ? led->ready_ns : tp->tcp_mstamp * NSEC_PER_USEC;

	if (led->ready) {
		if (ready_ns < now_ns && (!blocked_since_ns || blocked_since_ns > ready_ns)) {
			led->reader_slow_ns += now_ns - ready_ns;
			led->reader_slow_waits++;
		}
		led->ready = tp->copied_seq != tp->rcv_nxt;
		led->ready_ns = led->ready ? now_ns : 0;
	}
	if (led->window_closed_since_ns)
		track_own_window(led, tp, now_ns);
	led->changed = 1;
}

/* tcp_cong_state_set: called before a timeout's first retransmission leaves. */
static __always_inline void stages_on_congestion_state(struct stage_ledger *led, struct sock *sk,
						       const struct tcp_sock *tp, u8 state)
{
	if (state == TCP_CA_Recovery || state == TCP_CA_Loss)
		led->had_loss = 1;
	if (state != TCP_CA_Loss)
		return;
	find_due(led, sk, tp);
	led->stalled = STALL_TIMEOUT;
	led->changed = 1;
}

static __always_inline void stages_on_tail_loss_probe(struct stage_ledger *led, struct sock *sk,
						      const struct tcp_sock *tp)
{
	find_due(led, sk, tp);
	if (led->stalled == STALL_NONE)
		led->stalled = STALL_TAIL_LOSS_PROBE;
	led->changed = 1;
}

/* tcp_get_info_chrono_stats() for RWND_LIMITED */
static __always_inline u32 rwnd_limited_jiffies(const struct tcp_sock *tp)
{
	u32 jiffies = tp->chrono_stat[TCP_CHRONO_RWND_LIMITED - 1];

	if (tcp_chrono_type(tp) == TCP_CHRONO_RWND_LIMITED)
		jiffies += (u32)bpf_jiffies64() - tp->chrono_start;
	return jiffies;
}

/*
 * After the application has closed, no ACK passes tcp_probe (tcp_rcv_state_process() takes them).
 * The kernel's own clock still tells how long the receiver's window was the limit; the rest of the
 * interval counts as what was seen at its beginning.
 */
static __always_inline void account_draining(struct stage_ledger *led, struct sock *sk,
					     const struct tcp_sock *tp, u64 now_ns)
{
	u32 jiffies = rwnd_limited_jiffies(tp);
	u64 until_ns = led->accounted_ns + (u32)(jiffies - led->rwnd_jiffies) * jiffy_ns();

	account(led, STAGE_RECEIVER_WINDOW, until_ns < now_ns ? until_ns : now_ns);
	advance(led, tp, led->stage == STAGE_RECEIVER_WINDOW ? STAGE_IN_FLIGHT : led->stage,
		now_ns);
	led->rwnd_jiffies = jiffies;
	led->stage = brake(led, sk, tp);
}

/* Accounts until now without a hook's news: for a reading. */
static __always_inline void stages_on_read(struct stage_ledger *led, struct sock *sk,
					   const struct tcp_sock *tp, u64 now_ns)
{
	u32 stage;

	if (led->draining) {
		account_draining(led, sk, tp, now_ns);
	} else if (tp->write_seq == tp->snd_una) {
		account_in_flight(led, tp, now_ns);
	} else {
		if (led->idle)
			account_idle(led, tp, now_ns);
		if (is_overdue(led, tp, now_ns))
			find_due(led, sk, tp);
		stage = brake(led, sk, tp);
		track_hold(led, stage, led->accounted_ns);
		advance(led, tp, stage, now_ns);
	}
	led->stage_known = 0;
	remember(led, tp, tp->snd_una);
	track_own_window(led, tp, now_ns);
}

/* inet_sock_set_state: the application closes, and at last our FIN is acknowledged. */
static __always_inline void stages_on_closing(struct stage_ledger *led, struct sock *sk,
					      const struct tcp_sock *tp, int state, u64 now_ns)
{
	stages_on_read(led, sk, tp, now_ns);
	if (state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK) {
		led->draining = 1;
		led->rwnd_jiffies = rwnd_limited_jiffies(tp);
		led->stage = brake(led, sk, tp);
	} else if (led->draining) {
		end_stall(led);
		led->ended = 1;
	}
}

/* Copies the ledger out; a stall or a closed window that still lasts is counted as what it is. */
static __always_inline void stages_copy(struct stage_reading *out, const struct socket_state *st,
					const struct tcp_sock *tp, bool closed)
{
	const struct stage_ledger *led = &st->ledger;
	u32 stage = led->stalled == STALL_TIMEOUT ? STAGE_RETRANSMIT_TIMEOUT : STAGE_TAIL_LOSS;
	u64 moved_ns = 0, late_ns;

	for (int i = 0; i < STAGE_COUNT; i++) {
		late_ns = led->stalled ? led->late_ns[i] : 0;
		out->stage_ns[i] = led->stage_ns[i] - late_ns;
		moved_ns += late_ns;
	}
	out->stage_ns[stage] += moved_ns;
	out->cookie = st->cookie;
	out->time_ns = led->accounted_ns;
	out->since_ns = led->since_ns;
	out->longest_hold_ns = led->longest_hold_ns;
	out->rtt_sum_us = led->rtt_sum_us;
	out->reader_slow_ns = led->reader_slow_ns;
	out->window_closed_ns = led->window_closed_ns;
	out->best_rate_bytes_per_s = led->best_interval_us
					     ? (u64)led->best_delivered * tp->mss_cache *
						       USEC_PER_SEC / led->best_interval_us
					     : 0;
	out->rtt_samples = led->rtt_samples;
	out->nagle_holds = led->nagle_holds;
	out->delayed_acks = led->delayed_acks;
	out->timeout_stalls = led->timeout_stalls;
	out->tail_loss_stalls = led->tail_loss_stalls;
	out->reader_slow_waits = led->reader_slow_waits;
	out->closed = closed;
	out->nodelay = tcp_nonagle(tp) & TCP_NAGLE_OFF;
	__builtin_memset(out->pad, 0, sizeof(out->pad));
}

#endif
