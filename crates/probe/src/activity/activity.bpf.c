// SPDX-License-Identifier: GPL-2.0
/*
 * The flight recorder: what every CPU does, in memory that overwrites itself and that the recorder maps.
 * Nobody reads it until something happened that makes its last moments worth keeping, so that an event
 * costs a clock reading and 16 bytes. An object of its own, because it is loaded only when it is asked
 * for, and it hooks every system call of the host.
 *
 * sched_switch, sched_migrate_task, sys_enter, sys_exit, irq_handler_*, softirq_*, the CPU's own interrupts (irq_vectors),
 * netif_receive_skb_*, hrtimer_expire_*, timer_expire_*, page_fault_*, sched_process_exit;
 * perf's software events of page faults
 */
#include "../bpf/kernel.h"
#include "../bpf/syscall.h"
#include "activity.h"

char LICENSE[] SEC("license") = "GPL";

/* Events of a CPU that are held, less one; their number is a power of two. */
const volatile u32 slots_mask = 0;

/* Puts the wire types into the object's BTF, from which Rust takes them. */
const struct activity_event wire_activity_event = {};
const struct activity_head wire_activity_head = {};
const struct activity_thread wire_activity_thread = {};
const enum activity_event_kind wire_activity_event_kind = 0;
const enum activity_function wire_activity_function = 0;

/* Those of CPU 0, then those of CPU 1, and so on. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct activity_event);
} activity_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct activity_head);
} activity_heads SEC(".maps");

/* tid -> who it was; /proc does not say it any more */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct activity_thread);
} ended_threads SEC(".maps");

/* An interrupt, or another CPU, may come between any two of these lines, and write its own events. */
static __always_inline void note_of(u32 cpu, enum activity_event_kind kind, u32 tid, s32 number)
{
	struct activity_head *head = bpf_map_lookup_elem(&activity_heads, &cpu);
	u64 now_ns = bpf_ktime_get_ns();
	struct activity_event *event;
	u32 at;

	if (!head)
		return;
	at = __sync_fetch_and_add(&head->next, 1) & slots_mask;
	at += cpu * (slots_mask + 1);
	event = bpf_map_lookup_elem(&activity_events, &at);
	if (!event)
		return;
	event->tid = tid;
	event->number = number;
	event->kind = kind;
	event->time_ns = now_ns;
}

static __always_inline void note(enum activity_event_kind kind, u32 tid, s32 number)
{
	note_of(bpf_get_smp_processor_id(), kind, tid, number);
}

static __always_inline u32 current_tid(void)
{
	return bpf_get_current_pid_tgid();
}

SEC("tp_btf/sched_switch")
int BPF_PROG(note_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct syscall_args args = {.number = -1};

	if (!(next->flags & PF_KTHREAD))
		syscall_read(next, &args);
	note(ACTIVITY_SWITCH, next->pid, args.number == NO_SYSCALL ? -1 : args.number);
	return 0;
}

static __always_inline u32 task_cpu(struct task_struct *task)
{
	if (bpf_core_field_exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	return ((struct task_struct___5_15 *)task)->cpu;
}

/* Called before the thread is moved, by whoever moves it. Who is woken elsewhere wanted no CPU before. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(note_sched_migrate_task, struct task_struct *task, int to_cpu)
{
	/* of another size since Linux 7 */
	if (BPF_CORE_READ_BITFIELD(task, on_rq))
		note_of(task_cpu(task), ACTIVITY_MIGRATE, task->pid, to_cpu);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(note_sched_process_exit, struct task_struct *task)
{
	struct activity_thread thread = {.pid = task->tgid};
	u32 tid = task->pid;

	bpf_get_current_comm(thread.comm, sizeof(thread.comm));
	bpf_map_update_elem(&ended_threads, &tid, &thread, BPF_ANY);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(note_sys_enter, void *regs, long number)
{
	note(ACTIVITY_SYSCALL_BEGIN, current_tid(), number);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(note_sys_exit)
{
	note(ACTIVITY_SYSCALL_END, current_tid(), -1);
	return 0;
}

#define NUMBERED(tracepoint, kind, type)                                                           \
	SEC("tp_btf/" #tracepoint)                                                                 \
	int BPF_PROG(note_##tracepoint, type number)                                               \
	{                                                                                          \
		note(kind, current_tid(), number);                                                 \
		return 0;                                                                          \
	}

#define FUNCTION(tracepoint, kind, function)                                                       \
	SEC("tp_btf/" #tracepoint)                                                                 \
	int BPF_PROG(note_##tracepoint)                                                            \
	{                                                                                          \
		note(kind, current_tid(), function);                                               \
		return 0;                                                                          \
	}

NUMBERED(irq_handler_entry, ACTIVITY_IRQ_BEGIN, int)
NUMBERED(irq_handler_exit, ACTIVITY_IRQ_END, int)
NUMBERED(softirq_entry, ACTIVITY_SOFTIRQ_BEGIN, unsigned int)
NUMBERED(softirq_exit, ACTIVITY_SOFTIRQ_END, unsigned int)
FUNCTION(netif_receive_skb_entry, ACTIVITY_FUNCTION_BEGIN, ACTIVITY_NETIF_RECEIVE_SKB)
FUNCTION(netif_receive_skb_exit, ACTIVITY_FUNCTION_END, ACTIVITY_NETIF_RECEIVE_SKB)
FUNCTION(hrtimer_expire_entry, ACTIVITY_FUNCTION_BEGIN, ACTIVITY_HRTIMER)
FUNCTION(hrtimer_expire_exit, ACTIVITY_FUNCTION_END, ACTIVITY_HRTIMER)
FUNCTION(timer_expire_entry, ACTIVITY_FUNCTION_BEGIN, ACTIVITY_TIMER)
FUNCTION(timer_expire_exit, ACTIVITY_FUNCTION_END, ACTIVITY_TIMER)

/* The CPU's own interrupts: one program is attached to the tracepoints of all, each shows its vector. */
SEC("raw_tp")
int note_vector_entry(struct bpf_raw_tracepoint_args *ctx)
{
	note(ACTIVITY_VECTOR_BEGIN, current_tid(), ctx->args[0]);
	return 0;
}

SEC("raw_tp")
int note_vector_exit(struct bpf_raw_tracepoint_args *ctx)
{
	note(ACTIVITY_VECTOR_END, current_tid(), ctx->args[0]);
	return 0;
}

/*
 * Page faults have tracepoints where they begin, and events of perf that count them when they are done
 * (mm_account_fault()). One that ends with a signal has no such end.
 */
SEC("tp_btf/page_fault_user")
int BPF_PROG(note_page_fault_user)
{
	note(ACTIVITY_FUNCTION_BEGIN, current_tid(), ACTIVITY_PAGE_FAULT);
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(note_page_fault_kernel)
{
	/* copy_from_user_nofault() and its like are not served */
	if (!bpf_get_current_task_btf()->pagefault_disabled)
		note(ACTIVITY_FUNCTION_BEGIN, current_tid(), ACTIVITY_PAGE_FAULT);
	return 0;
}

SEC("perf_event")
int note_page_fault_end(void *ctx)
{
	note(ACTIVITY_FUNCTION_END, current_tid(), ACTIVITY_PAGE_FAULT);
	return 0;
}
