/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A stamp: when a network adapter put a packet of a recorded connection on the wire. */
#ifndef WHYLAT_NIC_H
#define WHYLAT_NIC_H

#include <linux/types.h>

/* An interface that stamps; its number is its network namespace's own. */
struct nic_place {
	__u32 netns;
	__u32 ifindex;
};

struct nic_stamp {
	__u64 cookie;
	__s64 phc_ns; /* by the adapter's clock */
	/* the bytes of the stream in the packet, from the connection's first one, modulo 2^32 */
	__u32 offset;
	__u32 offset_end;
	__u32 ptp; /* which clock: /dev/ptpN */
	__u32 pad;
};

#endif
