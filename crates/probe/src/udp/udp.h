/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A recorded UDP socket: written at its first message, when its owner or its addresses are found to have
 * changed, when it closes, and when the recording ends.
 */
#ifndef WHYLAT_UDP_H
#define WHYLAT_UDP_H

#include <linux/types.h>

#include "../bpf/process.h"

/* Times are of bpf_ktime_get_ns(). */
struct udp_seen {
	__u64 cookie;
	__u64 time_ns;
	__u64 created_ns; /* 0: before the recording */
	__u64 closed_ns;  /* 0: open */
	__u64 received;	  /* messages so far */
	__u64 sent;
	__u64 dropped; /* datagrams that found the receive buffer full */
	__u8 local_addr[16];
	__u8 remote_addr[16]; /* of connect() */
	struct process_seen owner;
	__u32 netns;
	__u16 local_port;
	__u16 remote_port; /* 0: not connected */
};

#endif
