/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Records of one program on one CPU, handed over together. The kernel never runs a program inside itself
 * on one CPU (prog->active; the refused runs are counted in recursion_misses), so that a batch needs no
 * lock; only `flush_batches` comes from outside. It leaves a busy batch alone, and a softirq that comes while
 * it has one finds no room there.
 */
#ifndef WHYLAT_BATCH_H
#define WHYLAT_BATCH_H

#include <linux/types.h>

struct batch {
	__u32 len;
	__u32 busy;
	__u32 flushed; /* `flush_batches` has it */
	__u32 pad;
	__u64 produced;
	__u64 lost_ring_full;
	__u64 lost_flushed; /* not in produced */
};

#endif
