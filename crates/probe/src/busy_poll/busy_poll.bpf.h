/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Spins: threads that keep a CPU busy with asking what is ready, in calls that were asked not to wait
 * (epoll, poll, select with a timeout of zero). Such a thread is never blocked, so that no switch shows
 * of it; a clock that looks at each CPU a hundred times a second does.
 */
#ifndef WHYLAT_BUSY_POLL_BPF_H
#define WHYLAT_BUSY_POLL_BPF_H

#include "../bpf/ring.h"
#include "../bpf/syscall.h"
#include "../bpf/thread.h"
#include "../waits/waits.bpf.h"
#include "busy_poll.h"

const volatile u8 syscall_timeouts[SYSCALLS] = {}; /* enum syscall_timeout, by number */

struct spin_record {
	struct record_header header;
	struct spin_seen seen;
};

/* A time in the program's memory, in seconds and a fraction: is it none? Without one it is forever. */
static __always_inline bool is_zero_time(u64 at)
{
	u64 time[2];

	return at && !bpf_probe_read_user(time, sizeof(time), (const void *)at) &&
	       !(time[0] | time[1]);
}

/* Returns whether the thread is in a call that asks which descriptors are ready, with a timeout of zero. */
static __always_inline bool asks_without_waiting(struct task_struct *task,
						 const struct syscall_args *args)
{
	if (args->number < 0)
		return false; /* in its own code */
	switch (syscall_timeouts[args->number & (SYSCALLS - 1)]) {
	case TIMEOUT_MS_THIRD:
		return !(u32)args->len;
	case TIMEOUT_MS_FOURTH:
		return !(u32)syscall_fourth(task);
	case TIMEOUT_AT_THIRD:
		return is_zero_time(args->len);
	case TIMEOUT_AT_FOURTH:
		return is_zero_time(syscall_fourth(task));
	case TIMEOUT_AT_FIFTH:
		return is_zero_time(syscall_fifth(task));
	}
	return false;
}

/*
 * Emits a sample of a busy poll. Finds the polled object as for a wait: a running thread waits for no
 * object.
 */
static __always_inline void spin_emit(struct thread_state *thread, struct task_struct *task,
				      const struct syscall_args *args, u32 stack, u64 ip)
{
	struct thread_wait *wait = &thread->wait;
	struct spin_record *record =
		record_reserve_in(&clock_records, RECORD_SPIN_SEEN, sizeof(*record));

	if (!record)
		return;
	wait_for(wait, task, args);
	record->seen.time_ns = bpf_ktime_get_ns();
	record->seen.cookie = wait_cookie(wait);
	record->seen.object = wait->object;
	record->seen.fd = wait->fd;
	record->seen.syscall = wait->syscall;
	record->seen.tid = task->pid;
	record->seen.pid = task->tgid;
	record->seen.stack = stack;
	record->seen.ip = ip;
	record->seen.cpu = bpf_get_smp_processor_id();
	record->seen.kind = wait->kind;
	record->seen.pad = 0;
	bpf_ringbuf_submit(record, ring_wakeup(&clock_records));
}

/* For Rust, by way of the object's BTF. */
const struct spin_seen wire_spin_seen = {};
const enum syscall_timeout wire_syscall_timeout = 0;

#endif
