/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Datagrams arrive: each is noted when it is handed to the socket, with the time at which it arrived.
 *
 * Several CPUs may hand datagrams to a socket at a time, and several threads take them: a place in the ring is
 * written by one CPU, and claimed by one thread.
 */
#ifndef WHYLAT_UDP_ARRIVE_BPF_H
#define WHYLAT_UDP_ARRIVE_BPF_H

#include "../messages/arrival.bpf.h"
#include "socket.bpf.h"

#define IPV4_HEADER_LEN 20 /* without options */
#define IPV6_HEADER_LEN 40
#define UDP_HEADER_LEN 8
#define IP_PART 0x3fff /* of frag_off: more parts follow, or where this one lies */

/* A power of two: as many small ones as the default receive buffer holds, about. */
#define DATAGRAMS 256

/* Packets that other CPUs may have queued behind one, or noted before it, at the same moment. */
#define QUEUED_MOST 4

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
	u32 left_by; /* thread whose call ended when it was taken already, and was not its own */
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

/*
 * The packet that the stack took last on this CPU. It is handed to its socket before the stack takes the next,
 * unless the driver gave several at once: then all are taken first.
 */
struct udp_input {
	u64 skb;
	u64 head;  /* of its data, which clones have too */
	u64 netns; /* struct net * */
	u64 arrived_ns;
	u64 taken_ns;
	u64 state;     /* taken_ns: no socket was told of it; else INPUT_* */
	u16 port;      /* to which the datagram goes; 0: the packet is not one whole datagram */
	u16 bytes;     /* that it has */
	u16 segments;  /* datagrams that it was joined of, or is to be cut into */
	u8 is_cloned;  /* it goes to several sockets for certain, or is cut: their packets are others */
	u8 is_not_one; /* no socket was told of the one before, either */
};

#define INPUT_NOTED 1 /* its socket was told */
#define INPUT_TAKEN 2 /* a call had it before, and has noted it */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct udp_input);
} udp_inputs SEC(".maps");

static __always_inline struct datagram *udp_datagram(struct udp_queue *queue, u32 place)
{
	return &queue->datagrams[place & (DATAGRAMS - 1)];
}

/* May it be a datagram? Its data begins with the header of IP; of a part of one it does, too. */
static __always_inline bool udp_may_be(const struct sk_buff *skb)
{
	u16 protocol = bpf_ntohs(skb->protocol);
	void *header = skb->data;

	if (protocol == ETH_P_IP)
		return KERNEL_READ(struct iphdr, header, protocol) == IPPROTO_UDP;
	return protocol == ETH_P_IPV6 &&
	       KERNEL_READ(struct ipv6hdr, header, nexthdr) != IPPROTO_TCP;
}

static __always_inline u16 udp_segments(const struct sk_buff *skb)
{
	return KERNEL_READ(struct skb_shared_info, (void *)((u64)skb->head + skb->end), gso_segs);
}

/* Where the header of UDP begins, and how long the datagram is with it; NULL: it is not whole, or elsewhere. */
static __always_inline void *udp_header(const struct sk_buff *skb, u16 *len)
{
	void *header = skb->data;

	if (bpf_ntohs(skb->protocol) == ETH_P_IP) {
		if (BPF_CORE_READ_BITFIELD_PROBED((struct iphdr *)header, ihl) !=
			    IPV4_HEADER_LEN / 4 ||
		    KERNEL_READ(struct iphdr, header, frag_off) & bpf_htons(IP_PART))
			return NULL;
		*len = bpf_ntohs(KERNEL_READ(struct iphdr, header, tot_len)) - IPV4_HEADER_LEN;
		return header + IPV4_HEADER_LEN;
	}
	if (KERNEL_READ(struct ipv6hdr, header, nexthdr) != IPPROTO_UDP)
		return NULL;
	*len = bpf_ntohs(KERNEL_READ(struct ipv6hdr, header, payload_len));
	return header + IPV6_HEADER_LEN;
}

/* To which port the packet brings how many bytes, if it is one datagram. */
static __always_inline void udp_input_to(struct udp_input *in, const struct sk_buff *skb)
{
	void *header;
	u16 len;

	in->port = 0;
	if (in->is_cloned)
		return;
	header = udp_header(skb, &len);
	if (!header || len < UDP_HEADER_LEN)
		return;
	in->bytes = len - UDP_HEADER_LEN;
	in->port = bpf_ntohs(KERNEL_READ(struct udphdr, header, dest));
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
	in->is_not_one = in->state > INPUT_TAKEN;
	in->state = INPUT_NOTED;
	barrier();
	in->skb = (u64)skb;
	in->head = (u64)skb->head;
	in->netns = (u64)skb->dev->nd_net.net;
	in->taken_ns = bpf_ktime_get_ns();
	in->arrived_ns = arrived_ns(skb);
	in->segments = udp_segments(skb);
	in->is_cloned = in->segments > 1 || BPF_CORE_READ_BITFIELD(skb, pkt_type) != PACKET_HOST;
	udp_input_to(in, skb);
	if (in->arrived_ns) {
		arrival->taken_ns = in->taken_ns;
		arrival->untold_cpu = bpf_get_smp_processor_id() + 1;
	}
	barrier();
	in->state = in->taken_ns;
}

/* Datagrams that lie in the socket's queues. */
static __always_inline u32 udp_queued(const struct sock *sk)
{
	return sk->sk_receive_queue.qlen + KERNEL_READ(struct udp_sock, sk, reader_queue.qlen);
}

/* The last packet of a queue, or NULL. */
static __always_inline void *queue_newest(const struct sk_buff_head *queue)
{
	void *newest = KERNEL_READ_POINTER(&queue->prev);

	return newest == queue ? NULL : newest;
}

/* The newest packet of the socket's queues; NULL: a reader has taken all. */
static __always_inline void *udp_newest(const struct sock *sk)
{
	void *newest = queue_newest(&sk->sk_receive_queue);

	return newest ? newest : queue_newest(&((struct udp_sock *)sk)->reader_queue);
}

static __always_inline struct udp_queue *udp_queue_begin(struct sock *sk)
{
	struct udp_queue *queue = sk_storage_made(&udp_queues, sk);

	if (queue)
		queue->closed = 1;
	return queue;
}

/* Is the packet among the last of the socket's queue? */
static __always_inline bool udp_lies(const struct sock *sk, u64 skb)
{
	void *at = udp_newest(sk);

	for (u32 i = 0; i < QUEUED_MOST && at && at != &sk->sk_receive_queue; i++) {
		if ((u64)at == skb)
			return true;
		at = KERNEL_READ_POINTER(&((struct sk_buff *)at)->prev);
	}
	return false;
}

/* Was what the socket is told of taken by a call that has ended, and did not find it? Then that is settled. */
static __always_inline bool udp_was_owed(struct udp_queue *queue, const struct sock *sk, u64 skb)
{
	u64 owed_ns;

	if (!READ_ONCE(queue->owed_ns) || udp_lies(sk, skb))
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

/* What its input tells of a packet that is no more the newest of the socket's queue, or is out of it already. */
static __always_inline void datagram_of_input(struct datagram *to, const struct udp_input *in,
					      u64 ready_ns)
{
	to->skb = in->skb;
	to->len = in->port ? in->bytes : LEN_UNKNOWN;
	to->segments = 1;
	datagram_times(to, in->arrived_ns, in->taken_ns, ready_ns);
}

/* The newest packet of the socket's queue, with its times; 0: not known. */
static __always_inline void datagram_of_newest(struct datagram *to, void *newest, u64 arrived_ns,
					       u64 taken_ns, u64 ready_ns)
{
	to->skb = (u64)newest;
	to->len = KERNEL_READ(struct sk_buff, newest, len);
	to->segments = 1;
	datagram_times(to, arrived_ns, taken_ns, ready_ns);
}

/* Of a packet that is cut, or goes to several sockets: it has the times of the whole. */
static __always_inline void datagram_of_cloned(struct datagram *to, const struct udp_input *in,
					       void *newest, u64 now_ns)
{
	if (newest)
		datagram_of_newest(to, newest, in->arrived_ns, in->taken_ns, now_ns);
	else
		datagram_of_input(to, in, now_ns);
	if (to->skb == in->skb && in->segments > 1)
		to->segments = in->segments;
}

/* What is known of the packet; NULL: nothing. */
static __always_inline struct arrival *arrival_known(const void *skb)
{
	struct arrival *arrival = skb ? arrival_of(skb) : NULL;

	return arrival && arrival->skb == (u64)skb ? arrival : NULL;
}

/* This CPU's own of the last packets of the socket's queue, of which it is told now; NULL: it is taken already. */
static __always_inline void *udp_newest_here(const struct sock *sk, void *newest)
{
	u32 here = bpf_get_smp_processor_id() + 1;

	for (u32 i = 0; i < QUEUED_MOST; i++) {
		const struct arrival *arrival = arrival_known(newest);

		if (!newest || newest == &sk->sk_receive_queue)
			break;
		if (arrival && arrival->untold_cpu == here)
			return newest;
		newest = KERNEL_READ_POINTER(&((struct sk_buff *)newest)->prev);
	}
	return NULL;
}

/* Is it for us to note it? Its socket was not told of it by another CPU. */
static __always_inline bool arrival_tell(struct arrival *arrival)
{
	u32 cpu = READ_ONCE(arrival->untold_cpu);

	return cpu && __sync_val_compare_and_swap(&arrival->untold_cpu, cpu, 0) == cpu;
}

/* A packet of the queue, unless its socket was told of it; without times if they are not known. */
static __always_inline bool datagram_untold(struct datagram *to, void *skb, u64 now_ns)
{
	struct arrival *arrival = arrival_known(skb);

	if (arrival && !arrival_tell(arrival))
		return false;
	datagram_of_newest(to, skb, arrival ? arrival->arrived_ns : 0,
			   arrival ? arrival->taken_ns : 0, now_ns);
	return true;
}

/* The input, by what is known of it alone. */
static __always_inline bool input_untold(struct datagram *to, const struct udp_input *in,
					 u64 now_ns)
{
	struct arrival *arrival = arrival_known((void *)in->skb);

	if (arrival && !arrival_tell(arrival))
		return false;
	datagram_of_input(to, in, now_ns);
	return true;
}

static __always_inline bool udp_is_clone(const void *skb)
{
	return BPF_CORE_READ_BITFIELD_PROBED((struct sk_buff *)skb, cloned);
}

/* Is it one of the packets that each of several sockets gets of the input? The last of them is the input itself. */
static __always_inline bool udp_is_clone_of(const struct udp_input *in, const void *skb)
{
	return udp_is_clone(skb) &&
	       (u64)KERNEL_READ_POINTER(&((struct sk_buff *)skb)->head) == in->head;
}

enum told {
	TOLD_NOTHING, /* it is noted, or cannot be told */
	TOLD_INPUT,
	TOLD_OTHER,
};

/*
 * Which datagram the socket is told of: of a packet of this CPU, behind which other CPUs' may lie by now and which a
 * reader may have taken; or of one that another CPU brought, and left to this one to queue.
 */
static __always_inline enum told datagram_arrived(struct datagram *to, const struct udp_input *in,
						  const struct sock *sk, void *newest, u64 now_ns)
{
	void *here;

	if (newest && udp_is_clone_of(in, newest)) {
		datagram_of_newest(to, newest, in->arrived_ns, in->taken_ns, now_ns);
		return TOLD_INPUT;
	}
	if (in->is_cloned && !in->is_not_one) {
		datagram_of_cloned(to, in, newest, now_ns);
		return TOLD_INPUT;
	}
	here = udp_newest_here(sk, newest);
	if (here && datagram_untold(to, here, now_ns))
		return (u64)here == in->skb ? TOLD_INPUT : TOLD_OTHER;
	if (here)
		return TOLD_NOTHING;
	if (in->state != INPUT_NOTED && !in->is_not_one)
		return input_untold(to, in, now_ns) ? TOLD_INPUT : TOLD_NOTHING;
	if (!newest || (u64)newest == in->skb || udp_is_clone(newest))
		return TOLD_NOTHING;
	return datagram_untold(to, newest, now_ns) ? TOLD_OTHER : TOLD_NOTHING;
}

/* Its socket was told of the input, or none is recorded. */
static __always_inline void input_told(struct udp_input *in)
{
	struct arrival *arrival = arrival_known((void *)in->skb);

	if (arrival)
		arrival->untold_cpu = 0;
	in->state = INPUT_NOTED;
}

/* The same. Has a call noted it meanwhile? */
static __always_inline bool input_was_taken(struct udp_input *in)
{
	u64 was = __sync_val_compare_and_swap(&in->state, in->taken_ns, INPUT_NOTED);

	input_told(in);
	return was == INPUT_TAKEN;
}

static __always_inline void datagram_note(struct udp_queue *queue, const struct datagram *from,
					  enum told told, struct udp_input *in,
					  const struct sock *sk)
{
	u32 number = __sync_fetch_and_add(&queue->tail, 1);
	struct datagram *at = udp_datagram(queue, number);

	*at = *from;
	/* whose call has not seen it here owes it, and looks again: see udp_take_early() */
	__sync_lock_test_and_set(&at->number, number + 1);
	if (told == TOLD_INPUT && input_was_taken(in))
		at->claimed = number + 1;
	else if (udp_was_owed(queue, sk, at->skb))
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
	enum told told;
	void *newest;

	if (in->state == INPUT_TAKEN) {
		newest = udp_newest(sk);
		if ((u64)newest != in->skb && !(newest && udp_is_clone_of(in, newest))) {
			input_told(in);
			return;
		}
		/* it is still there: the call took another */
		in->state = in->taken_ns;
	}
	newest = udp_newest(sk);
	datagram.cpu = bpf_get_smp_processor_id();
	told = datagram_arrived(&datagram, in, sk, newest, bpf_ktime_get_ns());
	if (told == TOLD_NOTHING)
		udp_was_owed(queue, sk, 0);
	else
		datagram_note(queue, &datagram, told, in, sk);
}

/* sk_data_ready: a datagram has come into the socket's queue. */
static __always_inline void udp_on_ready(struct sock *sk)
{
	struct udp_queue *queue = NULL;
	struct udp_input *in;
	u32 key = 0;

	in = bpf_map_lookup_elem(&udp_inputs, &key);
	if (!in)
		return;
	if (udp_met(sk, false)) {
		queue = bpf_sk_storage_get(&udp_queues, sk, NULL, 0);
		if (!queue)
			queue = udp_queue_begin(sk);
	}
	if (queue && udp_queue_opens(queue, sk))
		udp_queue_on_ready(queue, in, sk);
	else if (!in->is_not_one || (u64)udp_newest(sk) == in->skb)
		input_told(in);
}

#endif
