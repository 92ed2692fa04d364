/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* One blocked interval of a thread, and what it waited for. */
#ifndef WHYLAT_WAITS_H
#define WHYLAT_WAITS_H

#include <linux/types.h>

#include "../bpf/batch.h"

enum wait_object {
	WAIT_OTHER, /* no object that its registers name */
	WAIT_CONNECTION,
	WAIT_LISTENER,
	WAIT_DATAGRAM, /* UDP, raw */
	WAIT_UNIX,
	WAIT_SOCKET, /* of another family */
	WAIT_EPOLL,
	WAIT_POLL,
	WAIT_SELECT,
	WAIT_FUTEX,
	WAIT_PIPE,
	WAIT_FILE,
	WAIT_EVENT, /* eventfd, timerfd, signalfd and other files without a place */
	WAIT_SLEEP,
	WAIT_CHILD,
	WAIT_SIGNAL,
	WAIT_IO_URING,
	WAIT_PAGE_FAULT,
};

/* Holds what a system call waits for. */
enum syscall_object {
	SYSCALL_OTHER,
	SYSCALL_FILE, /* the file of its first argument, a descriptor */
	SYSCALL_EPOLL,
	SYSCALL_POLL,
	SYSCALL_SELECT,
	SYSCALL_FUTEX,
	SYSCALL_SLEEP,
	SYSCALL_CHILD,
	SYSCALL_SIGNAL,
	SYSCALL_IO_URING,
};

enum wait_waker {
	WAKER_UNSEEN,
	WAKER_THREAD,
	WAKER_INTERRUPT, /* an interrupt or softirq: a packet, a timer, a disk */
};

struct wait_record {
	__u64 start_ns; /* left the CPU */
	__u64 end_ns;	/* ran again */
	__u64 woken_ns; /* 0: not seen */
	__u64 cookie;	/* of a connection or listener; of a file, its device; 0: none */
	__u64 object; /* inode number, futex address, or what else distinguishes objects of a kind */
	__u64 ready_cookie; /* of several: the connection that was ready; 0: not seen */
	__s32 fd;	    /* -1: none */
	__s32 ready_fd;	    /* of several: the descriptor that was ready; -1: not seen */
	__s32 syscall;	    /* -1: none */
	__u32 tid;
	__u32 pid;
	__u32 waker_tid; /* of an interrupt: the thread that ran there */
	__u32 waker_pid;
	__u16 cpu;
	__u8 kind;  /* enum wait_object */
	__u8 waker; /* enum wait_waker */
	__u8 uninterruptible;
	__u8 ready_kind; /* of several: what was ready, enum wait_object; 0: not seen */
	__u8 pad[2];
	__u32 stack;	    /* number of the program's call stack; 0: none */
	__u32 kernel_stack; /* the same of the kernel's */
	__s32 limit_ms;	    /* of epoll and poll: how long at most; negative: not known, or none */
};

#define WAIT_BATCH_LEN 64

struct wait_batch {
	struct batch batch;
	struct wait_record records[WAIT_BATCH_LEN];
};

#endif
