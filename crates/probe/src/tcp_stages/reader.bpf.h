/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The receiving side of a ledger: bytes that wait for their reader, and the window that the socket announces. */
#ifndef WHYLAT_READER_BPF_H
#define WHYLAT_READER_BPF_H

#include "../bpf/window.h"
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
 * Returns the time from which handle_tcp_probe() sees each segment of the socket. It does not see those of a peer, nor
 * those after shutdown(): then tcp_rcv_state_process() takes them.
 */
static __always_inline u64 segments_since_ns(const struct socket_state *st,
					     const struct tcp_sock *tp)
{
	u8 state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	u64 window_ns = window_begin();

	if (st->chosen == CHOSEN_PEER || (state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT))
		return (u64)-1;
	return window_ns > st->since_ns ? window_ns : st->since_ns;
}

/*
 * The time of a segment by the kernel's stamps. That of a delivery is its own if it is not before the hook, nor before
 * the last data: the kernel keeps the time of that in jiffies. A function of its own, as verifiers up to Linux 6.1
 * follow each branch to the end of the program.
 */
__noinline u64 segment_ns(u64 delivered_ns, u64 mstamp_ns, u64 hook_since_ns, u64 now_ns,
			  u64 since_jiffies)
{
	u64 received_ns;

	if (delivered_ns <= mstamp_ns && delivered_ns >= hook_since_ns &&
	    delivered_ns + (since_jiffies + 1) * jiffy_ns() >= now_ns)
		return delivered_ns;
	/* one jiffy apart may be no time at all */
	received_ns = since_jiffies > 1 ? now_ns - since_jiffies * jiffy_ns() : now_ns;
	return received_ns < mstamp_ns ? received_ns : mstamp_ns;
}

/* Since when bytes wait for the reader. */
struct ready_time {
	u64 ns;
	bool by_jiffy; /* exact to a jiffy only */
	bool unseen;   /* the same, for the kernel did not run the hook's program for the segment */
};

/*
 * Since when bytes wait for the reader that no segment noted: since the one segment that came last. If the hook saw
 * it, it acknowledged something (data_is_unstamped()), which is delivered_mstamp. tcp_mstamp is moved by the receive
 * call itself (tcp_rcv_space_adjust()).
 */
static __always_inline struct ready_time stamped_since(const struct socket_state *st,
						       const struct tcp_sock *tp, u64 now_ns)
{
	u32 since_jiffies = (u32)bpf_jiffies64() - tp->inet_conn.icsk_ack.lrcvtime;
	u64 mstamp_ns = tp->tcp_mstamp * NSEC_PER_USEC;
	u64 hook_since_ns = segments_since_ns(st, tp);
	struct ready_time since = {};

	since.ns = segment_ns(delivered_ns(tp), mstamp_ns, hook_since_ns, now_ns, since_jiffies);
	if (since.ns == delivered_ns(tp))
		return since;
	since.by_jiffy = since.ns < mstamp_ns;
	since.unseen = hook_since_ns < now_ns - (since_jiffies + 1) * jiffy_ns();
	return since;
}

/* A note of when bytes came: those from a sequence number to another. */
struct ready_note {
	u64 ns;
	u32 begin;
	u32 end;
};

static __always_inline bool note_covers(struct ready_note note, u32 seq)
{
	return seq_diff(note.begin, seq) <= 0 && seq_diff(note.end, seq) > 0;
}

/* Reads the note. False: another CPU is just writing it, or a call has used it. */
static __always_inline bool read_note(const struct stage_ledger *led, struct ready_note *note,
				      u32 *number)
{
	*number = READ_FIRST(led->ready_number);
	note->ns = READ_ONCE(led->ready_ns);
	note->begin = READ_ONCE(led->ready_begin);
	note->end = READ_ONCE(led->ready_end);
	return !(*number & 1) && READ_LAST(led->ready_number) == *number &&
	       *number != led->ready_taken;
}

/*
 * Bytes wait since then: those from copied_seq on, as far as they have come. The number is odd while the note is written: its
 * lowest bit stays right if two CPUs write at the same time.
 */
static __always_inline void set_ready(struct stage_ledger *led, const struct tcp_sock *tp,
				      u32 end_seq, u64 since_ns)
{
	u32 number = led->ready_number | 1;

	WRITE_ORDERED(led->ready_number, number);
	WRITE_ONCE(led->ready_begin, tp->copied_seq);
	WRITE_ONCE(led->ready_end, end_seq);
	WRITE_ONCE(led->ready_ns, since_ns);
	WRITE_ORDERED(led->ready_number, number + 1);
}

/* Returns whether a time is noted that no call has used. */
static __always_inline bool has_note(const struct stage_ledger *led)
{
	return led->ready_number != led->ready_taken;
}

/* Returns whether the noted time is that of the next byte, and not of earlier ones that were taken unseen (splice). */
static __always_inline bool ready_is_noted(const struct stage_ledger *led,
					   const struct tcp_sock *tp)
{
	struct ready_note note;
	u32 number;

	return read_note(led, &note, &number) && note_covers(note, tp->copied_seq);
}

/* Returns the time since which bytes wait for the reader. */
static __always_inline struct ready_time ready_since(const struct socket_state *st,
						     const struct tcp_sock *tp, u64 now_ns)
{
	struct ready_time noted = {};
	struct ready_note note;
	u32 number;

	if (!read_note(&st->ledger, &note, &number) || !note_covers(note, tp->copied_seq))
		return stamped_since(st, tp, now_ns);
	noted.ns = note.ns;
	return noted;
}

/*
 * A call took bytes: since when the first of them was ready. What was noted may be of earlier bytes, or of some that came
 * since: that stays. Or it is of others that the call took (MSG_WAITALL): then the first one's is before it. `received`: 0,
 * if the call copied and did not take them (MSG_PEEK). Then they wait for the next one from now on.
 */
static __always_inline struct ready_time
take_ready(struct socket_state *st, const struct tcp_sock *tp, u32 received, u64 now_ns)
{
	struct stage_ledger *led = &st->ledger;
	struct ready_note note, before;
	struct ready_time noted = {};
	u32 number, first = tp->copied_seq - received;
	bool holds = read_note(led, &note, &number);

	if (!received) {
		noted = ready_since(st, tp, now_ns);
		led->ready_taken = number & ~1;
		return noted;
	}
	before.ns = led->taken_ready_ns;
	before.begin = led->taken_ready_begin;
	before.end = led->taken_ready_end;
	led->taken_ready_ns = 0;
	if (holds && seq_diff(tp->copied_seq, note.begin) > 0)
		led->ready_taken = number;
	else
		holds = false;
	if (holds && note_covers(note, first))
		noted.ns = note.ns;
	else if (before.ns && note_covers(before, first))
		noted.ns = before.ns;
	else
		noted = stamped_since(st, tp, now_ns);
	return noted;
}

/* A receive call took all there was, and that had come in this jiffy or the one before. */
static __always_inline bool reader_is_quiet(const struct tcp_sock *tp)
{
	return tp->copied_seq == tp->rcv_nxt &&
	       (u32)bpf_jiffies64() - tp->inet_conn.icsk_ack.lrcvtime <= 1;
}

/* The note of bytes that were taken unseen (splice) would hold for others, 4 GiB on. */
static __always_inline void drop_old_note(struct stage_ledger *led, const struct tcp_sock *tp)
{
	const s32 far_bytes = 1 << 30;
	struct ready_note note;
	u32 number;

	if (read_note(led, &note, &number) && seq_diff(tp->copied_seq, note.end) > far_bytes)
		led->ready_taken = number;
	if (led->taken_ready_ns && seq_diff(tp->copied_seq, led->taken_ready_end) > far_bytes)
		led->taken_ready_ns = 0;
}

/*
 * tcp_probe: this segment brings the next bytes where none wait, and acknowledges nothing: the kernel keeps no
 * stamp of it.
 */
static __always_inline bool data_is_unstamped(const struct tcp_sock *tp, u32 seq, u32 end_seq,
					      u32 ack_seq)
{
	return tp->copied_seq == tp->rcv_nxt && seq_diff(seq, tp->rcv_nxt) <= 0 &&
	       seq_diff(end_seq, tp->rcv_nxt) > 0 && seq_diff(ack_seq, tp->snd_una) <= 0;
}

/*
 * tcp_probe: bytes wait since then. If noted ones were taken, the hook of that call has yet to run: their note is kept for
 * it. A call may take more than one note's bytes while others come: its hook wants the oldest.
 */
static __always_inline void note_arrival(struct stage_ledger *led, const struct tcp_sock *tp,
					 u32 end_seq, u64 since_ns)
{
	if (!led->taken_ready_ns && has_note(led) &&
	    seq_diff(tp->copied_seq, led->ready_begin) > 0) {
		WRITE_ONCE(led->taken_ready_begin, led->ready_begin);
		WRITE_ONCE(led->taken_ready_end, led->ready_end);
		WRITE_ORDERED(led->taken_ready_ns, led->ready_ns);
	}
	set_ready(led, tp, end_seq, since_ns);
}

/* tcp_probe: bytes wait already, and this segment may move the stamps by which that is known. */
static __always_inline void note_ready(struct socket_state *st, const struct tcp_sock *tp)
{
	struct stage_ledger *led = &st->ledger;
	struct ready_time since;

	if (tp->copied_seq == tp->rcv_nxt || ready_is_noted(led, tp))
		return;
	since = stamped_since(st, tp, bpf_ktime_get_ns());
	if (!since.unseen)
		note_arrival(led, tp, tp->rcv_nxt, since.ns);
}

/* A receive call has left bytes: they wait from now on, unless they came after it had ended. */
static __always_inline void note_left(struct stage_ledger *led, const struct tcp_sock *tp,
				      u64 now_ns)
{
	if (!has_note(led) || seq_diff(tp->copied_seq, led->ready_begin) > 0)
		set_ready(led, tp, tp->rcv_nxt, now_ns);
}

#endif
