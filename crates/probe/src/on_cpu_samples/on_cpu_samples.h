/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A sample of a CPU that ran a recorded thread. */
#ifndef WHYLAT_ON_CPU_SAMPLES_H
#define WHYLAT_ON_CPU_SAMPLES_H

#include <linux/types.h>

struct on_cpu_sample {
	__u64 time_ns;
	__u64 ip; /* where its program was, or entered the kernel */
	__u32 tid;
	__u32 pid;
	__u32 stack;	    /* of its callers; 0: none */
	__u32 kernel_stack; /* 0: none */
	__s32 syscall;	    /* -1: none */
	__u16 cpu;
	__u8 in_kernel;
	__u8 pad;
};

#endif
