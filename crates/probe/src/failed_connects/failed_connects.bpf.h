/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Attempts to connect that fail: a chosen socket goes from SYN-SENT back to CLOSE. Nothing is hooked for that beside the
 * change of state, and a connection that is established pays nothing. A connect() that finds no route fails before
 * SYN-SENT, and is not seen.
 */
#ifndef WHYLAT_FAILED_CONNECTS_BPF_H
#define WHYLAT_FAILED_CONNECTS_BPF_H

#include "../bpf/ring.h"
#include "../bpf/socket.h"
#include "../inventory/inventory.bpf.h"
#include "failed_connects.h"

/* include/uapi/asm-generic/errno.h */
#define EADDRNOTAVAIL 99

struct failed_connect_record {
	struct record_header header;
	struct failed_connect seen;
};

/*
 * Why it failed. Who closes a socket has written the error before (tcp_done_with_error(), tcp_reset()). There is none in
 * two cases: the program gave up, or connect() itself failed, which marks the socket as connecting only when it is
 * over. There it found no port, or no free combination with its port (inet_hash_connect()).
 */
static __always_inline int connect_error(struct sock *sk)
{
	struct socket *socket = sk->sk_socket;
	int error = sk->sk_err;

	if (error)
		return error;
	return socket && socket->state == SS_UNCONNECTED ? EADDRNOTAVAIL : 0;
}

/* inet_sock_set_state: from SYN-SENT to CLOSE. */
static __always_inline void connect_failed(struct sock *sk, const struct tcp_sock *tp, u64 now_ns)
{
	struct socket_state *st = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	struct failed_connect_record *record;
	struct failed_connect *seen;

	if (only_summaries || !st || st->chosen != CHOSEN_TARGET || !st->connect_ns)
		return;
	record = record_reserve(RECORD_FAILED_CONNECT, sizeof(*record));
	if (!record)
		return;
	seen = &record->seen;
	seen->start_ns = st->connect_ns;
	seen->end_ns = now_ns;
	read_addr(seen->local_addr, sk, true);
	read_addr(seen->remote_addr, sk, false);
	seen->owner = st->process;
	seen->netns = netns_of(sk);
	seen->tid = st->connect_tid;
	seen->syn_retries = tp->total_retrans;
	seen->error = connect_error(sk);
	seen->local_port = local_port(tp);
	seen->remote_port = remote_port(sk);
	__builtin_memset(seen->pad, 0, sizeof(seen->pad));
	record_submit(record);
}

/* For Rust, by way of the object's BTF. */
const struct failed_connect wire_failed_connect = {};

#endif
