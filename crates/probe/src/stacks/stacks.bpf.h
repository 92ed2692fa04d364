/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Call stacks as numbers. What is handed over once, when a stack is first seen, are its return addresses
 * as the frame pointers show them and a copy of what lies on the stack of the thread: from that, tables
 * in the program's file show the rest.
 *
 * Two stacks of a program are the same if the thread entered the kernel at the same place, as deep, in
 * the same frame, and if the innermost words of the stack that point into the program's code are the
 * same: return addresses are among them. To follow all frames at each wait would cost more, and few
 * programs keep frame pointers.
 */
#ifndef WHYLAT_STACKS_BPF_H
#define WHYLAT_STACKS_BPF_H

#include "../bpf/kernel.h"
#include "../bpf/syscall.h"
#include "../bpf/thread.h"
#include "../python/python.bpf.h"
#include "stacks.h"

struct stack_key {
	u64 hash;	/* of the addresses of code */
	u64 sp;		/* 0: of the kernel */
	u64 started_ns; /* the process, and how often it has become another program */
	u32 pid;
	u32 execs;
};

/* Numbers of the stacks found. One that was forgotten gets a new number. */
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

/* A full ring only delays: the stack is handed over when it is next seen. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 * 1024 * 1024);
} stack_ring SEC(".maps");

/* The same of samples, so that they never take the room of waits: 127 stacks at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct stack_key);
	__type(value, u32);
} sample_stack_numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1024 * 1024);
} sample_stack_ring SEC(".maps");

#define STACK_BLOCK_BYTES 1024

u32 stacks_seen = 0;

/* Stacks that were not handed over, because their ring was full. */
u64 stacks_lost = 0;

static __always_inline u64 stack_mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
	return hash ^ hash >> 32;
}

/* Verified by itself, for its loop. */
__noinline u64 stack_hash(const struct stack_seen *seen)
{
	u64 hash;

	if (!seen)
		return 0;
	hash = seen->frames;
	for (u32 i = 0; i < STACK_FRAMES && i < seen->frames; i++) {
		hash = stack_mix(hash, seen->addresses[i]);
	}
	return hash;
}

/* Hashes the Python functions of a stack; 0 without a stack. */
__noinline u64 stack_codes_hash(const struct stack_seen *seen)
{
	u64 hash = 0;

	if (!seen)
		return 0;
	for (u32 i = 0; i < PYTHON_FRAMES && i < seen->code_count; i++) {
		hash = stack_mix(hash, seen->codes[i]);
	}
	return hash;
}

/* The innermost words of a stack that are examined for addresses of code. */
#define STACK_WORDS 32

/* The program's own code, and the limit of its addresses. */
struct code_range {
	u64 start;
	u64 end;
	u64 limit;
};

static __always_inline struct code_range code_range_of(const struct mm_struct *mm)
{
	struct code_range code = {
		.start = mm->start_code,
		.end = mm->end_code,
		.limit = mm->task_size,
	};

	return code;
}

/* Adds a word of the stack or of a register if it points into the program's code: others change from call to call. */
static __always_inline u64 stack_mix_code(u64 hash, u64 word, u32 place,
					  const struct code_range *code)
{
	word = code_address(word, code->limit);
	return word >= code->start && word < code->end ? stack_mix(hash, word ^ place) : hash;
}

/*
 * Words of earlier calls there only make more numbers of one stack. So does the link register where a function has called
 * another. Where it has not, the return address is in that register alone.
 */
static __always_inline u64 stack_words_hash_of(const struct stack_seen *seen,
					       const struct code_range *code, u32 words)
{
	u64 hash = stack_mix_code(0, seen->registers.lr, words, code);

	for (u32 i = 0; i < words; i++)
		hash = stack_mix_code(hash, ((const u64 *)seen->copied)[i], i, code);
	return hash;
}

__noinline u64 stack_words_hash(const struct stack_seen *seen, const struct code_range *code)
{
	return seen && code ? stack_words_hash_of(seen, code, STACK_WORDS) : 0;
}

/* The same of samples, for which there is more time. */
#define SAMPLE_WORDS 64

__noinline u64 sample_words_hash(const struct stack_seen *seen, const struct code_range *code)
{
	return seen && code ? stack_words_hash_of(seen, code, SAMPLE_WORDS) : 0;
}

/*
 * Reads what lies on a thread's stack, `bytes` of it, which is a power of two, or less if no page follows: a coroutine's
 * first frame may be the last on its pages, and so may be the words that execve() wrote for main(). What is not read is 0.
 * Returns how many bytes were read.
 */
static __always_inline u32 stack_read(void *to, u32 bytes, u64 from)
{
	u32 left = -from & (bytes - 1); /* up to where a page may end */

	if (!bpf_probe_read_user(to, bytes, (const void *)from))
		return bytes;
	return left && !bpf_probe_read_user(to, left, (const void *)from) ? left : 0;
}

static __always_inline u64 stack_code_hash(struct stack_seen *seen, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	struct code_range code;

	if (!mm || !stack_read(seen->copied, STACK_WORDS * sizeof(u64), seen->registers.sp))
		return 0;
	code = code_range_of(mm);
	return stack_words_hash(seen, &code);
}

/*
 * The register of frame pointers, if it may hold one: it points into what is copied of the stack. Else the program uses
 * it for anything, and each value would make the same stack a new one.
 */
static __always_inline u64 stack_frame_pointer(const struct stack_seen *seen)
{
	const struct user_registers *registers = &seen->registers;

	return registers->fp - registers->sp < STACK_COPY_BYTES ? registers->fp : 0;
}

/* Copies as much of the thread's stack as can be read: its end may be near. */
static __always_inline u32 stack_copy(struct stack_seen *seen)
{
	for (u32 at = 0; at < STACK_COPY_BYTES; at += STACK_BLOCK_BYTES) {
		u32 bytes =
			stack_read(&seen->copied[at], STACK_BLOCK_BYTES, seen->registers.sp + at);

		if (bytes < STACK_BLOCK_BYTES)
			return at + bytes;
	}
	return STACK_COPY_BYTES;
}

/* Hands over a stack that was not seen before; 0 if there is no room. */
static __always_inline u32 stack_emit_to(void *ring, void *numbers, struct stack_key *key,
					 struct stack_seen *seen)
{
	struct stack_key own;
	u32 number;
	u64 bytes;

	number = __sync_fetch_and_add(&stacks_seen, 1) + 1;
	seen->time_ns = bpf_ktime_get_ns();
	seen->number = number;
	seen->copied_bytes = seen->pid ? stack_copy(seen) : 0;
	if (seen->pid)
		python_codes_emit(seen);
	else
		seen->code_count = 0;
	bytes = __builtin_offsetof(struct stack_seen, copied) + seen->copied_bytes;
	if (bytes > sizeof(*seen))
		return 0;
	if (bpf_ringbuf_output(ring, seen, bytes, ring_wakeup(ring))) {
		__sync_fetch_and_add(&stacks_lost, 1);
		return 0;
	}
	own = *key; /* a key must be on a program's own stack up to Linux 6.1 */
	bpf_map_update_elem(numbers, &own, &number, BPF_ANY);
	return number;
}

__noinline u32 stack_emit(struct stack_key *key, struct stack_seen *seen)
{
	return key && seen ? stack_emit_to(&stack_ring, &stack_numbers, key, seen) : 0;
}

__noinline u32 sample_stack_emit(struct stack_key *key, struct stack_seen *seen)
{
	return key && seen ? stack_emit_to(&sample_stack_ring, &sample_stack_numbers, key, seen)
			   : 0;
}

static __always_inline struct stack_seen *stack_scratch_of_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&stack_scratch, &zero);
}

/* The number of the stack with which a thread entered the kernel; 0: none could be read. */
static __always_inline u32 stack_of_program(void *ctx, struct task_struct *task,
					    struct thread_stacks *last)
{
	struct stack_seen *seen = stack_scratch_of_cpu();
	struct stack_key key = {};
	u32 *known;
	long bytes;

	if (!seen)
		return 0;
	syscall_registers(task, &seen->registers);
	key.sp = seen->registers.sp;
	key.hash = stack_mix(stack_code_hash(seen, task), seen->registers.ip);
	key.hash = stack_mix(key.hash, stack_frame_pointer(seen));
	python_read(task, seen, last);
	if (seen->code_count)
		key.hash = stack_mix(key.hash, stack_codes_hash(seen));
	key.pid = task->tgid;
	key.execs = task->self_exec_id;
	if (last->number && last->hash == key.hash && last->sp == key.sp &&
	    last->execs == key.execs)
		return last->number;
	key.started_ns = process_started_ns(task);
	last->hash = key.hash;
	last->sp = key.sp;
	last->execs = key.execs;
	known = bpf_map_lookup_elem(&stack_numbers, &key);
	if (known) {
		last->number = *known;
		return last->number;
	}
	bytes = bpf_get_stack(ctx, seen->addresses, sizeof(seen->addresses), BPF_F_USER_STACK);
	seen->frames = bytes > 0 ? (u32)bytes / sizeof(u64) : 0;
	seen->pid = key.pid;
	seen->started_ns = key.started_ns;
	seen->execs = key.execs;
	last->number = seen->frames ? stack_emit(&key, seen) : 0;
	return last->number;
}

/* Frames beyond which the frame pointers of a program are taken to be some: others use the register for anything. */
#define SAMPLE_CHAIN_LEAST 4

/*
 * The number of the callers of what a sample interrupted; 0: none could be read. Where the function was is no part of it,
 * nor the register of frame pointers, which most programs use for anything: each would make the same stack a new one.
 */
static __always_inline u32 stack_of_sample(void *ctx, struct task_struct *task,
					   struct thread_stacks *last, u64 *ip)
{
	struct stack_seen *seen = stack_scratch_of_cpu();
	struct mm_struct *mm = task->mm;
	struct stack_key key = {};
	struct code_range code;
	u32 *known;
	long bytes;

	*ip = 0;
	if (!seen || !mm)
		return 0;
	code = code_range_of(mm);
	syscall_registers(task, &seen->registers);
	*ip = seen->registers.ip;
	key.sp = seen->registers.sp;
	if (stack_read(seen->copied, SAMPLE_WORDS * sizeof(u64), seen->registers.sp))
		key.hash = sample_words_hash(seen, &code);
	bytes = bpf_get_stack(ctx, seen->addresses, sizeof(seen->addresses), BPF_F_USER_STACK);
	seen->frames = bytes > 0 ? (u32)bytes / sizeof(u64) : 0;
	if (seen->frames >= SAMPLE_CHAIN_LEAST) {
		u64 innermost = seen->addresses[0];

		seen->addresses[0] = 0;
		key.hash = stack_mix(key.hash, stack_hash(seen));
		seen->addresses[0] = innermost;
	}
	python_read(task, seen, last);
	if (seen->code_count)
		key.hash = stack_mix(key.hash, stack_codes_hash(seen));
	key.pid = task->tgid;
	key.execs = task->self_exec_id;
	key.started_ns = process_started_ns(task);
	known = bpf_map_lookup_elem(&sample_stack_numbers, &key);
	if (known)
		return *known;
	seen->pid = key.pid;
	seen->started_ns = key.started_ns;
	seen->execs = key.execs;
	return seen->frames ? sample_stack_emit(&key, seen) : 0;
}

/*
 * Shorter waits have no stack of the kernel: to find it takes 2.7 us, for the kernel unwinds by tables,
 * and that is to be at most a hundredth of the wait.
 */
#define KERNEL_STACK_LEAST_NS 270000

/* The number of a stack of the kernel, of so many bytes of addresses. */
static __always_inline u32 stack_kernel_number(struct stack_seen *seen, long bytes,
					       struct thread_stacks *last)
{
	struct stack_key key = {};
	u32 *known;

	if (bytes <= 0)
		return 0;
	seen->frames = (u32)bytes / sizeof(u64);
	key.hash = stack_hash(seen);
	if (last->kernel_number && last->kernel_hash == key.hash)
		return last->kernel_number;
	seen->pid = 0;
	known = bpf_map_lookup_elem(&stack_numbers, &key);
	last->kernel_number = known ? *known : stack_emit(&key, seen);
	last->kernel_hash = key.hash;
	return last->kernel_number;
}

/* The number of the stack of the kernel in which a thread that is to run again has waited. */
static __always_inline u32 stack_of_kernel(struct task_struct *task, struct thread_stacks *last)
{
	struct stack_seen *seen = stack_scratch_of_cpu();
	long bytes;

	if (!seen)
		return 0;
	bytes = bpf_get_task_stack(task, seen->addresses, sizeof(seen->addresses), 0);
	return stack_kernel_number(seen, bytes, last);
}

/* The same of the kernel's code that the clock's interrupt came into, if it was not the program's. */
static __always_inline u32 stack_of_interrupted_kernel(void *ctx, bool *in_kernel)
{
	struct stack_seen *seen = stack_scratch_of_cpu();
	struct stack_key key = {};
	u32 *known;
	long bytes;

	*in_kernel = false;
	if (!seen)
		return 0;
	/* the first address is that of the interrupt (perf_callchain_kernel()) */
	bytes = bpf_get_stack(ctx, seen->addresses, sizeof(seen->addresses), 0);
	*in_kernel = bytes > 0;
	if (bytes <= 0)
		return 0;
	seen->frames = (u32)bytes / sizeof(u64);
	seen->pid = 0;
	key.hash = stack_hash(seen);
	known = bpf_map_lookup_elem(&sample_stack_numbers, &key);
	return known ? *known : sample_stack_emit(&key, seen);
}

/* For Rust, by way of the object's BTF. */
const struct stack_seen wire_stack_seen = {};

#endif
