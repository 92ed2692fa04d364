/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Samples of what recorded threads run: the clock that looks at each CPU 99 times a second (busy_poll.bpf.h) interrupts one,
 * and the registers say where. What runs in an interrupt or a softirq above the thread is on its kernel stack.
 */
#ifndef WHYLAT_ON_CPU_SAMPLES_BPF_H
#define WHYLAT_ON_CPU_SAMPLES_BPF_H

#include "../bpf/ring.h"
#include "../bpf/syscall.h"
#include "../stacks/stacks.bpf.h"
#include "on_cpu_samples.h"

struct on_cpu_sample_record {
	struct record_header header;
	struct on_cpu_sample sample;
};

static __always_inline void on_cpu_sample_emit(struct bpf_perf_event_data *ctx,
					       struct task_struct *task,
					       const struct syscall_args *args, u32 stack, u64 ip)
{
	bool in_kernel;
	u32 kernel_stack = stack_of_interrupted_kernel(ctx, &in_kernel);
	struct on_cpu_sample_record *record =
		record_reserve_in(&clock_records, RECORD_ON_CPU_SAMPLE, sizeof(*record));

	if (!record)
		return;
	record->sample.ip = ip;
	record->sample.time_ns = bpf_ktime_get_ns();
	record->sample.tid = task->pid;
	record->sample.pid = task->tgid;
	record->sample.stack = stack;
	record->sample.kernel_stack = kernel_stack;
	record->sample.syscall = args->number < 0 || args->number == NO_SYSCALL ? -1 : args->number;
	record->sample.cpu = bpf_get_smp_processor_id();
	record->sample.in_kernel = in_kernel;
	record->sample.pad = 0;
	bpf_ringbuf_submit(record, ring_wakeup(&clock_records));
}

/* For Rust, by way of the object's BTF. */
const struct on_cpu_sample wire_on_cpu_sample = {};

#endif
