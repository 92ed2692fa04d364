/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Counts of the zero-copy sends of a connection, as they leave the kernel. */
#ifndef WHYLAT_ZEROCOPY_H
#define WHYLAT_ZEROCOPY_H

#include <linux/types.h>

enum zerocopy_interface {
	ZEROCOPY_MSG,	/* send calls with MSG_ZEROCOPY */
	ZEROCOPY_URING, /* IORING_OP_SEND_ZC, IORING_OP_SENDMSG_ZC */
};

/* Counts since the recording began. */
struct zerocopy_counts {
	__u64 not_copied;
	__u64 copied;
	__u64 unknown; /* the kernel does not say which */
};

struct zerocopy_seen {
	__u64 cookie;
	__u64 time_ns;
	struct zerocopy_counts counts;
	__u8 interface; /* enum zerocopy_interface */
	__u8 pad[7];
};

#endif
