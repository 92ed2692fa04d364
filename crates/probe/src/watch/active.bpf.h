/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Active sockets: those that had news lately. A poll walks over them alone: what it costs is what it reads
 * from memory, and of an idle socket it reads nothing.
 *
 * A socket becomes active at the first hook that sees its news, and stays so while it has any, and for
 * active_jiffies after its last data. While an end has closed it does not rest: segments pass no hook then.
 * What no hook sees (what the kernel itself sends, a call that does not end) is found by the walks over all
 * sockets, at the ends of intervals.
 *
 * Most segments meet an active socket. They are found by the kernel's own stamps, without a look at the
 * storage: within half of active_jiffies of data, whoever saw that data has made the socket active, and
 * no walk has let it rest since.
 */
#ifndef WHYLAT_ACTIVE_BPF_H
#define WHYLAT_ACTIVE_BPF_H

#include "../bpf/socket.h"

/* Hooks see every segment and call, so that a socket without any has no news. */
const volatile bool watch_active = false;

/* Longer than the delayed-ACK timer takes: no hook sees its ACK. */
const volatile u32 active_jiffies = 400;

/* Has an element, and `sampled.active` in `sockets` is set. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u8);
} active_sockets SEC(".maps");

/* How many sockets are watched, active or not. */
u64 watched_sockets = 0;

u32 active_barrier_at = 0;

/* Returns what is written before is seen before what is read after is read. */
static __always_inline void active_barrier(void)
{
	__sync_lock_test_and_set(&active_barrier_at, 1);
}

/*
 * The mark comes before the element: a walk that takes the element away takes the mark away after it. So
 * there may be an element without a mark, which the next hook fixes, and no mark without an element.
 */
static __always_inline void socket_activate(struct socket_state *st, struct sock *sk)
{
	st->sampled.active = 1;
	active_barrier();
	if (!sk_storage_made(&active_sockets, sk))
		st->sampled.active = 0; /* the next hook tries again */
}

/* A hook sees news of a socket. Several may do so at once. */
static __always_inline void socket_has_news(struct socket_state *st, struct sock *sk)
{
	if (watch_active && !READ_ONCE(st->sampled.active))
		socket_activate(st, sk);
}

/* Returns whether two times in jiffies are close to each other. */
static __always_inline bool are_near(u32 now, u32 then, u32 jiffies)
{
	return now - then + jiffies < 2 * jiffies;
}

/* Returns whether no data has gone either way for so long. */
static __always_inline bool is_silent(const struct tcp_sock *tp, u32 jiffies)
{
	u32 now = (u32)bpf_jiffies64();

	return !are_near(now, tp->inet_conn.icsk_ack.lrcvtime, jiffies) &&
	       !are_near(now, tp->lsndtime, jiffies);
}

/* tcp_probe: this segment may be news of a socket that rests. */
static __always_inline bool segment_may_wake(const struct tcp_sock *tp)
{
	return watch_active && is_silent(tp, active_jiffies / 2);
}

#endif
