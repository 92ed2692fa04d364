/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A look at a CPU that found a thread asking whether something is ready, without waiting for it. */
#ifndef WHYLAT_BUSY_POLL_H
#define WHYLAT_BUSY_POLL_H

#include <linux/types.h>

/* Where a system call gets the time it may wait. */
enum syscall_timeout {
	TIMEOUT_NONE,	   /* nowhere, or it does not ask what is ready */
	TIMEOUT_MS_THIRD,  /* milliseconds: its third argument */
	TIMEOUT_MS_FOURTH, /* its fourth */
	TIMEOUT_AT_THIRD,  /* where its third argument points to: seconds and a fraction */
	TIMEOUT_AT_FOURTH,
	TIMEOUT_AT_FIFTH,
};

struct spin_seen {
	__u64 time_ns;
	__u64 ip;
	__u64 cookie; /* of a connection or listener; 0: none */
	__u64 object; /* as in struct wait_record */
	__s32 fd;     /* -1: none */
	__s32 syscall;
	__u32 tid;
	__u32 pid;
	__u32 stack; /* 0: none */
	__u16 cpu;
	__u8 kind; /* enum wait_object */
	__u8 pad;
};

#endif
