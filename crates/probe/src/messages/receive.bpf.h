/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Received messages: what one receive call took is a range of the stream, and the segments that cover it
 * show when it arrived: the first of them began it, the last made it whole. Segments are noted as TCP takes
 * them, and matched by their sequence numbers: the kernel joins and splits packets as it likes. What is taken
 * without a receive call (splice, sendfile, TCP_ZEROCOPY_RECEIVE, or by a thread of io_uring) is found when TCP
 * has moved copied_seq.
 *
 * TCP and the reader use a stream at the same time, the first under the socket's lock, the other after it
 * has let go: so TCP alone moves `tail`, and the reader alone moves `head`.
 */
#ifndef WHYLAT_RECEIVE_BPF_H
#define WHYLAT_RECEIVE_BPF_H

#include "../bpf/batch.bpf.h"
#include "../bpf/socket.h"
#include "../bpf/thread.h"
#include "../calls/calls.bpf.h"
#include "arrival.bpf.h"
#include "messages.h"

/* A power of two. */
#define SEGMENTS 64
/* With so many unread, those that follow each other are noted together. */
#define SEGMENTS_APART 32

/* Times of bpf_ktime_get_ns(); 0: not known, or not yet. */
struct segment_times {
	u64 arrived_ns;
	u64 tcp_ns;
	u64 ready_ns;
};

/* Segments noted together: the times of the first and of the last. */
struct segment {
	u32 seq;
	u32 end_seq;
	struct segment_times first;
	struct segment_times last;
	u32 count;
	u16 cpu;
	u8 bits; /* MESSAGE_* */
	u8 pad;
};

/* The receiving side of a socket. */
struct receive_stream {
	/* written by the reader: one line with the 8 bytes that the storage has before it */
	u32 known;	  /* copied_seq holds: since the first segment or call */
	u32 copied_seq;	  /* as the last call left it, without a FIN */
	u64 copy_ns;	  /* when the present call began to copy; 0: it has not */
	u64 last_copy_ns; /* when it last did */
	u32 head;
	u32 taken_by; /* the thread with a call that is reported already; 0: none */
	u32 pad[6];
	/* written by TCP, often on another CPU */
	u32 tail;
	u32 lost;    /* segments that found no room */
	u32 waiting; /* of what is noted, so many are not the reader's yet */
	u32 pad_of_tcp[13];
	struct segment segments[SEGMENTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct receive_stream);
} receive_streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 * 1024);
} received_ring SEC(".maps");

/* See batch_flush(). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} received_overflow SEC(".maps");

/* Says who hands messages over: one batch a CPU for each program. */
enum received_by {
	RECEIVED_BY_CALL, /* sock_recv_length */
	RECEIVED_BY_TAKE, /* tcp_rcv_space_adjust */
	RECEIVED_BY_COUNT,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RECEIVED_BY_COUNT);
	__type(key, u32);
	__type(value, struct received_batch);
} received_batches SEC(".maps");

static __always_inline struct received_batch *received_batch(u32 by)
{
	return bpf_map_lookup_elem(&received_batches, &by);
}

static __always_inline void received_batch_flush(struct received_batch *batch)
{
	batch_flush(&batch->batch, batch->records, sizeof(struct received_record),
		    RECEIVED_BATCH_LEN, &received_ring, &received_overflow);
}

/* Some network adapter stamps what it receives. */
const volatile bool detail_nic = false;

/* When the adapter took the newest of the segments noted together, by its own clock; 0: it does not say. */
struct segment_stamps {
	s64 phc_ns[SEGMENTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct segment_stamps);
} segment_stamps SEC(".maps");

/* The adapter's stamp of a segment that TCP takes. */
static __always_inline void stamp_note(struct sock *sk, const struct sk_buff *skb, u32 at)
{
	void *info = (void *)((u64)skb->head + skb->end);
	struct segment_stamps *stamps;

	stamps = sk_storage_made(&segment_stamps, sk);
	if (!stamps)
		return;
	stamps->phc_ns[at & (SEGMENTS - 1)] =
		KERNEL_READ(struct skb_shared_info, info, tx_flags) & SKBTX_HW_TSTAMP_NETDEV
			? 0
			: KERNEL_READ(struct skb_shared_info, info, hwtstamps.hwtstamp);
}

/* tcp_probe: a segment with data, not yet acted on. */
static __always_inline void receive_on_segment(struct sock *sk, const struct tcp_sock *tp,
					       const struct sk_buff *skb, u32 seq, u32 end_seq,
					       u64 now_ns)
{
	struct segment_times times = {};
	struct receive_stream *stream;
	struct segment *at;
	u32 unread;

	if (seq_diff(end_seq, tp->rcv_nxt) <= 0)
		return; /* all of it was there before */
	stream = sk_storage_made(&receive_streams, sk);
	if (!stream)
		return;
	if (!stream->known && !sk->sk_lock.owned) {
		stream->copied_seq = tp->copied_seq;
		stream->known = 1;
	}
	times.arrived_ns = arrived_ns(skb);
	times.tcp_ns = now_ns;
	unread = stream->tail - stream->head;
	if (!unread)
		stream->waiting = 0; /* the reader took it before it was handed over */
	at = &stream->segments[(stream->tail - 1) & (SEGMENTS - 1)];
	if (unread >= SEGMENTS_APART && at->end_seq == seq) {
		if (at->last.ready_ns)
			stream->waiting++;
		at->end_seq = end_seq;
		at->last = times;
		at->count++;
		if (detail_nic)
			stamp_note(sk, skb, stream->tail - 1);
		return;
	}
	if (unread >= SEGMENTS) {
		stream->lost++;
		return;
	}
	at = &stream->segments[stream->tail & (SEGMENTS - 1)];
	at->seq = seq;
	at->end_seq = end_seq;
	at->first = at->last = times;
	at->count = 1;
	at->cpu = bpf_get_smp_processor_id();
	at->bits = sk->sk_lock.owned ? MESSAGE_BACKLOG : 0;
	stream->waiting++;
	if (detail_nic)
		stamp_note(sk, skb, stream->tail);
	barrier();
	stream->tail++;
}

/* sk_data_ready: what is in order is the reader's from now on. */
static __always_inline void receive_on_ready(struct sock *sk, const struct tcp_sock *tp)
{
	struct receive_stream *stream = bpf_sk_storage_get(&receive_streams, sk, NULL, 0);
	u64 now_ns;

	if (!stream)
		return;
	now_ns = bpf_ktime_get_ns();
	for (u32 i = 1; i <= SEGMENTS; i++) {
		struct segment *at = &stream->segments[(stream->tail - i) & (SEGMENTS - 1)];

		/* counted in memory only: the verifier must not distinguish the counts */
		if (i > stream->tail - stream->head || !READ_ONCE(stream->waiting))
			break;
		if (at->last.ready_ns || seq_diff(at->end_seq, tp->rcv_nxt) > 0)
			continue;
		at->last.ready_ns = now_ns;
		if (!at->first.ready_ns)
			at->first.ready_ns = now_ns;
		stream->waiting--;
	}
}

/* skb_copy_datagram_iovec: the call takes bytes. */
static __always_inline void receive_on_copy(struct sock *sk)
{
	struct receive_stream *stream = bpf_sk_storage_get(&receive_streams, sk, NULL, 0);

	if (!stream)
		return;
	stream->last_copy_ns = bpf_ktime_get_ns();
	if (!stream->copy_ns)
		stream->copy_ns = stream->last_copy_ns;
}

/* The segments of a message: when the first of them arrived, and what is known of the last. */
struct covering {
	u64 first_ns;
	struct segment_times last;
	u64 doubt_ns; /* how much later a segment may have come: noted together with others */
	u32 bytes;
	u32 segments;
	u32 last_at; /* where the last is noted; with the one after it in one place, SEGMENTS */
	u16 cpu;
	u8 bits;
};

/* Verified by itself: it is called in a loop. */
__noinline int cover_with(struct covering *found, const struct segment *at, u32 index, u32 from,
			  u32 to)
{
	const struct segment_times *times;
	bool begins, ends;
	s64 doubt_ns;
	u64 first_ns;

	if (!found || !at)
		return 0;
	begins = seq_diff(at->seq, from) >= 0;
	ends = seq_diff(at->end_seq, to) <= 0;
	times = ends ? &at->last : &at->first;
	doubt_ns = at->last.arrived_ns - at->first.arrived_ns; /* < 0: the last is not known */
	found->bytes += (ends ? at->end_seq : to) - (begins ? at->seq : from);
	/* of two that are noted together, the driver may have had the later one first */
	first_ns = at->first.arrived_ns;
	if (ends && at->last.arrived_ns && at->last.arrived_ns < first_ns)
		first_ns = at->last.arrived_ns;
	if (!found->segments || first_ns < found->first_ns)
		found->first_ns = first_ns;
	found->segments += at->count;
	if (!(begins && ends) && at->first.arrived_ns && doubt_ns > (s64)found->doubt_ns)
		found->doubt_ns = doubt_ns;
	if (times->tcp_ns < found->last.tcp_ns)
		return 0;
	found->last = *times;
	if (detail_nic)
		found->last_at = ends ? index & (SEGMENTS - 1) : SEGMENTS;
	found->cpu = at->cpu;
	found->bits = at->bits;
	return 0;
}

/* Finds the segments that cover [from, to), and lets go of those that end there. */
__noinline int receive_cover(struct receive_stream *stream, struct covering *found, u32 from,
			     u32 to)
{
	u32 head, tail;

	if (!stream || !found)
		return 0;
	head = stream->head;
	tail = READ_ONCE(stream->tail);
	for (u32 i = 0; i < SEGMENTS; i++) {
		const struct segment *at = &stream->segments[(head + i) & (SEGMENTS - 1)];

		if (head + i == tail)
			break;
		if (seq_diff(at->end_seq, to) <= 0 && stream->head == head + i)
			stream->head = head + i + 1;
		if (seq_diff(at->end_seq, from) > 0 && seq_diff(at->seq, to) < 0)
			cover_with(found, at, head + i, from, to);
	}
	/* some of it was not noted */
	if (found->bytes < to - from)
		found->first_ns = found->last.arrived_ns = found->last.tcp_ns =
			found->last.ready_ns = 0;
	return 0;
}

/*
 * Did the thread last wait for this connection, for several descriptors, or for completions? A thread of
 * io_uring may have waited for a request.
 */
static __always_inline bool waited_for(const struct thread_wait *wait, u64 cookie)
{
	return wait->cookie == cookie || wait->kind == WAIT_EPOLL || wait->kind == WAIT_POLL ||
	       wait->kind == WAIT_SELECT || (wait->kind == WAIT_IO_URING && wait->syscall >= 0);
}

/* The thread had been waiting when the message was handed over: when it was woken, and ran. */
static __always_inline void message_wake(struct received_record *record,
					 const struct thread_state *thread, u64 ready_ns)
{
	const struct thread_wait *wait = &thread->wait;

	record->woken_ns = 0;
	record->run_ns = 0;
	if (!ready_ns || wait->woken_ns < ready_ns || thread->left_ns > ready_ns ||
	    !waited_for(wait, record->cookie))
		return;
	if (thread->resumed_ns < wait->woken_ns)
		return; /* woken before it had let go of its CPU */
	record->woken_ns = wait->woken_ns;
	record->run_ns = thread->resumed_ns;
}

/* sock_recv_length: the call has taken nothing, though it may have copied (MSG_PEEK). */
static __always_inline void receive_on_peek(struct sock *sk)
{
	struct receive_stream *stream = bpf_sk_storage_get(&receive_streams, sk, NULL, 0);

	if (stream)
		stream->copy_ns = 0;
}

/*
 * When the call began to copy; if it had begun before the message was whole, when it last did; 0: it has not
 * copied.
 */
static __always_inline u64 copied_ns(const struct receive_stream *stream, u64 ready_ns)
{
	return stream->copy_ns && stream->copy_ns < ready_ns ? stream->last_copy_ns
							     : stream->copy_ns;
}

/* Where what was taken ends: copied_seq, without a FIN, which takes a number and is no byte. */
static __always_inline u32 taken_until(const struct tcp_sock *tp)
{
	bool fin = fin_received(tp); /* so it is in the numbers read after it */
	u32 end = tp->copied_seq;

	return end - (fin && end == READ_ONCE(tp->rcv_nxt));
}

/* A range of the stream that a call has taken. */
struct taken {
	u32 end;
	u32 bytes;
	u32 spliced_bytes;
	enum received_by by;
	u64 now_ns;
};

static __always_inline void received_record_fill(struct received_record *to,
						 const struct taken *taken,
						 const struct covering *found)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *thread = thread_known(task);

	to->done_ns = taken->now_ns;
	to->first_ns = found->first_ns;
	to->last_ns = found->last.arrived_ns;
	to->tcp_ns = found->last.tcp_ns;
	to->ready_ns = found->last.ready_ns;
	to->doubt_ns = found->doubt_ns;
	to->bytes = taken->bytes;
	to->spliced_bytes = taken->spliced_bytes;
	to->tid = task->pid;
	to->pid = task->tgid;
	to->segments = found->segments;
	to->receive_cpu = found->cpu;
	to->cpu = bpf_get_smp_processor_id();
	to->bits = found->bits;
	if (thread)
		message_wake(to, thread, found->last.ready_ns);
	else
		to->woken_ns = to->run_ns = 0;
}

/* The adapter's stamp of the segment that made a message whole; 0: there is none. */
static __always_inline s64 stamp_of(const struct tcp_sock *tp, const struct covering *found)
{
	struct segment_stamps *stamps;

	if (!detail_nic || !found->last.arrived_ns || found->last_at >= SEGMENTS)
		return 0;
	stamps = bpf_sk_storage_get(&segment_stamps, (struct sock *)tp, NULL, 0);
	return stamps ? stamps->phc_ns[found->last_at & (SEGMENTS - 1)] : 0;
}

/* Makes a message of what was taken. */
static __always_inline void receive_taken(const struct tcp_sock *tp, const struct socket_state *st,
					  struct receive_stream *stream, const struct taken *taken)
{
	struct received_batch *batch = received_batch(taken->by);
	struct covering found = {};
	struct received_record *to;
	u32 at;

	if (!batch)
		return;
	if (stream)
		receive_cover(stream, &found, taken->end - taken->bytes, taken->end);
	at = batch_begin(&batch->batch);
	if (at < RECEIVED_BATCH_LEN) {
		to = &batch->records[batch_place(at, RECEIVED_BATCH_LEN)];
		to->cookie = connection_of(st);
		to->offset_end = stream_offset(st, tp, false);
		to->copy_ns = stream ? copied_ns(stream, found.last.ready_ns) : 0;
		to->cut_or_nic = stamp_of(tp, &found);
		received_record_fill(to, taken, &found);
		batch_made(&batch->batch, at);
		if (at + 1 == RECEIVED_BATCH_LEN)
			received_batch_flush(batch);
	}
	batch_end(&batch->batch);
}

/* sock_recv_length: the call has taken so many bytes. */
static __always_inline void receive_on_call(struct sock *sk, const struct tcp_sock *tp,
					    const struct socket_state *st, u32 bytes, u64 now_ns)
{
	struct receive_stream *stream = bpf_sk_storage_get(&receive_streams, sk, NULL, 0);
	u32 tid = bpf_get_current_pid_tgid();
	struct taken taken = {
		.end = taken_until(tp),
		.bytes = bytes,
		.by = RECEIVED_BY_CALL,
		.now_ns = now_ns,
	};
	s32 between = 0;

	if (stream) {
		if (stream->taken_by == tid && stream->copied_seq == taken.end)
			return;
		if (stream->known)
			between = seq_diff(taken.end - bytes, stream->copied_seq);
		taken.spliced_bytes = between > 0 ? between : 0;
	}
	receive_taken(tp, st, stream, &taken);
	if (stream) {
		stream->known = 1;
		stream->copied_seq = taken.end;
		stream->copy_ns = 0;
		stream->taken_by = 0;
	}
}

/*
 * tcp_rcv_space_adjust: copied_seq has moved, in a splice, in TCP_ZEROCOPY_RECEIVE (`maps`), which copies what it
 * cannot map, or in a thread of io_uring: if that copies, it is in a receive call, which shows when it ends.
 */
static __always_inline void receive_on_take(struct sock *sk, const struct tcp_sock *tp,
					    const struct socket_state *st, bool maps, u64 now_ns)
{
	struct receive_stream *stream = bpf_sk_storage_get(&receive_streams, sk, NULL, 0);
	struct taken taken = {
		.end = taken_until(tp),
		.by = RECEIVED_BY_TAKE,
		.now_ns = now_ns,
	};

	if (!stream || !stream->known || (stream->copy_ns && !maps) ||
	    seq_diff(taken.end, stream->copied_seq) <= 0)
		return;
	taken.bytes = taken.end - stream->copied_seq;
	receive_taken(tp, st, stream, &taken);
	stream->copied_seq = taken.end;
	stream->copy_ns = 0;
	stream->taken_by = bpf_get_current_pid_tgid();
}

/* For Rust, by way of the object's BTF. */
const struct received_record wire_received_record = {};
const struct received_batch wire_received_batch = {};

#endif
