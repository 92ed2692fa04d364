/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * When a packet arrived at this host: the driver hands it over (netif_rx(), GRO), and then the stack takes
 * it (netif_receive_skb()); some drivers make one step of both. TCP looks at it at once, or when the thread
 * that has the socket lets it go, on another CPU. The time is noted in a place that the packet's address
 * gives, as packets that live have different ones. A place that another packet has taken meanwhile is found
 * to be so: then the time is not known.
 */
#ifndef WHYLAT_ARRIVAL_BPF_H
#define WHYLAT_ARRIVAL_BPF_H

#include "../bpf/kernel.h"

/* A power of two: many times the packets that are on their way through a host at a time. */
#define ARRIVALS 4096

struct arrival {
	u64 skb;
	u64 arrived_ns;
	u32 ifindex; /* of the device that handed it over and has not seen it taken; 0: taken */
	/* of what is not TCP's: */
	u32 unseen_cpu; /* which took it, and one more; 0: its socket was notified of it */
	u64 taken_ns;	/* when the stack took it; before arrived_ns: of another packet */
	u64 head;	/* of its data: a clone that has its address by now has others */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ARRIVALS);
	__type(key, u32);
	__type(value, struct arrival);
} arrivals SEC(".maps");

/* Where a packet is noted: struct sk_buff lies at multiples of 64 bytes. */
static __always_inline struct arrival *arrival_of(const struct sk_buff *skb)
{
	u32 key = ((u64)skb >> 6 ^ (u64)skb >> 18) & (ARRIVALS - 1);

	return bpf_map_lookup_elem(&arrivals, &key);
}

/* Returns what is known of the packet; NULL: nothing. */
static __always_inline struct arrival *arrival_known(const void *skb)
{
	struct arrival *arrival = skb ? arrival_of(skb) : NULL;

	return arrival && arrival->skb == (u64)skb ? arrival : NULL;
}

static __always_inline void arrival_note(struct arrival *arrival, const struct sk_buff *skb,
					 u32 ifindex)
{
	arrival->skb = 0;
	barrier();
	arrival->arrived_ns = bpf_ktime_get_ns();
	arrival->ifindex = ifindex;
	barrier();
	arrival->skb = (u64)skb;
}

/* The driver hands over a packet. */
static __always_inline void arrival_begins(const struct sk_buff *skb)
{
	struct arrival *arrival = arrival_of(skb);

	if (arrival)
		arrival_note(arrival, skb, skb->dev->ifindex);
}

/* The stack takes a packet. Without a driver that handed it over before, it arrives now. */
static __always_inline void arrival_ends(const struct sk_buff *skb)
{
	struct arrival *arrival = arrival_of(skb);

	if (!arrival)
		return;
	if (arrival->skb == (u64)skb && arrival->ifindex == (u32)skb->dev->ifindex)
		arrival->ifindex = 0;
	else
		arrival_note(arrival, skb, 0);
}

/* Returns when a packet that TCP takes arrived; 0: unknown. */
static __always_inline u64 arrived_ns(const struct sk_buff *skb)
{
	const struct arrival *arrival = arrival_of(skb);
	u64 at_ns;

	if (!arrival)
		return 0;
	at_ns = arrival->arrived_ns;
	barrier();
	return arrival->skb == (u64)skb ? at_ns : 0;
}

#endif
