/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Which datagram a call has taken. A socket gives its datagrams in the order in which it got them; which ones it
 * still has shows which one was taken.
 *
 * A small datagram is copied without passing a hook, and the packet is gone when the call ends: so packets are
 * only ever compared by their addresses.
 */
#ifndef WHYLAT_UDP_TAKE_BPF_H
#define WHYLAT_UDP_TAKE_BPF_H

#include "arrive.bpf.h"

/* A datagram that was passed by is forgotten when so many after it are taken: another thread may take its time. */
#define PASSED_BY 8

/* More CPUs than a host has. */
#define CPUS_MOST 8192

#define NO_DATAGRAM ((u32) - 1)

/* A call that has taken a datagram. */
struct udp_taking {
	u64 copied;	     /* its packet; 0: not seen */
	u64 had_ns;	     /* when it had it for certain */
	u64 next;	     /* the oldest packet that the socket still has; 0: it has none */
	u64 next_arrived_ns; /* 0: not known */
	u64 netns;	     /* struct net *, of the socket */
	s64 asked;	     /* bytes that the call had room for; -1: not known */
	u32 bytes;
	u32 tid;
	u32 tail;
	u32 found;	/* place in the ring, or NO_DATAGRAM */
	u32 fits;	/* FITS* of that */
	u32 next_place; /* of what the socket still has, or NO_DATAGRAM */
	u32 coming;	/* packets that it may be, that are not reported to the socket yet */
	u16 coming_cpu;
	u16 port;	/* of the socket */
	u32 is_claimed; /* what was found is */
};

/* NULL: another call has claimed it. */
static __always_inline struct datagram *udp_claim(struct udp_queue *queue, u32 found)
{
	struct datagram *at = udp_datagram(queue, found);

	return __sync_lock_test_and_set(&at->claimed, found + 1) == found + 1 ? NULL : at;
}

#define FITS_CUT 1
#define FITS 2

/* Can the call have taken so many bytes? Surely it can if it took all of them. */
static __always_inline u32 udp_fits(u32 len, const struct udp_taking *taking)
{
	if (len == LEN_UNKNOWN || len == taking->bytes)
		return FITS;
	if (taking->bytes < len && taking->bytes == taking->asked)
		return FITS_CUT;
	return 0;
}

/*
 * Does the socket still have it, and all after it? What is noted may be of an earlier packet of that address, and so
 * may what is known of the next, if that is a clone.
 */
static __always_inline bool udp_is_next(const struct datagram *at, const struct udp_taking *taking)
{
	return at->skb == taking->next &&
	       (!at->arrived_ns || at->arrived_ns >= taking->next_arrived_ns);
}

/*
 * Was it queued before what the socket has next, though it was noted after that? Two CPUs that queue at a time may
 * note in another order; what came later was not with the stack yet when the next was noted.
 */
static __always_inline bool udp_was_before(const struct datagram *at, const struct datagram *next,
					   const struct udp_taking *taking)
{
	return at->cpu != next->cpu && udp_fits(at->len, taking) == FITS && at->arrived_ns &&
	       at->arrived_ns + at->until_taken_ns < next->arrived_ns + next->until_ready_ns;
}

/* The same from the other side: what was noted before the next, but may have been queued after it, is not taken. */
static __always_inline void udp_not_left(struct udp_queue *queue, u32 next_place, u32 tid)
{
	const struct datagram *next = udp_datagram(queue, next_place);

	for (u32 i = 1; i <= QUEUED_MOST; i++) {
		struct datagram *at = udp_datagram(queue, next_place - i);

		if (at->left_by == tid && at->cpu != next->cpu && next->arrived_ns &&
		    at->arrived_ns + at->until_ready_ns > next->arrived_ns + next->until_taken_ns)
			at->left_by = 0;
	}
}

/* Holds what of the ring is examined, in order. */
struct udp_search {
	struct udp_queue *queue;
	struct udp_taking *taking;
	u32 head;
};

static long udp_find_next_at(u32 i, void *context)
{
	const struct udp_search *search = context;
	struct udp_taking *taking = search->taking;
	u32 place = search->head + i;
	const struct datagram *at = udp_datagram(search->queue, place);

	if (place == taking->tail)
		return 1;
	if (at->number != place + 1 || !udp_is_next(at, taking))
		return 0;
	taking->next_place = place;
	return at->claimed != place + 1;
}

/* Finds what the socket has next. What is claimed is it if nothing else is: then a call was taken for another. */
static __always_inline void udp_find_next(struct udp_queue *queue, struct udp_taking *taking)
{
	struct udp_search search = {queue, taking, queue->head};

	bpf_loop(DATAGRAMS, udp_find_next_at, &search, 0);
}

/* May it have been taken, by its place and its time? Without a known next one, nothing shows. */
static __always_inline bool udp_is_before_next(const struct datagram *at, u32 place,
					       const struct udp_taking *taking)
{
	if (!taking->next)
		return true;
	if (taking->next_place != NO_DATAGRAM)
		return (s32)(place - taking->next_place) < 0;
	return at->arrived_ns && at->arrived_ns < taking->next_arrived_ns;
}

/* Is all that was noted before what the socket has next taken, or lost? */
static __always_inline bool udp_proves_left(const struct udp_taking *taking)
{
	return !taking->next || taking->next_place != NO_DATAGRAM;
}

static long udp_find_at(u32 i, void *context)
{
	const struct udp_search *search = context;
	struct udp_taking *taking = search->taking;
	u32 place = search->head + i, fits;
	struct datagram *at = udp_datagram(search->queue, place);

	if (place == taking->tail)
		return 1;
	if (at->number != place + 1 || at->claimed == place + 1)
		return 0;
	if (at->skb == taking->copied) {
		taking->found = place;
		return 1;
	}
	if (!udp_is_before_next(at, place, taking))
		return !taking->copied;
	fits = at->left_by == taking->tid ? 0 : udp_fits(at->len, taking);
	if (fits == FITS && !taking->fits && !taking->copied) {
		/* if another thread's call is faster, the next is ours */
		if (!udp_claim(search->queue, place))
			return 0;
		taking->is_claimed = 1;
	}
	if (fits <= taking->fits) {
		if (udp_proves_left(taking))
			at->left_by = taking->tid;
		return 0;
	}
	if (taking->fits)
		udp_datagram(search->queue, taking->found)->left_by = taking->tid;
	taking->found = place;
	taking->fits = fits;
	return 0;
}

/*
 * Finds what the call has taken: what the socket has no more, and no call has claimed; the oldest first, and of
 * that what this thread has not passed by before, which was lost (to a wrong checksum, say).
 */
static __always_inline void udp_find(struct udp_queue *queue, struct udp_taking *taking)
{
	struct udp_search search = {queue, taking, queue->head};

	bpf_loop(DATAGRAMS, udp_find_at, &search, 0);
}

/*
 * The order, once the next datagram of the socket is known: what was not left before that after all; and
 * if nothing was found, what was noted after it, though it was queued before.
 */
__noinline int udp_find_behind(struct udp_queue *queue, struct udp_taking *taking)
{
	const struct datagram *next;

	if (!queue || !taking || taking->next_place == NO_DATAGRAM)
		return 0;
	udp_not_left(queue, taking->next_place, taking->tid);
	if (taking->found != NO_DATAGRAM)
		return 0;
	next = udp_datagram(queue, taking->next_place);
	for (u32 i = 1; i <= QUEUED_MOST; i++) {
		u32 place = taking->next_place + i;
		const struct datagram *at = udp_datagram(queue, place);

		if (place == taking->tail)
			break;
		if (at->number == place + 1 && at->claimed != place + 1 &&
		    udp_was_before(at, next, taking)) {
			taking->found = place;
			break;
		}
	}
	return 0;
}

/* May it be what the call has taken, which the socket was not notified of yet? `state` is its state. */
static __always_inline bool udp_input_fits(const struct udp_input *in, u64 state,
					   const struct udp_taking *taking)
{
	if (state <= INPUT_TAKEN || in->is_cloned || in->is_not_one || in->netns != taking->netns ||
	    in->taken_ns > taking->had_ns || in->skb == taking->next)
		return false;
	if (taking->copied)
		return in->skb == taking->copied;
	return in->port == taking->port && in->bytes == taking->bytes;
}

static long udp_input_look(u32 cpu, void *context)
{
	struct udp_taking *taking = context;
	const struct udp_input *in;
	u32 key = 0;

	in = bpf_map_lookup_percpu_elem(&udp_inputs, &key, cpu);
	if (!in)
		return 1;
	/* what this CPU brings is noted before the thread runs again */
	if (cpu == bpf_get_smp_processor_id() || !udp_input_fits(in, READ_ONCE(in->state), taking))
		return 0;
	taking->coming = taking->coming ? 2 : 1;
	taking->coming_cpu = cpu;
	return taking->coming > 1;
}

/*
 * Notes, as taken, what the CPU is about to hand over. False: its socket was notified of something since it was examined
 * for, which is noted.
 */
static __always_inline bool udp_note_coming(struct udp_queue *queue, struct udp_taking *taking)
{
	u32 number = taking->tail, key = 0;
	struct udp_input *in;
	struct datagram *at;
	bool is_ours;
	u64 state;

	in = bpf_map_lookup_percpu_elem(&udp_inputs, &key, taking->coming_cpu);
	if (!in || number - queue->head >= DATAGRAMS)
		return false;
	state = READ_ONCE(in->state);
	barrier();
	if (!udp_input_fits(in, state, taking) ||
	    __sync_val_compare_and_swap(&queue->tail, number, number + 1) != number)
		return false;
	at = udp_datagram(queue, number);
	datagram_of_input(at, in, taking->had_ns);
	at->cpu = taking->coming_cpu;
	at->left_by = 0;
	at->claimed = number + 1;
	is_ours = __sync_val_compare_and_swap(&in->state, state, INPUT_TAKEN) == state;
	at->number = number + 1;
	if (is_ours)
		taking->found = number;
	return is_ours;
}

/*
 * What the call has taken before its socket was notified of it: the packet that another CPU is about to hand over.
 * If two could be it, none is.
 */
static __always_inline struct datagram *udp_take_coming(struct udp_queue *queue,
							struct udp_taking *taking)
{
	taking->coming = 0;
	bpf_loop(CPUS_MOST, udp_input_look, taking, 0);
	if (taking->coming != 1 || !udp_note_coming(queue, taking))
		return NULL;
	return udp_datagram(queue, taking->found);
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
		/* before 0: another thread has moved the head past what was found */
		if (at->claimed != head + 1 && !(at->left_by && (s32)(found - head) > PASSED_BY))
			break;
		queue->head = head + 1;
	}
	return 0;
}

/* Returns what the socket still has. */
static __always_inline void udp_next(struct udp_taking *taking, const struct sock *sk)
{
	void *next = udp_oldest(sk);
	const struct arrival *arrival;

	arrival = arrival_known(next);
	taking->next = (u64)next;
	taking->next_arrived_ns = arrival ? arrival->arrived_ns : 0;
}

/* Returns the noted datagram that the receive call took; NULL: it was not noted. */
static __always_inline struct datagram *udp_take_noted(struct sock *sk, struct udp_queue *queue,
						       struct udp_taking *taking)
{
	taking->tail = READ_ONCE(queue->tail);
	barrier();
	udp_next(taking, sk);
	taking->found = taking->next_place = NO_DATAGRAM;
	if (taking->next)
		udp_find_next(queue, taking);
	udp_find(queue, taking);
	udp_find_behind(queue, taking);
	if (taking->found == NO_DATAGRAM)
		return NULL;
	return taking->is_claimed ? udp_datagram(queue, taking->found)
				  : udp_claim(queue, taking->found);
}

/*
 * The same of what was not noted when it was searched for first. Who notes it meanwhile either is seen here, or sees
 * that it is owed, and claims it.
 */
static __always_inline struct datagram *udp_take_early(struct sock *sk, struct udp_queue *queue,
						       struct udp_taking *taking)
{
	struct datagram *at = udp_take_coming(queue, taking);

	if (at)
		return at;
	__sync_lock_test_and_set(&queue->owed_ns, bpf_ktime_get_ns());
	at = udp_take_noted(sk, queue, taking);
	if (at)
		queue->owed_ns = 0;
	return at;
}

/* The datagram that a call has taken; NULL: it was not noted. */
static __always_inline struct datagram *udp_take(struct sock *sk, struct udp_taking *taking)
{
	struct udp_queue *queue = bpf_sk_storage_get(&udp_queues, sk, NULL, 0);
	struct datagram *at;

	if (!queue)
		return NULL;
	at = udp_take_noted(sk, queue, taking);
	if (taking->found == NO_DATAGRAM && taking->bytes && !queue->closed)
		at = udp_take_early(sk, queue, taking);
	if (taking->found != NO_DATAGRAM)
		udp_release(queue, taking->found);
	else if (queue->closed && !taking->next)
		queue->head = taking->tail; /* the socket has none: what is noted was lost */
	return at;
}

#endif
