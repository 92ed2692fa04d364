/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Multipath TCP. A program holds an MPTCP socket and calls on it; the bytes go over TCP sockets that no
 * descriptor leads to, its subflows. These pass the hooks of TCP and are recorded as connections. What is
 * known of the MPTCP socket joins them to the program: its holder, its token, and the calls on it.
 *
 * A subflow leads to its MPTCP socket (mptcp_subflow_context.conn), but not the other way round: the verifier
 * takes no pointer from an MPTCP socket for a socket. So the walk over open files notes who holds an MPTCP
 * socket, in that socket's storage, and a walk over TCP sockets (iter/tcp) finds the subflows.
 */
#ifndef WHYLAT_MPTCP_BPF_H
#define WHYLAT_MPTCP_BPF_H

#include "../bpf/ring.h"
#include "../bpf/select.h"
#include "../bpf/socket.h"
#include "inventory.h"
#include "owners.bpf.h"

/* The kernel has MPTCP, and its BTF shows where things are. */
const volatile bool has_mptcp = false;

/* It counts the bytes that programs have taken and had acknowledged (Linux 6.5): calls have their place. */
const volatile bool has_mptcp_calls = false;

/* Says who holds an MPTCP socket, as the walk over open files found it. */
struct mptcp_holder {
	struct process_seen process;
	struct descriptor_room room; /* of a listening socket */
	u8 is_target;
	u8 walks; /* so many walks asked for its subflows */
	u8 pad[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mptcp_holder);
} mptcp_holders SEC(".maps");

/* Namespaces with MPTCP sockets that have subflows to be found; the recorder empties it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u8);
} mptcp_netns SEC(".maps");

/* An MPTCP socket with recorded subflows. */
struct mptcp_connection {
	u64 cookie;	/* of its first subflow: calls are counted under that */
	u64 first_sent; /* its own sequence number of the stream's first byte; has_first_sent */
	struct process_seen process; /* who called on it last */
	struct call_summary calls;
	u32 owner;
	u32 subflows; /* that are recorded and open */
	u8 chosen;
	u8 owners;
	u8 owner_measured; /* is_measured(owner) */
	u8 has_first_sent;
	u8 pad[4];
};

/* By the address of the MPTCP socket, which lives at least as long as its last subflow. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct mptcp_connection);
} mptcp_connections SEC(".maps");

static __always_inline bool is_mptcp(const struct sock *sk)
{
	return has_mptcp && sk->sk_protocol == IPPROTO_MPTCP;
}

/*
 * What follows is verified once, and not for each state in which a hook comes to it: functions that take numbers, and
 * are not static. A kernel without MPTCP verifies them, too.
 */

/* The MPTCP socket of what a subflow has beside it (mptcp_subflow_context), as a number; 0: it is none. */
__noinline u64 mptcp_of_context(u64 context)
{
	if (!has_mptcp || !context)
		return 0;
	return (u64)BPF_CORE_READ((struct mptcp_subflow_context *)context, conn);
}

/* Its token; 0: none, or the other end has refused to speak MPTCP. */
__noinline u32 mptcp_token_of_context(u64 context)
{
	struct mptcp_subflow_context *subflow = (void *)context;
	struct mptcp_sock *owner;

	if (!has_mptcp || !context)
		return 0;
	if (!BPF_CORE_READ_BITFIELD_PROBED(subflow, mp_capable) &&
	    !BPF_CORE_READ_BITFIELD_PROBED(subflow, mp_join))
		return 0;
	owner = (void *)BPF_CORE_READ(subflow, conn);
	return BPF_CORE_READ(owner, token);
}

/* It joins an MPTCP connection; where it asks to, that is known before the other end agrees. */
__noinline u32 mptcp_joins(u64 context)
{
	struct mptcp_subflow_context *subflow = (void *)context;

	if (!has_mptcp || !context)
		return 0;
	return BPF_CORE_READ_BITFIELD_PROBED(subflow, request_join) ||
	       BPF_CORE_READ_BITFIELD_PROBED(subflow, mp_join);
}

/* A subflow of a recorded connection begins. Returns the key of its MPTCP socket; 0: none. */
__noinline u64 mptcp_add(u64 context, u64 cookie, struct process_seen *process, u32 chosen)
{
	struct mptcp_connection new = {}, *known;
	u64 key = mptcp_of_context(context);

	if (!key || !process)
		return 0;
	known = bpf_map_lookup_elem(&mptcp_connections, &key);
	if (known && mptcp_joins(context)) {
		__sync_fetch_and_add(&known->subflows, 1);
		return key;
	}
	new.cookie = cookie;
	new.chosen = chosen;
	new.process = *process;
	new.subflows = 1;
	if (!bpf_map_update_elem(&mptcp_connections, &key, &new, BPF_ANY))
		return key;
	__sync_fetch_and_add(&lost_socket_storage, 1);
	return 0;
}

/* One ends. */
__noinline u32 mptcp_remove(u64 key)
{
	struct mptcp_connection *known = key ? bpf_map_lookup_elem(&mptcp_connections, &key) : NULL;

	if (known && __sync_fetch_and_add(&known->subflows, -1) == 1)
		bpf_map_delete_elem(&mptcp_connections, &key);
	return 0;
}

/* Takes over who called on an MPTCP socket last, if that is not who is known; returns whether it is not. */
__noinline u32 mptcp_take_owner(u64 key, struct process_seen *process)
{
	struct mptcp_connection *known = key ? bpf_map_lookup_elem(&mptcp_connections, &key) : NULL;

	if (!known || !process || !known->process.pid || known->process.pid == process->pid)
		return 0;
	*process = known->process;
	return 1;
}

/* Returns what a TCP socket has beside it that is a subflow, as a number; 0: it is none. */
static __always_inline u64 subflow_context(const struct tcp_sock *tp)
{
	/* by a call: a plain read is a pointer to newer verifiers */
	return has_mptcp && tp->is_mptcp ? (u64)BPF_CORE_READ(tp, inet_conn.icsk_ulp_data) : 0;
}

static __always_inline u32 subflow_token(const struct tcp_sock *tp)
{
	return has_mptcp ? mptcp_token_of_context(subflow_context(tp)) : 0;
}

/* Returns what is known of the MPTCP socket of a subflow, NULL if none of its subflows is recorded. */
static __always_inline struct mptcp_connection *mptcp_of_subflow(const struct tcp_sock *tp)
{
	u64 key = has_mptcp ? mptcp_of_context(subflow_context(tp)) : 0;

	return key ? bpf_map_lookup_elem(&mptcp_connections, &key) : NULL;
}

/* The cookie of an MPTCP socket's first subflow; 0: nobody has asked for it yet. */
static __always_inline u64 first_subflow_cookie(struct sock *sk)
{
	struct sock *first = KERNEL_READ(struct mptcp_sock, sk, first);

	return first ? KERNEL_READ(struct sock, first, __sk_common.skc_cookie.counter) : 0;
}

/* A subflow of a recorded connection begins. */
static __always_inline void subflow_begin(struct socket_state *st, const struct tcp_sock *tp)
{
	if (has_mptcp)
		st->mptcp = mptcp_add(subflow_context(tp), st->cookie, &st->process, st->chosen);
}

static __always_inline void subflow_end(struct socket_state *st)
{
	if (!has_mptcp)
		return;
	mptcp_remove(st->mptcp);
	st->mptcp = 0;
}

/* A call on an MPTCP socket shows who uses it, as one on a TCP socket does (socket_owner()). */
static __always_inline void mptcp_owner(struct mptcp_connection *known)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct task_struct *task = bpf_get_current_task_btf();

	if (known->owner == tgid || known->owners == OWNERS_MOST || (task->flags & PF_KTHREAD))
		return;
	known->owner = tgid;
	known->owners++;
	process_fill(&known->process, task);
	if (known->chosen == CHOSEN_PEER)
		select_task(tgid, TASK_PEER);
	else
		owner_found(tgid);
	known->owner_measured = is_measured(tgid);
}

/*
 * Where in the stream a call on an MPTCP socket has come to. That of what is sent is counted from where the stream
 * began, which two numbers show that change one after the other.
 */
static __always_inline u64 mptcp_offset(struct mptcp_connection *known, struct sock *sk,
					bool is_send)
{
	u64 una, acked, again;

	if (!is_send)
		return KERNEL_READ(struct mptcp_sock, sk, bytes_consumed);
	if (!known->has_first_sent) {
		una = KERNEL_READ(struct mptcp_sock, sk, snd_una);
		acked = KERNEL_READ(struct mptcp_sock, sk, bytes_acked);
		for (int i = 0; i < 4; i++) {
			again = KERNEL_READ(struct mptcp_sock, sk, snd_una);
			if (again == una)
				break;
			una = again;
			acked = KERNEL_READ(struct mptcp_sock, sk, bytes_acked);
		}
		known->first_sent = una - acked;
		known->has_first_sent = 1;
	}
	return KERNEL_READ(struct mptcp_sock, sk, write_seq) - known->first_sent;
}

#endif
