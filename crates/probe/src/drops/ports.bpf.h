/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The ports of recorded sockets. A packet that is dropped has often no socket, or one that must not be examined: its
 * ports show that it may belong to a recorded one. Both ends count, in all namespaces, for a packet may be dropped on
 * its way.
 */
#ifndef WHYLAT_DROPS_PORTS_BPF_H
#define WHYLAT_DROPS_PORTS_BPF_H

#include "../bpf/kernel.h"

#define DROP_PORT_TCP 1
#define DROP_PORT_UDP 2

u8 drop_ports[65536] = {};

static __always_inline void drop_port_note(u16 port, u8 protocol)
{
	/* of two writers at once one may be lost: the next socket or call of that port writes again */
	if (port && !(drop_ports[port] & protocol))
		drop_ports[port] |= protocol;
}

/* A socket is recorded: drops of what has its ports are of interest from now on. */
static __always_inline void drop_ports_note(const struct sock *sk)
{
	u8 protocol = sk->sk_protocol == IPPROTO_UDP ? DROP_PORT_UDP : DROP_PORT_TCP;

	drop_port_note(sk->__sk_common.skc_num, protocol);
	drop_port_note(bpf_ntohs(sk->__sk_common.skc_dport), protocol);
}

#endif
