/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Describes what is kept of a thread that has been blocked: one storage for all probes, because finding it is
 * what costs. */
#ifndef WHYLAT_THREAD_H
#define WHYLAT_THREAD_H

#include "../preemptions/preemptions.h"
#include "kernel.h"
#include "select.h"
#include "syscall.h"
#include "window.h"

/* `calls`: its blocking in its present socket call. */
struct call_wait {
	u64 sk;	       /* the socket it blocked on */
	u64 start_ns;  /* when it first blocked */
	u64 back_ns;   /* when it was last back from a wait for it */
	u64 waited_ns; /* off the CPU in this call so far */
	u64 run_delay_ns;
	s64 number;  /* of the system call */
	bool halted; /* the last time it was stopped or frozen: it did not wait for the socket */
};

/* Descriptors of a poll() or select() that are examined. */
#define POLLED 16

struct polled {
	s32 fds[POLLED];
	u32 len;
	u32 has_more; /* than are known here */
};

/* `waits`: the interval in which it is blocked now. */
struct thread_wait {
	u64 start_ns; /* 0: it is not blocked */
	u64 woken_ns;
	u64 cookie;
	u64 object;
	u64 epoll; /* the struct eventpoll that it waits for */
	u64 ready_cookie;
	s32 fd;
	s32 ready_fd;
	s32 syscall;
	s32 limit_ms;	      /* epoll, poll: negative: none, or in another form */
	struct polled polled; /* poll, select */
	u32 waker_tid;
	u32 waker_pid;
	u8 kind;
	u8 waker;
	u8 uninterruptible;
	u8 ready_kind;
	u32 stack;
	u32 kernel_stack;
};

/* `waits`: the stacks with which it was last blocked; a thread mostly waits at one place. */
struct thread_stacks {
	u64 hash;
	u64 sp;
	u64 kernel_hash;
	u32 execs;
	u32 number; /* 0: none */
	u32 kernel_number;
	u32 python_pause;  /* stacks until it is searched again */
	u64 python_thread; /* where the interpreter has it; 0: not known */
};

/* `preemptions`: the present one, and the sum of short ones since the last record. */
struct thread_preemptions {
	struct preemption_seen now;
	struct preemption_seen sum; /* start_ns 0: none */
	u64 now_delay_ns;	    /* run-queue delay of the thread before the present one */
	u64 now_runs;		    /* how often it had got a CPU by then */
	u64 sum_longest_ns;
	bool ends; /* the thread exits: nothing more hands over a sum */
};

struct thread_state {
	u64 out_ns;	 /* when it left the CPU, blocked; 0: it is back */
	u64 left_ns;	 /* when it left its CPU the last time, and has run again since */
	u64 resumed_ns;	 /* when it ran again after that */
	bool in_call;	 /* of `calls` */
	bool has_sum;	 /* there may be a sum of short preemptions */
	bool preempted;	 /* it left the CPU, not blocked, and no hook saw it run since */
	bool only_calls; /* its process is only a peer's: its waits are not what was asked for */
	bool cut_call;	 /* the socket call that it is in began before the window */
	u64 window_ns;	 /* window_begin() when this was kept */
	struct call_wait call;
	struct thread_wait wait;
	struct thread_stacks stacks;
	struct thread_preemptions preemptions;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

/* Returns what is kept of a thread; NULL: nothing. Most threads have no storage of any kind. */
static __always_inline struct thread_state *thread_known(struct task_struct *task)
{
	return KERNEL_POINTER(struct task_struct, task, bpf_storage)
		       ? bpf_task_storage_get(&threads, task, NULL, 0)
		       : NULL;
}

/*
 * The same of the running thread, from its first wait on; NULL: its blocking is not measured. A process may leave the
 * control group, and a peer's may become one that is asked for.
 */
static __always_inline struct thread_state *thread_measured(struct task_struct *task)
{
	struct thread_state *thread = thread_known(task);
	bool asked;
	u8 why;

	if (thread && !thread->only_calls && !select_cgroup_id)
		return thread;
	/* of most threads of a host nothing is kept: they come here at each block, and are resolved once */
	why = task_why(task->tgid);
	asked = is_asked_why(why);
	if (!asked && !is_peer_why(why))
		return NULL;
	if (!thread)
		thread = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (thread)
		thread->only_calls = !asked;
	return thread;
}

/* Is what is kept of a thread of the present window? */
static __always_inline bool thread_is_current(const struct thread_state *thread)
{
	return !has_windows || thread->window_ns == window_begin();
}

/* A thread that was seen running: what an earlier window knew of it is void, but for its stacks. */
static __always_inline void thread_begin_window(struct thread_state *thread)
{
	if (thread_is_current(thread))
		return;
	thread->window_ns = window_begin();
	thread->out_ns = 0;
	thread->in_call = false;
	thread->has_sum = false;
	thread->preempted = false;
	thread->cut_call = false;
	thread->call.start_ns = 0;
	thread->wait.start_ns = 0;
	thread->preemptions.sum.start_ns = 0;
}

/* The running process has become another program, which nobody asked for: its only thread is known no more. */
static __always_inline void task_forget(struct task_struct *task)
{
	u32 tgid = task->tgid;

	bpf_map_delete_elem(&tasks, &tgid);
	bpf_task_storage_delete(&threads, task);
}

/* No kernel stack of a thread is larger (THREAD_SIZE). */
#define MOST_STACK_BYTES 32768

/*
 * Does an interrupt or a softirq run, and not the current thread? These have stacks of their own
 * (irq_exit_rcu(), do_softirq_own_stack()), unless they came while the thread was in user space: then
 * it is in no system call. The softirqs of ksoftirqd are a thread's. The count of preemptions would
 * show, too, but is not to be found where the kernel has no symbols of data.
 *
 * A function by itself, as those that need 64 bytes or more of the stack get one that is no thread's (Linux 6.13).
 */
static __noinline bool in_interrupt(struct task_struct *current)
{
	struct syscall_args args;
	u64 here = 0;

	/* in 32 bits: verifiers up to Linux 6.12 refuse to subtract from all of a place on the stack */
	if ((u32)(u64)&here - (u32)(u64)current->stack >= MOST_STACK_BYTES)
		return true;
	syscall_read(current, &args);
	return args.number < 0;
}

#endif
