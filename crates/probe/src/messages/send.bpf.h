/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Sent messages: what one send call gave is a range of the stream. Its last byte is followed to the queue of
 * the device, to the driver, and to the ACK.
 *
 * Calls begin, and segments and ACKs pass, under the socket's lock. A call ends after it was let go, and a
 * queue gives its packets to the driver at any time. So each side first writes what it knows, then looks at
 * what the other knows; `bits` decides which of them hands the message over.
 */
#ifndef WHYLAT_SEND_BPF_H
#define WHYLAT_SEND_BPF_H

#include "../calls/calls.bpf.h"
#include "packet.bpf.h"
#include "send_calls.bpf.h"

/*
 * tcp_sendmsg_locked: a call is about to fill an skb; the first time, it begins. What the kernel sends by itself (what
 * a sockmap sends on), or encodes first (TLS), is not the program's, and no hook sees it end.
 */
static __always_inline void send_on_begin(struct sock *sk, const struct tcp_sock *tp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct send_stream *stream = send_stream(sk);
	struct send_call *call;
	bool followed;

	if (tp->inet_conn.icsk_ulp_ops || task->flags & PF_KTHREAD)
		return;
	if (!stream)
		stream = send_stream_begin(sk, tp);
	if (!stream || send_call_of(stream, task->pid))
		return;
	if (send_meets_another(stream))
		stream->shared = 1;
	followed = send_has_room(stream);
	if (!followed && unfollowed_is_taken(stream))
		return;
	call = followed ? send_call_at(stream, stream->tail) : &stream->unfollowed;
	call->begin_seq = tp->write_seq;
	call->spliced_bytes = tp->write_seq - stream->end_seq;
	call->offset_begin = stream->offset + call->spliced_bytes;
	call->tid = task->pid;
	call->pid = task->tgid;
	call->call_ns = bpf_ktime_get_ns();
	call->tcp_ns = call->queue_ns = call->driver_ns = call->acked_ns = 0;
	call->resent = 0;
	call->bits = 0;
	barrier();
	if (followed)
		stream->tail++;
}

/* Neither this call nor a later one has bytes before `end_seq`. */
static __always_inline bool send_is_after(const struct send_stream *stream,
					  const struct send_call *call, u32 end_seq)
{
	return !stream->shared && seq_diff(call->begin_seq, end_seq) >= 0;
}

/* The call's last byte is in [seq, end_seq), and the call has ended. */
static __always_inline bool send_ends_in(const struct send_call *call, u32 seq, u32 end_seq)
{
	return call->bits & SEND_DONE && seq_diff(call->end_seq, seq) > 0 &&
	       seq_diff(call->end_seq, end_seq) <= 0;
}

__noinline int send_queued(struct send_stream *stream, u32 seq, u32 end_seq)
{
	u32 at, tail;

	if (!stream)
		return 0;
	at = READ_ONCE(stream->head);
	tail = READ_ONCE(stream->tail);
	for (u32 i = 0; i < SENDS; i++, at++) {
		struct send_call *call = send_call_at(stream, at);

		if (at == tail || send_is_after(stream, call, end_seq))
			break;
		if (!send_ends_in(call, seq, end_seq))
			continue;
		call->tcp_ns = stream->front.tcp_ns;
		call->queue_ns = stream->front.queue_ns;
	}
	return 0;
}

/* net_dev_queue: a packet comes to the queue of a device. */
static __always_inline void send_on_queue(struct sock *sk, const struct sk_buff *skb)
{
	struct send_stream *stream = send_stream(sk);
	struct send_front *front;
	u32 seq, end_seq;

	if (!stream || !packet_range(sk, skb, &seq, &end_seq))
		return;
	front = &stream->front;
	if (seq_diff(end_seq, front->sent_seq) <= 0) {
		/* retransmitted, unless it comes to a device below the first */
		if (front->ifindex == (u32)skb->dev->ifindex)
			front->skb = 0;
		return;
	}
	front->tcp_ns = KERNEL_READ(struct tcp_sock, sk, tcp_clock_cache);
	front->queue_ns = bpf_ktime_get_ns();
	front->skb = (u64)skb;
	front->ifindex = skb->dev->ifindex;
	__sync_lock_test_and_set(&front->sent_seq, end_seq);
	send_queued(stream, seq, end_seq);
}

/* `below`: the same packet comes to the next of several devices, and the last one counts. */
__noinline int send_driven(struct send_stream *stream, u32 seq, u32 end_seq, u64 now_ns, bool below)
{
	u32 at, tail; /* an ACK may let go of the oldest meanwhile */

	if (!stream)
		return 0;
	at = READ_ONCE(stream->head);
	tail = READ_ONCE(stream->tail);
	for (u32 i = 0; i < SENDS; i++, at++) {
		struct send_call *call = send_call_at(stream, at);

		if (at == tail || send_is_after(stream, call, end_seq))
			break;
		if (!send_ends_in(call, seq, end_seq) || (call->driver_ns && !below))
			continue;
		call->driver_ns = now_ns;
		call->driver_cpu = bpf_get_smp_processor_id();
	}
	return 0;
}

/* net_dev_start_xmit: a packet, or a part of one that was cut, goes to the driver. */
static __always_inline void send_on_driver(struct sock *sk, const struct sk_buff *skb)
{
	struct send_stream *stream = send_stream(sk);
	struct send_front *front;
	u32 seq, end_seq;
	u64 now_ns;
	bool below;

	if (!stream || !packet_range(sk, skb, &seq, &end_seq))
		return;
	front = &stream->front;
	below = seq_diff(end_seq, front->driven_seq) <= 0;
	if (below && front->skb != (u64)skb)
		return; /* retransmitted */
	now_ns = bpf_ktime_get_ns();
	front->driver_ns = now_ns;
	front->driver_cpu = bpf_get_smp_processor_id();
	__sync_lock_test_and_set(&front->driven_seq, end_seq);
	send_driven(stream, seq, end_seq, now_ns, below);
}

/* Lets go of the messages that are acknowledged, oldest first. */
__noinline int send_acknowledged(struct send_stream *stream, u32 by)
{
	u32 head;

	if (!stream)
		return 0;
	head = stream->head;
	for (u32 i = 0; i < SENDS; i++) {
		struct send_call *call = send_call_at(stream, head + i);

		if (head + i == stream->tail || !(call->bits & SEND_DONE) ||
		    seq_diff(call->end_seq, stream->front.acked_seq) > 0)
			break;
		if (!(call->bits & SEND_HANDED)) {
			call->acked_ns = stream->front.acked_ns;
			send_hand_over(stream->cookie, call, by);
		}
		stream->head = head + i + 1;
	}
	return 0;
}

/* tcp_probe, inet_sock_set_state: the other end has taken all before `ack_seq`. */
static __always_inline void send_on_ack(struct sock *sk, const struct tcp_sock *tp, u32 ack_seq,
					u32 by, u64 now_ns)
{
	struct send_stream *stream = send_stream(sk);

	if (!stream)
		return;
	/* an ACK before this one passed no hook: when it came nobody saw */
	if (by == SENT_BY_ACK && seq_diff(tp->snd_una, stream->front.acked_seq) > 0) {
		stream->front.acked_ns = 0;
		__sync_lock_test_and_set(&stream->front.acked_seq, tp->snd_una);
		send_acknowledged(stream, by);
	}
	if (seq_diff(ack_seq, stream->front.acked_seq) <= 0 || seq_diff(ack_seq, tp->snd_nxt) > 0)
		return;
	stream->front.acked_ns = now_ns;
	__sync_lock_test_and_set(&stream->front.acked_seq, ack_seq);
	send_acknowledged(stream, by);
}

/* tcp_retransmit_skb: [seq, end_seq) was retransmitted. */
static __always_inline void send_on_retransmit(struct sock *sk, u32 seq, u32 end_seq)
{
	struct send_stream *stream = send_stream(sk);

	if (!stream)
		return;
	for (u32 i = 0; i < SENDS; i++) {
		struct send_call *call = send_call_at(stream, stream->head + i);

		if (stream->head + i == stream->tail || send_is_after(stream, call, end_seq))
			break;
		if (seq_diff(call->begin_seq, end_seq) < 0 &&
		    (!(call->bits & SEND_DONE) || seq_diff(call->end_seq, seq) > 0))
			call->resent++;
	}
}

/* Returns what passed while the call was under way. */
static __always_inline void send_catch_up(struct send_stream *stream, struct send_call *call)
{
	const struct send_front *front = &stream->front;

	if (seq_diff(call->end_seq, front->sent_seq) <= 0 && !call->queue_ns) {
		call->tcp_ns = front->tcp_ns;
		call->queue_ns = front->queue_ns;
	}
	if (seq_diff(call->end_seq, front->driven_seq) <= 0 && !call->driver_ns) {
		call->driver_ns = front->driver_ns;
		call->driver_cpu = front->driver_cpu;
	}
	if (seq_diff(call->end_seq, front->acked_seq) <= 0 && !(call->bits & SEND_HANDED)) {
		call->acked_ns = front->acked_ns;
		send_hand_over(stream->cookie, call, SENT_BY_CALL);
	}
}

/*
 * Where the bytes of a call lie, now that it has ended. Those of one that let others send while it waited for room are
 * not in one piece: the last of them counts.
 */
static __always_inline void send_place(struct send_stream *stream, struct send_call *call,
				       const struct tcp_sock *tp, u32 bytes)
{
	u32 begin_seq = tp->write_seq - bytes;

	if (stream->shared) {
		call->offset_begin += (s32)(begin_seq - call->begin_seq);
		call->begin_seq = begin_seq;
	}
	call->end_seq = call->begin_seq + bytes;
	/* or one that began later has ended before */
	if (bytes && seq_diff(call->end_seq, stream->end_seq) > 0) {
		stream->offset = call->offset_begin + bytes;
		stream->end_seq = call->end_seq;
	}
}

/* sock_send_length: the thread's call has ended, having given so many bytes. */
static __always_inline void send_on_call(struct sock *sk, const struct tcp_sock *tp, int result,
					 u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct send_stream *stream = send_stream(sk);
	u32 tid = task->pid, bits = SEND_DONE;
	struct send_call *call;

	if (!stream || tp->inet_conn.icsk_ulp_ops || task->flags & PF_KTHREAD)
		return;
	call = send_call_of(stream, tid);
	if (!call) {
		if (result > 0) /* or it failed before it began */
			__sync_fetch_and_add(&lost_sends, 1);
		return;
	}
	if (result <= 0) {
		result = 0;
		bits |= SEND_HANDED | SEND_COPIED;
	}
	send_place(stream, call, tp, result);
	call->done_ns = now_ns;
	call->cpu = bpf_get_smp_processor_id();
	__sync_fetch_and_or(&call->bits, bits);
	if (!result)
		return;
	if (call != &stream->unfollowed)
		send_catch_up(stream, call);
	if (call == &stream->unfollowed || READ_ONCE(stream->closed))
		send_hand_over(stream->cookie, call, SENT_BY_CALL);
}

/*
 * The socket closes, or the recording ends: that more of it is acknowledged will not be seen. A call that is still under
 * way is handed over when it ends.
 */
static __always_inline void send_on_close(struct sock *sk, u32 by)
{
	struct send_stream *stream = send_stream(sk);

	if (!stream)
		return;
	__sync_lock_test_and_set(&stream->closed, 1);
	for (u32 i = 0; i < SENDS; i++) {
		struct send_call *call = send_call_at(stream, stream->head + i);

		if (stream->head + i == stream->tail)
			break;
		if (call->bits & SEND_DONE)
			send_hand_over(stream->cookie, call, by);
	}
}

#endif
