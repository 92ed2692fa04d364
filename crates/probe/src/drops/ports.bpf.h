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

/* Returns the protocols of a port. Up to Linux 6.1 verifiers know no bound of one with swapped bytes. */
static __always_inline u8 *drop_port(u32 port)
{
	barrier_var(port);
	return &drop_ports[port & 0xffff];
}

static __always_inline void drop_port_note(u32 port, u8 protocol)
{
	u8 *known = drop_port(port);

	/* of two writers at once one may be lost: the next socket or call of that port writes again */
	if (port && !(*known & protocol))
		*known |= protocol;
}

/* A function of its own for verifiers, which check it once: no caller grows by its branches. */
__noinline int drop_ports_mark(u32 local_port, u32 remote_port, u32 protocol)
{
	drop_port_note(local_port, protocol);
	drop_port_note(remote_port, protocol);
	return 0;
}

/* A socket is recorded: drops of what has its ports are of interest from now on. */
static __always_inline void drop_ports_note(const struct sock *sk)
{
	drop_ports_mark(sk->__sk_common.skc_num, bpf_ntohs(sk->__sk_common.skc_dport),
			sk->sk_protocol == IPPROTO_UDP ? DROP_PORT_UDP : DROP_PORT_TCP);
}

#endif
