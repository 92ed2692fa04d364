/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Sockets that are open already: those to which a descriptor leads, by the walk over all open files, and subflows, by
 * that over TCP sockets.
 */
#ifndef WHYLAT_INVENTORY_WALK_BPF_H
#define WHYLAT_INVENTORY_WALK_BPF_H

#include "inventory.bpf.h"

/* include/uapi/asm-generic/resource.h */
#define RLIMIT_NOFILE 7

/* Words that are read of full_fds_bits: of 262,144 descriptors. */
#define FULL_WORDS_MOST 64

/* Reads a word of a bit map. Are these bits of it all set? */
static __always_inline bool are_bits_set(const unsigned long *word, u64 bits)
{
	u64 found = 0;

	bpf_probe_read_kernel(&found, sizeof(found), word);
	return (found & bits) == bits;
}

/* Fewer than 64. */
static __always_inline u64 lowest_bits(u64 number)
{
	return (1ull << number) - 1;
}

/*
 * Is every descriptor below the limit in use? Then alloc_fd() fails with EMFILE. A function of its own for the verifier,
 * which would follow its loop once for each call and each state before it; so the table is an address that was read.
 */
__noinline u32 is_table_full(u64 table, u64 limit)
{
	const struct fdtable *fdt = (const struct fdtable *)table;
	const unsigned long *full = BPF_CORE_READ(fdt, full_fds_bits);
	const unsigned long *open = BPF_CORE_READ(fdt, open_fds);
	u64 words = limit / 64;
	u32 i;

	if (limit > BPF_CORE_READ(fdt, max_fds))
		return false;
	for (i = 0; i < FULL_WORDS_MOST && i < words / 64; i++) {
		if (!are_bits_set(full + i, ~0ull))
			return false;
	}
	return are_bits_set(full + i, lowest_bits(words % 64)) &&
	       are_bits_set(open + words, lowest_bits(limit % 64));
}

/* Has the process of a thread a descriptor for another file? */
static __always_inline struct descriptor_room room_of(const struct task_struct *task)
{
	struct descriptor_room room = {};
	u64 limit = BPF_CORE_READ(task, signal, rlim[RLIMIT_NOFILE].rlim_cur);

	if (limit > FULL_WORDS_MOST * 64 * 64)
		return room;
	room.limit = limit;
	room.full = is_table_full((u64)BPF_CORE_READ(task, files, fdt), limit);
	return room;
}

/* A walk has found a listening socket of this process. */
static __always_inline void listener_on_walk(struct socket_state *st, struct sock *sk,
					     const struct tcp_sock *tp,
					     const struct process_seen *process,
					     struct descriptor_room room, bool target)
{
	/* shared ones have many; that of the storage is copied to what is accepted meanwhile */
	if (!st->process.pid)
		st->process = *process;
	drop_ports_note(sk);
	if (target)
		listener_emit(st, sk, tp, process, room, 0);
}

/* A walk has found a TCP socket of this process; of none if its pid is 0. */
static __always_inline void socket_on_walk(struct sock *sk, const struct tcp_sock *tp,
					   const struct process_seen *process,
					   struct descriptor_room room, bool target)
{
	u8 state = sk->__sk_common.skc_state;
	struct socket_state *st = bpf_sk_storage_get(&sockets, sk, NULL, 0);

	if (!st && !target && (state == TCP_LISTEN || !is_peer(sk, tp)))
		return;
	if (!st)
		st = socket_choose(sk, target ? CHOSEN_TARGET : CHOSEN_PEER);
	if (!st)
		return;
	if (state == TCP_LISTEN) {
		listener_on_walk(st, sk, tp, process, room, target);
		return;
	}
	/* not yet connected, or closed while its descriptor is still open */
	if (!has_stream(state) || (st->cookie && (st->process.pid || !process->pid)))
		return;
	st->process = *process;
	if (!target)
		note_served(st, sk, tp);
	if (!st->cookie)
		socket_begin(st, sk, tp, 0, bpf_ktime_get_ns());
	if (st->serves && !target && process->pid)
		follow_process(&st->process);
	if (st->chosen == CHOSEN_PEER && process->pid)
		select_task(process->pid, TASK_PEER);
	socket_emit(st, sk, tp, 0, bpf_ktime_get_ns());
}

/* Returns whether a listening socket is recorded already, because another process holds it. */
static __always_inline bool is_target_listener(struct sock *sk)
{
	struct mptcp_holder *holder;
	struct socket_state *st;

	if (sk->__sk_common.skc_state != TCP_LISTEN)
		return false;
	if (is_mptcp(sk)) {
		holder = bpf_sk_storage_get(&mptcp_holders, sk, NULL, 0);
		return holder && holder->is_target;
	}
	if (sk->sk_protocol != IPPROTO_TCP)
		return false;
	st = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	return st && st->chosen == CHOSEN_TARGET;
}

/* Does the user ask for the sockets of this process, or for this one? */
static __always_inline bool is_target_of_walk(struct task_struct *task, struct sock *sk)
{
	if (is_selected_port(sk)) {
		owner_found(task->tgid);
		return true;
	}
	if (sk->__sk_common.skc_state == TCP_LISTEN && is_followed(task->tgid))
		return false;
	return is_target_task(task) || (is_target_listener(sk) && sharer_found(task));
}

/* So many walks look for the subflows of one MPTCP socket: the first learns the connections; their other ends the second
 * one finds. */
#define MPTCP_WALKS 2

/* The walk over open files has found an MPTCP socket: notes who holds it, and that its subflows are to be found. */
static __always_inline void mptcp_on_walk(struct task_struct *task, struct sock *sk, bool target)
{
	u8 state = sk->__sk_common.skc_state, asked = 1;
	struct mptcp_holder *holder;
	u32 netns;

	if (state != TCP_LISTEN && !has_stream(state))
		return;
	holder = sk_storage_made(&mptcp_holders, sk);
	if (!holder) {
		__sync_fetch_and_add(&lost_socket_storage, 1);
		return;
	}
	if (!holder->process.pid || (target && !holder->is_target))
		process_fill(&holder->process, task);
	if (state == TCP_LISTEN && holder->process.pid == (u32)task->tgid)
		holder->room = room_of(task);
	if (target && !holder->is_target) {
		holder->is_target = 1;
		holder->walks = 0;
	}
	/* a listening socket is read at each walk */
	if (holder->walks >= MPTCP_WALKS && !(target && state == TCP_LISTEN))
		return;
	if (holder->walks < MPTCP_WALKS)
		holder->walks++;
	netns = netns_of(sk);
	bpf_map_update_elem(&mptcp_netns, &netns, &asked, BPF_ANY);
}

/* The walk over all open files: sockets that were open before, and owners that changed. Is this one a target's? */
static __always_inline bool file_on_walk(struct task_struct *task, struct sock *sk)
{
	const struct tcp_sock *tp;
	struct descriptor_room room = {};
	struct process_seen process;
	bool target;

	if (!is_selected_netns(sk))
		return false;
	target = is_target_of_walk(task, sk);
	if (target)
		kinds_on_walk(sk);
	if (is_mptcp(sk))
		mptcp_on_walk(task, sk, target);
	if (sk->sk_protocol != IPPROTO_TCP)
		return target;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return target;
	process_fill(&process, task);
	if (sk->__sk_common.skc_state == TCP_LISTEN)
		room = room_of(task);
	socket_on_walk(sk, tp, &process, room, target);
	return target;
}

/* The walk over TCP sockets: a subflow, of whoever holds its MPTCP socket. */
static __always_inline void subflow_on_walk(struct sock *sk, const struct tcp_sock *tp)
{
	struct socket *socket = sk->sk_socket;
	struct mptcp_holder *holder = NULL;
	struct process_seen process = {};
	struct descriptor_room room = {};
	struct sock *owner;

	if (!subflow_context(tp) || !is_selected_netns(sk))
		return;
	/* that of its MPTCP socket (mptcp_sock_graft()) */
	owner = socket ? socket->sk : NULL;
	if (owner)
		holder = bpf_sk_storage_get(&mptcp_holders, owner, NULL, 0);
	if (holder) {
		process = holder->process;
		room = holder->room;
	}
	socket_on_walk(sk, tp, &process, room,
		       select_all || (holder && holder->is_target) || is_selected_port(sk));
}

#endif
