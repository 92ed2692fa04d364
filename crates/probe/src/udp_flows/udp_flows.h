/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Datagrams between a UDP socket of a recorded process and one other address: written at its first call. */
#ifndef WHYLAT_UDP_FLOWS_H
#define WHYLAT_UDP_FLOWS_H

#include <linux/types.h>

#include "../bpf/process.h"

/* Numbers of flows begin here: above all cookies of sockets, and small enough for a floating-point number. */
#define UDP_FLOW_FIRST (1ULL << 48)

struct udp_flow_seen {
	__u64 id;
	__u64 time_ns;
	__u64 cookie; /* of the socket */
	__u64 inode;
	__u8 local_addr[16];
	__u8 remote_addr[16];
	struct process_seen owner;
	__u32 netns;
	__u16 local_port;
	__u16 remote_port; /* 0: not seen */
	__u8 role;	   /* ROLE_* */
	__u8 pad[7];
};

#endif
