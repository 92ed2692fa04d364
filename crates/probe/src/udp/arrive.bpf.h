/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Datagrams arrive: each is noted when it is handed to the socket, with the time at which it arrived.
 *
 * Several CPUs may hand datagrams to a socket at a time, and several threads take them: a place in the ring is
 * written by one CPU, and claimed by one thread.
 */
#ifndef WHYLAT_UDP_ARRIVE_BPF_H
#define WHYLAT_UDP_ARRIVE_BPF_H

#include "../udp_flows/udp_times.bpf.h"
#include "input.bpf.h"
#include "socket.bpf.h"

/* A power of two: as many small ones as the default receive buffer holds, about. */
#define DATAGRAMS 256

/* Packets that other CPUs may have queued behind one, or noted before it, at the same moment. */
#define QUEUED_MOST 4

/* Packets that may be queued before the socket is notified of the first: some kernels queue what all CPUs brought. */
#define UNTOLD_MOST 64

/* How often a CPU chooses again if another noted its choice meanwhile. */
#define CLAIMS_MOST 3

/* A reader on another CPU is never faster by more. */
#define OWED_MOST_NS 10000

#define LEN_UNKNOWN ((u32) - 1) /* only its packet is known, which is not one whole datagram */

struct datagram {
	u64 skb;
	u64 arrived_ns; /* 0: not known */
	u32 until_taken_ns;
	u32 until_ready_ns;
	u32 len;
	u32 number;  /* its place in the ring, counted on, and one more: it is written */
	u32 claimed; /* the same: it is taken */
	u32 left_by; /* thread with a call that ended when it was taken already, and was not its own */
	u16 segments;
	u16 cpu;
	u32 pad;
};

struct udp_queue {
	u32 head;
	u32 tail;
	u32 closed; /* nothing is noted until the socket's queue is empty: some are in it that are not noted */
	u32 pad;
	u64 owed_ns; /* when a call ended that took one before it was noted; 0: all that were taken are noted */
	struct datagram datagrams[DATAGRAMS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_queue);
} udp_queues SEC(".maps");

static __always_inline struct datagram *udp_datagram(struct udp_queue *queue, u32 place)
{
	return &queue->datagrams[place & (DATAGRAMS - 1)];
}

/* The first packet of a queue, or NULL. */
static __always_inline void *queue_oldest(const struct sk_buff_head *queue)
{
	void *oldest = KERNEL_READ_POINTER(&queue->next);

	return oldest == queue ? NULL : oldest;
}

/* The last, or NULL. */
static __always_inline void *queue_newest(const struct sk_buff_head *queue)
{
	void *newest = KERNEL_READ_POINTER(&queue->prev);

	return newest == queue ? NULL : newest;
}

/* The oldest packet of the socket's queues: of that of its readers, and then of what has come. NULL: it has none. */
static __always_inline void *udp_oldest(const struct sock *sk)
{
	void *oldest = queue_oldest(&((struct udp_sock *)sk)->reader_queue);

	return oldest ? oldest : queue_oldest(&sk->sk_receive_queue);
}

/* The newest; NULL: a reader has taken all. */
static __always_inline void *udp_newest(const struct sock *sk)
{
	void *newest = queue_newest(&sk->sk_receive_queue);

	return newest ? newest : queue_newest(&((struct udp_sock *)sk)->reader_queue);
}

/* Unless the socket is known since it was made, some may be in it already. */
static __always_inline struct udp_queue *udp_queue_begin(const struct udp_socket *udp,
							 struct sock *sk)
{
	struct udp_queue *queue = sk_storage_made(&udp_queues, sk);

	if (queue && !udp->seen.created_ns)
		queue->closed = 1;
	return queue;
}

/* Does the socket still have the packet, which is among those that came last? What is older has left before it. */
static __always_inline bool udp_lies(const struct sock *sk, u64 skb, u64 arrived_ns)
{
	void *oldest = udp_oldest(sk), *at = udp_newest(sk);
	const struct arrival *arrival = arrival_known(oldest);

	if (!oldest || (u64)oldest == skb)
		return oldest;
	if (arrival && arrival->arrived_ns && arrived_ns)
		return arrival->arrived_ns <= arrived_ns;
	for (u32 i = 0; i < QUEUED_MOST && at; i++) {
		if ((u64)at == skb)
			return true;
		at = KERNEL_READ_POINTER(&((struct sk_buff *)at)->prev);
	}
	return false;
}

/* Was what the socket is notified of taken by a call that has ended, and did not find it? Then that is settled. */
static __always_inline bool udp_was_owed(struct udp_queue *queue, const struct sock *sk, u64 skb,
					 u64 arrived_ns)
{
	u64 owed_ns;

	if (!READ_ONCE(queue->owed_ns) || udp_lies(sk, skb, arrived_ns))
		return false;
	owed_ns = __sync_lock_test_and_set(&queue->owed_ns, 0);
	return owed_ns && bpf_ktime_get_ns() - owed_ns <= OWED_MOST_NS;
}

static __always_inline void datagram_times(struct datagram *to, u64 arrived_ns, u64 taken_ns,
					   u64 ready_ns)
{
	if (!arrived_ns || taken_ns < arrived_ns || ready_ns - arrived_ns > (u32)-1)
		arrived_ns = taken_ns = 0;
	to->arrived_ns = arrived_ns;
	to->until_taken_ns = taken_ns - arrived_ns;
	to->until_ready_ns = arrived_ns ? ready_ns - arrived_ns : 0;
}

/* Returns what its input shows of a packet that is out of the socket's queue already. */
static __always_inline void datagram_of_input(struct datagram *to, const struct udp_input *in,
					      u64 ready_ns)
{
	to->skb = in->skb;
	to->len = in->port ? in->bytes : LEN_UNKNOWN;
	to->segments = 1;
	datagram_times(to, in->arrived_ns, in->taken_ns, ready_ns);
}

/* A packet of the socket's queue, with its times; 0: not known. */
static __always_inline void datagram_of_queued(struct datagram *to, u64 skb, u64 arrived_ns,
					       u64 taken_ns, u64 ready_ns)
{
	to->skb = skb;
	to->len = KERNEL_READ(struct sk_buff, (void *)skb, len);
	to->segments = 1;
	datagram_times(to, arrived_ns, taken_ns, ready_ns);
}

/* Of a packet that is cut, or goes to several sockets: it has the times of the whole. 0: a reader has what it got. */
static __always_inline void datagram_of_cloned(struct datagram *to, const struct udp_input *in,
					       u64 got, u64 now_ns)
{
	if (got)
		datagram_of_queued(to, got, in->arrived_ns, in->taken_ns, now_ns);
	else
		datagram_of_input(to, in, now_ns);
	if (to->skb == in->skb && in->segments > 1)
		to->segments = in->segments;
}

static __always_inline bool udp_is_clone(const void *skb)
{
	return BPF_CORE_READ_BITFIELD_PROBED((struct sk_buff *)skb, cloned);
}

/* The oldest packets at the end of a socket's queue that are not reported to it yet; 0: there is none. */
struct udp_unseen {
	u64 oldest_here; /* that this CPU took */
	u64 oldest;
};

/* When all parts of a datagram are here (inet_frag_reasm_prepare()), the last has the data of the first. */
static __always_inline bool udp_has_head(const void *skb, const struct arrival *arrival, u64 input)
{
	return (u64)skb == input ||
	       (u64)KERNEL_READ_POINTER(&((struct sk_buff *)skb)->head) == arrival->head;
}

/*
 * Behind a packet of this CPU others' may lie that are reported to the socket already. Before the oldest packet is the
 * queue itself, without anything known.
 */
__noinline int udp_find_unseen(struct udp_unseen *to, u64 newest, u64 input)
{
	u32 here = bpf_get_smp_processor_id() + 1;
	void *at = (void *)newest;

	if (!to)
		return 0;
	to->oldest_here = to->oldest = 0;
	for (u32 i = 0; i < UNTOLD_MOST; i++) {
		const struct arrival *arrival = arrival_known(at);
		u32 cpu;

		if (!arrival || !udp_has_head(at, arrival, input))
			break;
		cpu = READ_ONCE(arrival->unseen_cpu);
		if (!cpu && to->oldest_here)
			break;
		if (cpu)
			to->oldest = (u64)at;
		if (cpu == here)
			to->oldest_here = (u64)at;
		at = KERNEL_READ_POINTER(&((struct sk_buff *)at)->prev);
	}
	return 0;
}

/* Returns which CPU took it, and one more, if it is for us to note it; 0: its socket was notified of it by another CPU. */
static __always_inline u32 arrival_claim(struct arrival *arrival)
{
	u32 cpu = READ_ONCE(arrival->unseen_cpu);

	return cpu && __sync_val_compare_and_swap(&arrival->unseen_cpu, cpu, 0) == cpu ? cpu : 0;
}

/* Another CPU's input is noted: no call is to look for it there. */
static __always_inline void input_of_other_seen(u32 cpu, u64 skb)
{
	struct udp_input *in;
	u32 key = 0;
	u64 state;

	in = bpf_map_lookup_percpu_elem(&udp_inputs, &key, cpu);
	if (!in)
		return;
	state = READ_ONCE(in->state);
	barrier();
	if (in->skb == skb && state > INPUT_TAKEN)
		__sync_val_compare_and_swap(&in->state, state, INPUT_NOTED);
}

/* A packet of the queue, unless its socket was notified of it meanwhile. */
static __always_inline bool datagram_unseen(struct datagram *to, u64 skb, u64 now_ns)
{
	struct arrival *arrival = arrival_known((void *)skb);
	u32 cpu;

	if (!arrival)
		return false;
	cpu = arrival_claim(arrival);
	if (!cpu)
		return false;
	datagram_of_queued(to, skb, arrival->arrived_ns, arrival->taken_ns, now_ns);
	if (to->cpu != cpu - 1) {
		to->cpu = cpu - 1;
		input_of_other_seen(to->cpu, skb);
	}
	return true;
}

/* The input, by what is known of it alone. */
static __always_inline bool input_unseen(struct datagram *to, const struct udp_input *in,
					 u64 now_ns)
{
	struct arrival *arrival = arrival_known((void *)in->skb);

	if (arrival && !arrival_claim(arrival))
		return false;
	datagram_of_input(to, in, now_ns);
	return true;
}

/*
 * Which of the last packets of a queue is the one that its socket gets of the input, which several get: a clone, or for
 * the last of them the input itself. 0: none is.
 */
__noinline u64 udp_clone_of(const struct udp_input *in, u64 newest)
{
	void *at = (void *)newest;

	if (!in || !at || (!in->is_cloned && !udp_is_clone(at)))
		return 0;
	for (u32 i = 0; i < QUEUED_MOST && at; i++) {
		if (udp_is_clone(at) &&
		    (u64)KERNEL_READ_POINTER(&((struct sk_buff *)at)->head) == in->head)
			return (u64)at;
		at = KERNEL_READ_POINTER(&((struct sk_buff *)at)->prev);
	}
	return 0;
}

/* Is what the socket got of this CPU's input among what was noted last? */
__noinline int udp_is_noted(struct udp_queue *queue, const struct udp_input *in)
{
	if (!queue || !in || !in->arrived_ns)
		return 0;
	for (u32 i = 1; i <= QUEUED_MOST; i++) {
		u32 place = queue->tail - i;
		const struct datagram *at = udp_datagram(queue, place);

		if (at->number == place + 1 && at->arrived_ns == in->arrived_ns &&
		    at->cpu == bpf_get_smp_processor_id())
			return 1;
	}
	return 0;
}

enum datagram_seen {
	SEEN_NOTHING, /* it is noted, or cannot be known */
	SEEN_INPUT,
	SEEN_OTHER,
};

/*
 * Which datagram the socket is notified of, if it is for itself alone: of one that this CPU took, behind which others may
 * lie by now; or if none of them is in the queue, of the input, which a reader has already. Some kernels queue what
 * other CPUs took, too, and then notify the socket as often: so then of one of them.
 */
static __always_inline enum datagram_seen
datagram_of_one(struct datagram *to, const struct udp_input *in, u64 newest, u64 clone, u64 now_ns)
{
	struct udp_unseen unseen;

	for (u32 i = 0; i < CLAIMS_MOST; i++) {
		u64 skb;

		udp_find_unseen(&unseen, newest, in->skb);
		if (!unseen.oldest_here && in->state != INPUT_NOTED && !in->is_not_one &&
		    input_unseen(to, in, now_ns))
			return SEEN_INPUT;
		if (!unseen.oldest_here && clone) {
			datagram_of_cloned(to, in, clone, now_ns);
			return SEEN_INPUT;
		}
		skb = unseen.oldest_here ? unseen.oldest_here : unseen.oldest;
		if (!skb)
			break;
		if (datagram_unseen(to, skb, now_ns))
			return skb == in->skb ? SEEN_INPUT : SEEN_OTHER;
		/* another CPU was notified of it meanwhile */
	}
	if (!newest || udp_is_clone((void *)newest) || arrival_known((void *)newest))
		return SEEN_NOTHING;
	datagram_of_queued(to, newest, 0, 0, now_ns);
	return SEEN_OTHER;
}

/* The same of any. What each of several sockets gets of an input, each is notified of once. */
static __always_inline enum datagram_seen datagram_arrived(struct datagram *to,
							   struct udp_queue *queue,
							   const struct udp_input *in, u64 newest,
							   u64 clone, u64 now_ns)
{
	bool cloned = in->is_cloned && !in->is_not_one;

	if (cloned && in->segments > 1) {
		datagram_of_cloned(to, in, newest, now_ns);
		return SEEN_INPUT;
	}
	if ((cloned || clone) && udp_is_noted(queue, in)) {
		if (cloned)
			return SEEN_NOTHING;
		clone = 0;
	}
	if (cloned || (clone && clone != in->skb)) {
		datagram_of_cloned(to, in, clone, now_ns);
		return SEEN_INPUT;
	}
	return datagram_of_one(to, in, newest, clone, now_ns);
}

/* Marks an input as seen: its socket was notified of it, or none is recorded. */
static __always_inline void input_seen(struct udp_input *in)
{
	struct arrival *arrival = arrival_known((void *)in->skb);

	if (arrival)
		arrival->unseen_cpu = 0;
	in->state = INPUT_NOTED;
}

/* The same. Has a call noted it meanwhile? */
static __always_inline bool input_was_taken(struct udp_input *in)
{
	u64 was = __sync_val_compare_and_swap(&in->state, in->taken_ns, INPUT_NOTED);

	input_seen(in);
	return was == INPUT_TAKEN;
}

static __always_inline void datagram_note(struct udp_queue *queue, const struct datagram *from,
					  enum datagram_seen seen, struct udp_input *in,
					  const struct sock *sk)
{
	u32 number = __sync_fetch_and_add(&queue->tail, 1);
	struct datagram *at = udp_datagram(queue, number);

	*at = *from;
	/* a call that has not seen it here owes it, and looks again: see udp_take_early() */
	__sync_lock_test_and_set(&at->number, number + 1);
	if (seen == SEEN_INPUT && input_was_taken(in))
		at->claimed = number + 1;
	else if (udp_was_owed(queue, sk, at->skb, at->arrived_ns))
		__sync_lock_test_and_set(&at->claimed, number + 1);
}

/* Is there room, and is all noted that the socket has? */
static __always_inline bool udp_queue_opens(struct udp_queue *queue, const struct sock *sk)
{
	if (queue->closed) {
		if (queue->head != queue->tail || udp_queued(sk) > 1)
			return false;
		queue->closed = 0;
	}
	if (queue->tail - queue->head < DATAGRAMS)
		return true;
	queue->closed = 1;
	return false;
}

static __always_inline void udp_queue_on_ready(struct udp_queue *queue, struct udp_input *in,
					       struct sock *sk)
{
	struct datagram datagram = {};
	u64 newest = (u64)udp_newest(sk), clone = udp_clone_of(in, newest);
	enum datagram_seen seen;

	if (in->state == INPUT_TAKEN) {
		if (!udp_lies(sk, in->skb, in->arrived_ns) && !clone) {
			input_seen(in);
			return;
		}
		/* it is still there: the call took another */
		in->state = in->taken_ns;
	}
	datagram.cpu = bpf_get_smp_processor_id();
	seen = datagram_arrived(&datagram, queue, in, newest, clone, bpf_ktime_get_ns());
	if (seen == SEEN_NOTHING)
		udp_was_owed(queue, sk, 0, 0);
	else
		datagram_note(queue, &datagram, seen, in, sk);
}

/* sk_data_ready: a datagram has come into the socket's queue. */
static __always_inline void udp_on_ready(struct sock *sk)
{
	struct udp_queue *queue = NULL;
	struct udp_socket *udp;
	struct udp_input *in;
	u32 key = 0;

	in = bpf_map_lookup_elem(&udp_inputs, &key);
	if (!in)
		return;
	udp = udp_socket_find(sk, false);
	if (udp) {
		queue = bpf_sk_storage_get(&udp_queues, sk, NULL, 0);
		if (!queue)
			queue = udp_queue_begin(udp, sk);
	}
	if (queue && udp_queue_opens(queue, sk))
		udp_queue_on_ready(queue, in, sk);
	else if (!in->is_not_one || (u64)udp_newest(sk) == in->skb)
		input_seen(in);
}

#endif
