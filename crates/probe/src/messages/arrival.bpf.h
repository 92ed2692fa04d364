/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * When a packet arrived at this host. The driver hands it over (netif_rx(), GRO) before the stack takes it
 * (netif_receive_skb()), on the same CPU and in the same order unless RPS moves it: the time waits in a
 * queue of the CPU, under the packet's address. GRO puts several packets into the first of them.
 */
#ifndef WHYLAT_ARRIVAL_BPF_H
#define WHYLAT_ARRIVAL_BPF_H

#include "../bpf/kernel.h"

/* A power of two: more than netdev_max_backlog's part that is taken at a time (64). */
#define ARRIVALS 256
/* What GRO may have put into others before the next packet that is found. */
#define ARRIVALS_SKIPPED 64

struct arrivals {
	u64 skb; /* which the stack takes now */
	u64 arrived_ns;
	u32 first; /* not yet taken */
	u32 next;
	u64 skbs[ARRIVALS];
	u64 times_ns[ARRIVALS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct arrivals);
} arrivals_of_cpu SEC(".maps");

static __always_inline struct arrivals *arrivals(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&arrivals_of_cpu, &key);
}

/* The driver hands over a packet. */
static __always_inline void arrival_begins(const struct sk_buff *skb)
{
	struct arrivals *all = arrivals();
	u32 at;

	if (!all)
		return;
	at = all->next & (ARRIVALS - 1);
	all->skbs[at] = (u64)skb;
	all->times_ns[at] = bpf_ktime_get_ns();
	all->next++;
	if (all->next - all->first > ARRIVALS)
		all->first = all->next - ARRIVALS;
}

/* The stack takes a packet: when did it arrive? Without an earlier time it arrives now. */
static __always_inline void arrival_ends(const struct sk_buff *skb)
{
	struct arrivals *all = arrivals();
	u32 at;

	if (!all)
		return;
	all->skb = (u64)skb;
	for (u32 i = 0; i < ARRIVALS_SKIPPED; i++) {
		at = all->first + i;
		if (at == all->next)
			break;
		if (all->skbs[at & (ARRIVALS - 1)] == (u64)skb) {
			all->arrived_ns = all->times_ns[at & (ARRIVALS - 1)];
			all->first = at + 1;
			return;
		}
	}
	all->arrived_ns = bpf_ktime_get_ns();
}

/* When a packet that TCP takes arrived; 0: it is not the one that the stack takes now. */
static __always_inline u64 arrived_ns(const struct sk_buff *skb)
{
	const struct arrivals *all = arrivals();

	return all && all->skb == (u64)skb ? all->arrived_ns : 0;
}

#endif
