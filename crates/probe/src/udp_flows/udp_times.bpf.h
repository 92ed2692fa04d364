/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Since when a datagram lay in its socket's queue that a call takes. The socket is notified of each datagram that comes
 * into the queue: the times are kept in that order, and calls take them in the same one. Where the two no longer fit,
 * because a datagram was taken or dropped unseen, the length of the kernel's own queue shows which it was.
 */
#ifndef WHYLAT_UDP_TIMES_BPF_H
#define WHYLAT_UDP_TIMES_BPF_H

#include "../bpf/socket.h"
#include "../calls/calls.bpf.h"

/* A power of two. The default receive buffer holds 277 small datagrams (net.core.rmem_default, SKB_TRUESIZE()). */
#define UDP_TIMES 1024

/* Datagrams that other CPUs may have queued without having noted them yet. */
#define UDP_UNNOTED_MOST 4

struct udp_times {
	u64 window_ns;	      /* window_begin() when they began */
	u32 head;	      /* taken */
	u32 tail;	      /* noted */
	u32 at_us[UDP_TIMES]; /* 0: not known */
};

/* Of sockets that serve, from their first receive call on. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_times);
} udp_times SEC(".maps");

/* The kernel has the hook. */
const volatile bool has_udp_times = false;

/* Some socket has times. */
u32 udp_is_timed = 0;

/* Datagrams that lie in the socket's queues; one that moves from the first to the second meanwhile may count twice. */
static __always_inline u32 udp_queued(const struct sock *sk)
{
	u32 come = READ_ONCE(sk->sk_receive_queue.qlen);

	barrier();
	return come + KERNEL_READ(struct udp_sock, sk, reader_queue.qlen);
}

/* Never 0. It wraps after 71 minutes. */
static __always_inline u32 udp_time_us(u64 now_ns)
{
	u32 now_us = now_ns / 1000;

	return now_us ? now_us : 1;
}

/* sk_data_ready: a datagram has come into the socket's queue. */
static __always_inline void udp_time_note(struct sock *sk)
{
	struct udp_times *times;
	u32 place;

	if (!READ_ONCE(udp_is_timed))
		return;
	times = bpf_sk_storage_get(&udp_times, sk, NULL, 0);
	if (!times || times->window_ns != window_begin())
		return;
	place = __sync_fetch_and_add(&times->tail, 1);
	times->at_us[place & (UDP_TIMES - 1)] = udp_time_us(bpf_ktime_get_ns());
}

/* Times are kept from now on; of what lies in the queue they are not known. */
static __always_inline void udp_times_begin(struct sock *sk)
{
	struct udp_times *times = sk_storage_made(&udp_times, sk);

	if (!times)
		return;
	udp_is_timed = 1;
	times->window_ns = window_begin();
	__sync_fetch_and_add(&times->tail, udp_queued(sk));
}

/* The place of the datagram that a call has taken; `tail`: none that is known. */
static __always_inline u32 udp_time_place(struct udp_times *times, struct sock *sk, u32 tail)
{
	u32 place = __sync_fetch_and_add(&times->head, 1), left, noted;

	barrier();
	left = udp_queued(sk);
	noted = tail - place - 1; /* that came after it */
	if (!left && noted)
		times->head = tail;
	if ((s32)noted < 0)
		return tail; /* its CPU is about to note it */
	if (noted > left) {
		/* some were dropped since, or another thread takes one just now: which of them this is nobody saw */
		times->head = tail - left;
		return tail;
	}
	return left - noted > UDP_UNNOTED_MOST ? tail : place;
}

/*
 * A call has taken a datagram of this socket: since when that lay there. `is_server`: the socket answers, so that its times
 * are kept from now on.
 */
static __always_inline u64 udp_time_take(struct sock *sk, bool is_server, u64 now_ns)
{
	struct udp_times *times;
	u32 tail, place, at_us;

	times = bpf_sk_storage_get(&udp_times, sk, NULL, 0);
	/* between windows nothing is noted */
	if (times && times->window_ns != window_begin()) {
		bpf_sk_storage_delete(&udp_times, sk);
		times = NULL;
	}
	if (!times) {
		if (is_server)
			udp_times_begin(sk);
		return UNREAD_UNSEEN;
	}
	/* before the queue's length: what comes in between makes that larger, not smaller */
	tail = READ_ONCE(times->tail);
	barrier();
	place = udp_time_place(times, sk, tail);
	if (place == tail || tail - place > UDP_TIMES)
		return UNREAD_UNSEEN;
	at_us = __sync_lock_test_and_set(&times->at_us[place & (UDP_TIMES - 1)], 0);
	return at_us ? (u64)(udp_time_us(now_ns) - at_us) * 1000 : UNREAD_UNSEEN;
}

#endif
