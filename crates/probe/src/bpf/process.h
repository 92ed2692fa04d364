/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A process as the kernel side meets it: pid and start say which it is, `execs` which program. */
#ifndef WHYLAT_PROCESS_H
#define WHYLAT_PROCESS_H

#include <linux/types.h>

struct process_seen {
	__u64 started_ns; /* CLOCK_MONOTONIC */
	__u32 pid;	  /* 0: not known */
	__u32 execs;	  /* how often it and its ancestors have become other programs */
	char comm[16];	  /* of its first thread, as in /proc/PID/comm */
};

#endif
