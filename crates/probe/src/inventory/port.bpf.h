/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Ports of a socket, and whether one is that which the user asked for. */
#ifndef WHYLAT_PORT_BPF_H
#define WHYLAT_PORT_BPF_H

#include "../bpf/select.h"

static __always_inline u16 remote_port(const struct sock *sk)
{
	return bpf_ntohs(sk->__sk_common.skc_dport);
}

static __always_inline bool is_port(u16 local_port, u16 remote_port_net)
{
	return select_port &&
	       (local_port == select_port || bpf_ntohs(remote_port_net) == select_port);
}

static __always_inline bool is_selected_port(const struct sock *sk)
{
	return is_port(sk->__sk_common.skc_num, sk->__sk_common.skc_dport);
}

#endif
