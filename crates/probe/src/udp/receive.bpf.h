/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Received datagrams: each is noted when it is handed to the socket, with the time at which it arrived, and
 * found again when the call that took it ends. A socket gives its datagrams in the order in which it got
 * them; which ones it still has tells which one was taken.
 *
 * A small datagram is copied without passing a hook, and the packet is gone when the call ends: so packets are
 * only ever compared by their addresses. Several CPUs may hand datagrams to a socket at a time, and several
 * threads take them: a place in the ring is written by one CPU, and claimed by one thread.
 */
#ifndef WHYLAT_UDP_RECEIVE_BPF_H
#define WHYLAT_UDP_RECEIVE_BPF_H

#include "../messages/arrival.bpf.h"
#include "../messages/receive.bpf.h"
#include "socket.bpf.h"

#define MSG_TRUNC 0x20 /* include/linux/socket.h */
#define MSG_ERRQUEUE 0x2000
#define EFAULT 14

/* A power of two: as many small ones as the default receive buffer holds, about. */
#define DATAGRAMS 256

/* What was passed by is forgotten when so many after it are taken: another thread may take its time. */
#define PASSED_BY 8

/* A reader on another CPU is never faster by more. */
#define OWED_MOST_NS 10000

#define LEN_UNKNOWN ((u32) - 1) /* the reader was faster */
#define NO_DATAGRAM ((u32) - 1)

struct datagram {
	u64 skb;
	u64 arrived_ns; /* 0: not known */
	u32 until_taken_ns;
	u32 until_ready_ns;
	u32 len;
	u32 number;  /* its place in the ring, counted on, and one more: it is written */
	u32 claimed; /* the same: it is taken */
	u32 left_by; /* thread whose call ended when it was taken already, and was not its own */
	u16 segments;
	u16 cpu;
	u32 pad;
};

struct udp_queue {
	u32 head;
	u32 tail;
	u32 closed; /* nothing is noted until the socket's queue is empty: some are in it that are not noted */
	u32 owed;    /* taken by calls that have ended before they were noted */
	u64 owed_ns; /* when the last of these ended */
	struct datagram datagrams[DATAGRAMS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_queue);
} udp_queues SEC(".maps");

/* The packet that the stack took last on this CPU: what comes to a socket before the next is of it. */
struct udp_input {
	u64 skb;
	u64 arrived_ns;
	u64 taken_ns;
	u16 segments; /* datagrams that it was joined of, or is to be cut into */
	u8 is_cloned; /* it goes to several sockets, or is cut: their packets are others */
	u8 noted;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct udp_input);
} udp_inputs SEC(".maps");

/* When this thread last copied of a packet that is no socket's, on this CPU. */
struct udp_copy {
	u64 skb;
	u64 copy_ns;
	u32 tid;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct udp_copy);
} udp_copies SEC(".maps");

/* May it be a datagram? Its data begins with the header of IP; of a part of one it does, too. */
static __always_inline bool udp_may_be(const struct sk_buff *skb)
{
	u16 protocol = bpf_ntohs(skb->protocol);
	void *header = skb->data;

	if (protocol == ETH_P_IP)
		return KERNEL_READ(struct iphdr, header, protocol) != IPPROTO_TCP;
	return protocol == ETH_P_IPV6 &&
	       KERNEL_READ(struct ipv6hdr, header, nexthdr) != IPPROTO_TCP;
}

static __always_inline u16 udp_segments(const struct sk_buff *skb)
{
	return KERNEL_READ(struct skb_shared_info, (void *)((u64)skb->head + skb->end), gso_segs);
}

/* netif_receive_skb, after arrival_ends(). */
static __always_inline void udp_on_input(const struct sk_buff *skb)
{
	struct arrival *arrival;
	struct udp_input *in;
	u32 key = 0;

	if (!udp_may_be(skb))
		return;
	arrival = arrival_of(skb);
	in = bpf_map_lookup_elem(&udp_inputs, &key);
	if (!arrival || !in)
		return;
	in->skb = (u64)skb;
	in->taken_ns = bpf_ktime_get_ns();
	in->arrived_ns = arrived_ns(skb);
	in->segments = udp_segments(skb);
	in->is_cloned = in->segments > 1 || BPF_CORE_READ_BITFIELD(skb, pkt_type) != PACKET_HOST;
	in->noted = 0;
	if (in->arrived_ns)
		arrival->taken_ns = in->taken_ns;
}

/* Datagrams that lie in the socket's queues. */
static __always_inline u32 udp_queued(const struct sock *sk)
{
	return sk->sk_receive_queue.qlen + KERNEL_READ(struct udp_sock, sk, reader_queue.qlen);
}

/* The newest packet of the socket's queues; NULL: a reader has taken all. */
static __always_inline void *udp_newest(const struct sock *sk)
{
	if (sk->sk_receive_queue.qlen)
		return sk->sk_receive_queue.prev;
	if (KERNEL_READ(struct udp_sock, sk, reader_queue.qlen))
		return KERNEL_READ(struct udp_sock, sk, reader_queue.prev);
	return NULL;
}

static __always_inline struct udp_queue *udp_queue_begin(struct sock *sk)
{
	struct udp_queue *queue = sk_storage_made(&udp_queues, sk);

	if (queue)
		queue->closed = 1;
	return queue;
}

/* Was it taken by a call that has ended before this is noted? */
static __always_inline bool udp_was_owed(struct udp_queue *queue, const void *newest, u64 now_ns)
{
	if (!queue->owed)
		return false;
	if (newest || now_ns - queue->owed_ns > OWED_MOST_NS) {
		queue->owed = 0;
		return false;
	}
	__sync_fetch_and_add(&queue->owed, -1);
	return true;
}

/* What arrived, of the packet that is the newest of the socket's queue, or is taken out of it already. */
static __always_inline void datagram_arrived(struct datagram *to, struct udp_input *in,
					     void *newest, u64 now_ns)
{
	const struct arrival *arrival = newest ? arrival_of(newest) : NULL;
	u64 arrived = in->arrived_ns, taken = in->taken_ns;

	to->segments = 1;
	to->len = newest ? KERNEL_READ(struct sk_buff, newest, len) : LEN_UNKNOWN;
	to->skb = newest ? (u64)newest : in->skb;
	if (to->skb == in->skb) {
		to->segments = in->segments > 1 ? in->segments : 1;
	} else if (!in->is_cloned && !in->noted) {
		/* another CPU's has come behind it meanwhile */
		to->skb = in->skb;
		to->len = LEN_UNKNOWN;
	} else if (!in->is_cloned) {
		/* this CPU hands over what another one brought */
		bool known = arrival && arrival->skb == (u64)newest;

		arrived = known ? arrival->arrived_ns : 0;
		taken = known ? arrival->taken_ns : 0;
	}
	in->noted = 1;
	if (!arrived || taken < arrived || now_ns - arrived > (u32)-1)
		arrived = taken = 0;
	to->arrived_ns = arrived;
	to->until_taken_ns = taken - arrived;
	to->until_ready_ns = arrived ? now_ns - arrived : 0;
}

/* sk_data_ready: a datagram has come into the socket's queue. */
static __always_inline void udp_on_ready(struct sock *sk)
{
	struct udp_queue *queue;
	struct udp_input *in;
	struct datagram *at;
	u32 number, key = 0;
	void *newest;
	u64 now_ns;

	if (!udp_met(sk, false))
		return;
	queue = bpf_sk_storage_get(&udp_queues, sk, NULL, 0);
	if (!queue)
		queue = udp_queue_begin(sk);
	in = bpf_map_lookup_elem(&udp_inputs, &key);
	if (!queue || !in)
		return;
	if (queue->closed) {
		if (queue->head != queue->tail || udp_queued(sk) > 1)
			return;
		queue->closed = 0;
	}
	if (queue->tail - queue->head >= DATAGRAMS) {
		queue->closed = 1;
		return;
	}
	now_ns = bpf_ktime_get_ns();
	newest = udp_newest(sk);
	if (udp_was_owed(queue, newest, now_ns))
		return;
	number = __sync_fetch_and_add(&queue->tail, 1);
	at = &queue->datagrams[number & (DATAGRAMS - 1)];
	datagram_arrived(at, in, newest, now_ns);
	at->left_by = 0;
	at->cpu = bpf_get_smp_processor_id();
	barrier();
	at->number = number + 1;
}

/* skb_copy_datagram_iovec, of a packet that is no socket's: of large datagrams. */
static __always_inline void udp_on_copy(const struct sk_buff *skb)
{
	struct udp_copy *copy;
	u32 key = 0;

	copy = bpf_map_lookup_elem(&udp_copies, &key);
	if (!copy)
		return;
	copy->skb = (u64)skb;
	copy->copy_ns = bpf_ktime_get_ns();
	copy->tid = bpf_get_current_task_btf()->pid;
}

/* A call that has taken a datagram. */
struct udp_taking {
	u64 copied; /* its packet; 0: not seen */
	u64 next;   /* the oldest packet that the socket still has; 0: it has none */
	s64 asked;  /* bytes that the call had room for; -1: not known */
	u32 bytes;
	u32 tid;
	u32 tail;
	u32 found; /* place in the ring, or NO_DATAGRAM */
	u32 fits;  /* FITS* of that */
	u32 pad;
};

static __always_inline struct datagram *udp_datagram(struct udp_queue *queue, u32 place)
{
	return &queue->datagrams[place & (DATAGRAMS - 1)];
}

#define FITS_CUT 1
#define FITS 2

/* Can the call have taken it? Surely it can if it took all of it. */
static __always_inline u32 udp_fits(const struct datagram *at, const struct udp_taking *taking)
{
	if (at->left_by == taking->tid)
		return 0;
	if (at->len == LEN_UNKNOWN || at->len == taking->bytes)
		return FITS;
	if (taking->bytes < at->len && (taking->asked < 0 || taking->bytes == taking->asked))
		return FITS_CUT;
	return 0;
}

/*
 * Finds what the call has taken: what the socket has no more, and no call has claimed; the oldest first, and of
 * that what this thread has not passed by before, which was lost (to a wrong checksum, say).
 */
__noinline int udp_find(struct udp_queue *queue, struct udp_taking *taking)
{
	u32 head;

	if (!queue || !taking)
		return 0;
	head = queue->head;
	for (u32 i = 0; i < DATAGRAMS; i++) {
		u32 place = head + i;
		struct datagram *at = udp_datagram(queue, place);
		u32 fits;

		if (place == taking->tail)
			break;
		if (at->number != place + 1 || at->claimed == place + 1)
			continue;
		if (at->skb == taking->copied) {
			taking->found = place;
			break;
		}
		if (at->skb == taking->next)
			break;
		fits = udp_fits(at, taking);
		/* in memory only: the verifier must not tell what was found from what was not */
		if (fits <= READ_ONCE(taking->fits)) {
			at->left_by = taking->tid;
			continue;
		}
		if (READ_ONCE(taking->fits))
			udp_datagram(queue, taking->found)->left_by = taking->tid;
		*(volatile u32 *)&taking->found = place;
		*(volatile u32 *)&taking->fits = fits;
	}
	return 0;
}

/* Lets go of what is claimed at the head, and of what was passed by some time ago. */
__noinline int udp_release(struct udp_queue *queue, u32 found)
{
	if (!queue)
		return 0;
	for (u32 i = 0; i < PASSED_BY + 1; i++) {
		u32 head = queue->head;
		const struct datagram *at = udp_datagram(queue, head);

		if (head == queue->tail)
			break;
		if (at->claimed != head + 1 && !(at->left_by && found - head > PASSED_BY))
			break;
		queue->head = head + 1;
	}
	return 0;
}

static __always_inline struct datagram *udp_claim(struct udp_queue *queue, u32 found)
{
	struct datagram *at = udp_datagram(queue, found);

	return __sync_lock_test_and_set(&at->claimed, found + 1) == found + 1 ? NULL : at;
}

/* The oldest packet that the socket still has, of the queue of its readers, and then of what has come. */
static __always_inline u64 udp_next(const struct sock *sk)
{
	if (KERNEL_READ(struct udp_sock, sk, reader_queue.qlen))
		return (u64)KERNEL_READ(struct udp_sock, sk, reader_queue.next);
	return sk->sk_receive_queue.qlen ? (u64)sk->sk_receive_queue.next : 0;
}

/* When this thread copied of the packet that it has taken. */
static __always_inline void udp_copied(struct udp_copy *copied, u32 tid)
{
	u32 key = 0;
	struct udp_copy *copy = bpf_map_lookup_elem(&udp_copies, &key);

	if (!copy || copy->tid != tid)
		return;
	*copied = *copy;
	copy->tid = 0;
}

/* The datagram that a call has taken; NULL: it was not noted. */
static __always_inline struct datagram *udp_take(struct sock *sk, struct udp_taking *taking)
{
	struct udp_queue *queue = bpf_sk_storage_get(&udp_queues, sk, NULL, 0);
	struct datagram *at;

	if (!queue)
		return NULL;
	taking->tail = READ_ONCE(queue->tail);
	barrier();
	taking->next = udp_next(sk);
	taking->found = NO_DATAGRAM;
	udp_find(queue, taking);
	if (taking->found == NO_DATAGRAM) {
		if (taking->bytes && !queue->closed) {
			queue->owed_ns = bpf_ktime_get_ns();
			__sync_fetch_and_add(&queue->owed, 1);
		}
		return NULL;
	}
	at = udp_claim(queue, taking->found);
	udp_release(queue, taking->found);
	return at;
}

static __always_inline void udp_received_fill(struct received_record *to, const struct datagram *at,
					      const struct thread_state *thread)
{
	bool known = at && at->arrived_ns;

	to->first_ns = to->last_ns = known ? at->arrived_ns : 0;
	to->tcp_ns = known ? at->arrived_ns + at->until_taken_ns : 0;
	to->ready_ns = known ? at->arrived_ns + at->until_ready_ns : 0;
	to->segments = at ? at->segments : 1;
	to->receive_cpu = at ? at->cpu : 0;
	if (thread)
		message_wake(to, thread, to->ready_ns);
	else
		to->woken_ns = to->run_ns = 0;
}

static __always_inline void udp_received(const struct udp_socket *udp, const struct datagram *at,
					 const struct udp_taking *taking,
					 const struct udp_copy *copied, u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct received_batch *batch = received_batch(RECEIVED_BY_CALL);
	struct received_record *to;
	u32 place;

	if (!batch)
		return;
	place = batch_begin(&batch->batch);
	if (place < RECEIVED_BATCH_LEN) {
		to = &batch->records[place];
		to->cookie = udp->seen.cookie;
		udp_received_fill(to, at, thread_known(task));
		to->done_ns = now_ns;
		to->copy_ns = at && at->skb == copied->skb ? copied->copy_ns : 0;
		to->doubt_ns = 0;
		to->offset_end = udp->received_bytes;
		to->bytes = taking->bytes;
		to->spliced_bytes = 0;
		to->tid = task->pid;
		to->pid = task->tgid;
		to->cpu = bpf_get_smp_processor_id();
		to->bits = MESSAGE_DATAGRAM;
		to->cut_or_nic = 0;
		if (at && at->len != LEN_UNKNOWN && at->len > taking->bytes)
			to->cut_or_nic = at->len - taking->bytes;
		batch_made(&batch->batch, place);
		if (place + 1 == RECEIVED_BATCH_LEN)
			received_batch_flush(batch);
	}
	batch_end(&batch->batch);
}

/* sock_recv_length: a call has ended. */
static __always_inline void udp_on_receive_call(struct sock *sk, int result, int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct udp_socket *udp = udp_met(sk, true);
	struct udp_taking taking = {};
	struct udp_copy copied = {};
	struct datagram *at;
	u64 now_ns;

	if (!udp || flags & (MSG_PEEK | MSG_ERRQUEUE) || (result < 0 && result != -EFAULT))
		return;
	now_ns = bpf_ktime_get_ns();
	taking.asked = asked_bytes(task, sk);
	taking.tid = task->pid;
	taking.bytes = result;
	udp_copied(&copied, taking.tid);
	taking.copied = copied.skb;
	at = udp_take(sk, &taking);
	/* it failed and the datagram is lost, or there was none: the socket is shut down */
	if (result < 0 || (!result && !at))
		return;
	if (flags & MSG_TRUNC && taking.asked >= 0 && taking.asked < result)
		taking.bytes = taking.asked;
	__sync_fetch_and_add(&udp->seen.received, 1);
	udp->received_bytes += taking.bytes;
	udp_on_message(udp, sk, now_ns);
	udp_received(udp, at, &taking, &copied, now_ns);
}

#endif
