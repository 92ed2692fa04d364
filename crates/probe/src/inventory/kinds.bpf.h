/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Which kinds of sockets recorded processes have, and what moves over those that are no TCP sockets: where no
 * connection is seen, a report says by this why that may be.
 */
#ifndef WHYLAT_KINDS_BPF_H
#define WHYLAT_KINDS_BPF_H

#include "../bpf/ring.h"
#include "../bpf/select.h"
#include "../bpf/socket.h"
#include "../drops/ports.bpf.h"
#include "kinds.h"
#include "port.bpf.h"

/* Descriptors of recorded processes, or of the recorded port, that are sockets, as the last walk over open files found them. */
u64 open_sockets[SOCKET_KIND_COUNT] = {};

/* By enum socket_kind. TCP's calls are not counted here: they are logged. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SOCKET_KIND_COUNT);
	__type(key, u32);
	__type(value, struct kind_calls);
} kind_calls SEC(".maps");

static __always_inline u32 internet_kind(const struct sock *sk)
{
	if (sk->sk_type == SOCK_RAW)
		return SOCKET_KIND_RAW;
	switch (sk->sk_protocol) {
	case IPPROTO_TCP:
		return SOCKET_KIND_TCP;
	case IPPROTO_MPTCP:
		return SOCKET_KIND_MPTCP;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		return SOCKET_KIND_UDP;
	case IPPROTO_SCTP:
		return SOCKET_KIND_SCTP;
	case IPPROTO_SMC:
		return SOCKET_KIND_SMC;
	}
	return SOCKET_KIND_OTHER;
}

static __always_inline u32 socket_kind(const struct sock *sk)
{
	switch (sk->__sk_common.skc_family) {
	case AF_INET:
	case AF_INET6:
		return internet_kind(sk);
	case AF_UNIX:
		return SOCKET_KIND_UNIX;
	case AF_SMC:
		return SOCKET_KIND_SMC;
	case AF_PACKET:
		return SOCKET_KIND_PACKET;
	case AF_NETLINK:
		return SOCKET_KIND_NETLINK;
	case AF_VSOCK:
		return SOCKET_KIND_VSOCK;
	}
	return SOCKET_KIND_OTHER;
}

static __always_inline void kinds_begin_walk(void)
{
	for (u32 kind = 0; kind < SOCKET_KIND_COUNT; kind++)
		open_sockets[kind] = 0;
}

/* The walk over open files meets a socket of a process that is recorded. */
static __always_inline void kinds_on_walk(const struct sock *sk)
{
	u32 kind = socket_kind(sk);

	if (kind < SOCKET_KIND_COUNT)
		open_sockets[kind]++;
	if (kind == SOCKET_KIND_UDP)
		drop_ports_note(sk);
}

/* A call has ended on a socket that is no TCP socket. */
static __always_inline void kinds_on_call(const struct sock *sk, bool is_send, int result,
					  int msg_flags)
{
	struct kind_calls *calls;
	u32 kind;

	if (only_summaries || result <= 0 || (!is_send && !takes_bytes(result, msg_flags)) ||
	    (!is_target_current() && !is_selected_port(sk)))
		return;
	kind = socket_kind(sk);
	if (kind == SOCKET_KIND_UDP)
		drop_ports_note(sk);
	calls = bpf_map_lookup_elem(&kind_calls, &kind);
	if (!calls)
		return;
	if (is_send) {
		__sync_fetch_and_add(&calls->sends, 1);
		__sync_fetch_and_add(&calls->sent_bytes, result);
	} else {
		__sync_fetch_and_add(&calls->receives, 1);
		__sync_fetch_and_add(&calls->received_bytes, result);
	}
}

/* For Rust, by way of the object's BTF. */
const enum socket_kind wire_socket_kind = 0;
const struct kind_calls wire_kind_calls = {};

#endif
