/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What a thread runs in Python: the frames of CPython's interpreter, which it keeps in a list from the innermost on. The
 * recorder says where the interpreter of a process keeps what (python/layout.rs). The program is not stopped: it is the
 * thread itself that is interrupted or leaves its CPU, so that its list does not change meanwhile.
 */
#ifndef WHYLAT_PYTHON_BPF_H
#define WHYLAT_PYTHON_BPF_H

#include "../bpf/kernel.h"
#include "../bpf/ring.h"
#include "../bpf/thread.h"
#include "../stacks/stacks.h"
#include "python.h"

/* Threads of an interpreter that are searched for the running one, and interpreters with them. */
#define PYTHON_THREADS 128

/* Stacks for which a thread that the interpreter does not know is not searched again. */
#define PYTHON_PAUSE 64

/* Owners of frames from this on are the interpreter's own marks between its runs, not functions (pycore_frame.h). */
#define PYTHON_OWNER_MARK 3

/* Frames are read; false: the verifier of this kernel refuses it. */
const volatile bool has_python = false;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, u32); /* process */
	__type(value, struct python_process);
} python_processes SEC(".maps");

/* Functions that were handed over. Another object at the same address has another name or line. */
struct python_code_key {
	u64 code;
	u64 name;
	u32 pid;
	u32 line;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct python_code_key);
	__type(value, u8);
} python_codes SEC(".maps");

/* A full ring only delays: the function is handed over with the next stack. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} python_code_ring SEC(".maps");

/* Returns the pthread_self() of a thread, which the interpreter keeps of each; 0: not known here. */
static __always_inline u64 python_thread_id(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread.fsbase;
#else
	return 0;
#endif
}

/* Verified by itself: it is called in loops, and on many paths. */
__noinline u64 python_word(u64 at)
{
	u64 word = 0;

	return at && !bpf_probe_read_user(&word, sizeof(word), (const void *)at) ? word : 0;
}

/* The interpreter's record of the thread with this id; 0: it has none. */
__noinline u64 python_thread_find(const struct python_process *python, u64 id)
{
	u64 interpreter, thread;

	if (!has_python || !python)
		return 0;
	interpreter = python_word(python->runtime + python->interpreters_head);
	thread = interpreter ? python_word(interpreter + python->threads_head) : 0;
	for (u32 i = 0; i < PYTHON_THREADS; i++) {
		if (thread) {
			if (python_word(thread + python->thread_id) == id)
				return thread;
			thread = python_word(thread + python->thread_next);
			continue;
		}
		if (!interpreter)
			return 0;
		interpreter = python_word(interpreter + python->interpreter_next);
		thread = interpreter ? python_word(interpreter + python->threads_head) : 0;
	}
	return 0;
}

/*
 * Adds the function of a frame to a stack; returns the frame before, 0 if there is none or no room. Verified by itself, so
 * that a loop around it is simple.
 */
__noinline u64 python_frame_pass(const struct python_process *python, struct stack_seen *seen,
				 u64 frame)
{
	u8 owner = 0;
	u32 count;

	if (!has_python || !python || !seen || !frame)
		return 0;
	count = seen->code_count;
	if (count >= PYTHON_FRAMES)
		return 0;
	if (python->frame_owner != PYTHON_NONE)
		bpf_probe_read_user(&owner, sizeof(owner),
				    (const void *)(frame + python->frame_owner));
	if (owner < PYTHON_OWNER_MARK) {
		/* the lowest bits of a reference mark it (pycore_stackref.h) */
		seen->codes[count & (PYTHON_FRAMES - 1)] =
			python_word(frame + python->frame_code) & ~7ULL;
		seen->code_count = count + 1;
	}
	return python_word(frame + python->frame_previous);
}

/* Puts the functions of a thread into a stack, innermost first. */
__noinline int python_frames_read(const struct python_process *python, struct stack_seen *seen,
				  u64 thread)
{
	u64 frame;

	if (!has_python || !python || !seen)
		return 0;
	frame = python_word(thread + python->thread_frame);
	if (python->current_frame != PYTHON_NONE)
		frame = frame ? python_word(frame + python->current_frame) : 0;
	for (u32 i = 0; i < 2 * PYTHON_FRAMES; i++) {
		if (!frame)
			break;
		frame = python_frame_pass(python, seen, frame);
	}
	return 0;
}

/* Copies a text, or its end if it is long. */
static __always_inline void python_text_read(const struct python_process *python, u64 at,
					     struct python_text *text, u8 *bytes, u32 most,
					     bool is_path)
{
	/* behind the header of an ASCII text others have 16 or 24 bytes more */
	const u32 other_header = 28;
	u64 length = at ? python_word(at + python->text_length) : 0;
	u64 from = at + python->text_bytes;
	u32 size;

	text->state = 0;
	text->bytes = 0;
	text->length = length;
	text->pad = 0;
	if (!length || length > 0xffff)
		return;
	bpf_probe_read_user(&text->state, sizeof(text->state),
			    (const void *)(at + python->text_state));
	if (is_path && length > most) {
		from += length - most;
		text->length = most;
		length = most;
	}
	size = length + other_header;
	if (size > most)
		size = most;
	if (!bpf_probe_read_user(bytes, size, (const void *)from))
		text->bytes = size;
}

/* Hands over a function, unless it was seen before. */
__noinline int python_code_emit(const struct python_process *python, const struct stack_seen *seen,
				u64 code)
{
	struct python_code_seen *record;
	struct python_code_key key = {};
	u8 known = 1;

	if (!has_python || !python || !seen || !code)
		return 0;
	key.code = code;
	key.name = python_word(code + python->code_name);
	key.pid = seen->pid;
	bpf_probe_read_user(&key.line, sizeof(key.line), (const void *)(code + python->code_line));
	if (!key.name || bpf_map_lookup_elem(&python_codes, &key))
		return 0;
	record = bpf_ringbuf_reserve(&python_code_ring, sizeof(*record), 0);
	if (!record)
		return 0;
	record->code = code;
	record->started_ns = seen->started_ns;
	record->pid = seen->pid;
	record->execs = seen->execs;
	record->line = key.line;
	record->pad = 0;
	python_text_read(python, key.name, &record->name, record->name_bytes, PYTHON_NAME_BYTES,
			 false);
	python_text_read(python, python_word(code + python->code_file), &record->file,
			 record->file_bytes, PYTHON_FILE_BYTES, true);
	bpf_ringbuf_submit(record, ring_wakeup(&python_code_ring));
	bpf_map_update_elem(&python_codes, &key, &known, BPF_ANY);
	return 0;
}

/* Hands over the functions of a stack that is handed over. */
static __always_inline void python_codes_emit(const struct stack_seen *seen)
{
	const struct python_process *python;
	u32 pid = seen->pid;

	if (!has_python || !seen->code_count)
		return;
	python = bpf_map_lookup_elem(&python_processes, &pid);
	if (!python)
		return;
	for (u32 i = 0; i < PYTHON_FRAMES; i++) {
		if (i >= seen->code_count)
			break;
		python_code_emit(python, seen, seen->codes[i]);
	}
}

/* Reads what the running thread runs in Python, if it runs that. */
static __always_inline void python_read(struct task_struct *task, struct stack_seen *seen,
					struct thread_stacks *last)
{
	const struct python_process *python;
	u32 pid = task->tgid;
	u64 id;

	seen->code_count = 0;
	if (!has_python)
		return;
	python = bpf_map_lookup_elem(&python_processes, &pid);
	if (!python || python->execs != task->self_exec_id ||
	    python->started_ns != process_started_ns(task))
		return;
	id = python_thread_id(task);
	if (!id)
		return;
	if (!last->python_thread || python_word(last->python_thread + python->thread_id) != id) {
		last->python_thread = 0;
		if (last->python_pause) {
			last->python_pause--;
			return;
		}
		last->python_thread = python_thread_find(python, id);
		if (!last->python_thread) {
			last->python_pause = PYTHON_PAUSE;
			return;
		}
	}
	python_frames_read(python, seen, last->python_thread);
}

/* For Rust, by way of the object's BTF. */
const struct python_process wire_python_process = {};
const struct python_code_seen wire_python_code_seen = {};

#endif
