/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Waits: each interval in which a recorded thread gave its CPU away because it could not go on, with
 * what it waited for. Nothing is hooked where system calls begin: the saved registers of a thread that
 * leaves the CPU say in which call it is, and the call's descriptor what it waits for. The record is
 * made when it runs again.
 */
#ifndef WHYLAT_WAITS_BPF_H
#define WHYLAT_WAITS_BPF_H

#include "../bpf/batch.bpf.h"
#include "../bpf/ring.h"
#include "../bpf/select.h"
#include "../bpf/syscall.h"
#include "../bpf/thread.h"
#include "../dns_waits/dns_waits.bpf.h"
#include "../inventory/mptcp.bpf.h"
#include "poll.bpf.h"
#include "waits.h"

/* Every blocked interval is recorded: detail `waits` and above. */
const volatile bool detail_waits = false;
/* Holds what is mixed into kernel addresses that distinguish objects, so that none leaves the kernel. */
const volatile u64 address_salt = 0;

#define SYSCALLS 512				  /* a power of two above every number */
const volatile u8 syscall_objects[SYSCALLS] = {}; /* enum syscall_object, by number */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} wait_ring SEC(".maps");

/* See batch_flush(). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 * 1024 * 1024);
} wait_overflow SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wait_batch);
} wait_batches SEC(".maps");

struct program_record {
	struct record_header header;
	struct process_seen seen;
};

/* sched_process_exec: threads that only wait are named by their process. */
static __always_inline void program_emit(struct task_struct *task)
{
	struct program_record *record = record_reserve(RECORD_PROGRAM_SEEN, sizeof(*record));

	if (!record)
		return;
	process_fill(&record->seen, task);
	record_submit(record);
}

static __always_inline struct wait_batch *wait_batch(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&wait_batches, &key);
}

static __always_inline void wait_batch_flush(struct wait_batch *batch)
{
	batch_flush(&batch->batch, batch->records, sizeof(struct wait_record), WAIT_BATCH_LEN,
		    &wait_ring, &wait_overflow);
	window_end_if_due();
}

static __always_inline bool is_internet(struct sock *sk)
{
	u16 family = KERNEL_READ(struct sock, sk, __sk_common.skc_family);

	return family == AF_INET || family == AF_INET6;
}

/*
 * Reads the cookie of a connection or a listener; MPTCP's is that of its first subflow. False: it is of
 * another protocol.
 */
static __always_inline bool tcp_cookie(struct sock *sk, u64 *cookie)
{
	u16 protocol;

	if (!is_internet(sk))
		return false;
	protocol = KERNEL_READ(struct sock, sk, sk_protocol);
	if (has_mptcp && protocol == IPPROTO_MPTCP)
		*cookie = first_subflow_cookie(sk);
	else if (protocol == IPPROTO_TCP)
		*cookie = KERNEL_READ(struct sock, sk, __sk_common.skc_cookie.counter);
	else
		return false;
	return true;
}

/* Returns the kind of a socket (enum wait_object), and its cookie. */
static __always_inline u8 socket_object(struct sock *sk, u64 *cookie)
{
	if (!is_internet(sk)) {
		if (KERNEL_READ(struct sock, sk, __sk_common.skc_family) != AF_UNIX)
			return WAIT_SOCKET;
		if (KERNEL_READ(struct sock, sk, __sk_common.skc_state) == TCP_LISTEN)
			return WAIT_LISTENER;
		*cookie = KERNEL_READ(struct sock, sk, __sk_common.skc_cookie.counter);
		return WAIT_UNIX;
	}
	if (!tcp_cookie(sk, cookie)) {
		*cookie = KERNEL_READ(struct sock, sk, __sk_common.skc_cookie.counter);
		return WAIT_DATAGRAM;
	}
	return KERNEL_READ(struct sock, sk, __sk_common.skc_state) == TCP_LISTEN ? WAIT_LISTENER
										 : WAIT_CONNECTION;
}

/* The same of any file. */
static __always_inline u8 file_object(const struct file *file, u16 type, u64 *cookie)
{
	struct sock *sk;

	if (type != S_IFSOCK)
		return type == S_IFIFO ? WAIT_PIPE : type ? WAIT_FILE : WAIT_EVENT;
	sk = socket_of(file);
	return sk ? socket_object(sk, cookie) : WAIT_SOCKET;
}

/* Files of one anonymous inode are distinguished by their own address. */
static __always_inline void wait_for_file(struct thread_wait *wait, struct file *file)
{
	u16 type = file_type(file);

	wait->kind = file_object(file, type, &wait->cookie);
	wait->object = type ? file_inode(file) : (u64)file ^ address_salt;
	if (wait->kind == WAIT_FILE)
		wait->cookie = file_device(file, type);
}

static __always_inline void wait_for_descriptor(struct thread_wait *wait, struct task_struct *task,
						u32 fd)
{
	struct file *file = task_file(task, fd);

	wait->fd = fd;
	if (file)
		wait_for_file(wait, file);
}

static __always_inline void wait_for_epoll(struct thread_wait *wait, struct task_struct *task,
					   u32 fd)
{
	struct file *file = task_file(task, fd);

	wait->kind = WAIT_EPOLL;
	wait->fd = fd;
	if (!file)
		return;
	wait->object = (u64)file ^ address_salt;
	wait->epoll = (u64)KERNEL_READ(struct file, file, private_data);
}

static __always_inline void wait_for_polled(struct thread_wait *wait, struct task_struct *task)
{
	s32 alone = polled_alone(&wait->polled);

	if (alone >= 0)
		wait_for_descriptor(wait, task, alone);
}

/*
 * Returns the time limit of epoll_wait() and poll(), ms; negative: for ever, or the limit is not in a
 * register.
 */
static __always_inline s32 wait_limit_ms(struct task_struct *task, const struct syscall_args *args,
					 u8 what)
{
	if (what == SYSCALL_EPOLL && args->number != SYS_epoll_pwait2)
		return syscall_fourth(task);
	if (what == SYSCALL_POLL && args->number != SYS_ppoll)
		return args->len;
	return -1;
}

/* Returns what a thread that leaves the CPU waits for. */
static __always_inline void wait_for(struct thread_wait *wait, struct task_struct *task,
				     const struct syscall_args *args)
{
	u8 what;

	wait->kind = WAIT_OTHER;
	wait->object = 0;
	wait->cookie = 0;
	wait->epoll = 0;
	wait->polled.len = 0;
	wait->fd = -1;
	wait->syscall = args->number;
	wait->limit_ms = -1;
	if (args->number < 0) {
		wait->kind = WAIT_PAGE_FAULT;
		return;
	}
	if (args->number == NO_SYSCALL) {
		wait->kind = WAIT_IO_URING;
		wait->syscall = -1;
		return;
	}
	what = syscall_objects[args->number & (SYSCALLS - 1)];
	wait->limit_ms = wait_limit_ms(task, args, what);
	switch (what) {
	case SYSCALL_FILE:
		wait_for_descriptor(wait, task, args->fd);
		return;
	case SYSCALL_EPOLL:
		wait_for_epoll(wait, task, args->fd);
		return;
	case SYSCALL_IO_URING:
		wait_for_descriptor(wait, task, args->fd);
		wait->kind = WAIT_IO_URING;
		return;
	case SYSCALL_POLL:
		wait->kind = WAIT_POLL;
		polled_by_poll(&wait->polled, args);
		wait_for_polled(wait, task);
		return;
	case SYSCALL_SELECT:
		wait->kind = WAIT_SELECT;
		polled_by_select(&wait->polled, args);
		wait_for_polled(wait, task);
		return;
	case SYSCALL_FUTEX:
		wait->kind = WAIT_FUTEX;
		wait->object = args->fd;
		return;
	case SYSCALL_SLEEP:
		wait->kind = WAIT_SLEEP;
		return;
	case SYSCALL_CHILD:
		wait->kind = WAIT_CHILD;
		return;
	case SYSCALL_SIGNAL:
		wait->kind = WAIT_SIGNAL;
		return;
	}
}

/* sched_switch: the thread leaves the CPU, and not because another is to run. */
static __always_inline void wait_begin(struct thread_wait *wait, struct task_struct *task,
				       const struct syscall_args *args, unsigned int state,
				       u64 now_ns)
{
	wait_for(wait, task, args);
	wait->start_ns = now_ns;
	wait->woken_ns = 0;
	wait->waker = WAKER_UNSEEN;
	wait->ready_cookie = 0;
	wait->ready_fd = -1;
	wait->ready_kind = 0;
	wait->kernel_stack = 0;
	wait->uninterruptible = state & TASK_UNINTERRUPTIBLE;
}

static __always_inline void wait_ready_is(struct thread_wait *wait, s32 fd, struct file *file)
{
	wait->ready_fd = fd;
	wait->ready_kind = file ? file_object(file, file_type(file), &wait->ready_cookie) : 0;
}

/*
 * Notes the descriptor that ends a wait for an epoll set. ep_poll_callback() puts it last in the list of
 * ready ones, and then wakes the thread.
 */
static __always_inline void wait_ready(struct thread_wait *wait)
{
	struct eventpoll *ep = (struct eventpoll *)wait->epoll;
	struct list_head *last = KERNEL_READ(struct eventpoll, ep, rdllist.prev);
	struct epitem *item;

	if (!last)
		return;
	item = (void *)last - bpf_core_field_offset(struct epitem, rdllink);
	if ((void *)last == (void *)ep + bpf_core_field_offset(struct eventpoll, rdllist) ||
	    KERNEL_READ(struct epitem, item, ep) != ep)
		return;
	wait_ready_is(wait, KERNEL_READ(struct epitem, item, ffd.fd),
		      KERNEL_READ(struct epitem, item, ffd.file));
}

static __always_inline void wait_polled_ready(struct thread_wait *wait, struct task_struct *task)
{
	s32 fd = polled_ready(&wait->polled, task);

	if (fd >= 0)
		wait_ready_is(wait, fd, task_file(task, fd));
}

/* sched_waking: the waker. Of an interrupt, the thread that it interrupted, or that made the call in which
 * the softirq runs. */
static __always_inline void wait_woken(struct thread_wait *wait, struct task_struct *task)
{
	struct task_struct *waker;

	if (!wait->start_ns || wait->woken_ns)
		return;
	waker = bpf_get_current_task_btf();
	wait->woken_ns = bpf_ktime_get_ns();
	wait->waker = in_interrupt(waker) ? WAKER_INTERRUPT : WAKER_THREAD;
	wait->waker_tid = waker->pid;
	wait->waker_pid = waker->tgid;
	if (wait->epoll)
		wait_ready(wait);
	else if (wait->polled.len > 1)
		wait_polled_ready(wait, task);
}

/* Returns the cookie of a connection or listener of TCP, or the device of a file; other sockets are known by their inodes. */
static __always_inline u64 wait_cookie(const struct thread_wait *wait)
{
	return wait->kind == WAIT_DATAGRAM || wait->kind == WAIT_UNIX ? 0 : wait->cookie;
}

static __always_inline void wait_fill(struct wait_record *record, const struct thread_wait *wait,
				      const struct task_struct *task, u64 now_ns)
{
	bool seen = wait->waker != WAKER_UNSEEN;

	record->start_ns = wait->start_ns;
	record->end_ns = now_ns;
	record->woken_ns = wait->woken_ns;
	record->cookie = wait_cookie(wait);
	record->object = wait->object;
	record->ready_cookie = wait->ready_cookie;
	record->fd = wait->fd;
	record->ready_fd = wait->ready_fd;
	record->syscall = wait->syscall;
	record->limit_ms = wait->limit_ms;
	record->tid = task->pid;
	record->pid = task->tgid;
	record->waker_tid = seen ? wait->waker_tid : 0;
	record->waker_pid = seen ? wait->waker_pid : 0;
	record->cpu = bpf_get_smp_processor_id();
	record->kind = wait->kind;
	record->ready_kind = wait->ready_kind;
	record->waker = wait->waker;
	record->uninterruptible = wait->uninterruptible;
	record->stack = wait->stack;
	record->kernel_stack = wait->kernel_stack;
}

/* sched_switch: the thread runs again. */
static __always_inline void wait_end(struct thread_wait *wait, struct task_struct *task, u64 now_ns)
{
	struct wait_batch *batch = wait_batch();
	u32 at;

	if (!batch)
		return;
	at = batch_begin(&batch->batch);
	if (at < WAIT_BATCH_LEN) {
		wait_fill(&batch->records[at], wait, task, now_ns);
		batch_made(&batch->batch, at);
		if (at + 1 == WAIT_BATCH_LEN)
			wait_batch_flush(batch);
	}
	batch_end(&batch->batch);
	if (wait->kind == WAIT_DATAGRAM)
		dns_wait_over(task, wait, now_ns);
	wait->start_ns = 0;
}

/* For Rust, by way of the object's BTF. */
const struct wait_record wire_wait_record = {};
const struct wait_batch wire_wait_batch = {};
const enum wait_object wire_wait_object = 0;
const enum wait_waker wire_wait_waker = 0;
const enum syscall_object wire_syscall_object = 0;

#endif
