/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Where a Python interpreter keeps what its threads run, and names of what they run. */
#ifndef WHYLAT_PYTHON_H
#define WHYLAT_PYTHON_H

#include <linux/types.h>

/* Frames that are kept of a thread, the innermost. */
#define PYTHON_FRAMES 32
#define PYTHON_NAME_BYTES 96
#define PYTHON_FILE_BYTES 160

/* Of a field that this version does not have. */
#define PYTHON_NONE 0xffff

/* The interpreter of a process; offsets of fields, in bytes. */
struct python_process {
	__u64 runtime;	  /* address of _PyRuntime */
	__u64 started_ns; /* of the process, with `execs`: which program it is */
	__u32 execs;
	__u16 interpreters_head; /* of _PyRuntime */
	__u16 interpreter_next;
	__u16 threads_head; /* of an interpreter */
	__u16 thread_next;
	__u16 thread_id;
	__u16 thread_frame;  /* its innermost frame, or what has that */
	__u16 current_frame; /* of what has it; PYTHON_NONE: the thread itself has */
	__u16 frame_code;
	__u16 frame_previous;
	__u16 frame_owner;
	__u16 code_name;
	__u16 code_file;
	__u16 code_line;
	__u16 text_length;
	__u16 text_state;
	__u16 text_bytes; /* of an ASCII text: behind its header */
};

/* A text as the interpreter has it: user space knows its form. */
struct python_text {
	__u32 length; /* characters */
	__u32 state;
	__u32 bytes; /* that were copied */
	__u32 pad;
};

/* A function, when it is first seen. */
struct python_code_seen {
	__u64 code; /* address of its code object */
	__u64 started_ns;
	__u32 pid;
	__u32 execs;
	__u32 line;
	__u32 pad;
	struct python_text name;
	struct python_text file;
	__u8 name_bytes[PYTHON_NAME_BYTES];
	__u8 file_bytes[PYTHON_FILE_BYTES];
};

#endif
