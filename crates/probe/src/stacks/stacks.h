/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* One call stack, when it is first seen: later, its number says all. */
#ifndef WHYLAT_STACKS_H
#define WHYLAT_STACKS_H

#include <linux/types.h>

#include "../bpf/registers.h"
#include "../python/python.h"

#define STACK_FRAMES 64
#define STACK_COPY_BYTES 8192

struct stack_seen {
	__u64 time_ns;
	__u32 number;	  /* from 1 */
	__u32 pid;	  /* 0: a stack of the kernel */
	__u64 started_ns; /* of the process, since boot; with `execs`, which program it is */
	__u32 execs;
	__u32 frames;
	__u32 copied_bytes;
	__u32 code_count;
	struct user_registers registers; /* with which it entered the kernel */
	__u64 addresses[STACK_FRAMES];	 /* innermost first, as the frame pointers show */
	__u64 codes[PYTHON_FRAMES];	 /* code objects of Python, innermost first */
	__u8 copied[STACK_COPY_BYTES];	 /* what lies at `sp` */
};

#endif
