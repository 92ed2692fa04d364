/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Preemptions: each time that a recorded thread leaves its CPU although it could go on, until it runs again. Another
 * thread's turn has come, its control group has used up its CPU quota, or it gave the CPU away itself
 * (sched_yield()). The kernel counts the same as involuntary context switches (nivcsw).
 *
 * Short ones are many where two threads take turns: they are added up in the thread's storage.
 */
#ifndef WHYLAT_PREEMPTIONS_BPF_H
#define WHYLAT_PREEMPTIONS_BPF_H

#include "../bpf/ring.h"
#include "../bpf/syscall.h"
#include "../bpf/thread.h"
#include "preemptions.h"

struct preemption_record {
	struct record_header header;
	struct preemption_seen seen;
};

/*
 * Has the thread's control group used up its CPU quota? Linux 6.18 takes single threads off their queues
 * (throttle_cfs_rq_work()), earlier ones the whole queue (throttle_cfs_rq()).
 */
static __always_inline u8 preemption_quota_of(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->throttled))
		return task->throttled ? QUOTA_USED_UP : QUOTA_LEFT;
	if (bpf_core_field_exists(task->se.cfs_rq) &&
	    bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count))
		return task->se.cfs_rq->throttle_count ? QUOTA_USED_UP : QUOTA_LEFT;
	return QUOTA_UNKNOWN;
}

static __always_inline bool is_yield(struct task_struct *task)
{
	struct syscall_args args;

	syscall_read(task, &args);
	return args.number == SYS_sched_yield;
}

static __always_inline void preemption_emit(const struct preemption_seen *seen)
{
	struct preemption_record *record =
		record_reserve_in(&preemption_records, RECORD_PREEMPTION_SEEN, sizeof(*record));

	if (!record)
		return;
	record->seen = *seen;
	bpf_ringbuf_submit(record, ring_wakeup(&preemption_records));
}

/* Hands over the sum of short ones, if there is one. */
static __always_inline void preemption_sum_emit(struct thread_preemptions *all)
{
	if (!all->sum.start_ns)
		return;
	preemption_emit(&all->sum);
	all->sum.start_ns = 0;
}

/* Returns whether the sum takes no more preemptions at this time. */
static __always_inline bool preemption_sum_is_over(const struct thread_preemptions *all, u64 now_ns)
{
	return all->sum.start_ns && now_ns - all->sum.start_ns >= PREEMPTION_SUM_NS;
}

static __always_inline void preemption_add(struct thread_preemptions *all)
{
	struct preemption_seen *sum = &all->sum, *now = &all->now;
	u64 start_ns = sum->start_ns, off_ns = sum->off_ns;
	u32 count = sum->count, yields = sum->yields;

	if (!start_ns) {
		*sum = *now;
		all->sum_longest_ns = now->off_ns;
		return;
	}
	if (now->off_ns > all->sum_longest_ns) {
		*sum = *now;
		all->sum_longest_ns = now->off_ns;
	}
	sum->start_ns = start_ns;
	sum->end_ns = now->end_ns;
	sum->off_ns = off_ns + now->off_ns;
	sum->count = count + 1;
	sum->yields = yields + now->yields;
	sum->cpu = now->cpu;
}

/* One is over, at this time. A function that the verifier looks at by itself: it is called at several places. */
__noinline int preemption_over(struct thread_preemptions *all, u64 end_ns)
{
	struct preemption_seen *now;

	if (!all)
		return 0;
	now = &all->now;
	now->end_ns = end_ns;
	now->off_ns = end_ns - now->start_ns;
	if (now->off_ns < PREEMPTION_OWN_NS && now->quota != QUOTA_USED_UP && !all->ends) {
		if (preemption_sum_is_over(all, end_ns))
			preemption_sum_emit(all);
		preemption_add(all);
	} else {
		preemption_sum_emit(all);
		preemption_emit(now);
	}
	return 0;
}

/*
 * The thread has run since, but no hook saw it begin: not all switches from one thread to the next run programs. How long
 * it was off the CPU, the kernel has counted.
 */
static __always_inline void preemption_over_unseen(struct thread_preemptions *all,
						   const struct task_struct *task)
{
	u64 off_ns = task->sched_info.run_delay - all->now_delay_ns;

	preemption_over(all, all->now.start_ns + off_ns);
}

/* sched_switch: the thread leaves its CPU to `next`, and could go on. */
static __always_inline void preemption_begin(struct thread_state *thread, struct task_struct *task,
					     struct task_struct *next, bool preempt, u64 now_ns)
{
	struct thread_preemptions *all = &thread->preemptions;
	struct preemption_seen *now = &all->now;

	if (thread->preempted)
		preemption_over_unseen(all, task);
	thread->preempted = true;
	now->start_ns = now_ns;
	all->now_delay_ns = task->sched_info.run_delay;
	all->now_runs = task->sched_info.pcount;
	now->count = 1;
	now->yields = !preempt && is_yield(task);
	now->tid = task->pid;
	now->pid = task->tgid;
	now->by_tid = next->pid;
	now->by_pid = next->tgid;
	bpf_probe_read_kernel(now->by_comm, sizeof(now->by_comm), next->comm);
	now->cpu = bpf_get_smp_processor_id();
	now->quota = preemption_quota_of(task);
}

/* sched_switch: the thread runs again, from a wait or not. */
static __always_inline void preemption_end(struct thread_state *thread,
					   const struct task_struct *task, u64 now_ns)
{
	thread->preempted = false;
	thread->has_sum = true;
	/* it has blocked since; the delay after that is not counted yet */
	if (thread->out_ns)
		preemption_over_unseen(&thread->preemptions, task);
	else
		preemption_over(&thread->preemptions, now_ns);
}

/* sched_switch: the thread has waited and runs again. */
static __always_inline void preemptions_waited(struct thread_state *thread, u64 now_ns)
{
	if (!thread->has_sum)
		return;
	if (preemption_sum_is_over(&thread->preemptions, now_ns))
		preemption_sum_emit(&thread->preemptions);
	thread->has_sum = thread->preemptions.sum.start_ns;
}

/* The thread ends, what is kept of it, or the recording. */
static __always_inline void preemptions_end(struct task_struct *task)
{
	struct thread_state *thread = thread_known(task);

	if (!thread || (has_windows && thread->window_ns != READ_ONCE(window_latest_ns)))
		return;
	/* if it has not run since, it is off its CPU still; a move to another CPU counts as delay, too */
	if (thread->preempted && !window_is_closed() &&
	    task->sched_info.pcount != thread->preemptions.now_runs) {
		thread->preempted = false;
		preemption_over_unseen(&thread->preemptions, task);
	}
	preemption_sum_emit(&thread->preemptions);
}

/* sched_process_exit: the thread is preempted as before until it is gone, and no hook comes after the last time. */
static __always_inline void preemptions_exit(struct task_struct *task)
{
	struct thread_state *thread = thread_known(task);

	preemptions_end(task);
	if (thread)
		thread->preemptions.ends = true;
}

/* For Rust, by way of the object's BTF. */
const struct preemption_seen wire_preemption_seen = {};
const enum preemption_quota wire_preemption_quota = 0;

#endif
