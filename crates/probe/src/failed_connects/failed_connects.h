/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* One attempt to connect that did not become a connection. */
#ifndef WHYLAT_FAILED_CONNECTS_H
#define WHYLAT_FAILED_CONNECTS_H

#include <linux/types.h>

#include "../bpf/process.h"

struct failed_connect {
	__u64 start_ns; /* when connect() was called */
	__u64 end_ns;	/* when the socket was closed again */
	__u8 local_addr[16];
	__u8 remote_addr[16];
	struct process_seen owner;
	__u32 netns;
	__u32 tid; /* that called connect() */
	__u32 syn_retries;
	__s32 error;	  /* errno; 0: none, the program gave up */
	__u16 local_port; /* 0: none was chosen */
	__u16 remote_port;
	__u8 pad[4];
};

#endif
