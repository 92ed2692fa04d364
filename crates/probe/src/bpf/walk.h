/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Walks over the recorded sockets, run by the recorder; there is never more than one at a time. */
#ifndef WHYLAT_WALK_H
#define WHYLAT_WALK_H

#include "kernel.h"
#include "ring.h"

/* Holds what they did. */
struct walk_counts {
	u64 sockets;
	u64 unchanged; /* had no new sample */
	u64 ledgers;
	u64 left_out;  /* had one, and it was not their turn */
	u64 postponed; /* did not fit into the ring */
	u64 draining;  /* found by `read_draining` */
	u64 rested;    /* are not active any more */
	u16 round;     /* number of the poll, never 0; one poll may need several walks */
};

struct walk_counts walked = {};

/* Says which sockets `read_watched` reads. */
#define WALK_DUE 0     /* those with news that are due */
#define WALK_CHANGED 1 /* those with news */
#define WALK_EVERY 2

u8 walk_which = WALK_DUE;
u8 walk_over_active = 0; /* it meets active sockets only */
u8 walk_is_further = 0;	 /* it goes over sockets that the poll has seen before */
/* A socket at level l is read at every 2^l-th walk. */
u8 walk_default_level = 0;
u8 walk_has_levels = 0; /* some have one of their own */
#define WALK_LEVEL_MASK 7

/* When walks began, by the low bits of their number: more than a level can leave out. */
#define WALKS_KEPT 256

u64 walk_began_ns[WALKS_KEPT] = {};

/* The same of the last walk over all sockets, and of the one before it. */
u64 full_walk_ns = 0;
u64 full_walk_before_ns = 0;

/* When the walk before `round` began; 0: the present one. */
static __always_inline u64 walk_began_before(u16 round)
{
	return walk_began_ns[((round ? round : walked.round) - 1) & (WALKS_KEPT - 1)];
}

/* Of a socket that has no new sample. */
static __always_inline void walk_count_unchanged(void)
{
	if (walk_is_further)
		return;
	walked.sockets++;
	walked.unchanged++;
}

/* Sockets without room in the ring are read by a further walk of the same poll. */
static __always_inline void walk_end(void)
{
	walk_is_further = 1;
}

/* A number is used again after so many walks that nobody remembers it; 0 never, and in step. */
static __always_inline void walk_begin(u8 which, u8 over_active, u8 default_level, u8 has_levels)
{
	u64 now_ns = bpf_ktime_get_ns();

	walked.round = walked.round == (u16)-1 ? WALKS_KEPT : walked.round + 1;
	walk_began_ns[walked.round & (WALKS_KEPT - 1)] = now_ns;
	if (!over_active) {
		full_walk_before_ns = full_walk_ns;
		full_walk_ns = now_ns;
	}
	walk_which = which;
	walk_over_active = over_active;
	walk_is_further = 0;
	walk_default_level = default_level;
	walk_has_levels = has_levels;
}

/* Walks are over all sockets of namespaces: see netns_walk.bpf.h. */
const volatile bool walks_netns = false;

/*
 * Network namespaces by their numbers, and how many recorded sockets they have. Those without any stay: the kernel uses
 * numbers again, the lowest first, so that the map has at most as many as namespaces live at one time.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, s64);
} walked_netns SEC(".maps");

/* A socket is recorded from now on. */
static __always_inline void netns_add_socket(u32 netns)
{
	s64 *sockets, none = 0;

	if (!walks_netns)
		return;
	sockets = bpf_map_lookup_elem(&walked_netns, &netns);
	if (!sockets) {
		/* another CPU may do the same */
		bpf_map_update_elem(&walked_netns, &netns, &none, BPF_NOEXIST);
		sockets = bpf_map_lookup_elem(&walked_netns, &netns);
	}
	if (sockets)
		__sync_fetch_and_add(sockets, 1);
	else
		__sync_fetch_and_add(&lost_socket_storage, 1);
}

/* A recorded socket has closed. */
static __always_inline void netns_remove_socket(u32 netns)
{
	s64 *sockets;

	if (!walks_netns)
		return;
	sockets = bpf_map_lookup_elem(&walked_netns, &netns);
	if (sockets)
		__sync_fetch_and_add(sockets, -1);
}

#endif
