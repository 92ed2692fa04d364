/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* One firing of a USDT probe, and the counts that make loss exact. */
#ifndef WHYLAT_USDT_H
#define WHYLAT_USDT_H

#include <linux/types.h>

/* BPF_USDT_MAX_ARG_CNT of libbpf, which reads no more. */
#define USDT_MOST_ARGUMENTS 12

/* Its length in the ring is that of `count` values. */
struct usdt_record {
	__u64 time_ns;
	__u32 pid;
	__u32 tid;
	__u32 probe; /* which of those asked for */
	__u16 count;
	__u16 unread; /* bit i: argument i could not be read */
	__s64 values[USDT_MOST_ARGUMENTS];
};

/* Of one probe, on one CPU. */
struct usdt_count {
	__u64 fired; /* in recorded processes */
	__u64 lost_ring_full;
};

#endif
