/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Call stacks as numbers. What is handed over once, when a stack is first met, are its return addresses
 * as the frame pointers tell them and a copy of what lies on the stack of the thread: from that, tables
 * in the program's file tell the rest. Two stacks of a program are the same if all these addresses are
 * and they are equally deep; and, as few programs keep frame pointers, if what lies on the innermost part
 * of the stack and points into the program's code is the same, too: there the return addresses are.
 */
#ifndef WHYLAT_STACKS_BPF_H
#define WHYLAT_STACKS_BPF_H

#include "../bpf/kernel.h"
#include "../bpf/syscall.h"
#include "../bpf/thread.h"
#include "stacks.h"

struct stack_key {
	u64 hash;	/* of the addresses, and of the words that point into code */
	u64 sp;		/* 0: of the kernel */
	u64 started_ns; /* the process, and how often it has become another program */
	u32 pid;
	u32 execs;
};

/* Numbers of the stacks met. One that was forgotten gets a new number. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct stack_key);
	__type(value, u32);
} stack_numbers SEC(".maps");

/* Where a stack is put together: one at a time, as no switch comes within a switch. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stack_seen);
} stack_scratch SEC(".maps");

/* A full ring only delays: the stack is handed over when it is next met. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 * 1024 * 1024);
} stack_ring SEC(".maps");

/* Above the first frame of a thread lies more than that: the environment, or the C library's own. */
#define STACK_BLOCK_BYTES 1024

u32 stacks_met = 0;
/* Waits that have no stack because the ring was full. */
u64 stacks_postponed = 0;

/* Looked at by the verifier by itself, for its loop. */
__noinline u64 stack_hash(const struct stack_seen *seen)
{
	u64 hash;

	if (!seen)
		return 0;
	hash = seen->frames;
	for (u32 i = 0; i < STACK_FRAMES && i < seen->frames; i++) {
		hash = (hash ^ seen->addresses[i]) * 0x9E3779B97F4A7C15ULL;
		hash ^= hash >> 32;
	}
	return hash;
}

/* The innermost words of a stack that are looked at for addresses of code. */
#define STACK_WORDS 32

/* What is left there of earlier calls only makes more numbers of one stack. */
__noinline u64 stack_words_hash(const struct stack_seen *seen, u64 start, u64 end)
{
	u64 hash = 0;

	if (!seen)
		return 0;
	for (u32 i = 0; i < STACK_WORDS; i++) {
		u64 word = ((const u64 *)seen->copied)[i];

		if (word >= start && word < end)
			hash = (hash ^ word ^ i) * 0x9E3779B97F4A7C15ULL;
	}
	return hash;
}

static __always_inline u64 stack_code_hash(struct stack_seen *seen, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;

	if (!mm ||
	    bpf_probe_read_user(seen->copied, STACK_WORDS * sizeof(u64), (const void *)seen->sp))
		return 0;
	return stack_words_hash(seen, mm->start_code, mm->end_code);
}

/* Copies as much of the thread's stack as can be read: its end may be near. */
static __always_inline u32 stack_copy(struct stack_seen *seen)
{
	for (u32 at = 0; at < STACK_COPY_BYTES; at += STACK_BLOCK_BYTES)
		if (bpf_probe_read_user(&seen->copied[at], STACK_BLOCK_BYTES,
					(const void *)(seen->sp + at)))
			return at;
	return STACK_COPY_BYTES;
}

/* Hands over a stack that was not met before; 0 if there is no room. */
__noinline u32 stack_emit(struct stack_key *key, struct stack_seen *seen)
{
	u32 number;
	u64 bytes;

	if (!key || !seen)
		return 0;
	number = __sync_fetch_and_add(&stacks_met, 1) + 1;
	seen->time_ns = bpf_ktime_get_ns();
	seen->number = number;
	seen->copied_bytes = seen->pid ? stack_copy(seen) : 0;
	bytes = __builtin_offsetof(struct stack_seen, copied) + seen->copied_bytes;
	if (bytes > sizeof(*seen))
		return 0;
	if (bpf_ringbuf_output(&stack_ring, seen, bytes, BPF_RB_NO_WAKEUP)) {
		__sync_fetch_and_add(&stacks_postponed, 1);
		return 0;
	}
	bpf_map_update_elem(&stack_numbers, key, &number, BPF_ANY);
	return number;
}

static __always_inline u32 stack_number(struct stack_key *key, struct stack_seen *seen)
{
	u32 *known = bpf_map_lookup_elem(&stack_numbers, key);

	return known ? *known : stack_emit(key, seen);
}

static __always_inline struct stack_seen *stack_read(void *ctx, u64 flags)
{
	struct stack_seen *seen;
	u32 zero = 0;
	long bytes;

	seen = bpf_map_lookup_elem(&stack_scratch, &zero);
	if (!seen)
		return NULL;
	bytes = bpf_get_stack(ctx, seen->addresses, sizeof(seen->addresses), flags);
	if (bytes <= 0)
		return NULL;
	seen->frames = (u32)bytes / sizeof(u64);
	return seen;
}

/* The number of the stack with which a thread entered the kernel; 0: none could be read. */
static __always_inline u32 stack_of_program(void *ctx, struct task_struct *task,
					    struct thread_stacks *last)
{
	struct stack_seen *seen = stack_read(ctx, BPF_F_USER_STACK);
	struct stack_key key = {};

	if (!seen)
		return 0;
	seen->pid = task->tgid;
	syscall_registers(task, &seen->ip, &seen->sp, &seen->bp);
	key.hash = stack_hash(seen) ^ stack_code_hash(seen, task);
	key.sp = seen->sp;
	key.pid = task->tgid;
	key.execs = task->self_exec_id;
	if (last->number && last->hash == key.hash && last->sp == key.sp &&
	    last->execs == key.execs)
		return last->number;
	key.started_ns = task->group_leader->start_time;
	seen->started_ns = key.started_ns;
	seen->execs = key.execs;
	last->number = stack_number(&key, seen);
	last->hash = key.hash;
	last->sp = key.sp;
	last->execs = key.execs;
	return last->number;
}

/* The number of the stack of the kernel under this hook; 0: none could be read. */
static __always_inline u32 stack_of_kernel(void *ctx, struct thread_stacks *last)
{
	struct stack_seen *seen = stack_read(ctx, 0);
	struct stack_key key = {};

	if (!seen)
		return 0;
	seen->pid = 0;
	key.hash = stack_hash(seen);
	if (last->kernel_number && last->kernel_hash == key.hash)
		return last->kernel_number;
	last->kernel_number = stack_number(&key, seen);
	last->kernel_hash = key.hash;
	return last->kernel_number;
}

#endif
