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

#include "../bpf/batch.bpf.h"
#include "../bpf/socket.h"
#include "../calls/calls.bpf.h"
#include "messages.h"
#include "packet.bpf.h"

/* A power of two. */
#define SENDS 32

#define SEND_DONE 1   /* the call has ended: end_seq holds */
#define SEND_HANDED 2 /* to the recorder, or it sent nothing */
#define SEND_COPIED 4 /* and nobody reads it any more */

struct send_call {
	u32 begin_seq;
	u32 end_seq;
	u32 bits;
	u32 tid;
	u32 pid;
	u32 spliced_bytes;
	u64 offset_begin;
	u64 call_ns;
	u64 done_ns;
	u64 tcp_ns;
	u64 queue_ns;
	u64 driver_ns;
	u64 acked_ns;
	u16 cpu;
	u16 driver_cpu;
	u32 resent;
};

/* The newest bytes that came to each place, and when. */
struct send_front {
	u32 sent_seq;
	u32 driven_seq;
	u32 acked_seq;
	u32 ifindex; /* of the first device that sent_seq came to */
	u64 tcp_ns;
	u64 queue_ns;
	u64 driver_ns;
	u64 acked_ns;
	u64 skb; /* sent_seq is in; 0: some bytes were retransmitted since */
	u16 driver_cpu;
	u16 pad[3];
};

/* The sending side of a socket. */
struct send_stream {
	/* written by who calls: one line with the 8 bytes that the storage has before it */
	u64 cookie;
	u64 offset;  /* of write_seq below, from the connection's first byte */
	u32 end_seq; /* write_seq, when the last call had ended */
	u32 tail;
	u32 shared; /* a call began while one of another thread was under way */
	u32 closed; /* no ACK will be seen any more */
	u32 pad[6];
	/* written where segments and ACKs pass, often on another CPU */
	u32 head;
	u32 pad_of_head;
	struct send_front front;
	struct send_call unfollowed; /* there was no room for it: it is handed over when it ends */
	struct send_call calls[SENDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct send_stream);
} send_streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 * 1024);
} sent_ring SEC(".maps");

/* See batch_flush(). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} sent_overflow SEC(".maps");

/* Calls that are not reported: others of the same socket took the place that there is for those not followed. */
u64 lost_sends = 0;

/*
 * Who hands messages over: one batch a CPU for each, because one may be interrupted, and on some kernels
 * preempted, by another, but never by itself.
 */
enum sent_by {
	SENT_BY_CALL,
	SENT_BY_ACK,
	SENT_BY_STATE,
	SENT_BY_LAST_STATE, /* and by the walk at the end */
	SENT_BY_DESTROY,    /* the end of a socket of TCP */
	SENT_BY_QUEUE,	    /* of UDP: net_dev_queue */
	SENT_BY_DRIVER,	    /* net_dev_start_xmit */
	SENT_BY_CLOSE,	    /* the end of a socket of UDP */
	SENT_BY_COUNT,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SENT_BY_COUNT);
	__type(key, u32);
	__type(value, struct sent_batch);
} sent_batches SEC(".maps");

static __always_inline struct sent_batch *sent_batch(u32 which)
{
	return bpf_map_lookup_elem(&sent_batches, &which);
}

static __always_inline void sent_batch_flush(struct sent_batch *batch)
{
	batch_flush(&batch->batch, batch->records, sizeof(struct sent_record), SENT_BATCH_LEN,
		    &sent_ring, &sent_overflow);
}

static __always_inline void sent_record_fill(struct sent_record *to, u64 cookie,
					     const struct send_call *call)
{
	to->cookie = cookie;
	to->call_ns = call->call_ns;
	to->done_ns = call->done_ns;
	to->tcp_ns = call->tcp_ns;
	to->queue_ns = call->queue_ns;
	to->driver_ns = call->driver_ns;
	to->acked_ns = call->acked_ns;
	to->bytes = call->end_seq - call->begin_seq;
	to->offset_end = call->offset_begin + to->bytes;
	to->spliced_bytes = call->spliced_bytes;
	to->tid = call->tid;
	to->pid = call->pid;
	to->cpu = call->cpu;
	to->driver_cpu = call->driver_cpu;
	to->resent = call->resent;
	to->packets = 0;
	to->bits = 0;
}

/* Hands over a message, unless that was done already. */
__noinline int send_hand_over(u64 cookie, struct send_call *call, u32 by)
{
	struct sent_batch *batch;
	u32 at;

	if (!call || __sync_fetch_and_or(&call->bits, SEND_HANDED) & SEND_HANDED)
		return 0;
	batch = sent_batch(by);
	if (!batch)
		return 0;
	at = batch_begin(&batch->batch);
	if (at < SENT_BATCH_LEN) {
		sent_record_fill(&batch->records[at], cookie, call);
		batch_made(&batch->batch, at);
		if (at + 1 == SENT_BATCH_LEN)
			sent_batch_flush(batch);
	}
	batch_end(&batch->batch);
	__sync_fetch_and_or(&call->bits, SEND_COPIED);
	return 0;
}

static __always_inline struct send_stream *send_stream(struct sock *sk)
{
	return bpf_sk_storage_get(&send_streams, sk, NULL, 0);
}

/* The first call of a target. */
static __always_inline struct send_stream *send_stream_begin(struct sock *sk,
							     const struct tcp_sock *tp)
{
	struct socket_state *st = socket_recorded(sk);
	struct send_stream *stream;

	if (!st || st->chosen != CHOSEN_TARGET)
		return NULL;
	stream = sk_storage_made(&send_streams, sk);
	if (!stream)
		return NULL;
	stream->cookie = st->cookie;
	stream->offset = stream_offset(st, tp, true);
	stream->end_seq = tp->write_seq;
	stream->front.sent_seq = stream->front.driven_seq = tp->snd_nxt;
	stream->front.acked_seq = tp->snd_una;
	return stream;
}

static __always_inline struct send_call *send_call_at(struct send_stream *stream, u32 at)
{
	return &stream->calls[at & (SENDS - 1)];
}

static __always_inline bool send_is_open(const struct send_call *call, u32 tid)
{
	return call->tid == tid && !(call->bits & SEND_DONE);
}

/* Where the thread's call is among those that are followed, newest first; SENDS: nowhere. */
__noinline u32 send_call_place(struct send_stream *stream, u32 tid)
{
	u32 at;

	if (!stream)
		return SENDS;
	at = stream->tail;
	for (u32 i = 0; i < SENDS && at != stream->head; i++) {
		at--;
		if (send_is_open(send_call_at(stream, at), tid))
			return at & (SENDS - 1);
	}
	return SENDS;
}

/* The call that the thread is in, or NULL. It is the newest, unless the thread waits for room while others send. */
static __always_inline struct send_call *send_call_of(struct send_stream *stream, u32 tid)
{
	struct send_call *newest = send_call_at(stream, stream->tail - 1);
	u32 place;

	if (stream->tail != stream->head && send_is_open(newest, tid))
		return newest;
	if (stream->shared) {
		place = send_call_place(stream, tid);
		if (place < SENDS)
			return &stream->calls[place];
	}
	return send_is_open(&stream->unfollowed, tid) ? &stream->unfollowed : NULL;
}

/* Is the newest call, of another thread, still under way? */
static __always_inline bool send_meets_another(struct send_stream *stream)
{
	return stream->tail != stream->head &&
	       !(send_call_at(stream, stream->tail - 1)->bits & SEND_DONE);
}

/* Is the place of those not followed another thread's? */
static __always_inline bool unfollowed_is_taken(const struct send_stream *stream)
{
	return stream->unfollowed.tid && !(stream->unfollowed.bits & SEND_DONE);
}

/*
 * Room for a call. One that was acknowledged before it had ended was handed over by itself, and waits
 * for an ACK to be let go of: it need not.
 */
static __always_inline bool send_has_room(struct send_stream *stream)
{
	if (stream->tail - stream->head < SENDS)
		return true;
	if (!(send_call_at(stream, stream->head)->bits & SEND_COPIED))
		return false;
	stream->head++;
	return true;
}

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

	if (!stream || seq_diff(ack_seq, stream->front.acked_seq) <= 0 ||
	    seq_diff(ack_seq, tp->snd_nxt) > 0)
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

/* For Rust, by way of the object's BTF. */
const struct sent_record wire_sent_record = {};
const struct sent_batch wire_sent_batch = {};

#endif
