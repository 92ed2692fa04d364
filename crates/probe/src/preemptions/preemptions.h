/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Time in which a thread could have run, and another one did. */
#ifndef WHYLAT_PREEMPTIONS_H
#define WHYLAT_PREEMPTIONS_H

#include <linux/types.h>

/* A longer one has a record of its own; shorter ones are added up. */
#define PREEMPTION_OWN_NS 50000
/* A sum of short ones spans at most so long. */
#define PREEMPTION_SUM_NS 10000000

enum preemption_quota {
	QUOTA_UNKNOWN, /* the kernel does not say it */
	QUOTA_LEFT,
	QUOTA_USED_UP,
};

/* One, or the sum of several short ones. */
struct preemption_seen {
	__u64 start_ns; /* left the CPU, of several the first time; 0: none */
	__u64 end_ns;	/* ran again, of several the last time */
	__u64 off_ns;	/* all of them together */
	__u32 count;
	__u32 yields; /* of these, sched_yield() */
	__u32 tid;
	__u32 pid;
	__u32 by_tid; /* what ran instead, of several in the longest; 0: nothing */
	__u32 by_pid;
	__u8 by_comm[16];
	__u16 cpu;  /* that it left the last time */
	__u8 quota; /* enum preemption_quota */
	__u8 pad[5];
};

#endif
