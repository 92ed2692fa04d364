/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A process as the kernel side meets it: pid and start say which it is, the name may change. */
#ifndef WHYLAT_PROCESS_H
#define WHYLAT_PROCESS_H

#include <linux/types.h>

struct process_seen {
	__u64 started_ns; /* CLOCK_MONOTONIC */
	__u32 pid;	  /* 0: not known */
	char comm[16];	  /* of its first thread, as in /proc/PID/comm */
	__u8 pad[4];
};

#endif
