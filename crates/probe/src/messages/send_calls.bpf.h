/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Send calls that are followed: what is kept of each in its socket's storage, how one is found there, and how it is
 * handed over as a record. send.bpf.h fills them.
 */
#ifndef WHYLAT_SEND_CALLS_BPF_H
#define WHYLAT_SEND_CALLS_BPF_H

#include "../bpf/batch.bpf.h"
#include "../bpf/socket.h"
#include "messages.h"

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

/* Returns this CPU's batch of what ended the sending: `SENT_BY_...`. */
static __always_inline struct sent_batch *sent_batch(u32 sent_by)
{
	return bpf_map_lookup_elem(&sent_batches, &sent_by);
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

/* Returns whether the newest call, of another thread, has not ended yet. */
static __always_inline bool send_meets_another(struct send_stream *stream)
{
	return stream->tail != stream->head &&
	       !(send_call_at(stream, stream->tail - 1)->bits & SEND_DONE);
}

/* Returns whether another thread has the place of calls that are not followed. */
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

/* For Rust, by way of the object's BTF. */
const struct sent_record wire_sent_record = {};
const struct sent_batch wire_sent_batch = {};

#endif
