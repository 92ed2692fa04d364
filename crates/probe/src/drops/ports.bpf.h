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

/* A place in drop_ports. Older verifiers (Linux 6.1) know no bound of a port with swapped bytes. */
static __always_inline u32 drop_port_place(u16 port)
{
	u32 at = port;

	barrier_var(at);
	return at & 0xffff;
}

static __always_inline void drop_port_note(u16 port, u8 protocol)
{
	u32 at = drop_port_place(port);

	/* of two writers at once one may be lost: the next socket or call of that port writes again */
	if (at && !(drop_ports[at] & protocol))
		drop_ports[at] |= protocol;
}

/* A socket is recorded: drops of what has its ports are of interest from now on. */
static __always_inline void drop_ports_note(const struct sock *sk)
{
	u8 protocol = sk->sk_protocol == IPPROTO_UDP ? DROP_PORT_UDP : DROP_PORT_TCP;

	drop_port_note(sk->__sk_common.skc_num, protocol);
	drop_port_note(bpf_ntohs(sk->__sk_common.skc_dport), protocol);
}

#endif
