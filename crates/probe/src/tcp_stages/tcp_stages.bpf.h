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
 * loss when a probe or a timeout fixes it. Until then their time is in what was seen, and
 * is moved then.
 *
 * A segment that meets a quiet socket (all sent, nobody waiting for room, nothing overdue) changes
 * nothing that a later hook could not find out, so it is let through with a look at the socket:
 * that is what makes the ledger cheap where there is nothing to see. The kernel's own stamps
 * (tcp_mstamp: the last segment taken or sent; delivered_mstamp: the last delivery, or the start of
 * a flight) show the times afterwards. Only a bare ACK after 20 ms of silence is examined all the
 * same: the delayed-ACK timer may have sent it (delayed_ack.bpf.h).
 */
#ifndef WHYLAT_TCP_STAGES_BPF_H
#define WHYLAT_TCP_STAGES_BPF_H

#include "../bpf/ring.h"
#include "ledger.bpf.h"
#include "reader.bpf.h"
#include "unseen.bpf.h"

struct stage_reading_record {
	struct record_header header;
	struct stage_reading reading;
};

/* Returns whether all data is sent, and nothing stops the next byte: see the head of this file. */
static __always_inline bool sender_is_quiet(const struct sock *sk, const struct tcp_sock *tp)
{
	return tp->write_seq == tp->snd_nxt && tp->snd_wnd && writer_has_room(sk);
}

/* Must this segment be examined? */
static __always_inline bool segment_matters(const struct socket_state *st, const struct sock *sk,
					    const struct tcp_sock *tp)
{
	return st->watched || !sender_is_quiet(sk, tp) || own_window_closed(tp);
}

/*
 * The same, and note_ready(), before anything is known of the socket: most segments end here. Its
 * own window closes upon bytes that are not read.
 */
static __always_inline bool segment_may_matter(const struct sock *sk, const struct tcp_sock *tp)
{
	return may_be_watched(sk) || tp->copied_seq != tp->rcv_nxt || !sender_is_quiet(sk, tp);
}

/* Accounts what is not acknowledged, by what stops it now. */
static __always_inline void account_unacknowledged(struct stage_ledger *led, struct sock *sk,
						   const struct tcp_sock *tp, u64 now_ns)
{
	u32 stage;

	if (was_acknowledged(led, tp))
		account_idle(led, tp, now_ns);
	if (seq_diff(tp->snd_nxt, led->snd_nxt) > 0)
		account_sent(led, sk, tp, now_ns);
	if (is_overdue(led, tp, now_ns))
		find_due(led, sk, tp);
	stage = send_limit(led, sk, tp);
	track_hold(led, stage, led->accounted_ns);
	advance(led, tp, stage, now_ns);
}

/*
 * A peer is examined only while either end has something to say. Until then nothing held it: each
 * segment that was delivered was under way for the path's round trip at most, and the rest is the
 * application's.
 */
static __always_inline void account_asleep(struct socket_state *st, const struct tcp_sock *tp,
					   u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;
	u64 from_ns = led->accounted_ns, until_ns = tp->packets_out ? delivered_ns(tp) : now_ns;
	u64 arrived_ns = from_ns + (u32)(tp->delivered - led->delivered) * path_rtt_ns(tp);

	if (st->chosen != CHOSEN_PEER || st->watched || led->unseen || until_ns <= from_ns)
		return;
	account(led, STAGE_IN_FLIGHT, arrived_ns < until_ns ? arrived_ns : until_ns);
	account(led, STAGE_SENDER_APP, until_ns);
	led->asleep_ns += until_ns - from_ns;
	begin_sent(led, tp, until_ns);
}

/*
 * When it is: a hook that had read its clock before it came by the ledger may be behind the one that had it meanwhile.
 * A function of its own, as verifiers up to Linux 6.1 follow each branch to the end of the program.
 */
__noinline u64 ledger_time(struct stage_ledger *led, u64 now_ns)
{
	return led && now_ns < led->accounted_ns ? led->accounted_ns : now_ns;
}

/* Before anything else is accounted: what passed since the last look. Returns when it is. */
static __always_inline u64 wake(struct socket_state *st, const struct tcp_sock *tp, u64 now_ns)
{
	now_ns = ledger_time(&st->ledger, now_ns);
	account_asleep(st, tp, now_ns);
	take_rtt_sample(&st->ledger, tp, st->watched);
	return now_ns;
}

/* tcp_probe: a segment arrived and is not yet acted on. */
static __always_inline void stages_on_segment(struct socket_state *st, struct sock *sk,
					      const struct tcp_sock *tp, u32 ack_seq, bool bare,
					      u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;
	s32 acked_bytes = seq_diff(ack_seq, tp->snd_una);

	now_ns = wake(st, tp, now_ns);
	if (tp->write_seq == tp->snd_una)
		account_acknowledged(led, tp, now_ns);
	else
		account_unacknowledged(led, sk, tp, now_ns);
	if (acked_bytes > 0) {
		note_timeout_ack(led, tp, acked_bytes, bare, now_ns);
		if (led->hold_stage != STAGE_NAGLE || seq_diff(ack_seq, tp->snd_sml) >= 0)
			end_hold(led, tp, acked_bytes, bare && ack_seq == tp->snd_nxt, now_ns);
		if (bare)
			note_ack(led, sk, tp, acked_bytes, now_ns);
		end_stall(led, tp);
	}
	track_loss(led, tp);
	if (tcp_ca_state(tp) >= TCP_CA_Recovery)
		led->recovery_ns = now_ns;
	track_best_rate(led, tp, now_ns);
	led->stage_known = 0;
	track_own_window(led, tp, now_ns);
	remember(st, tp);
}

/* The stage of the interval that a send call ends, judged by what the call found. */
static __always_inline u32 stage_before_send(const struct stage_ledger *led, struct sock *sk,
					     const struct tcp_sock *tp)
{
	if (led->stage_known)
		return led->stage;
	/* bytes of earlier calls are unsent even now: what stops them stopped them then */
	if (seq_diff(led->write_seq, tp->snd_nxt) > 0)
		return send_limit(led, sk, tp);
	return STAGE_IN_FLIGHT;
}

/* A send call that only begins a flight: what was sent before is acknowledged, and all is sent. */
static __always_inline bool send_is_quiet(const struct socket_state *st, const struct sock *sk,
					  const struct tcp_sock *tp)
{
	return !st->watched && !st->ledger.unseen && was_acknowledged(&st->ledger, tp) &&
	       sender_is_quiet(sk, tp);
}

/* Such a call: the interval before it was the last flight, and the application. */
static __always_inline void note_flight(struct stage_ledger *led, const struct tcp_sock *tp)
{
	account_idle(led, tp, tp->tcp_mstamp * NSEC_PER_USEC);
	led->stage = STAGE_IN_FLIGHT;
	led->stage_known = 1;
	note_sequence(led, tp);
}

/* sock_send_length: a send call ended; the socket is as the call left it. */
static __always_inline void stages_on_send(struct socket_state *st, struct sock *sk,
					   const struct tcp_sock *tp, bool quiet, u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;

	now_ns = wake(st, tp, now_ns);
	if (quiet) {
		note_flight(led, tp);
		return;
	}
	if (led->unseen) { /* of a stall that has ended the next reading shows */
		account_unseen(led, sk, tp, false, now_ns);
	} else if (was_acknowledged(led, tp)) {
		account_idle(led, tp, now_ns);
		account_in_flight(led, tp, now_ns);
	} else {
		if (is_overdue(led, tp, now_ns))
			find_due(led, sk, tp);
		advance(led, tp, stage_before_send(led, sk, tp), now_ns);
	}
	if (seq_diff(tp->snd_nxt, led->snd_nxt) > 0)
		note_sent(led, tp, now_ns);
	if (!led->unseen) /* or account_unseen() has noted it */
		led->stage = send_limit(led, sk, tp);
	led->stage_known = 1;
	track_hold(led, led->stage, now_ns);
	remember(st, tp);
}

/* A receive call on a socket with more to report. */
static __always_inline void stages_on_late_receive(struct socket_state *st,
						   const struct tcp_sock *tp, bool late, u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;

	now_ns = wake(st, tp, now_ns);
	led->reader_late = late;
	track_own_window(led, tp, now_ns);
	if (late)
		set_watched(st, 1);
	/* the answer is here to what was held: no hook saw it leave */
	if (led->hold_ns && tp->write_seq == tp->snd_una && !led->unseen) {
		account_acknowledged(led, tp, now_ns);
		remember(st, tp);
	}
}

/*
 * sock_recv_length: a receive call gave bytes. If they were ready before the reader came, they
 * waited for it; a reader that was blocked in the call when they came did not let them wait. On a
 * healthy connection no lock is taken: the sums are the reader's alone. An atomic instruction would wait
 * for all that the kernel has just written to the socket. Returns how long they waited, ns, or UNREAD_UNSEEN.
 */
static __always_inline u64 stages_on_receive(struct socket_state *st, const struct sock *sk,
					     const struct tcp_sock *tp, u32 received,
					     struct call_blocked blocked, u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;
	struct ready_time ready = take_ready(st, tp, received, now_ns);
	u64 unread_ns = 0;
	bool late;

	late = st->chosen == CHOSEN_PEER && now_ns > ready.ns + 2 * jiffy_ns();
	if (ready.ns < now_ns &&
	    !(blocked.since_ns && blocked.since_ns <= ready.ns && ready.ns <= blocked.until_ns)) {
		/* a call that wants more blocks after it has found them (MSG_WAITALL) */
		unread_ns = (ready.ns < blocked.since_ns ? blocked.since_ns : now_ns) - ready.ns;
		led->reader_slow_ns += unread_ns;
		led->reader_slow_waits++;
		led->reader_slow_by_jiffy += ready.by_jiffy | ready.unseen;
	}
	if (bytes_ready(sk, tp))
		note_left(led, tp, now_ns);
	led->changed = 1;
	if (detail_ledger &&
	    (led->window_closed_since_ns || led->hold_ns || late != led->reader_late) &&
	    ledger_try_lock(st)) {
		stages_on_late_receive(st, tp, late, now_ns);
		ledger_unlock(st);
	}
	return ready.unseen ? UNREAD_UNSEEN : unread_ns;
}

/* tcp_cong_state_set: called before a timeout's first retransmission leaves. */
static __always_inline void stages_on_congestion_state(struct socket_state *st, struct sock *sk,
						       const struct tcp_sock *tp, u8 state,
						       u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;

	if (is_only_fin_owed(sk, tp))
		return;
	track_burst_loss(led, tp, state, now_ns);
	if (state == TCP_CA_Recovery || state == TCP_CA_Loss)
		led->had_loss = loss_of_state(state);
	if (state != TCP_CA_Loss) {
		if (tcp_ca_state(tp) == TCP_CA_Loss)
			take_back_timeouts(led, tp, now_ns);
		return;
	}
	now_ns = wake(st, tp, now_ns);
	find_due(led, sk, tp);
	begin_timeout(led, tp, now_ns);
	led->changed = 1;
	set_watched(st, 1);
}

static __always_inline void stages_on_tail_loss_probe(struct socket_state *st, struct sock *sk,
						      const struct tcp_sock *tp, u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;

	if (is_only_fin_owed(sk, tp))
		return;
	now_ns = wake(st, tp, now_ns);
	find_due(led, sk, tp);
	if (led->stalled == STALL_NONE) {
		led->stalled = STALL_TAIL_LOSS_PROBE;
		led->thin = tp->packets_out <= TCP_FASTRETRANS_THRESH;
	}
	led->changed = 1;
	set_watched(st, 1);
}

/* Accounts until now without a hook's news: for a reading. */
static __always_inline void stages_on_read(struct socket_state *st, struct sock *sk,
					   const struct tcp_sock *tp, u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;

	now_ns = wake(st, tp, now_ns);
	if (led->unseen)
		account_unseen(led, sk, tp, stall_ended_unseen(led, tp), now_ns);
	else if (tp->write_seq == tp->snd_una)
		account_acknowledged(led, tp, now_ns);
	else
		account_unacknowledged(led, sk, tp, now_ns);
	led->stage_known = 0;
	drop_old_note(led, tp);
	track_own_window(led, tp, now_ns);
	if (stall_ended_unseen(led, tp))
		end_stall(led, tp);
	remember(st, tp);
}

/* inet_sock_set_state: an end closes, and at last our FIN is acknowledged. */
static __always_inline void stages_on_closing(struct socket_state *st, struct sock *sk,
					      const struct tcp_sock *tp, int state, u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;

	stages_on_read(st, sk, tp, now_ns);
	if (led->fin_sent && state != TCP_CLOSING) {
		end_stall(led, tp);
		led->ended = 1;
	}
	if (!led->unseen)
		begin_unseen(led, send_limit(led, sk, tp), rwnd_limited_jiffies(tp));
	/* tcp_close_state() comes before tcp_send_fin() */
	if (is_fin_sent(state) && !led->fin_sent && tp->write_seq == tp->snd_nxt) {
		led->stage = STAGE_IN_FLIGHT;
		led->sent_ns = now_ns;
	}
	led->fin_sent = is_fin_sent(state);
}

/* Copies the ledger out; a stall or a wait for the reader that still lasts is counted as such. */
static __always_inline void stages_copy(struct stage_reading *out, const struct socket_state *st,
					const struct sock *sk, const struct tcp_sock *tp,
					bool closed)
{
	const struct stage_ledger *led = &st->ledger;
	u32 stage = led->stalled == STALL_TIMEOUT ? STAGE_RETRANSMIT_TIMEOUT : STAGE_TAIL_LOSS;
	u64 moved_ns = 0, late_ns;

	for (int i = 0; i < STAGE_COUNT; i++) {
		late_ns = led->stalled ? led->late_ns[i] : 0;
		if (late_ns > led->stage_ns[i])
			late_ns = led->stage_ns[i];
		out->stage_ns[i] = led->stage_ns[i] - late_ns;
		moved_ns += late_ns;
	}
	out->stage_ns[stage] += moved_ns;
	out->cookie = st->cookie;
	out->time_ns = led->accounted_ns;
	out->since_ns = st->since_ns;
	out->longest_hold_ns = led->longest_hold_ns;
	out->rtt_sum_us = led->rtt_sum_us;
	out->reader_slow_ns = led->reader_slow_ns;
	out->window_closed_ns = led->window_closed_ns;
	out->best_rate_bytes_per_s = best_rate_bytes_per_s(led, tp);
	out->unseen_ns = led->unseen_ns;
	out->asleep_ns = led->asleep_ns;
	out->loss_limited_ns = led->loss_limited.ns;
	out->loss_limited_bytes = led->loss_limited_delivered * tp->mss_cache;
	out->loss_limited_retrans_bytes = (u64)led->loss_limited_retrans * tp->mss_cache;
	out->loss_limited_cwnd_byte_ms = led->loss_limited.cwnd_ns / NSEC_PER_MSEC * tp->mss_cache;
	out->window_growth_ns = led->wnd_growth_ns;
	out->send_buffer_growth_ns = led->sndbuf_growth_ns;
	out->stalls = led->stalls;
	out->rtt_samples = led->rtt_samples;
	out->nagle_holds = led->nagle_holds;
	out->delayed_acks = led->delayed_acks;
	out->acks_by_timer = led->acks_by_timer;
	out->data_segs_out = tp->data_segs_out - led->first_data_seg;
	out->timeout_stalls = led->timeout_stalls;
	out->tail_loss_stalls = led->tail_loss_stalls;
	out->reader_slow_waits = led->reader_slow_waits;
	out->reader_slow_by_jiffy = led->reader_slow_by_jiffy;
	out->max_send_queue_bytes = led->max_send_queue_bytes;
	out->max_snd_wnd_bytes = led->max_snd_wnd_bytes;
	if (bytes_ready(sk, tp)) {
		struct ready_time ready = ready_since(st, tp, led->accounted_ns);
		s64 waited_ns = led->accounted_ns - ready.ns;

		out->reader_slow_ns += waited_ns > 0 ? waited_ns : 0;
		out->reader_slow_waits++;
		out->reader_slow_by_jiffy += ready.by_jiffy | ready.unseen;
	}
	out->closed = closed;
	out->nodelay = tcp_nonagle(tp) & TCP_NAGLE_OFF;
	__builtin_memset(out->pad, 0, sizeof(out->pad));
}

/* For Rust, by way of the object's BTF. */
const struct stage_reading wire_stage_reading = {};
const enum stage wire_stage = 0;

#endif
