/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Which UDP sockets are recorded: those that a recorded process creates (a hook of the root control group),
 * those that the walk over all open files finds, and, by port or with --all, those that a call or a datagram
 * meets. Such a socket has storage; all that the hooks do with others is to find that they have none.
 */
#ifndef WHYLAT_UDP_SOCKET_BPF_H
#define WHYLAT_UDP_SOCKET_BPF_H

#include "../bpf/ring.h"
#include "../bpf/select.h"
#include "../inventory/inventory.bpf.h"
#include "udp.h"

/* No hook reports new sockets: recorded processes' are found at their first call. */
u32 udp_found_at_calls = 0;

/* UDP sockets were recorded: until then nothing is examined for their sake. */
u32 udp_recorded = 0;

struct udp_socket {
	struct udp_seen seen;
	u64 place; /* its addresses, in short */
	u64 received_bytes;
	u64 sent_bytes;
	u32 owners;   /* changes of owner so far, at most OWNERS_MOST */
	u32 has_row;  /* a row is written */
	u32 in_netns; /* `walked_netns` counts it */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_socket);
} udp_sockets SEC(".maps");

struct udp_seen_record {
	struct record_header header;
	struct udp_seen seen;
};

static __always_inline void udp_emit(struct udp_socket *udp, u64 now_ns)
{
	struct udp_seen_record *record = record_reserve(RECORD_UDP_SEEN, sizeof(*record));

	udp->has_row = 1;
	udp->seen.time_ns = now_ns;
	if (!record)
		return;
	record->seen = udp->seen;
	record_submit(record);
}

static __always_inline bool udp_is(const struct sock *sk)
{
	return sk->sk_protocol == IPPROTO_UDP &&
	       (sk->__sk_common.skc_family == AF_INET || sk->__sk_common.skc_family == AF_INET6);
}

/* The storage of a recorded socket, or NULL. */
static __always_inline struct udp_socket *udp_socket(struct sock *sk)
{
	return READ_ONCE(udp_recorded) ? bpf_sk_storage_get(&udp_sockets, sk, NULL, 0) : NULL;
}

/* Records the socket from now on. */
static __always_inline void udp_begin(struct udp_socket *udp, u64 cookie)
{
	udp->seen.cookie = cookie;
	udp_recorded = 1;
}

static __always_inline struct udp_socket *udp_choose(struct sock *sk)
{
	struct udp_socket *udp = sk_storage_made(&udp_sockets, sk);

	if (!udp)
		__sync_fetch_and_add(&lost_socket_storage, 1);
	else if (!udp->seen.cookie)
		udp_begin(udp, bpf_get_socket_cookie(sk));
	return udp;
}

/* The storage of a socket that a call or a datagram meets, or NULL. */
static __always_inline struct udp_socket *udp_socket_find(struct sock *sk, bool in_call)
{
	struct udp_socket *udp = udp_socket(sk);

	if (udp)
		return udp;
	if (!select_all && !is_selected_port(sk) &&
	    !(in_call && udp_found_at_calls && is_target_current()))
		return NULL;
	return udp_choose(sk);
}

/* A process creates a socket. */
static __always_inline void udp_on_create(struct bpf_sock *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct udp_socket *udp;

	if (!is_target(task->tgid))
		return;
	udp = sk_storage_made(&udp_sockets, ctx);
	if (!udp) {
		__sync_fetch_and_add(&lost_socket_storage, 1);
		return;
	}
	udp->seen.created_ns = bpf_ktime_get_ns();
	process_fill(&udp->seen.owner, task);
	udp_begin(udp, bpf_get_socket_cookie(ctx));
}

/* A call on a UDP socket, which no probe need record: who calls owns one of the port. */
static __always_inline void udp_owner_found(const struct sock *sk)
{
	if (select_port && udp_is(sk) && is_selected_port(sk) &&
	    !(bpf_get_current_task_btf()->flags & PF_KTHREAD))
		owner_found(bpf_get_current_pid_tgid() >> 32);
}

/* The walk over all open files has found a UDP socket that is a target's. */
static __always_inline void udp_on_walk(struct task_struct *task, struct sock *sk)
{
	struct udp_socket *udp = udp_choose(sk);

	if (udp && !udp->has_row && !udp->seen.owner.pid)
		process_fill(&udp->seen.owner, task);
}

static __always_inline u64 udp_place(const struct sock *sk)
{
	u32 local = sk->__sk_common.skc_rcv_saddr, remote = sk->__sk_common.skc_daddr;

	if (sk->__sk_common.skc_family == AF_INET6) {
		local = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[3];
		remote = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[3];
	}
	return (u64)remote << 32 ^ (u64)local << 13 ^ sk->__sk_common.skc_dport << 16 ^
	       sk->__sk_common.skc_num;
}

/* A call shows who uses the socket, and where it is by now; see socket_owner(). */
static __always_inline bool udp_owner_changed(struct udp_socket *udp)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (udp->seen.owner.pid == task->tgid || udp->owners == OWNERS_MOST ||
	    (task->flags & PF_KTHREAD))
		return false;
	udp->owners++;
	process_fill(&udp->seen.owner, task);
	return true;
}

/* A call that moved a message, which is counted already. */
static __always_inline void udp_on_message(struct udp_socket *udp, struct sock *sk, u64 now_ns)
{
	u64 place = udp_place(sk);
	bool changed = udp_owner_changed(udp);

	if (udp->has_row && !changed && place == udp->place)
		return;
	udp->place = place;
	udp->seen.netns = netns_of(sk);
	if (!__sync_lock_test_and_set(&udp->in_netns, 1))
		netns_add_socket(udp->seen.netns);
	read_addr(udp->seen.local_addr, sk, true);
	read_addr(udp->seen.remote_addr, sk, false);
	udp->seen.local_port = sk->__sk_common.skc_num;
	udp->seen.remote_port = remote_port(sk);
	udp_emit(udp, now_ns);
}

/* udp_fail_queue_rcv_skb: a datagram that the socket did not take. */
static __always_inline void udp_on_drop(struct sock *sk)
{
	struct udp_socket *udp = udp_socket_find(sk, false);

	if (udp)
		__sync_fetch_and_add(&udp->seen.dropped, 1);
}

/* For Rust, by way of the object's BTF. */
const struct udp_seen wire_udp_seen = {};

#endif
