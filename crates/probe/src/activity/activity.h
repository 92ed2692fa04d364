/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Describes what the flight recorder holds of each CPU. */
#ifndef WHYLAT_ACTIVITY_H
#define WHYLAT_ACTIVITY_H

#include <linux/types.h>

enum activity_event_kind {
	ACTIVITY_SWITCH =
		1, /* the CPU goes to `tid`, who is in system call `number`; -1: in none */
	ACTIVITY_SYSCALL_BEGIN,
	ACTIVITY_SYSCALL_END,
	ACTIVITY_IRQ_BEGIN, /* the number of the interrupt line */
	ACTIVITY_IRQ_END,
	ACTIVITY_VECTOR_BEGIN, /* an interrupt of the CPU's own: its vector */
	ACTIVITY_VECTOR_END,
	ACTIVITY_SOFTIRQ_BEGIN, /* its vector */
	ACTIVITY_SOFTIRQ_END,
	ACTIVITY_FUNCTION_BEGIN, /* enum activity_function */
	ACTIVITY_FUNCTION_END,
	ACTIVITY_MIGRATE, /* `tid` wanted this CPU, and is moved to CPU `number` */
};

/* Functions with hooks at begin and end. */
enum activity_function {
	ACTIVITY_NETIF_RECEIVE_SKB,
	ACTIVITY_HRTIMER,
	ACTIVITY_TIMER,
	ACTIVITY_PAGE_FAULT,
};

struct activity_event {
	__u64 time_ns;
	__u32 tid; /* of the thread that has the CPU, or gets it, or is moved; 0: nobody */
	__s16 number;
	__u8 kind;
	__u8 pad;
};

/* Where a CPU writes next, of all events since the beginning; a line of its own. */
struct activity_head {
	__u64 next;
	__u64 pad[7];
};

/* A thread that has ended. */
struct activity_thread {
	__u32 pid;
	char comm[16];
};

#endif
